import type { ByteBudget } from '../../../contracts/budget.ts'
import type { LiveAudio, LiveCall } from '../../../contracts/calls.ts'
import { limitsOf } from '../../../contracts/catalog.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { BodyConsumer, Exchange, Reply } from '../../edge/exchange.ts'
import { type Fields, queryValues, readBoolean } from '../../edge/form.ts'
import { audioTooLarge, invalid, invalidField } from '../../edge/refusals.ts'
import type { LiveRequest } from '../../live/dependencies.ts'
import type { LiveMessage, LiveSink } from '../../live/messages.ts'
import type { LiveSession } from '../../live/session.ts'
import { WholeFrames } from '../../media/pcm.ts'
import { readWavHead } from '../../media/wav-head.ts'
import type { Admitted } from '../endpoint.ts'
import { eventStreamReply } from '../sse.ts'
import { checkAudio, readLiveCall } from './live-call.ts'

/** Audio that may wait to be sent on before its sender is held back, and when it continues, seconds. */
const HELD_AT_SECONDS = 5
const RESUMED_AT_SECONDS = 2
/** Most bytes before the samples of a WAV file. */
const HEAD_BYTES_MAX = 64 * 1024
/** Messages that wait for a slow reader; partials are left out sooner, since the next one replaces them. */
const WAITING_MAX = 10_000
const PARTIALS_WAITING_MAX = 64

/** Audio is handed over in pieces of at most a second. */
const PIECE_BYTES = 8_000

const WAV = /^audio\/(?:wav|x-wav|wave|vnd\.wave)\s*(?:;|$)/i
const SAMPLES = /^audio\/(?:pcm|x-pcm|basic|x-mulaw|pcmu|pcma|x-alaw)\s*(?:;|$)/i

/** True where a request brings audio that is to be transcribed while it comes: the body is the audio alone. */
export function isLiveUpload({ headers, query }: Exchange): boolean {
  const type = headers['content-type'] ?? ''
  return (WAV.test(type) || SAMPLES.test(type)) && /(?:^|&)mode=realtime(?:&|$)/.test(query)
}

/**
 * Answers with what is understood, as server-sent events, while the audio is still being uploaded.
 *
 * @throws GatewayError before the first event: INVALID_REQUEST, and as `LiveSessions.select`
 */
export async function answerUpload({ exchange, context, deps }: Admitted): Promise<Reply> {
  const fields = queryValues(exchange.query)
  if (readBoolean(fields.values.get('stream')?.[0] ?? '') === false)
    throw invalidField('stream', 'must be true or left out; live audio is always streamed')
  const { snapshot, budget } = deps.services
  const { max_audio_bytes: most } = limitsOf(context.principal, snapshot())
  const upload = new LiveUpload(exchange, budget, most)
  const audio = await upload.format()
  const call = callOf(exchange, fields, audio)
  const selection = deps.live.select(context, call)
  const held = () => upload.sent()
  const session = deps.live.open({ context, call, selection, sink: upload, admitted: undefined, held })
  upload.begin(session, call.payload.live.audio)
  const events = { event: (message: LiveMessage) => message, done: () => [], terminator: null }
  return eventStreamReply({ deltas: upload.messages(), ...events, duplex: true }, exchange, context)
}

function callOf(exchange: Exchange, fields: Fields, audio: LiveAudio | null): LiveRequest['call'] {
  const call = readLiveCall(exchange, fields)
  if (audio === null) return call
  checkAudio(audio)
  const live: LiveCall['live'] = { ...call.payload.live, audio }
  return {
    ...call,
    payload: { ...call.payload, live, audio: { ...call.payload.audio, channels: audio.channels } },
  }
}

/** A body that is audio, and the messages of its session. */
class LiveUpload implements BodyConsumer, LiveSink {
  readonly #exchange: Exchange
  readonly #budget: ByteBudget
  readonly #maxBytes: number
  #session: LiveSession | null = null
  #receivedBytes = 0
  /** Audio that the session has no room for yet; counted in the budget. */
  readonly #pending: Buffer[] = []
  #frames: WholeFrames | null = null
  #isLast = false
  /** Bytes of samples that are still to come. */
  #left = Number.POSITIVE_INFINITY
  #isFeeding = false
  /** Null: the query has the format. Undefined: it is not known yet. */
  #format: LiveAudio | null | undefined
  #failure: GatewayError | null = null
  #isOver = false
  readonly #waiting: LiveMessage[] = []
  #wake: () => void = () => {}

