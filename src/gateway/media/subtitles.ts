import type { Segment, SubtitleRules, Word } from '../../contracts/calls.ts'
import { countCharacters } from '../../contracts/characters.ts'

/** Longest that a subtitle stays, and shortest where there is room, seconds. */
const SECONDS_MOST = 7
const SECONDS_LEAST = 1
/** Between two subtitles, so that a viewer sees that there is another: two pictures at 25 a second. */
const GAP_SECONDS = 0.08
/** A pause that ends a subtitle. */
const PAUSE_SECONDS = 1.5
/** How far a word may be outside its segment, since both times are rounded. */
const SLACK_SECONDS = 0.05
const SENTENCE_END = /[.!?\u2026\u3002\uff01\uff1f]["'\u2019\u201d)\]]?$/

/** A piece of text that is not divided, at its time. */
interface Token {
  readonly text: string
  readonly start: number
  readonly end: number
  readonly segment: Segment
  /** It continues the token before, without a space: of writing that has none. */
  readonly isGlued: boolean
}

/**
 * Cuts a transcript into subtitles that can be read: lines of a length, a few of them, none for longer than seven
 * seconds, each as long as reading it takes where the speech after it leaves room. A subtitle ends with a sentence, a
 * pause, a speaker and a channel.
 *
 * Texts are those of the segments, which have their punctuation. Times are those of the words where as many fall into a
 * segment as it has, else the time of the segment is divided among its characters.
 *
 * @returns segments whose texts have line ends where lines end
 */
export function subtitleSegments(
  { segments, words }: { readonly segments: readonly Segment[]; readonly words: readonly Word[] },
  rules: SubtitleRules,
): Segment[] {
  const timed = new WordTimes(words)
  const tokens = [...segments]
    .sort((one, other) => one.start - other.start)
    .flatMap((segment) => segmentTokens(segment, timed, rules.lineLength))
  const cues = cuesOf(tokens, rules)
  return cues.map((cue, id) => {
    const [first, last] = [cue[0]!, cue.at(-1)!]
    const text = balanced(cue, rules)
    const { confidence: _, ...segment } = first.segment
    const next = cues[id + 1]?.[0]?.start ?? Number.POSITIVE_INFINITY
    return { ...segment, id, start: first.start, end: cueEnd(first.start, last.end, next, text, rules), text }
  })
}

/** Gives each segment the words that were said in it. */
class WordTimes {
  readonly #channels = new Map<number | undefined, { readonly words: Word[]; at: number }>()

  constructor(words: readonly Word[]) {
    for (const word of [...words].sort((one, other) => one.start - other.start)) {
      if (word.kind !== undefined) continue
      const known = this.#channels.get(word.channel)
      if (known === undefined) this.#channels.set(word.channel, { words: [word], at: 0 })
      else known.words.push(word)
    }
  }

  /** Is asked for segments in the order of their beginnings. @param most words; one more tells that there are more */
  of({ channel, start, end }: Segment, most: number): Word[] {
    const known = this.#channels.get(channel)
    if (known === undefined) return []
    const { words } = known
    while (known.at < words.length && words[known.at]!.start < start - SLACK_SECONDS) known.at += 1
    const found: Word[] = []
    for (let at = known.at; at < words.length && words[at]!.start <= end + SLACK_SECONDS; at += 1)
      if (words[at]!.end <= end + SLACK_SECONDS && found.push(words[at]!) > most) break
    return found
  }
}

function segmentTokens(segment: Segment, timed: WordTimes, lineLength: number): Token[] {
  const texts = segment.text.split(/\s+/u).filter(Boolean)
  const words = timed.of(segment, texts.length)
  const isTimed = words.length === texts.length
  const length = texts.reduce((sum, text) => sum + text.length, 0)
  const seconds = Math.max(0, segment.end - segment.start)
  let before = 0
  return texts.flatMap((text, index) => {
    const at = (characters: number) => segment.start + (seconds * characters) / Math.max(1, length)
    const [start, end] = isTimed
      ? [words[index]!.start, words[index]!.end]
      : [at(before), at(before + text.length)]
    before += text.length
    return piecesOf(text, lineLength).map((piece, part, all) => ({
      text: piece,
      start: start + ((end - start) * part) / all.length,
      end: start + ((end - start) * (part + 1)) / all.length,
      segment,
      isGlued: part > 0,
    }))
  })
}

/** A text that is longer than a line in pieces that are not. */
function piecesOf(text: string, lineLength: number): string[] {
  const characters = [...text]
  if (characters.length <= lineLength) return [text]
  const count = Math.ceil(characters.length / lineLength)
  const size = Math.ceil(characters.length / count)
  return Array.from({ length: count }, (_, at) => characters.slice(at * size, (at + 1) * size).join(''))
}

function cuesOf(tokens: readonly Token[], rules: SubtitleRules): Token[][] {
  const cues: Token[][] = []
  /** Lines of the cue under way, by their lengths. */
  let lines: number[] = []
  for (const token of tokens) {
    const cue = cues.at(-1)
    const size = countCharacters(token.text)
    const line = lines.at(-1) ?? 0
    const longer = line + size + (token.isGlued ? 0 : 1)
    const isFull = longer > rules.lineLength && lines.length === rules.lines
    if (cue === undefined || isFull || endsBefore(cue, token)) {
      cues.push([token])
      lines = [size]
    } else {
      cue.push(token)
      if (longer > rules.lineLength) lines.push(size)
      else lines[lines.length - 1] = longer
    }
  }
  return cues
}

function endsBefore(cue: readonly Token[], { segment, start, end }: Token): boolean {
  const [first, last] = [cue[0]!, cue.at(-1)!]
  if (segment.speaker !== last.segment.speaker || segment.channel !== last.segment.channel) return true
  if (start - last.end >= PAUSE_SECONDS || end - first.start > SECONDS_MOST) return true
  return SENTENCE_END.test(last.text) && last.end - first.start >= SECONDS_LEAST
}

/** The text in as few lines as it takes, as even as they can be. */
function balanced(cue: readonly Token[], { lineLength }: SubtitleRules): string {
  const { length: count } = wrapped(cue, lineLength)
  let width = Math.ceil(cue.reduce((sum, { text }) => sum + countCharacters(text) + 1, 0) / count)
  while (width < lineLength && wrapped(cue, width).length > count) width += 1
  return wrapped(cue, Math.min(width, lineLength)).join('\n')
}

function wrapped(cue: readonly Token[], width: number): string[] {
  const lines: string[] = []
  for (const { text, isGlued } of cue) {
    const line = lines.at(-1)
    const longer = line === undefined ? text : `${line}${isGlued ? '' : ' '}${text}`
    if (line === undefined || countCharacters(longer) > width) lines.push(text)
    else lines[lines.length - 1] = longer
  }
  return lines
}

/** As long as reading takes, where that is longer than the speech and the next subtitle leaves room. */
function cueEnd(start: number, end: number, next: number, text: string, rules: SubtitleRules): number {
  const reading = Math.max(SECONDS_LEAST, countCharacters(text) / rules.charactersPerSecond)
  const wanted = Math.min(start + Math.min(reading, SECONDS_MOST), next - GAP_SECONDS)
  return Math.max(end, wanted)
}
