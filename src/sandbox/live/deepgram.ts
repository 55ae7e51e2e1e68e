import { randomUUID } from 'node:crypto'
import { memberOf, stringIn } from '../http.ts'
import { roundSeconds, UNKNOWN } from '../transcript.ts'
import { type HeardWord, MorseListener, UNNOTICED_SECONDS, type WordSink } from './morse-listener.ts'
import { type AudioFormat, bytesPerSecond, ENCODINGS, SampleReader } from './samples.ts'
import type { LiveProtocol, LiveSession } from './session.ts'

/** Audio of a message; Deepgram advises 20 to 250 ms. */
export const MESSAGE_MAX_BYTES = 2 * 1024 * 1024
/** Longest session; Deepgram documents none. */
export const SESSION_MS = 86_400_000
/** Without audio or KeepAlive for this long, a session ends. */
const IDLE_MS = 10_000
/** Silence is told as an interim, and as a final, at least this often, seconds. */
const INTERIM_SECONDS = 1
const FINAL_SECONDS = 3
/** Tones closer than this are one speaker, Hz. */
const SPEAKER_REACH_HERTZ = 25

const CHANNELS_MAX = 20
/** Unless asked for; Deepgram's 10 ms would end an utterance behind every word of Morse code. */
const ENDPOINTING_MS = 500
const UTTERANCE_END_LEAST_MS = 1000
/** Whichever is asked for, words with digits are redacted. */
const REDACTIONS = ['numbers', 'pci', 'pii', 'phi', 'ssn', 'true']

/** A handshake that Deepgram would not answer with 101. */
export class ListenRefusal extends Error {
  readonly status: number
  readonly code: string
  readonly requestId = randomUUID()

  constructor(status: number, code: string, message: string) {
    super(message)
    this.status = status
    this.code = code
  }

  get headers(): Readonly<Record<string, string>> {
    return { 'dg-request-id': this.requestId, 'dg-error': this.message }
  }

  get body(): object {
    return { err_code: this.code, err_msg: this.message, request_id: this.requestId }
  }
}

interface ListenOptions {
  readonly model: string
  /** Null: a wav file is to come. */
  readonly format: AudioFormat | null
  readonly multichannel: boolean
  readonly interim: boolean
  /** Null: never. */
  readonly endpointingSeconds: number | null
  readonly utteranceEndSeconds: number | null
  readonly vadEvents: boolean
  readonly diarize: boolean
  readonly redact: boolean
  readonly multilingual: boolean
}

/**
 * Reads the query of `/v1/listen`.
 *
 * @throws ListenRefusal
 */
export function readListenOptions(query: URLSearchParams): ListenOptions {
  const model = query.get('model') ?? 'nova-3'
  const refuse = (message: string): never => {
    throw new ListenRefusal(400, 'INVALID_QUERY_PARAMETER', message)
  }
  const flag = (name: string) => {
    const text = query.get(name) ?? 'false'
    return text === 'true' || (text !== 'false' && refuse(`${name} takes true or false`))
  }
  if (!/^(?:morse|nova|enhanced|base)[a-z0-9-]*$/.test(model))
    throw new ListenRefusal(400, 'Bad Request', 'No such model/language/tier combination found.')
  if (query.has('detect_language')) refuse('Language detection is not available for streaming.')
  if (query.has('keywords') && model.startsWith('nova-3'))
    refuse('Keywords are not supported for Nova-3. Use keyterm instead.')
  if (query.has('keyterm') && !/^(?:nova-3|morse)/.test(model)) refuse('Keyterms are for Nova-3.')
  for (const name of query.getAll('redact'))
    if (!REDACTIONS.includes(name)) refuse(`The sandbox redacts ${REDACTIONS.join(', ')}, not ${name}.`)
  if (query.has('callback')) refuse('The sandbox calls nobody back.')
  const interim = flag('interim_results')
  const utteranceEnd = integer(query, 'utterance_end_ms', UTTERANCE_END_LEAST_MS, 5000, refuse)
  if (utteranceEnd !== null && !interim) refuse('utterance_end_ms requires interim_results=true.')
  const endpointing = query.get('endpointing')
  return {
    model,
    format: readFormat(query, refuse),
    multichannel: flag('multichannel'),
    interim,
    endpointingSeconds:
      endpointing === 'false'
        ? null
        : endpointing === 'true' || endpointing === null
          ? ENDPOINTING_MS / 1000
          : (integer(query, 'endpointing', 0, 60_000, refuse) ?? 0) / 1000,
    utteranceEndSeconds: utteranceEnd === null ? null : utteranceEnd / 1000,
    vadEvents: flag('vad_events'),
    diarize: flag('diarize') || query.has('diarize_model'),
    redact: query.has('redact'),
    multilingual: query.get('language') === 'multi',
  }
}

