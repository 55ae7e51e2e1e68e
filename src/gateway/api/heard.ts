import type { Segment, Word } from '../../contracts/calls.ts'
import type { Job } from '../../contracts/jobs.ts'
import type { TranscriptionTask } from '../../contracts/operations.ts'
import type { Envelope, Outcome } from '../call/attempt/outcome.ts'
import { endsSentence, groupWords } from '../providers/segments.ts'
import { timestamp } from './json-reply.ts'

/** A silence this long ends a paragraph behind a sentence, seconds. */
const PARAGRAPH_GAP_SECONDS = 1

/** A transcript, and what is known of its audio. */
export interface Heard {
  readonly requestId: string
  readonly provider: string
  readonly model: string
  /** RFC 3339. */
  readonly created: string
  readonly durationSeconds: number
  readonly channels: number
  readonly text: string
  readonly language: string | null
  readonly languageConfidence: number | null
  readonly segments: readonly Segment[]
  readonly words: readonly Word[]
}

/** One channel, or all of them where they are not told apart. */
export interface Channel {
  readonly text: string
  readonly words: readonly Word[]
}

/** @param nowMs epoch milliseconds */
export function heardIn(
  { envelope, payload: { audio }, result }: Outcome<TranscriptionTask>,
  nowMs: number,
): Heard {
  return {
    requestId: envelope.id,
    provider: envelope.provider,
    model: envelope.model,
    created: timestamp(nowMs),
    durationSeconds: audio.durationSeconds ?? result.durationSeconds ?? 0,
    channels: audio.channels ?? 1,
    text: result.text,
    language: result.language,
    languageConfidence: result.languageConfidence,
    segments: result.segments,
    words: result.words,
  }
}

/** The result of a transcription job, as its worker kept it. */
export interface KeptResult extends Envelope {
  readonly language: string | null
  readonly language_confidence: number | null
  readonly duration_seconds: number | null
  readonly segments: readonly Segment[]
  readonly words: readonly Word[]
}

/** As `heardIn`, for a job that has ended. */
export function heardInJob({ endedAtMs, facts }: Job, kept: KeptResult): Heard {
  return {
    requestId: kept.id,
    provider: kept.provider,
    model: kept.model,
    created: timestamp(endedAtMs) ?? '',
    durationSeconds: kept.duration_seconds ?? 0,
    channels: facts?.audio_channels ?? 1,
    text: kept.content,
    language: kept.language,
    languageConfidence: kept.language_confidence,
    segments: kept.segments,
    words: kept.words,
  }
}

/** Channels with texts and words of their own; all is one where they are not told apart. */
export function channelsOf(
  { text, words, segments, channels: count }: Heard,
  multichannel: boolean,
): readonly Channel[] {
  if (!multichannel) return [{ text, words }]
  const lastChannel = segments.reduce((most, { channel = 0 }) => Math.max(most, channel + 1), count)
  return Array.from({ length: lastChannel }, (_, channel) => ({
    text: segments
      .filter((segment) => segment.channel === channel)
      .map((segment) => segment.text)
      .join(' '),
    words: words.filter((word) => word.channel === channel),
  }))
}

export type Group = ReturnType<typeof groupWords>[number]

/** Whether a word has another speaker than the one before. */
type IsOther = (before: Word | undefined, word: Word) => boolean

export function sentencesIn({ text, words }: Channel, isOther: IsOther): readonly Group[] {
  return groupWords(words, text, (group, next) => {
    const last = group.at(-1)
    return isOther(last, next) || (last !== undefined && endsSentence(last))
  })
}

/** Paragraphs end where the speaker changes, and with a sentence that silence follows. */
export function paragraphsIn(channel: Channel, isOther: IsOther): readonly (readonly Group[])[] {
  const groups: Group[][] = []
  for (const sentence of sentencesIn(channel, isOther)) {
    const before = groups.at(-1)?.at(-1)
    const goesOn =
      before !== undefined &&
      !isOther(before.words.at(-1), sentence.words[0]!) &&
      sentence.segment.start - before.segment.end < PARAGRAPH_GAP_SECONDS
    if (goesOn) groups.at(-1)?.push(sentence)
    else groups.push([sentence])
  }
  return groups
}
