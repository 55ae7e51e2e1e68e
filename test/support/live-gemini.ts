import type { HeardWord } from '../../src/sandbox/live/morse-listener.ts'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import type { LiveVendor, VendorSession } from './live-vendor.ts'
import { Ear, objectAt, readMessage, VendorRefusal } from './live-vendor.ts'

/**
 * Transcription by Google's Live API. Messages and their fields: @google/genai 3.1.0 LiveClientSetup,
 * LiveClientRealtimeInput, AudioTranscriptionConfig and LiveServerContent; that a message has exactly one of four
 * fields and the first one is the setup: https://ai.google.dev/api/live; the modality, the format of the audio and what
 * comes back: https://ai.google.dev/gemini-api/docs/live-api/live-transcribe. What it refuses it closes with 1007, a
 * key that it does not know among it.
 */
export function gemini(key: string): LiveVendor {
  return {
    binary: true,
    messageMaxBytes: 4 * 1024 * 1024,
    accept({ path, query, headers }) {
      if (!PATH.test(path)) throw new VendorRefusal(404, { error: { code: 404 } })
      const isKnown = headers['x-goog-api-key'] === key || query.get('key') === key
      return (session) => new Gemini(session, isKnown)
    },
  }
}

/** The client's own address begins with two slashes, and names version 1 unless it is told another. */
const PATH =
  /^\/{1,2}ws\/google\.ai\.generativelanguage\.v1(?:beta)?\.GenerativeService\.BidiGenerateContent$/
const MODEL = 'models/gemini-3.5-transcribe-live'
const MIME_TYPE = 'audio/pcm;rate=16000'
const VOCABULARY_MAX = 1000
/** Of speech, where the provider finds its end. */
const SILENCE_SECONDS = 0.8

const SETUP = ['model', 'generationConfig', 'realtimeInputConfig', 'inputAudioTranscription']
const TRANSCRIPTION = ['languageCodes', 'customVocabulary', 'mode', 'wordTimestamp', 'diarization']
const INPUT = ['audio', 'activityStart', 'activityEnd', 'audioStreamEnd']

const INVALID = 'Request contains an invalid argument.'

type Json = Readonly<Record<string, unknown>>

const isTexts = (value: unknown, most: number) =>
  Array.isArray(value) && value.length <= most && value.every((one) => typeof one === 'string' && one !== '')

/** A field that is not known; null: none. */
function unknownIn(value: Json, known: readonly string[], place: string): string | null {
  const name = Object.keys(value).find((one) => !known.includes(one))
  if (name === undefined) return null
  return `Invalid JSON payload received. Unknown name "${name}" at '${place}': Cannot find field.`
}

/** What is wrong with a setup; null: nothing. */
function complaint(setup: Json): string | null {
  const transcription = objectAt(setup.inputAudioTranscription)
  const unknown =
    unknownIn(setup, SETUP, 'setup') ??
    unknownIn(transcription, TRANSCRIPTION, 'setup.input_audio_transcription')
  if (unknown !== null) return unknown
  if (setup.model !== MODEL) return `${String(setup.model)} is not found for API version v1beta`
  const { responseModalities: modalities } = objectAt(setup.generationConfig)
  if (JSON.stringify(modalities) !== '["TEXT"]') return INVALID
  const { languageCodes: codes = [], customVocabulary: terms = [], mode = 'VERBATIM' } = transcription
  const isFit =
    isTexts(codes, 100) && isTexts(terms, VOCABULARY_MAX) && ['VERBATIM', 'SMART'].includes(String(mode))
  return isFit ? null : INVALID
}

class Gemini implements LiveProtocol {
  readonly #session: VendorSession
  readonly #isKnown: boolean
  readonly #ear: Ear
  #isSetUp = false
  #isManual = false
  /** Speech goes on: the client has said so, or the provider hears it. */
  #isActive = false
  #words: HeardWord[] = []
  #partial = ''
  #isOver = false