function readFormat(query: URLSearchParams, refuse: (message: string) => never): AudioFormat | null {
  const channels = integer(query, 'channels', 1, CHANNELS_MAX, refuse) ?? 1
  const rate = integer(query, 'sample_rate', 8000, 96_000, refuse)
  const name = query.get('encoding')
  if (name === null) return null
  const encoding = ENCODINGS.find((known) => known === name)
  if (encoding === undefined) return refuse(`The sandbox hears ${ENCODINGS.join(', ')}, not ${name}.`)
  if (rate === null) return refuse('sample_rate is required with encoding.')
  return { encoding, sampleRate: rate, channels }
}

function integer(
  query: URLSearchParams,
  name: string,
  least: number,
  most: number,
  refuse: (message: string) => never,
): number | null {
  const text = query.get(name)
  if (text === null) return null
  const value = /^\d{1,6}$/.test(text) ? Number(text) : Number.NaN
  return value >= least && value <= most ? value : refuse(`${name} takes ${least} to ${most}.`)
}

/** A session of Deepgram's streaming API, over `GET /v1/listen`. */
export class DeepgramListen implements LiveProtocol {
  readonly #session: LiveSession
  readonly #options: ListenOptions
  readonly #requestId = randomUUID()
  readonly #created: string
  readonly #idleMs: number
  #format: AudioFormat | null
  #reader: SampleReader | null = null
  #channels: readonly Channel[] = []
  /** The beginning of a wav file whose head is not complete. */
  #head = Buffer.alloc(0)
  #ended = false

  constructor(session: LiveSession, options: ListenOptions) {
    this.#created = new Date(session.clock.wallNow()).toISOString()
    this.#session = session
    this.#options = options
    this.#format = options.format
    this.#idleMs = session.faults.live.idleMs ?? IDLE_MS
  }

  opened(): void {
    if (this.#format !== null) this.#begin(this.#format)
  }

  message(bytes: Buffer, isBinary: boolean): void {
    if (this.#ended) return
    if (!isBinary) this.#control(bytes)
    else if (bytes.length === 0) this.#finish()
    else this.#audio(bytes)
  }

  tick(idleMs: number): void {
    if (idleMs < this.#idleMs || this.#ended) return
    const message = 'Deepgram did not receive audio data or a text message within the timeout window.'
    this.#session.close(1011, `NET-0001: ${message}`)
  }

  expired(): void {
    this.#session.close(1011, 'NET-0000: The session has reached its longest time.')
  }

  #begin(format: AudioFormat): void {
    this.#format = format
    const apart = this.#options.multichannel
    const count = apart ? format.channels : 1
    this.#reader = new SampleReader(format, !apart)
    const metadata = {
      request_id: this.#requestId,
      model_info: { name: this.#options.model, version: '2026-11-01.0', arch: 'morse' },
      model_uuid: MODEL_UUID,
    }
    this.#channels = Array.from(
      { length: count },
      (_, index) =>
        new Channel(this.#session, this.#options, { index, count, rate: format.sampleRate, metadata }),
    )
  }

  #control(bytes: Buffer): void {
    let message: unknown = null
    try {
      message = JSON.parse(bytes.toString())
    } catch {}
    const type = stringIn(memberOf(message, 'type'))
    if (type === 'KeepAlive') {
      // A session that never gets audio is not kept.
      if (this.#session.bytes > 0) this.#session.keep()
    } else if (type === 'Finalize') {
      this.#session.keep()
      const only = memberOf(message, 'channel')
      for (const channel of this.#channels)
        if (typeof only !== 'number' || channel.index === only) channel.finalize(true)
    } else if (type === 'CloseStream') this.#finish()
    else {
      this.#session.send({
        type: 'Error',
        variant: 'SchemaError',
        description: 'Could not deserialize last text message',
        message: type === null ? 'expected a type' : `unknown variant \`${type}\``,
      })
      this.#session.close(1008, 'SchemaError')
    }
  }

  #audio(bytes: Buffer): void {
    if (this.#reader === null) return void this.#wav(bytes)
    const reader = this.#reader
    const channels = this.#channels
    this.#session.audio(bytes, this.#format!, (part) =>
      reader.read(part, (channel, samples, count) => channels[channel]!.push(samples, count)),
    )
  }

  /** Looks for the format at the beginning of a wav file. */
  #wav(bytes: Buffer): void {
    this.#head = Buffer.concat([this.#head, bytes])
    const head = this.#head
    const found = wavFormat(head)
    if (found === 'incomplete') return
    if (found === null) return void this.#session.close(1008, 'DATA-0000: The audio could not be decoded.')
    this.#begin(found.format)
    this.#head = Buffer.alloc(0)
    this.#audio(head.subarray(found.start))
  }

