import type { Recording } from './wav.ts'

/** A stretch of tone, seconds from the beginning of the recording. */
export interface Beep {
  readonly start: number
  readonly end: number
  /** Strength of each tone of the recording over the stretch, in the order of `Beeps.tones`. */
  readonly strengths: readonly number[]
}

interface Beeps {
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
 * The envelope is measured against its peak here and in the stretch on either side, so speakers may differ in volume.
 */
const NEIGHBOURHOOD_STEPS = 125
/** Against that peak, where a tone begins and where it ends. */
const RISE = 0.55
const FALL = 0.45
/** A neighbourhood holds tones when its peak is this part of the recording's, and this many times the noise. */
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

/** Samples per frame, a power of two: 32 ms at 8 kHz, so the bins are 31 Hz wide. */
const FRAME = 256
/** Frames that are looked at, evenly spread over the loud ones. */
const FRAMES_MAX = 800
/** Frames under this part of the loudest frame's power say nothing of the tone. */
const LOUD_PART = 0.02
const LOWEST_HERTZ = 200
const HIGHEST_HERTZ = 2000
/** Bins on either side of a peak that belong to it: the window's main lobe and the keying of a fast hand. */
const PEAK_REACH = 3
/** Part of a frame's power that its peak must have to count as a tone. */
const PURITY = 0.4
/** Part of the loud frames that must hold a tone; less is music, speech or noise. */
const TONAL_PART = 0.5
/** Frequencies closer than this are one tone, Hz. */
const TONE_REACH_HERTZ = 24
const TONES_MAX = 8

/**
 * The steady tones of a recording, strongest first, in Hz; none when most of what is loud is no pure tone.
 *
 * @param samples without direct current
 */
function findTones(samples: Float32Array, sampleRate: number): number[] {
  const loud = loudFrames(samples)
  const votes: number[] = []
  for (const start of loud) {
    const hertz = peakOf(samples.subarray(start, start + FRAME), sampleRate)
    if (hertz !== null) votes.push(hertz)
  }
  if (votes.length === 0 || votes.length < loud.length * TONAL_PART) return []
  return clusters(votes, Math.max(1, votes.length * 0.02))
}

/** Starts of the frames whose power is near the loudest. */
function loudFrames(samples: Float32Array): number[] {
  const count = Math.max(1, Math.floor(samples.length / FRAME))
  const powers = new Float64Array(count)
  let loudest = 0
  for (let frame = 0; frame < count; frame += 1) {
    const end = Math.min(samples.length, (frame + 1) * FRAME)
    let power = 0
    for (let at = frame * FRAME; at < end; at += 1) power += (samples[at] ?? 0) ** 2
    powers[frame] = power
    loudest = Math.max(loudest, power)
  }
  if (loudest === 0) return []
  const loud: number[] = []
  for (const [frame, power] of powers.entries()) if (power >= loudest * LOUD_PART) loud.push(frame * FRAME)
  const stride = Math.max(1, loud.length / FRAMES_MAX)
  return Array.from(
    { length: Math.floor(loud.length / stride) },
    (_, index) => loud[Math.floor(index * stride)] ?? 0,
  )
}

/** The frequency of the frame's strongest line; null when it has too little of the power. */
function peakOf(frame: Float32Array, sampleRate: number): number | null {
  const power = powerSpectrum(frame)
  const binHertz = sampleRate / FRAME
  const last = Math.min(power.length - 2, Math.floor(HIGHEST_HERTZ / binHertz))
  let peak = Math.max(1, Math.ceil(LOWEST_HERTZ / binHertz))
  for (let bin = peak; bin <= last; bin += 1) if ((power[bin] ?? 0) > (power[peak] ?? 0)) peak = bin
  let total = 0
  let own = 0
  for (const [bin, value] of power.entries()) {
    total += value
    if (Math.abs(bin - peak) <= PEAK_REACH) own += value
  }
  if (total === 0 || own < total * PURITY) return null
  // A parabola through the logarithms of three bins finds the line between them.
  const [left, middle, right] = [peak - 1, peak, peak + 1].map((bin) => Math.log((power[bin] ?? 0) + 1e-20))
  const bend = (left ?? 0) - 2 * (middle ?? 0) + (right ?? 0)
  const shift = bend === 0 ? 0 : (0.5 * ((left ?? 0) - (right ?? 0))) / bend
  return (peak + Math.max(-0.5, Math.min(0.5, shift))) * binHertz
}

/** Groups of neighbouring frequencies by their means, the largest group first. */
function clusters(votes: readonly number[], least: number): number[] {
  let left = [...votes].sort((a, b) => a - b)
  const tones: number[] = []
  while (left.length > 0 && tones.length < TONES_MAX) {
    let best: number[] = []
    for (const center of left) {
      const near = left.filter((hertz) => Math.abs(hertz - center) <= TONE_REACH_HERTZ)
      if (near.length > best.length) best = near
    }
    if (best.length < least) break
    tones.push(best.reduce((sum, hertz) => sum + hertz, 0) / best.length)
    left = left.filter((hertz) => !best.includes(hertz))
  }
  return tones
}

const WINDOW = Float64Array.from(
  { length: FRAME },
  (_, at) => 0.5 - 0.5 * Math.cos((2 * Math.PI * at) / FRAME),
)
const COSINES = Float64Array.from({ length: FRAME }, (_, at) => Math.cos((2 * Math.PI * at) / FRAME))
const SINES = Float64Array.from({ length: FRAME }, (_, at) => Math.sin((2 * Math.PI * at) / FRAME))

/** Power of bins 0 to FRAME / 2 of a Hann-windowed frame; a shorter frame counts as followed by silence. */
function powerSpectrum(frame: Float32Array): Float64Array {
  const real = new Float64Array(FRAME)
  const imaginary = new Float64Array(FRAME)
  const bits = Math.log2(FRAME)
  for (let at = 0; at < FRAME; at += 1) {
    let reversed = 0
    for (let bit = 0; bit < bits; bit += 1) reversed |= ((at >> bit) & 1) << (bits - 1 - bit)
    real[reversed] = (frame[at] ?? 0) * (WINDOW[at] ?? 0)
  }
  for (let size = 2; size <= FRAME; size *= 2) butterflies(real, imaginary, size)
  return Float64Array.from(
    { length: FRAME / 2 + 1 },
    (_, bin) => (real[bin] ?? 0) ** 2 + (imaginary[bin] ?? 0) ** 2,
  )
}

/** One stage of a decimation-in-time FFT. */
function butterflies(real: Float64Array, imaginary: Float64Array, size: number): void {
  const half = size / 2
  const stride = FRAME / size
  for (let base = 0; base < FRAME; base += size) {
    for (let pair = 0; pair < half; pair += 1) {
      const [low, high] = [base + pair, base + pair + half]
      const cosine = COSINES[pair * stride] ?? 0
      const sine = SINES[pair * stride] ?? 0
      const highReal = (real[high] ?? 0) * cosine + (imaginary[high] ?? 0) * sine
      const highImaginary = (imaginary[high] ?? 0) * cosine - (real[high] ?? 0) * sine
      real[high] = (real[low] ?? 0) - highReal
      imaginary[high] = (imaginary[low] ?? 0) - highImaginary
      real[low] = (real[low] ?? 0) + highReal
      imaginary[low] = (imaginary[low] ?? 0) + highImaginary
    }
  }
}
