import { randomBytes } from 'node:crypto'
import { memberOf, stringIn } from '../http.ts'
import { roundSeconds } from '../transcript.ts'
import { type HeardWord, MorseListener } from './morse-listener.ts'
import { type AudioFormat, bytesPerSecond, SampleReader } from './samples.ts'
import type { LiveProtocol, LiveSession } from './session.ts'

/** Longest session, and the largest audio of one event, as OpenAI has them. */
export const SESSION_MS = 3_600_000
const APPEND_MAX_BYTES = 15 * 1024 * 1024
/** Room for the largest event, in base64. */
export const MESSAGE_MAX_BYTES = 22 * 1024 * 1024

const COMMIT_LEAST_SECONDS = 0.1
/** Seconds that a semantic turn detection waits behind an unfinished sentence, and behind a finished one. */
const PATIENCE: Readonly<Record<string, number>> = { low: 8, medium: 4, high: 2, auto: 4 }
const SENTENCE_END_SECONDS = 0.5
/** How long a transcript that is to come out of order waits for another one. */
const DISORDER_MS = 500

/** Told while the audio comes, or only once it is committed; and what usage counts. */
const MODELS: Readonly<Record<string, { readonly streams: boolean; readonly usage: 'tokens' | 'duration' }>> =
  {
    'morse-1': { streams: true, usage: 'duration' },
    'gpt-live-transcribe': { streams: true, usage: 'duration' },
    'gpt-realtime-whisper': { streams: true, usage: 'duration' },
    'gpt-transcribe': { streams: false, usage: 'tokens' },
    'gpt-4o-transcribe': { streams: false, usage: 'tokens' },
    'gpt-4o-mini-transcribe': { streams: false, usage: 'tokens' },
    'gpt-4o-transcribe-diarize': { streams: false, usage: 'tokens' },
    'whisper-1': { streams: false, usage: 'duration' },
  }

const FORMATS: Readonly<Record<string, AudioFormat>> = {
  'audio/pcm': { encoding: 'linear16', sampleRate: 24_000, channels: 1 },
  'audio/pcmu': { encoding: 'mulaw', sampleRate: 8000, channels: 1 },
  'audio/pcma': { encoding: 'alaw', sampleRate: 8000, channels: 1 },
}

const SUPPORTED = [
  'session.update',
  'input_audio_buffer.append',
  'input_audio_buffer.commit',
  'input_audio_buffer.clear',
]

type Json = Readonly<Record<string, unknown>>

interface Detection extends Json {
  readonly type: 'server_vad' | 'semantic_vad'
}

interface Input extends Json {
  readonly format: { readonly type: string; readonly rate?: number }
  readonly transcription: Json | null
  readonly noise_reduction: unknown
  readonly turn_detection: Detection | null
}

const SERVER_VAD = {
  type: 'server_vad',
  threshold: 0.5,
  prefix_padding_ms: 300,
  silence_duration_ms: 500,
  idle_timeout_ms: null,
} as const

/** A fault of a client event, in OpenAI's terms. */
class EventError extends Error {
  readonly code: string
  readonly param: string | null
  /** Ends the session. */
  readonly isFatal: boolean

  constructor(code: string, message: string, param: string | null = null, isFatal = false) {
    super(message)
    this.code = code
    this.param = param
    this.isFatal = isFatal
  }
}

/** An item that is under way: the audio since the last commit. */
interface Item {
  readonly id: string
  readonly words: HeardWord[]
  /** Text that is told as deltas. */
  heardText: string
  /** Session's seconds at which its audio begins. */
  from: number
}

/** Settings of a session, as the client has made them. */
class Settings {
  input: Input = {
    format: { type: 'audio/pcm', rate: 24_000 },
    transcription: null,
    noise_reduction: null,
    turn_detection: SERVER_VAD,
  }
  include: unknown = null
  format: AudioFormat = FORMATS['audio/pcm']!

  get modelName(): string | null {
    return stringIn(memberOf(this.input.transcription, 'model'))
  }

  get model() {
    return MODELS[String(this.modelName)] ?? MODELS['morse-1']!
  }

