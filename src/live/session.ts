import { Cancellation } from '../cancellation.ts'
import type { LiveEntry, LiveEvent, SessionEnd, SessionFacts } from '../contracts/live.ts'
import type { SpanFacts } from '../contracts/tracing.ts'
import type { Failure } from '../contracts/upstream.ts'
import type { SwitchReason } from '../contracts/watch.ts'
import { GatewayError, toGatewayError } from '../errors.ts'
import { type Attempt, type AttemptSuccess, type FailoverRules, failOver } from '../gateway/failover.ts'
import type { Usage } from '../gateway/meter.ts'
import { sessionSlot } from '../gateway/provider-slots.ts'
import { type Candidate, type Selection, without } from '../gateway/selection.ts'
import type { ActiveCall } from '../gateway/services.ts'
import { isUpstream } from '../gateway/upstream-errors.ts'
import { BatchPieces, type HeardPiece, type PieceListener } from './batch-pieces.ts'
import type { Ticking } from './clock.ts'
import { type ConnectionListener, ENDED_EARLY, LiveConnection } from './connection.ts'
import { type Finalized, LiveFeed } from './feed.ts'
import { addSpent, SessionMoney, type Spent, sliceOf } from './money.ts'
import type { LiveParts, LiveRequest } from './parts.ts'
import { idleError, SessionLife, sessionEnd } from './session-life.ts'
import { entryOf, type Heard, SessionMessages } from './session-messages.ts'
import { seconds } from './transcript.ts'

/** How long all entries together may take to connect. */
const CONNECT_MS = 15_000
/** Changes of the provider within a session; with more of them nothing would come of it. */
const SWITCHES_MAX = 100
/** How long a rotation waits for the end of an utterance. */
const ROTATION_MS = 20_000
/** Pause until live entries are tried again where files stand in for them; each one is twice as long, up to a limit. */
const LIVE_AGAIN_MS = 10_000
const LIVE_AGAIN_MAX_MS = 600_000
const OF_A_SESSION: FailoverRules = { slotOf: sessionSlot, triesOpen: true }

/**
 * A live transcription: takes the caller's audio as it comes, sends it on to one entry, and says what that understands.
 * Audio that is not settled is kept, so that another entry goes on where one that dies has ended: the session loses no
 * word as long as the ring reaches that far.
 */
export class LiveSession implements ConnectionListener, PieceListener, Ticking {
  readonly #parts: LiveParts
  readonly #request: LiveRequest
  readonly #money: SessionMoney
  readonly #feed: LiveFeed
  readonly #messages: SessionMessages
  readonly #life: SessionLife
  /** Aborts what is under way when the session ends. */
  readonly #over = new Cancellation()
  readonly #leaveClock: () => void
  #selection: Selection
  #connection: LiveConnection | null = null
  #attempt: AttemptSuccess<LiveConnection>['recorder'] | null = null
  #isConnecting = false
  /** Goes on where no live entry is left; null: none was missing yet. */
  #pieces: BatchPieces | null = null
  /** Pieces are sent now. */
  #isInPieces = false
  #liveAgainMs = 0
  #livePauseMs = LIVE_AGAIN_MS
  /** Seconds that the next piece and those behind it repeat of what a connection was sent; null: it is told. */
  #replayable: number | null = null
  /** The entry that audio was last sent to, and the last of those for live audio. */
  #last: Candidate | null = null
  #lastLive: Candidate | null = null
  #switches = 0
  #replayedSeconds = 0
  #countedMs = 0
  #countedLost = 0
  #endedMs: number | null = null
  #rotateByMs: number | null = null
  #isShort = false
  /** Why it ends; null: it goes on. */
  #end: SessionEnd | null = null
  #isOver = false

  constructor(parts: LiveParts, request: LiveRequest) {
    const { context, call, selection } = request
    const { live } = call.payload
    this.#parts = parts
    this.#request = request
    this.#selection = selection
    const { live_buffer_seconds: reach } = parts.services.snapshot().limits
    this.#feed = new LiveFeed(live.audio, parts.memory, reach)
    this.#messages = new SessionMessages(request, this.#feed, parts.watch)
    this.#money = new SessionMoney({ services: parts.services, context, call, signal: this.#over })
    this.#life = new SessionLife((message) => request.sink.send(message))
    this.#leaveClock = parts.clock.add(this)
  }

