import { findTones } from './spectrum.ts'
import type { Recording } from './wav.ts'

/** A stretch of tone, seconds from the beginning of the recording. */
export interface Beep {
  readonly start: number
  readonly end: number
  /** Strength of each tone of the recording over the stretch, in the order of `Beeps.tones`. */
  readonly strengths: readonly number[]
}

export interface Beeps {
  /** Hz, strongest first. */
  readonly tones: readonly number[]
  readonly beeps: readonly Beep[]
}

/** Samples per second that recordings are brought down to: tones are below 2 kHz. */
const WORKING_RATE = 8000
/** Steps of the envelope, seconds. */
const STEP_SECONDS = 0.002
/** Steps that one point of the envelope is taken over: 8 ms, two thirds of the shortest dot. */
const WINDOW_STEPS = 4
/**
 * The envelope is measured against its peak here and in the stretch on either side, so speakers may differ in
 * volume.
 */
const NEIGHBOURHOOD_STEPS = 125
/** Against that peak, where a tone begins and where it ends. */
const RISE = 0.55
const FALL = 0.45
/**
 * A neighbourhood holds tones when its peak is this part of the recording's, and this many times the noise.
 */
const PEAK_PART = 0.05
const NOISE_FACTOR = 6
/** Shorter stretches of tone or silence are noise, seconds. */
const SHORTEST_SECONDS = 0.005

/**
 * Finds where a recording holds tones. Volume, direct current, leading silence, mild noise, sample rate and
 * the number of channels make no difference: the loudest channel counts.
 */
export function findBeeps(recording: Recording): Beeps {
  const { samples, sampleRate } = condition(loudestChannel(recording.channels), recording.sampleRate)
  const tones = findTones(samples, sampleRate)
  if (tones.length === 0) return { tones, beeps: [] }
  const step = Math.max(1, Math.round(sampleRate * STEP_SECONDS))
  const mixes = tones.map((hertz) => demodulate(samples, hertz / sampleRate, step))
  const envelope = envelopeOf(mixes)
  const stretches = gate(envelope)
  const stepSeconds = step / sampleRate
  // A point of the envelope looks back over its window, so what it shows lies half a window earlier.
  const delay = WINDOW_STEPS / 2 - 1
  const beeps = tidy(stretches, SHORTEST_SECONDS / stepSeconds).map(([from, to]) => ({
    start: Math.max(0, (from - delay) * stepSeconds),
    end: Math.max(0, (to - delay) * stepSeconds),
    strengths: mixes.map((mix) => strengthOf(mix, Math.round(from - delay), Math.round(to - delay))),
  }))
  return { tones, beeps }
}

/** Root mean square of all channels, full scale is 1. */
export function loudnessOf({ channels }: Recording): number {
  const squares = channels.map(varianceOf)
  return Math.sqrt(squares.reduce((sum, square) => sum + square, 0) / Math.max(1, squares.length))
}

function loudestChannel(channels: readonly Float32Array[]): Float32Array {
  let loudest = channels[0] ?? new Float32Array(0)
  if (channels.length < 2) return loudest
  let most = -1
  for (const channel of channels) {
    const variance = varianceOf(channel)
    if (variance > most) [loudest, most] = [channel, variance]
  }
  return loudest
}

/** Mean square without the mean: direct current is not sound. */
function varianceOf(samples: Float32Array): number {
  if (samples.length === 0) return 0
  let sum = 0
  let squares = 0
  for (const sample of samples) {
    sum += sample
    squares += sample * sample
  }
  const mean = sum / samples.length
  return Math.max(0, squares / samples.length - mean * mean)
}

/** Brings the rate down by averaging, and takes away what is below about 100 Hz. */
function condition(samples: Float32Array, sampleRate: number): { samples: Float32Array; sampleRate: number } {
  const factor = Math.max(1, Math.floor(sampleRate / WORKING_RATE))
  const length = Math.floor(samples.length / factor)
  const reduced = new Float32Array(length)
  const rate = sampleRate / factor
  const keep = Math.exp((-2 * Math.PI * 100) / rate)
  let previous = 0
  let output = 0
  for (let at = 0; at < length; at += 1) {
    let sum = 0
    for (let part = at * factor; part < (at + 1) * factor; part += 1) sum += samples[part] ?? 0
    const sample = sum / factor
    if (at === 0) previous = sample
    output = keep * (output + sample - previous)
    previous = sample
    reduced[at] = output
  }
  return { samples: reduced, sampleRate: rate }
}

/** A recording brought down to one tone: cosine and sine parts, summed up over steps. */
interface Mix {
  readonly cosine: Float32Array
  readonly sine: Float32Array
}