  /** @throws EventError, and changes nothing */
  update(session: unknown, hasAudio: boolean): void {
    if (memberOf(session, 'type') !== 'transcription') {
      const message = 'Passing a realtime session update event to a transcription session is not allowed.'
      throw new EventError('invalid_parameter', message, 'session.type')
    }
    const given = memberOf(memberOf(session, 'audio'), 'input') ?? {}
    const input = { ...this.input, ...given } as Input
    if (input.transcription !== null && this.input.transcription !== null)
      Object.assign(input, { transcription: { ...this.input.transcription, ...input.transcription } })
    const format = audioFormat(input.format)
    checkModel(input)
    checkDetection(input)
    if (format !== this.format && hasAudio) {
      const message = 'The audio format cannot be changed once audio was appended.'
      throw new EventError('invalid_value', message, 'session.audio.input.format')
    }
    this.format = format
    this.input = input
    if (memberOf(session, 'include') !== undefined) this.include = memberOf(session, 'include')
  }
}

/** Sends transcripts, each behind the next one where a fault has them out of order. */
class Transcripts {
  readonly #session: LiveSession
  readonly #send: (body: object) => void
  #held: object | null = null

  constructor(session: LiveSession, send: (body: object) => void) {
    this.#session = session
    this.#send = send
  }

  complete(body: object): void {
    const held = this.#held
    this.#held = null
    if (!this.#session.faults.live.disorder) return void this.#send(body)
    if (held !== null) {
      this.#send(body)
      return void this.#send(held)
    }
    this.#held = body
    const late = () => {
      if (this.#held !== body) return
      this.#held = null
      this.#send(body)
    }
    this.#session.clock.after(DISORDER_MS, late).unref()
  }
}

/** A transcription session of OpenAI's Realtime API, over `GET /v1/realtime?intent=transcription`. */
export class OpenAiRealtime implements LiveProtocol {
  readonly #session: LiveSession
  readonly #id = `sess_${randomBytes(12).toString('hex')}`
  readonly #expiresAt: number
  /** Why the session is refused, in the way of OpenAI only once it is open. */
  readonly #refusal: EventError | null
  /** Told of the model that the client chooses. */
  readonly #onModel: (model: string) => void
  readonly #settings = new Settings()
  readonly #transcripts: Transcripts
  #listener: MorseListener | null = null
  #reader: SampleReader | null = null
  #appendedSeconds = 0
  /** Where the buffer begins: behind the last commit or clear. */
  #bufferFrom = 0
  #item: Item | null = null
  #speaking = false
  #previousItem: string | null = null

  constructor(session: LiveSession, refusal: EventError | null, onModel: (model: string) => void) {
    this.#session = session
    this.#expiresAt = Math.floor(session.clock.wallNow() / 1000) + SESSION_MS / 1000
    this.#refusal = refusal
    this.#onModel = onModel
    this.#transcripts = new Transcripts(session, (body) =>
      this.#send('conversation.item.input_audio_transcription.completed', body),
    )
  }

  opened(): void {
    if (this.#refusal === null) this.#send('session.created', { session: this.#describe() })
    else this.#fail(this.#refusal, null)
  }

  message(bytes: Buffer): void {
    let event: unknown = null
    try {
      event = JSON.parse(bytes.toString())
      this.#take(event)
    } catch (error) {
      const known =
        error instanceof EventError
          ? error
          : new EventError('invalid_json', 'We could not parse the JSON body of your event.')
      this.#fail(known, stringIn(memberOf(event, 'event_id')))
    }
  }

  expired(): void {
    this.#error('session_expired', 'Your session hit the maximum duration of 60 minutes.', null, null)
    this.#session.close(1001, 'session_expired')
  }

  #take(event: unknown): void {
    const type = stringIn(memberOf(event, 'type'))
    switch (type) {
      case 'input_audio_buffer.append':
        return void this.#append(memberOf(event, 'audio'))
      case 'input_audio_buffer.commit':
        return void this.#commitByClient()
      case 'input_audio_buffer.clear':
        return void this.#clear()
      case 'session.update':
        return void this.#update(memberOf(event, 'session'))
      default:
        throw new EventError(
          'invalid_value',
          `Invalid value: '${type}'. Supported values are: ${SUPPORTED.map((name) => `'${name}'`).join(', ')}.`,
          'type',
        )
    }
  }

  #update(session: unknown): void {
    this.#settings.update(session, this.#appendedSeconds > 0)
    const { modelName } = this.#settings
    if (modelName !== null) this.#onModel(modelName)
    this.#send('session.updated', { session: this.#describe() })
  }