  get startedMs(): number {
    return this.#life.startedMs
  }

  /** Seconds of audio that came. */
  get audioSeconds(): number {
    return this.#feed.seconds
  }

  /** Seconds of audio that came and were sent to no provider yet. */
  get unsentSeconds(): number {
    const unsent = this.#feed.unsentSeconds(this.#connection)
    // A piece waits until it is whole.
    return this.#isInPieces ? Math.max(0, unsent - (this.#pieces?.pieceSeconds ?? 0)) : unsent
  }

  /** The entry that transcribes now; null: none does. */
  get entry(): LiveEntry | null {
    if (this.#isInPieces) return this.#last === null ? null : entryOf(this.#last)
    return this.#connection === null ? null : entryOf(this.#connection.candidate)
  }

  /** What it came to so far; null: a price is not known. */
  get costUsd(): number | null {
    return this.#spent().costUsd
  }

  /** Of its connections, and of its pieces. */
  #spent(): Spent {
    const spent = this.#money.spent()
    return this.#pieces === null ? spent : addSpent(spent, this.#pieces.spent)
  }

  /** What became of it so far, for its line in the log and for the console. */
  facts(): SessionFacts {
    return {
      audio_seconds: seconds(this.audioSeconds),
      switches: this.#switches,
      replayed_seconds: seconds(this.#replayedSeconds),
      lost_seconds: seconds(this.#feed.lostSeconds),
      ended: this.#end,
    }
  }

  /** Sets money aside, says `ready` and connects. What goes wrong ends the session. */
  async start(): Promise<void> {
    try {
      await this.#request.admitted
      this.#over.throwIfAborted()
      this.#selection = await this.#money.begin(this.#selection)
      this.#over.throwIfAborted()
      this.#messages.ready(this.#selection, this.#parts.services.snapshot().limits)
      this.#life.ready()
    } catch (thrown) {
      return void this.fail(toGatewayError(thrown))
    }
    await this.#connect(this.#selection).catch((thrown) => this.#withoutLive(thrown))
  }

  /**
   * Takes audio.
   *
   * @param bytes valid during the call only
   */
  audio(bytes: Uint8Array): void {
    if (this.#isOver) return
    if (this.#endedMs !== null) {
      // The caller could not know yet that the session was ended for it.
      if (this.#end !== null) return
      return void this.fail(new GatewayError('INVALID_REQUEST', 'audio came behind the message `end`'))
    }
    if (bytes.length % this.#feed.frameBytes !== 0) {
      const message = `a piece of audio must be whole samples of ${this.#feed.frameBytes} bytes`
      return void this.fail(new GatewayError('INVALID_REQUEST', message, { param: 'audio' }))
    }
    const nowMs = performance.now()
    this.#feed.push(bytes, nowMs)
    this.pump(nowMs)
    const { live_buffer_seconds: reach } = this.#parts.services.snapshot().limits
    if (this.#request.held !== undefined || this.#isConnecting || this.unsentSeconds < reach) return
    const message = `audio comes faster than it can be sent on; at most ${reach} s of it may wait`
    this.fail(new GatewayError('AUDIO_TOO_LARGE', message, { details: { limit: 'live_buffer_seconds' } }))
  }

  /** Has what was sent so far settled; answered by `finalized`. */
  finalize(id: string | null): void {
    if (this.#isOver) return
    this.#feed.mark(id)
    this.pump(performance.now())
  }

  /** The caller is there and sends no audio for now. */
  keepAlive(): void {
    this.#feed.touch()
  }

  /** No more audio comes: the rest is transcribed, and `done` is the last message. */
  end(): void {
    if (this.#isOver || this.#endedMs !== null) return
    this.#endedMs = performance.now()
    this.#feed.end()
    this.pump(this.#endedMs)
  }

  /** Somebody ends the session from outside: what was sent is transcribed. */
  stop(): void {
    if (this.#isOver || this.#endedMs !== null) return
    this.#life.goingAway(0, 'operator')
    this.#endFor('operator')
  }

  #endFor(why: SessionEnd): void {
    if (this.#endedMs === null) this.#end = why
    this.end()
  }

  /** The caller has left. */
  leave(): void {
    void this.#finish(new GatewayError('CLIENT_CLOSED'), false)
  }

  /** The caller has all it wanted: in protocols without a message `end` it closes the socket. */
  hangUp(): void {
    void this.#finish(null, false)
  }

  /** Ends the session with an error. What is final stays valid. */
  fail(error: GatewayError): void {
    void this.#finish(error, true)
  }

  /** The node stops: the caller is to open another session within `seconds`. */
  goAway(secondsLeft: number): void {
    if (!this.#isOver) this.#life.drain(secondsLeft)
  }

  onEvent(event: LiveEvent, connection: LiveConnection): void {
    if (connection !== this.#connection) return
    switch (event.kind) {
      case 'partial':
        return void this.#messages.partial(event, connection)
      case 'final':
        return void this.#messages.final(event, connection)
      case 'settled':
        return void this.#feed.settle(connection, event.seconds)
      case 'finalized':
        return void this.#messages.finalized(this.#feed.finalized(connection))
      case 'speech_started':
      case 'utterance_end':
        return void this.#moment(event, connection)
      case 'leaving':
        return void this.#rotateSoon()
      case 'ended':
        return void this.#ended(connection)
      default:
        // A warning of the provider is for nobody: its words stay with us.
        return
    }
  }

  onFailed(failure: Failure, connection: LiveConnection): void {
    if (connection !== this.#connection || this.#isOver) return
    this.#attempt?.failed(failure, true)
    this.#countTime(connection, performance.now())
    this.#connection = null
    this.#attempt = null
    void this.#switch(connection, failure.kind)
  }

  pump(nowMs: number): void {
    const connection = this.#connection
    if (this.#isOver) return
    if (connection === null) return void this.#pumpPieces(nowMs)
    const dead = connection.deathOf(nowMs, this.#feed.soundSentMs, this.#endedMs)
    if (dead !== null) return void connection.fail(dead)
    const isMore = this.#feed.send(connection, this.#money, nowMs, this.#messages.finalized)
    this.#countLost(connection)
    if (isMore) this.#parts.clock.hurry(this)
    this.#request.held?.()
  }

  tick(nowMs: number): void {
    if (this.#isOver) return
    this.#money.tick(nowMs, this.#selection)
    this.#watchCaller(nowMs)
    if (this.#isOver) return
    if (this.#life.isUsageDue(nowMs)) this.#messages.usage(this.#spent())
    const connection = this.#connection
    if (connection === null) return void this.#pumpPieces(nowMs)
    this.#countTime(connection, nowMs)
    connection.keepAlive(nowMs)
    this.pump(nowMs)
    if (this.#connection !== connection) return
    this.#watchRotation(connection, nowMs)
    this.#watchMoney()
  }

  #countLost({ candidate }: Heard): void {
    const lost = this.#feed.lostSeconds - this.#countedLost
    if (lost <= 0) return
    this.#countedLost += lost
    this.#parts.watch?.lost(candidate.entry, lost)
  }

  #moment(event: Extract<LiveEvent, { kind: 'speech_started' | 'utterance_end' }>, connection: Heard): void {
    this.#messages.moment(event, connection)
    if (event.kind === 'utterance_end' && this.#rotateByMs !== null) this.#rotate()
  }

  /** The provider has said all. */
  #ended(connection: LiveConnection): void {
    if (!connection.isEnding || this.#endedMs === null) {
      // It was not asked to end: a close without a failure before the audio is over is one.
      return void connection.fail(ENDED_EARLY)
    }
    for (const finalized of this.#feed.ended(connection)) this.#messages.finalized(finalized)
    void this.#finish(null, true)
  }

  #watchCaller(nowMs: number): void {
    const { live_idle_seconds: idle, live_max_session_seconds } = this.#parts.services.snapshot().limits
    const longest = Math.min(live_max_session_seconds, this.#request.grant?.maxSeconds ?? Infinity)
    const quietMs = nowMs - this.#feed.pushedMs
    if (this.#endedMs === null && this.#request.held === undefined && quietMs > idle * 1000)
      return void this.fail(idleError('no audio came', idle))
    const end = this.#life.endOf(nowMs, longest)
    if (end !== null) this.#endFor(end)
  }

  #watchMoney(): void {
    const { refusal, leftSeconds } = this.#money
    if (refusal === null) return
    if (!this.#isShort) {
      this.#isShort = true
      this.#life.goingAway(Math.ceil(leftSeconds), 'credits')
    }
    if (leftSeconds <= 0) this.fail(refusal)
  }

  /** A provider that bills the open connection is paid by the clock. */
  #countTime({ bills, candidate }: LiveConnection, nowMs: number): void {
    const passed = (nowMs - this.#countedMs) / 1000
    this.#countedMs = nowMs
    this.#parts.watch?.open(candidate.entry, passed)
    if (bills === 'session') this.#money.spend(passed)
  }

  #watchRotation(connection: LiveConnection, nowMs: number): void {
    if (connection.isAged(nowMs)) this.#rotateSoon()
    if (this.#rotateByMs !== null && nowMs >= this.#rotateByMs) this.#rotate()
  }

  #rotateSoon(): void {
    this.#rotateByMs ??= performance.now() + ROTATION_MS
  }

  /** Changes the connection for another before its provider ends it; what is not settled is sent again. */
  #rotate(): void {
    const connection = this.#connection
    if (connection === null || this.#endedMs !== null) return
    this.#rotateByMs = null
    this.#countTime(connection, performance.now())
    this.#connection = null
    this.#succeeded(connection)
    this.#attempt = null
    connection.close()
    void this.#switch(connection, 'rotation')
  }

  /** The attempt has done its work, which its provider may have done badly. */
  #succeeded({ fault }: LiveConnection): void {
    if (fault === null) this.#attempt?.succeeded()
    else this.#attempt?.failed(fault, true)
  }

  /** Goes on at another entry, or at the same one if it had worked; in a rotation at the same one first. */
  async #switch(from: LiveConnection, reason: SwitchReason): Promise<void> {
    try {
      this.#switches += 1
      if (from.hasWorked) this.#livePauseMs = LIVE_AGAIN_MS
      this.#parts.watch?.switched(from.candidate.entry, reason)
      if (this.#switches > SWITCHES_MAX) throw new GatewayError('UPSTREAM_ERROR')
      this.#messages.connectionChanged()
      const selection = this.#selectionBehind(from, reason === 'rotation')
      if (selection === null) throw new GatewayError('UPSTREAM_ERROR', 'every eligible entry failed')
      await this.#goLive(selection)
    } catch (thrown) {
      this.#withoutLive(thrown)
    }
  }

  async #goLive(selection: Selection): Promise<void> {
    this.#selection = await this.#money.change(selection)
    await this.#connect(this.#selection)
  }

  /** No live entry is left: where its route allows it, entries for files go on with the session in pieces. */
  #withoutLive(thrown: unknown): void {
    if (this.#isOver) return
    const error = toGatewayError(thrown)
    // What one provider refuses in the request is tried nowhere else.
    const isCurable = isUpstream(error) && error.code !== 'UPSTREAM_REJECTED'
    if (isCurable) this.#pieces ??= BatchPieces.begin(this.#parts.services, this.#request, this.#feed, this)
    if (!isCurable || this.#pieces === null) return void this.fail(error)
    this.#replayable = this.#feed.unsettledSeconds
    this.#goInPieces()
  }

  /** The money of the connection pays for no piece: each has its own. */
  #goInPieces(): void {
    void this.#money.pause().then(() => {
      const nowMs = performance.now()
      this.#liveAgainMs = nowMs + this.#livePauseMs
      this.#livePauseMs = Math.min(LIVE_AGAIN_MAX_MS, 2 * this.#livePauseMs)
      this.#isInPieces = true
      this.#pumpPieces(nowMs)
    })
  }

  #pumpPieces(nowMs: number): void {
    const pieces = this.#pieces
    if (pieces === null || !this.#isInPieces || this.#isOver || pieces.isBusy) return
    if (this.#feed.isDone) return void this.#finish(null, true)
    if (this.#tryLive(nowMs)) return
    pieces.pump(nowMs)
    this.#request.held?.()
  }

  /** Connects to a live entry again, when it is time to and the health of one allows it. */
  #tryLive(nowMs: number): boolean {
    if (nowMs < this.#liveAgainMs || this.#endedMs !== null) return false
    const { health } = this.#parts.services
    this.#liveAgainMs = nowMs + this.#livePauseMs
    const isIll = ({ entry }: Candidate) => (health.view(entry, nowMs).untilMs ?? 0) > nowMs
    const selection = without(this.#request.selection, isIll)
    if (selection === null) return false
    this.#isInPieces = false
    this.#messages.connectionChanged()
    void this.#goLive(selection).catch(() => this.#goInPieces())
    return true
  }

  onPiece({ candidate, base, finals, finalized, warnings }: HeardPiece): void {
    const from = { candidate, base, warnings: [IN_PIECES, ...warnings] }
    this.#messages.connectionChanged()
    const announced = this.#last ?? this.#request.selection.candidates[0]!
    if (announced.entry !== candidate.entry || this.#replayable !== null) {
      const lost = this.#feed.lostSeconds - this.#countedLost
      this.#saySwitched(announced, from, { replayed: this.#replayable ?? 0, lost })
    }
    this.#replayable = null
    this.#countLost(from)
    this.#last = candidate
    for (const final of finals) this.#messages.final(final, from)
    this.onFinalized(finalized)
  }

  onFinalized(finalized: readonly Finalized[]): void {
    for (const one of finalized) this.#messages.finalized(one)
    this.#pumpPieces(performance.now())
  }

  onPieceFailed(error: GatewayError): void {
    this.fail(error)
  }

  /** The other entries first; the one that is left comes last, and only if it had worked or has other servers. */
  #selectionBehind(from: LiveConnection, rotates: boolean): Selection | null {
    const { candidate } = from
    const pool = this.#parts.services.replicas.of(candidate.entry.provider)
    const hasWorked = from.hasWorked || pool?.isUp === true
    const others = this.#request.selection.candidates.filter(({ entry }) => entry !== candidate.entry)
    const candidates = rotates ? [candidate, ...others] : hasWorked ? [...others, candidate] : others
    return candidates.length === 0 ? null : { ...this.#request.selection, candidates }
  }

  async #connect(selection: Selection): Promise<void> {
    this.#isConnecting = true
    const { services } = this.#parts
    const { context, call } = this.#request
    const deadlineAtMs = performance.now() + CONNECT_MS
    const active: ActiveCall<'transcription'> = {
      services,
      context,
      call: sliceOf(call, 0) as ActiveCall<'transcription'>['call'],
      signal: this.#over,
      job: null,
      deadlineMs: CONNECT_MS,
      deadlineAtMs,
    }
    try {
      const connect = (_: typeof active, attempt: Attempt) =>
        new LiveConnection(active, attempt, this).opened(this.#over, attempt.deadlineAtMs)
      const opened = await failOver(active, selection, connect, OF_A_SESSION)
      context.estimate = null
      if (!this.#isOver) return this.#begin(opened)
      opened.got.close()
      opened.recorder.released('the session ended')
    } finally {
      this.#isConnecting = false
    }
  }

  /** A connection takes audio: from the first byte that is not settled and still here. */
  #begin({ got: connection, recorder }: AttemptSuccess<LiveConnection>): void {
    const nowMs = performance.now()
    const { candidate } = connection
    recorder.answered()
    this.#connection = connection
    this.#attempt = recorder
    const { context } = this.#request
    context.trace?.event('live.connected', spanEntry(candidate))
    this.#parts.watch?.connected(candidate.entry, (connection.readyMs - connection.begunMs) / 1000)
    this.#countedMs = nowMs
    this.#money.payTo(candidate.entry)
    const sent = this.#feed.begin(connection)
    this.#countLost(connection)
    const announced = this.#last ?? this.#request.selection.candidates[0]!
    if (this.#last !== null || announced.entry !== candidate.entry)
      this.#saySwitched(announced, connection, sent)
    this.#last = candidate
    this.#lastLive = candidate
    this.pump(nowMs)
  }

  #saySwitched(
    from: Candidate,
    to: Pick<LiveConnection, 'candidate' | 'base' | 'warnings'>,
    { replayed, lost }: { readonly replayed: number; readonly lost: number },
  ): void {
    const { candidate } = to
    this.#replayedSeconds += replayed
    this.#parts.watch?.replayed(candidate.entry, replayed)
    const { context } = this.#request
    const moved = {
      'larkway.live.replayed_seconds': seconds(replayed),
      'larkway.live.lost_seconds': seconds(lost),
    }
    context.trace?.event('live.switched', { ...spanEntry(candidate), ...moved })
    this.#messages.switched(from, to, { replayed, lost })
  }

  /** Ends everything once: the connection, the money, the memory, and at last the caller. */
  async #finish(error: GatewayError | null, isHere: boolean): Promise<void> {
    if (this.#isOver) return
    this.#isOver = true
    this.#leaveClock()
    this.#feed.clear()
    const { context, sink } = this.#request
    const connection = this.#connection
    this.#connection = null
    if (connection !== null) {
      this.#countTime(connection, performance.now())
      if (error === null) this.#succeeded(connection)
      else this.#attempt?.released(isHere ? 'the session ended' : 'the caller left')
      connection.close()
    }
    this.#over.abort(error ?? new GatewayError('CLIENT_CLOSED'))
    this.#note(error)
    this.#pieces?.close(error ?? new GatewayError('CLIENT_CLOSED'))
    const hasBegun = this.#last !== null || this.#pieces !== null
    const last = this.#last ?? this.#selection.candidates[0]!
    const done = error === null && hasBegun ? this.#messages.done(last, this.#selection) : null
    const settled = this.#money.end()
    void this.#parts.services.settlements.during(settled)
    if (done !== null) sink.send({ type: 'done', ...done })
    sink.end(error)
    await settled
    context.estimate = null
  }

  /** Leaves on the context what the log line, the record and the span tell. */
  #note(error: GatewayError | null): void {
    const { context } = this.#request
    const { services } = this.#parts
    const { billableSeconds, costUsd } = this.#spent()
    this.#end = sessionEnd(error, this.#end)
    context.failure = error
    context.costUsd = costUsd
    context.usage = {
      audio_seconds: seconds(this.audioSeconds),
      billable_audio_seconds: seconds(billableSeconds),
      total_tokens: 0,
    }
    const facts = this.facts()
    context.live = facts
    this.#parts.watch?.ended('transcription', this.#end)
    context.trace?.event('live.ended', { 'larkway.live.end': this.#end })
    if (this.#lastLive !== null)
      services.watch?.metered(this.#lastLive.entry, 'transcription', this.#liveUsage(context.usage))
  }

  /** Usage without the pieces, each of which is counted by itself. */
  #liveUsage(usage: Usage): Usage {
    if (this.#pieces === null) return usage
    const audioSeconds = Math.max(0, this.audioSeconds - this.#pieces.seconds)
    const { billableSeconds } = this.#money.spent()
    return {
      ...usage,
      audio_seconds: seconds(audioSeconds),
      billable_audio_seconds: seconds(billableSeconds),
    }
  }
}

const IN_PIECES = 'live: no entry for live audio is left; text comes in pieces, without partials'

function spanEntry({ entry }: Candidate): SpanFacts {
  return { 'larkway.provider': entry.provider.name, 'gen_ai.request.model': entry.model }
}
