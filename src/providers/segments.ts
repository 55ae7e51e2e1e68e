import type { Segment, Word } from '../schema/calls.ts'

/** A silence this long ends a segment, seconds. */
const GAP_SECONDS = 1
/**
 * A full stop ends a segment only when it has lasted this long, seconds: "Yes." and "Dr." are no segments.
 */
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
 * languages differ in what is between words. A segment with a word that is not found in it is written with
 * blanks.
 */
export function segmentsOf(words: readonly Word[], text: string): Segment[] {
  const groups: Word[][] = []
  for (const word of words) {
    const group = groups.at(-1)
    if (group === undefined || endsBefore(group, word)) groups.push([word])
    else group.push(word)
  }
  const written = textWriter(text)
  return groups.map((group, id) => toSegment(id, group, written(group)))
}

function endsBefore(group: readonly Word[], next: Word): boolean {
  const [first, last] = [group[0], group.at(-1)]
  if (first === undefined || last === undefined) return false
  if (last.speaker !== next.speaker || last.channel !== next.channel) return true
  if (next.start - last.end >= GAP_SECONDS) return true
  if (next.end - first.start > SEGMENT_MAX_SECONDS) return true
  if (group.reduce((sum, { word }) => sum + word.length + 1, next.word.length) > SEGMENT_MAX_LENGTH)
    return true
  return SENTENCE_END.test(last.word) && last.end - first.start >= SENTENCE_MIN_SECONDS
}

/** Finds groups of words, one after the other, in the text that they come from. */
function textWriter(text: string): (group: readonly Word[]) => string {
  let cursor = 0
  return (group) => {
    let [at, from] = [cursor, -1]
    for (const { word } of group) {
      // A word that turns up further on is another of the same letters.
      const found = text.slice(at, at + word.length + SEGMENT_MAX_LENGTH).indexOf(word)
      if (found < 0) return group.map((item) => item.word).join(' ')
      if (from < 0) from = at + found
      at += found + word.length
    }
    cursor = at
    return text.slice(from, at).replaceAll(/\s+/g, ' ').trim()
  }
}

function toSegment(id: number, group: readonly Word[], text: string): Segment {
  const { speaker, channel, start = 0 } = group[0] ?? {}
  const sure = group.flatMap(({ confidence }) => (confidence === undefined ? [] : [confidence]))
  const mean = sure.reduce((sum, confidence) => sum + confidence, 0) / sure.length
  return {
    id,
    start,
    end: Math.max(start, ...group.map(({ end }) => end)),
    text,
    ...(speaker === undefined ? {} : { speaker }),
    ...(channel === undefined ? {} : { channel }),
    ...(sure.length > 0 && sure.length === group.length ? { confidence: round(mean) } : {}),
  }
}

function round(confidence: number): number {
  return Math.round(confidence * 10_000) / 10_000
}

/** What one channel of a recording holds. Its items name the channel themselves. */
export interface ChannelTranscript {
  readonly text: string
  readonly segments: readonly Segment[]
  readonly words: readonly Word[]
}

/**
 * One transcript of several channels: what was said first comes first, whoever said it. The text is the
 * segments'.
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
  return { text: segments.map(({ text }) => text).join(' '), segments, words }
}