  #describe(): object {
    return {
      type: 'transcription',
      object: 'realtime.transcription_session',
      id: this.#id,
      expires_at: this.#expiresAt,
      audio: { input: this.#settings.input },
      include: this.#settings.include,
    }
  }

  #append(audio: unknown): void {
    const bytes = decodeBase64(audio)
    if (bytes === null) {
      const message = "Invalid 'audio'. Expected base64-encoded audio bytes, but got an invalid value."
      throw new EventError('invalid_value', message, 'audio')
    }
    if (bytes.length > APPEND_MAX_BYTES) {
      const message = `Invalid 'audio': an event takes up to ${APPEND_MAX_BYTES} bytes of audio.`
      throw new EventError('string_above_max_length', message, 'audio')
    }
    this.#appendedSeconds += bytes.length / bytesPerSecond(this.#settings.format)
    this.#listener ??= this.#listen()
    this.#reader ??= new SampleReader(this.#settings.format, true)
    const [listener, reader] = [this.#listener, this.#reader]
    this.#session.audio(bytes, this.#settings.format, (part) =>
      reader.read(part, (_, samples, count) => listener.push(samples, count)),
    )
  }

  #listen(): MorseListener {
    return new MorseListener(this.#settings.format.sampleRate, {
      tone: (start) => this.#tone(start),
      partial: (text) => this.#spell(text, false),
      word: (word) => {
        this.#spell(word.text, true)
        this.#open().words.push(word)
        this.#session.countFinal()
      },
      advance: (now) => this.#advance(now),
    })
  }

  #tone(start: number): void {
    const detection = this.#settings.input.turn_detection
    if (this.#speaking || detection === null) return
    this.#speaking = true
    const padding = detection.type === 'server_vad' ? Number(detection.prefix_padding_ms ?? 300) : 300
    const from = Math.max(this.#bufferFrom, start - padding / 1000)
    const item = this.#open()
    item.from = from
    this.#send('input_audio_buffer.speech_started', { audio_start_ms: ms(from), item_id: item.id })
  }

  #advance(now: number): void {
    const listener = this.#listener!
    const detection = this.#settings.input.turn_detection
    if (!this.#speaking || detection === null || listener.sounding) return
    const silence = now - listener.lastEnd
    // Told before the word is over, a semantic detection would not know the end of a sentence.
    if (detection.type === 'semantic_vad' && listener.spelling) return
    if (silence < this.#patience(detection)) return
    listener.flush()
    this.#send('input_audio_buffer.speech_stopped', { audio_end_ms: ms(now), item_id: this.#open().id })
    this.#commit(now)
  }

  #patience(detection: Detection): number {
    if (detection.type === 'server_vad') return Number(detection.silence_duration_ms ?? 500) / 1000
    const last = this.#item?.words.at(-1)?.text ?? ''
    return /[.?!]$/.test(last) ? SENTENCE_END_SECONDS : (PATIENCE[String(detection.eagerness)] ?? 4)
  }

  #open(): Item {
    this.#item ??= { id: newId('item'), words: [], heardText: '', from: this.#bufferFrom }
    return this.#item
  }

  /** Tells characters as a delta, which can only be added to: a text that is not a longer one waits for the end. */
  #spell(text: string, isWord: boolean): void {
    const { streams } = this.#settings.model
    if (streams && this.#settings.input.transcription !== null && !this.#session.faults.empty) {
      const item = this.#open()
      const whole = [...item.words.map((word) => word.text), text].join(' ')
      this.#delta(item, whole)
    }
    if (!isWord) this.#session.spelled()
  }

  #delta(item: Item, whole: string): void {
    if (!whole.startsWith(item.heardText) || whole === item.heardText) return
    const delta = whole.slice(item.heardText.length)
    item.heardText = whole
    this.#send('conversation.item.input_audio_transcription.delta', {
      item_id: item.id,
      content_index: 0,
      delta,
    })
  }

  #commitByClient(): void {
    const seconds = this.#appendedSeconds - this.#bufferFrom
    if (seconds < COMMIT_LEAST_SECONDS - 1e-9) {
      const message =
        'Error committing input audio buffer: buffer too small. Expected at least 100ms of audio, ' +
        `but buffer only has ${(Math.max(0, seconds) * 1000).toFixed(2)}ms of audio.`
      throw new EventError('input_audio_buffer_commit_empty', message)
    }
    this.#session.keep()
    this.#listener?.flush()
    this.#commit(this.#appendedSeconds)
  }

  #commit(until: number): void {
    const item = this.#open()
    const seconds = until - item.from
    this.#item = null
    this.#speaking = false
    this.#bufferFrom = until
    const previous = this.#previousItem
    this.#previousItem = item.id
    this.#send('input_audio_buffer.committed', { item_id: item.id, previous_item_id: previous })
    const content = [{ type: 'input_audio', transcript: null }]
    const described = { id: item.id, type: 'message', status: 'completed', role: 'user', content }
    this.#send('conversation.item.added', { previous_item_id: previous, item: described })
    this.#send('conversation.item.done', { previous_item_id: previous, item: described })
    if (this.#settings.input.transcription !== null) this.#transcribed(item, seconds)
  }

  #transcribed(item: Item, seconds: number): void {
    const words = this.#session.faults.empty ? [] : item.words
    const transcript = words.map((word) => word.text).join(' ')
    const name = this.#settings.modelName
    if (name === 'whisper-1') this.#delta(item, transcript)
    else for (const at of words.keys()) this.#delta(item, spokenText(words.slice(0, at + 1)))
    if (name === 'gpt-4o-transcribe-diarize')
      for (const segment of segmentsOf(item, words))
        this.#send('conversation.item.input_audio_transcription.segment', segment)
    this.#transcripts.complete({
      item_id: item.id,
      content_index: 0,
      transcript,
      usage: sessionUsage(this.#settings.model.usage, seconds, words.length),
    })
  }

  #clear(): void {
    this.#listener?.discard()
    this.#item = null
    this.#speaking = false
    this.#bufferFrom = this.#appendedSeconds
    this.#send('input_audio_buffer.cleared', {})
  }

  #send(type: string, body: object): void {
    this.#session.send({ type, event_id: newId('event'), ...body })
  }

  #fail(error: EventError, eventId: string | null): void {
    this.#error(error.code, error.message, error.param, eventId)
    if (error.isFatal) this.#session.close(4000, `invalid_request_error.${error.code}`)
  }

  #error(code: string, message: string, param: string | null, eventId: string | null): void {
    this.#send('error', {
      error: { type: 'invalid_request_error', code, message, param, event_id: eventId },
    })
  }
}

