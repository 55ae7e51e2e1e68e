import type { RecordedFailure } from '../../../contracts/console.ts'
import type { SessionFacts } from '../../../contracts/live.ts'
import type { ExplainRow } from '../../../gateway/call/select/verdict.ts'

// Answers about recorded requests, in wire names; times are RFC 3339. The page is typed by the same.

/** GET /endpoints */
export interface EndpointsAnswer {
  /** As requests are recorded: the pattern of the path, in the order of the reference. */
  readonly paths: readonly string[]
}

/** GET /workspaces/:workspace/requests, newest first */
export interface RequestsAnswer {
  readonly requests: readonly RequestAnswer[]
  /** Null: the workspace had no requests in the last hour, or too few to be counted. */
  readonly coverage: Coverage | null
}

/** How much of the last hour was recorded. */
export interface Coverage {
  readonly requests: number
  readonly recorded: number
  /** Failed requests that are not recorded, since there were too many at once. */
  readonly failures_dropped: number
}

/** One of them; GET …/requests/:record, by its `record_id` or (the newest) by the id of the request */
export interface RequestAnswer {
  /** Unique. The id of a request is not: a job has its submission and its runs, and callers may repeat one. */
  readonly record_id: string
  readonly id: string
  readonly at: string
  readonly app: string
  readonly key_id: string
  /** Null: the key is not known any more. */
  readonly key_name: string | null
  readonly method: string
  readonly path: string
  readonly status: number | null
  readonly error: string | null
  /** Null: it did not fail, or its code says it all. */
  readonly failure: FailureAnswer | null
  readonly milliseconds: number
  readonly added_milliseconds: number | null
  readonly received_bytes: number
  readonly sent_bytes: number
  readonly route: string | null
  readonly policy_version_id: string | null
  readonly job_id: string | null
  readonly replayed: boolean
  /** `hit`: the answer is speech made for an earlier call; null: its route keeps none. */
  readonly cache: 'hit' | 'miss' | null
  readonly attempts: readonly {
    readonly provider: string
    readonly model: string
    /** Place of the server in the provider's `base_urls`; absent: it has one address. */
    readonly replica?: number
    readonly status: number | null
    readonly milliseconds: number
    readonly reason: string
  }[]
  readonly usage: Readonly<Record<string, number | null>> | null
  readonly cost_usd: number | null
  /** Outcome of a live session; null: it was none. */
  readonly live: SessionFacts | null
}

/** Why a request failed. Names and words of ours, and never what was sent. */
export interface FailureAnswer
  extends Pick<RecordedFailure, 'param' | 'rule' | 'reason' | 'missing' | 'limit'> {
  /** The general sentence of its code. */
  readonly message: string
  readonly entries: readonly VerdictAnswer[]
  readonly more_entries: number
}

export type VerdictAnswer = Pick<ExplainRow, 'route' | 'provider' | 'model' | 'missing' | 'conflict'> & {
  readonly left: string | null
  readonly param: string | null
  readonly retry_after_ms: number | null
}