  constructor(exchange: Exchange, budget: ByteBudget, maxBytes: number) {
    this.#exchange = exchange
    this.#budget = budget
    this.#maxBytes = maxBytes
    this.#format = SAMPLES.test(exchange.headers['content-type'] ?? '') ? null : undefined
  }

  /** The format of the audio, out of its head; null when the query has it. Begins to read. */
  async format(): Promise<LiveAudio | null> {
    this.#exchange.body.consume(this)
    while (this.#format === undefined && this.#failure === null) await this.#change()
    if (this.#failure !== null) throw this.#failure
    return this.#format ?? null
  }

  begin(session: LiveSession, audio: LiveAudio): void {
    this.#session = session
    this.#frames = new WholeFrames(audio)
    this.#exchange.onFinished(() => {
      for (const { length } of this.#pending.splice(0)) this.#budget.refund(length)
      session.leave()
    })
    void session.start()
    this.#feed()
  }

  onChunk(view: Uint8Array, last: boolean): void {
    this.#receivedBytes += view.length
    this.#isLast = last
    if (this.#receivedBytes > this.#maxBytes)
      return void this.onError(audioTooLarge(this.#maxBytes, this.#receivedBytes))
    this.#budget.charge(view.length)
    this.#pending.push(Buffer.from(view))
    if (this.#session === null) this.#readHead()
    else this.#feed()
  }

  onError(error: GatewayError): void {
    this.#failure ??= error
    this.#session?.fail(error)
    this.#wake()
  }

  /** Audio was sent on: there may be room for more. */
  sent(): void {
    const unsentSeconds = this.#session?.unsentSeconds ?? 0
    if (this.#pending.length > 0 && unsentSeconds <= RESUMED_AT_SECONDS) this.#feed()
  }

  send(message: LiveMessage): void {
    const most = message.type === 'partial' ? PARTIALS_WAITING_MAX : WAITING_MAX
    if (this.#waiting.length < most) this.#waiting.push(message)
    else if (message.type !== 'partial')
      this.#session?.fail(new GatewayError('REQUEST_TIMEOUT', 'the transcript is read too slowly'))
    this.#wake()
  }

  end(error: GatewayError | null): void {
    this.#failure ??= error
    this.#isOver = true
    this.#wake()
  }

  async *messages(): AsyncGenerator<LiveMessage, void> {
    for (;;) {
      yield* this.#waiting.splice(0)
      if (this.#waiting.length > 0) continue
      if (this.#failure !== null) throw this.#failure
      if (this.#isOver) return
      await this.#change()
    }
  }

  /** Bytes before the session are kept: the head, and the audio that came with it. */
  #readHead(): void {
    const [only] = this.#pending
    const all = this.#pending.length === 1 ? only! : Buffer.concat(this.#pending.splice(0))
    this.#pending[0] = all
    if (this.#format === undefined) {
      const head = readWavHead(all)
      const isWhole = head !== null && head !== 'incomplete'
      if (!isWhole && (head === null || this.#isLast || all.length > HEAD_BYTES_MAX))
        return void this.onError(
          invalid('expected a WAV file with 16-bit PCM, mu-law or A-law samples', 'audio'),
        )
      if (isWhole) {
        this.#format = head.audio
        this.#left = head.bytes ?? Number.POSITIVE_INFINITY
        this.#budget.refund(head.start)
        this.#pending[0] = all.subarray(head.start)
      }
    }
    // Until the session is open, which waits for no one, this is all that is taken.
    if (this.#format !== undefined) this.#exchange.body.pause()
    this.#wake()
  }

  /** Hands audio over as long as the session has room for it; its sender waits for the rest. */
  #feed(): void {
    const session = this.#session!
    if (this.#isFeeding) return
    this.#isFeeding = true
    while (this.#pending.length > 0 && session.unsentSeconds <= HELD_AT_SECONDS) {
      const next = this.#pending.shift()!
      if (next.length > PIECE_BYTES) this.#pending.unshift(next.subarray(PIECE_BYTES))
      const piece = next.subarray(0, PIECE_BYTES)
      this.#budget.refund(piece.length)
      this.#handOver(piece)
    }
    this.#isFeeding = false
    if (this.#pending.length > 0) this.#exchange.body.pause()
    else if (this.#isLast) session.end()
    else this.#exchange.body.resume()
  }

  #handOver(given: Buffer): void {
    // A file may hold other chunks after the samples.
    const bytes = given.subarray(0, this.#left)
    this.#left -= bytes.length
    const whole = this.#frames!.take(bytes)
    if (whole.length > 0) this.#session?.audio(whole)
  }

  #change(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = resolve
    })
  }
}
