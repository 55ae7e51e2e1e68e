import type { SpeechCall, SpeechResult, TranscriptionResult } from '../../../contracts/calls.ts'
import { type CancelSignal, toAbortSignal } from '../../../contracts/cancellation.ts'
import type { ChatDelta, ChatResult } from '../../../contracts/chat.ts'
import type { Logprobs } from '../../../contracts/logprobs.ts'
import type { Calls, Deltas, Results, StreamedName } from '../../../contracts/operations.ts'
import type { StreamedOperation, Target } from '../../../contracts/provider.ts'
import type { Clock } from '../../../contracts/time.ts'
import {
  type Failure,
  type OpenStream,
  UpstreamFailure,
  type UpstreamReply,
  type UpstreamRequest,
  type UpstreamStream,
} from '../../../contracts/upstream.ts'
import type { Reservation } from '../context/reservation.ts'
import { type ActiveCall, leftMsOf } from '../context/services.ts'
import { brokenOff } from '../context/upstream-errors.ts'
import { adapt, targetOf } from '../select/eligibility.ts'
import { type Encoding, encodingAt } from '../select/speech-format.ts'
import { attemptSource, operationAt } from './attempt.ts'
import type { Attempt, AttemptSuccess } from './failover.ts'
import type { Answer, Attempted, MemoryLease } from './operation.ts'
import { isGood, LATE, leaseMemory, traceContextOf, traced } from './operation.ts'
import type { Envelope, EnvelopeHead, Outcome } from './outcome.ts'
import { buildOutcome, headOf, joined, meterUnanswered } from './outcome.ts'
import { encodedDeltas } from './speech-encoding.ts'
import { isGated, judgeEmpty } from './transcript-quality.ts'

/** An answer on its way to the caller. */
export interface Streaming<K extends StreamedName> {
  /** Facts that are known when the first delta is here. */
  readonly head: EnvelopeHead
  /** Metered by then: speech and audio in full, tokens not at all. */
  readonly expected: Pick<Envelope, 'usage' | 'cost_usd'>
  /** Known by then, too: what was left out of the request, for one. */
  readonly warnings: readonly string[]
  /** As it was read, options after defaults. */
  readonly payload: Calls[K]
  /** The whole answer, where it is here already; the deltas say the same. */
  readonly whole?: Results[K]
  /**
   * The deltas, on demand; nothing is read ahead. Has to be read to its end or returned, which ends the request at the
   * provider. Throws GatewayError UPSTREAM_ERROR or UPSTREAM_TIMEOUT when the answer breaks off, and the
   * signal's reason when the caller left.
   */
  readonly deltas: AsyncGenerator<Deltas[K], void, void>
  /** The whole, metered and priced; only when the deltas have ended. */
  outcome(): Outcome<K>
}

/** Hands over an answer that has begun; the call is settled when it ends. */
export function deliver(
  active: ActiveCall<StreamedName>,
  reservation: Reservation,
  answered: AttemptSuccess<OpenAnswer>,
): Streaming<StreamedName> {
  const { context, call } = active
  const { got, recorder } = answered
  recorder.answered(got.streamed)
  if (got.streamed) context.trace?.begun()
  const delivery = new Delivery(active, reservation, answered)
  return {
    head: headOf(context, reservation.selection, recorder.candidate),
    expected: meterUnanswered(active, recorder.candidate),
    warnings: joined(call.warnings, reservation.selection.warnings, got.warnings),
    payload: call.payload,
    deltas: new CancellableStream(delivery.deltas(), () => delivery.leave()),
    outcome: () => delivery.outcome(),
  }
}

/** A stream whose end is here already: its answer is whole, and settled. */
export class WholeStreaming<K extends StreamedName> implements Streaming<K> {
  readonly whole: Results[K]
  readonly #outcome: Outcome<K>
  readonly #deltasOf: (whole: Results[K]) => AsyncGenerator<Deltas[K], void, void>

  constructor(outcome: Outcome<K>, deltasOf: (whole: Results[K]) => AsyncGenerator<Deltas[K], void, void>) {
    this.whole = outcome.result
    this.#outcome = outcome
    this.#deltasOf = deltasOf
  }

  get head() {
    return this.#outcome.envelope
  }

  get expected() {
    return this.#outcome.envelope
  }

  get warnings() {
    return this.#outcome.envelope.warnings
  }

  get payload() {
    return this.#outcome.payload
  }

  get deltas() {
    return new CancellableStream(this.#deltasOf(this.whole), async () => this.#outcome.release())
  }

  readonly outcome = (): Outcome<K> => this.#outcome
}

/** Deltas of an answer that comes in one piece. */
export async function* noDeltas(): AsyncGenerator<never, void, void> {}

/** Delivers the rest of an answer, and settles the call however the delivery ends. */
class Delivery {
  readonly #active: ActiveCall<StreamedName>
  readonly #reservation: Reservation
  readonly #answered: AttemptSuccess<OpenAnswer>
  #outcome: Outcome<StreamedName> | null = null
  #over = false