  #finish(): void {
    this.#ended = true
    const { cut, live } = this.#session.faults
    if (cut) return void this.#session.reset()
    for (const channel of this.#channels) channel.finalize(false)
    const seconds = this.#format === null ? 0 : this.#session.bytes / bytesPerSecond(this.#format)
    this.#session.send({
      type: 'Metadata',
      transaction_key: 'deprecated',
      request_id: this.#requestId,
      sha256: this.#session.sha256,
      created: this.#created,
      duration: roundSeconds(seconds),
      channels: this.#options.multichannel ? this.#channels.length : 1,
      models: [MODEL_UUID],
      model_info: { [MODEL_UUID]: { name: this.#options.model, version: '2026-11-01.0', arch: 'morse' } },
    })
    if (!live.linger) this.#session.close(1000, '')
  }
}

const MODEL_UUID = randomUUID()

interface ChannelTerms {
  readonly index: number
  /** Number of channels of the session. */
  readonly count: number
  readonly rate: number
  readonly metadata: object
}

type Place = Readonly<{ final: boolean; speechFinal: boolean; fromFinalize?: boolean; until: number }>

/** Tells the words that are heard in one channel as Deepgram tells them. */
class Channel implements WordSink {
  readonly index: number
  readonly #session: LiveSession
  readonly #options: ListenOptions
  readonly #terms: ChannelTerms
  readonly #listener: MorseListener
  /** All audio before is told as final, seconds. */
  #settled = 0
  /** When something was told, and when something final was, seconds of audio. */
  #toldAt = 0
  #partial: { readonly text: string; readonly start: number } | null = null
  #speaking = false
  /** Words that are told, but not as the end of an utterance; and whether the end is told as `UtteranceEnd`. */
  #open = false
  #lastWordEnd: number | null = null
  readonly #speakers: number[] = []

  constructor(session: LiveSession, options: ListenOptions, terms: ChannelTerms) {
    this.#session = session
    this.#options = options
    this.#terms = terms
    this.index = terms.index
    this.#listener = new MorseListener(terms.rate, this)
  }

  push(samples: Float32Array, count: number): void {
    this.#listener.push(samples, count)
  }

