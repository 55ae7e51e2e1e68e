import type { Segment, TranscriptionResult, Word } from '../../schema/calls.ts'
import type { JsonObject } from '../../schema/json.ts'
import { asObject, objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { spanOf } from '../numbers.ts'
import { durationMs } from '../retry-after.ts'
import { segmentsOf } from '../segments.ts'
import { labelSpeakers } from '../speakers.ts'

/** One `audioTranscription`: what one speaker says at a stretch. */
interface Turn {
  readonly text: string
  readonly language: string | null
  readonly speaker: string | null
  readonly words: readonly Word[]
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
  const text = written === '' ? joined(turns.map(spoken)) : written
  const labelled = labelSpeakers(
    turns.flatMap(({ words }) => words),
    segmentsIn(turns, text),
  )
  return {
    text,
    language: turns.find(({ language }) => language !== null)?.language ?? null,
    languageConfidence: null,
    durationSeconds: null,
    ...labelled,
    warnings,
  }
}

function readTurn(transcription: JsonObject, speakers: boolean): Turn {
  const { text, languageCode: tag, speakerLabel, words, startOffset, endOffset } = transcription
  const speaker = speakers ? labelOf(speakerLabel) : null
  return {
    text: typeof text === 'string' ? text.trim() : '',
    language: typeof tag === 'string' ? languageCode(tag) : null,
    speaker,
    words: objectsIn(words).flatMap((word) => readWord(word, speaker, speakers)),
    times: spanOf(secondsIn(startOffset), secondsIn(endOffset)),
  }
}

function readWord(item: JsonObject, turnSpeaker: string | null, speakers: boolean): Word[] {
  const { word, startOffset, endOffset, speakerLabel } = item
  const times = spanOf(secondsIn(startOffset), secondsIn(endOffset))
  if (times === null || typeof word !== 'string' || word.trim() === '') return []
  const speaker = (speakers ? labelOf(speakerLabel) : null) ?? turnSpeaker
  return [{ word: word.trim(), ...times, ...(speaker === null ? {} : { speaker }) }]
}

/** Of words, cut where the speaker changes; without words, of the turns that have times of their own. */
function segmentsIn(turns: readonly Turn[], text: string): Segment[] {
  const words = turns.flatMap((turn) => turn.words)
  if (words.length > 0) return segmentsOf(words, text)
  const timed = turns.flatMap(({ times, speaker, text: said }) =>
    times === null || said === '' ? [] : [{ ...times, text: said, ...(speaker === null ? {} : { speaker }) }],
  )
  return timed.map((segment, id) => ({ id, ...segment }))
}

/** A turn with words need not have its text beside them. */
function spoken({ text, words }: Turn): string {
  return text === '' ? joined(words.map(({ word }) => word)) : text
}

function joined(texts: readonly string[]): string {
  return texts.filter((text) => text !== '').join(' ')
}

function labelOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}

/** A duration of protocol buffers as JSON has it, `"1.2s"`, in seconds; null when it is none. */
function secondsIn(offset: unknown): number | null {
  const milliseconds = durationMs(offset)
  return milliseconds === null ? null : Math.round(milliseconds) / 1000
}