  constructor(
    active: ActiveCall<StreamedName>,
    reservation: Reservation,
    answered: AttemptSuccess<OpenAnswer>,
  ) {
    this.#active = active
    this.#reservation = reservation
    this.#answered = answered
  }

  async *deltas(): AsyncGenerator<Delta, void, void> {
    const { first, rest } = this.#answered.got
    try {
      let next = first
      for (; next.done !== true; next = await rest.next()) yield next.value
      this.#finish(next.value)
    } catch (error) {
      this.#active.signal.throwIfAborted()
      if (!this.#over) throw this.#breakOff(error)
    } finally {
      await this.leave()
    }
  }

  outcome(): Outcome<StreamedName> {
    if (this.#outcome === null) throw new Error('the stream has not come to its end')
    return this.#outcome
  }

  /** Gives the answer up, unless it is over. Resolves when the provider is no longer sent the caller's audio. */
  async leave(): Promise<void> {
    this.#giveUp(() => this.#answered.recorder.released('the caller left'))
    await this.#answered.got.rest.return?.()
  }

  #finish(result: Outcome<StreamedName>['result']): void {
    const { selection } = this.#reservation
    const { recorder, got } = this.#answered
    const { candidate } = recorder
    const { warnings, release } = got
    this.#outcome = buildOutcome(this.#active, selection, candidate, { result, warnings, release })
    this.#over = true
    recorder.succeeded()
    // The caller has its answer: the end of the stream does not wait for the ledger.
    void this.#reservation.settle(candidate.entry, this.#active.context.money.costUsd)
    // How long it took depends on how fast its caller reads.
    if (candidate.route.shadow !== null)
      this.#active.services.shadows?.offer(this.#active, {
        candidate,
        result,
        costUsd: this.#active.context.money.costUsd,
        milliseconds: null,
      })
  }

  #breakOff(error: unknown): unknown {
    const { recorder } = this.#answered
    if (!(error instanceof UpstreamFailure)) {
      this.#giveUp(() => recorder.released('the gateway could not go on'))
      return error
    }
    const { failure } = error
    this.#giveUp(() => recorder.failed(failure, true))
    return brokenOff(this.#active.context, failure, leftMsOf(this.#active))
  }

  #giveUp(judge: () => void): void {
    if (this.#over) return
    this.#over = true
    const { leave, release } = this.#answered.got
    leave()
    release()
    judge()
    void this.#reservation.settleFailed(null)
  }
}

/** Largest answer, as for whole ones. */
const STREAM_BYTES_MAX = 64 * 1024 * 1024
/** Most that is read of an error answer. */
const ERROR_BYTES_MAX = 64 * 1024

const TOO_LARGE: Failure = Object.freeze({
  kind: 'server',
  status: null,
  reason: 'its answer is over 64 MiB',
  retryAfterMs: null,
  providerMessage: null,
})

/** A delta of any answer that is streamed. */
type Delta = Deltas[StreamedName]

/** An answer that has begun to come. */
export interface OpenAnswer {
  /** The first delta, or the whole result when there are no deltas. */
  readonly first: IteratorResult<Delta, Results[StreamedName]>
  /** False: the entry was called whole. */
  readonly streamed: boolean
  /** The other deltas. Throws UpstreamFailure when the answer breaks off. */
  readonly rest: AsyncIterator<Delta, Results[StreamedName]>
  readonly warnings: readonly string[]
  /** Ends the request at the provider, at once. */
  leave(): void
  /** Gives the memory of the answer back. Idempotent. */
  release(): void
}

/**
 * Asks one entry for its answer, and resolves when the first delta is here: until then another entry may be tried. An
 * entry that does not stream is called whole.
 *
 * @throws the signal's reason when the caller left; the failure of a store
 */
