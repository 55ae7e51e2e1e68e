/** Samples per second that audio is brought down to: tones are below 2 kHz. */
const WORKING_RATE = 8000
/** Steps of the envelope, seconds. */
const STEP_SECONDS = 0.002
/** Steps that one point of the envelope is taken over: 8 ms, two thirds of the shortest dot. */
const WINDOW_STEPS = 4
/** Longer than the dash of the slowest speed: a hum or noise, seconds. */
const LONGEST_SECONDS = 0.8
/** Shorter tones are clicks, seconds. */
const SHORTEST_SECONDS = 0.005
/** Points of the envelope that are kept, a power of two: more than the longest tone has. */
const HISTORY = 512

// Powers, of which a sine at full scale has a half.
/** Sixteen steps of 16-bit audio: nothing under it is a tone. */
const LEAST_POWER = 1.2e-7
/** A tone is this much louder than the noise, and than this part of the tones of the last second. */
const NOISE_FACTOR = 6
const RECENT_PART = 0.01
/** Against its peak, where a tone ends, and where another begins before the envelope has come down. */
const FALL = 0.4
const RISE = 0.6
/** How fast the noise is learnt and the loudest tone is forgotten, a step. */
const NOISE_RATE = 0.01
const RECENT_RATE = Math.exp(-STEP_SECONDS)
/** Part of a tone's power that is one steady frequency; less is speech, music or noise. */
const PURITY = 0.6

/** Is told what is heard, in the order of the audio. Times are seconds from the first sample. */
interface ToneSink {
  /** A tone that is over. */
  tone(start: number, end: number, hertz: number): void
  /** The audio before `now` is heard; `sounding` during a tone that is not over. */
  advance(now: number, sounding: boolean): void
}

/** A step of the audio: sums of the products of its samples with themselves, the one before and the one before that. */
type OnStep = (r0: number, r1: number, r2: number) => void

/** Brings audio down to the working rate, takes away everything below about 100 Hz, and cuts it into steps. */
class StepFilter {
  readonly #onStep: OnStep
  /** Samples of the audio that make one. */
  readonly #factor: number
  readonly #keep: number
  readonly stepSamples: number
  readonly rate: number
  #sum = 0
  #summed = 0
  #previous = Number.NaN
  #sample = 0
  #before = 0
  #inStep = 0
  #r0 = 0
  #r1 = 0
  #r2 = 0

  constructor(sampleRate: number, onStep: OnStep) {
    this.#onStep = onStep
    this.#factor = Math.max(1, Math.floor(sampleRate / WORKING_RATE))
    this.rate = sampleRate / this.#factor
    this.stepSamples = Math.max(1, Math.round(this.rate * STEP_SECONDS))
    this.#keep = Math.exp((-2 * Math.PI * 100) / this.rate)
  }

