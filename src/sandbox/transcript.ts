import { type Beep, findBeeps, loudnessOf } from './beeps.ts'
import { CHARACTER_GAP_UNITS, characterOf, DASH_UNITS, unitSeconds, WORD_GAP_UNITS } from './morse.ts'
import { type Recording, readWav } from './wav.ts'

/** A segment of a transcript; seconds. */
interface TranscriptSegment {
  readonly start: number
  readonly end: number
  readonly text: string
  /** `A`, `B`, … in order of appearance: one for each tone. */
  readonly speaker: string
}

export interface Transcript {
  readonly text: string
  /** Null where the container is not looked into. */
  readonly durationSeconds: number | null
  readonly segments: readonly TranscriptSegment[]
  readonly words: readonly { readonly word: string; readonly start: number; readonly end: number }[]
  /** Facts found in the bytes; `x_sandbox` in JSON answers. */
  readonly facts: Readonly<Record<string, string | number | null>>
}

/** Under this the recording is silent: a hundred-thousandth of full scale, half of a 16-bit step. */
const SILENCE = 1e-5

/**
 * Transcribes a file: the text of its Morse code, or the length and loudness of any other wav, or the size and format
 * of any other container. Null when the bytes are not audio.
 */
export function hearTranscript(file: Buffer): Transcript | null {
  const format = fileFormat(file)
  if (format === null) return null
  const recording = format === 'wav' ? readWav(file) : null
  if (recording === null) {
    const facts = { format, sample_rate: null, channels: null, seconds: null, dbfs: null }
    return describe(`${file.length} bytes of ${format}`, null, facts)
  }
  const seconds = roundSeconds((recording.channels[0]?.length ?? 0) / recording.sampleRate)
  const loudness = loudnessOf(recording)
  const dbfs = loudness < SILENCE ? null : Number((20 * Math.log10(loudness)).toFixed(1))
  const facts = {
    format,
    sample_rate: recording.sampleRate,
    channels: recording.channels.length,
    seconds,
    dbfs,
  }
  return (
    readMorse(recording, seconds, facts) ?? describe(sentenceOf(recording, seconds, dbfs), seconds, facts)
  )
}

function readMorse(recording: Recording, seconds: number, facts: Transcript['facts']): Transcript | null {
  const found = recognize(recording)
  if (found === null) return null
  const tones = [...new Set(found.map(({ hertz }) => hertz))]
  const segments = found.map(({ start, end, hertz, words }) => ({
    start: roundSeconds(start),
    end: roundSeconds(end),
    text: words.map((word) => word.text).join(' '),
    speaker: String.fromCharCode('A'.charCodeAt(0) + tones.indexOf(hertz)),
  }))
  const words = found
    .flatMap((segment) => segment.words)
    .map(({ text, start, end }) => ({ word: text, start: roundSeconds(start), end: roundSeconds(end) }))
  const text = segments.map((segment) => segment.text).join(' ')
  return {
    text,
    durationSeconds: seconds,
    segments,
    words,
    facts: { ...facts, tones_hertz: tones.join(', ') },
  }
}

/** A text about the audio, so each of its words is about all of it. */
function describe(text: string, seconds: number | null, facts: Transcript['facts']): Transcript {
  const span = { start: 0, end: seconds ?? 0 }
  const words = text.split(' ').map((word) => ({ word, ...span }))
  return { text, durationSeconds: seconds, segments: [{ ...span, text, speaker: 'A' }], words, facts }
}

function sentenceOf({ channels, sampleRate }: Recording, seconds: number, dbfs: number | null): string {
  const sound = dbfs === null ? 'silence' : `sound without morse code at ${dbfs} dbfs`
  const count = channels.length === 1 ? '1 channel' : `${channels.length} channels`
  return `${seconds} seconds of ${sound} in ${count} of ${sampleRate} hz`
}

/** The container by its first bytes. */
function fileFormat(file: Buffer): string | null {
  const head = file.toString('latin1', 0, 12)
  if (head.startsWith('RIFF') && head.endsWith('WAVE')) return 'wav'
  if (head.startsWith('fLaC')) return 'flac'
  if (head.startsWith('OggS')) return 'ogg'
  if (head.startsWith('ID3')) return 'mp3'
  if (head.slice(4, 8) === 'ftyp') return 'mp4'
  if (head.startsWith('\x1aE\xdf\xa3')) return 'webm'
  if (head.startsWith('\0\0\x01\xba')) return 'mpeg'
  // A frame of MPEG audio: eleven bits set, and a layer.
  const [first = 0, second = 0] = file
  return first === 0xff && (second & 0xe0) === 0xe0 && (second & 0x06) !== 0 ? 'mp3' : null
}

/** To milliseconds. */
export function roundSeconds(seconds: number): number {
  return Number(seconds.toFixed(3))
}

/** A word of Morse code; times are seconds from the beginning of the recording. */
interface SpokenWord {
  readonly text: string
  readonly start: number
  readonly end: number
  /** Tone that it was sent with, Hz. */
  readonly hertz: number
  /** Length of its dots, seconds. */
  readonly unit: number
}

/** Words that belong together: up to a long pause, the end of a sentence, or another tone. */
interface SpokenSegment {
  readonly start: number
  readonly end: number
  readonly hertz: number
  readonly words: readonly SpokenWord[]
}

