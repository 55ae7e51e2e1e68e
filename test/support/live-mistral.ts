import { randomUUID } from 'node:crypto'
import type { HeardWord } from '../../src/sandbox/live/morse-listener.ts'
import type { ENCODINGS } from '../../src/sandbox/live/samples.ts'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import type { LiveVendor, VendorSession } from './live-vendor.ts'
import { Ear, objectAt, readMessage, VendorRefusal } from './live-vendor.ts'

/**
 * Mistral's realtime transcription: https://docs.mistral.ai/studio/audio/speech-to-text/transcribe-in-realtime for the
 * order of messages, the formats, and settings that are fixed from the first audio on; messages as
 * @mistralai/mistralai 2.7.0 models/components/realtimetranscription*.ts has them. What it refuses it tells in a
 * message `error`, and closes.
 */
export function mistral(key: string): LiveVendor {
  return {
    messageMaxBytes: 1024 * 1024,
    accept({ path, query, headers }) {
      if (path !== '/v1/audio/transcriptions/realtime') throw new VendorRefusal(404, { message: 'Not Found' })
      if (headers.authorization !== `Bearer ${key}`) throw new VendorRefusal(401, { message: 'Unauthorized' })
      const model = query.get('model')
      if (model === null || !/^voxtral-/.test(model))
        throw new VendorRefusal(400, { message: 'Invalid model' })
      return (session) => new Mistral(session, model)
    },
  }
}

const RATES = [8000, 16_000, 22_050, 44_100, 48_000]
const FORMATS: Readonly<Record<string, (typeof ENCODINGS)[number]>> = {
  pcm_s16le: 'linear16',
  pcm_mulaw: 'mulaw',
  pcm_alaw: 'alaw',
}
/** What else a session may be set to: mistralai 3.7.0 of Python, RealtimeTranscriptionSessionUpdatePayload. */
const SETTINGS: Readonly<Record<string, (value: unknown) => boolean>> = {
  // https://docs.mistral.ai/studio/audio/specs-and-limits/limits
  target_streaming_delay_ms: (ms) =>
    Number.isInteger(ms) && ((Number(ms) >= 80 && Number(ms) <= 1200) || ms === 2400),
  language: (code) => typeof code === 'string' && /^[a-z]{2}$/.test(code),
  diarize: (flag) => typeof flag === 'boolean',
  context_bias: (terms) => Array.isArray(terms) && terms.every((term) => typeof term === 'string'),
  turn_detection: (config) =>
    Object.entries(objectAt(config)).every(([name, value]) => isOfTurns(name, value)),
}

/** TurnDetectionConfig. */
function isOfTurns(name: string, value: unknown): boolean {
  if (typeof value !== 'number') return false
  return name === 'min_silence_ms' || name === 'end_timeout_ms'
    ? Number.isInteger(value) && value > 0
    : /^(?:start|eager_end|end)_threshold$/.test(name) && value >= 0 && value <= 1
}

/** Most bytes of one piece of audio: RealtimeTranscriptionInputAudioAppend. */
const APPEND_MAX_BYTES = 262_144
/** How far its text is behind the audio. */
const DELAY_SECONDS = 0.48

class Mistral implements LiveProtocol {
  readonly #session: VendorSession
  readonly #model: string
  readonly #requestId = randomUUID()
  #format = { encoding: 'pcm_s16le', sample_rate: 16_000 }
  #ear: Ear | null = null
  /** Words that are heard and not told yet. */
  #held: HeardWord[] = []
  #text = ''
  #isOver = false
  /** Silence that ends a turn, seconds; null: turns are not detected. */
  #silence: number | null = null
  /** End of the last word of the turn under way; null: none is. */
  #turn: number | null = null

  constructor(session: VendorSession, model: string) {
    this.#session = session
    this.#model = model
  }

  opened(): void {
    this.#describe('session.created')
  }

