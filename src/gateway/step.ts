import { setTimeout as sleep } from 'node:timers/promises'
import type { OperationName } from '../schema/operations.ts'
import type { Ending, Operation, Step, Target } from '../schema/provider.ts'
import {
  type Failure,
  type FailureKind,
  type Send,
  UpstreamFailure,
  type UpstreamReply,
  type UpstreamRequest,
} from '../schema/upstream.ts'
import type { Missed } from './failover.ts'
import { type CallRequest, Interrupted } from './gateway.ts'
import type { Handover } from './handover.ts'
import type { Held } from './held.ts'
import { isCurable } from './upstream-errors.ts'

type Stepper<Call, Result> = Omit<Operation<Call, Result>, 'streamed'>

/** A step that asks the provider something. */
type Asking = Exclude<Step<unknown>, Ending<unknown>>

/** Headers that name the trace that a request belongs to. */
export type TraceContext = Readonly<Record<string, string>>

/** A call, as far as its trace is concerned. */
type Traced = Pick<CallRequest<OperationName>, 'trail' | 'traceparent'>

/** How a stepper's requests go out. */
export interface Way {
  readonly send: Send
  readonly signal: AbortSignal
  readonly traceContext: TraceContext | undefined
  /** When the last step has to be done, on the clock of `performance.now()`. */
  readonly deadlineAtMs: number
  /** What the last answer takes. */
  readonly held: Held
  /** Of a job whose operation can be resumed; null: nobody goes on with what this attempt begins. */
  readonly handover: Handover | null
}

/** Headers by which a provider knows a request that is sent again, and does it once. */
const KEY_HEADERS = ['idempotency-key', 'x-idempotency-key'] as const
/** Such a provider is still at work on what an earlier claim has sent: the pause until it is asked again. */
const UNDER_WAY_MS = 2_000

/** How often in a row a GET without an answer is sent again: after 1 s, 2 s, 4 s … */
const RESENDS_MAX = 5
const FIRST_RESEND_MS = 1_000
/** A connection that died unnoticed would otherwise use up the time of the whole operation. */
const GET_DEADLINE_MS = 30_000
/** Failures without an answer; one that was too large would be so again. */
const UNANSWERED: ReadonlySet<FailureKind> = new Set(['connect', 'ambiguous'])

/** That the time of an attempt is over. */
export const LATE: Failure = Object.freeze({
  kind: 'ambiguous',
  status: null,
  reason: 'no answer before its deadline',
  retryAfterMs: null,
  providerMessage: null,
})

/** How long a provider has to take an order whose job another claim goes on with. */
const ORDER_GRACE_MS = 5_000
/** How long a provider has for what the answer does not depend on: to take note that it can stop, to delete. */
const TIDYING_DEADLINE_MS = 5_000

/** What an earlier claim has ordered, and nobody can ask after any more. */
const LOST: Failure = Object.freeze({
  kind: 'ambiguous',
  status: null,
  reason: 'what was ordered before cannot be asked after',
  retryAfterMs: null,
  providerMessage: null,
})

/**
 * Drives a provider's stepper: sends, waits, sends again, until it is done or failed. When it is given up on the way,
 * the provider is told so, where it can be; but not when another claim of the same job goes on with it. An answer can
 * still be had again by whoever takes the job over, so that what was kept of the order stays.
 *
 * @throws whatever keeps the gateway from going on: the signal's reason when the caller left, a store's failure
 */
