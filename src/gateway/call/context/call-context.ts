import type { CancelSignal } from '../../../contracts/cancellation.ts'
import type { EndUser, Principal, Route } from '../../../contracts/catalog.ts'
import type { GatewayError } from '../../../contracts/errors.ts'
import type { SessionFacts } from '../../../contracts/live.ts'
import type { OperationName } from '../../../contracts/operations.ts'
import type { RateDecision } from '../../../contracts/rate-limit.ts'
import type { AttemptRecord, EndedExchange } from '../../../contracts/recorder.ts'
import type { RecordedCall } from '../../../contracts/sample.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { Trace } from '../../../contracts/tracing.ts'
import type { Call } from '../facts/call.ts'
import type { UnitLevel } from '../facts/units.ts'
import { requirementsFor } from '../select/eligibility.ts'
import { recordedCall } from '../select/sample.ts'
import type { PurposeResolution } from '../select/selection.ts'
import { CallMoney } from './call-money.ts'

/** Start and end of the trace id in a `traceparent`: W3C Trace Context, 3.2. */
const TRACE_ID = [3, 35] as const

/** An idempotency slot as it was when its request came. */
export interface SlotSeen {
  readonly id: string
  /** It was in use: a hint. */
  readonly taken: boolean
}

/** Origin of a call: an HTTP exchange, or a claim of a job. */
export interface CallOrigin extends Partial<EndedExchange> {
  readonly requestId: string
  /** The call that this one is a part of, such as a live session; absent: none. What it costs is that one's, too. */
  readonly partOf?: CallContext
  /** Aborts when the caller has left. Made when it is first read, which most requests never do. */
  readonly signal: CancelSignal
}

/** Where a call goes, as it becomes known. */
export class CallRouting {
  /** The call that entries were selected for, or refused; the first selection of a live session is its own. */
  selected: Call | null = null
  /** Version of the route that served the call, or would have, which every answer names. Null until it is known. */
  policyVersionId: string | null = null
  /** Name of the route of that version; null where only the version is known. */
  route: string | null = null
  /** Null until a route was chosen. */
  purpose: PurposeResolution | null = null
  /** True when the entry that was asked last belongs to the purpose. */
  forPurpose = false
  attempts: AttemptRecord[] = []
  /** Outcome of an attempt that was begun while its audio came; null: none was. */
  cutThrough: 'used' | 'dropped' | null = null

  /** Records the route that serves the call, or would have. */
  noteRoute({ name, version }: Route): void {
    this.route = name
    this.policyVersionId = version
  }
}

/** The facts that an answer tells beside its result. */
export class CallAnswer {
  /** Headers that every answer carries from now on, errors too, beside those of the facts below. */
  readonly headers: Record<string, string> = {}
  /** State of the key's bucket, which every answer tells; null: it was not asked. */
  bucket: RateDecision | null = null
  /** State of the bucket of tokens, or of audio seconds; null: the call is not limited by any. */
  units: UnitLevel | null = null
  /** The answer is one that was given before. */
  replayed = false
  /** `hit`: the answer is speech that was made for another call; null: its route keeps none. */
  cache: 'hit' | 'miss' | null = null
  /** Format of the provider that the speech of the answer was made of here; null: it is as the provider made it. */
  encodedFrom: string | null = null
}

/**
 * The one context of a call: who asks, and what becomes known on the way. It is kept when the call fails, so that the
 * answer has its headers and the log line its facts.
 */
export class CallContext {
  readonly #origin: CallOrigin
  /** W3C trace context that the caller sent, passed on to the provider; undefined: none, or not valid. */
  readonly traceparent: string | undefined
  /** Null when tracing is off. How it is used: see `Trace`. */
  trace: Trace | null = null
  readonly routing = new CallRouting()
  readonly money: CallMoney
  readonly answer = new CallAnswer()
  /** Null until the caller is authenticated. */
  principal: Principal | null = null
  /** The end user of the call; null: the caller named none. */
  endUser: EndUser | null = null
  /** Slot of the caller's idempotency key; null without one. */
  slot: SlotSeen | null = null
  /** Null until it is known. */
  operation: OperationName | null = null
  /** The job that the request is about; null: none. */
  jobId: string | null = null
  /**
   * Milliseconds spent waiting for others than this node and its stores: for attempts (of a streamed answer, its first
   * delta), for audio behind a URL, for a video that is fetched, for what a caller asked to wait for.
   */
  upstreamWaitMs = 0
  /** Facts of a live session, beside those of every call; null: it is none. */
  live: SessionFacts | null = null
  /** Id of the live session; null: it is none. */
  sessionId: string | null = null
  /** Why the call failed, also after the beginning of a streamed answer; null: it did not. */
  failure: GatewayError | null = null

  constructor(origin: CallOrigin, traceparent?: string) {
    this.#origin = origin
    this.money = new CallMoney(origin.partOf?.money ?? null)
    this.traceparent = traceparent
  }

  /** Id of the request, which is the `id` of its answer. */
  get id(): string {
    return this.#origin.requestId
  }

  get traceId(): string | null {
    return this.trace?.traceId ?? this.traceparent?.slice(...TRACE_ID) ?? null
  }

  /** Aborts when the caller has left. */
  get signal(): CancelSignal {
    return this.#origin.signal
  }

  /** The exchange that the call came by; null: it is of a job, or a part of another. */
  get exchange(): EndedExchange | null {
    return this.#origin.pattern === undefined ? null : (this.#origin as EndedExchange)
  }

  /** The call that this one is a part of, or itself. */
  get whole(): CallContext {
    return this.#origin.partOf?.whole ?? this
  }

  /** The same context, of a call whose caller is known from now on. */
  identify(principal: Principal): AdmittedContext {
    this.principal = principal
    return this as AdmittedContext
  }

  /**
   * The context of a call that is made for this one, and metered by itself: of the same caller and end user. What it is
   * charged is this one's, too.
   */
  within(this: AdmittedContext, signal: CancelSignal): AdmittedContext {
    const context = new CallContext({ requestId: this.id, signal, partOf: this }, this.traceparent)
    context.endUser = this.endUser
    return context.identify(this.principal)
  }

  /**
   * Id of whom the call is for, as far as it may be kept for good: as a hash, or where nothing forbids it. What a call
   * demands is only known for certain once its entries were selected.
   */
  get keptEndUser(): string | null {
    const { endUser, principal } = this
    if (endUser === null || principal === null) return null
    if (principal.workspace.endUsers?.isHashed === true) return endUser.id
    const { selected } = this.routing
    if (selected === null) return null
    return requirementsFor(selected.selectors, principal)?.retentionDays === 0 ? null : endUser.id
  }

  recordedCall(): RecordedCall | null {
    const { selected } = this.routing
    return selected === null || this.principal === null ? null : recordedCall(selected, this.principal)
  }

  /** Counts a wait for something that is neither this node nor one of its stores. */
  async externalWait<Value>(awaited: Promise<Value>, clock: Clock): Promise<Value> {
    const startMs = clock.now()
    try {
      return await awaited
    } finally {
      this.upstreamWaitMs += clock.now() - startMs
    }
  }
}

/** The context of a call whose caller is authenticated. */
export interface AdmittedContext extends CallContext {
  readonly principal: Principal
}
