/** Encodings that are heard, by Deepgram's names. */
export const ENCODINGS = ['linear16', 'mulaw', 'alaw'] as const
export type Encoding = (typeof ENCODINGS)[number]

/** Raw audio, whose bytes therefore tell the time. Channels are interleaved. */
export interface AudioFormat {
  readonly encoding: Encoding
  /** Hz. */
  readonly sampleRate: number
  readonly channels: number
}

/** Bytes of one sample in each channel. */
export function frameBytes({ encoding, channels }: AudioFormat): number {
  return (encoding === 'linear16' ? 2 : 1) * channels
}

export function bytesPerSecond(format: AudioFormat): number {
  return frameBytes(format) * format.sampleRate
}

/** Samples of a block in each channel. */
const BLOCK = 2048
/** The samples of one block: they are handed on before the next block is read. */
const SAMPLES = new Float32Array(BLOCK)

/** Takes samples at ±1, the first `count` of them new, valid during the call. */
type Take = (channel: number, samples: Float32Array, count: number) => void

/** Reads samples out of bytes that may be cut anywhere, also within a sample. */
export class SampleReader {
  readonly #format: AudioFormat
  readonly #frameBytes: number
  /** Mixes the channels into one. */
  readonly #mixed: boolean
  readonly #rest: Uint8Array
  #resting = 0

  constructor(format: AudioFormat, mixed: boolean) {
    this.#format = format
    this.#frameBytes = frameBytes(format)
    this.#mixed = mixed && format.channels > 1
    this.#rest = new Uint8Array(this.#frameBytes)
  }

  read(bytes: Uint8Array, take: Take): void {
    let at = 0
    if (this.#resting > 0) {
      at = Math.min(this.#frameBytes - this.#resting, bytes.length)
      this.#rest.set(bytes.subarray(0, at), this.#resting)
      this.#resting += at
      if (this.#resting < this.#frameBytes) return
      this.#resting = 0
      this.#block(this.#rest, 0, 1, take)
    }
    while (bytes.length - at >= this.#frameBytes) {
      const count = Math.min(BLOCK, Math.floor((bytes.length - at) / this.#frameBytes))
      this.#block(bytes, at, count, take)
      at += count * this.#frameBytes
    }
    this.#resting = bytes.length - at
    if (this.#resting > 0) this.#rest.set(bytes.subarray(at))
  }

  #block(bytes: Uint8Array, from: number, count: number, take: Take): void {
    const { channels } = this.#format
    if (this.#mixed) SAMPLES.fill(0, 0, count)
    for (let channel = 0; channel < channels; channel += 1) {
      if (this.#mixed) this.#add(bytes, from, channel, count)
      else {
        SAMPLES.fill(0, 0, count)
        this.#add(bytes, from, channel, count)
        take(channel, SAMPLES, count)
      }
    }
    if (this.#mixed) take(0, SAMPLES, count)
  }

  /** Adds the samples of a channel, in a mix by its part. */
  #add(bytes: Uint8Array, from: number, channel: number, count: number): void {
    const { encoding, channels } = this.#format
    const [stride, gain] = [this.#frameBytes, this.#mixed ? 1 / channels : 1]
    if (encoding === 'linear16') {
      const scale = gain / 32_768
      for (let at = 0, byte = from + channel * 2; at < count; at += 1, byte += stride)
        SAMPLES[at]! += (((bytes[byte + 1]! << 24) >> 16) | bytes[byte]!) * scale
      return
    }
    const table = encoding === 'mulaw' ? MU_LAW : A_LAW
    for (let at = 0, byte = from + channel; at < count; at += 1, byte += stride)
      SAMPLES[at]! += table[bytes[byte]!]! * gain
  }
}

/** ITU-T G.711, full scale at ±1. */
const MU_LAW = Float32Array.from({ length: 256 }, (_, byte) => {
  const bits = ~byte & 0xff
  const magnitude = (((bits & 15) * 2 + 33) << ((bits >> 4) & 7)) - 33
  return (bits & 128 ? -magnitude : magnitude) / 8192
})
const A_LAW = Float32Array.from({ length: 256 }, (_, byte) => {
  const bits = byte ^ 0x55
  const exponent = (bits >> 4) & 7
  const mantissa = (bits & 15) * 2 + 1
  const magnitude = exponent === 0 ? mantissa : (mantissa + 32) << (exponent - 1)
  return (bits & 128 ? magnitude : -magnitude) / 4096
})