  /** @param samples full scale at ±1; the first `count` of them are new */
  push(samples: Float32Array, count: number): void {
    const [factor, keep, stepSamples] = [this.#factor, this.#keep, this.stepSamples]
    let [sum, summed, previous, older] = [this.#sum, this.#summed, this.#previous, this.#before]
    let [last, inStep, r0, r1, r2] = [this.#sample, this.#inStep, this.#r0, this.#r1, this.#r2]
    for (let at = 0; at < count; at += 1) {
      sum += samples[at]!
      summed += 1
      if (summed < factor) continue
      const input = sum / factor
      sum = 0
      summed = 0
      if (Number.isNaN(previous)) previous = input
      const output = keep * (last + input - previous)
      previous = input
      r0 += output * output
      r1 += output * last
      r2 += output * older
      older = last
      last = output
      inStep += 1
      if (inStep < stepSamples) continue
      this.#onStep(r0, r1, r2)
      inStep = 0
      r0 = 0
      r1 = 0
      r2 = 0
    }
    this.#sum = sum
    this.#summed = summed
    this.#previous = previous
    this.#before = older
    this.#sample = last
    this.#inStep = inStep
    this.#r0 = r0
    this.#r1 = r1
    this.#r2 = r2
  }
}

/** A tone that is under way, and the products of its steps. */
class Tone {
  /** Step at which it was noticed. */
  readonly since: number
  peak = 0
  #r0 = 0
  #r1 = 0
  #r2 = 0

  constructor(since: number) {
    this.since = since
  }

  add(r0: number, r1: number, r2: number): void {
    this.#r0 += r0
    this.#r1 += r1
    this.#r2 += r2
  }

  /**
   * Its frequency; null when too little of it is one. Samples of a sine of the angle w and the power p have the
   * products p, p·cos w and p·cos 2w; noise adds to the first only.
   */
  hertz(rate: number): number | null {
    const [r0, r1, r2] = [this.#r0, this.#r1, this.#r2]
    if (r0 <= 0 || r1 === 0) return null
    const cosine = (r2 + Math.sqrt(r2 * r2 + 8 * r1 * r1)) / (4 * r1)
    if (!(Math.abs(cosine) < 1)) return null
    const purity = r1 / cosine / r0
    return purity < PURITY || purity > 1.1 ? null : (Math.acos(cosine) * rate) / (2 * Math.PI)
  }
}

/**
 * Finds tones in audio as it comes, in one channel. It keeps nothing but a second of envelope, and what it says depends
 * on the samples alone, not on how they are cut into calls. Volume, direct current, mild noise and the sample rate make
 * no difference.
 */
export class ToneGate {
  readonly #sink: ToneSink
  readonly #filter: StepFilter
  readonly #stepSeconds: number
  #steps = 0
  readonly #energies = new Float64Array(WINDOW_STEPS)
  readonly #envelope = new Float32Array(HISTORY)
  #noise = 0
  #recent = 0
  /** The envelope has been low since the last tone. */
  #armed = true
  /** Null in silence. */
  #tone: Tone | null = null
  /** Peak of the last tone. */
  #lastPeak = 0

  constructor(sampleRate: number, sink: ToneSink) {
    this.#sink = sink
    this.#filter = new StepFilter(sampleRate, (r0, r1, r2) => this.#step(r0, r1, r2))
    this.#stepSeconds = this.#filter.stepSamples / this.#filter.rate
  }

  /** @param samples full scale at ±1; the first `count` of them are new */
  push(samples: Float32Array, count: number): void {
    this.#filter.push(samples, count)
  }

  #step(r0: number, r1: number, r2: number): void {
    const step = this.#steps
    this.#steps += 1
    const energies = this.#energies
    energies[step % WINDOW_STEPS] = r0
    const power =
      (energies[0]! + energies[1]! + energies[2]! + energies[3]!) / (WINDOW_STEPS * this.#filter.stepSamples)
    this.#envelope[step % HISTORY] = power
    this.#recent *= RECENT_RATE
    this.#tone ??= this.#begins(step, power)
    if (this.#tone !== null) this.#sound(this.#tone, step, power, [r0, r1, r2])
    this.#sink.advance(this.#timeOf(step), this.#tone !== null)
  }

  /** @returns a tone that begins with this step; null: it is silent */
  #begins(step: number, power: number): Tone | null {
    const least = Math.max(LEAST_POWER, this.#noise * NOISE_FACTOR, this.#recent * RECENT_PART)
    if (power <= least) {
      this.#armed = true
      this.#noise += (power - this.#noise) * NOISE_RATE
      return null
    }
    return this.#armed || power > this.#lastPeak * RISE ? new Tone(step) : null
  }

  #sound(tone: Tone, step: number, power: number, [r0, r1, r2]: readonly [number, number, number]): void {
    tone.peak = Math.max(tone.peak, power)
    // The ramps of a tone, and the silence beside it, say nothing of its frequency.
    if (r0 > 0.5 * tone.peak * this.#filter.stepSamples) tone.add(r0, r1, r2)
    if ((step - tone.since) * this.#stepSeconds > LONGEST_SECONDS) {
      this.#noise = Math.max(this.#noise, power)
      this.#leave(tone)
      this.#armed = true
    } else if (power < tone.peak * FALL) this.#ends(tone, step)
  }

  #leave({ peak }: Tone): void {
    this.#tone = null
    this.#lastPeak = peak
  }

  #ends(tone: Tone, step: number): void {
    this.#leave(tone)
    this.#armed = false
    const half = tone.peak / 2
    const least = Math.max(0, step - HISTORY + 2)
    let at = step
    while (at > least && this.#powerAt(at) < half) at -= 1
    const end = this.#crossing(at + 1, half)
    while (at > least && this.#powerAt(at) >= tone.peak * FALL) at -= 1
    while (this.#powerAt(at + 1) < half) at += 1
    const start = this.#crossing(at + 1, half)
    if (end - start < SHORTEST_SECONDS) return
    const hertz = tone.hertz(this.#filter.rate)
    if (hertz === null) return
    this.#recent = Math.max(this.#recent, tone.peak)
    this.#sink.tone(start, end, hertz)
  }

  #powerAt(step: number): number {
    return this.#envelope[step % HISTORY]!
  }

  /** When, between the point before and this one, the envelope passed a power. */
  #crossing(step: number, power: number): number {
    const after = this.#powerAt(step)
    const before = step === 0 ? after : this.#powerAt(step - 1)
    const part = before === after ? 1 : (power - before) / (after - before)
    return Math.max(0, this.#timeOf(step - 1 + Math.max(0, Math.min(1, part))))
  }

  /** A point of the envelope looks back over its window, so what it shows lies half a window earlier. */
  #timeOf(step: number): number {
    return (step + 1 - WINDOW_STEPS / 2) * this.#stepSeconds
  }
}
