import { Cancellation } from '../../contracts/cancellation.ts'
import { GatewayError, toGatewayError } from '../../contracts/errors.ts'
import type { LiveEntry, SessionEnd, SessionFacts } from '../../contracts/live.ts'
import type { LiveDependencies, SpeechRequest } from './dependencies.ts'
import { SentenceSpeaker } from './sentence-speaker.ts'
import { idleError, SessionLife, sessionEnd } from './session-life.ts'
import { SpeechCalls } from './speech-calls.ts'
import { SpeechOutput } from './speech-output.ts'
import { SpeechReport } from './speech-report.ts'
import { type Sentence, SpeechText } from './speech-text.ts'
import type { Ticking } from './ticker.ts'

type Stage =
  /** Text is taken, and spoken. */
  | { readonly name: 'taking' }
  /**
   * No more text comes: the rest is spoken.
   *
   * `cutFor`: why the session was ended for its caller, who may not know that yet; null: the caller has ended it
   */
  | { readonly name: 'ending'; readonly cutFor: SessionEnd | null }
  | { readonly name: 'over'; readonly end: SessionEnd }

/**
 * Speech while its text is still being written: each sentence is a call of its own, with its own choice of an entry and
 * its own money, and all of them are one stream of audio. The caller pays for what was sent to a provider.
 */
export class SpeechSession implements Ticking {
  readonly #deps: LiveDependencies
  readonly #request: SpeechRequest
  readonly #closed: () => void
  readonly #over = new Cancellation()
  readonly #text = new SpeechText()
  readonly #calls: SpeechCalls
  readonly #output: SpeechOutput
  readonly #report: SpeechReport
  readonly #speaker: SentenceSpeaker
  readonly #life: SessionLife
  /** The sentence that is played out; null: none is. */
  #speaking: Sentence | null = null
  #heardMs: number
  #stage: Stage = { name: 'taking' }

