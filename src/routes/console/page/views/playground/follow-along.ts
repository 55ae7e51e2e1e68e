import type { Segment, Word } from '../../../../../schema/calls.ts'

/** A word, or where there are no word times a whole segment, that is lit while it is heard. */
export interface Mark {
  readonly text: string
  /** Seconds from the beginning of the audio. */
  readonly start: number
  readonly end: number
}

/** What one speaker says before the next one does, or one segment. */
export interface Turn {
  /** Null where nobody was told apart. */
  readonly who: string | null
  readonly start: number
  /** Texts in their order; those with a number are that mark, the others stand between. */
  readonly pieces: readonly Piece[]
}

export interface Piece {
  readonly text: string
  readonly mark: number | null
}

/** A transcript laid out for reading along. */
export interface FollowAlong {
  /** In the order of their beginnings. */
  readonly marks: readonly Mark[]
  readonly turns: readonly Turn[]
}

/** How long a mark stays lit behind its end when no other begins, in seconds: or it would flicker between words. */
const LINGER_SECONDS = 0.4

type Timed = (Segment | Word) & Mark

/**
 * Lays a transcript out. Punctuation and spaces are those of the content, as far as the words are found in it in their
 * order; where they are not, a space stands between them.
 */
export function followAlong(
  content: string,
  words: readonly Word[],
  segments: readonly Segment[],
): FollowAlong {
  const timed: readonly Timed[] =
    words.length > 0
      ? words.map((word) => ({ ...word, text: word.word }))
      : segments.map((segment) => ({ ...segment, text: segment.text.trim() }))
  const marks = timed.filter(({ text }) => text !== '').toSorted((one, other) => one.start - other.start)
  if (marks.length === 0) {
    const pieces = content === '' ? [] : [{ text: content, mark: null }]
    return { marks, turns: pieces.length === 0 ? [] : [{ who: null, start: 0, pieces }] }
  }
  const gaps = gapsOf(content, marks)
  const breaks = words.length > 0 ? breaksOf(marks, segments) : new Set(marks.keys())
  const turns: Turn[] = []
  let pieces: Piece[] = []
  for (const [index, mark] of marks.entries()) {
    const begins = index === 0 || breaks.has(index) || whoOf(mark) !== whoOf(marks[index - 1])
    if (begins) {
      pieces = []
      turns.push({ who: whoOf(mark), start: mark.start, pieces })
    }
    const gap = begins ? gaps[index]?.trimStart() : gaps[index]
    if (gap) pieces.push({ text: gap, mark: null })
    pieces.push({ text: mark.text, mark: index })
    // What ends a sentence belongs to the turn that it ends.
    const rest = gaps[index + 1] ?? ''
    const closing = /^[^\s\p{Ps}\p{Pi}¿¡]+(?=\s|$)/u.exec(rest)?.[0] ?? ''
    if (closing !== '') {
      pieces.push({ text: closing, mark: null })
      gaps[index + 1] = rest.slice(closing.length)
    }
  }
  return { marks, turns }
}

/**
 * The mark that is heard at a moment.
 *
 * @param marks in the order of their beginnings
 * @returns its index; null before the first, and in a silence
 */
export function markAt(marks: readonly Mark[], seconds: number): number | null {
  let low = 0
  let high = marks.length
  while (low < high) {
    const middle = (low + high) >>> 1
    if ((marks[middle]?.start ?? Infinity) <= seconds) low = middle + 1
    else high = middle
  }
  const mark = marks[low - 1]
  return mark !== undefined && seconds < mark.end + LINGER_SECONDS ? low - 1 : null
}

/** How far ahead a word is looked for, in characters: what is further away is another word that reads the same. */
const REACH = 40

/** What stands before each mark, and behind the last: one more than there are marks. */
function gapsOf(content: string, marks: readonly Mark[]): string[] {
  const gaps: string[] = []
  let from = 0
  let reach = REACH
  for (const [index, { text }] of marks.entries()) {
    const at = content.indexOf(text, from)
    const found = at >= 0 && at - from <= reach
    gaps.push(found ? betweenWords(content.slice(from, at), index) : betweenWords(null, index))
    // Words that are written otherwise in the content have to be passed over.
    reach = found ? REACH : reach + 2 * text.length
    if (found) from = at + text.length
  }
  const rest = content.slice(from)
  return [...gaps, isWordless(rest) ? rest : '']
}

/** A gap that holds words of its own holds those that were not found. */
function betweenWords(gap: string | null, index: number): string {
  return gap !== null && isWordless(gap) ? gap : index === 0 ? '' : ' '
}

function isWordless(text: string): boolean {
  return !/[\p{L}\p{N}]/u.test(text)
}

/** Where words go on in the next segment. */
function breaksOf(marks: readonly Mark[], segments: readonly Segment[]): ReadonlySet<number> {
  const starts = segments.map(({ start }) => start).toSorted((one, other) => one - other)
  const breaks = new Set<number>()
  let index = 0
  for (const start of starts.slice(1)) {
    while (index < marks.length && (marks[index]?.start ?? 0) < start - 0.001) index++
    breaks.add(index)
  }
  return breaks
}

function whoOf(mark: Timed | undefined): string | null {
  const speaker = mark?.speaker?.replace(/^speaker_(\d+)$/, (_, number) => `Speaker ${Number(number) + 1}`)
  const channel = mark?.channel === undefined ? null : `channel ${mark.channel + 1}`
  if (speaker === undefined) return channel === null ? null : `Channel ${channel.slice(8)}`
  return channel === null ? speaker : `${speaker}, ${channel}`
}
