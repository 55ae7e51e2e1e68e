import { randomUUID } from 'node:crypto'
import type { HeardWord } from '../../src/sandbox/live/morse-listener.ts'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import type { LiveVendor, VendorSession } from './live-vendor.ts'
import { Ear, milliseconds, objectAt, readMessage, VendorRefusal } from './live-vendor.ts'

/**
 * speaches' transcription sessions, as speaches-ai/speaches src/speaches/realtime works: OpenAI's beta events, one
 * buffer of audio for each utterance, whose times begin at nothing (input_audio_buffer_event_router.py); a model in the
 * address, and a refusal before the handshake (its tests/realtime_api_test.py).
 */
export function speaches(key: string): LiveVendor {
  return {
    messageMaxBytes: 16 * 1024 * 1024,
    accept({ path, query, headers }) {
      if (path !== '/v1/realtime') throw new VendorRefusal(404, { detail: 'Not Found' })
      const isKnown = headers.authorization === `Bearer ${key}` || query.get('api_key') === key
      if (!isKnown) throw new VendorRefusal(403, { detail: 'Forbidden' })
      if (!query.has('model')) throw new VendorRefusal(422, { detail: 'model is required' })
      return (session) => new Speaches(session)
    },
  }
}

const COMMIT_MIN_MS = 100
const SILENCE_MS = 550

class Speaches implements LiveProtocol {
  readonly #session: VendorSession
  readonly #ear: Ear
  /** Of the buffer: its name, and where it began. */
  #id = newId()
  #from = 0
  #previous: string | null = null
  #silence: number | null = SILENCE_MS / 1000
  #isSpeaking = false
  #words: HeardWord[] = []

  constructor(session: VendorSession) {
    this.#session = session
    const format = { encoding: 'linear16', sampleRate: 24_000, channels: 1 } as const
    this.#ear = new Ear(session, format, {
      tone: (start) => this.#started(start),
      word: (word) => void this.#words.push(word),
      advance: (now) => this.#advance(now),
    })
  }

  opened(): void {
    this.#session.send({ type: 'session.created', event_id: newId(), session: { id: newId() } })
  }

  message(bytes: Buffer, isBinary: boolean): void {
    const message = isBinary ? null : readMessage(bytes)
    const { type, audio, session } = message ?? {}
    if (type === 'session.update' && typeof session === 'object') this.#update(objectAt(session))
    else if (type === 'input_audio_buffer.append' && typeof audio === 'string')
      this.#ear.hear(Buffer.from(audio, 'base64'))
    else if (type === 'input_audio_buffer.commit') this.#asked()
    else this.#complain(`Invalid event: ${String(type)}`)
  }

  expired(): void {}

  #complain(message: string): void {
    const error = { type: 'invalid_request_error', message }
    this.#session.complain(message, { type: 'error', event_id: newId(), error })
  }

  #update({ turn_detection: detection }: Readonly<Record<string, unknown>>): void {
    if (detection === null) this.#silence = null
    else if (detection !== undefined) {
      const { silence_duration_ms: ms = SILENCE_MS } = objectAt(detection)
      this.#silence = Number(ms) / 1000
    }
    this.#session.send({ type: 'session.updated', event_id: newId(), session: {} })
  }

  #started(start: number): void {
    if (this.#isSpeaking || this.#silence === null) return
    this.#isSpeaking = true
    this.#session.send({
      type: 'input_audio_buffer.speech_started',
      item_id: this.#id,
      audio_start_ms: milliseconds(Math.max(0, start - this.#from)),
    })
  }

  #advance(now: number): void {
    const isPause =
      this.#isSpeaking && this.#ear.isQuiet && now - this.#ear.lastEnd >= (this.#silence ?? Infinity)
    if (!isPause) return
    this.#isSpeaking = false
    const audio_end_ms = milliseconds(this.#ear.lastEnd - this.#from)
    this.#session.send({ type: 'input_audio_buffer.speech_stopped', item_id: this.#id, audio_end_ms })
    this.#commit()
  }

  /** A commit of next to nothing is answered with an error; it is no fault of the client's, who cannot know. */
  #asked(): void {
    this.#ear.flush()
    const lengthMs = milliseconds(this.#ear.now - this.#from)
    if (lengthMs >= COMMIT_MIN_MS) return void this.#commit()
    const message =
      `Error committing input audio buffer: buffer too small. Expected at least ${COMMIT_MIN_MS}ms of audio, ` +
      `but buffer only has ${lengthMs}.00ms of audio.`
    this.#session.send({ type: 'error', error: { type: 'invalid_request_error', message } })
  }

  #commit(): void {
    const item_id = this.#id
    const transcript = this.#words.map(({ text }) => text).join(' ')
    this.#session.send({ type: 'input_audio_buffer.committed', item_id, previous_item_id: this.#previous })
    this.#previous = item_id
    this.#id = newId()
    this.#from = this.#ear.now
    this.#words = []
    this.#isSpeaking = false
    setTimeout(
      () =>
        this.#session.send({
          type: 'conversation.item.input_audio_transcription.completed',
          item_id,
          content_index: 0,
          transcript,
        }),
      50,
    )
  }
}

function newId(): string {
  return `item_${randomUUID().replaceAll('-', '')}`
}
