import type { AudioRef } from '../../contracts/audio.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { PassingDigest } from '../../contracts/media.ts'
import type { Exchange } from './exchange.ts'
import { AUDIO_SOURCES, type Fields, queryValues, readBoolean } from './form.ts'
import { declaredMediaType } from './header-value.ts'
import { audioTooLarge, invalid } from './refusals.ts'

/** An AudioRef without the location of the body, which only the spool knows. */
export type ScannedAudio = Omit<AudioRef, 'source'>

/** Takes the audio as the scanners find it, and nothing else of the body. */
export type AudioTap = Pick<PassingDigest, 'take'>

export interface ScannedBody {
  readonly fields: Fields
  readonly source:
    | { readonly kind: 'audio'; readonly audio: ScannedAudio }
    | { readonly kind: 'url'; readonly url: string }
    /** No source was sent; the reader of the fields decides whether one is required. */
    | { readonly kind: 'none' }
}

/** Audio that a body of known length is taken for; only its end tells what it is. */
export interface ForeseenAudio {
  readonly fields: Fields
  readonly audio: ScannedAudio
}

/** Looks at a body while it streams past and keeps no byte of the audio. Every method throws GatewayError. */
export interface BodyScanner {
  /** The next bytes. The view is not kept. */
  scan(view: Buffer): void
  /** Value of a boolean field, as far as the body has come; null: it has not come, and still may. */
  flag(name: string): boolean | null
  /**
   * The audio of a body of `contentLength`, and its fields as far as they have come, from where the audio begins on;
   * null: it cannot be foreseen yet. Absent: it never can.
   */
  foresee?(contentLength: number): ForeseenAudio | null
  /** The body has ended: checks that it is whole and complete. */
  finish(): ScannedBody
}

/** A body that is nothing but the audio; the fields are query parameters. */
export class RawAudioScanner implements BodyScanner {
  readonly #maxAudioBytes: number
  readonly #mediaType: string | null
  readonly #fields: ReadonlyMap<string, readonly string[]>
  readonly #tap: AudioTap | undefined
  #length = 0

  /** @throws GatewayError INVALID_REQUEST when the query names a second source */
  constructor({ headers, query }: Exchange, limits: Limits, tap?: AudioTap) {
    this.#maxAudioBytes = limits.max_audio_bytes
    this.#tap = tap
    const declared = headers['content-type'] ?? ''
    // A client that knows nothing about the audio declares octets.
    this.#mediaType = /^application\//i.test(declared.trim()) ? null : declaredMediaType(declared)
    this.#fields = queryValues(query).values
    for (const name of this.#fields.keys())
      if (AUDIO_SOURCES.has(name)) throw invalid('send the audio as the body alone', 'audio')
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

  /** All fields are in the query. */
  foresee(contentLength: number): ForeseenAudio | null {
    if (contentLength > this.#maxAudioBytes) return null
    return { fields: { kind: 'form', values: this.#fields }, audio: this.#audioOf(contentLength) }
  }

  finish(): ScannedBody {
    if (this.#length === 0) throw invalid('the audio is empty', 'audio')
    const audio = this.#audioOf(this.#length)
    return { fields: { kind: 'form', values: this.#fields }, source: { kind: 'audio', audio } }
  }

  #audioOf(length: number): ScannedAudio {
    return {
      offset: 0,
      length,
      encoding: 'identity',
      decodedBytes: length,
      canonical: true,
      mediaType: this.#mediaType,
      filename: null,
    }
  }
}
