import type { Segment, SegmentFigures, TranscriptionResult, Word } from '../../../contracts/calls.ts'
import type { AudioPart, Stretch } from '../../../contracts/parts.ts'
import { toMilliseconds } from '../../../contracts/seconds.ts'
import { WORD } from './transcript-quality.ts'

/** A part beside what was heard in it, by its own clock. */
export interface HeardStretch {
  readonly part: AudioPart
  readonly result: TranscriptionResult
}

/** Most words of either side that are compared where two parts have sound in common. */
const COMPARED_WORDS = 40
/** Fastest speech. */
const WORDS_PER_SECOND = 6

/**
 * Makes one transcript of what was heard in parts, in their order, with the times of the whole. Where two parts were
 * cut in silence their texts follow one another; where they have sound in common, the words that both have are kept
 * once. Names of speakers in several parts are left out, since they do not mean the same persons.
 */
export function stitched(stretches: readonly HeardStretch[]): TranscriptionResult {
  const { language, confidence, warnings } = languageOf(stretches)
  const placed = stretches.map((stretch) => place(stretch, stretches.length === 1, language))
  for (const [index, one] of placed.entries()) {
    const next = placed[index + 1]
    if (next !== undefined && !stretches[index]!.part.endsQuietly)
      sew(one, next, stretches[index]!.part, stretches[index + 1]!.part)
  }
  const results = stretches.map(({ result }) => result)
  const uncut = stretches.every(({ part }, index) => part.endsQuietly || index === stretches.length - 1)
  const logprobs = results.flatMap((result) => result.logprobs ?? [])
  const segments = placed.flatMap((one) => one.segments)
  const hasFigures = segments.length > 0 && segments.every(({ figures }) => figures !== undefined)
  return {
    text: joinedTexts(placed.map(({ text }) => text)),
    language,
    languageConfidence: confidence,
    durationSeconds: stretches.at(-1)?.part.toSeconds ?? null,
    segments: segments.map(({ segment }, id) => ({ ...segment, id })),
    words: placed.flatMap(({ words }) => words),
    warnings: [...new Set([...results.flatMap((result) => result.warnings), ...warnings])],
    ...(hasFigures ? { figures: segments.map(({ figures }) => figures!) } : {}),
    // The figures of words that are heard twice cannot be told apart.
    ...(uncut && logprobs.length > 0 ? { logprobs } : {}),
  }
}

/** The transcript of a part, by the clock of the whole. */
interface Placed {
  text: string
  words: Word[]
  segments: PlacedSegment[]
}

interface PlacedSegment {
  segment: Segment
  readonly figures: SegmentFigures | undefined
}

/** @param language of the whole: segments in another one say so */
function place({ part, result }: HeardStretch, namesSpeakers: boolean, language: string | null): Placed {
  const other = result.language !== null && result.language !== language ? { language: result.language } : {}
  const at = clockOf(part)
  const moved = <Timed extends { readonly start: number; readonly end: number; readonly speaker?: string }>(
    one: Timed,
  ): Omit<Timed, 'speaker'> => {
    const { speaker, ...rest } = one
    const named = namesSpeakers && speaker !== undefined ? { speaker } : {}
    return { ...rest, ...named, start: at(one.start), end: at(one.end, true) }
  }
  return {
    text: result.text.trim(),
    words: result.words.map((word) => {
      const { characters } = word
      const times = (list: readonly number[]) => list.map((second) => at(second))
      return characters === undefined
        ? moved(word)
        : {
            ...moved(word),
            characters: { ...characters, starts: times(characters.starts), ends: times(characters.ends) },
          }
    }),
    segments: result.segments.map((segment, index) => ({
      segment: { ...moved(segment), ...other },
      figures: result.figures?.[index],
    })),
  }
}

/** Turns a second of a part into that of the whole. @param isEnd an end belongs to the sound before a silence */
function clockOf({ startSeconds, stretches }: AudioPart): (second: number, isEnd?: boolean) => number {
  if (stretches === undefined) return (second) => toMilliseconds(Math.max(0, second + startSeconds))
  return (second, isEnd = false) => {
    const isBegun = ({ atSeconds }: Stretch) => (isEnd ? atSeconds < second : atSeconds <= second)
    const stretch = stretches.findLast(isBegun) ?? stretches[0]!
    return toMilliseconds(Math.max(0, second - stretch.atSeconds + stretch.startSeconds))
  }
}

