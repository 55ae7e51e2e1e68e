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
  // The first two bytes of the GUID of an extensible format are the tag that it stands for.
  const codec = tag === EXTENSIBLE ? u16le(chunk, 24) : tag
  const [channels, blockBytes] = [u16le(chunk, 2), u16le(chunk, 12)]
  return {
    codec,
    channels,
    sampleRate: u32le(chunk, 4),
    bytesPerSecond: u32le(chunk, 8),
    blockBytes,
    bitsPerSample: u16le(chunk, 14),
    samplesPerBlock: samplesOfAdpcm(codec, channels, blockBytes),
  }
}

/** Bytes of one sample of all channels, whatever the chunk says of blocks; null: of a codec with other blocks. */
export function frameBytes({ codec, channels, bitsPerSample }: WavFormat): number | null {
  if (codec === WAV_CODEC.aLaw || codec === WAV_CODEC.muLaw) return channels
  return codec === WAV_CODEC.pcm || codec === WAV_CODEC.float ? channels * Math.ceil(bitsPerSample / 8) : null
}

/** Four bits each, behind a head for each channel that has one or two more. What the chunk says no decoder goes by. */
function samplesOfAdpcm(codec: number, channels: number, blockBytes: number): number {
  const [headBytes, more] = codec === WAV_CODEC.msAdpcm ? [7, 2] : [4, 1]
  return channels === 0 ? 0 : Math.max(0, Math.floor((blockBytes / channels - headBytes) * 2) + more)
}
