import { randomUUID } from 'node:crypto'
import type { LiveProtocol } from '../../src/sandbox/live/session.ts'
import { Ear, type LiveVendor, readMessage, VendorRefusal, type VendorSession } from './live-vendor.ts'

/**
 * vLLM's realtime transcription, as vllm-project/vllm vllm/frontend/entrypoints/speech_to_text/realtime/connection.py
 * works: a queue of audio, a generation that reads it from the first `commit` on, and a mark in the queue that ends it.
 * What comes between that mark and the transcript is thrown away; a mark that no generation reads ends the next one.
 * Errors leave the session open.
 */
export function vllm(key: string, model: string): LiveVendor {
  return {
    messageMaxBytes: 16 * 1024 * 1024,
    accept({ path, headers }) {
      if (path !== '/v1/realtime') throw new VendorRefusal(404, { detail: 'Not Found' })
      if (headers.authorization !== `Bearer ${key}`) throw new VendorRefusal(401, { error: 'Unauthorized' })
      return (session) => new Vllm(session, model)
    },
  }
}

/** How long a generation works behind the end of its audio. */
const BEHIND_MS = 60

class Vllm implements LiveProtocol {
  readonly #session: VendorSession
  readonly #model: string
  readonly #ear: Ear
  readonly #queue: (Buffer | null)[] = []
  #isModelKnown = false
  #isGenerating = false
  #isFinishing = false
  #text = ''

  constructor(session: VendorSession, model: string) {
    this.#session = session
    this.#model = model
    const format = { encoding: 'linear16', sampleRate: 16_000, channels: 1 } as const
    this.#ear = new Ear(session, format, { word: ({ text }) => this.#heard(text) })
  }

  opened(): void {
    this.#session.send({
      type: 'session.created',
      id: `sess-${randomUUID()}`,
      created: Math.floor(Date.now() / 1000),
    })
  }

  message(bytes: Buffer, isBinary: boolean): void {
    if (isBinary) return void this.#session.refuse(1011, 'binary')
    const message = readMessage(bytes)
    if (message === null) this.#complain('Invalid JSON', 'invalid_json')
    else if (message.type === 'session.update') this.#update(message.model)
    else if (message.type === 'input_audio_buffer.append') this.#append(message.audio)
    else if (message.type === 'input_audio_buffer.commit') this.#commit(message.final === true)
    else this.#complain(`Unknown event type: ${String(message.type)}`, 'unknown_event')
  }

  expired(): void {}

  #complain(error: string, code: string): void {
    this.#session.complain(error, { type: 'error', error, code })
  }

  #update(model: unknown): void {
    if (model === undefined) this.#complain("'model'", 'processing_error')
    else if (model !== this.#model)
      this.#complain(`The model \`${String(model)}\` does not exist.`, 'model_not_found')
    else this.#isModelKnown = true
  }

  #append(audio: unknown): void {
    const bytes = typeof audio === 'string' ? Buffer.from(audio, 'base64') : Buffer.alloc(0)
    if (bytes.length === 0 || bytes.length % 2 !== 0)
      return void this.#complain('Invalid audio data', 'invalid_audio')
    this.#queue.push(bytes)
    this.#work()
  }

  #commit(isFinal: boolean): void {
    if (!this.#isModelKnown)
      return void this.#complain(
        'Model not validated. Make sure to validate the model.',
        'model_not_validated',
      )
    if (isFinal) this.#queue.push(null)
    else if (this.#isGenerating) this.#session.refused.push('a commit during a generation')
    else this.#isGenerating = true
    this.#work()
  }

  #work(): void {
    while (this.#isGenerating && this.#queue.length > 0 && !this.#isFinishing) {
      const bytes = this.#queue.shift()
      if (bytes) this.#ear.hear(bytes)
      else this.#finish()
    }
  }

  #finish(): void {
    this.#isFinishing = true
    this.#ear.flush()
    setTimeout(() => {
      this.#session.send({ type: 'transcription.done', text: this.#text, usage: { total_tokens: 3 } })
      const lost = this.#queue.filter((one) => one !== null).length
      if (lost > 0) this.#session.refused.push(`${lost} pieces of audio thrown away`)
      this.#queue.splice(0)
      this.#text = ''
      this.#isFinishing = false
      this.#isGenerating = false
    }, BEHIND_MS)
  }

  #heard(word: string): void {
    const delta = this.#text === '' ? word : ` ${word}`
    this.#text += delta
    this.#session.send({ type: 'transcription.delta', delta })
  }
}
