import type { LiveCall } from '../../contracts/calls.ts'
import type { CancelSignal } from '../../contracts/cancellation.ts'
import type {
  LiveEvent,
  LiveFrame,
  LiveStepper,
  SocketEnd,
  SocketListener,
  UpstreamSocket,
} from '../../contracts/live.ts'
import { bytesPerSecond } from '../../contracts/live-audio.ts'
import type { LiveTranscription } from '../../contracts/provider.ts'
import type { Clock } from '../../contracts/time.ts'
import type { Failure } from '../../contracts/upstream.ts'
import type { Attempt } from '../call/attempt/failover.ts'
import { type AttemptFailure, traceContextOf } from '../call/attempt/operation.ts'
import type { ActiveCall } from '../call/context/services.ts'
import { adapt, targetOf } from '../call/select/eligibility.ts'
import type { Candidate } from '../call/select/selection.ts'
import { type Converter, converter } from '../media/pcm.ts'

/** How long a provider may take to accept a socket, and how long until it takes audio. */
const HANDSHAKE_MS = 5_000
const READY_MS = 5_000
/** How often a connection is looked at for its death. */
const LOOK_MS = 100
/** How fast audio goes to a provider that does not say what it takes, of real time: Deepgram's limit. */
const SPEED = 1.25
/** Seconds of audio that may be sent at once, when a connection begins and after a pause. */
const BURST_SECONDS = 1
/** A provider that has not read this much of its audio has stopped reading, seconds. */
const UNREAD_SECONDS = 5

/** A provider that does not answer sound for so long has died silently. */
const SILENT_MS = 5_000
/** How long a provider may take to say the rest once it was told that the audio has ended. */
const ENDING_MS = 10_000
/** How often its provider may tell text of no audio that was sent, without settling any in between. */
const MISPLACED_MAX = 3
/** A connection is changed for another so long before its provider would end it. */
const ROTATION_MARGIN_SECONDS = 60

/** Is told what a connection says. */
export interface ConnectionListener {
  onEvent(event: LiveEvent, connection: LiveConnection): void
  /** The connection is over without having ended. Called once, and last. */
  onFailed(failure: Failure, connection: LiveConnection): void
}

/**
 * A connection to an entry, from its handshake to its end; the pace at which it takes audio, and where in the session
 * its time began.
 */
export class LiveConnection implements SocketListener {
  readonly candidate: Candidate
  /** Hints that the entry lacks. */
  readonly warnings: readonly string[]
  readonly bills: 'audio' | 'session'
  /** When it was begun, on the node's clock, and when it took audio for the first time. */
  readonly begunMs: number
  readyMs = 0
  /** When it last said something. */
  heardMs = 0
  /** Place of the first byte of audio that it was sent, and of the next one. */
  base = 0
  place = 0
  /** It was told that no more audio comes. */
  isEnding = false
  /** It has settled audio: it works. */
  hasWorked = false
  /** Why its provider is to blame although it went on; null: it is not. */
  fault: Failure | null = null
  #misplaced = 0
  readonly #clock: Clock
  readonly #listener: ConnectionListener
  readonly #live: LiveTranscription
  readonly #stepper: LiveStepper
  readonly #converter: Converter | null
  readonly #socket: UpstreamSocket
  readonly #unreadMax: number
  readonly #speed: number
  #state: 'opening' | 'open' | 'over' = 'opening'
  #opened: (ended: OpenEnd) => void = () => {}
  #credit = BURST_SECONDS
  #creditMs = 0
  #sentMs = 0
  /** When it was last looked at for its death, and when sound had last been sent by then. */
  #lookedMs = 0
  #soundMs = 0

