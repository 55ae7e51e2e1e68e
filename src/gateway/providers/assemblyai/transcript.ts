import type { Segment, TranscriptionOptions, TranscriptionResult, Word } from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { fractionOf, secondsOf, spanOf } from '../numbers.ts'
import { segmentsOf } from '../segments.ts'
import { labelSpeakers } from '../speakers.ts'
import { untimedWarnings, wantsSpeakers } from '../transcript-needs.ts'

/**
 * Reads a completed transcript. Only fields that are used are looked at; items without times are left out, with a
 * warning. Turns of speakers or channels (`utterances`) are the segments where they come; else these are made of the
 * words.
 *
 * @returns null when there is no text
 */
export function readTranscript(
  body: JsonObject,
  options: TranscriptionOptions,
  warnings: readonly string[],
): TranscriptionResult | null {
  const { text: given, language_code: language, language_confidence: sure, audio_duration: duration } = body
  // Silence has no text at all.
  const text = given === null ? '' : given
  if (typeof text !== 'string') return null
  const [wordItems, turnItems] = [objectsIn(body.words), objectsIn(body.utterances)]
  const words = wordItems.flatMap((item) => readWord(item, options))
  const turns = turnItems.flatMap((item) => readTurn(item, options))
  const segments = turns.length > 0 ? turns.map((turn, id) => ({ id, ...turn })) : segmentsOf(words, text)
  return {
    text: text.trim(),
    language: typeof language === 'string' ? languageCode(language === 'jw' ? 'jv' : language) : null,
    languageConfidence: fractionOf(sure),
    durationSeconds: secondsOf(duration),
    ...labelSpeakers(words, segments),
    warnings: [
      ...warnings,
      ...untimedWarnings('words', wordItems, 'text', words.length),
      ...untimedWarnings('segments', turnItems, 'text', turns.length),
    ],
  }
}

function readWord(item: JsonObject, options: TranscriptionOptions): Word[] {
  const read = readItem(item, options)
  return read === null ? [] : [{ word: read.text, ...read.rest }]
}

function readTurn(item: JsonObject, options: TranscriptionOptions): Omit<Segment, 'id'>[] {
  const read = readItem(item, options)
  return read === null ? [] : [{ text: read.text, ...read.rest }]
}

/** Reads the parts that words and turns share. Times come in milliseconds. */
function readItem(
  { text, start, end, speaker, channel, confidence }: JsonObject,
  options: TranscriptionOptions,
) {
  const times = spanOf(start, end)
  const sure = fractionOf(confidence)
  if (typeof text !== 'string' || times === null) return null
  const place = options.multichannel ? channelOf(channel) : null
  // Channels are speakers of their own where the caller asked for none, and each channel begins with an A of its own.
  const who = wantsSpeakers(options) && typeof speaker === 'string' && speaker !== '' ? speaker : null
  return {
    text: text.trim(),
    rest: {
      start: times.start / 1000,
      end: times.end / 1000,
      ...(who === null ? {} : { speaker: place === null ? who : `${place}:${who}` }),
      ...(place === null ? {} : { channel: place }),
      ...(sure === null ? {} : { confidence: sure }),
    },
  }
}

/** The provider counts channels from "1". */
function channelOf(channel: unknown): number | null {
  return typeof channel === 'string' && /^[1-9]\d{0,2}$/.test(channel) ? Number(channel) - 1 : null
}
