import type { Segment, TranscriptionResult, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { asObject, objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { spanOf } from '../numbers.ts'
import { durationMs } from '../retry-after.ts'
import { segmentsOf } from '../segments.ts'
import { labelSpeakers } from '../speakers.ts'
import { untimedWarnings } from '../transcript-needs.ts'

/** One `audioTranscription`: what one speaker says at a stretch. */
interface Turn {
  readonly text: string
  /** The text, or the words where there is none beside them. */
  readonly said: string
  readonly language: string | null
  readonly speaker: string | null
  readonly words: readonly Word[]
  /** As they came, with those that have no times. */
  readonly items: readonly JsonObject[]
  /** Seconds; null when Gemini gives no times of the whole. */
  readonly times: Span | null
}

interface Span {
  readonly start: number
  readonly end: number
}

/**
 * Reads the parts of an answer of a transcribing model. Each `audioTranscription` is a turn; the text may
 * also come as plain text, with the turns beside it for words and speakers.
 * https://ai.google.dev/gemini-api/docs/generate-content/transcribe
 *
 * @param speakers whether to keep the speakers: `spk_1`, … become `speaker_0`, …
 * @param warnings of what was left out of the request
 * @returns null when there is neither text nor a turn
 */
export function readTranscript(
  parts: readonly JsonObject[],
  speakers: boolean,
  warnings: readonly string[],
): TranscriptionResult | null {
  const turns = parts
    .map((part) => asObject(part.audioTranscription))
    .filter((transcription) => transcription !== null)
    .map((transcription) => readTurn(transcription, speakers))
  const texts = parts.flatMap(({ text }) => (typeof text === 'string' ? [text] : []))
  if (turns.length === 0 && texts.length === 0) return null
  const written = turns.length === 0 || turns.some(({ text }) => text === '') ? texts.join('').trim() : ''
  const text = written === '' ? joinedTexts(turns.map(({ said }) => said)) : written
  const words = turns.flatMap((turn) => turn.words)
  const items = turns.flatMap((turn) => turn.items)
  const labelled = labelSpeakers(words, segmentsIn(turns, text))
  return {
    text,
    language: turns.find(({ language }) => language !== null)?.language ?? null,
    languageConfidence: null,
    durationSeconds: null,
    ...labelled,
    warnings: [...warnings, ...untimedWarnings('words', items, 'word', words.length)],
  }
}

function readTurn(transcription: JsonObject, speakers: boolean): Turn {
  const { text, languageCode: tag, speakerLabel, words, startOffset, endOffset } = transcription
  const speaker = speakers ? labelOf(speakerLabel) : null
  const items = objectsIn(words)
  const written = typeof text === 'string' ? text.trim() : ''
  const spelled = items.map(({ word }) => (typeof word === 'string' ? word.trim() : ''))
  return {
    text: written,
    said: written === '' ? joinedTexts(spelled) : written,
    language: typeof tag === 'string' ? languageCode(tag) : null,
    speaker,
    words: items.flatMap((word) => readWord(word, speaker, speakers)),
    items,
    times: timesOf(startOffset, endOffset),
  }
}

function readWord(item: JsonObject, turnSpeaker: string | null, speakers: boolean): Word[] {
  const { word, startOffset, endOffset, speakerLabel } = item
  const times = timesOf(startOffset, endOffset)
  if (times === null || typeof word !== 'string' || word.trim() === '') return []
  const speaker = (speakers ? labelOf(speakerLabel) : null) ?? turnSpeaker
  return [{ word: word.trim(), ...times, ...(speaker === null ? {} : { speaker }) }]
}

/** Makes segments of words, cut where the speaker changes; without words, of turns that have times of their own. */
function segmentsIn(turns: readonly Turn[], text: string): Segment[] {
  const words = turns.flatMap((turn) => turn.words)
  if (words.length > 0) return segmentsOf(words, text)
  const timed = turns.flatMap(({ times, speaker, text: said }) =>
    times === null || said === '' ? [] : [{ ...times, text: said, ...(speaker === null ? {} : { speaker }) }],
  )
  return timed.map((segment, id) => ({ id, ...segment }))
}

function joinedTexts(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(' ')
}

function labelOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/**
 * When something was said. Google's JSON leaves out what is zero, so that one end alone means that the other is at the
 * beginning; without both there are no times.
 */
function timesOf(start: unknown, end: unknown): Span | null {
  if (start === undefined && end === undefined) return null
  return spanOf(secondsIn(start ?? '0s'), secondsIn(end ?? '0s'))
}

/** A duration of protocol buffers as JSON has it, `"1.2s"`, in seconds; null when it is none. */
function secondsIn(offset: unknown): number | null {
  const milliseconds = durationMs(offset)
  return milliseconds === null ? null : Math.round(milliseconds) / 1000
}