  constructor(
    active: ActiveCall<'transcription'>,
    { candidate, deadlineAtMs, placed }: Attempt,
    listener: ConnectionListener,
  ) {
    const { services, context, call } = active
    const { entry } = candidate
    const live = services.providers.get(entry.provider.kind)?.live
    if (live === undefined) throw new Error(`${entry.provider.kind} does not transcribe live`)
    const { payload, warnings } = adapt(call, entry)
    const target = targetOf(entry, placed)
    const handshake = live.handshake(payload as LiveCall, target)
    const { bills = 'audio', replay_speed: speed = SPEED } = entry.facts.live ?? {}
    this.candidate = candidate
    this.warnings = warnings
    this.bills = bills
    this.#clock = services.clock
    this.begunMs = services.clock.now()
    this.#listener = listener
    this.#live = live
    this.#stepper = live.connect(payload as LiveCall, target)
    this.#converter = converter((payload as LiveCall).live.audio, handshake.audio)
    this.#speed = speed
    // Base64 is a third longer than what it says.
    this.#unreadMax = UNREAD_SECONDS * bytesPerSecond(handshake.audio) * (4 / 3)
    const leftMs = Math.max(1, Math.min(HANDSHAKE_MS, deadlineAtMs - this.begunMs))
    const headers = traceContextOf(context) ?? {}
    this.#socket = services.openSocket(handshake, this, { handshakeMs: leftMs, headers })
  }

