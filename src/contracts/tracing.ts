import type { Entry } from './catalog.ts'
import type { ErrorCode } from './errors.ts'
import type { OperationName } from './operations.ts'
import type { Failure } from './upstream.ts'

/** Attributes of a span: values by name, undefined ones left out. Never text that a caller chose. */
export type SpanFacts = Readonly<Record<string, string | number | boolean | undefined>>

/** Phases of a call that have spans of their own, beside its attempts. */
export type TraceStep = 'admit' | 'body' | 'fetch' | 'reserve' | 'settle'

/** Moments of a live session. Each final would be too many for a span. */
export type TraceMoment = 'live.connected' | 'live.switched' | 'live.ended'

/** Usage and cost of an answer. */
export interface TracedAnswer {
  /** In wire names. */
  readonly usage: Readonly<Record<string, number | null>>
  readonly costUsd: number | null
}

/** How a request, or a run of a job, ended. */
export interface TraceEnd {
  /** HTTP status of the answer; null for a job. */
  readonly status: number | null
  readonly error: ErrorCode | undefined
  readonly facts: SpanFacts
}

/**
 * The spans of one request, or of one run of a job. It hangs on the call's context, and is null there when tracing is
 * off: every use is a line `context.trace?.…` of its own, or asks first, `context.trace?.… ?? …`, so that tracing
 * costs one look at a property while it is off. That cost is measured against sources out of which these lines are cut.
 *
 * No function here ever throws, waits, or changes a span that has ended.
 */
export interface Trace {
  /** 32 hex digits. */
  readonly traceId: string
  /** W3C trace context of the outermost span, for work that continues after the request. */
  readonly traceparent: string
  /** A step begins; the one before is over. */
  begin(step: TraceStep): void
  /** The step is over, if there is one. */
  end(): void
  /** The request is refused, or the call has failed: so has the current step. */
  failed(error: ErrorCode): void
  /**
   * An entry is asked. Its span lasts until `attemptEnded` or `attemptLeft`.
   *
   * @param baseUrl of the server among its replicas; undefined: its provider has one address
   */
  attempt(operation: OperationName, entry: Entry, baseUrl?: string): void
  /** Trace context in headers, for whom the attempt that is under way asks. */
  headers(): Readonly<Record<string, string>>
  /** The first piece of a streamed answer is here. */
  begun(): void
  /** @param failure null: the whole of the answer came */
  attemptEnded(status: number | null, failure: Failure | null): void
  /** The end of the attempt is unknown: the caller left, or the gateway could not continue. */
  attemptLeft(): void
  metered(answer: TracedAnswer): void
  /** The step that settles is over when this has resolved; null: now. Never rejects. */
  settling(settled: Promise<unknown> | null): void
  /** Something happened within the outermost span. */
  event(moment: TraceMoment, facts: SpanFacts): void
  /** The outermost span is over. Attempts and settling may go on. */
  finish(end: TraceEnd): void
}

/** Facts of a request once its head has arrived. */
export interface TracedRequest {
  readonly method: string
  readonly requestId: string
  /** Lower-case names. Of these only `traceparent` and `tracestate` are looked at. */
  readonly headers: Readonly<Record<string, string>>
  /** Milliseconds since the head came. */
  readonly elapsedMs: number
}

/** A run of a job. */
export interface TracedJob {
  readonly id: string
  readonly requestId: string
  /** Fencing number of the claim. */
  readonly fence: number
  /** Trace context of the request that submitted it. */
  readonly traceparent: string | null
}

/** Makes spans, and sends those that are sampled to a receiver, without the callers' knowledge or delay. */
export interface Tracing {
  /** @param route pattern of its path */
  request(request: TracedRequest, route: string): Trace
  job(job: TracedJob, operation: OperationName): Trace
  /** Sends what is left, for some seconds at most. */
  close(): Promise<void>
}
