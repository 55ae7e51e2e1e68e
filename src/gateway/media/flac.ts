import { u16be, u32be } from './bytes.ts'
import { type Measure, UNKNOWN } from './measure.ts'

import { type AudioWindow, RANGE_BYTES } from './window.ts'

/** The facts of STREAMINFO (RFC 9639 section 8.2), from its first byte after the block header. */
export interface FlacStream {
  readonly sampleRate: number
  readonly channels: number
  /** 0 when the encoder could not go back to fill it in. */
  readonly samples: number
  /** Samples of every block but the last, when all are equal. */
  readonly blockSamples: number
}

export interface FlacFrame {
  /** Byte position of the first sample. */
  readonly position: number
  readonly samples: number
  /** Its checksum included. */
  readonly headerBytes: number
}

/** Bits of a sample in sound that is hardly compressed, the headers of frames included. */
const SAMPLE_BITS_MAX = 40

/**
 * STREAMINFO's count of samples, or the end of the last frame when that is later or the count is missing. Two ranges.
 *
 * @param start first byte after the tags, where `fLaC` stands
 */
export async function probeFlac(window: AudioWindow, start: number): Promise<Measure> {
  const stream = flacStream(await window.from(start + 8, 34))
  if (!stream) return UNKNOWN
  const { bytes } = await window.tail()
  const last = lastSample(bytes, stream)
  const samples = Math.max(stream.samples, last)
  // No frame confirms a count that is too small for all the bytes.
  const isDoubtful = last === 0 && (window.size - start) * 8 > samples * stream.channels * SAMPLE_BITS_MAX
  if (isDoubtful && window.size > RANGE_BYTES) return { ...UNKNOWN, channels: stream.channels }
  return { channels: stream.channels, durationSeconds: samples > 0 ? samples / stream.sampleRate : null }
}

/** Null when there is no sample rate. */
export function flacStream(info: Uint8Array): FlacStream | null {
  const packed = u32be(info, 10)
  const sampleRate = packed >>> 12
  if (sampleRate === 0) return null
  const samplesHigh = (info[13] ?? 0) & 0x0f
  return {
    sampleRate,
    channels: ((packed >>> 9) & 7) + 1,
    samples: samplesHigh * 0x1_0000_0000 + u32be(info, 14),
    blockSamples: u16be(info, 2),
  }
}

/** End of the last frame that follows on another one; 0 when there are no two. A lone header may be chance. */
function lastSample(bytes: Uint8Array, stream: FlacStream): number {
  const ends = new Set<number>()
  let last = 0
  for (let at = bytes.indexOf(0xff); at >= 0; at = bytes.indexOf(0xff, at + 1)) {
    const frame = readFrame(bytes, at, stream)
    if (!frame) continue
    const end = frame.position + frame.samples
    if (ends.has(frame.position)) last = Math.max(last, end)
    ends.add(end)
  }
  return last
}

/** The frame header at `at` (RFC 9639 section 9.1), or null when there is none or its CRC is wrong. */
export function readFrame(bytes: Uint8Array, at: number, stream: FlacStream): FlacFrame | null {
  const sync = u16be(bytes, at)
  if (sync >>> 1 !== 0x7ffc) return null
  const sizeCode = bytes[at + 2]! >>> 4
  const rateCode = bytes[at + 2]! & 15
  if (sizeCode === 0 || rateCode === 15) return null
  const coded = codedNumber(bytes, at + 4)
  if (!coded) return null

  let next = coded.end
  let samples = sizeCode === 1 ? 192 : sizeCode < 6 ? 576 << (sizeCode - 2) : 256 << (sizeCode - 8)
  if (sizeCode === 6) samples = (bytes[next++] ?? 0) + 1
  if (sizeCode === 7) {
    samples = u16be(bytes, next) + 1
    next += 2
  }
  if (rateCode === 12) next += 1
  if (rateCode > 12) next += 2
  if (next >= bytes.length || crc8(bytes, at, next) !== bytes[next]) return null
  const isVariable = (sync & 1) === 1
  const position = isVariable ? coded.value : coded.value * stream.blockSamples
  return { samples, position, headerBytes: next + 1 - at }
}

/** A number in UTF-8's manner, extended to 36 bits; null when it is not well-formed. */
export function codedNumber(bytes: Uint8Array, at: number): { value: number; end: number } | null {
  const first = bytes[at] ?? 0xff
  if (first < 0x80) return { value: first, end: at + 1 }
  const length = Math.clz32(~first << 24)
  if (length < 2 || length > 7) return null
  let value = first & (0x7f >> length)
  for (let index = at + 1; index < at + length; index++) {
    const byte = bytes[index] ?? 0
    if (byte >>> 6 !== 2) return null
    value = value * 64 + (byte & 0x3f)
  }
  return { value, end: at + length }
}

/** CRC-8 with polynomial x^8 + x^2 + x + 1, of the bytes from `at` up to `end`. */
export function crc8(bytes: Uint8Array, at: number, end: number): number {
  let crc = 0
  for (let index = at; index < end; index++) {
    crc ^= bytes[index]!
    for (let bit = 0; bit < 8; bit++) crc = crc & 0x80 ? ((crc << 1) ^ 0x07) & 0xff : crc << 1
  }
  return crc
}