export async function drive<Call, Result>(
  operation: Stepper<Call, Result>,
  call: Call,
  target: Target,
  way: Way,
): Promise<{ readonly result: Result } | Missed> {
  const { handover } = way
  const resumed = resume(operation, target, handover)
  if (resumed === null && handover?.kept && operation.createsOnce)
    return { failure: LOST, blamed: false, unknown: true }
  let next: Step<Result> = resumed ?? operation.start(call, target)
  let reply: UpstreamReply | null = null
  /** What `reply` is the answer to. */
  let asked: Asking | null = null
  // What is resumed was answered before: the order itself.
  let answers = resumed === null ? 0 : 1
  let state: unknown = null
  for (;;) {
    if (next.kind === 'done') return { result: next.result }
    if (next.kind === 'failed') {
      // A job that the provider itself calls failed needs no end; one that it says nothing of may go on.
      if (answers > 1 && !isGood(reply)) abandon(operation, state, target, way)
      const failure = looksBack(asked, answers - 1) && !isGood(reply) ? unseen(next.failure) : next.failure
      return missed(missedBy(operation, failure, reply, answers), handover)
    }
    state = next.state
    if (next.kind === 'wait') handover?.keep(state)
    try {
      way.signal.throwIfAborted()
      if (next.kind === 'wait') await pause(next.waitMs, way)
      // What the answer before said is in the state by now.
      way.held.release()
      reply = await answerTo(next, way)
      asked = next
      if (isTidying(next)) handover?.drop()
    } catch (error) {
      if (next.kind === 'send' && next.otherwise !== undefined && error instanceof UpstreamFailure) {
        way.signal.throwIfAborted()
        next = next.otherwise
        continue
      }
      if (answers > 0 && !isTakenOver(way)) abandon(operation, state, target, way)
      way.signal.throwIfAborted()
      if (!(error instanceof UpstreamFailure)) throw error
      const failure = looksBack(next, answers) ? unseen(error.failure) : error.failure
      const mayHaveArrived = answers > 0 || failure.kind !== 'connect'
      const unknown = operation.createsOnce === true && mayHaveArrived
      return missed({ failure, blamed: true, unknown }, handover)
    }
    answers += 1
    next = operation.next(state, reply, call, target)
  }
}

/** The step that goes on with what an earlier claim of the job has left; null: there is nothing to go on with. */
function resume<Call, Result>(
  operation: Stepper<Call, Result>,
  target: Target,
  handover: Handover | null,
): Step<Result> | null {
  if (!handover?.left) return null
  return operation.resume?.(handover.left.state, target) ?? null
}

/** What is known to have come to nothing is nothing to be gone on with; what may still be made is not forgotten. */
function missed(end: Missed, handover: Handover | null): Missed {
  if (!end.unknown) handover?.drop()
  return end
}

/** Whether the attempt ends for now only: another claim of the job goes on with what it has begun. */
function isTakenOver({ signal, handover }: Way): boolean {
  return signal.aborted && signal.reason instanceof Interrupted && handover?.kept === true
}

function isTidying(step: Asking): boolean {
  return step.kind === 'send' && step.otherwise !== undefined
}

/**
 * What it means that a stepper says `failed`. Of an order, the provider's own word ends it: that it is refused, in the
 * answer to the first request, or that it failed, in a good answer to a later one. Whatever else went wrong leaves open
 * what became of it.
 */
function missedBy<Call, Result>(
  { createsOnce }: Stepper<Call, Result>,
  failure: Failure,
  reply: UpstreamReply | null,
  answers: number,
): Missed {
  const said = answers === 1 ? !isGood(reply) : isGood(reply)
  const open = answers > 0 && isCurable(failure) && (!said || failure.kind === 'ambiguous')
  return { failure, blamed: answers > 0, unknown: createsOnce === true && open }
}

/** Whether a step only looks at what earlier requests, `before` of them, have set going. */
function looksBack(step: Asking | null, before: number): boolean {
  return before > 0 && step?.request.method === 'GET'
}

/** A look that failed, in whatever way: what was looked at may have been done. */
function unseen(failure: Failure): Failure {
  return { ...failure, kind: 'ambiguous' }
}

export function isGood(reply: Pick<UpstreamReply, 'status'> | null): boolean {
  return reply !== null && reply.status >= 200 && reply.status <= 299
}