  /** @param closed called once, before its sink is told that it is over */
  constructor(deps: LiveDependencies, request: SpeechRequest, closed: () => void) {
    const { services, ticker, watch } = deps
    this.#deps = deps
    this.#request = request
    this.#closed = closed
    this.#life = new SessionLife(services.clock, (message) => request.sink.send(message))
    this.#heardMs = this.#life.startedMs
    this.#calls = new SpeechCalls(services, request)
    this.#output = new SpeechOutput(request.sink, services.clock, this.#over)
    this.#report = new SpeechReport(request, watch)
    this.#speaker = new SentenceSpeaker({
      ...{ text: this.#text, calls: this.#calls, output: this.#output, report: this.#report },
      signal: this.#over,
    })
    ticker.add(this)
  }

  /** Says `ready`, and speaks until the end. What goes wrong ends the session. */
  async start(): Promise<void> {
    try {
      await this.#request.admitted
      this.#over.throwIfAborted()
      this.#heard()
      this.#report.ready(this.#limits())
      this.#life.ready()
      await this.#speakAll()
    } catch (thrown) {
      this.fail(toGatewayError(thrown))
    }
  }

  get startedMs(): number {
    return this.#life.startedMs
  }

  /** The entry that spoke last; null: none has spoken yet. */
  get entry(): LiveEntry | null {
    return this.#report.last
  }

  /** Its cost so far; null: a price is not known. */
  get costUsd(): number | null {
    return this.#calls.spent().cost_usd
  }

  /** Its state so far, for its line in the log and for the console. */
  facts(): SessionFacts {
    return {
      characters: this.#calls.spent().audio_output_characters,
      switches: this.#report.switches,
      ended: this.#stage.name === 'over' ? this.#stage.end : null,
    }
  }

  text(text: string): void {
    if (this.#isShut) return
    if (this.#stage.name === 'ending')
      return void this.fail(new GatewayError('INVALID_REQUEST', 'text came after the message `end`'))
    this.#heard()
    this.#text.push(text)
    this.#checkWaiting()
    this.#goOn()
  }

  /** Has what is there spoken, without waiting for the end of a sentence. */
  flush(id: string | null): void {
    if (this.#isShut) return
    this.#heard()
    this.#text.flush()
    this.#text.mark(id)
    this.#checkWaiting()
    this.#goOn()
  }

  /**
   * Drops what is not sent yet: text, audio, and flushes that wait for it. What comes next is spoken. Paid is for what
   * was sent to a provider.
   */
  clear(): void {
    if (this.#isOver) return
    this.#heard()
    const waiting = this.#text.clear()
    for (const sentence of this.#speaking === null ? waiting : [this.#speaking, ...waiting]) {
      sentence.isDropped = true
      if (sentence.call !== null) this.#calls.leave(sentence.call, new GatewayError('CLIENT_CLOSED'))
    }
    this.#goOn()
  }

  /** The caller is there and writes nothing for now. */
  keepAlive(): void {
    this.#heard()
  }

  /** No more text comes: the rest is spoken, and `done` is the last message. */
  end(): void {
    this.#endFor(null)
  }

  /** An operator ends the session: all text that came is spoken. */
  stop(): void {
    if (this.#stage.name !== 'taking') return
    this.#life.goingAway(0, 'operator')
    this.#endFor('operator')
  }

  /** Some of what waited for the caller went out. */
  drained(): void {
    if (!this.#output.isFull) this.#goOn()
  }

  /** The caller has left. */
  leave(): void {
    this.#finish(new GatewayError('CLIENT_CLOSED'))
  }

  fail(error: GatewayError): void {
    this.#finish(error)
  }

  /** The node stops: the caller is to open another session within `seconds`. */
  goAway(seconds: number): void {
    if (!this.#isOver) this.#life.drain(seconds)
  }

  tick(nowMs: number): void {
    if (this.#life.isUsageDue(nowMs)) this.#report.usage(this.#calls.spent())
    // A hint that some went out may not come.
    this.drained()
    this.#watchCaller(nowMs)
  }

  pump(): void {}

  get #isOver(): boolean {
    return this.#stage.name === 'over'
  }

  /** Text is not taken, and that is no fault of the caller's: the session was ended for it. */
  get #isShut(): boolean {
    return this.#isOver || (this.#stage.name === 'ending' && this.#stage.cutFor !== null)
  }

  /** Speaks what comes, in order, until no more does. */
  async #speakAll(): Promise<void> {
    for (;;) {
      const next = this.#text.next()
      if (next === null) {
        if (this.#stage.name !== 'taking') return void this.#finish(null)
        await this.#output.wait()
      } else if ('flushed' in next) {
        await this.#output.room()
        this.#report.flushed(next.flushed)
      } else {
        this.#speaking = next
        await this.#speaker.speak(next)
        this.#speaking = null
        this.#heard()
      }
    }
  }

  #checkWaiting(): void {
    const { live_max_waiting_characters: most } = this.#limits()
    if (this.#text.waiting <= most) return
    const details = { limit: 'live_max_waiting_characters' }
    const message = `at most ${most} characters may wait to be spoken`
    this.fail(new GatewayError('REQUEST_TOO_LARGE', message, { details }))
  }

  /** Lets the one that speaks look again at what it waits for. */
  #goOn(): void {
    this.#speaker.askAhead()
    this.#output.wake()
  }

  #watchCaller(nowMs: number): void {
    const { live_idle_seconds: idle, live_max_session_seconds: longest } = this.#limits()
    const { stalledMs } = this.#output
    if (stalledMs !== null && nowMs - stalledMs > idle * 1000)
      return void this.fail(idleError('the audio was not read', idle))
    const isIdle = this.#speaking === null && this.#text.isEmpty && this.#stage.name === 'taking'
    if (isIdle && this.#request.mayBeSilent !== true && nowMs - this.#heardMs > idle * 1000)
      return void this.fail(idleError('no text came', idle))
    const end = this.#life.endOf(nowMs, longest)
    if (end !== null) this.#endFor(end)
  }

  /** @param cutFor why it is ended for its caller; null: the caller has ended it */
  #endFor(cutFor: SessionEnd | null): void {
    if (this.#stage.name !== 'taking') return
    this.#stage = { name: 'ending', cutFor }
    this.#text.flush()
    this.#goOn()
  }

  /** Ends everything once: the calls under way, and at last the caller. */
  #finish(error: GatewayError | null): void {
    if (this.#isOver) return
    const end = sessionEnd(error, this.#stage.name === 'ending' ? this.#stage.cutFor : null)
    this.#stage = { name: 'over', end }
    const { ticker, watch } = this.#deps
    ticker.remove(this)
    const { context, sink } = this.#request
    const reason = error ?? new GatewayError('CLIENT_CLOSED')
    this.#calls.close(reason)
    this.#over.abort(reason)
    const { audio_output_characters, cost_usd } = this.#calls.spent()
    context.money.usage = { audio_output_characters, total_tokens: 0 }
    context.money.costUsd = cost_usd
    context.failure = error
    context.live = this.facts()
    watch?.ended('speech', end)
    context.trace?.event('live.ended', { 'larkway.live.end': end })
    if (error === null) this.#report.done()
    else if (this.#life.isReady) this.#report.usage(this.#calls.spent())
    this.#closed()
    sink.end(error)
    this.#goOn()
  }

  /** The caller is there: it has written, or has just been answered. */
  #heard(): void {
    this.#heardMs = this.#deps.services.clock.now()
  }

  #limits() {
    return this.#deps.services.snapshot().limits
  }
}
