import { Cancellation } from '../cancellation.ts'
import type { LiveEntry, SessionEnd, SessionFacts } from '../contracts/live.ts'
import type { LiveWatch } from '../contracts/watch.ts'
import { GatewayError, toGatewayError } from '../errors.ts'
import type { AdmittedContext, CallContext } from '../gateway/call-context.ts'
import { countCharacters } from '../gateway/meter.ts'
import { type Envelope, headOf } from '../gateway/outcome.ts'
import { run } from '../gateway/pipeline.ts'
import { microsOf, usdOf } from '../gateway/price.ts'
import type { Candidate } from '../gateway/selection.ts'
import type { Services } from '../gateway/services.ts'
import type { Streaming } from '../gateway/stream.ts'
import { isUpstream } from '../gateway/upstream-errors.ts'
import { JoinedAudio, OtherFormat } from './joined-audio.ts'
import type { LiveParts, SpeechRequest } from './parts.ts'
import { SentenceCutter } from './sentences.ts'
import { idleError, liveLimits, SessionLife, sessionEnd } from './session-life.ts'
import { SpeechLines } from './speech-lines.ts'
import type { LiveTicker, Ticking } from './ticker.ts'

/** Audio that may wait for the caller; the provider is not read beyond. */
const WAITING_BYTES_MAX = 256 * 1024
/** Audio goes out in messages of at most this size. */
const MESSAGE_BYTES_MAX = 32 * 1024
/** Attempts and warnings of a session that are kept for its end. */
const KEPT_MAX = 100

interface Sentence {
  readonly seq: number
  readonly text: string
  readonly characters: number
  /** Null: no provider is asked yet. */
  call: SentenceCall | null
  /** Sent to the caller. */
  audioBytes: number
  /** Its rest is not sent. */
  isDropped: boolean
}

/** A call of the pipeline for one sentence. */
interface SentenceCall {
  readonly context: AdmittedContext
  readonly cancel: Cancellation
  readonly streaming: Promise<Streaming<'speech'>>
  readonly askedMs: number
  /** When its first audio was here; null: it is not yet. */
  heardMs: number | null
}

/** Answered when all that came before it is spoken. */
interface FlushMark {
  readonly flushed: string | null
}

/**
 * Speech while its text is still being written: each sentence is a call of its own, with its own choice of an entry and
 * its own money, and all of them are one stream of audio. While one is played out, the next is asked for already, and
 * no more than that: the caller pays for what was sent to a provider.
 */
export class SpeechSession implements Ticking {
  readonly #services: Services
  readonly #watch: LiveWatch | null
  readonly #request: SpeechRequest
  readonly #closed: () => void
  readonly #ticker: LiveTicker
  readonly #over = new Cancellation()
  readonly #cutter = new SentenceCutter()
  readonly #audio = new JoinedAudio()
  /** Connections to providers that speak over a WebSocket. */
  readonly #lines = new SpeechLines()
  readonly #queue: (Sentence | FlushMark)[] = []
  /** Contexts of sentences whose cost is not in the sum yet. */
  readonly #running = new Map<CallContext, SentenceCall>()
  readonly #warnings = new Set<string>()
  readonly #life: SessionLife
  /** The sentence that is played out; null: none is. */
  #speaking: Sentence | null = null
  /** Its audio comes. */
  #isPlaying = false
  /** Characters in the queue; a mark counts as one. */
  #queued = 0
  #seq = 0
  #spokenCharacters = 0
  #sentCharacters = 0
  #micros: number | null = 0
  #last: Envelope | null = null
  #switches = 0
  #heardMs: number
  /** Since when the caller reads nothing; null: it reads. */
  #stalledMs: number | null = null
  #wake: (() => void) | null = null
  /** No more text comes. */
  #isEnded = false
  /** Why the session was ended for its caller, who may not know that yet; null: it was not. */
  #cutFor: SessionEnd | null = null
  #end: SessionEnd | null = null
  #isOver = false

  /** @param closed called once, before its sink is told that it is over */
  constructor({ services, ticker, watch }: LiveParts, request: SpeechRequest, closed: () => void) {
    this.#services = services
    this.#watch = watch ?? null
    this.#request = request
    this.#closed = closed
    this.#life = new SessionLife(services.clock, (message) => request.sink.send(message))
    this.#ticker = ticker
    this.#heardMs = this.#life.startedMs
    ticker.add(this)
    this.#warn(request.call.warnings)
    this.#warn(request.selection.warnings)
  }

