import { CHARACTER_GAP_UNITS, characterOf, DASH_UNITS, unitSeconds, WORD_GAP_UNITS } from '../morse.ts'
import { UNIT_MAX_SECONDS, UNIT_MIN_SECONDS, UNKNOWN } from '../transcript.ts'
import { ToneGate } from './tones.ts'

/** A word of Morse code; times are seconds from the first sample. */
export interface HeardWord {
  readonly text: string
  readonly start: number
  readonly end: number
  /** Tone that it was sent with, Hz. */
  readonly hertz: number
}

/** Is told what is heard, in the order of the audio. */
export interface WordSink {
  /** A tone that is over. */
  tone(start: number, end: number): void
  /** The finished characters of the word that is under way; each text replaces the one before. */
  partial(text: string, start: number): void
  /** A word that is over. @param settled all audio before it is heard and told, seconds */
  word(word: HeardWord, settled: number): void
  /** The audio before `now` is heard. */
  advance(now: number): void
}

/** Half-way between the gaps that it is to tell apart, units. */
const CHARACTER_END_UNITS = 0.5 * (1 + CHARACTER_GAP_UNITS)
const WORD_END_UNITS = 0.5 * (CHARACTER_GAP_UNITS + WORD_GAP_UNITS)
const DASH_FROM_UNITS = 0.5 * (1 + DASH_UNITS)
/** How far behind the audio a tone is noticed, seconds. */
export const UNNOTICED_SECONDS = 0.01
/** Tones that a word has at most; the longest of English have about a hundred. */
const TONES_MAX = 256
/** The last lengths of tones, and of gaps, that the unit is fitted to. */
const LENGTHS = 12
/** Weight of a length against the one that followed it. */
const FADING = 0.85
/** A length that is no further off its target keeps the unit; as a logarithm, a quarter. */
const TOLERANCE = 0.25
/** As for recordings: draws the unit towards the usual one where the lengths leave it open. */
const EXPECTATION_WEIGHT = 0.01
const USUAL_UNIT = unitSeconds(1)
/** Part of a word's length that may be in other tones than its own, and how far those may be off, Hz. */
const STRAY_PART_MAX = 0.15
const STRAY_HERTZ = 60
/** Part of a word's symbols that may stand for nothing. */
const UNKNOWN_PART_MAX = 0.5

const ln = Math.log
const TONE_TARGETS = [0, ln(DASH_UNITS)]
const GAP_TARGETS = [0, ln(CHARACTER_GAP_UNITS), ln(WORD_GAP_UNITS)]
/** Logarithms of the units that are tried, in steps of 4 %. */
const TRIED_UNITS = Float64Array.from(
  { length: Math.ceil(ln(UNIT_MAX_SECONDS / UNIT_MIN_SECONDS) / ln(1.04)) },
  (_, at) => ln(UNIT_MIN_SECONDS) + at * ln(1.04),
)

/** Characters by their signs as bits behind a leading one, a dash being one: `.-` is 0b101. */
const CHARACTERS: readonly string[] = Array.from({ length: 256 }, (_, code) =>
  code < 2 ? UNKNOWN : (characterOf(signsOf(code)) ?? UNKNOWN),
)

function signsOf(code: number): string {
  return [...code.toString(2).slice(1)].map((bit) => (bit === '1' ? '-' : '.')).join('')
}

/**
 * Hears Morse code in one channel of audio as it comes: characters when they are complete, words when the gap after
 * them is longer than one between characters. Speeds from 0.75 to 2 are read right from the first character, others
 * once a few tones have told the speed. The result for a word depends on the samples alone, not on how they are cut.
 */
export class MorseListener {
  readonly #sink: WordSink
  readonly #gate: ToneGate
  // Tones of the word that is under way; more than one word's after the unit was corrected.
  readonly #starts = new Float64Array(TONES_MAX)
  readonly #ends = new Float64Array(TONES_MAX)
  readonly #hertz = new Float64Array(TONES_MAX)
  #count = 0
  /** Tones of the present word that are told as characters. */
  #finalCount = 0
  #lastEnd = Number.NEGATIVE_INFINITY
  #now = 0
  #sounding = false
  #unit = USUAL_UNIT
  readonly #tones = new Lengths()
  readonly #gaps = new Lengths()