export async function openAttempt(
  active: ActiveCall<StreamedName>,
  attempt: Attempt,
): Promise<Attempted<OpenAnswer>> {
  const { services, context, call, signal } = active
  const { candidate } = attempt
  const operation = operationAt(services, call.operation, candidate)
  const { streamed } = operation
  const adapted = adapt(call, candidate.entry, operation)
  const target = targetOf(candidate.entry, attempt.placed)
  if (streamed === undefined || isGated(candidate) || streamed.applies?.(adapted.payload, target) === false) {
    return openWhole(active, attempt)
  }
  const step = streamed.start(adapted.payload, target)
  if (step.kind === 'failed') return { failure: step.failure, blamed: false, unknown: false }

  const left = new AbortController()
  const memory = leaseMemory(services.budget, context)
  const ended = AbortSignal.any([toAbortSignal(signal), left.signal])
  const answer = readAnswer({
    streamed,
    upstream: traced(step.request, traceContextOf(context)),
    payload: adapted.payload,
    target,
    open: services.open,
    clock: services.clock,
    signal: ended,
    deadlineAtMs: active.deadlineAtMs,
    memory,
    unread: leaseMemory(services.budget, context),
    waiting: leaseMemory(services.budget, context),
  })
  const rest = inFormat(active, answer, adapted.encoding, ended)
  const late = () => left.abort(new UpstreamFailure(LATE))
  const timer = services.clock.after(Math.max(1, attempt.deadlineAtMs - services.clock.now()), late)
  try {
    const first = await rest.next()
    const { warnings } = adapted
    const leave = () => left.abort()
    context.answer.encodedFrom = adapted.encoding?.source ?? null
    const got = { first, streamed: true, rest, warnings, leave, release: memory.release }
    return first.done === true ? judgeEmpty(call.payload, first.value, attempt, got) : { got }
  } catch (error) {
    left.abort()
    memory.release()
    signal.throwIfAborted()
    if (error instanceof UpstreamFailure) return { failure: error.failure, blamed: true, unknown: false }
    throw error
  } finally {
    timer.close()
  }
}

async function openWhole(active: ActiveCall<StreamedName>, attempt: Attempt): Promise<Attempted<OpenAnswer>> {
  const whole = await attemptSource(active, attempt)
  if ('got' in whole) return openAnswer(active, attempt, whole.got)
  const { spare, ...failed } = whole
  if (spare === undefined) return failed
  const opened = await openAnswer(active, attempt, spare.got)
  return 'got' in opened ? { ...failed, spare: { got: opened.got, end: spare.end } } : opened
}

async function openAnswer(
  active: ActiveCall<StreamedName>,
  { candidate: { entry } }: Attempt,
  { result, warnings, release }: Answer<StreamedName>,
): Promise<Attempted<OpenAnswer>> {
  const { context, call, signal } = active
  const encoding = call.operation === 'speech' ? encodingAt(entry, call.payload as SpeechCall) : null
  const rest = inFormat(active, deltasOf(call.operation, result), encoding, signal)
  try {
    const first = await rest.next()
    context.answer.encodedFrom = encoding?.source ?? null
    return { got: { first, streamed: false, rest, warnings, leave: () => {}, release } }
  } catch (error) {
    release()
    signal.throwIfAborted()
    if (error instanceof UpstreamFailure) return { failure: error.failure, blamed: true, unknown: false }
    throw error
  }
}

/** The deltas of an answer, speech in the format that was asked for. */
function inFormat(
  { services, context }: ActiveCall<StreamedName>,
  deltas: AsyncGenerator<Delta, Results[StreamedName], void>,
  encoding: Encoding | null,
  signal: CancelSignal,
): AsyncGenerator<Delta, Results[StreamedName], void> {
  if (encoding === null) return deltas
  const speech = deltas as AsyncGenerator<Deltas['speech'], SpeechResult, void>
  const { encoders, budget } = services
  return encodedDeltas(speech, encoding, { encoders, memory: leaseMemory(budget, context), signal })
}

interface StreamSource {
  readonly streamed: StreamedOperation<Calls[StreamedName], Results[StreamedName], Delta>
  readonly upstream: UpstreamRequest
  readonly payload: Calls[StreamedName]
  readonly target: Target
  readonly open: OpenStream
  readonly clock: Clock
  readonly signal: AbortSignal
  readonly deadlineAtMs: number
  /** Memory of the deltas, kept for the whole result. */
  readonly memory: MemoryLease
  /** Memory of bytes that have completed no delta yet. */
  readonly unread: MemoryLease
  /** Memory of bytes that are received and not read. */
  readonly waiting: MemoryLease
}

/** Sends the request and reads its answer, delta by delta on demand. @throws UpstreamFailure, or OVERLOADED */
async function* readAnswer(reading: StreamSource): AsyncGenerator<Delta, Results[StreamedName], void> {
  const { streamed, upstream, payload, target, open, signal, memory, unread, waiting } = reading
  const deadlineMs = Math.max(1, reading.deadlineAtMs - reading.clock.now())
  const stream = await open(upstream, { deadlineMs, signal, onHeld: waiting.charge })
  if (!isGood(stream)) throw new UpstreamFailure(streamed.refused(await readError(stream)))
  const reader = streamed.read(stream, payload, target)
  const beside = [unread, waiting]
  let bytes = 0
  try {
    for await (const chunk of stream.chunks) {
      bytes += chunk.byteLength
      if (bytes > STREAM_BYTES_MAX) throw new UpstreamFailure(TOO_LARGE)
      const turn = memory.turn(signal, beside)
      if (turn !== null) await turn
      const deltas = reader.push(chunk)
      if ('kind' in deltas) throw new UpstreamFailure(deltas)
      if (deltas.length === 0) unread.charge(chunk.byteLength)
      else unread.release()
      for (const delta of deltas) {
        memory.charge(deltaBytes(delta))
        yield delta
      }
    }
  } finally {
    unread.release()
  }
  const ended = reader.end()
  if ('result' in ended) return ended.result
  throw new UpstreamFailure(ended)
}

