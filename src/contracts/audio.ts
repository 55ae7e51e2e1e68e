/** One 1 MiB block of the body pool. Shared memory, so that a worker thread reads it without a copy. */
export type Block = Uint8Array<SharedArrayBuffer>

/** Size of every block of a held body; only the last one may be filled in part. */
export const BLOCK_BYTES = 1024 * 1024

/** Where the bytes of a received body are: held in pooled blocks, or one object in the store. */
export type BodySource =
  | { readonly kind: 'memory'; readonly blocks: readonly Block[] }
  /** `sealed`: only this process can read it, by readers of audio alone. `written` is compared with what they read. */
  | { readonly kind: 'object'; readonly key: string; readonly sealed?: true; readonly written?: WrittenBytes }

/** All that was written into an object, to be compared with what the store gives. */
export interface WrittenBytes {
  readonly bytes: number
  readonly crc32: number
}

/** A part of a body: an object, whole or from some byte on. */
export interface BodyPiece {
  readonly key: string
  /** First byte of the object that belongs to the body. */
  readonly start: number
  readonly length: number
}

/**
 * A body that is still coming, of known length, as far as it is here. What came first stays at hand for a while, until
 * a reader reaches the part that is held back, or it is closed.
 */
export interface ArrivingBody {
  /**
   * Bytes `start` to `end` (exclusive), each as soon as it is here, but for those that are held back. A chunk, of
   * whatever size, may be overwritten as soon as the chunk after the next is asked for.
   *
   * @throws the error that ended the body; as `AudioReader.bytes`
   */
  bytes(start: number, end: number, signal: AbortSignal): AsyncGenerator<Uint8Array>
  /** Lets no reader past `start` until the body is confirmed. Called once, before anything is read. */
  holdBack(start: number): void
  /** The body is at rest, and all that depends on its whole is decided: what was held back may be read. */
  confirm(): void
  /** No reader begins before it is at rest. Idempotent. */
  close(): void
  /** Milliseconds for which a reader had to wait for its sender so far. */
  readonly waitedMs: number
}

/** Keeps bodies for readers who outlast their call. */
export interface BodyHolds {
  /**
   * Keeps a body that was not given back yet; nothing of it is charged to anybody else meanwhile.
   *
   * @returns lets it go, idempotent; null: it cannot be kept
   */
  hold(source: BodySource): (() => void) | null
}

/** A body that arrived whole and within its limits. */
export interface StoredBody {
  readonly source: BodySource
  /** Raw bytes as they came over the wire, without chunk framing. */
  readonly length: number
  /**
   * Gives the memory back to the budget, or deletes the object. Idempotent. Call it when nothing reads the body any
   * more: blocks go to the next request, so a reader that is still at work would send another caller's audio.
   */
  release(): void
}

export const AUDIO_FORMATS = ['mp3', 'mp4', 'mpeg', 'wav', 'webm', 'ogg', 'flac'] as const

/**
 * Format of audio by its bytes. m4a is `mp4`, mpga is `mp3`, `mpeg` a program stream, with or without video, and
 * `other` none of these: it has to be transcoded, if it is audio at all.
 */
export type AudioFormat = (typeof AUDIO_FORMATS)[number] | 'other'

/**
 * The audio of a call: a range of a stored body. Plain data, so a job record can hold it (with an object source).
 * A base64 body stays text, in memory as in the store; every reader decodes it on its way out.
 */
export interface AudioRef {
  readonly source:
    | BodySource
    | { readonly kind: 'arriving'; readonly body: ArrivingBody }
    /** One object after the other, as they were uploaded. */
    | { readonly kind: 'pieces'; readonly pieces: readonly BodyPiece[] }
  /** First byte of the audio within the body. */
  readonly offset: number
  /** Bytes that it takes there, before decoding. */
  readonly length: number
  readonly encoding: 'identity' | 'base64'
  /** Audio bytes after decoding; what `max_audio_bytes` counts. */
  readonly decodedBytes: number
  /**
   * False for base64 with white space or JSON escapes, in the alphabet for URLs, or without its padding: it can only be
   * decoded from its beginning. True means `length` is 4 * ceil(decodedBytes / 3).
   */
  readonly canonical: boolean
  /** As the caller declared it; null when undeclared. Never trusted for what the audio is. */
  readonly mediaType: string | null
  /** As the caller declared it; null when undeclared. Never used as a path. */
  readonly filename: string | null
}

/** An AudioRef whose bytes have been looked at. */
export interface Audio extends AudioRef {
  readonly format: AudioFormat
  /** Seconds; null when the container does not tell. */
  readonly durationSeconds: number | null
  readonly channels: number | null
}

/** Reads audio out of wherever it rests, decoded. Every method may be called any number of times on one ref. */
export interface AudioReader {
  /**
   * The decoded audio from the first byte to the last, `decodedBytes` in all.
   * A chunk may be overwritten as soon as the chunk after the next is asked for, unless it has under 64 KiB (the
   * high-water mark of a socket: a writer that waits for `drain` never has two larger ones queued) or is the last. Of
   * audio that is still coming every chunk may be: there its reader waits until one is out.
   *
   * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails; the signal's reason when aborted
   */
  bytes(audio: AudioRef, signal: AbortSignal): AsyncGenerator<Uint8Array>
  /** The audio as base64 text without line breaks, `4 * ceil(decodedBytes / 3)` bytes in all. Otherwise as `bytes`. */
  base64(audio: AudioRef, signal: AbortSignal): AsyncGenerator<Uint8Array>
  /** Decoded bytes `start` to `end` (exclusive, clamped to the audio). Owned by the caller. Errors as `bytes`. */
  range(audio: AudioRef, start: number, end: number, signal: AbortSignal): Promise<Uint8Array>
}
