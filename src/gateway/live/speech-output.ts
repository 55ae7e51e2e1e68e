import type { CancelSignal } from '../../contracts/cancellation.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Clock } from '../../contracts/time.ts'
import type { Streaming } from '../call/attempt/stream.ts'
import { JoinedAudio, OtherFormat } from './joined-audio.ts'
import type { SpeechSink } from './speech-messages.ts'
import type { Sentence } from './speech-text.ts'

/** Audio that may wait for the caller; the provider is not read beyond. */
const WAITING_BYTES_MAX = 256 * 1024
/** Audio goes out in messages of at most this size. */
const MESSAGE_BYTES_MAX = 32 * 1024

/** The one stream of audio that a session's sentences make, as fast as its caller reads it. */
export class SpeechOutput {
  readonly #sink: SpeechSink
  readonly #clock: Clock
  /** Aborted when the session ends. */
  readonly #signal: CancelSignal
  readonly #audio = new JoinedAudio()
  #stalledMs: number | null = null
  #wake: (() => void) | null = null

  constructor(sink: SpeechSink, clock: Clock, signal: CancelSignal) {
    this.#sink = sink
    this.#clock = clock
    this.#signal = signal
  }

  /** The caller has more to read than may wait for it. */
  get isFull(): boolean {
    return this.#sink.bufferedBytes > WAITING_BYTES_MAX
  }

  /** Since when the caller reads nothing, on the node's clock; null: it reads. */
  get stalledMs(): number | null {
    return this.#stalledMs
  }

  /** Sends the audio of a sentence. @throws GatewayError UPSTREAM_ERROR when it cannot follow the audio before it */
  async play(sentence: Sentence, deltas: Streaming<'speech'>['deltas']): Promise<void> {
    const joined = this.#audio.begin()
    try {
      for await (const { bytes, mediaType } of deltas) {
        if (sentence.isDropped) return
        for (const part of joined.push(bytes, mediaType)) await this.#send(sentence, part)
      }
    } catch (thrown) {
      if (!(thrown instanceof OtherFormat)) throw thrown
      throw new GatewayError('UPSTREAM_ERROR', 'the provider sent audio in another format', { cause: thrown })
    }
  }

  /** Waits until the caller has read what it was sent, but for what may wait. */
  async room(): Promise<void> {
    while (this.isFull) {
      this.#stalledMs ??= this.#clock.now()
      await this.wait()
    }
    this.#signal.throwIfAborted()
    this.#stalledMs = null
  }

  /** Waits until `wake`: text came, audio went out, or the session ended. @throws the signal's reason */
  async wait(): Promise<void> {
    await new Promise<void>((resolve) => {
      this.#wake = resolve
    })
    this.#signal.throwIfAborted()
  }

  /** Ends the wait, if there is one. */
  wake(): void {
    const wake = this.#wake
    this.#wake = null
    wake?.()
  }

  async #send(sentence: Sentence, bytes: Uint8Array): Promise<void> {
    for (let at = 0; at < bytes.length; at += MESSAGE_BYTES_MAX) {
      await this.room()
      if (sentence.isDropped) return
      const part = bytes.subarray(at, at + MESSAGE_BYTES_MAX)
      sentence.audioBytes += part.length
      this.#sink.audio(part)
    }
  }
}