async function readError({ status, headers, chunks }: UpstreamStream): Promise<UpstreamReply> {
  const body: Uint8Array[] = []
  let leftBytes = ERROR_BYTES_MAX
  for await (const chunk of chunks) {
    body.push(chunk.subarray(0, leftBytes))
    leftBytes -= chunk.byteLength
    if (leftBytes <= 0) break
  }
  return { status, headers, body }
}

/** Yields a whole answer as the deltas of a stream, for entries that do not stream. */
async function* deltasOf<K extends StreamedName>(
  operation: K,
  result: Results[K],
): AsyncGenerator<Deltas[K], Results[K], void> {
  for (const delta of DELTAS[operation](result)) yield delta
  return result
}

/** Memory for the figures of a token, bytes. */
const TOKEN_BYTES = 320

/** How many tokens the log probabilities of a piece tell of, those included that were not chosen. */
function countTokens(logprobs: Logprobs | undefined): number {
  if (logprobs === undefined) return 0
  if ('tokens' in logprobs) {
    const others = (logprobs.top_logprobs ?? []).map((tops) => Object.keys(tops ?? {}).length)
    return others.reduce((sum, count) => sum + count, logprobs.tokens.length)
  }
  const tokens = [...(logprobs.content ?? []), ...(logprobs.refusal ?? [])]
  return tokens.reduce((sum, { top_logprobs: others }) => sum + 1 + others.length, 0)
}

/** About how many bytes of a delta are kept for the whole result; audio is not kept. */
function deltaBytes(delta: Deltas[StreamedName]): number {
  if (typeof delta === 'string') return delta.length
  if ('bytes' in delta) return 0
  if (delta.type === 'text') return delta.text.length + TOKEN_BYTES * countTokens(delta.logprobs)
  return delta.type === 'audio' ? delta.base64.length : delta.arguments.length
}

const DELTAS: { readonly [K in StreamedName]: (result: Results[K]) => Iterable<Deltas[K]> } = {
  transcription: ({ text }: TranscriptionResult) => (text === '' ? [] : [text]),
  speech: speechDeltas,
  chat: chatDeltas,
  complete: chatDeltas,
  vision: chatDeltas,
}

/** Times of the whole go with its beginning. */
function* speechDeltas({ audio, mediaType, times }: SpeechResult): Generator<Deltas['speech']> {
  for (const [index, bytes] of audio.entries())
    yield index === 0 && times !== undefined ? { bytes, mediaType, times } : { bytes, mediaType }
}

function* chatDeltas(result: ChatResult): Generator<ChatDelta> {
  for (const [at, one] of [result, ...(result.others ?? [])].entries()) {
    const choice = at === 0 ? {} : { choice: at }
    const { content: text, logprobs, tool_calls: calls, audio } = one
    if (logprobs !== undefined) yield { type: 'text', text, ...choice, logprobs }
    else if (text !== '') yield { type: 'text', text, ...choice }
    if (audio !== null) yield { type: 'audio', base64: audio.base64, ...choice }
    for (const [index, call] of calls.entries()) yield { type: 'tool_call', index, ...call, ...choice }
  }
}

/**
 * A generator that can be returned at any moment. A plain one would skip its `finally` when it is returned before its
 * first step, and run it late when a step is under way.
 */
export class CancellableStream<Item> implements AsyncGenerator<Item, void, void> {
  readonly #items: AsyncGenerator<Item, void, void>
  readonly #leave: () => Promise<void>

  /** @param leave called first; ends a step that is under way soon, and may be called more than once */
  constructor(items: AsyncGenerator<Item, void, void>, leave: () => Promise<void>) {
    this.#items = items
    this.#leave = leave
  }

  next(): Promise<IteratorResult<Item, void>> {
    return this.#items.next()
  }

  async return(): Promise<IteratorResult<Item, void>> {
    await this.#leave()
    return this.#items.return()
  }

  async throw(error: unknown): Promise<IteratorResult<Item, void>> {
    await this.#leave()
    return this.#items.throw(error)
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.return()
  }
}