/** A pause of so many units ends a segment, and a passage, whose speed is its own. */
const LONG_GAP_UNITS = 12
/** Units that speeds from 0.25 to 4 have, with some room; seconds. */
export const UNIT_MIN_SECONDS = 0.009
export const UNIT_MAX_SECONDS = 0.22
/** How far lengths may be from those of Morse code, as the mean square of the logarithm. A good hand has 0.02. */
const MISFIT_MAX = 0.1
/** Part of the symbols that may stand for nothing. */
const UNKNOWN_PART_MAX = 0.2
/** Part of a word's strength that may be in other tones than its own; a melody changes with every note. */
const STRAY_PART_MAX = 0.15
/** Stands for a symbol that stands for nothing. */
export const UNKNOWN = '\ufffd'
/** Draws the unit towards the expected one where the lengths leave it open: "tt" is "i" at a third of the speed. */
const EXPECTATION_WEIGHT = 0.01
/** Lengths that the unit is fitted to. */
const LENGTHS_MAX = 2000

/** Reads the Morse code of a recording; null when what it holds is none. */
export function recognize(recording: Recording): SpokenSegment[] | null {
  const { tones, beeps } = findBeeps(recording)
  if (beeps.length === 0) return null
  const whole = fitUnit(beeps, unitSeconds(1))
  const found: SpokenWord[] = []
  for (const passage of split(beeps, LONG_GAP_UNITS * whole.unit)) {
    const { unit, misfit } = fitUnit(passage, whole.unit)
    if (misfit > MISFIT_MAX) return null
    const wordGapSeconds = 0.5 * (CHARACTER_GAP_UNITS + WORD_GAP_UNITS) * unit
    const words = split(passage, wordGapSeconds).map((of) => heardWord(of, unit, tones))
    for (const word of words) {
      if (word === null) return null
      found.push(word)
    }
  }
  return isPlausible(found) ? group(found) : null
}

/** Null when the tone changes within the word. */
function heardWord(beeps: readonly Beep[], unit: number, tones: readonly number[]): SpokenWord | null {
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
function isPlausible(words: readonly SpokenWord[]): boolean {
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

function group(words: readonly SpokenWord[]): SpokenSegment[] {
  const groups: SpokenWord[][] = []
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

export const TRANSCRIPT_FORMATS = ['json', 'text', 'verbose_json', 'diarized_json', 'srt', 'vtt'] as const
export type TranscriptFormat = (typeof TRANSCRIPT_FORMATS)[number]

interface Rendering {
  readonly task: 'transcribe' | 'translate'
  readonly format: TranscriptFormat
  /** Asked-for `timestamp_granularities[]`; none means segments. */
  readonly granularities: readonly string[]
  /** The `x_sandbox` member of JSON answers. */
  readonly facts: Readonly<Record<string, unknown>>
}

/** A transcript in OpenAI's answer of one format. */
export function render(transcript: Transcript, rendering: Rendering): { contentType: string; body: string } {
  const { format, facts } = rendering
  if (format === 'text') return { contentType: 'text/plain; charset=utf-8', body: `${transcript.text}\n` }
  if (format === 'srt') return { contentType: 'text/plain; charset=utf-8', body: cues(transcript, ',', true) }
  if (format === 'vtt') {
    return { contentType: 'text/vtt; charset=utf-8', body: `WEBVTT\n\n${cues(transcript, '.', false)}` }
  }
  const usage = { type: 'duration', seconds: Math.ceil(transcript.durationSeconds ?? 0) }
  const body = { ...transcriptJson(transcript, rendering), usage, x_sandbox: facts }
  return { contentType: 'application/json', body: JSON.stringify(body) }
}

function transcriptJson(
  { text, durationSeconds, segments, words }: Transcript,
  { task, format, granularities }: Rendering,
) {
  const duration = durationSeconds === null ? {} : { duration: durationSeconds }
  if (format === 'json') return { text }
  if (format === 'diarized_json') {
    const said = segments.map((segment, index) => ({
      type: 'transcript.text.segment',
      id: `seg_${index}`,
      ...segment,
    }))
    return { task, ...duration, text, segments: said }
  }
  const timed = segments.map(({ speaker: _, ...segment }, id) => ({ id, seek: 0, ...segment, tokens: [] }))
  const wantsSegments = granularities.length === 0 || granularities.includes('segment')
  return {
    task,
    language: 'english',
    ...duration,
    text,
    ...(wantsSegments ? { segments: timed } : {}),
    ...(granularities.includes('word') ? { words } : {}),
  }
}

/** Subtitle cues; SubRip numbers them and has a comma before the milliseconds. */
function cues({ segments }: Transcript, point: ',' | '.', numbered: boolean): string {
  return segments
    .map(({ start, end, text }, index) => {
      const times = `${cueTime(start, point)} --> ${cueTime(end, point)}`
      return `${numbered ? `${index + 1}\n` : ''}${times}\n${text}\n\n`
    })
    .join('')
}

function cueTime(seconds: number, point: string): string {
  const milliseconds = Math.round(seconds * 1000)
  const [hours, minutes, rest] = [
    milliseconds / 3_600_000,
    (milliseconds / 60_000) % 60,
    (milliseconds / 1000) % 60,
  ]
  const [h, m, s] = [hours, minutes, rest].map((part) => String(Math.floor(part)).padStart(2, '0'))
  return `${h}:${m}:${s}${point}${String(milliseconds % 1000).padStart(3, '0')}`
}