  /** Settles all that was heard. */
  finalize(byClient: boolean): void {
    const before = this.#session.record.words
    this.#finalizing = byClient
    this.#listener.flush()
    this.#finalizing = false
    if (this.#session.record.words > before) return
    const until = Math.max(this.#settled, this.#listener.now)
    if (byClient || until > this.#settled)
      this.#results([], { final: true, speechFinal: this.#open, fromFinalize: byClient, until })
    this.#open = false
  }

  #finalizing = false

  tone(start: number): void {
    if (this.#speaking) return
    this.#speaking = true
    if (this.#options.vadEvents)
      this.#session.send({ type: 'SpeechStarted', channel: this.#position(), timestamp: roundSeconds(start) })
  }

  partial(text: string, start: number): void {
    this.#partial = text === '' ? null : { text, start }
    if (this.#options.interim) this.#tellInterim()
    if (text !== '') this.#session.spelled()
  }

  word(word: HeardWord, settled: number): void {
    this.#partial = null
    const { endpointingSeconds } = this.#options
    const silence = this.#listener.now - word.end
    const speechFinal = this.#finalizing || (endpointingSeconds !== null && silence >= endpointingSeconds)
    this.#open = !speechFinal
    this.#speaking = !speechFinal
    this.#lastWordEnd = word.end
    const heard = this.#session.faults.empty ? [] : [word]
    this.#results(heard, { final: true, speechFinal, fromFinalize: this.#finalizing, until: settled })
    this.#session.countFinal()
  }

  advance(now: number): void {
    const { endpointingSeconds, utteranceEndSeconds, interim } = this.#options
    const isQuiet = !this.#listener.sounding && !this.#listener.spelling
    const silence = now - this.#listener.lastEnd
    if (isQuiet) {
      const until = Math.max(this.#settled, now - UNNOTICED_SECONDS)
      if (this.#open && endpointingSeconds !== null && silence >= endpointingSeconds) {
        this.#open = false
        this.#speaking = false
        this.#results([], { final: true, speechFinal: true, until })
      } else if (now - this.#settled >= FINAL_SECONDS)
        this.#results([], { final: true, speechFinal: false, until })
      if (utteranceEndSeconds !== null && this.#lastWordEnd !== null && silence >= utteranceEndSeconds) {
        const last = this.#lastWordEnd
        this.#lastWordEnd = null
        this.#session.send({
          type: 'UtteranceEnd',
          channel: this.#position(),
          last_word_end: roundSeconds(last),
        })
      }
    }
    if (interim && now - this.#toldAt >= INTERIM_SECONDS) this.#tellInterim()
  }

  #tellInterim(): void {
    const until = this.#listener.now
    const partial = this.#session.faults.empty ? null : this.#partial
    const words =
      partial === null
        ? []
        : [{ text: partial.text, start: partial.start, end: this.#listener.lastEnd, hertz: 0 }]
    this.#results(words, { final: false, speechFinal: false, until })
  }

  #position(): [number, number] {
    return [this.#terms.index, this.#terms.count]
  }

  #results(words: readonly HeardWord[], { final, speechFinal, fromFinalize = false, until }: Place): void {
    const described = words.map((word) => this.#describe(word, final))
    const transcript = described.map((word) => word.word).join(' ')
    this.#session.send({
      type: 'Results',
      channel_index: this.#position(),
      duration: roundSeconds(until - this.#settled),
      start: roundSeconds(this.#settled),
      is_final: final,
      speech_final: speechFinal,
      channel: {
        alternatives: [
          {
            transcript,
            confidence: words.length === 0 ? 0 : described[0]!.confidence,
            ...(this.#options.multilingual ? { languages: words.length === 0 ? [] : ['en'] } : {}),
            words: described,
          },
        ],
      },
      metadata: this.#terms.metadata,
      from_finalize: fromFinalize,
    })
    this.#toldAt = this.#listener.now
    if (final) this.#settled = until
  }

  #describe({ text, start, end, hertz }: HeardWord, final: boolean) {
    const word = this.#options.redact && /\d/.test(text) ? '[redacted]' : text
    const unknown = text.split(UNKNOWN).length - 1
    return {
      word,
      start: roundSeconds(start),
      end: roundSeconds(end),
      confidence: roundSeconds(1 - unknown / Math.max(1, text.length)),
      punctuated_word: word,
      ...(this.#options.multilingual ? { language: 'en' } : {}),
      ...(this.#options.diarize && final ? { speaker: this.#speakerOf(hertz) } : {}),
    }
  }

  #speakerOf(hertz: number): number {
    const known = this.#speakers.findIndex((tone) => Math.abs(tone - hertz) < SPEAKER_REACH_HERTZ)
    return known < 0 ? this.#speakers.push(hertz) - 1 : known
  }
}

/** The format of a wav file and where its samples begin; null when it is no wav of 16-bit samples. */
function wavFormat(head: Buffer): { format: AudioFormat; start: number } | 'incomplete' | null {
  if (head.length < 12) return 'incomplete'
  if (head.toString('latin1', 0, 4) !== 'RIFF' || head.toString('latin1', 8, 12) !== 'WAVE') return null
  let format: AudioFormat | null = null
  for (let at = 12; at < WAV_HEAD_MAX_BYTES; ) {
    if (at + 24 > head.length) return 'incomplete'
    const [name, bytes] = [head.toString('latin1', at, at + 4), head.readUInt32LE(at + 4)]
    if (name === 'data') return format === null ? null : { format, start: at + 8 }
    if (name === 'fmt ') {
      const [code, channels, bits] = [8, 10, 22].map((offset) => head.readUInt16LE(at + offset))
      if (code !== 1 || bits !== 16 || !channels || channels > CHANNELS_MAX) return null
      format = { encoding: 'linear16', sampleRate: head.readUInt32LE(at + 12), channels }
    }
    at += 8 + bytes + (bytes % 2)
  }
  return null
}

const WAV_HEAD_MAX_BYTES = 64 * 1024
