import type { JobStatus } from './jobs.ts'

/**
 * The announcement of a job's end, to be delivered to the workspace's webhook or to the job's own callback; or what is
 * told of an incident, to be delivered to the webhook of alerts.
 */
export interface WebhookEvent {
  /** `evt_…`, of a callback `cbk_…`: the same over all attempts. */
  readonly id: string
  /** An alert has the event's own. */
  readonly jobId: string
  readonly workspace: string
  readonly status: Extract<JobStatus, 'succeeded' | 'failed' | 'cancelled'> | 'alert'
  /** When the job ended, epoch milliseconds. */
  readonly occurredAtMs: number
  /** Deliveries that were begun, this one included once it is claimed. */
  readonly attempts: number
  /** JSON, of an alert. Absent: it is made of what stands here. */
  readonly body?: string
}

/** An event that waits for its next attempt, or that was given up. */
export interface EventView extends Omit<WebhookEvent, 'body'> {
  /** When it is tried next, epoch milliseconds; null: it was given up. */
  readonly nextAttemptAtMs: number | null
  /** Why the last attempt failed, in our words; null: no attempt was made. */
  readonly reason: string | null
}

export interface EventClaiming {
  readonly limit: number
  /** An event whose sender dies is handed out again after this long. */
  readonly leaseMs: number
  /** Most deliveries to one workspace at a time, over all nodes. */
  readonly perWorkspace: number
  /** The same to one whose last attempt failed: many of them must not fill all places while they time out. */
  readonly perAiling: number
}

export type EventEnding =
  | { readonly state: 'delivered' }
  /** There is no webhook to deliver to. */
  | { readonly state: 'dropped' }
  | { readonly state: 'retry'; readonly delayMs: number; readonly reason: string }
  /** Kept for operators for `keepMs`. */
  | { readonly state: 'given_up'; readonly reason: string; readonly keepMs: number }

export interface GivenUp {
  readonly workspace: string
  readonly events: number
}

/**
 * Events of jobs that have ended and of alerts, each delivered at least once. They are written by the step that ends
 * their job or changes their incident. Times and failures as in `Jobs`.
 */
export interface Outbox {
  /** Events whose time has come, workspaces in turn; those whose last attempt failed come after the others. */
  claim(claiming: EventClaiming): Promise<readonly WebhookEvent[]>
  /** Ends an attempt. @returns false when the event is not at this attempt any more, and nothing changed */
  end(event: Pick<WebhookEvent, 'jobId' | 'attempts'>, ending: EventEnding): Promise<boolean>
  /** Lists the events of one workspace or of all that wait or were given up, newest first. */
  list(workspace: string | null, limit: number): Promise<readonly EventView[]>
  /**
   * Delivers an event again, from its first attempt on: one that waits, was given up, or was delivered, as long as
   * the record of its job is kept. @returns false when there is none
   */
  redeliver(jobId: string): Promise<boolean>
  /** How many events of each workspace were given up and are kept past a moment; of very many, some thousands. */
  givenUp(keptPastMs: number): Promise<readonly GivenUp[]>
}
