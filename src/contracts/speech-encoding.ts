import type { LiveAudio } from './calls.ts'

/** A format of speech that can be made out of samples. */
export interface SpeechForm {
  readonly codec: 'mp3' | 'opus' | 'pcm' | 'wav' | 'ulaw' | 'alaw'
  /** Hz; null: that of the samples, or the next one that the codec has. */
  readonly sampleRate: number | null
  /** Bits per second; null: what suits speech of that rate. */
  readonly bitrate: number | null
}

/** About what an encoder takes beside the bytes that it is given, bytes. */
export const ENCODER_BYTES = 1024 * 1024

/** The source is no audio that can be encoded. */
export class UnreadableSpeech extends Error {
  override readonly name = 'UnreadableSpeech'
}

/** Encodes speech off the event loop; see `workers/`. */
export interface SpeechEncoders {
  /** @param source samples that come; null: a wav file, whose head says */
  begin(source: LiveAudio | null, form: SpeechForm): SpeechEncoder
}

/** One file on its way into another format. One call at a time; it is to be closed. */
export interface SpeechEncoder {
  /**
   * The bytes encoded so far, which may be none.
   *
   * @throws UnreadableSpeech; Error when its thread has died
   */
  push(bytes: Uint8Array): Promise<Uint8Array>
  /** The rest of the file. @throws as `push` */
  end(): Promise<Uint8Array>
  /** Idempotent. */
  close(): void
}
