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
export function findTones(samples: Float32Array, sampleRate: number): number[] {
  const loud = loudFrames(samples)
  const votes: number[] = []
  for (const start of loud) {
    const hertz = peakOf(samples.subarray(start, start + FRAME), sampleRate)
    if (hertz !== null) votes.push(hertz)
  }
  if (votes.length === 0 || votes.length < loud.length * TONAL_PART) return []
  return clusters(votes, Math.max(1, votes.length * 0.02))
}

/** Where the frames begin whose power is near the loudest. */
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