/** @param frequency in turns per sample */
function demodulate(samples: Float32Array, frequency: number, step: number): Mix {
  const count = Math.ceil(samples.length / step)
  const cosine = new Float32Array(count)
  const sine = new Float32Array(count)
  const [turnCosine, turnSine] = [Math.cos(2 * Math.PI * frequency), Math.sin(2 * Math.PI * frequency)]
  for (let index = 0; index < count; index += 1) {
    const start = index * step
    // The phase is set anew at each step, so rounding does not add up over an hour.
    const phase = 2 * Math.PI * ((start * frequency) % 1)
    let [x, y] = [Math.cos(phase), Math.sin(phase)]
    let [a, b] = [0, 0]
    for (let at = start; at < Math.min(start + step, samples.length); at += 1) {
      const sample = samples[at] ?? 0
      a += sample * x
      b += sample * y
      const turned = x * turnCosine - y * turnSine
      y = x * turnSine + y * turnCosine
      x = turned
    }
    cosine[index] = a
    sine[index] = b
  }
  return { cosine, sine }
}

/** Strength of the strongest tone at each step, taken over the window that ends there. */
function envelopeOf(mixes: readonly Mix[]): Float32Array {
  const envelope = new Float32Array(mixes[0]?.cosine.length ?? 0)
  for (const mix of mixes) {
    for (let at = 0; at < envelope.length; at += 1) {
      envelope[at] = Math.max(envelope[at] ?? 0, strengthOf(mix, at + 1 - WINDOW_STEPS, at + 1))
    }
  }
  return envelope
}

/** @param from first step, inclusive; `to` is exclusive; both are clamped */
function strengthOf({ cosine, sine }: Mix, from: number, to: number): number {
  let [a, b] = [0, 0]
  for (let at = Math.max(0, from); at < Math.min(to, cosine.length); at += 1) {
    a += cosine[at] ?? 0
    b += sine[at] ?? 0
  }
  return Math.hypot(a, b)
}

type Stretch = readonly [from: number, to: number]

/** Stretches, in steps and fractions of steps, where the envelope is high. */
function gate(envelope: Float32Array): Stretch[] {
  const sorted = Float32Array.from(envelope).sort()
  // Neither a click nor the odd loud step decides what is loud.
  const peak = sorted[Math.max(0, sorted.length - 8)] ?? 0
  const noise = sorted[Math.floor(sorted.length * 0.2)] ?? 0
  const least = Math.max(peak * PEAK_PART, noise * NOISE_FACTOR, Number.MIN_VALUE)
  const peaks = neighbourhoodPeaks(envelope)
  const stretches: Stretch[] = []
  let from = -1
  for (let at = 0; at < envelope.length; at += 1) {
    const around = peaks[Math.floor(at / NEIGHBOURHOOD_STEPS)] ?? 0
    const level = around < least ? 0 : (envelope[at] ?? 0) / around
    if (from < 0 && level > RISE) from = crossing(envelope, at, around)
    else if (from >= 0 && level < FALL) {
      stretches.push([from, crossing(envelope, at, around)])
      from = -1
    }
  }
  if (from >= 0) stretches.push([from, envelope.length])
  return stretches
}

/** Where, between the step before and this one or earlier, the envelope passed half of the peak. */
function crossing(envelope: Float32Array, at: number, around: number): number {
  const half = around / 2
  for (let step = at; step > Math.max(0, at - WINDOW_STEPS); step -= 1) {
    const [before, after] = [envelope[step - 1] ?? 0, envelope[step] ?? 0]
    if ((before - half) * (after - half) <= 0 && before !== after)
      return step - (after - half) / (after - before)
  }
  return at
}

/** The envelope's peak in each neighbourhood and the two beside it. */
function neighbourhoodPeaks(envelope: Float32Array): Float32Array {
  const own = new Float32Array(Math.ceil(envelope.length / NEIGHBOURHOOD_STEPS))
  for (const [at, value] of envelope.entries()) {
    const index = Math.floor(at / NEIGHBOURHOOD_STEPS)
    own[index] = Math.max(own[index] ?? 0, value)
  }
  return own.map((value, index) => Math.max(value, own[index - 1] ?? 0, own[index + 1] ?? 0))
}

/** Joins stretches over gaps that are too short to be meant, then drops stretches that are. */
function tidy(stretches: readonly Stretch[], shortest: number): Stretch[] {
  const joined: Stretch[] = []
  for (const [from, to] of stretches) {
    const last = joined.at(-1)
    if (last !== undefined && from - last[1] < shortest) joined[joined.length - 1] = [last[0], to]
    else joined.push([from, to])
  }
  return joined.filter(([from, to]) => to - from >= shortest)
}
