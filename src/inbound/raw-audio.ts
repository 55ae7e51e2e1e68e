import type { Limits } from '../limits.ts'
import type { Exchange } from './exchange.ts'
import { AUDIO_SOURCES, readBoolean } from './form.ts'
import { declaredMediaType } from './header-value.ts'
import { audioTooLarge, invalid } from './refusals.ts'
import type { AudioTap, BodyScanner, ScannedAudio, ScannedBody } from './scanner.ts'

/** A body that is nothing but the audio; the fields are query parameters. */
export class RawAudioScanner implements BodyScanner {
  readonly #maxAudioBytes: number
  readonly #mediaType: string | null
  readonly #fields = new Map<string, string[]>()
  readonly #tap: AudioTap | undefined
  #length = 0

  /** @throws GatewayError INVALID_REQUEST when the query names a second source */
  constructor({ headers, query }: Exchange, limits: Limits, tap?: AudioTap) {
    this.#maxAudioBytes = limits.max_audio_bytes
    this.#tap = tap
    const declared = headers['content-type'] ?? ''
    // Octets are what a client declares that knows nothing about the audio.
    this.#mediaType = /^application\//i.test(declared.trim()) ? null : declaredMediaType(declared)
    for (const [name, value] of new URLSearchParams(query)) {
      if (AUDIO_SOURCES.has(name)) throw invalid('send the audio as the body alone', 'audio')
      const values = this.#fields.get(name) ?? []
      values.push(value)
      this.#fields.set(name, values)
    }
  }

  scan(view: Buffer): void {
    this.#length += view.length
    if (this.#length > this.#maxAudioBytes) throw audioTooLarge(this.#maxAudioBytes, this.#length)
    this.#tap?.take(view, 'identity')
  }

  /** The query is all there is. */
  flag(name: string): boolean {
    return readBoolean(this.#fields.get(name)?.[0] ?? '') === true
  }

  finish(): ScannedBody {
    const length = this.#length
    if (length === 0) throw invalid('the audio is empty', 'audio')
    const audio: ScannedAudio = {
      offset: 0,
      length,
      encoding: 'identity',
      decodedBytes: length,
      canonical: true,
      mediaType: this.#mediaType,
      filename: null,
    }
    return { fields: { kind: 'form', values: this.#fields }, source: { kind: 'audio', audio } }
  }
}
