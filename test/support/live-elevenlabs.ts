import { randomUUID } from 'node:crypto'
import type { HeardWord } from '../../src/sandbox/live/morse-listener.ts'
import { type AudioFormat, bytesPerSecond } from '../../src/sandbox/live/samples.ts'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import { Ear, type LiveVendor, readMessage, VendorRefusal, type VendorSession } from './live-vendor.ts'

/** What differs between sessions of the vendor's, as it was seen by its users. */
export interface ElevenLabsWays {
  /** The transcript with times comes before the one without them. */
  readonly timedFirst?: boolean
  /** Seconds without audio behind which it closes with 1000, without an error. */
  readonly idleSeconds?: number
}

/**
 * ElevenLabs' realtime speech to text. Options and messages: elevenlabs-js 2.73.0 wrapper/realtime/scribe.js and
 * connection.d.ts, https://elevenlabs.io/docs/api-reference/speech-to-text/v-1-speech-to-text-realtime; errors come as
 * messages before the socket is closed. A commit of too little is refused and the session goes on, in the words of
 * elevenlabs/packages#378.
 */
export function elevenlabs(key: string, ways: ElevenLabsWays = {}): LiveVendor {
  return {
    messageMaxBytes: 4 * 1024 * 1024,
    accept({ path, query, headers }) {
      if (path !== '/v1/speech-to-text/realtime') throw new VendorRefusal(404, { detail: 'Not Found' })
      const isKnown = headers['xi-api-key'] === key || query.get('token') === key
      return (session) => new ElevenLabs(session, query, { isKnown, ...ways })
    },
  }
}

const COMMIT_MIN_SECONDS = 0.3
/** What a session commits by itself: the page on commit strategies. */
const COMMIT_MAX_SECONDS = 90
const IDLE_SECONDS = 15
/** No length is told; half a minute is as much as the page advises between two commits. */
const CHUNK_MAX_SECONDS = 30
const PREVIOUS_TEXT_MAX = 50

const isFlag = (text: string) => text === 'true' || text === 'false'
const isWithin = (least: number, most: number) => (text: string) =>
  Number(text) >= least && Number(text) <= most
const isCode = (text: string) => /^[a-z]{2,3}$/.test(text)

const OPTIONS: Readonly<Record<string, (text: string) => boolean>> = {
  model_id: (text) => text === 'scribe_v2_realtime',
  token: () => true,
  audio_format: (text) => /^(?:pcm_(?:8000|16000|22050|24000|44100|48000)|ulaw_8000)$/.test(text),
  commit_strategy: (text) => ['manual', 'vad'].includes(text),
  vad_silence_threshold_secs: isWithin(0.3, 3),
  vad_threshold: isWithin(0.1, 0.9),
  min_speech_duration_ms: isWithin(50, 2000),
  min_silence_duration_ms: isWithin(50, 2000),
  language_code: isCode,
  secondary_languages: isCode,
  include_timestamps: isFlag,
  include_language_detection: isFlag,
  keyterms: (text) => text.length > 0 && text.length <= 20,
  enable_logging: isFlag,
}

function complaint(query: URLSearchParams): string | null {
  for (const [name, value] of query) {
    const takes = OPTIONS[name]
    if (takes === undefined || !takes(value)) return `Invalid value for ${name}: ${value}`
  }
  if (!query.has('model_id')) return 'model_id is required'
  return query.getAll('keyterms').length > 50 ? 'At most 50 keyterms' : null
}

class ElevenLabs implements LiveProtocol {
  readonly #session: VendorSession
  readonly #query: URLSearchParams
  readonly #ways: ElevenLabsWays & { readonly isKnown: boolean }
  readonly #format: AudioFormat
  readonly #ear: Ear
  #seconds = 0
  #committed = 0
  #chunks = 0
  #words: HeardWord[] = []
  #partial = ''
  #isOver = false