  /** Says `ready`, and speaks until the end. What goes wrong ends the session. */
  async start(): Promise<void> {
    try {
      await this.#request.admitted
      this.#over.throwIfAborted()
      this.#sayReady()
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
    return this.#last
  }

  /** Its cost so far; null: a price is not known. */
  get costUsd(): number | null {
    return this.#spent().cost_usd
  }

  /** Its state so far, for its line in the log and for the console. */
  facts(): SessionFacts {
    return {
      characters: this.#spent().audio_output_characters,
      switches: this.#switches,
      ended: this.#end,
    }
  }

  text(text: string): void {
    if (this.#isOver || this.#cutFor !== null) return
    if (this.#isEnded)
      return void this.fail(new GatewayError('INVALID_REQUEST', 'text came after the message `end`'))
    this.#heardMs = this.#services.clock.now()
    for (const sentence of this.#cutter.push(text)) this.#enqueue(sentence)
    this.#checkWaiting()
    this.#goOn()
  }

  /** Has what is there spoken, without waiting for the end of a sentence. */
  flush(id: string | null): void {
    if (this.#isOver || this.#cutFor !== null) return
    this.#heardMs = this.#services.clock.now()
    this.#flushRest()
    this.#queue.push({ flushed: id })
    this.#queued += 1
    this.#checkWaiting()
    this.#goOn()
  }

  /**
   * Drops what is not sent yet: text, audio, and flushes that wait for it. What comes next is spoken. Paid is for what
   * was sent to a provider.
   */
  clear(): void {
    if (this.#isOver) return
    this.#heardMs = this.#services.clock.now()
    this.#cutter.flush()
    this.#queued = 0
    for (const sentence of [this.#speaking, ...this.#queue.splice(0)]) {
      if (sentence === null || 'flushed' in sentence) continue
      sentence.isDropped = true
      if (sentence.call !== null) this.#leaveCall(sentence.call, new GatewayError('CLIENT_CLOSED'))
    }
    this.#goOn()
  }

  /** The caller is there and writes nothing for now. */
  keepAlive(): void {
    this.#heardMs = this.#services.clock.now()
  }

  /** No more text comes: the rest is spoken, and `done` is the last message. */
  end(): void {
    if (this.#isOver || this.#isEnded) return
    this.#isEnded = true
    this.#flushRest()
    this.#goOn()
  }

  /** An operator ends the session: all text that came is spoken. */
  stop(): void {
    if (this.#isOver || this.#isEnded) return
    this.#life.goingAway(0, 'operator')
    this.#cut('operator')
  }

  /** Some of what waited for the caller went out. */
  drained(): void {
    if (this.#request.sink.bufferedBytes <= WAITING_BYTES_MAX) this.#goOn()
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
    if (this.#life.isUsageDue(nowMs)) this.#sayUsage()
    // A hint that some went out may not come.
    this.drained()
    this.#watchCaller(nowMs)
  }

  pump(): void {}

  /** Speaks what comes, in order, until no more does. */
  async #speakAll(): Promise<void> {
    for (;;) {
      const next = this.#queue.shift()
      if (next === undefined) {
        if (this.#isEnded) return void this.#finish(null)
        await this.#wait()
      } else if ('flushed' in next) {
        this.#queued -= 1
        await this.#room()
        this.#request.sink.send({ type: 'flushed', id: next.flushed })
      } else {
        this.#queued -= next.text.length
        this.#speaking = next
        await this.#speak(next)
        this.#speaking = null
        this.#heardMs = this.#services.clock.now()
      }
    }
  }

  /**
   * Speaks one sentence. When it breaks off before any of its audio was sent, another entry speaks it; afterwards no
   * entry could continue at the same place.
   */
  async #speak(sentence: Sentence): Promise<void> {
    const failed = new Set<string>()
    for (;;) {
      const call = sentence.call ?? this.#ask(sentence, failed)
      try {
        const streaming = await call.streaming
        try {
          await this.#play(sentence, streaming)
          if (sentence.isDropped) return this.#settle(call)
          return this.#spoken(sentence, call, streaming)
        } catch (thrown) {
          this.#settle(call)
          const { provider, model } = streaming.head
          failed.add(entryName(provider, model))
          if (sentence.audioBytes > 0 || sentence.isDropped || !isUpstream(thrown)) throw thrown
          sentence.call = null
        }
      } catch (thrown) {
        this.#settle(call)
        if (sentence.isDropped && !this.#isOver) return
        throw this.#told(thrown, sentence)
      }
    }
  }

  /** Asks for a sentence, at the entries that have not failed it. */
  #ask(sentence: Sentence, failed: ReadonlySet<string>): SentenceCall {
    const { context: session, call } = this.#request
    const cancel = new Cancellation()
    const context = session.within(cancel)
    const streaming = run(this.#services, context, {
      mode: 'streamed',
      call: { ...call, payload: { ...call.payload, input: sentence.text } },
      open: this.#lines.open,
      ...(failed.size > 0 && {
        leaveOut: ({ entry }: Candidate) => failed.has(entryName(entry.provider.name, entry.model)),
      }),
    })
    const asked: SentenceCall = {
      context,
      cancel,
      streaming,
      askedMs: this.#services.clock.now(),
      heardMs: null,
    }
    const heard = () => {
      asked.heardMs = this.#services.clock.now()
    }
    void streaming.then(heard, () => {})
    this.#running.set(context, asked)
    sentence.call = asked
    return asked
  }

  /** Sends the audio of a sentence as fast as the caller reads it, and has the next one asked for meanwhile. */
  async #play(sentence: Sentence, { deltas }: Streaming<'speech'>): Promise<void> {
    this.#isPlaying = true
    this.#askAhead()
    const joined = this.#audio.begin()
    try {
      for await (const { bytes, mediaType } of deltas) {
        if (sentence.isDropped) return
        for (const part of joined.push(bytes, mediaType)) await this.#send(sentence, part)
      }
    } catch (thrown) {
      if (!(thrown instanceof OtherFormat)) throw thrown
      throw new GatewayError('UPSTREAM_ERROR', 'the provider sent audio in another format', { cause: thrown })
    } finally {
      this.#isPlaying = false
    }
  }

  async #send(sentence: Sentence, bytes: Uint8Array): Promise<void> {
    const { sink } = this.#request
    for (let at = 0; at < bytes.length; at += MESSAGE_BYTES_MAX) {
      await this.#room()
      if (sentence.isDropped) return
      const part = bytes.subarray(at, at + MESSAGE_BYTES_MAX)
      sentence.audioBytes += part.length
      sink.audio(part)
    }
  }

  /** Waits until the caller has read what it was sent, but for what may wait. */
  async #room(): Promise<void> {
    while (this.#request.sink.bufferedBytes > WAITING_BYTES_MAX) {
      this.#stalledMs ??= this.#services.clock.now()
      await this.#wait()
    }
    this.#over.throwIfAborted()
    this.#stalledMs = null
  }

  #spoken(sentence: Sentence, call: SentenceCall, streaming: Streaming<'speech'>): void {
    const { envelope, release } = streaming.outcome()
    release()
    this.#count(envelope, call, sentence)
    this.#last = envelope
    this.#warn(envelope.warnings)
    this.#settle(call)
    const { seq, text, characters, audioBytes } = sentence
    this.#spokenCharacters += characters
    const { provider, model, cost_usd } = envelope
    this.#request.sink.send({
      type: 'spoken',
      ...{ seq, text, characters, audio_bytes: audioBytes, provider, model, cost_usd },
    })
  }

  #count(spoken: Envelope, { askedMs, heardMs }: SentenceCall, { characters }: Sentence): void {
    const { context } = this.#request
    const before = this.#last
    this.#watch?.spoke(spoken, characters, ((heardMs ?? this.#services.clock.now()) - askedMs) / 1000)
    if (before === null || (before.provider === spoken.provider && before.model === spoken.model)) return
    this.#switches += 1
    this.#watch?.revoiced(before)
    const to = { 'larkway.provider': spoken.provider, 'gen_ai.request.model': spoken.model }
    context.trace?.event('live.switched', to)
  }

  /** Asks for the next sentence, unless the caller is behind with the audio that there is. */
  #askAhead(): void {
    const [next] = this.#queue
    if (this.#isOver || !this.#isPlaying || next === undefined || 'flushed' in next) return
    if (next.call === null && this.#request.sink.bufferedBytes <= WAITING_BYTES_MAX) this.#ask(next, NONE)
  }

  #enqueue(text: string): void {
    const characters = countCharacters(text)
    this.#queue.push({ seq: this.#seq, text, characters, call: null, audioBytes: 0, isDropped: false })
    this.#seq += 1
    this.#queued += text.length
  }

  #flushRest(): void {
    const rest = this.#cutter.flush()
    if (rest !== null) this.#enqueue(rest)
  }

  #checkWaiting(): void {
    const { live_max_waiting_characters: most } = this.#services.snapshot().limits
    if (this.#queued + this.#cutter.length <= most) return
    const details = { limit: 'live_max_waiting_characters' }
    const message = `at most ${most} characters may wait to be spoken`
    this.fail(new GatewayError('REQUEST_TOO_LARGE', message, { details }))
  }

  /** Lets the one that speaks look again at what it waits for. */
  #goOn(): void {
    this.#askAhead()
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }

  async #wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    this.#over.throwIfAborted()
  }

  #watchCaller(nowMs: number): void {
    const { live_idle_seconds: idle, live_max_session_seconds: longest } = this.#services.snapshot().limits
    if (this.#stalledMs !== null && nowMs - this.#stalledMs > idle * 1000)
      return void this.fail(idleError('the audio was not read', idle))
    const isIdle = this.#speaking === null && this.#queue.length === 0 && !this.#isEnded
    if (isIdle && this.#request.mayBeSilent !== true && nowMs - this.#heardMs > idle * 1000)
      return void this.fail(idleError('no text came', idle))
    const end = this.#life.endOf(nowMs, longest)
    if (end !== null) this.#cut(end)
  }

  /** Ends the session for its caller: what came is spoken. */
  #cut(why: SessionEnd): void {
    if (!this.#isEnded) this.#cutFor = why
    this.end()
  }

  #sayReady(): void {
    const { context, call, selection, sink } = this.#request
    this.#heardMs = this.#services.clock.now()
    sink.send({
      type: 'ready',
      ...headOf(context, selection, selection.candidates[0]!),
      response_format: call.payload.response_format,
      warnings: [...this.#warnings],
      limits: liveLimits(this.#services.snapshot().limits),
    })
    this.#life.ready()
  }

  #sayUsage(): void {
    this.#request.sink.send({ type: 'usage', ...this.#spent() })
  }

  /** All that was sent to providers, also attempts without a known end. */
  #spent() {
    let characters = this.#sentCharacters
    let micros = this.#micros
    for (const context of this.#running.keys()) {
      const spent = spentOf(context)
      characters += spent.characters
      micros = micros === null || spent.micros === null ? null : micros + spent.micros
    }
    return { audio_output_characters: characters, cost_usd: micros === null ? null : usdOf(micros) }
  }

  /** The call of a sentence is over: what it cost goes into the sum, once. */
  #settle({ context }: SentenceCall): void {
    if (!this.#running.delete(context)) return
    const { characters, micros } = spentOf(context)
    this.#sentCharacters += characters
    this.#micros = this.#micros === null || micros === null ? null : this.#micros + micros
    const { attempts } = this.#request.context
    attempts.push(...context.attempts.slice(0, KEPT_MAX - attempts.length))
  }

  /** Ends a call at its provider; what it cost by then is in the sum. */
  #leaveCall(call: SentenceCall, reason: GatewayError): void {
    this.#settle(call)
    call.cancel.abort(reason)
    const left = call.streaming.then(({ deltas }) => deltas.return()).catch(() => {})
    void this.#services.settlements.during(left)
  }

  /** An error with what the caller has heard by then. */
  #told(thrown: unknown, { seq, characters, audioBytes }: Sentence): GatewayError {
    const { code, message, extra } = toGatewayError(thrown)
    const details = {
      ...extra.details,
      spoken_characters: this.#spokenCharacters,
      broken_off: { seq, characters, audio_bytes: audioBytes },
    }
    return new GatewayError(code, message, { ...extra, details })
  }

  #warn(lines: readonly string[]): void {
    for (const line of lines) if (this.#warnings.size < KEPT_MAX) this.#warnings.add(line)
  }

  /** Ends everything once: the calls under way, and at last the caller. */
  #finish(error: GatewayError | null): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#ticker.remove(this)
    const { context, sink } = this.#request
    const reason = error ?? new GatewayError('CLIENT_CLOSED')
    for (const call of [...this.#running.values()]) this.#leaveCall(call, reason)
    this.#over.abort(reason)
    this.#lines.close()
    const { audio_output_characters, cost_usd } = this.#spent()
    context.usage = { audio_output_characters, total_tokens: 0 }
    context.costUsd = cost_usd
    context.failure = error
    this.#end = sessionEnd(error, this.#cutFor)
    context.live = this.facts()
    this.#watch?.ended('speech', this.#end)
    context.trace?.event('live.ended', { 'larkway.live.end': this.#end })
    if (error === null) sink.send({ type: 'done', ...this.#done() })
    else if (this.#life.isReady) this.#sayUsage()
    this.#closed()
    sink.end(error)
    this.#goOn()
  }

  /** The envelope of the whole; its provider is the one that spoke last. */
  #done(): object {
    const { context, selection } = this.#request
    const { usage, costUsd } = context
    const said = this.#last ?? {
      ...headOf(context, selection, selection.candidates[0]!),
      ...{ content: '', content_blocks: [], determinism: { seed_honored: false } },
    }
    return { ...said, usage, cost_usd: costUsd, warnings: [...this.#warnings] }
  }
}

const NONE: ReadonlySet<string> = new Set()

function entryName(provider: string, model: string): string {
  return `${provider}\n${model}`
}

/** The charge for a call, or the one to come: its answer as metered, or the attempt without a known end. */
function spentOf({ usage, costUsd, estimate }: CallContext) {
  const spent = usage === null ? (estimate?.metered() ?? null) : { usage, costUsd }
  if (spent === null) return { characters: 0, micros: 0 }
  const { audio_output_characters: characters } = spent.usage
  return { characters: characters ?? 0, micros: spent.costUsd === null ? null : microsOf(spent.costUsd) }
}
