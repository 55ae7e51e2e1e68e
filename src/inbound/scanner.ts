import type { AudioRef } from '../schema/audio.ts'
import type { PassingDigest } from '../schema/media.ts'
import type { Fields } from './form.ts'

/** An AudioRef but for the place where the body comes to rest, which only the spool knows. */
export type ScannedAudio = Omit<AudioRef, 'source'>

/** Takes the audio as the scanners find it, and nothing else of the body. */
export type AudioTap = Pick<PassingDigest, 'take'>

export interface ScannedBody {
  readonly fields: Fields
  readonly source:
    | { readonly kind: 'audio'; readonly audio: ScannedAudio }
    | { readonly kind: 'url'; readonly url: string }
    /** There was none; whether one is needed is for whoever reads the fields to say. */
    | { readonly kind: 'none' }
}

/**
 * Looks at a body while it streams past and keeps no byte of the audio. Every method throws GatewayError.
 */
export interface BodyScanner {
  /** The next bytes. The view is not kept. */
  scan(view: Buffer): void
  /** Whether a boolean field is set, as far as the body has come; null: it has not come, and still may. */
  flag(name: string): boolean | null
  /** The body has ended: whether it is whole and has what it must have. */
  finish(): ScannedBody
}
