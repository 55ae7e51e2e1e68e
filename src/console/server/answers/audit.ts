// Answers about the audit list, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /audit?workspace=…&actor=…&target=…&from=…&to=…&below=<number> */
export interface AuditListAnswer {
  /** Newest first. */
  readonly lines: readonly AuditAnswer[]
  /** The next page begins below it; null: there is none. */
  readonly next: number | null
}

export interface AuditAnswer {
  readonly number: number
  readonly at: string
  readonly by: {
    readonly via: 'console' | 'api' | 'cli'
    readonly key_id: string | null
    readonly name: string
    /** How their OpenID provider names a person, for good; absent: it was none. */
    readonly subject?: string
  }
  readonly action: string
  readonly workspace: string | null
  readonly target: string
  readonly before: string | null
  readonly after: string | null
  readonly detail: string | null
}
