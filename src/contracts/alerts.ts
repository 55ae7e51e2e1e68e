export const ALERT_KINDS = [
  'budget',
  'end_user_budget',
  'error_share',
  'breaker_open',
  'dead_webhooks',
  'backlog',
  'model_ends',
  'state_lost',
] as const
export type AlertKind = (typeof ALERT_KINDS)[number]

/** A rule: the figure that it watches, and the threshold of an incident. A narrowing that is null means all. */
export type AlertCondition =
  /** Spending of a month, of workspaces and keys that have a budget; `share` of the budget. */
  | { readonly kind: 'budget'; readonly share: number; readonly workspace: string | null }
  /** Spending of a month, of end users that have a budget; `share` of the budget. */
  | { readonly kind: 'end_user_budget'; readonly share: number; readonly workspace: string | null }
  /** Attempts at a model that failed within the window, of at least so many. */
  | {
      readonly kind: 'error_share'
      readonly share: number
      readonly minCalls: number
      readonly windowMs: number
      readonly provider: string | null
    }
  /** A breaker that was not closed all the time, on one node at least. */
  | { readonly kind: 'breaker_open'; readonly forMs: number; readonly provider: string | null }
  /** Webhook events of a workspace that were given up within the window. */
  | {
      readonly kind: 'dead_webhooks'
      readonly events: number
      readonly windowMs: number
      readonly workspace: string | null
    }
  /** Jobs that are ready to be taken up; null: does not count. */
  | { readonly kind: 'backlog'; readonly jobs: number | null; readonly ageMs: number | null }
  /** Models of entries whose last day is announced. */
  | { readonly kind: 'model_ends'; readonly days: number }
  /** The state has lost what it held. */
  | { readonly kind: 'state_lost' }

export type AlertRule = { readonly name: string } & AlertCondition

/** The rules, and the receivers of alerts. */
export interface AlertTerms {
  readonly url: string
  /** `whsec_…`, in the clear: never logged, never returned. */
  readonly secret: string
  /** How long the cause has to be gone until an incident is over. */
  readonly recoverAfterMs: number
  readonly rules: readonly AlertRule[]
}

/** A rule that is broken by something, from its announcement until that of its end. Plain JSON. */
export interface Incident {
  /** `inc_…` */
  readonly id: string
  /** Name of the rule. */
  readonly rule: string
  readonly kind: AlertKind
  /**
   * The subject that breaks it, out of names of the configuration and ids of keys and end users: `workspace`, `key`,
   * `end_user`, `provider`, `model` …
   */
  readonly subject: Readonly<Record<string, string>>
  /**
   * Workspace whose share of the rule's incidents it takes up, since it can make many of them itself; absent: none has
   * made it, or an earlier version began it.
   */
  readonly owner?: string
  readonly openedAtMs: number
  /** A budget is spent, or has too little left for a call; absent: it is about something else, or some is left. */
  readonly isExhausted?: boolean
  /** The highest figure since it is exhausted. */
  readonly peak?: number
  /** The figure as it was seen last, and the one of the rule, both in the unit of the rule. */
  readonly value: number
  readonly threshold: number
}

/** The event that tells of an incident. */
export interface AlertEvent {
  /** `evt_…` */
  readonly id: string
  /** Epoch milliseconds. */
  readonly occurredAtMs: number
  /** JSON. */
  readonly body: string
}

/** Where the outbox keeps them among the workspaces, whose names begin with a letter or a digit. */
export const ALERTS_WORKSPACE = '*alerts'

/** The same for the same rule and subject: there is one open incident of a name. */
export function incidentName({ rule, subject }: Pick<Incident, 'rule' | 'subject'>): string {
  return JSON.stringify([rule, ...Object.entries(subject).sort(([a], [b]) => (a < b ? -1 : 1))])
}

/**
 * Incidents that are open, of all nodes. Each change is one atomic step with the event that tells of it (`Outbox`), so
 * that none is told twice, whoever else looks at the same figures. Times and failures as in `Jobs`.
 */
export interface Alerts {
  open(): Promise<readonly Incident[]>
  /** @returns false when one of its name is open, and nothing changed */
  begin(incident: Incident, event: AlertEvent): Promise<boolean>
  /**
   * Keeps the newest facts about an incident.
   *
   * @param before as it was read
   * @param event  null: no one is told
   * @returns false when it is not open any more, or another by now, and nothing changed
   */
  update(before: Incident, after: Incident, event: AlertEvent | null): Promise<boolean>
  /** @returns false when it is not open any more, and nothing changed */
  end(incident: Incident, event: AlertEvent): Promise<boolean>
}
