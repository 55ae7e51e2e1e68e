import type { LiveAudio, LiveEncoding } from '../../contracts/calls.ts'
import { frameBytes } from '../../contracts/live-audio.ts'

/** Sample rates of live audio, Hz. Any of them is made of any other with a filter of a bounded size. */
export const SAMPLE_RATES = [8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000] as const

/** Cuts a stream of bytes, which may be split anywhere, into pieces of whole samples of every channel. */
export class WholeFrames {
  readonly #frameBytes: number
  /** The beginning of a sample whose end comes with the next piece. */
  #rest: Uint8Array = new Uint8Array(0)

  constructor(audio: LiveAudio) {
    this.#frameBytes = frameBytes(audio)
  }

  /** @returns what is whole by now; it may be a view of `bytes` */
  take(bytes: Uint8Array): Uint8Array {
    const all = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes])
    const whole = all.length - (all.length % this.#frameBytes)
    // A copy, which `slice` of a Buffer would not be.
    this.#rest = new Uint8Array(all.subarray(whole))
    return all.subarray(0, whole)
  }

  /** Forgets a sample that is not complete. */
  clear(): void {
    this.#rest = new Uint8Array(0)
  }
}

/** Turns one piece of audio after the other into another format. What it returns is valid until the next call. */
export type Converter = (bytes: Uint8Array) => Uint8Array

/**
 * Makes a converter between two formats of live audio; null where they are the same. Channels are mixed down to one, or
 * stay as many as they are.
 *
 * @throws RangeError for more channels than there were, other than one
 */
export function converter(from: LiveAudio, to: LiveAudio): Converter | null {
  if (from.channels !== to.channels && to.channels !== 1)
    throw new RangeError('channels can only be mixed to one')
  const sameLayout = from.channels === to.channels && from.sampleRate === to.sampleRate
  if (sameLayout && from.encoding === to.encoding) return null
  const resamplers =
    from.sampleRate === to.sampleRate
      ? null
      : Array.from({ length: to.channels }, () => new Resampler(from.sampleRate, to.sampleRate))
  return (bytes) => {
    const heard = decodePcm(bytes, from.encoding)
    const mixed = to.channels === from.channels ? heard : mixDown(heard, from.channels)
    const resampled = resamplers === null ? mixed : resample(mixed, resamplers)
    return encode(resampled, to.encoding)
  }
}

/** Bytes of `pcm_s16le` as samples, in place where they are aligned. */
export function samplesOf(bytes: Uint8Array): Int16Array {
  const aligned = bytes.byteOffset % 2 === 0 ? bytes : bytes.slice()
  return new Int16Array(aligned.buffer, aligned.byteOffset, aligned.byteLength >> 1)
}

/** Samples of 16 bits in the order of this machine. */
function decodePcm(bytes: Uint8Array, encoding: LiveEncoding): Int16Array {
  if (encoding === 'pcm_s16le') return samplesOf(bytes)
  const table = encoding === 'mulaw' ? MULAW : ALAW
  const samples = new Int16Array(bytes.length)
  for (let at = 0; at < bytes.length; at += 1) samples[at] = table[bytes[at]!]!
  return samples
}

function encode(samples: Int16Array, encoding: LiveEncoding): Uint8Array {
  if (encoding === 'pcm_s16le') return new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength)
  const companded = encoding === 'mulaw' ? toMulaw : toAlaw
  const bytes = new Uint8Array(samples.length)
  for (let at = 0; at < samples.length; at += 1) bytes[at] = companded(samples[at]!)
  return bytes
}

function mixDown(samples: Int16Array, channels: number): Int16Array {
  const mixed = new Int16Array(samples.length / channels)
  for (let at = 0; at < mixed.length; at += 1) {
    let sum = 0
    for (let channel = 0; channel < channels; channel += 1) sum += samples[at * channels + channel]!
    mixed[at] = Math.round(sum / channels)
  }
  return mixed
}

function resample(samples: Int16Array, resamplers: readonly Resampler[]): Int16Array {
  const [only] = resamplers
  if (resamplers.length === 1) return only!.push(samples)
  const channels = resamplers.length
  const parts = resamplers.map((resampler, channel) => {
    const own = new Int16Array(samples.length / channels)
    for (let at = 0; at < own.length; at += 1) own[at] = samples[at * channels + channel]!
    return resampler.push(own)
  })
  const joined = new Int16Array(parts[0]!.length * channels)
  for (const [channel, part] of parts.entries())
    for (let at = 0; at < part.length; at += 1) joined[at * channels + channel] = part[at]!
  return joined
}

/** Zero crossings of the filter on either side of its middle: about 60 dB of stop band with the window below. */
const CROSSINGS = 8
/** Part of the narrower band that passes: the rest is where the filter falls. */
const PASSED = 0.92

/** A filter for a ratio of two rates, one row of taps for each place between two samples that can be asked for. */
interface Kernel {
  /** Rows. */
  readonly up: number
  /** Places, in rows, from one sample that is made to the next. */
  readonly down: number
  readonly taps: number
  readonly rows: Float32Array
}

