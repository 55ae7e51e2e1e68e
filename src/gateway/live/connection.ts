import type { CancelSignal } from '../../contracts/cancellation.ts'
import type { LiveEvent, LiveFrame, SocketEnd, SocketListener } from '../../contracts/live.ts'
import type { Clock } from '../../contracts/time.ts'
import type { Failure } from '../../contracts/upstream.ts'
import type { Attempt } from '../call/attempt/failover.ts'
import type { AttemptFailure } from '../call/attempt/operation.ts'
import type { ActiveCall } from '../call/context/services.ts'
import type { Candidate } from '../call/select/selection.ts'
import { ProviderLine } from './provider-line.ts'

/** How long a provider may take to accept a socket, and how long until it takes audio. */
const HANDSHAKE_MS = 5_000
const READY_MS = 5_000
/** How often a connection is looked at for its death. */
const LOOK_MS = 100
/** How fast audio goes to a provider that does not say what it takes, of real time: Deepgram's limit. */
const SPEED = 1.25
/** Seconds of audio that may be sent at once, when a connection begins and after a pause. */
const BURST_SECONDS = 1

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
  /** Place of the first byte of audio that it was sent, and of the next one. */
  base = 0
  place = 0
  /** It was told that no more audio comes. */
  isEnding = false
  /** It has settled audio: it works. */
  hasWorked = false
  /** Why its provider is to blame although it went on; null: it is not. */
  fault: Failure | null = null
  readonly #clock: Clock
  readonly #listener: ConnectionListener
  readonly #line: ProviderLine
  readonly #vitals: Vitals
  readonly #pace: Pace
  #state: 'opening' | 'open' | 'over' = 'opening'
  #opened: (ended: OpenEnd) => void = () => {}
  /** Events from before its listener wanted to be told; null: the listener does. */
  #early: LiveEvent[] | null = []

  constructor(active: ActiveCall<'transcription'>, attempt: Attempt, listener: ConnectionListener) {
    const { candidate, deadlineAtMs } = attempt
    const { clock } = active.services
    const nowMs = clock.now()
    this.candidate = candidate
    this.#clock = clock
    this.#listener = listener
    this.#vitals = new Vitals(nowMs)
    this.#pace = new Pace(candidate.entry.facts.live?.replay_speed ?? SPEED)
    const handshakeMs = Math.max(1, Math.min(HANDSHAKE_MS, deadlineAtMs - nowMs))
    this.#line = new ProviderLine(active, attempt, handshakeMs, this)
  }

  /** Hints that the entry lacks. */
  get warnings(): readonly string[] {
    return this.#line.warnings
  }

  get bills(): 'audio' | 'session' {
    return this.candidate.entry.facts.live?.bills ?? 'audio'
  }

  /** How long it took until it took audio. */
  get connectSeconds(): number {
    return this.#vitals.connectSeconds
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
    return this.#line.isStuck
  }

  /**
   * Why it is taken for dead when it says nothing; null: it is not, or was asked for just before.
   *
   * @param soundMs when sound was last sent
   */
  deathOf(nowMs: number, soundMs: number): Failure | null {
    return this.#vitals.deathOf(nowMs, soundMs, this.#line)
  }

  /** Its provider would end it soon. */
  isAged(nowMs: number): boolean {
    const longest = this.candidate.entry.facts.live?.limits.max_session_seconds
    if (longest === undefined) return false
    const margin = Math.min(ROTATION_MARGIN_SECONDS, longest / 4)
    return nowMs - this.#vitals.readyMs > (longest - margin) * 1000
  }

  /** Takes `seconds` of audio from what may be sent now; false: not yet. */
  mayTake(seconds: number, nowMs: number): boolean {
    return this.#pace.mayTake(seconds, nowMs)
  }

  sendAudio(bytes: Uint8Array, nowMs: number): void {
    this.#line.sendAudio(bytes, nowMs)
  }

  /** @returns as `ProviderLine.finalize` */
  finalize(): ReturnType<ProviderLine['finalize']> {
    return this.#line.finalize()
  }

  end(): void {
    this.isEnding = true
    this.#vitals.endedMs ??= this.#clock.now()
    this.#line.end()
  }

  /** Says that it is still there, where nothing was sent for a while. */
  keepAlive(nowMs: number): void {
    this.#line.keepAlive(nowMs)
  }

  /** Leaves the provider: what it still says is not listened to. */
  close(): void {
    if (this.#state === 'over') return
    this.#state = 'over'
    // A provider that is not told continues to bill for the open connection.
    if (!this.isEnding) this.#line.end()
    this.#line.close()
  }

  onOpen(): void {
    if (this.#line.opened()) this.#ready()
  }

  onFrame(frame: LiveFrame): void {
    if (this.#state === 'over') return
    this.#vitals.heardMs = this.#clock.now()
    const events = this.#line.received(frame)
    // Settled first: a final tells up to where its audio is settled.
    for (const event of events) {
      if (event.kind !== 'settled') continue
      this.#vitals.misplaced = 0
      this.#take(event)
    }
    for (const event of events) if (event.kind !== 'settled') this.#take(event)
  }

  onEnd(end: SocketEnd): void {
    const failure = this.#line.failureOf(end)
    if (failure === null) this.#take({ kind: 'ended' })
    else this.fail(failure)
  }

  #take(event: LiveEvent): void {
    if (this.#state === 'over') return
    if (event.kind === 'failed') this.fail(event.failure)
    else if (event.kind === 'ready') this.#ready()
    else if (event.kind === 'misplaced') this.#noteMisplaced()
    else if (this.#state === 'open') this.#tell(event)
  }

  /** The rest of its text can be of use, unless it has lost count of the audio. */
  #noteMisplaced(): void {
    this.fault = MISPLACED
    this.#vitals.misplaced += 1
    if (this.#vitals.misplaced >= MISPLACED_MAX) this.fail(MISPLACED)
  }

  #ready(): void {
    if (this.#state !== 'opening') return
    this.#state = 'open'
    const nowMs = this.#clock.now()
    this.#vitals.ready(nowMs)
    this.#pace.begin(nowMs)
    this.#line.ready(nowMs)
    this.#opened({ got: this })
  }

  /** Gives the connection up: it is of no use any more. */
  fail(failure: Failure): void {
    const before = this.#state
    if (before === 'over') return
    this.#state = 'over'
    this.#line.destroy()
    if (before === 'opening') this.#opened(unopened(failure))
    else this.#tell({ kind: 'failed', failure })
  }

  /** From now on its listener is told what it says; first what it said along with being open. */
  listen(): void {
    const early = this.#early ?? []
    this.#early = null
    for (const event of early) this.#tell(event)
  }

  #tell(event: LiveEvent): void {
    if (this.#early !== null) this.#early.push(event)
    else if (event.kind === 'failed') this.#listener.onFailed(event.failure, this)
    else this.#listener.onEvent(event, this)
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

/** How fast a connection takes audio. */
class Pace {
  readonly #speed: number
  #credit = BURST_SECONDS
  #creditMs = 0

  /** @param speed of real time */
  constructor(speed: number) {
    this.#speed = speed
  }

  begin(nowMs: number): void {
    this.#creditMs = nowMs
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
}

/** The signs of life of a connection, on the node's clock. */
class Vitals {
  readonly #begunMs: number
  /** When it took audio for the first time. */
  readyMs = 0
  /** When it last said something. */
  heardMs = 0
  /** When it was told that no more audio comes: later than that came to be, where audio had to wait. */
  endedMs: number | null = null
  /** Texts of no audio that was sent, since audio was last settled. */
  misplaced = 0
  #lookedMs = 0
  /** When sound had last been sent by the last look. */
  #soundMs = 0

  constructor(nowMs: number) {
    this.#begunMs = nowMs
  }

  get connectSeconds(): number {
    return (this.readyMs - this.#begunMs) / 1000
  }

  ready(nowMs: number): void {
    this.readyMs = nowMs
    this.heardMs = nowMs
  }

  /**
   * Why it is taken for dead; null: it is not, or was looked at just before. Sound counts that was sent by the last
   * look: where this process was held up, what the provider said meanwhile is read in between.
   *
   * @param soundMs when sound was last sent
   */
  deathOf(nowMs: number, soundMs: number, signs: Signs): Failure | null {
    if (nowMs - this.#lookedMs < LOOK_MS) return null
    const soundBeforeMs = this.#soundMs
    this.#lookedMs = nowMs
    this.#soundMs = soundMs
    const silentMs = nowMs - this.heardMs
    if (signs.isStuck && silentMs > SILENT_MS) return STUCK
    if (this.endedMs !== null && nowMs - Math.max(this.endedMs, this.heardMs) > ENDING_MS) return SILENT
    const { answersWithinMs: withinMs } = signs
    if (withinMs === undefined) return null
    return silentMs > withinMs && soundBeforeMs > this.heardMs + withinMs / 2 ? SILENT : null
  }
}

type Signs = Pick<ProviderLine, 'isStuck' | 'answersWithinMs'>
