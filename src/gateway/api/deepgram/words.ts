import type { Word } from '../../../contracts/calls.ts'
import { trimWhere } from '../../../contracts/trim.ts'

/** Clients leave out what is below a threshold of theirs: a word without a confidence is certain. */
export const UNKNOWN_CONFIDENCE = 1

const PUNCTUATION = /[\p{P}\p{S}]/u
const isPunctuation = (point: number): boolean => PUNCTUATION.test(String.fromCodePoint(point))

export function meanConfidence(words: readonly Word[]): number {
  const confidences = words.flatMap(({ confidence }) => confidence ?? [])
  return confidences.length === 0
    ? UNKNOWN_CONFIDENCE
    : confidences.reduce((sum, one) => sum + one, 0) / confidences.length
}

/** A word as Deepgram has it: bare, and as it is written. */
export function deepgramWord({ word, start, end, confidence = UNKNOWN_CONFIDENCE, speaker }: Word) {
  const bare = trimWhere(word.toLowerCase(), isPunctuation)
  return {
    word: bare === '' ? word : bare,
    ...{ start, end, confidence, punctuated_word: word },
    ...speakerOf(speaker),
  }
}

/** `speaker_0` is 0. */
export function speakerOf(speaker: string | undefined): { readonly speaker?: number } {
  const number = speaker === undefined ? Number.NaN : Number(speaker.replace('speaker_', ''))
  return Number.isInteger(number) ? { speaker: number } : {}
}
