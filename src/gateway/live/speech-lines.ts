import type { SpeechCall, SpeechResult } from '../../contracts/calls.ts'
import type { CancelSignal } from '../../contracts/cancellation.ts'
import type { Entry } from '../../contracts/catalog.ts'
import type {
  LiveFrame,
  SocketEnd,
  SocketListener,
  SpeechEvent,
  SpeechStepper,
  UpstreamSocket,
} from '../../contracts/live.ts'
import type { Deltas, StreamedName } from '../../contracts/operations.ts'
import type { LiveSpeech } from '../../contracts/provider.ts'
import type { Clock } from '../../contracts/time.ts'
import { type Failure, UpstreamFailure } from '../../contracts/upstream.ts'
import type { Attempt } from '../call/attempt/failover.ts'
import { LATE, leaseMemory, type MemoryLease, traceContextOf } from '../call/attempt/operation.ts'
import { type OpenAnswer, openAttempt } from '../call/attempt/stream.ts'
import type { ActiveCall } from '../call/context/services.ts'
import { adapt, targetOf } from '../call/select/eligibility.ts'

const HANDSHAKE_MS = 5_000
/** How long a sentence may take to its first audio before it is asked for by a request. */
const FIRST_AUDIO_MS = 10_000
/** Audio of a connection that may wait for its reader; the provider is not read beyond. */
const WAITING_BYTES_MAX = 256 * 1024
/** A connection that is idle for this part of what the provider allows is left for a new one. */
const IDLE_PART = 0.75

/**
 * The connections of one session to providers that speak over a WebSocket. A sentence for which the connection is of
 * no use, before any of its audio was here, is asked of the same entry by a request, as are all after it: a session is
 * never worse off for the connection.
 */
export class SpeechLines {
  readonly #lines = new Map<Entry, SpeechLine>()
  /** Entries that are asked by requests. */
  readonly #asked = new Set<Entry>()
  #isOver = false

  /** Asks an entry for a sentence, as `openAttempt` does. */
  readonly open: typeof openAttempt = async (active, attempt) => {
    const { entry } = attempt.candidate
    const line = this.#isOver || this.#asked.has(entry) ? null : this.#lineTo(active, attempt)
    const got = line === null ? null : await line.speak(active, attempt)
    if (got !== null) return { got }
    if (line !== null) this.#asked.add(entry)
    return openAttempt(active, attempt)
  }

  close(): void {
    this.#isOver = true
    for (const line of this.#lines.values()) line.close()
  }

  /** Null: the entry has no connection for this call. */
  #lineTo(active: ActiveCall<StreamedName>, { candidate }: Attempt): SpeechLine | null {
    const { entry } = candidate
    const live = active.services.providers.get(entry.provider.kind)?.liveSpeech
    if (live === undefined) return null
    const { payload, warnings, encoding } = adapt(active.call, entry)
    if (encoding !== null) return null
    const target = targetOf(entry)
    const call = payload as SpeechCall
    if (live.unsupported(call, target) !== null) return null
    const known = this.#lines.get(entry)
    if (known?.isFree === true) return known
    if (known?.isBusy === true) return null
    known?.close()
    const { services, context } = active
    const open = (listener: SocketListener) =>
      services.openSocket(live.handshake(call, target), listener, {
        handshakeMs: HANDSHAKE_MS,
        headers: traceContextOf(context) ?? {},
      })
    const line = new SpeechLine(live, call, warnings, open, services.clock)
    this.#lines.set(entry, line)
    return line
  }
}

/** One connection, and the sentences that are under way on it. */
class SpeechLine implements SocketListener {
  readonly #clock: Clock
  readonly #live: LiveSpeech
  readonly #stepper: SpeechStepper
  readonly #socket: UpstreamSocket
  readonly #mediaType: string
  readonly #warnings: readonly string[]
  readonly #sentences = new Map<number, SentenceAudio>()
  /** Frames for a socket that is not open yet; null: it is. */
  #unsent: LiveFrame[] | null = []
  #count = 0
  #waitingBytes = 0
  #usedMs: number
  #isPaused = false
  /** A sentence was given up: it takes no other. */
  #isSpent = false
  #isOver = false