/** Takes from both sides of a cut within speech what the other one has. */
function sew(before: Placed, after: Placed, left: AudioPart, right: AudioPart): void {
  const common = Math.max(0, left.endSeconds - right.startSeconds)
  const most = Math.min(COMPARED_WORDS, Math.ceil(common * WORDS_PER_SECOND) + 1)
  const cut = left.toSeconds
  const tail = before.words.filter(({ end }) => end > right.startSeconds)
  const head = after.words.filter(({ start }) => start < left.endSeconds)
  // Words with times tell how many of them both sides have; what is alike beyond those was said twice.
  const hasWords = before.words.length > 0 && after.words.length > 0
  const [mostTail, mostHead] = hasWords ? [tail.length, head.length] : [most, most]
  const [textTail, textHead] = [textTokens(before.text), textTokens(after.text)]
  const ofText = seamOf(
    textTail.slice(Math.max(0, textTail.length - mostTail)),
    textHead.slice(0, mostHead),
    most,
  )
  const ofWords =
    seamOf(
      tail.map(({ word }) => norm(word)),
      head.map(({ word }) => norm(word)),
      most,
    ) ??
    (tail.length + head.length === 0
      ? null
      : { dropTail: later(tail, cut), dropHead: head.length - later(head, cut) })
  const seam = ofText ?? ofWords
  if (ofWords !== null) {
    before.words.length -= ofWords.dropTail
    after.words.splice(0, ofWords.dropHead)
  }
  if (seam === null) return
  before.text = withoutTail(before.text, seam.dropTail)
  after.text = withoutHead(after.text, seam.dropHead)
  trim(before.segments, seam.dropTail, true, cut)
  trim(after.segments, seam.dropHead, false, cut)
}

/** How many of the words have their middle behind a moment. */
function later(words: readonly Word[], at: number): number {
  return words.filter(({ start, end }) => (start + end) / 2 >= at).length
}

interface Seam {
  /** Words at the end of the one side, and at the beginning of the other, that come twice or are broken. */
  readonly dropTail: number
  readonly dropHead: number
}

/** Finds the longest run of words that the end of one text and the beginning of another share; null: there is none. */
export function seamOf(before: readonly string[], after: readonly string[], most: number): Seam | null {
  const tail = before.slice(-most)
  const head = after.slice(0, most)
  let best = { length: 0, tailEnd: 0, headEnd: 0 }
  let above: number[] = []
  for (let row = 0; row < tail.length; row += 1) {
    const current: number[] = []
    for (let column = 0; column < head.length; column += 1) {
      const isSame = tail[row] !== '' && tail[row] === head[column]
      const length = isSame ? (above[column - 1] ?? 0) + 1 : 0
      current.push(length)
      // The later one of two that are as long.
      if (length > 0 && length >= best.length) best = { length, tailEnd: row + 1, headEnd: column + 1 }
    }
    above = current
  }
  if (best.length === 0) return null
  return { dropTail: tail.length - best.tailEnd, dropHead: best.headEnd }
}

function textTokens(text: string): string[] {
  return spans(text).map(([from, to]) => norm(text.slice(from, to)))
}

function norm(word: string): string {
  return (word.toLowerCase().match(WORD) ?? []).join('')
}

/** Where the words of a text are. Characters of scripts without spaces are words. */
function spans(text: string): [from: number, to: number][] {
  return [...text.matchAll(WORD)].map(({ index, 0: { length } }) => [index, index + length])
}

function withoutTail(text: string, words: number): string {
  if (words === 0) return text
  const all = spans(text)
  return text.slice(0, all.at(-words - 1)?.[1] ?? 0).trim()
}

function withoutHead(text: string, words: number): string {
  if (words === 0) return text
  const all = spans(text)
  return text.slice(all[words]?.[0] ?? text.length).trim()
}

/** Takes words from the end of the segments, or from their beginning. */
function trim(segments: PlacedSegment[], words: number, isTail: boolean, cut: number): void {
  for (let left = words; left > 0 && segments.length > 0; ) {
    const one = isTail ? segments.at(-1)! : segments[0]!
    const { start, end, text } = one.segment
    const has = spans(text).length
    const within = Math.min(end, Math.max(start, cut))
    if (has <= left) segments.splice(isTail ? -1 : 0, 1)
    else if (isTail) one.segment = { ...one.segment, text: withoutTail(text, left), end: within }
    else one.segment = { ...one.segment, text: withoutHead(text, left), start: within }
    left -= Math.min(has, left)
  }
}

/** Texts one behind another: with a space, but between scripts that have none. */
function joinedTexts(texts: readonly string[]): string {
  return texts
    .filter((text) => text !== '')
    .reduce((whole, text) => {
      const isTight = UNSPACED_END.test(whole) && UNSPACED_START.test(text)
      return whole === '' ? text : `${whole}${isTight ? '' : ' '}${text}`
    }, '')
}

const UNSPACED_END = /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}。、！？]$/u
const UNSPACED_START = /^[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Thai}]/u

/** The language of most seconds, and a warning where parts are in several. */
function languageOf(stretches: readonly HeardStretch[]) {
  const seconds = new Map<string, number>()
  for (const { part, result } of stretches)
    if (result.language !== null)
      seconds.set(result.language, (seconds.get(result.language) ?? 0) + part.toSeconds - part.fromSeconds)
  const [most] = [...seconds].toSorted(([, one], [, other]) => other - one)
  const language = most?.[0] ?? null
  const languages = stretches.flatMap(({ result }) =>
    result.language === language && result.languageConfidence !== null ? [result.languageConfidence] : [],
  )
  const confidence = languages.length === 0 ? null : Math.min(...languages)
  const names = [...seconds.keys()].join(', ')
  const warnings =
    seconds.size > 1 ? [`language: the parts are in ${names}; the one of most seconds is named`] : []
  return { language, confidence, warnings }
}
