import { randomInt } from 'node:crypto'
import { type OggPacket, OggWriter } from './ogg-writer.ts'
import { OPUS_RATE } from './opus.ts'
import type { SampleEncoder } from './sample-encoder.ts'

/** Rates that libopus takes, Hz. */
const RATES = [8_000, 12_000, 16_000, 24_000, 48_000] as const
/** Packets of 20 ms. */
const PACKETS_A_SECOND = 50
/** Rate of mono speech, bits per second: up to 24 kHz, and above. */
const BITRATE = 32_000
const FULL_BAND_BITRATE = 64_000
/** Sounds as 10 does to most ears, for two thirds of its CPU. */
const COMPLEXITY = 5
const VENDOR = 'Larkway'

/** The rate at which samples of another one are encoded, Hz: the next that libopus takes. */
export function opusRate(sampleRate: number): (typeof RATES)[number] {
  return RATES.find((rate) => rate >= sampleRate) ?? 48_000
}

/**
 * An encoder of mono Opus in Ogg (RFC 7845). libopus is loaded with the first file that is made.
 *
 * @param sampleRate one of `opusRate`
 * @param bitrate    bits per second; null: what suits speech
 */
export async function createOpusEncoder(sampleRate: number, bitrate: number | null): Promise<SampleEncoder> {
  const { Application, createEncoder } = await import('libopus-wasm')
  const rate = opusRate(sampleRate)
  const frameSize = rate / PACKETS_A_SECOND
  const encoder = await createEncoder({
    ...{ channels: 1, sampleRate: rate, frameSize, application: Application.Audio, complexity: COMPLEXITY },
    bitrate: bitrate ?? (rate > 24_000 ? FULL_BAND_BITRATE : BITRATE),
  })
  const scale = OPUS_RATE / rate
  const preSkip = encoder.getLookahead() * scale
  const writer = new OggWriter(randomInt(2 ** 32 - 1))
  let rest = new Int16Array(0)
  let count = 0
  let isBegun = false
  const head = () => {
    if (isBegun) return new Uint8Array(0)
    isBegun = true
    const pages = [opusHead(preSkip, rate), opusTags()].map((bytes) => writer.pages([{ bytes, position: 0 }]))
    return Buffer.concat(pages)
  }
  const packets = (samples: Int16Array): OggPacket[] => {
    const made: OggPacket[] = []
    for (let at = 0; at + frameSize <= samples.length; at += frameSize) {
      count += frameSize
      made.push({ bytes: encoder.encode(samples.subarray(at, at + frameSize)), position: count * scale })
    }
    rest = samples.slice(samples.length - (samples.length % frameSize))
    return made
  }
  return {
    encode(samples) {
      const all = new Int16Array(rest.length + samples.length)
      all.set(rest)
      all.set(samples, rest.length)
      return Buffer.concat([head(), writer.pages(packets(all))])
    },
    end() {
      // The samples that libopus holds back come out with as much silence; players cut it off after the last position.
      const end = preSkip + (count + rest.length) * scale
      const held = rest.length + preSkip / scale
      const padded = new Int16Array(Math.ceil(held / frameSize) * frameSize)
      padded.set(rest)
      const made = packets(padded)
      const last = made.map(({ bytes, position }) => ({ bytes, position: Math.min(position, end) }))
      return Buffer.concat([head(), writer.pages(last, true)])
    },
    free: () => encoder.free(),
  }
}

/** RFC 7845 section 5.1. @param preSkip samples of 48 kHz @param rate of what was encoded, Hz */
function opusHead(preSkip: number, rate: number): Uint8Array {
  const head = Buffer.alloc(19)
  head.write('OpusHead', 0, 'latin1')
  head[8] = 1
  head[9] = 1
  head.writeUInt16LE(preSkip, 10)
  head.writeUInt32LE(rate, 12)
  return head
}

/** RFC 7845 section 5.2. */
function opusTags(): Uint8Array {
  const tags = Buffer.alloc(16 + VENDOR.length)
  tags.write('OpusTags', 0, 'latin1')
  tags.writeUInt32LE(VENDOR.length, 8)
  tags.write(VENDOR, 12, 'latin1')
  return tags
}
