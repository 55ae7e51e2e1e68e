import type { StoredModels } from './models.ts'

/**
 * Kinds of catalog records in the state, beside the file. `head` is the settings at the top of the file, and
 * its record has the name `head`.
 */
export const RECORD_KINDS = ['head', 'plan', 'workspace', 'purpose', 'app', 'provider', 'route'] as const
export type RecordKind = (typeof RECORD_KINDS)[number]

/**
 * Which record: purposes and apps are named within their workspace, the others for all. A name belongs to its owner as
 * long as there is a draft or a published version of it: in another's name it is not found, and a change conflicts.
 */
export interface RecordName {
  readonly kind: RecordKind
  /** Its owner; null for the head, plans, and providers of the platform. A workspace is its own. */
  readonly workspace: string | null
  readonly name: string
}

/** The part of the catalog that was changed last under this name, as the file would have it. */
export type RecordFields = Readonly<Record<string, unknown>>

export interface RecordDraft {
  readonly fields: RecordFields
  /** Grows with every change of the draft, and never comes back. */
  readonly revision: number
  readonly atMs: number
  readonly by: Actor
}

/** Immutable. */
export interface RecordVersion {
  /** From 1 on, without a gap. */
  readonly number: number
  readonly fields: RecordFields
  /** SHA-256 of the canonical JSON of the fields, lower-case hex. */
  readonly hash: string
  readonly atMs: number
  readonly by: Actor
  /** Why, e.g. `rolled back to 3`; null: no reason was given. */
  readonly note: string | null
}

/** A record as it stands; neither draft nor published: it was removed, and its versions are still kept. */
export interface CatalogRecord extends RecordName {
  readonly draft: RecordDraft | null
  readonly published: RecordVersion | null
}

/** A record in a list: without fields, since those of a workspace may be megabytes. */
export interface CatalogEntry extends RecordName {
  readonly hasDraft: boolean
  readonly isPublished: boolean
}

/** All that is published, of one and the same moment. */
export interface PublishedCatalog {
  /** Changes with every publication and removal, by whichever process. */
  readonly version: string
  readonly records: readonly (RecordName & RecordVersion)[]
}

/** Author of a change, and the interface it came through. */
export interface Actor {
  readonly via: 'console' | 'api' | 'cli'
  /** Null for the command line, which needs none, and for a person who signed in without one. */
  readonly keyId: string | null
  readonly name: string
  /** How their OpenID provider names a person, for good; absent: it was none. */
  readonly subject?: string
}

export type CatalogStep =
  /** `revision` of the draft that it replaces; null: there is none. */
  | {
      readonly do: 'draft'
      readonly record: RecordName
      readonly fields: RecordFields
      readonly revision: number | null
    }
  | { readonly do: 'discard'; readonly record: RecordName }
  /**
   * Makes the next version and puts it in force. `keeps` is the revision of the draft that there has to be, and that
   * stays as it is; without it whichever draft there is is dropped.
   */
  | {
      readonly do: 'publish'
      readonly record: RecordName
      readonly fields: RecordFields
      readonly hash: string
      readonly note: string | null
      readonly keeps?: number
    }
  /** Takes draft and published version away; where there is neither, it does nothing. */
  | { readonly do: 'remove'; readonly record: RecordName }

export interface CatalogChange {
  /** Unique to this change. Sent again with it, a change is made once and answers the same. */
  readonly token: string
  /** The version of the published catalog that it was checked against; null: it may be any. */
  readonly expected: string | null
  /** All or none, each after what the one before has made: a draft that is checked first can be published then. */
  readonly steps: readonly CatalogStep[]
  readonly by: Actor
  readonly audit: readonly AuditNote[]
}

export type CatalogChanged =
  /** The version of the published catalog after it. */
  | { readonly state: 'done'; readonly version: string }
  /** The published catalog, or a draft, is not the one that the change was made for. Nothing was changed. */
  | { readonly state: 'conflict' }

/** One line of the audit list. */
export interface AuditNote {
  readonly by: Actor
  /** `route.publish`, `key.revoke`, … */
  readonly action: string
  /** Workspace whose admins may read it; null: operators only. */
  readonly workspace: string | null
  /** The thing that was changed, e.g. `route/acme.voice`. */
  readonly target: string
  /** SHA-256 of the value before and after the change, lower-case hex; null: there was none. */
  readonly before: string | null
  readonly after: string | null
  /** In words; never a secret. Null: nothing to say. */
  readonly detail: string | null
}

export interface AuditLine extends AuditNote {
  /** Position in the list: grows without gaps. */
  readonly number: number
  readonly atMs: number
}

/**
 * The part of the catalog that is made in the console, its drafts and its versions, and the list of all changes, which
 * is only ever added to. Every method is one atomic step, takes its time from the clock of the state, answers within
 * 2 s, and throws GatewayError DEPENDENCY_UNAVAILABLE when the state does not answer.
 */
export interface CatalogStore {
  /** Version of the published catalog. */
  version(): Promise<string>
  published(): Promise<PublishedCatalog>
  /** Resolves to null when there never was one of this name. */
  get(record: RecordName): Promise<CatalogRecord | null>
  /** Those with a draft or a published version, of one workspace or (null) all, in the order of their ids. */
  list(workspace: string | null): Promise<readonly CatalogEntry[]>
  /** Newest first. @param below only versions with smaller numbers; null: from the newest on */
  versions(record: RecordName, below: number | null, limit: number): Promise<readonly RecordVersion[]>
  /** Null: there is no such version. */
  versionOf(record: RecordName, number: number): Promise<RecordVersion | null>
  change(change: CatalogChange): Promise<CatalogChanged>
  /** The document of facts about models beside the one of the program; null: none. */
  models(): Promise<StoredModels | null>
  /**
   * Puts another in its place, or (null) takes it away. The version of the published catalog changes with it.
   * Idempotent by the token.
   */
  putModels(token: string, models: StoredModels | null, note: AuditNote): Promise<void>
  /** Adds a line about something that is kept elsewhere: a key, a webhook. Idempotent by the token. */
  note(token: string, note: AuditNote): Promise<void>
  /** Newest first, of one workspace or (null) all. @param below only lines with smaller numbers */
  audit(workspace: string | null, below: number | null, limit: number): Promise<readonly AuditLine[]>
}

/** Names a record in the state and in the audit list: `route/acme.voice`, `app/acme/web`. */
export function recordId({ kind, workspace, name }: RecordName): string {
  return kind === 'app' || kind === 'purpose' ? `${kind}/${workspace}/${name}` : `${kind}/${name}`
}
