import { hash } from 'node:crypto'
import { type ByteBudget, MEMORY_WAIT_MS, type ReserveOptions } from '../../../contracts/budget.ts'
import type { CancelSignal } from '../../../contracts/cancellation.ts'
import type { Entry } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { OperationName, Results } from '../../../contracts/operations.ts'
import type { Ending, Operation, Step, Target } from '../../../contracts/provider.ts'
import { type Clock, sleep } from '../../../contracts/time.ts'
import {
  type Failure,
  type FailureKind,
  type Send,
  UpstreamFailure,
  type UpstreamReply,
  type UpstreamRequest,
} from '../../../contracts/upstream.ts'
import type { CallContext } from '../context/call-context.ts'
import type { CallTiming } from '../context/services.ts'
import { Interrupted, type JobContext } from '../facts/call.ts'
import { isCurable } from '../select/health.ts'
import { replicaKey } from '../select/replicas.ts'
import { inOwnTurn } from './large-answer.ts'

type Stepper<Call, Result> = Omit<Operation<Call, Result>, 'streamed'>

/** A step that sends a request. */
type RequestStep<Result = unknown> = Exclude<Step<Result>, Ending<Result>>

/** Headers that pass a trace on. */
type TraceContext = Readonly<Record<string, string>>

/** An entry's whole answer. */
export interface Answer<K extends OperationName> {
  readonly result: Results[K]
  readonly warnings: readonly string[]
  /** Gives the memory of the answer back to the byte budget. Idempotent. */
  release(): void
}

/** An attempt without an answer, or with one that another entry may better. */
export interface AttemptFailure<Got = never> {
  readonly failure: Failure
  /** False when the entry is not to blame: nothing was sent to it, or it did answer. */
  readonly blamed: boolean
  /** The provider may have accepted an order, which cannot be known: no other entry is tried. */
  readonly unknown: boolean
  /** The answer that is given when no other entry has one; absent: none is at hand. */
  readonly spare?: Spare<Got>
}

export interface Spare<Got> {
  readonly got: Got
  /** Called once, when it is known whether it is given; if not, its memory is given back. */
  end(isGiven: boolean): void
}

export type Attempted<Got> = { readonly got: Got } | AttemptFailure<Got>

/** Conditions under which an operation sends its requests. */
export interface AttemptOptions {
  readonly send: Send
  readonly clock: Clock
  readonly signal: CancelSignal
  readonly timing?: CallTiming | undefined
  readonly traceContext: TraceContext | undefined
  /** Deadline of the last step, on the node's clock. */
  readonly deadlineAtMs: number
  /** Memory of the newest answer. */
  readonly memory: MemoryLease
  /** Null unless the call is made for a job whose operation can be resumed. */
  readonly checkpoint: Checkpoint | null
}

/** Headers by which a provider recognizes a request that is sent again, and executes it once. */
const KEY_HEADERS = ['idempotency-key', 'x-idempotency-key'] as const
/** Pause until such a provider is asked again while it still works on the request of an earlier claim. */
const UNDER_WAY_MS = 2_000

/** Most times in a row that a GET without an answer is sent again: after 1 s, 2 s, 4 s … */
const RESENDS_MAX = 5
const FIRST_RESEND_MS = 1_000
/** Keeps a connection that died unnoticed from using up the time of the whole operation. */
const GET_DEADLINE_MS = 30_000
/** Failures without an answer; an answer that was too large would be so again. */
const UNANSWERED: ReadonlySet<FailureKind> = new Set(['connect', 'ambiguous'])

/** Failure of an attempt at its deadline. */
export const LATE: Failure = Object.freeze({
  kind: 'ambiguous',
  status: null,
  reason: 'no answer before its deadline',
  retryAfterMs: null,
  providerMessage: null,
})

/** Time that a provider has to accept an order when another claim resumes the job. */
const ORDER_GRACE_MS = 5_000
/** Time that a provider has for requests that the answer does not depend on: to cancel, to delete. */
const TIDYING_DEADLINE_MS = 5_000

/** Failure of an order by an earlier claim that can no longer be followed. */
const LOST: Failure = Object.freeze({
  kind: 'ambiguous',
  status: null,
  reason: 'an earlier order cannot be followed any more',
  retryAfterMs: null,
  providerMessage: null,
})