  message(bytes: Buffer, isBinary: boolean): void {
    if (this.#isOver) return
    const message = isBinary ? null : readMessage(bytes)
    if (message === null) return void this.#refuse('Invalid JSON')
    if (message.type === 'session.update') this.#update(objectAt(message.session))
    else if (message.type === 'input_audio.append') this.#append(message.audio)
    else if (message.type === 'input_audio.flush') this.#flush()
    else if (message.type === 'input_audio.end') this.#end()
    else this.#refuse(`Unknown message type: ${String(message.type)}`)
  }

  expired(): void {}

  #refuse(message: string): void {
    this.#isOver = true
    this.#session.refuse(1008, message, { type: 'error', error: { message, code: 3804 } })
  }

  #describe(type: string): void {
    const session = {
      request_id: this.#requestId,
      model: this.#model,
      audio_format: this.#format,
      target_streaming_delay_ms: DELAY_SECONDS * 1000,
    }
    this.#session.send({ type, session })
  }

  #update(session: Readonly<Record<string, unknown>>): void {
    if (this.#ear !== null) return void this.#refuse('Session cannot be updated after audio was sent')
    const { audio_format: format, ...more } = session
    const { encoding, sample_rate: rate } = objectAt(format)
    const isFormat = typeof encoding === 'string' && encoding in FORMATS && RATES.includes(Number(rate))
    const wrong = Object.entries(more).find(
      ([name, value]) => value !== null && SETTINGS[name]?.(value) !== true,
    )
    // The model before Voxtral 3 has none of these.
    const unknown = this.#model.endsWith('-2602') ? Object.keys(more)[0] : undefined
    if (!isFormat || wrong !== undefined || unknown !== undefined)
      return void this.#refuse(`Invalid session: ${wrong?.[0] ?? unknown ?? 'audio_format'}`)
    const { turn_detection: turns } = more
    const { min_silence_ms: silence = 500 } = objectAt(turns)
    this.#silence = turns === undefined ? null : Number(silence) / 1000
    this.#format = { encoding, sample_rate: Number(rate) }
    this.#describe('session.updated')
  }

  #append(audio: unknown): void {
    const isBase64 = typeof audio === 'string' && /^[A-Za-z0-9+/]+={0,2}$/.test(audio)
    const bytes = isBase64 ? Buffer.from(audio, 'base64') : Buffer.alloc(0)
    if (bytes.length === 0 || bytes.length > APPEND_MAX_BYTES) return void this.#refuse('Invalid audio')
    const { encoding, sample_rate: sampleRate } = this.#format
    this.#ear ??= new Ear(
      this.#session,
      { encoding: FORMATS[encoding]!, sampleRate, channels: 1 },
      { word: (word) => this.#hear(word), advance: (now) => this.#advance(now) },
    )
    this.#ear.hear(bytes)
  }

  #hear(word: HeardWord): void {
    this.#held.push(word)
    if (this.#silence !== null && this.#turn === null)
      this.#session.send({ type: 'turn.start', time_s: word.start })
    if (this.#silence !== null) this.#turn = word.end
  }

  #advance(now: number): void {
    this.#tellUntil(now - DELAY_SECONDS)
    if (this.#turn === null || now - this.#turn < (this.#silence ?? 0) + DELAY_SECONDS) return
    this.#session.send({ type: 'turn.end', time_s: this.#turn, end_reason: 'threshold' })
    this.#turn = null
  }

  #tellUntil(end: number): void {
    for (let [word] = this.#held; word !== undefined && word.end <= end; [word] = this.#held) {
      this.#held.shift()
      const text = this.#text === '' ? word.text : ` ${word.text}`
      this.#text += text
      this.#session.send({ type: 'transcription.text.delta', text })
    }
  }

  #flush(): void {
    this.#ear?.flush()
    this.#tellUntil(Number.POSITIVE_INFINITY)
  }

  #end(): void {
    this.#flush()
    this.#isOver = true
    const usage = { prompt_audio_seconds: Math.round(this.#ear?.now ?? 0), total_tokens: 3 }
    this.#session.send({
      type: 'transcription.done',
      model: this.#model,
      text: this.#text,
      usage,
      language: null,
    })
    this.#session.live.close(1000, '')
  }
}