  constructor(
    session: VendorSession,
    query: URLSearchParams,
    ways: ElevenLabsWays & { readonly isKnown: boolean },
  ) {
    this.#session = session
    this.#query = query
    this.#ways = ways
    const [encoding, rate] = (query.get('audio_format') ?? 'pcm_16000').split('_')
    this.#format = {
      encoding: encoding === 'ulaw' ? 'mulaw' : 'linear16',
      sampleRate: Number(rate) || 16_000,
      channels: 1,
    }
    const vadSilence = Number(query.get('vad_silence_threshold_secs') ?? 1.5)
    const isVad = query.get('commit_strategy') === 'vad'
    this.#ear = new Ear(session, this.#format, {
      partial: (text) => this.#spelled(text),
      word: (word) => this.#heard(word),
      advance: (now) => {
        const isPause = this.#ear.isQuiet && this.#words.length > 0 && now - this.#ear.lastEnd >= vadSilence
        if ((isVad && isPause) || this.#seconds - this.#committed >= COMMIT_MAX_SECONDS) this.#commit()
      },
    })
  }

  opened(): void {
    if (!this.#ways.isKnown)
      return void this.#refuse('auth_error', 'You must be authenticated to use this endpoint.')
    const wrong = complaint(this.#query)
    if (wrong !== null) return void this.#refuse('invalid_request', wrong)
    this.#session.send({
      message_type: 'session_started',
      session_id: randomUUID().replaceAll('-', ''),
      config: {
        sample_rate: this.#format.sampleRate,
        audio_format: this.#query.get('audio_format') ?? 'pcm_16000',
        model_id: this.#query.get('model_id'),
        commit_strategy: this.#query.get('commit_strategy') ?? 'manual',
        include_timestamps: this.#query.get('include_timestamps') === 'true',
      },
    })
  }

  message(bytes: Buffer, isBinary: boolean): void {
    if (this.#isOver) return
    const message = isBinary ? null : readMessage(bytes)
    if (message === null) return void this.#refuse('input_error', 'A message must be a JSON object.')
    const {
      message_type: type,
      audio_base_64: audio,
      commit,
      sample_rate: rate,
      previous_text: before,
    } = message
    if (type !== 'input_audio_chunk')
      return void this.#refuse('input_error', `Unknown message_type: ${String(type)}`)
    if (
      typeof audio !== 'string' ||
      !/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(audio)
    )
      return void this.#refuse('input_error', 'audio_base_64 must be base64.')
    if (typeof commit !== 'boolean') return void this.#refuse('input_error', 'commit must be a boolean.')
    if (rate !== undefined && rate !== this.#format.sampleRate)
      return void this.#refuse('input_error', 'sample_rate does not match the audio_format.')
    const isFit = typeof before === 'string' && before.length <= PREVIOUS_TEXT_MAX && this.#chunks === 0
    if (before !== undefined && !isFit)
      return void this.#refuse('input_error', 'previous_text can only be sent with the first audio chunk.')
    this.#audio(Buffer.from(audio, 'base64'))
    if (commit && !this.#isOver) this.#asked()
  }

  tick(idleMs: number): void {
    if (idleMs < (this.#ways.idleSeconds ?? IDLE_SECONDS) * 1000 || this.#isOver) return
    this.#isOver = true
    this.#session.refused.push('no audio came')
    this.#session.live.close(1000, '')
  }

  expired(): void {}

  #refuse(type: string, error: string): void {
    this.#isOver = true
    this.#session.refuse(1008, type, { message_type: type, error })
  }

  #audio(bytes: Buffer): void {
    if (bytes.length === 0) return
    const seconds = bytes.length / bytesPerSecond(this.#format)
    if (seconds > CHUNK_MAX_SECONDS)
      return void this.#refuse('chunk_size_exceeded', 'The audio chunk is too long.')
    if (this.#format.encoding === 'linear16' && bytes.length % 2 !== 0)
      return void this.#refuse('input_error', 'The audio chunk has half a sample.')
    this.#chunks += 1
    this.#seconds += seconds
    this.#ear.hear(bytes)
  }

  #asked(): void {
    const length = this.#seconds - this.#committed
    if (length >= COMMIT_MIN_SECONDS - 0.000_1) return void this.#commit()
    const only = `Commit request ignored: only ${length.toFixed(2)}s of uncommitted audio.`
    const error = `${only} You need at least ${COMMIT_MIN_SECONDS}s of uncommitted audio before committing.`
    this.#session.complain(error, { message_type: 'commit_throttled', error })
  }

  #spelled(text: string): void {
    this.#partial = text
    if (text !== '') this.#tell('partial_transcript')
  }

  #heard(word: HeardWord): void {
    this.#partial = ''
    this.#words.push(word)
    this.#tell('partial_transcript')
  }

  #text(): string {
    return [...this.#words.map(({ text }) => text), this.#partial].filter((text) => text !== '').join(' ')
  }

  #tell(type: string, more: object = {}): void {
    this.#session.send({ message_type: type, text: this.#text(), ...more })
  }

  #commit(): void {
    this.#ear.flush()
    this.#committed = this.#seconds
    const isTimed = this.#query.get('include_timestamps') === 'true'
    const isDetected = this.#query.get('include_language_detection') === 'true'
    const plain = () => this.#tell('committed_transcript')
    const timed = () =>
      this.#tell('committed_transcript_with_timestamps', {
        ...(isDetected ? { language_code: 'en' } : {}),
        words: this.#words.flatMap(itemsOf),
      })
    const tells = this.#ways.timedFirst ? [timed, plain] : [plain, timed]
    for (const tell of isTimed ? tells : [plain]) tell()
    this.#words = []
  }
}

/** Words, and the spaces between them. */
function itemsOf({ text, start, end }: HeardWord, at: number) {
  const word = { text, start, end, type: 'word', speaker_id: 'speaker_0', logprob: -0.1 }
  return at === 0 ? [word] : [{ text: ' ', start, end: start, type: 'spacing', logprob: 0 }, word]
}
