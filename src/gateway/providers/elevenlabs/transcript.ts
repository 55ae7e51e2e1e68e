import type {
  CharacterTimes,
  TranscriptionOptions,
  TranscriptionResult,
  Word,
} from '../../../contracts/calls.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { fractionOf, secondsOf, spanOf } from '../numbers.ts'
import { type ChannelTranscript, mergeChannels, segmentsOf } from '../segments.ts'
import { labelSpeakers } from '../speakers.ts'
import { untimedWarnings, wantsSpeakers } from '../transcript-needs.ts'

/**
 * Reads the answer of `POST /v1/speech-to-text`: one transcript, or with `use_multi_channel` one for each channel
 * under `transcripts`. Only fields that are used are looked at; words without times are left out, with a warning.
 *
 * @param warnings of what was left out of the request
 * @returns null when there is no text, or a channel has text without words and so no place in time
 */
export function readTranscripts(
  body: JsonObject,
  options: TranscriptionOptions,
  warnings: readonly string[],
): TranscriptionResult | null {
  const split = options.multichannel && Array.isArray(body.transcripts)
  const parts = split ? objectsIn(body.transcripts) : [body]
  if (parts.length === 0 || parts.some(({ text }) => typeof text !== 'string')) return null
  const channels = parts.map((part, index) => readPart(part, index, options))
  const spoken = channels.filter(({ text }) => text !== '')
  if (options.multichannel && spoken.some(({ words }) => words.length === 0)) return null
  const [only = { text: '', words: [], segments: [] }] = spoken
  const { text, words, segments } = options.multichannel ? mergeChannels(spoken) : only
  // The channel with the most to say tells the language.
  const main = parts.reduce((best, part) => (textLength(part) > textLength(best) ? part : best))
  const { language_code: language, language_probability: probability } = main
  return {
    text,
    language: typeof language === 'string' ? languageCode(language) : null,
    languageConfidence: fractionOf(probability),
    durationSeconds: secondsOf(body.audio_duration_secs) ?? secondsOf(main.audio_duration_secs),
    ...labelSpeakers(words, segments),
    warnings: [
      ...warnings,
      ...untimedWarnings(
        'words',
        parts.flatMap((part) => objectsIn(part.words)).filter((item) => isKept(item, options)),
        'text',
        words.length,
      ),
    ],
  }
}

function readPart(part: JsonObject, index: number, options: TranscriptionOptions): ChannelTranscript {
  const { text, channel_index: given } = part
  const channel = typeof given === 'number' && Number.isInteger(given) && given >= 0 ? given : index
  const written = typeof text === 'string' ? text.trim() : ''
  const words = objectsIn(part.words).flatMap((item) => readWord(item, channel, options))
  words.sort((a, b) => a.start - b.start)
  return { text: written, words, segments: segmentsOf(words, written) }
}

/** Items are words, the blanks between them, and sounds such as laughter, which are kept where they were asked for. */
function readWord(item: JsonObject, channel: number, options: TranscriptionOptions): Word[] {
  const { text, start, end, speaker_id: id, logprob } = item
  const span = spanOf(start, end)
  if (span === null || !isKept(item, options) || typeof text !== 'string' || text.trim() === '') return []
  const confidence = typeof logprob === 'number' ? fractionOf(Math.exp(logprob)) : null
  const speaker = options.multichannel ? `channel ${channel}` : id
  const characters = options.character_times === true ? charactersIn(item) : null
  return [
    {
      word: text.trim(),
      ...span,
      ...(wantsSpeakers(options) && typeof speaker === 'string' ? { speaker } : {}),
      ...(options.multichannel ? { channel } : {}),
      ...(confidence === null ? {} : { confidence }),
      ...(item.type === EVENT ? { kind: 'event' as const } : {}),
      ...(characters === null ? {} : { characters }),
    },
  ]
}

/** Type of an item that is a sound. */
const EVENT = 'audio_event'

function isKept({ type }: JsonObject, { audio_events: tagged }: TranscriptionOptions): boolean {
  return type === undefined || type === 'word' || (type === EVENT && tagged === true)
}

/** The times of an item's characters, without those of blanks at its ends; null: it has none, or not all of them. */
function charactersIn({ characters: given }: JsonObject): CharacterTimes | null {
  const read = objectsIn(given).map(({ text, start, end }) => ({ text, span: spanOf(start, end) }))
  const [characters, starts, ends]: [string[], number[], number[]] = [[], [], []]
  for (const { text, span } of read) {
    if (typeof text !== 'string' || span === null) return null
    if (text.trim() === '') continue
    characters.push(text)
    starts.push(span.start)
    ends.push(span.end)
  }
  return characters.length === 0 ? null : { characters, starts, ends }
}

function textLength({ text }: JsonObject): number {
  return typeof text === 'string' ? text.length : 0
}
