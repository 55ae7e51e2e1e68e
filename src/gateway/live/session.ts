import { Cancellation } from '../../contracts/cancellation.ts'
import { GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { LiveEntry, SessionEnd, SessionFacts } from '../../contracts/live.ts'
import type { Usage } from '../call/facts/meter.ts'
import type { LiveDependencies, LiveRequest } from './dependencies.ts'
import { LiveFeed } from './feed.ts'
import { LiveStages } from './live-stages.ts'
import { SessionMoney } from './money.ts'
import { idleError, SessionLife, sessionEnd } from './session-life.ts'
import { SessionMessages } from './session-messages.ts'
import type { Ticking } from './ticker.ts'
import { seconds } from './transcript.ts'

/**
 * A live transcription as its caller has it: takes audio as it comes, and says what is understood of it. Which provider
 * understands it is a matter of its stages.
 */
export class LiveSession implements Ticking {
  readonly #deps: LiveDependencies
  readonly #request: LiveRequest
  readonly #money: SessionMoney
  readonly #feed: LiveFeed
  readonly #messages: SessionMessages
  readonly #stages: LiveStages
  readonly #life: SessionLife
  /** Aborts what is under way when the session ends. */
  readonly #over = new Cancellation()
  /** The caller was told that its money runs out. */
  #isShort = false
  /** Why it ends; null: it does not yet. */
  #end: SessionEnd | null = null

  constructor(deps: LiveDependencies, request: LiveRequest) {
    const { context, call } = request
    const { services, memory } = deps
    const { live } = call.payload
    const { live_buffer_seconds: reach } = services.snapshot().limits
    this.#deps = deps
    this.#request = request
    this.#feed = new LiveFeed(live.audio, memory, reach, services.clock)
    this.#messages = new SessionMessages(request, this.#feed, deps)
    this.#money = new SessionMoney({ services, context, call, signal: this.#over })
    this.#life = new SessionLife(services.clock, (message) => request.sink.send(message))
    this.#stages = new LiveStages({
      ...{ deps, request, money: this.#money, feed: this.#feed, messages: this.#messages },
      signal: this.#over,
      host: { finish: (error) => void this.#finish(error, true), hurry: () => deps.ticker.hurry(this) },
    })
    deps.ticker.add(this)
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
    return this.#stages.unsentSeconds
  }

  /** The entry that transcribes now; null: none does. */
  get entry(): LiveEntry | null {
    return this.#stages.entry
  }

  /** Its cost so far; null: a price is not known. */
  get costUsd(): number | null {
    return this.#stages.spent.costUsd
  }

  /** Its state so far, for its line in the log and for the console. */
  facts(): SessionFacts {
    return {
      audio_seconds: seconds(this.audioSeconds),
      switches: this.#stages.handovers.switches,
      replayed_seconds: seconds(this.#stages.handovers.replayedSeconds),
      lost_seconds: seconds(this.#feed.lostSeconds),
      ended: this.#end,
    }
  }

  /** Sets money aside, says `ready` and connects. An error ends the session. */
  async start(): Promise<void> {
    try {
      await this.#request.admitted
      this.#over.throwIfAborted()
      await this.#stages.reserve()
      this.#over.throwIfAborted()
      this.#messages.ready(this.#stages.selection, this.#limits())
      this.#life.ready()
    } catch (thrown) {
      return void this.fail(toGatewayError(thrown))
    }
    await this.#stages.start()
  }

  /**
   * Takes audio.
   *
   * @param bytes valid during the call only
   */
  audio(bytes: Uint8Array): void {
    if (this.#stages.isOver) return
    if (this.#feed.endedMs !== null) {
      // The caller could not know yet that the session was ended for it.
      if (this.#end !== null) return
      return void this.fail(new GatewayError('INVALID_REQUEST', 'audio came after the message `end`'))
    }
    if (bytes.length % this.#feed.frameBytes !== 0) return void this.fail(cutSample(this.#feed))
    const nowMs = this.#nowMs()
    this.#feed.push(bytes, nowMs)
    this.pump(nowMs)
    const { live_buffer_seconds: reach } = this.#limits()
    if (this.#request.held !== undefined || this.#stages.isBetween || this.unsentSeconds < reach) return
    const message = `audio comes faster than it can be sent on; at most ${reach} s of it may wait`
    this.fail(new GatewayError('AUDIO_TOO_LARGE', message, { details: { limit: 'live_buffer_seconds' } }))
  }

  /** Has what was sent so far settled; answered by `finalized`. */
  finalize(id: string | null): void {
    if (this.#stages.isOver) return
    this.#feed.mark(id)
    this.pump(this.#nowMs())
  }

  /** The caller is there and sends no audio for now. */
  keepAlive(): void {
    this.#feed.touch()
  }

  /** No more audio comes: the rest is transcribed, and `done` is the last message. */
  end(): void {
    if (this.#stages.isOver || this.#feed.endedMs !== null) return
    const nowMs = this.#nowMs()
    this.#feed.end(nowMs)
    this.pump(nowMs)
  }

  /** An operator ends the session: all audio that came is transcribed. */
  stop(): void {
    if (this.#stages.isOver || this.#feed.endedMs !== null) return
    this.#life.goingAway(0, 'operator')
    this.#endFor('operator')
  }

  #endFor(why: SessionEnd): void {
    if (this.#feed.endedMs === null) this.#end = why
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

  /** Ends the session with an error. Finals stay valid. */
  fail(error: GatewayError): void {
    void this.#finish(error, true)
  }

  /** The node stops: the caller is to open another session within `seconds`. */
  goAway(secondsLeft: number): void {
    if (!this.#stages.isOver) this.#life.drain(secondsLeft)
  }

  pump(nowMs: number): void {
    this.#stages.pump(nowMs)
  }

  tick(nowMs: number): void {
    if (this.#stages.isOver) return
    this.#money.tick(nowMs, this.#stages.selection)
    this.#watchCaller(nowMs)
    if (this.#stages.isOver) return
    if (this.#life.isUsageDue(nowMs)) this.#messages.usage(this.#stages.spent)
    if (this.#stages.tick(nowMs)) this.#watchMoney()
  }

  #watchCaller(nowMs: number): void {
    const { live_idle_seconds: idle, live_max_session_seconds } = this.#limits()
    const longest = Math.min(live_max_session_seconds, this.#request.grant?.maxSeconds ?? Infinity)
    const quietMs = nowMs - this.#feed.pushedMs
    if (this.#feed.endedMs === null && this.#request.held === undefined && quietMs > idle * 1000)
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

  /** Ends everything once: the connection, the money, the memory, and at last the caller. */
  async #finish(error: GatewayError | null, isHere: boolean): Promise<void> {
    if (this.#stages.isOver) return
    const { context, sink } = this.#request
    const reason = error ?? new GatewayError('CLIENT_CLOSED')
    this.#deps.ticker.remove(this)
    this.#feed.clear()
    this.#stages.close(error === null ? null : isHere ? 'the session ended' : 'the caller left')
    this.#over.abort(reason)
    this.#note(error)
    const { pieces, selection } = this.#stages
    pieces?.close(reason)
    const { last } = this.#stages.handovers
    const hasBegun = last !== null || pieces !== null
    const done =
      error === null && hasBegun ? this.#messages.done(last ?? selection.candidates[0]!, selection) : null
    const settled = this.#money.end()
    void this.#deps.services.settlements.during(settled)
    if (done !== null) sink.send({ type: 'done', ...done })
    sink.end(error)
    await settled
    context.money.estimate = null
  }

  /** Leaves on the context the facts of the log line, the record and the span. */
  #note(error: GatewayError | null): void {
    const { context } = this.#request
    const { services, watch } = this.#deps
    const { billableSeconds, costUsd } = this.#stages.spent
    this.#end = sessionEnd(error, this.#end)
    context.failure = error
    context.money.costUsd = costUsd
    context.money.usage = audioUsage(this.audioSeconds, billableSeconds)
    context.live = this.facts()
    watch?.ended('transcription', this.#end)
    context.trace?.event('live.ended', { 'larkway.live.end': this.#end })
    const { lastLive } = this.#stages.handovers
    if (lastLive === null) return
    const { pieces } = this.#stages
    // Each piece is counted by itself.
    const usage =
      pieces === null
        ? context.money.usage
        : audioUsage(Math.max(0, this.audioSeconds - pieces.seconds), this.#money.spent().billableSeconds)
    services.watch?.metered(lastLive.entry, 'transcription', usage)
  }

  #limits() {
    return this.#deps.services.snapshot().limits
  }

  #nowMs(): number {
    return this.#deps.services.clock.now()
  }
}

function cutSample({ frameBytes }: LiveFeed): GatewayError {
  const message = `a piece of audio must be whole samples of ${frameBytes} bytes`
  return new GatewayError('INVALID_REQUEST', message, { param: 'audio' })
}

function audioUsage(audioSeconds: number, billableSeconds: number): Usage {
  return {
    audio_seconds: seconds(audioSeconds),
    billable_audio_seconds: seconds(billableSeconds),
    total_tokens: 0,
  }
}
