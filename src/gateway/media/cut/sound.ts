/** The smallest piece of sound that a container can be cut at. Its bytes are valid until the next one is asked for. */
export interface Packet {
  readonly bytes: Uint8Array
  /** How long it lasts, in units of `Sound.rate`. */
  readonly ticks: number
  /** Samples that a container counts it as; absent: one. */
  readonly count?: number
  /** Bits that a writer of the same container needs beside the bytes; absent: none. */
  readonly flags?: number
}

/** The sound of a file, as it follows from its container alone: nothing is decoded. */
export interface Sound {
  /** Ticks per second. */
  readonly rate: number
  /** Moment of the first packet, seconds: below zero where the beginning is decoded and not played. */
  readonly startSeconds: number
  /** Decibels on a scale of its own: louder packets have more. */
  level(packet: Packet): number
  /** How far silence lies below loud speech on that scale, at least. */
  readonly silenceDrop: number
  /** How far silence lies below it that may be left out: deeper, since who speaks softly is to be heard. */
  readonly skipDrop: number
  /** @throws Uncuttable where the rest cannot be read as packets; the reader's errors */
  packets(): AsyncGenerator<Packet>
  /** Begins a file of the same container and codec. */
  begin(): SoundWriter
}

/** Writes packets, in their order, as a file that stands by itself. */
export interface SoundWriter {
  /** Bytes that follow on those before; they may come later. */
  add(packet: Packet): readonly Uint8Array[]
  /** Bytes of the file if it ended now, at most. */
  readonly bytes: number
  /** @returns what is still to be appended, and what comes in front of all of it */
  end(): { readonly head: Uint8Array; readonly tail: readonly Uint8Array[] }
}

/** The file cannot be cut: it is damaged, of a codec that nothing is known of, or does not tell its packets. */
export class Uncuttable extends Error {
  override readonly name = 'Uncuttable'
}

/** How many decibels such a stretch of compressed sound counts as: encoders spend more bytes on what is louder. */
export function levelOfSize(bytes: number, seconds: number): number {
  return seconds > 0 ? 20 * Math.log10(1 + bytes / seconds) : 0
}

type Drops = Pick<Sound, 'silenceDrop' | 'skipDrop'>

/** Drops of levels by size, where the bit rate varies: AAC tells nothing better in its first bits. */
export const BY_SIZE: Drops = { silenceDrop: 7, skipDrop: 14 }
/** Drops of levels that are true loudness. */
export const BY_LOUDNESS: Drops = { silenceDrop: 15, skipDrop: 30 }
/** Drops of levels by gain and bits, by which a pure tone seems 40 dB softer than speech. */
export const BY_GAIN: Drops = { silenceDrop: 15, skipDrop: 60 }
/** Level of what holds no sound at all. */
export const NO_SOUND = -200