/** Sends a request; a GET that gets no answer again and again, since it changes nothing. */
async function answerTo(step: Asking, way: Way): Promise<UpstreamReply> {
  const { request } = step
  const { send, deadlineAtMs, held } = way
  const signal = request.method === 'GET' ? way.signal : signalOfOrder(way)
  const upstream = traced(request, way.traceContext)
  const mostMs = deadlineMsOf(step)
  for (let resends = 0; ; resends += 1) {
    const deadlineMs = Math.min(mostMs, Math.max(1, deadlineAtMs - performance.now()))
    try {
      const reply = await send(upstream, { deadlineMs, signal, onHeld: held.charge })
      if (!isUnderWay(request, reply) || performance.now() + UNDER_WAY_MS >= deadlineAtMs) return reply
      held.release()
      await sleep(UNDER_WAY_MS, undefined, { signal })
    } catch (error) {
      const unanswered = error instanceof UpstreamFailure && UNANSWERED.has(error.failure.kind)
      if (request.method !== 'GET' || !unanswered || resends >= RESENDS_MAX) throw error
      const waitMs = FIRST_RESEND_MS * 2 ** resends
      if (performance.now() + waitMs >= deadlineAtMs) throw error
      await sleep(waitMs, undefined, { signal })
    }
  }
}

/** Whether the provider says that it does just that already, under the same key, and may be asked again. */
function isUnderWay({ headers }: Pick<UpstreamRequest, 'headers'>, reply: UpstreamReply): boolean {
  const mayAskAgain = reply.status === 409 && reply.headers['x-should-retry'] !== 'false'
  return mayAskAgain && KEY_HEADERS.some((name) => headers[name] !== undefined)
}

/**
 * Aborts a request that may be an order. When another claim of the job goes on, the answer is still waited for: without
 * it nobody would know of the order, and it would be made, and paid for, twice.
 */
function signalOfOrder({ signal, handover }: Way): AbortSignal {
  if (handover === null) return signal
  const order = new AbortController()
  const abort = () => order.abort(signal.reason)
  const leave = () => {
    if (signal.reason instanceof Interrupted) setTimeout(abort, ORDER_GRACE_MS).unref()
    else abort()
  }
  signal.addEventListener('abort', leave, { once: true })
  return order.signal
}

/** How long one answer may take, whatever time is left. */
function deadlineMsOf(step: Asking): number {
  if (isTidying(step)) return TIDYING_DEADLINE_MS
  return step.request.method === 'GET' ? GET_DEADLINE_MS : Number.POSITIVE_INFINITY
}

/** @throws UpstreamFailure at the deadline, when the wait would outlast it */
async function pause(waitMs: number, { deadlineAtMs, signal }: Way): Promise<void> {
  const leftMs = Math.max(0, deadlineAtMs - performance.now())
  await sleep(Math.min(waitMs, leftMs), undefined, { signal })
  if (waitMs >= leftMs) throw new UpstreamFailure(LATE)
}

/** Tells the provider that nobody waits any more; best effort, behind the back of the answer. */
function abandon<Call, Result>(
  operation: Stepper<Call, Result>,
  state: unknown,
  target: Target,
  { send }: Way,
): void {
  const request = operation.abandon?.(state, target) ?? null
  if (request === null) return
  const options = { deadlineMs: TIDYING_DEADLINE_MS, signal: new AbortController().signal, onHeld: () => {} }
  void send(request, options).catch(() => {})
}

/** The trace context that goes to a provider: the attempt's own, or the caller's where there is no tracing. */
export function traceContextOf({ trail, traceparent }: Traced): TraceContext | undefined {
  return trail.trace?.headers() ?? (traceparent === undefined ? undefined : { traceparent })
}

/** Passes a trace context on. */
export function traced(upstream: UpstreamRequest, context: TraceContext | undefined): UpstreamRequest {
  return context === undefined ? upstream : { ...upstream, headers: { ...upstream.headers, ...context } }
}
