import type {
  Segment,
  SegmentFigures,
  TranscriptionOptions,
  TranscriptionResult,
  Word,
} from '../../../contracts/calls.ts'
import { extraValue } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { SpokenLogprob } from '../../../contracts/logprobs.ts'
import { asObject, objectsIn } from '../json.ts'
import { languageCode } from '../language.ts'
import { secondsOf, spanOf } from '../numbers.ts'
import { untimedWarnings, wantsSpeakers } from '../transcript-needs.ts'
import { readTokens } from './logprobs.ts'
import { readUsage } from './wire.ts'

/** The `gpt-4o` models stop after this many tokens and answer 200 with what they have. */
const OUTPUT_TOKENS_MAX = 2000

/**
 * Reads `json`, `verbose_json` or `diarized_json` as OpenAI and the servers that speak its language write
 * them. Only fields that are used are looked at; items without times are left out, with a warning.
 *
 * @param options  of the call: speakers are kept where they were asked for, those that the caller does not know become
 *                 `speaker_0`, … in order of appearance; figures and log probabilities likewise
 * @param warnings of what was left out of the request
 * @returns null when there is no text
 */
export function readTranscript(
  body: JsonObject,
  options: TranscriptionOptions,
  warnings: readonly string[],
): TranscriptionResult | null {
  const { text, language, languages, duration, segments, words, usage } = body
  if (typeof text !== 'string') return null
  const items = objectsIn(segments)
  // Some servers put the words into the segments.
  const wordItems =
    words === undefined ? items.flatMap(({ words: inner }) => objectsIn(inner)) : objectsIn(words)
  const { seconds: metered, output_tokens: tokens } = asObject(usage) ?? {}
  const timed = items.flatMap(timedItem)
  const read = { segments: readSegments(timed, options), words: wordItems.flatMap(readWord) }
  const isVerbose = options.response_format === 'verbose_json'
  return {
    text: text.trim(),
    language: readLanguage(language, languages),
    languageConfidence: null,
    durationSeconds: secondsOf(numberIn(duration)) ?? secondsOf(metered),
    ...tokensIn(body),
    ...read,
    ...(isVerbose && timed.length > 0 ? { figures: timed.map(({ item }) => readFigures(item)) } : {}),
    ...(extraValue(options, 'include') === undefined ? {} : { logprobs: readSpoken(body.logprobs) }),
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

/** A segment that can be read. */
interface TimedItem {
  readonly item: JsonObject
  readonly times: Pick<Segment, 'start' | 'end'>
  readonly text: string
}

function timedItem(item: JsonObject): TimedItem[] {
  const { start, end, text } = item
  const times = spanOf(numberIn(start), numberIn(end))
  return times === null || typeof text !== 'string' ? [] : [{ item, times, text: text.trim() }]
}

function readSegments(items: readonly TimedItem[], options: TranscriptionOptions): Segment[] {
  const speakers = wantsSpeakers(options)
  const known = extraValue(options, 'known_speaker_names')
  const labels = new Map<string, string>()
  for (const name of Array.isArray(known) ? known.map(String) : []) labels.set(name, name)
  const others = new Set(labels.keys())
  let number = 0
  return items.map(({ item: { speaker }, times, text }, id) => {
    const segment = { id, ...times, text }
    if (!speakers || typeof speaker !== 'string') return segment
    if (!labels.has(speaker)) {
      // A caller may have named one so, after an earlier answer.
      while (others.has(`speaker_${number}`)) number += 1
      labels.set(speaker, `speaker_${number++}`)
    }
    return { ...segment, speaker: labels.get(speaker)! }
  })
}

function readSpoken(value: unknown): SpokenLogprob[] {
  return readTokens(value).map(({ bytes, ...token }) => (bytes === null ? token : { ...token, bytes }))
}

const FIGURES = ['seek', 'temperature', 'avg_logprob', 'compression_ratio', 'no_speech_prob'] as const

function readFigures(item: JsonObject): SegmentFigures {
  const { tokens } = item
  const givenFigures = FIGURES.flatMap((name) => {
    const figure = numberIn(item[name])
    return typeof figure === 'number' && Number.isFinite(figure) ? [[name, figure] as const] : []
  })
  const isList = Array.isArray(tokens) && tokens.every((token) => Number.isSafeInteger(token))
  return { ...Object.fromEntries(givenFigures), ...(isList ? { tokens } : {}) }
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
