import type { Audio, AudioRef } from './audio.ts'

/** Decodes base64 off the event loop where that pays; see `workers/`. */
export interface Base64Decoder {
  /**
   * Decodes `text`, whose length is a multiple of 4 (padding allowed at the end), into `out`.
   * @returns decoded bytes written, or -1 when `text` is no base64
   */
  decode(text: Uint8Array, out: Uint8Array): number | Promise<number>
}

/** Looks at audio: format by magic numbers, duration and channels from the container. */
export interface MediaProbe {
  /**
   * @throws GatewayError UNSUPPORTED_AUDIO_FORMAT when the bytes are none of the formats; the reader's errors
   */
  probe(audio: AudioRef, signal: AbortSignal): Promise<Audio>
}