  constructor(session: VendorSession, isKnown: boolean) {
    this.#session = session
    this.#isKnown = isKnown
    const format = { encoding: 'linear16', sampleRate: 16_000, channels: 1 } as const
    this.#ear = new Ear(session, format, {
      partial: (text) => this.#spelled(text),
      word: (word) => this.#heard(word),
      advance: (now) => {
        const isPause = this.#ear.isQuiet && now - this.#ear.lastEnd >= SILENCE_SECONDS
        if (!this.#isManual && isPause && this.#words.length > 0) this.#finish()
      },
    })
  }

  opened(): void {
    if (!this.#isKnown) this.#refuse('API key not valid. Please pass a valid API key.')
  }

  message(bytes: Buffer): void {
    if (this.#isOver) return
    const message = readMessage(bytes)
    const [name, ...more] = message === null ? [] : Object.keys(message)
    if (message === null || name === undefined || more.length > 0) return void this.#refuse(INVALID)
    if (name === 'setup') return void this.#setUp(objectAt(message.setup))
    if (!this.#isSetUp || name !== 'realtimeInput') return void this.#refuse(INVALID)
    this.#input(objectAt(message.realtimeInput))
  }

  expired(): void {}

  #refuse(reason: string): void {
    this.#isOver = true
    this.#session.refuse(1007, reason.slice(0, 123))
  }

  #setUp(setup: Json): void {
    const wrong = this.#isSetUp ? INVALID : complaint(setup)
    if (wrong !== null) return void this.#refuse(wrong)
    this.#isSetUp = true
    const { automaticActivityDetection: detection } = objectAt(setup.realtimeInputConfig)
    this.#isManual = objectAt(detection).disabled === true
    this.#session.send({ setupComplete: {} })
  }

  #input(input: Json): void {
    const unknown = unknownIn(input, INPUT, 'realtime_input')
    if (unknown !== null) return void this.#refuse(unknown)
    const { audio, activityStart, activityEnd, audioStreamEnd } = input
    // Of speech that the provider finds itself, and of speech that the client tells, each has its own marks.
    const isWrong = this.#isManual
      ? audioStreamEnd !== undefined
      : (activityStart ?? activityEnd) !== undefined
    if (isWrong) return void this.#refuse(INVALID)
    if (activityStart !== undefined) this.#isActive = true
    if (audio !== undefined) this.#audio(objectAt(audio))
    if (activityEnd !== undefined || audioStreamEnd !== undefined) this.#finish()
  }

  #audio({ mimeType, data }: Json): void {
    const isBase64 = typeof data === 'string' && /^[A-Za-z0-9+/]+={0,2}$/.test(data) && data.length % 4 === 0
    if (mimeType !== MIME_TYPE || !isBase64) return void this.#refuse(INVALID)
    const bytes = Buffer.from(data, 'base64')
    if (bytes.length % 2 !== 0) return void this.#refuse(INVALID)
    // What is said outside of the speech that the client tells is not heard.
    if (this.#isActive || !this.#isManual) this.#ear.hear(bytes)
  }

  #spelled(text: string): void {
    this.#partial = text
    if (text !== '') this.#tell('interimInputTranscription')
  }

  #heard(word: HeardWord): void {
    this.#partial = ''
    this.#words.push(word)
    this.#tell('interimInputTranscription')
  }

  #tell(kind: string): void {
    const text = [...this.#words.map((word) => word.text), this.#partial]
      .filter((one) => one !== '')
      .join(' ')
    this.#session.send({ serverContent: { [kind]: { text, languageCode: 'en-US' } } })
  }

  /** Behind silence there is neither a text nor the end of one. */
  #finish(): void {
    this.#ear.flush()
    this.#partial = ''
    const isSilent = this.#words.length === 0
    const audioOffset = `${this.#ear.now.toFixed(1)}s`
    this.#session.send({ serverContent: {}, voiceActivity: { type: 'ACTIVITY_END', audioOffset } })
    if (!isSilent) {
      this.#tell('inputTranscription')
      this.#session.send({ serverContent: { generationComplete: true } })
      this.#session.send({ serverContent: { turnComplete: true }, usageMetadata: { totalTokenCount: 9 } })
    }
    this.#words = []
    this.#isActive = false
  }
}