  constructor(
    live: LiveSpeech,
    call: SpeechCall,
    warnings: readonly string[],
    open: (listener: SocketListener) => UpstreamSocket,
    clock: Clock,
  ) {
    this.#clock = clock
    this.#usedMs = clock.now()
    this.#live = live
    this.#stepper = live.connect(call)
    this.#mediaType = live.mediaType(call)
    this.#warnings = warnings
    this.#socket = open(this)
  }

  /** It has as many sentences as it may; once one was given up, with any. */
  get isBusy(): boolean {
    return this.#sentences.size >= (this.#isSpent ? 1 : this.#live.sentencesMax)
  }

  /** It takes another sentence. */
  get isFree(): boolean {
    if (this.#isOver || this.#isSpent || this.isBusy) return false
    const isIdle = this.#sentences.size === 0
    return !isIdle || this.#clock.now() - this.#usedMs <= this.#live.idleMs * IDLE_PART
  }

  /**
   * Resolves with the audio of a sentence when it begins; null: none came.
   *
   * @throws the signal's reason when the caller left
   */
  async speak(active: ActiveCall<StreamedName>, attempt: Attempt): Promise<OpenAnswer | null> {
    const { services, context, call, signal, deadlineAtMs } = active
    const name = this.#count
    this.#count += 1
    const memory = leaseMemory(services.budget, context)
    const audio = new SentenceAudio(this.#mediaType, memory, (bytes) => this.#wasRead(bytes))
    this.#sentences.set(name, audio)
    this.#send(this.#stepper.speak(name, (call.payload as SpeechCall).input))
    const leave = () => this.#drop(name, audio)
    const firstMs = Math.min(attempt.deadlineAtMs - this.#clock.now(), FIRST_AUDIO_MS)
    const first = await audio.first(signal, firstMs, this.#clock)
    if (signal.aborted || first === null) {
      if (signal.aborted) leave()
      else this.#giveUp(name, audio)
      signal.throwIfAborted()
      return null
    }
    const late = this.#clock.after(Math.max(1, deadlineAtMs - this.#clock.now()), () => audio.fail(LATE))
    const release = () => {
      late.close()
      memory.release()
    }
    const left = () => {
      release()
      leave()
    }
    return { first, streamed: true, rest: audio, warnings: this.#warnings, leave: left, release }
  }

  /** Leaves the provider: what it still says is not listened to. */
  close(): void {
    if (this.#isOver) return
    this.#send(this.#stepper.end())
    this.#isOver = true
    this.#socket.close()
    this.#failAll(LEFT)
  }

  onOpen(): void {
    const frames = this.#unsent ?? []
    this.#unsent = null
    this.#send(frames)
  }

  onFrame(frame: LiveFrame): void {
    if (this.#isOver) return
    for (const event of this.#stepper.received(frame)) this.#take(event)
    this.#hold()
  }

  onEnd(end: SocketEnd): void {
    this.#fail(this.#failureOf(end))
  }

  #take(event: SpeechEvent): void {
    if (event.kind === 'failed') return void this.#fail(event.failure)
    const audio = this.#sentences.get(event.sentence)
    if (audio === undefined) return
    if (event.kind === 'spoken') {
      this.#sentences.delete(event.sentence)
      this.#usedMs = this.#clock.now()
      return void audio.end()
    }
    this.#waitingBytes += event.bytes.length
    audio.push(event.bytes)
  }

  /** The reader of a sentence has left: its audio cannot be stopped but with the connection. */
  #drop(name: number, audio: SentenceAudio): void {
    audio.fail(LEFT)
    if (this.#sentences.has(name)) this.#fail(LEFT)
  }

  /** A sentence did not begin: those before it may well be whole. */
  #giveUp(name: number, audio: SentenceAudio): void {
    audio.fail(LEFT)
    this.#sentences.delete(name)
    this.#isSpent = true
    if (this.#sentences.size === 0) this.#fail(LEFT)
  }

  #fail(failure: Failure): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#socket.destroy()
    this.#failAll(failure)
  }

  #failAll(failure: Failure): void {
    for (const audio of this.#sentences.values()) audio.fail(failure)
    this.#sentences.clear()
  }

  #failureOf(end: SocketEnd): Failure {
    if (end.kind === 'refused') return this.#live.refused(end.reply)
    return end.kind === 'failed' ? end.failure : this.#stepper.closed(end.code, end.reason)
  }

  #send(frames: readonly LiveFrame[]): void {
    this.#usedMs = this.#clock.now()
    if (this.#unsent !== null) this.#unsent.push(...frames)
    else for (const frame of frames) this.#socket.send(frame)
  }

  #wasRead(bytes: number): void {
    this.#waitingBytes -= bytes
    this.#hold()
  }

  /** Audio of a sentence that has no reader yet may come before that of one whose reader waits. */
  #hold(): void {
    const isStarving = [...this.#sentences.values()].some(({ isAwaited }) => isAwaited)
    const isFull = this.#waitingBytes > WAITING_BYTES_MAX && !isStarving
    if (isFull === this.#isPaused || this.#isOver) return
    this.#isPaused = isFull
    if (isFull) this.#socket.pause()
    else this.#socket.resume()
  }
}

type Delta = Deltas['speech']

/** The audio of one sentence between its connection and its reader. */
class SentenceAudio implements AsyncIterator<Delta, SpeechResult> {
  readonly #mediaType: string
  readonly #memory: MemoryLease
  readonly #wasRead: (bytes: number) => void
  readonly #waiting: Uint8Array[] = []
  #failure: Failure | null = null
  #isWhole = false
  #wake: (() => void) | null = null

  constructor(mediaType: string, memory: MemoryLease, wasRead: (bytes: number) => void) {
    this.#mediaType = mediaType
    this.#memory = memory
    this.#wasRead = wasRead
  }

  /** Its reader has read all that came. */
  get isAwaited(): boolean {
    return this.#wake !== null
  }

  push(bytes: Uint8Array): void {
    if (this.#failure !== null) return void this.#wasRead(bytes.length)
    this.#memory.charge(bytes.length)
    this.#waiting.push(bytes)
    this.#goOn()
  }

  end(): void {
    this.#isWhole = true
    this.#goOn()
  }

  fail(failure: Failure): void {
    if (this.#isWhole) return
    this.#failure ??= failure
    this.#goOn()
  }

  /** The first audio; null: none comes, or not in time. */
  async first(
    signal: CancelSignal,
    limitMs: number,
    clock: Clock,
  ): Promise<IteratorResult<Delta, SpeechResult> | null> {
    const stop = () => this.fail(LATE)
    const timer = clock.after(Math.max(1, limitMs), stop)
    signal.addEventListener('abort', stop)
    try {
      const first = await this.next()
      return first.done === true ? null : first
    } catch {
      return null
    } finally {
      timer.close()
      signal.removeEventListener('abort', stop)
    }
  }

  async next(): Promise<IteratorResult<Delta, SpeechResult>> {
    for (;;) {
      const bytes = this.#waiting.shift()
      if (bytes !== undefined) {
        this.#memory.charge(-bytes.length)
        this.#wasRead(bytes.length)
        return { done: false, value: { bytes, mediaType: this.#mediaType } }
      }
      if (this.#failure !== null) throw new UpstreamFailure(this.#failure)
      if (this.#isWhole) return { done: true, value: { audio: [], mediaType: this.#mediaType } }
      await new Promise<void>((resolve) => {
        this.#wake = resolve
        this.#wasRead(0)
      })
    }
  }

  #goOn(): void {
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }
}

/** Never shown: a caller that waits is told why the call was left. */
const LEFT: Failure = {
  kind: 'connect',
  status: null,
  reason: 'the caller left',
  retryAfterMs: null,
  providerMessage: null,
}
