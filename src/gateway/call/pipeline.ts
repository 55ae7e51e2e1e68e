import type { Audio } from '../../contracts/audio.ts'
import type { Principal, Snapshot } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { OperationName, StreamedName, TranscriptionTask } from '../../contracts/operations.ts'
import type { WholeResult } from '../../contracts/slot-results.ts'
import { attemptWhole } from './attempt/attempt.ts'
import type { EarlyAttempt } from './attempt/cut-through.ts'
import { type AttemptSuccess, failOver } from './attempt/failover.ts'
import type { Answer } from './attempt/operation.ts'
import { buildOutcome, type Outcome } from './attempt/outcome.ts'
import { type CutSelection, isCut, PartedCall, partedActive, partedCall } from './attempt/parts.ts'
import { answerCached } from './attempt/speech-cache.ts'
import { deliver, noDeltas, openAttempt, type Streaming, WholeStreaming } from './attempt/stream.ts'
import type { AdmittedContext } from './context/call-context.ts'
import { replaySlot } from './context/idempotency.ts'
import { Reservation, reserve, type SlotUse } from './context/reservation.ts'
import type { ActiveCall, Services } from './context/services.ts'
import { takeAhead } from './context/unit-limits.ts'
import type { Call, JobContext } from './facts/call.ts'
import { withinCost } from './select/cost-cap.ts'
import { requirementsFor } from './select/eligibility.ts'
import { type Candidate, type Selection, select, skippingSilence, without } from './select/selection.ts'

/**
 * The way of every call, whichever door it came in by and however it is answered. The door has authenticated its caller
 * and read its body; what follows are five phases:
 *
 *   select    `select` picks the entries that may serve the call, in order. Pure; a preview ends here.
 *   reserve   `reserve` sets money aside and claims the slot of an idempotency key, in one atomic step.
 *   attempt   `failOver` tries the entries until one answers, by `attemptWhole` or `openAttempt`.
 *   settle    `buildOutcome` meters and prices the answer; a method of the `Reservation` charges it, or frees the rest.
 *   reply     The door gets the outcome, the stream, or the bytes that are replayed from now on.
 *
 * Between the first two, speech that the route keeps may be the answer, by `answerCached`, and the call is over.
 *
 * A stream settles when it ends, everything else before its reply. A job goes the way of a whole answer, with the job's
 * deadline and token.
 *
 * A long-lived call, such as a live audio session, is a repetition of the inner phases within one `CallContext`. No
 * phase keeps anything between two calls, so that a session can use them as they are:
 * - Money in slices: `reserve` with the slice as its call and the slice's deadline. Each reservation has a token of its
 *   own, so that the next slice is reserved before the last one is settled at its own cost. A session whose node dies
 *   is charged for the slice under way, as any call is.
 * - Another provider in the middle: `failOver` again, with the entry that died taken out by `without`. The attempts of
 *   the session stand on its context in their order.
 * - Credits that run out in the middle: the `selection` of the new reservation has no entries of the platform any more,
 *   so that the session moves to the customer's own, or ends with what `reserve` throws.
 */

/** A call and the way in which it is answered. */
export type CallRequest<K extends OperationName = OperationName> =
  | WholeRequest<K>
  | JobRequest<K>
  | IdempotentRequest<K>
  | StreamedRequest<K & StreamedName>
  | CachedStreamRequest
  | PreviewRequest<K>

/** A caller waits for the whole answer. */
export interface WholeRequest<K extends OperationName> {
  readonly mode: 'whole'
  readonly call: Call<K>
  /** Attempt that was begun while the body came; whoever began it ends it. */
  readonly early?: EarlyAttempt | null
  /** As of a streamed request. */
  readonly leaveOut?: (candidate: Candidate) => boolean
  /** How long the call may take, in place of the synchronous deadline; absent: that one. */
  readonly deadlineMs?: number
  /** Speech that its route keeps may be the answer. */
  readonly cached?: true
}

