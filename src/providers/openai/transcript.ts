import type { Segment, TranscriptionResult, Word } from '../../contracts/calls.ts'
import type { JsonObject } from '../../contracts/json.ts'
import { asObject, objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { secondsOf, spanOf } from '../numbers.ts'
import { untimedWarnings } from '../transcript-needs.ts'
import { readUsage } from './wire.ts'

/** The `gpt-4o` models stop after this many tokens and answer 200 with what they have. */
const OUTPUT_TOKENS_MAX = 2000

/**
 * Reads `json`, `verbose_json` or `diarized_json` as OpenAI and the servers that speak its language write
 * them. Only fields that are used are looked at; items without times are left out, with a warning.
 *
 * @param speakers whether to keep the speakers: `A`, `B` or names become `speaker_0`, … in order of
 * appearance
 * @param warnings of what was left out of the request
 * @returns null when there is no text
 */
export function readTranscript(
  body: JsonObject,
  speakers: boolean,
  warnings: readonly string[],
): TranscriptionResult | null {
  const { text, language, languages, duration, segments, words, usage } = body
  if (typeof text !== 'string') return null
  const items = objectsIn(segments)
  // Some servers put the words into the segments.
  const wordItems =
    words === undefined ? items.flatMap(({ words: inner }) => objectsIn(inner)) : objectsIn(words)
  const { seconds: metered, output_tokens: tokens } = asObject(usage) ?? {}
  const read = { segments: readSegments(items, speakers), words: wordItems.flatMap(readWord) }
  return {
    text: text.trim(),
    language: readLanguage(language, languages),
    languageConfidence: null,
    durationSeconds: secondsOf(numberIn(duration)) ?? secondsOf(metered),
    ...tokensIn(body),
    ...read,
    warnings: [
      ...warnings,
      ...(isCut(tokens) ? ['transcript_may_be_truncated'] : []),
      ...untimedWarnings('words', wordItems, 'word', read.words.length),
      ...untimedWarnings('segments', items, 'text', read.segments.length),
    ],
  }
}

function tokensIn(body: JsonObject): Pick<TranscriptionResult, 'tokens'> {
  const tokens = readUsage(body)
  return tokens === null || tokens.input_tokens === null || tokens.output_tokens === null ? {} : { tokens }
}

function readSegments(items: readonly JsonObject[], speakers: boolean): Segment[] {
  const labels = new Map<string, string>()
  const segments: Segment[] = []
  for (const { start, end, text, speaker } of items) {
    const times = spanOf(numberIn(start), numberIn(end))
    if (times === null || typeof text !== 'string') continue
    const segment = { id: segments.length, ...times, text: text.trim() }
    if (!speakers || typeof speaker !== 'string') {
      segments.push(segment)
      continue
    }
    const label = labels.get(speaker) ?? `speaker_${labels.size}`
    labels.set(speaker, label)
    segments.push({ ...segment, speaker: label })
  }
  return segments
}

function readWord(item: JsonObject): Word[] {
  const { word, start, end } = item
  const times = spanOf(numberIn(start), numberIn(end))
  return times === null || typeof word !== 'string' ? [] : [{ word: word.trim(), ...times }]
}

/** `language` is a name or a code; `languages` (gpt-transcribe) a list of codes, the main one first. */
function readLanguage(language: unknown, languages: unknown): string | null {
  const { code } = objectsIn(languages)[0] ?? {}
  const given = typeof language === 'string' ? language : code
  return typeof given === 'string' ? languageCode(given) : null
}

function isCut(tokens: unknown): boolean {
  return typeof tokens === 'number' && tokens >= OUTPUT_TOKENS_MAX
}

/** Older servers send numbers as text. */
function numberIn(value: unknown): unknown {
  return typeof value === 'string' && value.trim() !== '' ? Number(value) : value
}