/**
 * Why OpenAI would not serve a session: it says so in a message and closes. The beta's header and subprotocol are of an
 * API that has ended.
 */
export function queryRefusal(query: URLSearchParams, isBeta: boolean): EventError | null {
  const fatal = (code: string, message: string, param: string | null = null) =>
    new EventError(code, message, param, true)
  if (isBeta) {
    const message = 'The Realtime Beta API is no longer supported. Please use /v1/realtime for the GA API.'
    return fatal('beta_api_shape_disabled', message)
  }
  const model = query.get('model')
  const intent = query.get('intent')
  const call = query.get('call_id')
  if (intent === 'transcription' && call === null) {
    if (model === null) return null
    return fatal(
      'invalid_parameter',
      'You must not provide a model parameter for transcription sessions.',
      'model',
    )
  }
  if (intent !== null && model === null && call === null)
    return fatal(
      'invalid_value',
      `Invalid value: '${intent}'. Supported values are: 'transcription'.`,
      'intent',
    )
  if (model === null || intent !== null || call !== null) {
    const message = 'You must provide exactly one of model, intent and call_id.'
    return fatal('missing_required_parameter', message, 'model')
  }
  const message = Object.hasOwn(MODELS, model)
    ? `Model ${model} is a transcription model and cannot be used as the realtime session model. Pass this ` +
      'transcription model as audio.input.transcription.model instead.'
    : `The sandbox has transcription sessions only, and no realtime model '${model}'.`
  return fatal('invalid_model', message, 'model')
}