/**
 * Runs a provider's stepper: sends, waits, sends again, until it is done or failed. An operation that is given up on
 * the way is cancelled at the provider, where its protocol can; but not when another claim of the same job resumes it.
 * After an answer the checkpoint stays: whoever takes the job over can fetch that answer again.
 *
 * @throws the signal's reason when the caller left; the failure of a store
 */
export function runOperation<Call, Result>(
  operation: Stepper<Call, Result>,
  call: Call,
  target: Target,
  options: AttemptOptions,
): Promise<OperationEnd<Result>> {
  const { checkpoint } = options
  const resumed = resume(operation, target, checkpoint)
  if (resumed === null && checkpoint?.kept && operation.createsOnce)
    return Promise.resolve({ failure: LOST, blamed: false, unknown: true })
  return new OperationRun(operation, call, target, options, resumed).run()
}

type OperationEnd<Result> = { readonly result: Result } | AttemptFailure

/** One run of a stepper. */
class OperationRun<Call, Result> {
  readonly #operation: Stepper<Call, Result>
  readonly #call: Call
  readonly #target: Target
  readonly #options: AttemptOptions
  #next: Step<Result>
  #state: unknown = null
  #reply: UpstreamReply | null = null
  /** The step that `#reply` answers. */
  #asked: RequestStep | null = null
  #answers: number

  constructor(
    operation: Stepper<Call, Result>,
    call: Call,
    target: Target,
    options: AttemptOptions,
    resumed: Step<Result> | null,
  ) {
    this.#operation = operation
    this.#call = call
    this.#target = target
    this.#options = options
    this.#next = resumed ?? operation.start(call, target)
    // A resumed operation had its first answer before: that to the order itself.
    this.#answers = resumed === null ? 0 : 1
  }

  /** Most operations are over with one answer, and need no loop. */
  run(): Promise<OperationEnd<Result>> {
    const step = this.#next
    if (step.kind === 'done' || step.kind === 'failed') return Promise.resolve(this.#end(step))
    return this.#ask(step).then(
      (reply) => this.#endAfter(step, reply) ?? this.#goOn(),
      (error: unknown) => this.#endWithout(step, error) ?? this.#goOn(),
    )
  }

