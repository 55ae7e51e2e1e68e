import type { GatewayError } from '../errors.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { Entry, KeyBook, Principal, Snapshot } from '../schema/catalog.ts'
import type { UpstreamProgress } from '../schema/jobs.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import type { Provider } from '../schema/provider.ts'
import type { Selectors } from '../schema/selectors.ts'
import type { SlotResults } from '../schema/slot-results.ts'
import type { State } from '../schema/state.ts'
import type { Trace } from '../schema/tracing.ts'
import type { Failure, OpenStream, Send } from '../schema/upstream.ts'
import type { CallWatch } from '../schema/watch.ts'
import type { AccountViews } from './account-views.ts'
import type { HealthBook } from './health.ts'
import type { LatencyBook } from './latency.ts'
import type { Metered, Usage } from './meter.ts'
import type { PurposeResolution } from './purpose.ts'
import type { Settlements } from './settlements.ts'
import type { UsageBook } from './usage-book.ts'

/** What the gateway works with; built once by `main`. */
export interface Services {
  /** The configuration in force; asked anew by every call. */
  readonly snapshot: () => Snapshot
  readonly providers: ReadonlyMap<string, Provider>
  readonly keys: KeyBook
  readonly state: State
  readonly settlements: Settlements
  readonly usage: UsageBook
  readonly accountViews: AccountViews
  readonly slotResults: SlotResults
  readonly send: Send
  /** The same for an answer that is read as it comes. */
  readonly open: OpenStream
  readonly budget: ByteBudget
  /** Uniform in [0, 1), for weighted routes. */
  readonly random: () => number
  readonly latency: LatencyBook
  readonly health: HealthBook
  /** Absent: nobody counts. */
  readonly watch?: CallWatch
}

/** A call as a door hands it over, once its body is complete. */
export interface Call<K extends OperationName> {
  readonly payload: Calls[K]
  readonly selectors: Selectors
  /** Lines for `warnings` that came up while the request was read. */
  readonly warnings: readonly string[]
}

/** What a door gives the gateway: who asks, and for what. */
export interface CallRequest<K extends OperationName> {
  readonly id: string
  readonly operation: K
  readonly authorization: string | undefined
  /** W3C trace context, passed on to the provider; undefined when the caller sent none of that form. */
  readonly traceparent: string | undefined
  readonly signal: AbortSignal
  readonly trail: Trail
  readonly call: Call<K>
  /** The job that it is made for; absent: a caller waits for it. */
  readonly job?: JobContext
}

/** What a call for a job is bound to. */
export interface JobContext {
  /** Token of what it costs: the customer is charged once for it, however many workers take it up. */
  readonly id: string
  /** Fencing number of the claim. */
  readonly claim: number
  /** How often it was tried before, and providers failed. */
  readonly retries: number
  /** How long the call may take, in place of the synchronous deadline. */
  readonly deadlineMs: number
  /** What an earlier claim left at a provider; null: nothing. */
  readonly progress: UpstreamProgress | null
  /**
   * Keeps what a provider works on from now on. The call goes on meanwhile, and also when it could not be kept. Null:
   * there is nothing to be gone on with any more.
   */
  note(progress: UpstreamProgress | null): void
}

/**
 * The reason with which a job's signal is aborted when another claim goes on with it: this one ends without a word to
 * the state, what it has set aside included.
 */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
}

/** One attempt, for the log and for `details.attempts`. */
export interface AttemptRecord {
  readonly provider: string
  readonly model: string
  readonly status: number | null
  readonly milliseconds: number
  /** `ok`, or why it failed, in our words. */
  readonly reason: string
  readonly failure: Failure | null
}

/** An idempotency slot as it was when its request came. */
export interface SlotSeen {
  readonly id: string
  /** It was in use: a hint. */
  readonly taken: boolean
}

/**
 * What becomes known of a call on its way, kept even when it fails: the headers that every answer carries
 * from then on and the facts of the log line.
 */
export interface Trail {
  /** Null when tracing is off. How it is used: see `Trace`. */
  trace: Trace | null
  readonly headers: Record<string, string>
  principal: Principal | null
  /** Where the caller's idempotency key is kept; null without one. */
  slot: SlotSeen | null
  /** The answer is one that was given before. */
  replayed: boolean
  /** The job that the request is about; null: none. */
  jobId: string | null
  policyVersionId: string | null
  /** Name of the route of that version; null where only the version is known. */
  route: string | null
  /** Null until a route was chosen. */
  purpose: PurposeResolution | null
  /** Whether the entry that was asked last stands for the purpose. */
  forPurpose: boolean
  attempts: AttemptRecord[]
  /**
   * Milliseconds that were waited for others than this node and its stores: for attempts (of a streamed answer, its
   * first piece), for audio of a URL, for a video that is handed over, for what a caller has asked to wait for.
   */
  elsewhereMs: number
  usage: Usage | null
  costUsd: number | null
  /**
   * What the attempt that is under way, or that ended without its answer being seen, comes to by all that could be seen
   * before; null: there is none. Worked out by whoever asks, since most calls end well.
   */
  estimate: { readonly entry: Entry; metered(): Metered } | null
  /** What the call ended with when it did not succeed, also behind the beginning of a streamed answer. */
  failure: GatewayError | null
}

export function newTrail(): Trail {
  return {
    trace: null,
    headers: {},
    principal: null,
    slot: null,
    replayed: false,
    jobId: null,
    policyVersionId: null,
    route: null,
    purpose: null,
    forPurpose: false,
    attempts: [],
    elsewhereMs: 0,
    usage: null,
    costUsd: null,
    estimate: null,
    failure: null,
  }
}
