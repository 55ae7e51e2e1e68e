import { u16le, u32le } from './bytes.ts'

/** Codecs by the tags of the `fmt ` chunk. */
export const WAV_CODEC = {
  pcm: 1,
  msAdpcm: 2,
  float: 3,
  aLaw: 6,
  muLaw: 7,
  imaAdpcm: 0x11,
} as const
const EXTENSIBLE = 0xfffe

export interface WavFormat {
  readonly codec: number
  readonly channels: number
  readonly sampleRate: number
  readonly bytesPerSecond: number
  readonly blockBytes: number
  readonly bitsPerSample: number
  readonly samplesPerBlock: number
}

/** Reads the fields of a `fmt ` chunk; fields after its end are 0. */
export function readWavFormat(chunk: Uint8Array): WavFormat {
  const tag = u16le(chunk, 0)
  return {
    // The first two bytes of the GUID of an extensible format are the tag that it stands for.
    codec: tag === EXTENSIBLE ? u16le(chunk, 24) : tag,
    channels: u16le(chunk, 2),
    sampleRate: u32le(chunk, 4),
    bytesPerSecond: u32le(chunk, 8),
    blockBytes: u16le(chunk, 12),
    bitsPerSample: u16le(chunk, 14),
    samplesPerBlock: u16le(chunk, 18),
  }
}
