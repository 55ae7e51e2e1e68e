import type { Audio, AudioFormat, AudioRef } from './audio.ts'

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
  /** @throws the reader's errors */
  probe(audio: AudioRef, signal: AbortSignal): Promise<Audio>
  /**
   * The format alone, of audio that is still coming, as soon as its first bytes are here; null when these do not tell.
   * `probe` decides about the whole.
   *
   * @throws the reader's errors
   */
  detect(audio: AudioRef, signal: AbortSignal): Promise<AudioFormat | null>
}

/** Bytes of audio that `AudioDigester` hashes as one leaf; the last leaf may be shorter. */
export const LEAF_BYTES = 1024 * 1024

/** Hashes audio leaf by leaf, off the event loop where that pays; see `workers/`. */
export interface LeafHasher {
  /**
   * Hashes what `views` are one behind another, or what they decode to when they are canonical base64. They must not
   * change until the answer is there.
   *
   * @returns the SHA-256 of each leaf, 32 bytes each
   * @throws Error when the text is no base64
   */
  hash(views: readonly Uint8Array[], encoding: AudioRef['encoding']): Uint8Array | Promise<Uint8Array>
  /** The same on the event loop, for bytes that come one after another. */
  begin(): LeafHashing
}

export interface LeafHashing {
  /** The next bytes. The view is not kept. */
  update(view: Uint8Array): void
  /** The SHA-256 of each leaf, 32 bytes each. */
  finish(): Uint8Array
}

/** Digests audio: SHA-256 over the SHA-256 of each MiB of the decoded bytes, so that threads can share the work. */
export interface AudioDigester {
  /** Digests audio at rest, off the event loop. @throws as `AudioReader.bytes` */
  digest(audio: AudioRef, signal: AbortSignal): Promise<string>
  /** Digests audio that is not stored, on the event loop as it streams past. */
  passing(): PassingDigest
}

export interface PassingDigest {
  /**
   * The next bytes as the body has them: of a file, or base64 text within a JSON string, escapes and all. The view
   * is not kept.
   */
  take(view: Uint8Array, encoding: AudioRef['encoding']): void
  /** Lower-case hex. */
  finish(): string
}