  async #goOn(): Promise<OperationEnd<Result>> {
    for (;;) {
      const step = this.#next
      if (step.kind === 'done' || step.kind === 'failed') return this.#end(step)
      let reply: UpstreamReply | null = null
      let end: OperationEnd<Result> | null = null
      try {
        reply = await this.#ask(step)
      } catch (error) {
        end = this.#endWithout(step, error)
      }
      if (reply !== null) end = this.#endAfter(step, reply)
      if (end !== null) return end
    }
  }

  /** Waits for as long as the step says, and sends its request. */
  #ask(step: RequestStep): Promise<UpstreamReply> {
    const { checkpoint, signal } = this.#options
    this.#state = step.state
    if (step.kind === 'wait') checkpoint?.keep(step.state)
    if (signal.aborted) return Promise.reject(signal.reason)
    if (step.kind === 'wait') return pause(step.waitMs, this.#options).then(() => this.#send(step))
    return this.#send(step)
  }

  #send(step: RequestStep): Promise<UpstreamReply> {
    // The state holds what the previous answer said.
    this.#options.memory.release()
    try {
      return answerTo(step, this.#options)
    } catch (error) {
      return Promise.reject(error)
    }
  }

  /** Takes the answer to a step. @returns the end, or null when there is a next step */
  #endAfter(step: RequestStep<Result>, reply: UpstreamReply): OperationEnd<Result> | null {
    this.#reply = reply
    this.#asked = step
    this.#answers += 1
    if (isTidying(step)) this.#options.checkpoint?.drop()
    const next = this.#operation.next(this.#state, reply, this.#call, this.#target)
    this.#next = next
    return next.kind === 'done' || next.kind === 'failed' ? this.#end(next) : null
  }

  /**
   * Takes the failure of a step that has no answer.
   *
   * @returns the end, or null when there is a next step
   * @throws  the signal's reason when the caller left; the failure of a store
   */
  #endWithout(step: RequestStep<Result>, error: unknown): AttemptFailure | null {
    const { checkpoint, signal } = this.#options
    if (step.kind === 'send' && step.otherwise !== undefined && error instanceof UpstreamFailure) {
      signal.throwIfAborted()
      this.#next = step.otherwise
      return null
    }
    if (this.#answers > 0 && !isTakenOver(this.#options)) this.#abandon()
    signal.throwIfAborted()
    if (!(error instanceof UpstreamFailure)) throw error
    const failure = isFollowUp(step, this.#answers) ? unobserved(error.failure) : error.failure
    const mayHaveArrived = this.#answers > 0 || failure.kind !== 'connect'
    const unknown = this.#operation.createsOnce === true && mayHaveArrived
    return failedAttempt({ failure, blamed: true, unknown }, checkpoint)
  }

  #end(ending: Ending<Result>): OperationEnd<Result> {
    if (ending.kind === 'done') return { result: ending.result }
    const reply = this.#reply
    const answers = this.#answers
    // Work that the provider itself calls failed needs no cancelling; without its word it may go on.
    if (answers > 1 && !isGood(reply)) this.#abandon()
    const failure =
      isFollowUp(this.#asked, answers - 1) && !isGood(reply) ? unobserved(ending.failure) : ending.failure
    return failedAttempt(failureAfter(this.#operation, failure, reply, answers), this.#options.checkpoint)
  }

  /** Cancels the work at the provider; best effort, and without delaying the answer. */
  #abandon(): void {
    const request = this.#operation.abandon?.(this.#state, this.#target) ?? null
    if (request === null) return
    const options = {
      deadlineMs: TIDYING_DEADLINE_MS,
      signal: new AbortController().signal,
      onHeld: () => {},
    }
    void this.#options.send(request, options).catch(() => {})
  }
}

/** The step that resumes the work of an earlier claim of the job; null: there is nothing to resume. */
function resume<Call, Result>(
  operation: Stepper<Call, Result>,
  target: Target,
  checkpoint: Checkpoint | null,
): Step<Result> | null {
  if (!checkpoint?.resumed) return null
  return operation.resume?.(checkpoint.resumed.state, target) ?? null
}

/** Drops the checkpoint of work that is known to have failed; work that may still go on keeps it. */
function failedAttempt(end: AttemptFailure, checkpoint: Checkpoint | null): AttemptFailure {
  if (!end.unknown) checkpoint?.drop()
  return end
}

/** True when another claim of the job resumes the work of this attempt. */
function isTakenOver({ signal, checkpoint }: AttemptOptions): boolean {
  return signal.aborted && signal.reason instanceof Interrupted && checkpoint?.kept === true
}

function isTidying(step: RequestStep): boolean {
  return step.kind === 'send' && step.otherwise !== undefined
}

/**
 * Interprets `failed` of a stepper. An order is over by the provider's own word only: a refusal in the answer to the
 * first request, or a failure in a good answer to a later one. After anything else its outcome is unknown.
 */
function failureAfter<Call, Result>(
  { createsOnce }: Stepper<Call, Result>,
  failure: Failure,
  reply: UpstreamReply | null,
  answers: number,
): AttemptFailure {
  const said = answers === 1 ? !isGood(reply) : isGood(reply)
  const open = answers > 0 && isCurable(failure) && (!said || failure.kind === 'ambiguous')
  return { failure, blamed: answers > 0, unknown: createsOnce === true && open }
}

/** Whether a step only looks at work that earlier requests, `before` of them, have started. */
function isFollowUp(step: RequestStep | null, before: number): boolean {
  return before > 0 && step?.request.method === 'GET'
}

/** Makes the failure of such a look ambiguous: the work may have been done. */
function unobserved(failure: Failure): Failure {
  return { ...failure, kind: 'ambiguous' }
}

export function isGood(reply: Pick<UpstreamReply, 'status'> | null): boolean {
  return reply !== null && reply.status >= 200 && reply.status <= 299
}

/** Sends the request of a step, again where that is safe. */
function answerTo(step: RequestStep, options: AttemptOptions): Promise<UpstreamReply> {
  const { request } = step
  const isGet = request.method === 'GET'
  const signal = isGet ? options.signal : orderSignal(options)
  return isGet || hasKey(request) ? answerInTime(step, options, signal) : sendStep(step, options, signal)
}

/** Sends the request of a step once. */
function sendStep(step: RequestStep, options: AttemptOptions, signal: CancelSignal): Promise<UpstreamReply> {
  const { send, clock, deadlineAtMs, memory, traceContext } = options
  const deadlineMs = Math.min(deadlineMsOf(step), Math.max(1, deadlineAtMs - clock.now()))
  const sending = { deadlineMs, signal, onHeld: memory.charge, turn: memory.turn }
  return send(traced(step.request, traceContext), sending).then(inOwnTurn)
}

/**
 * Sends a request that may be sent again: a GET without an answer, since it changes nothing, and one with a key whose
 * provider is still executing it for an earlier claim.
 */
async function answerInTime(
  step: RequestStep,
  options: AttemptOptions,
  signal: CancelSignal,
): Promise<UpstreamReply> {
  const { request } = step
  const { clock, deadlineAtMs, memory } = options
  for (let resends = 0; ; resends += 1) {
    try {
      const reply = await sendStep(step, options, signal)
      if (!isUnderWay(request, reply) || clock.now() + UNDER_WAY_MS >= deadlineAtMs) return reply
      memory.release()
      await sleep(clock, UNDER_WAY_MS, { signal })
    } catch (error) {
      const unanswered = error instanceof UpstreamFailure && UNANSWERED.has(error.failure.kind)
      if (request.method !== 'GET' || !unanswered || resends >= RESENDS_MAX) throw error
      const waitMs = (options.timing?.resendMs ?? FIRST_RESEND_MS) * 2 ** resends
      if (clock.now() + waitMs >= deadlineAtMs) throw error
      await sleep(clock, waitMs, { signal })
    }
  }
}

/** True when the provider recognizes the request when it is sent again. */
function hasKey({ headers }: Pick<UpstreamRequest, 'headers'>): boolean {
  for (const name of KEY_HEADERS) if (headers[name] !== undefined) return true
  return false
}

/** Whether the provider says that it is executing the same request already, and may be asked again. */
function isUnderWay(request: Pick<UpstreamRequest, 'headers'>, reply: UpstreamReply): boolean {
  return reply.status === 409 && reply.headers['x-should-retry'] !== 'false' && hasKey(request)
}

/**
 * Signal for a request that may be an order. When another claim resumes the job, the answer is still waited for:
 * without it the order would be unknown, and it would be placed, and paid for, twice.
 */
function orderSignal({ signal, checkpoint, clock }: AttemptOptions): CancelSignal {
  if (checkpoint === null) return signal
  const order = new AbortController()
  const abort = () => order.abort(signal.reason)
  const leave = () => {
    if (signal.reason instanceof Interrupted) clock.after(ORDER_GRACE_MS, abort).unref()
    else abort()
  }
  signal.addEventListener('abort', leave, { once: true })
  return order.signal
}

/** Longest time for one answer, whatever time is left. */
function deadlineMsOf(step: RequestStep): number {
  if (isTidying(step)) return TIDYING_DEADLINE_MS
  return step.request.method === 'GET' ? GET_DEADLINE_MS : Number.POSITIVE_INFINITY
}

/** @throws UpstreamFailure at the deadline, when the wait would outlast it */
async function pause(pollMs: number, { clock, deadlineAtMs, signal, timing }: AttemptOptions): Promise<void> {
  const waitMs = Math.min(pollMs, timing?.pollMs ?? pollMs)
  const leftMs = Math.max(0, deadlineAtMs - clock.now())
  await sleep(clock, Math.min(waitMs, leftMs), { signal })
  if (waitMs >= leftMs) throw new UpstreamFailure(LATE)
}

/** The trace context that is sent to a provider: the attempt's own, or the caller's where tracing is off. */
export function traceContextOf({
  trace,
  traceparent,
}: Pick<CallContext, 'trace' | 'traceparent'>): TraceContext | undefined {
  return trace?.headers() ?? (traceparent === undefined ? undefined : { traceparent })
}

/** Adds a trace context to a request. */
export function traced(upstream: UpstreamRequest, context: TraceContext | undefined): UpstreamRequest {
  return context === undefined ? upstream : { ...upstream, headers: { ...upstream.headers, ...context } }
}

/**
 * Names an entry across nodes and reloads, for whoever takes a job over: the same as long as the entry sends the same
 * to the same provider.
 */
export function entryKey({ provider, model, options }: Entry): string {
  const fields = Object.entries(options).sort(([a], [b]) => (a < b ? -1 : 1))
  return `${provider.name}/${model}#${hash('sha256', JSON.stringify(fields)).slice(0, 16)}`
}

/** Names an attempt of a job. A retry has another name: a provider may repeat its answer to the same one. */
export function attemptKeyOf({ id, retries }: JobContext, entry: Entry): string {
  return `lk-${hash('sha256', `${id} ${retries} ${entryKey(entry)}`).slice(0, 32)}`
}

/**
 * Keeps the state of an attempt's upstream work for the next claim of the job, so that the work is followed and not
 * ordered again.
 */
export class Checkpoint {
  readonly #job: JobContext
  readonly #entry: string
  /** The server at which the work is followed. */
  readonly #replica: string
  /** State of an earlier claim's work at this entry; null: there is none. */
  readonly resumed: { readonly state: unknown } | null
  /** JSON of the newest state that was kept. */
  #state: string | null

  /**
   * @param resumes whether the job's progress is that of this very entry. A server other than the one of its `target`
   *        knows nothing of it.
   */
  constructor(job: JobContext, entry: Entry, target: Target, resumes: boolean) {
    this.#job = job
    this.#entry = entryKey(entry)
    this.#replica = replicaKey(target.baseUrl)
    const progress = resumes ? job.progress : null
    const isHere = (progress?.replica ?? this.#replica) === this.#replica
    this.resumed = progress !== null && isHere ? { state: progress.state } : null
    this.#state = progress === null ? null : JSON.stringify(progress.state)
  }

  /** Whether another claim could resume the work. */
  get kept(): boolean {
    return this.#state !== null
  }

  /** @param state as `Operation.resume` takes it */
  keep(state: unknown): void {
    const json = JSON.stringify(state)
    if (json === this.#state) return
    this.#state = json
    this.#job.note({ entry: this.#entry, replica: this.#replica, state })
  }

  /** Forgets the work: there is nothing left to resume. */
  drop(): void {
    if (this.#state === null) return
    this.#state = null
    this.#job.note(null)
  }
}

/** Bytes of an answer, charged to the share of the caller's workspace while they are in memory. */
export interface MemoryLease {
  /** Bytes that are charged now. */
  held(): number
  /** @param bytes negative when they are freed */
  charge(bytes: number): void
  /** Gives back everything that was charged so far. */
  release(): void
  /**
   * To be asked before more of an answer is read: while its workspace holds more than its share, it waits.
   *
   * @param beside what the answer holds besides, and comes free, too, when it is given up
   * @returns null: there is nothing to wait for
   * @throws GatewayError OVERLOADED when that does not end soon; the signal's reason
   */
  turn(signal: CancelSignal, beside?: readonly MemoryLease[]): Promise<void> | null
}

export function leaseMemory(budget: ByteBudget, { principal }: Pick<CallContext, 'principal'>): MemoryLease {
  const workspace = principal?.workspace.id
  let charged = 0
  return {
    held: () => charged,
    charge(bytes) {
      charged += bytes
      if (bytes < 0) budget.refund(-bytes, workspace)
      else budget.charge(bytes, workspace)
    },
    release() {
      budget.refund(charged, workspace)
      charged = 0
    },
    turn(signal, beside = []) {
      const heldBytes = () => beside.reduce((sum, other) => sum + other.held(), charged)
      if (workspace === undefined || !budget.isOver?.(workspace, heldBytes)) return null
      return waitForTurn(budget, { workspace, waitMs: MEMORY_WAIT_MS, signal, heldBytes, keeps: true })
    },
  }
}

async function waitForTurn(budget: ByteBudget, options: ReserveOptions): Promise<void> {
  const granted = await budget.reserve?.(0, options)
  options.signal.throwIfAborted()
  if (!granted) throw new GatewayError('OVERLOADED', 'this node has no memory left for more of the answer')
}
