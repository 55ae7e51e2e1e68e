import type { Segment, Word } from '../../contracts/calls.ts'

/** A silence this long ends a segment, seconds. */
const GAP_SECONDS = 1
/** A full stop ends a segment only when it has lasted this long, seconds: "Yes." and "Dr." are no segments. */
const SENTENCE_MIN_SECONDS = 1
/** Longest segment, seconds, and UTF-16 units: what a reader of subtitles can follow. */
const SEGMENT_MAX_SECONDS = 12
const SEGMENT_MAX_LENGTH = 160

/** Ends of sentences, in scripts that have them, with the quotes and brackets that may close after. */
const SENTENCE_END = /[.!?…。！？｡।؟۔][\p{Pe}\p{Pf}"']*$/u

/**
 * Segments out of words, for providers that have only these: a new one begins where the speaker or the
 * channel changes, after a silence, after a sentence, and where one would grow too long.
 *
 * @param words in the order of time
 * @param text the transcript that they are the words of: a segment is written as it stands there, since
 * languages differ in what is between words, and with what no word of the list covers, so that nothing of the text
 * is lost. A segment with a word that is not found in it is written with blanks.
 */
export function segmentsOf(words: readonly Word[], text: string): Segment[] {
  return groupWords(words, text).map(({ segment }) => segment)
}

/** The same, each with the words that it is made of. @param ends tells whether a group ends before a word */
export function groupWords(
  words: readonly Word[],
  text: string,
  ends: (group: readonly Word[], next: Word) => boolean = endsBefore,
): { readonly segment: Segment; readonly words: readonly Word[] }[] {
  const groups: Word[][] = []
  for (const word of words) {
    const group = groups.at(-1)
    if (group === undefined || ends(group, word)) groups.push([word])
    else group.push(word)
  }
  const written = writeGroups(groups, text)
  return groups.map((group, id) => ({ segment: toSegment(id, group, written[id] ?? ''), words: group }))
}

function endsBefore(group: readonly Word[], next: Word): boolean {
  const [first, last] = [group[0], group.at(-1)]
  if (first === undefined || last === undefined) return false
  if (last.speaker !== next.speaker || last.channel !== next.channel) return true
  if (next.start - last.end >= GAP_SECONDS) return true
  if (next.end - first.start > SEGMENT_MAX_SECONDS) return true
  if (group.reduce((sum, { word }) => sum + word.length + 1, next.word.length) > SEGMENT_MAX_LENGTH)
    return true
  return endsSentence(last) && last.end - first.start >= SENTENCE_MIN_SECONDS
}

/** The mark behind a word ends a sentence, or an abbreviation. */
export function endsSentence({ word }: Pick<Word, 'word'>): boolean {
  return SENTENCE_END.test(word)
}

/** Position of a group of words in the text that it comes from. */
interface Place {
  readonly from: number
  readonly to: number
}

/** The text of each group, one after the other. What is between two of them goes to the first. */
function writeGroups(groups: readonly (readonly Word[])[], text: string): string[] {
  let cursor = 0
  const places = groups.map((group) => {
    const place = findGroup(group, text, cursor)
    cursor = place?.to ?? cursor
    return place
  })
  return groups.map((group, index) => {
    const place = places[index] ?? null
    if (place === null) return group.map(({ word }) => word).join(' ')
    const [before, after] = [places[index - 1], places[index + 1]]
    const from = index === 0 ? 0 : before ? gapEnd(text, before.to, place.from) : place.from
    const last = index === groups.length - 1
    const to = last ? text.length : after ? gapEnd(text, place.to, after.from) : place.to
    return text.slice(from, to).replaceAll(/\s+/g, ' ').trim()
  })
}

function findGroup(group: readonly Word[], text: string, cursor: number): Place | null {
  let [at, from] = [cursor, -1]
  for (const { word } of group) {
    // A word that turns up further on is another of the same letters.
    const found = text.slice(at, at + word.length + SEGMENT_MAX_LENGTH).indexOf(word)
    if (found < 0) return null
    if (from < 0) from = at + found
    at += found + word.length
  }
  return { from, to: at }
}

/** End of the gap between two groups that belongs to the first: an opening quote belongs to the word after it. */
function gapEnd(text: string, from: number, to: number): number {
  const opening = /\s(\S*)$/.exec(text.slice(from, to))?.[1] ?? ''
  return to - opening.length
}

function toSegment(id: number, group: readonly Word[], text: string): Segment {
  const { speaker, channel, start = 0 } = group[0] ?? {}
  const sure = group.flatMap(({ confidence }) => (confidence === undefined ? [] : [confidence]))
  const mean = sure.reduce((sum, confidence) => sum + confidence, 0) / sure.length
  return {
    id,
    start,
    // Not by a spread: a group may have more words than a call takes arguments.
    end: group.reduce((latest, { end }) => Math.max(latest, end), start),
    text,
    ...(speaker === undefined ? {} : { speaker }),
    ...(channel === undefined ? {} : { channel }),
    ...(sure.length > 0 && sure.length === group.length ? { confidence: round(mean) } : {}),
  }
}

function round(confidence: number): number {
  return Math.round(confidence * 10_000) / 10_000
}

/** Contents of one channel of a recording. Its items name the channel themselves. */
export interface ChannelTranscript {
  readonly text: string
  readonly segments: readonly Segment[]
  readonly words: readonly Word[]
}

/**
 * One transcript of several channels: what was said first comes first, whoever said it. Where segments lack a word of
 * their channel's own text, the text is that of the channels, one after the other: none is lost.
 */
export function mergeChannels(channels: readonly ChannelTranscript[]): {
  readonly text: string
  readonly segments: Segment[]
  readonly words: Word[]
} {
  const segments = channels
    .flatMap((channel) => channel.segments)
    .sort((a, b) => a.start - b.start)
    .map((segment, id) => ({ ...segment, id }))
  const words = channels.flatMap((channel) => channel.words).sort((a, b) => a.start - b.start)
  const whole = channels.every((channel) => lettersOf(channel.segments) === lettersOf([channel]))
  const starts = ({ segments: own }: ChannelTranscript) => Math.min(...own.map(({ start }) => start))
  const inOrder = channels.toSorted((a, b) => starts(a) - starts(b))
  const written: readonly { readonly text: string }[] = whole ? segments : inOrder
  return {
    text: written
      .map(({ text }) => text)
      .join(' ')
      .trim(),
    segments,
    words,
  }
}

/** Letters and digits, which are the same however a text is punctuated. */
function lettersOf(texts: readonly { readonly text: string }[]): string {
  return texts
    .map(({ text }) => text)
    .join('')
    .toLowerCase()
    .replaceAll(/[^\p{L}\p{N}]+/gu, '')
}
