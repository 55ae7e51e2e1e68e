import { u32be } from './bytes.ts'

/** One MPEG audio frame, by its four header bytes (ISO/IEC 11172-3, 13818-3). */
export interface MpegFrame {
  /** 1, 2, or 2.5 for the half rates that no standard has. */
  readonly version: 1 | 2 | 2.5
  readonly layer: 1 | 2 | 3
  readonly bitrate: number
  readonly sampleRate: number
  readonly channels: 1 | 2
  /** Samples per channel. */
  readonly samples: number
  /** Header included. */
  readonly bytes: number
}

/** No frame is longer: layer II, 384 kbit/s at 32 kHz, padded. */
export const MPEG_FRAME_MAX_BYTES = 1729

const VERSIONS = [2.5, null, 2, 1] as const
const LAYERS = [null, 3, 2, 1] as const
const SAMPLE_RATES = [44_100, 48_000, 32_000]
/** kbit/s by index. The first is the free format, whose frames have no length, and the last is forbidden. */
const BITRATES = {
  1: {
    1: [0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448],
    2: [0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384],
    3: [0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320],
  },
  2: {
    1: [0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256],
    2: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
    3: [0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160],
  },
}

/** Sample rates of version 1 begin here, and those of 2.5 end below the other, Hz. */
const FULL_RATES_FROM = 32_000
const HALF_RATES_BELOW = 16_000
/** Most that LAME makes of version 2.5. */
const HALF_RATE_KILOBITS_MAX = 64

/** The frame that begins at `at`, or null. ADTS AAC has the same sync and layer 00, which is none here. */
export function mpegFrame(bytes: Uint8Array, at: number): MpegFrame | null {
  if (bytes[at] !== 0xff || (bytes[at + 1]! & 0xe0) !== 0xe0 || at + 4 > bytes.length) return null
  const header = u32be(bytes, at)
  const version = VERSIONS[(header >>> 19) & 3]!
  const layer = LAYERS[(header >>> 17) & 3]!
  const fullRate = SAMPLE_RATES[(header >>> 10) & 3]
  if (!version || !layer || !fullRate) return null
  const bitrate = (BITRATES[version === 1 ? 1 : 2][layer][(header >>> 12) & 15] ?? 0) * 1000
  if (bitrate === 0) return null

  const sampleRate = version === 1 ? fullRate : version === 2 ? fullRate / 2 : fullRate / 4
  const samples = layer === 1 ? 384 : layer === 3 && version !== 1 ? 576 : 1152
  const padding = (header >>> 9) & 1
  const length =
    layer === 1
      ? (Math.floor((12 * bitrate) / sampleRate) + padding) * 4
      : Math.floor(((samples / 8) * bitrate) / sampleRate) + padding
  const channels = ((header >>> 6) & 3) === 3 ? 1 : 2
  return { version, layer, bitrate, sampleRate, channels, samples, bytes: length }
}

/** Whether layer III has a constant bit rate, bits per second, at a sample rate. */
export function isMpegBitrate(sampleRate: number, bitrate: number): boolean {
  const kilobits = bitrate / 1000
  if (sampleRate < HALF_RATES_BELOW)
    return kilobits <= HALF_RATE_KILOBITS_MAX && BITRATES[2][3].includes(kilobits)
  return kilobits > 0 && BITRATES[sampleRate < FULL_RATES_FROM ? 2 : 1][3].includes(kilobits)
}

/** Whether two frames can belong to one stream; bit rate and channel mode may change within it. */
export function sameStream(one: MpegFrame, other: MpegFrame): boolean {
  return one.version === other.version && one.layer === other.layer && one.sampleRate === other.sampleRate
}

/**
 * Index of the first frame in `bytes` from `from` up to `from + reach`, or -1. Eleven set bits occur by chance, so a
 * frame counts when two more follow it back to back; one right at `from` also when `bytes` ends before that.
 */
export function findMpegFrame(bytes: Uint8Array, from: number, reach: number): number {
  const end = Math.min(bytes.length - 3, from + reach + 1)
  for (let at = from; at < end; at++) {
    if (bytes[at] !== 0xff) continue
    const first = mpegFrame(bytes, at)
    if (first && followed(bytes, at + first.bytes, first, at === from)) return at
  }
  return -1
}

function followed(bytes: Uint8Array, at: number, first: MpegFrame, endIsFine: boolean): boolean {
  let next = at
  for (let count = 0; count < 2; count++) {
    if (next + 4 > bytes.length) return endIsFine
    const frame = mpegFrame(bytes, next)
    if (!frame || !sameStream(first, frame)) return false
    next += frame.bytes
  }
  return true
}