  constructor(sampleRate: number, sink: WordSink) {
    this.#sink = sink
    this.#gate = new ToneGate(sampleRate, {
      tone: (start, end, hertz) => this.#tone(start, end, hertz),
      advance: (now, sounding) => this.#advance(now, sounding),
    })
  }

  /** When the last tone ended, seconds; minus infinity before the first. */
  get lastEnd(): number {
    return this.#lastEnd
  }

  /** Seconds that are heard. */
  get now(): number {
    return this.#now
  }

  /** A tone has begun that is not over. */
  get sounding(): boolean {
    return this.#sounding
  }

  /** A word is under way, of which a tone is over. */
  get spelling(): boolean {
    return this.#count > 0
  }

  /** @param samples full scale at ±1; the first `count` of them are new */
  push(samples: Float32Array, count: number): void {
    this.#gate.push(samples, count)
  }

  /** Takes the word that is under way for complete. */
  flush(): void {
    this.#split()
    // A tone that has just begun may not be noticed yet.
    this.#finish(this.#count, Math.max(this.#lastEnd, this.#now - UNNOTICED_SECONDS))
  }

  /** Forgets the word that is under way. */
  discard(): void {
    this.#count = 0
    this.#finalCount = 0
  }

  #tone(start: number, end: number, hertz: number): void {
    this.#sink.tone(start, end)
    const gap = start - this.#lastEnd
    // The rest of a tone that began before the audio tells nothing of the speed.
    if (start > UNNOTICED_SECONDS) this.#learn(end - start, gap)
    if (this.#count === TONES_MAX) this.#finish(TONES_MAX, start)
    this.#starts[this.#count] = start
    this.#ends[this.#count] = end
    this.#hertz[this.#count] = hertz
    this.#count += 1
    this.#lastEnd = end
    this.#split()
  }

  #advance(now: number, sounding: boolean): void {
    this.#now = now
    this.#sounding = sounding
    if (!sounding && this.#count > 0) {
      const silence = now - this.#lastEnd
      if (silence >= WORD_END_UNITS * this.#unit) this.flush()
      else if (this.#finalCount < this.#count && silence >= CHARACTER_END_UNITS * this.#unit) {
        this.#finalCount = this.#count
        this.#sink.partial(this.#read(this.#count), this.#starts[0]!)
      }
    }
    this.#sink.advance(now)
  }

  /** Fits the unit anew when a length does not go with it. */
  #learn(tone: number, gap: number): void {
    const unit = ln(this.#unit)
    this.#tones.add(ln(tone))
    let fits = misfit(ln(tone) - unit, TONE_TARGETS) < TOLERANCE ** 2
    if (gap > 0 && Number.isFinite(gap)) {
      this.#gaps.add(ln(gap))
      fits &&= misfit(ln(gap) - unit, GAP_TARGETS) < TOLERANCE ** 2 || gap > WORD_GAP_UNITS * this.#unit
    }
    if (fits) return
    let least = Number.POSITIVE_INFINITY
    for (const tried of TRIED_UNITS) {
      const cost =
        this.#tones.misfit(tried, TONE_TARGETS) +
        this.#gaps.misfit(tried, GAP_TARGETS) +
        EXPECTATION_WEIGHT * (tried - ln(USUAL_UNIT)) ** 2
      if (cost < least) {
        least = cost
        this.#unit = Math.exp(tried)
      }
    }
  }

  /** Ends words whose gap has turned out to be one between words, after more was heard or the unit was corrected. */
  #split(): void {
    for (let at = 1; at < this.#count; at += 1) {
      const [end, start] = [this.#ends[at - 1]!, this.#starts[at]!]
      if (start - end <= WORD_END_UNITS * this.#unit) continue
      this.#finish(at, (end + start) / 2)
      at = 0
    }
  }

  /** Tells the first `count` tones as a word. */
  #finish(count: number, settled: number): void {
    if (count === 0) return
    const [text, hertz] = [this.#read(count), this.#pitch(count)]
    const word = { text, start: this.#starts[0]!, end: this.#ends[count - 1]!, hertz: Math.round(hertz) }
    this.#starts.copyWithin(0, count, this.#count)
    this.#ends.copyWithin(0, count, this.#count)
    this.#hertz.copyWithin(0, count, this.#count)
    this.#count -= count
    const wasFinal = this.#finalCount > 0
    this.#finalCount = 0
    if (hertz > 0 && isPlausible(text)) this.#sink.word(word, settled)
    else if (wasFinal) this.#sink.partial('', word.start)
  }

  #read(count: number): string {
    let text = ''
    let code = 1
    for (let at = 0; at < count; at += 1) {
      if (at > 0 && this.#starts[at]! - this.#ends[at - 1]! > CHARACTER_END_UNITS * this.#unit) {
        text += CHARACTERS[code] ?? UNKNOWN
        code = 1
      }
      const isDash = this.#ends[at]! - this.#starts[at]! > DASH_FROM_UNITS * this.#unit
      // More than seven signs stand for nothing, however many more.
      code = Math.min(1 << 20, code * 2 + (isDash ? 1 : 0))
    }
    return text + (CHARACTERS[code] ?? UNKNOWN)
  }

  /** The tone of the first `count` tones; 0 when they are a melody. */
  #pitch(count: number): number {
    let [seconds, turns] = [0, 0]
    for (let at = 0; at < count; at += 1) {
      const length = this.#ends[at]! - this.#starts[at]!
      seconds += length
      turns += length * this.#hertz[at]!
    }
    const mean = turns / seconds
    let stray = 0
    for (let at = 0; at < count; at += 1)
      if (Math.abs(this.#hertz[at]! - mean) > STRAY_HERTZ) stray += this.#ends[at]! - this.#starts[at]!
    return stray > seconds * STRAY_PART_MAX ? 0 : mean
  }
}

function isPlausible(text: string): boolean {
  const unknown = text.split(UNKNOWN).length - 1
  return unknown <= text.length * UNKNOWN_PART_MAX
}

/** Square of how far a length is off the nearest target, all logarithms of units. */
function misfit(length: number, targets: readonly number[]): number {
  let least = Number.POSITIVE_INFINITY
  for (const target of targets) {
    const off = length - target
    if (off * off < least) least = off * off
  }
  return least
}

/** The last lengths, as logarithms of seconds. */
class Lengths {
  readonly #values = new Float64Array(LENGTHS)
  #added = 0

  add(value: number): void {
    this.#values[this.#added % LENGTHS] = value
    this.#added += 1
  }

  /** Mean, the newest counting most. Any gap over one between words is as good as one. */
  misfit(unit: number, targets: readonly number[]): number {
    let [total, weights, weight] = [0, 0, 1]
    for (let back = 1; back <= Math.min(this.#added, LENGTHS); back += 1) {
      const length = this.#values[(this.#added - back) % LENGTHS]! - unit
      const isLong = targets === GAP_TARGETS && length > GAP_TARGETS[2]!
      total += isLong ? 0 : weight * misfit(length, targets)
      weights += weight
      weight *= FADING
    }
    return weights === 0 ? 0 : total / weights
  }
}