function audioFormat(format: Input['format']): AudioFormat {
  const type = stringIn(memberOf(format, 'type')) ?? ''
  const known = Object.hasOwn(FORMATS, type) ? FORMATS[type] : undefined
  if (known === undefined) {
    const message = `Invalid value. Supported values are: ${Object.keys(FORMATS).join(', ')}.`
    throw new EventError('invalid_value', message, 'session.audio.input.format.type')
  }
  if (format.rate !== undefined && (known.encoding !== 'linear16' || format.rate !== known.sampleRate)) {
    const message = 'Invalid value: audio/pcm takes a rate of 24000, other formats take none.'
    throw new EventError('invalid_value', message, 'session.audio.input.format.rate')
  }
  return known
}

function checkModel({ transcription }: Input): void {
  if (transcription === null) return
  const model = stringIn(memberOf(transcription, 'model'))
  const param = 'session.audio.input.transcription.model'
  if (model === null)
    throw new EventError('missing_required_parameter', `Missing parameter: '${param}'.`, param)
  if (Object.hasOwn(MODELS, model)) return
  throw new EventError(
    'invalid_model',
    `Model "${model}" is not supported in transcription mode.`,
    param,
    true,
  )
}

function checkDetection({ turn_detection: detection, transcription }: Input): void {
  if (detection === null) return
  const param = 'session.audio.input.turn_detection'
  if (memberOf(transcription, 'model') === 'gpt-realtime-whisper') {
    const message = 'Turn detection is not supported with gpt-realtime-whisper. Set turn_detection to null.'
    throw new EventError('invalid_value', message, param)
  }
  const isKnown = ['server_vad', 'semantic_vad'].includes(String(memberOf(detection, 'type')))
  if (!isKnown) {
    const message = "Invalid value. Supported values are: 'server_vad' and 'semantic_vad'."
    throw new EventError('invalid_value', message, `${param}.type`)
  }
  for (const name of ['silence_duration_ms', 'prefix_padding_ms']) {
    const value = memberOf(detection, name) ?? 0
    if (typeof value === 'number' && value >= 0) continue
    throw new EventError(
      'invalid_type',
      'Invalid type: expected a number of milliseconds.',
      `${param}.${name}`,
    )
  }
}

/** Null for what is no base64. */
function decodeBase64(text: unknown): Buffer | null {
  if (typeof text !== 'string' || text.length % 4 !== 0) return null
  const bytes = Buffer.from(text, 'base64')
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0
  // Anything that is not of the alphabet is skipped, and then bytes are missing.
  return bytes.length === (text.length / 4) * 3 - padding ? bytes : null
}

function sessionUsage(kind: 'tokens' | 'duration', seconds: number, words: number): object {
  if (kind === 'duration') return { type: 'duration', seconds: roundSeconds(seconds) }
  const input = Math.ceil(seconds * 10)
  return {
    type: 'tokens',
    input_tokens: input,
    input_token_details: { audio_tokens: input, text_tokens: 0 },
    output_tokens: words,
    total_tokens: input + words,
  }
}

function spokenText(words: readonly HeardWord[]): string {
  return words.map((word) => word.text).join(' ')
}

function newId(kind: string): string {
  return `${kind}_${randomBytes(10).toString('hex')}`
}

function ms(seconds: number): number {
  return Math.round(seconds * 1000)
}

/** One segment for each stretch in one tone; seconds from the beginning of the item. */
function segmentsOf(item: Item, words: readonly HeardWord[]): object[] {
  const tones: number[] = []
  const spoken = words.map((word) => {
    let speaker = tones.findIndex((hertz) => Math.abs(hertz - word.hertz) < 25)
    if (speaker < 0) speaker = tones.push(word.hertz) - 1
    return { word, speaker }
  })
  const segments: object[] = []
  for (let at = 0; at < spoken.length; ) {
    const { speaker } = spoken[at]!
    let end = at
    while (spoken[end]?.speaker === speaker) end += 1
    const said = spoken.slice(at, end).map(({ word }) => word)
    segments.push({
      id: newId('seg'),
      item_id: item.id,
      content_index: 0,
      text: spokenText(said),
      speaker: String.fromCharCode('A'.charCodeAt(0) + speaker),
      start: roundSeconds(said[0]!.start - item.from),
      end: roundSeconds(said.at(-1)!.end - item.from),
    })
    at = end
  }
  return segments
}