const kernels = new Map<string, Kernel>()

/** Kernels are few, as the rates are, and made once. */
function kernelOf(from: number, to: number): Kernel {
  const name = `${from}:${to}`
  const known = kernels.get(name)
  if (known !== undefined) return known
  const divisor = greatestDivisor(from, to)
  const [up, down] = [to / divisor, from / divisor]
  // In samples of the source: the cut-off lies below half of the lower rate.
  const band = PASSED * Math.min(1, to / from)
  const half = Math.ceil(CROSSINGS / band)
  const taps = half * 2
  const rows = new Float32Array(up * taps)
  for (let row = 0; row < up; row += 1) fillRow(rows.subarray(row * taps, (row + 1) * taps), row / up, band)
  const kernel = { up, down, taps, rows }
  kernels.set(name, kernel)
  return kernel
}

/** A sinc under a Blackman window, whose taps add up to one. @param offset of the place behind its sample, 0 to 1 */
function fillRow(row: Float32Array, offset: number, band: number): void {
  const half = row.length / 2
  let sum = 0
  for (let tap = 0; tap < row.length; tap += 1) {
    const distance = tap - (half - 1) - offset
    const turn = (Math.PI * distance) / half
    const window = Math.abs(distance) >= half ? 0 : 0.42 + 0.5 * Math.cos(turn) + 0.08 * Math.cos(2 * turn)
    const x = Math.PI * distance * band
    const value = (x === 0 ? 1 : Math.sin(x) / x) * window
    row[tap] = value
    sum += value
  }
  for (let tap = 0; tap < row.length; tap += 1) row[tap]! /= sum
}

function greatestDivisor(a: number, b: number): number {
  return b === 0 ? a : greatestDivisor(b, a % b)
}

/**
 * Resamples one channel, piece by piece: what comes out is the same however the audio was cut. Sound is not moved: the
 * first sample that is made lies where the first one that came does.
 */
class Resampler {
  readonly #kernel: Kernel
  /** Samples that the next places still need. Begins with silence, as there was before the first sample. */
  #kept: Int16Array
  /** Place of the next sample to be made, in rows behind the middle of the first taps. */
  #place = 0

  constructor(from: number, to: number) {
    this.#kernel = kernelOf(from, to)
    this.#kept = new Int16Array(this.#kernel.taps / 2 - 1)
  }

  push(samples: Int16Array): Int16Array {
    const { up, down, taps, rows } = this.#kernel
    const all = new Int16Array(this.#kept.length + samples.length)
    all.set(this.#kept)
    all.set(samples, this.#kept.length)
    const room = all.length - taps
    const count = room < 0 ? 0 : Math.max(0, Math.floor(((room + 1) * up - 1 - this.#place) / down) + 1)
    const made = new Int16Array(count)
    for (let index = 0; index < count; index += 1) {
      const first = Math.floor(this.#place / up)
      const row = (this.#place - first * up) * taps
      let sum = 0
      for (let tap = 0; tap < taps; tap += 1) sum += rows[row + tap]! * all[first + tap]!
      made[index] = Math.max(-32_768, Math.min(32_767, Math.round(sum)))
      this.#place += down
    }
    const used = Math.min(all.length, Math.floor(this.#place / up))
    this.#place -= used * up
    this.#kept = all.slice(used)
    return made
  }
}

const MULAW = Int16Array.from({ length: 256 }, (_, code) => {
  const inverted = ~code & 0xff
  const magnitude = ((((inverted & 0x0f) << 3) + 0x84) << ((inverted & 0x70) >> 4)) - 0x84
  return (inverted & 0x80) === 0 ? magnitude : -magnitude
})

const ALAW = Int16Array.from({ length: 256 }, (_, code) => {
  const toggled = code ^ 0x55
  const exponent = (toggled & 0x70) >> 4
  const step = ((toggled & 0x0f) << 4) + 8
  const magnitude = exponent === 0 ? step : (step + 0x100) << (exponent - 1)
  return (toggled & 0x80) === 0 ? -magnitude : magnitude
})

/** G.711: sign, exponent and four bits of the sample, inverted. */
function toMulaw(sample: number): number {
  const sign = sample < 0 ? 0x80 : 0
  const magnitude = Math.min(32_635, Math.abs(sample)) + 0x84
  const exponent = 24 - Math.clz32(magnitude)
  return ~(sign | (exponent << 4) | ((magnitude >> (exponent + 3)) & 0x0f)) & 0xff
}

function toAlaw(sample: number): number {
  const sign = sample < 0 ? 0 : 0x80
  const magnitude = Math.min(32_767, sample < 0 ? -sample - 1 : sample)
  const exponent = Math.max(0, 24 - Math.clz32(magnitude))
  const low = exponent === 0 ? magnitude >> 4 : magnitude >> (exponent + 3)
  return (sign | (exponent << 4) | (low & 0x0f)) ^ 0x55
}