/** A worker makes the call for a job. */
export interface JobRequest<K extends OperationName> {
  readonly mode: 'job'
  readonly call: Call<K>
  readonly job: JobContext
}

/**
 * A caller waits for the whole answer, and gets the same bytes when it asks again under the same key. From the moment
 * the slot is claimed the call continues when its caller leaves: the answer is there for whoever asks again.
 */
export interface IdempotentRequest<K extends OperationName> {
  readonly mode: 'idempotent'
  readonly call: Call<K>
  readonly slotId: string
  /** Equal for two requests for the same. */
  readonly fingerprint: string
  /** Makes the bytes that are kept of the answer. */
  render(outcome: Outcome<K>): WholeResult | Promise<WholeResult>
}

/**
 * A caller reads the answer as it comes. It may come from another entry until its first delta is here; one that does
 * not stream is called whole.
 */
export interface StreamedRequest<K extends StreamedName> {
  readonly mode: 'streamed'
  readonly call: Call<K>
  /** Entries that are left out, because their answer to the same call was of no use; absent: none. */
  readonly leaveOut?: (candidate: Candidate) => boolean
  /** How an entry is asked, where that is not by one request for each call. */
  readonly open?: typeof openAttempt
}

/** The same, whose answer may be speech that its route keeps. */
export interface CachedStreamRequest extends StreamedRequest<'speech'> {
  readonly cached: true
}

/**
 * Tells whether a call that is made later could be served by the configuration of now, without calling a provider.
 * Health and money are for then.
 */
export interface PreviewRequest<K extends OperationName> {
  readonly mode: 'preview'
  /** It is made as a job. */
  readonly asJob?: true
  readonly call: Call<K>
}

/** In place of the health of entries, which may have changed by the time of the call. */
export const HEALTHY = { view: () => ({ state: 'closed', untilMs: null, openedAtMs: null }) as const }

/**
 * Runs a call, whichever door it came in by.
 *
 * @returns by mode: the whole result and its envelope, whose `release` gives the answer's memory back; a stream, at
 *          once where all of it is here; the bytes that are replayed from now on; nothing
 * @throws  GatewayError of `select`, `reserve` and `failOver`; with a slot also those of `replaySlot`, and
 *          UPSTREAM_OUTCOME_UNKNOWN when no entry answered and one of them may have done the work. `context` holds what
 *          was known by then
 */
export function run<K extends OperationName>(
  services: Services,
  context: AdmittedContext,
  request: WholeRequest<K> | JobRequest<K>,
): Promise<Outcome<K>>
export function run(
  services: Services,
  context: AdmittedContext,
  request: CachedStreamRequest,
): Streaming<'speech'> | Promise<Streaming<'speech'>>
export function run<K extends StreamedName>(
  services: Services,
  context: AdmittedContext,
  request: StreamedRequest<K>,
): Promise<Streaming<K>>
export function run<K extends OperationName>(
  services: Services,
  context: AdmittedContext,
  request: IdempotentRequest<K>,
): Promise<WholeResult>
export function run<K extends OperationName>(
  services: Services,
  context: AdmittedContext,
  request: PreviewRequest<K>,
): Promise<undefined>
export function run(
  services: Services,
  context: AdmittedContext,
  request: CallRequest,
):
  | Streaming<StreamedName>
  | Promise<Outcome<OperationName> | Streaming<StreamedName> | WholeResult | undefined> {
  try {
    const nowMs = services.clock.now()
    const selected = leftOf(selectEntries(services, context, request, nowMs), request)
    const early = request.mode === 'whole' ? (request.early ?? null) : null
    const selection = early === null || isCut(selected) ? selected : early.prefer(selected, request.call)
    if (request.mode === 'preview')
      return request.asJob === true
        ? takeAhead(services.state, context, request.call).then(() => undefined)
        : Promise.resolve(undefined)
    const active = activate(services, context, request, nowMs)
    if (request.mode === 'idempotent') return answerIdempotent(active, selection, request)
    if (mayBeCached(request)) {
      const start = (leader: ActiveCall) => make(leader, selection, request)
      const cached = answerCached(active, selection, request.mode, start)
      if (cached !== null) return cached
    }
    return make(active, selection, request)
  } catch (refused) {
    return Promise.reject(refused)
  }
}