  /**
   * Resolves when it takes audio, or will not.
   *
   * @throws the signal's reason when the caller left
   */
  async opened(signal: CancelSignal, deadlineAtMs: number): Promise<OpenEnd> {
    const leftMs = Math.min(HANDSHAKE_MS + READY_MS, deadlineAtMs - this.#clock.now())
    const late = this.#clock.after(Math.max(1, leftMs), () => this.fail(NOT_READY))
    const leave = () => this.fail(LEFT)
    signal.addEventListener('abort', leave)
    try {
      if (signal.aborted) leave()
      return await new Promise<OpenEnd>((resolve) => {
        this.#opened = resolve
        if (this.#state === 'over') resolve(unopened(LEFT))
      })
    } finally {
      late.close()
      signal.removeEventListener('abort', leave)
      signal.throwIfAborted()
    }
  }

  /** Its provider has stopped reading. */
  get isStuck(): boolean {
    return this.#socket.bufferedBytes > this.#unreadMax
  }

  /**
   * Why it is taken for dead when it says nothing; null: it is not, or was asked for just before. Sound counts that was
   * sent by the last look: where this process was held up, what the provider said meanwhile is read in between.
   *
   * @param soundMs when sound was last sent
   * @param endedMs when no more audio came; null: more may come
   */
  deathOf(nowMs: number, soundMs: number, endedMs: number | null): Failure | null {
    if (nowMs - this.#lookedMs < LOOK_MS) return null
    const soundBeforeMs = this.#soundMs
    this.#lookedMs = nowMs
    this.#soundMs = soundMs
    const silentMs = nowMs - this.heardMs
    if (this.isStuck && silentMs > SILENT_MS) return STUCK
    if (this.isEnding && endedMs !== null && nowMs - Math.max(endedMs, this.heardMs) > ENDING_MS)
      return SILENT
    const { answersWithinMs: withinMs } = this.#live
    if (withinMs === undefined) return null
    return silentMs > withinMs && soundBeforeMs > this.heardMs + withinMs / 2 ? SILENT : null
  }

  /** Its provider would end it soon. */
  isAged(nowMs: number): boolean {
    const longest = this.candidate.entry.facts.live?.limits.max_session_seconds
    if (longest === undefined) return false
    const margin = Math.min(ROTATION_MARGIN_SECONDS, longest / 4)
    return nowMs - this.readyMs > (longest - margin) * 1000
  }

  /** Takes `seconds` of audio from what may be sent now; false: not yet. */
  mayTake(seconds: number, nowMs: number): boolean {
    const earned = ((nowMs - this.#creditMs) / 1000) * this.#speed
    this.#credit = Math.min(Math.max(BURST_SECONDS, seconds), this.#credit + earned)
    this.#creditMs = nowMs
    if (this.#credit < seconds) return false
    this.#credit -= seconds
    return true
  }

  sendAudio(bytes: Uint8Array, nowMs: number): void {
    this.#sentMs = nowMs
    this.#send(this.#stepper.audio(this.#converter === null ? bytes : this.#converter(bytes)))
  }

  /** @returns false when there is nothing to settle, or the provider cannot be asked */
  finalize(): boolean {
    const frames = this.#stepper.finalize()
    this.#send(frames)
    return frames.length > 0
  }

  end(): void {
    this.isEnding = true
    this.#send(this.#stepper.end())
  }

  /** Says that it is still there, where nothing was sent for a while. */
  keepAlive(nowMs: number): void {
    const { keepAliveMs } = this.#live
    if (keepAliveMs === undefined || nowMs - this.#sentMs < keepAliveMs) return
    this.#sentMs = nowMs
    this.#send(this.#stepper.keepAlive())
  }

  /** Leaves the provider: what it still says is not listened to. */
  close(): void {
    if (this.#state === 'over') return
    this.#state = 'over'
    // A provider that is not told continues to bill for the open connection.
    if (!this.isEnding) this.#send(this.#stepper.end())
    this.#socket.close()
  }

  onOpen(): void {
    this.#send(this.#stepper.opened())
    if (this.#live.readyWhenOpen) this.#ready()
  }

  onFrame(frame: LiveFrame): void {
    if (this.#state === 'over') return
    this.heardMs = this.#clock.now()
    const { events, reply } = this.#stepper.received(frame)
    if (reply !== undefined) this.#send(reply)
    // Settled first: a final tells up to where its audio is settled.
    for (const event of events) {
      if (event.kind !== 'settled') continue
      this.#misplaced = 0
      this.#take(event)
    }
    for (const event of events) if (event.kind !== 'settled') this.#take(event)
  }

  onEnd(end: SocketEnd): void {
    const failure = this.#failureOf(end)
    if (failure === null) this.#take({ kind: 'ended' })
    else this.fail(failure)
  }

  #take(event: LiveEvent): void {
    if (this.#state === 'over') return
    if (event.kind === 'failed') this.fail(event.failure)
    else if (event.kind === 'ready') this.#ready()
    else if (event.kind === 'misplaced') this.#noteMisplaced()
    else if (this.#state === 'open') this.#listener.onEvent(event, this)
  }

  /** The rest of its text can be of use, unless it has lost count of the audio. */
  #noteMisplaced(): void {
    this.fault = MISPLACED
    this.#misplaced += 1
    if (this.#misplaced >= MISPLACED_MAX) this.fail(MISPLACED)
  }

  #ready(): void {
    if (this.#state !== 'opening') return
    this.#state = 'open'
    const nowMs = this.#clock.now()
    this.readyMs = nowMs
    this.heardMs = nowMs
    this.#creditMs = nowMs
    this.#sentMs = nowMs
    this.#opened({ got: this })
  }

  /** Gives the connection up: it is of no use any more. */
  fail(failure: Failure): void {
    const before = this.#state
    if (before === 'over') return
    this.#state = 'over'
    this.#socket.destroy()
    if (before === 'opening') this.#opened(unopened(failure))
    else this.#listener.onFailed(failure, this)
  }

  #failureOf(end: SocketEnd): Failure | null {
    if (end.kind === 'refused') return this.#live.refused(end.reply)
    return end.kind === 'failed' ? end.failure : this.#stepper.closed(end.code, end.reason)
  }

  #send(frames: readonly LiveFrame[]): void {
    for (const frame of frames) this.#socket.send(frame)
  }
}

type OpenEnd = { readonly got: LiveConnection } | AttemptFailure

function unopened(failure: Failure): AttemptFailure {
  return { failure, blamed: true, unknown: false }
}

const PLAIN = { status: null, retryAfterMs: null, providerMessage: null }
const NOT_READY: Failure = { ...PLAIN, kind: 'server', reason: 'it took no audio in time' }
/** Never shown: a caller that waits is told why the call was left. */
const LEFT: Failure = { ...PLAIN, kind: 'connect', reason: 'the caller left' }
/** It closed before it was asked to. */
export const ENDED_EARLY: Failure = { ...PLAIN, kind: 'ambiguous', reason: 'it ended before the audio did' }
const SILENT: Failure = { ...PLAIN, kind: 'ambiguous', reason: 'it answers no more' }
const MISPLACED: Failure = { ...PLAIN, kind: 'server', reason: 'it told text where no audio was sent' }
const STUCK: Failure = { ...PLAIN, kind: 'ambiguous', reason: 'it has stopped reading' }
