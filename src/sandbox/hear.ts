import { type Beep, findBeeps } from './beeps.ts'
import { CHARACTER_GAP_UNITS, characterOf, DASH_UNITS, unitSeconds, WORD_GAP_UNITS } from './morse.ts'
import type { Recording } from './wav.ts'

/** A word of Morse code; times are seconds from the beginning of the recording. */
export interface HeardWord {
  readonly text: string
  readonly start: number
  readonly end: number
  /** Tone that it was sent with, Hz. */
  readonly hertz: number
  /** Length of its dots, seconds. */
  readonly unit: number
}

/** Words that belong together: up to a long pause, the end of a sentence, or another tone. */
export interface HeardSegment {
  readonly start: number
  readonly end: number
  readonly hertz: number
  readonly words: readonly HeardWord[]
}

/** A pause of so many units ends a segment, and a passage, whose speed is its own. */
const LONG_GAP_UNITS = 12
/** Units that speeds from 0.25 to 4 have, with some room; seconds. */
const UNIT_MIN_SECONDS = 0.009
const UNIT_MAX_SECONDS = 0.22
/**
 * How far lengths may be from those of Morse code, as the mean square of the logarithm. A good hand has 0.02.
 */
const MISFIT_MAX = 0.1
/** Part of the symbols that may stand for nothing. */
const UNKNOWN_PART_MAX = 0.2
/** Part of a word's strength that may be in other tones than its own; a melody changes with every note. */
const STRAY_PART_MAX = 0.15
/** Stands for a symbol that stands for nothing. */
const UNKNOWN = '\ufffd'
/**
 * Draws the unit towards the expected one where the lengths leave it open: "tt" is "i" at a third of the
 * speed.
 */
const EXPECTATION_WEIGHT = 0.01
/** Lengths that the unit is fitted to. */
const LENGTHS_MAX = 2000

/** Reads the Morse code of a recording; null when what it holds is none. */
export function hear(recording: Recording): HeardSegment[] | null {
  const { tones, beeps } = findBeeps(recording)
  if (beeps.length === 0) return null
  const whole = fitUnit(beeps, unitSeconds(1))
  const heard: HeardWord[] = []
  for (const passage of split(beeps, LONG_GAP_UNITS * whole.unit)) {
    const { unit, misfit } = fitUnit(passage, whole.unit)
    if (misfit > MISFIT_MAX) return null
    const wordGapSeconds = 0.5 * (CHARACTER_GAP_UNITS + WORD_GAP_UNITS) * unit
    const words = split(passage, wordGapSeconds).map((of) => readWord(of, unit, tones))
    for (const word of words) {
      if (word === null) return null
      heard.push(word)
    }
  }
  return isPlausible(heard) ? group(heard) : null
}

/** Null when the tone changes within the word. */
function readWord(beeps: readonly Beep[], unit: number, tones: readonly number[]): HeardWord | null {
  const text = split(beeps, 0.5 * (1 + CHARACTER_GAP_UNITS) * unit)
    .map((signs) =>
      signs.map(({ start, end }) => (end - start < 0.5 * (1 + DASH_UNITS) * unit ? '.' : '-')).join(''),
    )
    .map((symbol) => characterOf(symbol) ?? UNKNOWN)
    .join('')
  const strengths = tones.map((_, tone) => sum(beeps.map((beep) => beep.strengths[tone] ?? 0)))
  const strongest = Math.max(...strengths)
  const all = sum(beeps.map((beep) => Math.max(...beep.strengths)))
  if (strongest < all * (1 - STRAY_PART_MAX)) return null
  const hertz = Math.round(tones[strengths.indexOf(strongest)] ?? 0)
  return { text, start: beeps[0]?.start ?? 0, end: beeps.at(-1)?.end ?? 0, hertz, unit }
}

/** Few unknown symbols, and not a row of single notes in several tones, which would read as "e" and "t". */
function isPlausible(words: readonly HeardWord[]): boolean {
  const text = words.map((word) => word.text).join('')
  const unknown = text.split(UNKNOWN).length - 1
  const tones = new Set(words.map(({ hertz }) => hertz))
  return unknown <= text.length * UNKNOWN_PART_MAX && !(tones.size > 1 && /^[et]+$/.test(text))
}

/** Cuts a row of beeps wherever the silence between two is longer. */
function split(beeps: readonly Beep[], gapSeconds: number): Beep[][] {
  const parts: Beep[][] = []
  for (const [index, beep] of beeps.entries()) {
    const before = beeps[index - 1]
    if (before === undefined || beep.start - before.end > gapSeconds) parts.push([])
    parts.at(-1)?.push(beep)
  }
  return parts
}

function group(words: readonly HeardWord[]): HeardSegment[] {
  const groups: HeardWord[][] = []
  for (const [index, word] of words.entries()) {
    const before = words[index - 1]
    const apart =
      before === undefined ||
      /[.?!]$/.test(before.text) ||
      before.hertz !== word.hertz ||
      word.start - before.end > LONG_GAP_UNITS * Math.max(before.unit, word.unit)
    if (apart) groups.push([])
    groups.at(-1)?.push(word)
  }
  return groups.map((of) => ({ start: of[0]!.start, end: of.at(-1)!.end, hertz: of[0]!.hertz, words: of }))
}

/**
 * The unit that the lengths of tones and gaps fit best: tones are 1 or 3 units, gaps 1, 3, 7 or more.
 *
 * @param expected unit that decides where several fit, seconds
 */
function fitUnit(beeps: readonly Beep[], expected: number): { unit: number; misfit: number } {
  const some = beeps.slice(0, LENGTHS_MAX)
  const tones = some.map(({ start, end }) => Math.log(end - start))
  const gaps = some
    .slice(1)
    .map(({ start }, index) => Math.log(Math.max(1e-4, start - (some[index]?.end ?? 0))))
  let best = { unit: expected, misfit: Number.POSITIVE_INFINITY }
  let least = Number.POSITIVE_INFINITY
  for (let unit = UNIT_MIN_SECONDS; unit <= UNIT_MAX_SECONDS; unit *= 1.02) {
    const misfit = meanMisfit(tones, unit, [1, DASH_UNITS]) + meanMisfit(gaps, unit, GAPS)
    const cost = misfit + EXPECTATION_WEIGHT * Math.log(unit / expected) ** 2
    if (cost < least) [best, least] = [{ unit, misfit }, cost]
  }
  return best
}

const GAPS = [1, CHARACTER_GAP_UNITS, WORD_GAP_UNITS, Number.POSITIVE_INFINITY]

function meanMisfit(logarithms: readonly number[], unit: number, lengths: readonly number[]): number {
  if (logarithms.length === 0) return 0
  const targets = lengths.map((length) => Math.log(length * unit))
  const misfits = logarithms.map((value) => {
    let least = Number.POSITIVE_INFINITY
    for (const [index, target] of targets.entries()) {
      // Any pause over a word gap is as good as one.
      const off =
        target === Number.POSITIVE_INFINITY && value > (targets[index - 1] ?? 0) ? 0 : value - target
      least = Math.min(least, off * off)
    }
    return least
  })
  return sum(misfits) / logarithms.length
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