type MadeRequest = Exclude<CallRequest, { readonly mode: 'idempotent' | 'preview' }>

/** A job looks at its first claim alone: an earlier one may have money set aside, which the call has to settle. */
function mayBeCached(request: MadeRequest): boolean {
  if (request.mode !== 'job') return 'cached' in request && request.cached === true
  return request.call.operation === 'speech' && request.job.claim === 1
}

/** Reserves, and makes the call at its entries. */
function make(
  active: ActiveCall,
  selection: Selection,
  request: MadeRequest,
): Promise<Outcome<OperationName> | Streaming<StreamedName>> {
  const reservation = reserve(reservedFor(active, selection), selection)
  // Most calls have their reservation at once.
  if (reservation instanceof Promise) return reservation.then((one) => answerCall(active, one, request))
  return answerCall(active, reservation, request)
}

function answerCall(
  active: ActiveCall,
  reservation: Reservation,
  request: MadeRequest,
): Promise<Outcome<OperationName> | Streaming<StreamedName>> {
  const { selection } = reservation
  if (isCut(selection)) {
    const whole = answerParts(active, reservation, selection)
    return request.mode === 'streamed'
      ? whole.then((one) => new WholeStreaming(one as Outcome<'transcription'>, noDeltas))
      : whole
  }
  if (request.mode === 'streamed')
    return answerStreamed({ ...active, call: request.call }, reservation, request.open ?? openAttempt)
  return answerWhole(active, reservation, request.mode === 'whole' ? (request.early ?? null) : null)
}

/** Selects the entries to try, and notes their route on the context. @throws GatewayError as `select` refuses */
export function selectEntries(
  { providers, random, latency, health, clock, transcoder }: Services,
  context: AdmittedContext,
  request: CallRequest,
  nowMs: number,
): Selection {
  const { mode, call } = request
  context.operation = call.operation
  const { selection, refusal, assigned, purpose } = select({
    principal: context.principal,
    call,
    providers,
    random,
    latency,
    health: mode === 'preview' ? HEALTHY : health,
    nowMs,
    wallMs: clock.wallNow(),
    transcoder,
  })
  context.routing.noteRoute(assigned)
  context.routing.purpose = purpose
  // A job is told by its runs, and by its submission only where that is refused.
  if (mode !== 'preview' || selection === null) context.routing.selected ??= call
  if (selection === null) throw refusal
  const planned = skippingSilence(selection, call, context.principal, mode === 'streamed')
  checkNothingKept(context.principal, request, isCut(planned))
  return withinCost(planned, isCut(planned) ? partedCall(call, planned) : call, clock.wallNow())
}

/** Says what is kept of a call beyond its answer; null: nothing is. */
function keptOf(request: CallRequest): string | null {
  if (request.mode === 'idempotent') return 'the answer under an idempotency key is kept to be given again'
  const isJob = request.mode === 'job' || (request.mode === 'preview' && request.asJob === true)
  return isJob ? 'a job is kept until its result expires' : null
}

/**
 * Holds this node to the demand that nothing is kept, as selection holds every provider to it.
 *
 * @throws GatewayError REQUIRED_FEATURE_UNAVAILABLE; INVALID_REQUEST where the demand came when the body was in the
 *         store, where others could read it
 */
function checkNothingKept(principal: Principal, request: CallRequest, isCut: boolean): void {
  const { selectors, payload } = request.call as Call
  const audio = 'audio' in payload ? (payload.audio as Partial<Audio> | null) : null
  const isStored = audio?.source?.kind === 'object' && audio.source.sealed !== true
  const ofAudio = audio?.source?.kind === 'pieces' ? 'the audio was uploaded before' : null
  const why = ofAudio ?? keptOf(request) ?? (isCut ? 'the audio is cut or transcoded, and stored' : null)
  if (why === null && !isStored) return
  if (requirementsFor(selectors, principal)?.retentionDays !== 0) return
  if (why !== null)
    throw new GatewayError('REQUIRED_FEATURE_UNAVAILABLE', `retention: zero cannot be kept here: ${why}`)
  const message =
    'retention: zero must be sent in the header X-LK-Require: the body was stored before it was read'
  throw new GatewayError('INVALID_REQUEST', message, { param: 'require' })
}

