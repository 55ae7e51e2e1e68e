import type { Entry } from './catalog.ts'
import type { OperationName } from './operations.ts'
import type { FailureKind } from './upstream.ts'

/** How an attempt ended; `abandoned`: the caller left, or this node could not go on. */
export type AttemptOutcome = 'ok' | FailureKind | 'abandoned'

/** An attempt that is over. */
export interface WatchedAttempt {
  readonly entry: Entry
  readonly operation: OperationName
  readonly outcome: AttemptOutcome
  /** From its beginning to its end: of a streamed answer, to its last piece. */
  readonly milliseconds: number
  /** Until the first piece of a streamed answer was here; null: it was not streamed, or none came. */
  readonly firstDeltaMs: number | null
  /** It followed one that had failed. */
  readonly failover: boolean
}

/** Is told what becomes of calls, whichever door they came in by. Nothing of it throws. */
export interface CallWatch {
  attempted(attempt: WatchedAttempt): void
  /** Reports the metered usage of an answer, in wire names. */
  metered(entry: Entry, operation: OperationName, usage: Readonly<Record<string, number | null>>): void
  /** Reports the cost of a call at an entry, answered or not. */
  charged(entry: Entry, spendMicros: number): void
}
