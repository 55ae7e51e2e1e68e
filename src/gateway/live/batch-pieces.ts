import type { Segment, TranscriptionResult, Word } from '../../contracts/calls.ts'
import { Cancellation } from '../../contracts/cancellation.ts'
import { GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { LiveEvent } from '../../contracts/live.ts'
import type { AdmittedContext } from '../call/context/call-context.ts'
import type { CallMoney } from '../call/context/call-money.ts'
import type { Services } from '../call/context/services.ts'
import type { CallOf } from '../call/facts/call.ts'
import { run, selectEntries } from '../call/pipeline.ts'
import type { Candidate } from '../call/select/selection.ts'
import { wantsSpeakers } from '../providers/transcript-needs.ts'
import type { LiveRequest } from './dependencies.ts'
import type { Finalized, LiveFeed } from './feed.ts'
import { addSpent, NOTHING_SPENT, type Spent } from './money.ts'
import { cutSeconds, fileOf, type PieceLengths, toPcm, wholeFrames } from './piece-audio.ts'

/** Audio that a piece has at least, unless nothing follows it, and at most, seconds. */
const LEAST_SECONDS = 3
const MOST_SECONDS = 15
/** Silence that ends an utterance where the caller does not say, ms: what OpenAI's and ElevenLabs' sessions take. */
const PAUSE_MS = 500
/** How often audio is looked at for a place to cut it. */
const LOOK_MS = 500
/** Attempts of a session that are kept for its line in the log. */
const ATTEMPTS_MAX = 100

type Final = Extract<LiveEvent, { readonly kind: 'final' }>

/** The transcript of a piece. */
export interface HeardPiece {
  readonly candidate: Candidate
  /** Place of its first byte. */
  readonly base: number
  readonly finals: readonly Final[]
  readonly finalized: readonly Finalized[]
  readonly warnings: readonly string[]
}

/** Is told what becomes of pieces. */
export interface PieceListener {
  onPiece(piece: HeardPiece): void
  /** The audio that the caller asked to have settled is settled. */
  onFinalized(finalized: readonly Finalized[]): void
  /** No entry could transcribe a piece. */
  onPieceFailed(error: GatewayError): void
}

/**
 * Continues a session that has no entry for live audio any more: cuts its audio into pieces where no one speaks, and
 * has each transcribed as a file. Each is a call of the pipeline with a context and a reservation of its own, so that
 * it is selected, attempted, paid and counted as any call is.
 */
export class BatchPieces {
  readonly #services: Services
  readonly #request: LiveRequest
  readonly #feed: LiveFeed
  readonly #listener: PieceListener
  readonly #lengths: PieceLengths
  #running: { readonly context: AdmittedContext; readonly cancel: Cancellation } | null = null
  #lookedMs = 0
  #spent: Spent = NOTHING_SPENT
  #seconds = 0
  #isOver = false

  private constructor(services: Services, request: LiveRequest, feed: LiveFeed, listener: PieceListener) {
    const { live_buffer_seconds: reach } = services.snapshot().limits
    const { endpointingMs } = request.call.payload.live
    this.#services = services
    this.#request = request
    this.#feed = feed
    this.#listener = listener
    // The audio that comes while a piece is with a provider has to fit the ring, too.
    const mostSeconds = Math.min(MOST_SECONDS, reach / 2)
    const leastSeconds = Math.min(LEAST_SECONDS, mostSeconds / 2)
    this.#lengths = { leastSeconds, mostSeconds, pauseSeconds: (endpointingMs ?? PAUSE_MS) / 1000 }
  }

  /**
   * Takes over a session, where its route allows it and an entry keeps every required feature. Speakers are told apart
   * within one file only, so a session that requires them is not taken over.
   *
   * @returns null: no entry can continue it
   */
  static begin(
    services: Services,
    request: LiveRequest,
    feed: LiveFeed,
    listener: PieceListener,
  ): BatchPieces | null {
    const { options, live } = request.call.payload
    // Neither speakers nor turns can be followed from piece to piece.
    if (wantsSpeakers(options) || live.turns === true) return null
    const pieces = new BatchPieces(services, request, feed, listener)
    try {
      const nothing = pieces.#callOf(new Uint8Array(0))
      return pieces.#candidates(pieces.#newContext(new Cancellation()), nothing).length > 0 ? pieces : null
    } catch {
      return null
    }
  }

  /** Seconds of audio that may be in a piece: so much waits in any case. */
  get pieceSeconds(): number {
    return this.#lengths.mostSeconds
  }

  /** A piece is with a provider. */
  get isBusy(): boolean {
    return this.#running !== null
  }

  /** Seconds of audio that were transcribed. */
  get seconds(): number {
    return this.#seconds
  }

  /** The charges for the pieces, with the one that is under way. */
  get spent(): Spent {
    const under = this.#running === null ? NOTHING_SPENT : spentOf(this.#running.context.money)
    return addSpent(this.#spent, under)
  }

  /** Sends the next piece, if there is one and none is under way. */
  pump(nowMs: number): void {
    if (this.#isOver || this.isBusy) return
    const isFull = this.#feed.unsettledSeconds >= this.#lengths.mostSeconds
    if (!isFull && !this.#feed.isDue && nowMs - this.#lookedMs < LOOK_MS) return
    this.#lookedMs = nowMs
    const { audio } = this.#request.call.payload.live
    const { frameBytes } = this.#feed
    const { place, bytes, due } = this.#feed.unsettled(
      wholeFrames(this.#lengths.mostSeconds, audio) * frameBytes,
    )
    if (due === 0) return void this.#listener.onFinalized(this.#feed.settleTo(place))
    const pcm = toPcm(bytes, audio)
    const cut =
      due !== null && due <= bytes.length
        ? due / this.#feed.bytesPerSecond
        : cutSeconds(pcm, audio, this.#lengths)
    if (cut === null) return
    const frames = Math.min(bytes.length / frameBytes, wholeFrames(cut, audio))
    const piece = pcm.subarray(0, frames * audio.channels * 2)
    const { budget } = this.#services
    const workspace = this.#request.context.principal.workspace.id
    // Without the memory for it the audio stays in the ring, until the next look.
    if (!budget.tryReserve(piece.length, workspace)) return
    const over = this.#transcribe(piece, { place, end: place + frames * frameBytes })
      .catch((thrown: unknown) => this.#listener.onPieceFailed(toGatewayError(thrown)))
      .finally(() => budget.refund(piece.length, workspace))
    void this.#services.settlements.during(over)
  }

  /** Gives the piece up that is under way: it costs what it may have cost its provider. */
  close(reason: Error): void {
    this.#isOver = true
    this.#running?.cancel.abort(reason)
  }

  async #transcribe(
    pcm: Uint8Array,
    { place, end }: { readonly place: number; readonly end: number },
  ): Promise<void> {
    const cancel = new Cancellation()
    const context = this.#newContext(cancel)
    this.#running = { context, cancel }
    const call = this.#callOf(pcm)
    let heard: (Omit<HeardPiece, 'finalized'> & { readonly seconds: number }) | GatewayError
    try {
      const candidates = this.#candidates(context, call)
      const request = {
        mode: 'whole',
        call,
        leaveOut: notAllowed,
        deadlineMs: this.#lengths.mostSeconds * 1000,
      } as const
      const { envelope, result, release } = await run(this.#services, context, request)
      const seconds = call.payload.audio.durationSeconds ?? 0
      const { provider, model } = context.routing.attempts.at(-1)!
      const candidate = candidates.find(
        ({ entry }) => entry.provider.name === provider && entry.model === model,
      )!
      heard = {
        candidate,
        base: place,
        seconds,
        finals: finalsOf(result, seconds),
        warnings: envelope.warnings,
      }
      release()
    } catch (thrown) {
      heard = toGatewayError(thrown)
    }
    this.#end(context)
    if (this.#isOver) return
    if (heard instanceof GatewayError) return void this.#listener.onPieceFailed(heard)
    this.#seconds += heard.seconds
    // Settled first: a final tells up to where its audio is settled.
    this.#listener.onPiece({ ...heard, finalized: this.#feed.settleTo(end) })
  }

  /** A piece is over: what it cost goes into the sum, once. */
  #end(context: AdmittedContext): void {
    this.#running = null
    this.#spent = addSpent(this.#spent, spentOf(context.money))
    const { attempts } = this.#request.context.routing
    attempts.push(...context.routing.attempts.slice(0, Math.max(0, ATTEMPTS_MAX - attempts.length)))
  }

  #newContext(signal: Cancellation): AdmittedContext {
    return this.#request.context.within(signal)
  }

  #callOf(pcm: Uint8Array): CallOf<'transcription'> {
    const { operation, payload, selectors } = this.#request.call
    const { live, options } = payload
    const audio = fileOf(pcm, live.audio)
    return { operation, payload: { audio, options: { ...options, mode: 'batch' } }, selectors, warnings: [] }
  }

  /** @throws GatewayError as `select` */
  #candidates(context: AdmittedContext, call: CallOf<'transcription'>): readonly Candidate[] {
    const nowMs = this.#services.clock.now()
    const { candidates } = selectEntries(this.#services, context, { mode: 'whole', call }, nowMs)
    return candidates.filter((candidate) => !notAllowed(candidate))
  }
}

function notAllowed({ route }: Candidate): boolean {
  return route.liveFallback !== 'batch'
}

/** The charge for a call, or the one to come. */
function spentOf({ spent }: CallMoney): Spent {
  if (spent === null) return NOTHING_SPENT
  return { billableSeconds: spent.usage.billable_audio_seconds ?? 0, costUsd: spent.costUsd }
}

/** The words of a file, as finals of a connection: each word in one of them, and no time after the file's end. */
export function finalsOf(result: TranscriptionResult, seconds: number): readonly Final[] {
  const { language, languageConfidence } = result
  const channels = new Set([...result.segments, ...result.words].map(({ channel = 0 }) => channel))
  if (channels.size === 0) channels.add(0)
  const finals = [...channels].flatMap((channel) =>
    pieceParts(result, channel, seconds).map(({ segment, words }): Final => {
      const { id: _, channel: __, ...rest } = within(segment, seconds)
      return {
        kind: 'final',
        channel,
        segment: rest,
        words: words.map((word) => within(word, seconds)),
        language,
        languageConfidence,
      }
    }),
  )
  return finals.toSorted((a, b) => a.segment.start - b.segment.start)
}

interface Part {
  readonly segment: Segment
  readonly words: Word[]
}

/** The segments of a channel with their words; one of all words, or of the whole text, where there are none. */
function pieceParts(result: TranscriptionResult, channel: number, seconds: number): readonly Part[] {
  const isOf = (part: Segment | Word) => (part.channel ?? 0) === channel
  const words = result.words.filter(isOf).toSorted((a, b) => a.start - b.start)
  const segments = result.segments.filter(isOf).toSorted((a, b) => a.start - b.start)
  const parts = segments.map((segment): Part => ({ segment, words: [] }))
  if (parts.length === 0) {
    const text = words.length > 0 ? words.map(({ word }) => word).join(' ') : result.text.trim()
    if (text === '') return []
    const [start, end] = [words[0]?.start ?? 0, words.at(-1)?.end ?? seconds]
    return [{ segment: { id: 0, start, end, text }, words }]
  }
  for (const word of words) {
    const middle = (word.start + word.end) / 2
    let [from, to] = [0, parts.length]
    while (to - from > 1) {
      const half = (from + to) >> 1
      if (parts[half]!.segment.start <= middle) from = half
      else to = half
    }
    parts[from]!.words.push(word)
  }
  return parts
}

function within<Part extends { readonly start: number; readonly end: number }>(
  part: Part,
  seconds: number,
): Part {
  return { ...part, start: Math.min(part.start, seconds), end: Math.min(part.end, seconds) }
}