/** @throws GatewayError UPSTREAM_ERROR when the request leaves out every entry */
function leftOf(selection: Selection, request: CallRequest): Selection {
  const leaveOut = 'leaveOut' in request ? request.leaveOut : undefined
  if (leaveOut === undefined) return selection
  const left = without(selection, leaveOut)
  if (left === null) throw new GatewayError('UPSTREAM_ERROR', 'every eligible entry failed')
  return left
}

/** Starts the clock of a call. */
export function activate(
  services: Services,
  context: AdmittedContext,
  request: Exclude<CallRequest, { readonly mode: 'preview' }>,
  nowMs: number,
): ActiveCall {
  const { call } = request
  const job = request.mode === 'job' ? request.job : null
  const asked = request.mode === 'whole' ? request.deadlineMs : job?.deadlineMs
  const deadlineMs = asked ?? deadlineMsOf(call.operation, services.snapshot())
  return {
    services,
    context,
    call,
    signal: context.signal,
    job,
    deadlineMs,
    deadlineAtMs: nowMs + deadlineMs,
  }
}

function deadlineMsOf(operation: OperationName, { deadlineMs, videoDeadlineMs }: Snapshot): number {
  return operation === 'video' ? videoDeadlineMs : deadlineMs
}

function slotUse({ slotId, fingerprint }: IdempotentRequest<OperationName>, { snapshot }: Services): SlotUse {
  return { id: slotId, fingerprint, ttlMs: snapshot().limits.sync_idempotency_ttl_seconds * 1000 }
}

/** Attempts, settles and replies with the whole answer. Most calls have nothing to wait for behind their attempt. */
function answerWhole(
  active: ActiveCall,
  reservation: Reservation,
  early: EarlyAttempt | null,
): Promise<Outcome<OperationName>> {
  const { selection } = reservation
  const fail = async (thrown: unknown): Promise<never> => {
    throw await reservation.settleFailed(thrown)
  }
  return failOver(active, selection, early?.attempt ?? attemptWhole).then((answered) => {
    try {
      const { answer, candidate } = conclude(answered)
      const outcome = buildOutcome(active, selection, candidate, answer)
      const settled = reservation.settle(candidate.entry, outcome.envelope.cost_usd)
      if (candidate.route.shadow !== null) offerShadow(active, answered.recorder, outcome)
      return settled === null ? outcome : settled.then(() => outcome, fail)
    } catch (thrown) {
      return fail(thrown)
    }
  }, fail)
}

/** The call that money and time are set aside for. */
function reservedFor(active: ActiveCall, selection: Selection): ActiveCall {
  return isCut(selection) ? partedActive(active, selection) : active
}

/** Hears the audio in parts. @returns what they are together, and what it is charged at */
async function hearParts(active: ActiveCall, reservation: Reservation, selection: CutSelection) {
  const parted = new PartedCall(active, selection)
  const outcome = await parted.run().catch(async (thrown) => {
    throw await reservation.settleFailed(thrown, parted)
  })
  return { outcome, charge: parted.charge }
}

/** Hears the audio in parts, settles and replies with what they are together. */
async function answerParts(
  active: ActiveCall,
  reservation: Reservation,
  selection: CutSelection,
): Promise<Outcome<TranscriptionTask>> {
  const { outcome, charge } = await hearParts(active, reservation, selection)
  await reservation.settleSum(charge)
  return outcome
}

/** Claims the slot of the caller's key, and continues without the caller; or replays what the slot holds. */
async function answerIdempotent(
  active: ActiveCall,
  selection: Selection,
  request: IdempotentRequest<OperationName>,
): Promise<WholeResult> {
  const { services, context, signal } = active
  signal.throwIfAborted()
  const reservation = await reserve(reservedFor(active, selection), selection, slotUse(request, services))
  if (!(reservation instanceof Reservation))
    return replaySlot(services, context, reservation, request.fingerprint)
  const detached = { ...active, signal: new AbortController().signal }
  return services.settlements.during(answerOnce(detached, reservation, request))
}

/** Attempts, settles and replies with the bytes that are replayed from now on. */
async function answerOnce(
  active: ActiveCall,
  reservation: Reservation,
  { render }: IdempotentRequest<OperationName>,
): Promise<WholeResult> {
  const { selection } = reservation
  if (isCut(selection)) return answerPartsOnce(active, reservation, selection, render)
  const answered = await failOver(active, selection, attemptWhole).catch(async (thrown) => {
    throw await reservation.settleFailed(thrown)
  })
  const { answer, candidate } = conclude(answered)
  const { services, context } = active
  const { entry } = candidate
  try {
    const outcome = buildOutcome(active, selection, candidate, answer)
    const result = await render(outcome)
    if (candidate.route.shadow !== null) offerShadow(active, answered.recorder, outcome)
    answer.release()
    await keepAnswer(services, context, reservation, entry, result)
    return result
  } catch (thrown) {
    // The work is done and paid for: this key does not repeat it, even when its answer cannot be rendered.
    answer.release()
    await reservation.settleSlot(entry, null)
    throw thrown
  }
}

/** Stores an answer in the slot of its call. When the store fails the caller still gets the answer, but no replay. */
async function keepAnswer(
  { slotResults }: Services,
  { principal }: AdmittedContext,
  reservation: Reservation,
  charged: Parameters<Reservation['settleSlot']>[0],
  result: WholeResult,
): Promise<void> {
  const kept = await slotResults.keep(principal.workspace.id, result).catch(() => null)
  const held = await reservation.settleSlot(charged, kept)
  if (kept !== null && !held) void slotResults.drop(kept)
}

/** The same as `answerOnce`, of audio that is heard in parts. */
async function answerPartsOnce(
  active: ActiveCall,
  reservation: Reservation,
  selection: CutSelection,
  render: IdempotentRequest<OperationName>['render'],
): Promise<WholeResult> {
  const { outcome, charge } = await hearParts(active, reservation, selection)
  try {
    const result = await render(outcome)
    await keepAnswer(active.services, active.context, reservation, charge, result)
    return result
  } catch (thrown) {
    await reservation.settleSlot(charge, null)
    throw thrown
  }
}

/** Attempts, and replies with the answer as it comes: the end of the stream settles the call. */
async function answerStreamed(
  active: ActiveCall<StreamedName>,
  reservation: Reservation,
  open: typeof openAttempt,
): Promise<Streaming<StreamedName>> {
  const answered = await failOver(active, reservation.selection, open).catch(async (thrown) => {
    throw await reservation.settleFailed(thrown)
  })
  return deliver(active, reservation, answered)
}

/** Offers an answered call to the shadow of its route. Latency is
 * compared only if the attempt began after the whole body was here. */
function offerShadow(
  active: ActiveCall,
  { candidate, milliseconds }: AttemptSuccess<unknown>['recorder'],
  { result, envelope }: Outcome<OperationName>,
): void {
  const { context, job, services } = active
  const isTimed = context.routing.cutThrough !== 'used' && (job?.progress ?? null) === null
  const answered = { candidate, result, costUsd: envelope.cost_usd }
  services.shadows?.offer(active, { ...answered, milliseconds: isTimed ? milliseconds : null })
}

/** Records that an entry has given its whole answer. */
function conclude({ got, recorder }: AttemptSuccess<Answer<OperationName>>) {
  recorder.answered()
  recorder.succeeded()
  return { answer: got, candidate: recorder.candidate }
}
