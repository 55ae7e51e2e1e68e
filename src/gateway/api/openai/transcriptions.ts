import { Type } from 'typebox'
import type { Segment, SegmentFigures, TranscriptionOptions, Word } from '../../../contracts/calls.ts'
import type { Principal } from '../../../contracts/catalog.ts'
import type { TranscriptionTask } from '../../../contracts/operations.ts'
import type { WholeResult } from '../../../contracts/slot-results.ts'
import type { Outcome } from '../../call/attempt/outcome.ts'
import { renderedText } from '../../call/attempt/transcript.ts'
import type { Exchange } from '../../edge/exchange.ts'
import { FieldReader, type Fields, withoutFields } from '../../edge/form.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import { languageName, SEVERAL_LANGUAGES } from '../../providers/language.ts'
import { doorSelectors, JsonOptions } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { factHeaders, streamFacts } from '../fact-headers.ts'
import { typedFields } from '../fields.ts'
import { optional } from '../json-request.ts'
import type { TranscriptionRun, TranscriptionShape } from '../native/transcription.ts'
import { answerTranscription, transcriptionBody } from '../native/transcription.ts'
import {
  readTranscriptionRequest,
  TRANSCRIPTION_FIELDS,
  type TranscriptionRequest,
  UNSTREAMED_FIELDS,
} from '../native/transcription-request.ts'
import { TRANSCRIPT_FACTS } from '../openapi/headers.ts'
import { OpenAiTranscript, OpenAiTranscriptEvent } from '../openapi/openai-answers.ts'
import type { Answer, Content } from '../openapi/operation.ts'
import { events, json, LEDGER_ERRORS, TRANSCRIPTION_ERRORS } from '../openapi/operation.ts'
import { MODEL_FIELD, OPENAI, openaiAnswer, warningsIn } from './door.ts'
import { TRANSCRIPTION_OPTIONS } from './options.ts'

const passed = new JsonOptions(TRANSCRIPTION_OPTIONS)

/** Fields of OpenAI's beside the gateway's own. */
const OPENAI_FIELDS = {
  model: MODEL_FIELD,
  keywords: optional(
    Type.Array(Type.String({ maxLength: 256 }), { maxItems: 1_000 }),
    'words to listen for, none of them empty; required of the model',
  ),
  languages: optional(
    Type.Array(Type.String({ maxLength: 35 }), { maxItems: 32 }),
    'of the speech, a hint; only a single one is passed on',
  ),
  chunking_strategy: optional(
    Type.String(),
    '`auto` is passed on to models that take it; any other strategy is not',
  ),
  ...passed.members,
}

const NAMES = Object.keys(OPENAI_FIELDS)
const read = typedFields(OPENAI_FIELDS)

/** Formats that fit into the events of a stream. */
const STREAMED_FORMATS: ReadonlySet<string> = new Set(['json', 'text', 'diarized_json'])

/**
 * Reads a transcription or translation from OpenAI's fields. Those are taken away, `model` before route-control fields
 * are looked for; the rest is read as the gateway's own, which has the same names for the same things.
 *
 * @throws GatewayError as `readTranscriptionRequest`
 */
export function readOpenAiTranscription(
  exchange: Exchange,
  fields: Fields,
  { task, offers }: TranscriptionRun,
  principal: Principal,
): TranscriptionRequest {
  const reader = new FieldReader(fields)
  const extras = passed.extrasOf((name) => read(reader, name as keyof typeof TRANSCRIPTION_OPTIONS))
  const model = read(reader, 'model') ?? null
  const keywords = read(reader, 'keywords') ?? []
  if (keywords.some((term) => term.trim() === '')) throw invalidField('keywords', 'must hold no empty term')
  const languages = read(reader, 'languages') ?? []
  const chunking = chunkingIn(fields)
  const own = withoutFields(fields, [...NAMES, ...NESTED_CHUNKING])
  const { options, stream, selectors, warnings } = readTranscriptionRequest(exchange, own, task, offers)
  if (stream && !STREAMED_FORMATS.has(options.response_format)) {
    throw invalidField(
      'response_format',
      `${MUST.beOneOf([...STREAMED_FORMATS])} where the answer is streamed`,
    )
  }
  if (languages.length > 0 && options.language !== null) {
    throw invalidField('languages', MUST.beLeftOut('send either `language` or `languages`'))
  }
  const [language = null] = languages
  const several = languages.length > 1
  return {
    options: {
      ...options,
      language: options.language ?? (several ? SEVERAL_LANGUAGES : language),
      detect_language: options.detect_language || several,
      keyterms: [...new Set([...options.keyterms, ...keywords])],
      ...(chunking.auto ? { chunking_strategy: 'auto' } : {}),
      ...extras,
    },
    stream,
    selectors: doorSelectors(selectors, principal, model),
    warnings: [
      ...warnings,
      ...(several ? ['languages: more than one cannot be passed on'] : []),
      ...chunking.warnings,
    ],
  }
}

/** Members of a strategy as OpenAI's clients write them into a form. */
const NESTED_CHUNKING = ['type', 'threshold', 'prefix_padding_ms', 'silence_duration_ms'].map(
  (member) => `chunking_strategy[${member}]`,
)

/** Fields by name; of a form the first value of each. */
function sentIn(fields: Fields): Readonly<Record<string, unknown>> {
  if (fields.kind === 'json') return fields.value
  return Object.fromEntries([...fields.values].map(([name, [first]]) => [name, first === '' ? null : first]))
}

function chunkingIn(fields: Fields): { readonly auto: boolean; readonly warnings: readonly string[] } {
  const sent = sentIn(fields)
  const strategy = sent.chunking_strategy ?? NESTED_CHUNKING.map((name) => sent[name]).find(Boolean) ?? null
  const auto = strategy === 'auto'
  return { auto, warnings: strategy === null || auto ? [] : ['chunking_strategy: only auto is passed on'] }
}

type TranscriptionOutcome = Outcome<TranscriptionTask>

/** SubRip is plain text at OpenAI. */
const CONTENT_TYPES = {
  text: 'text/plain; charset=utf-8',
  srt: 'text/plain; charset=utf-8',
  vtt: 'text/vtt; charset=utf-8',
}

/** In place of an unknown language, since the shape wants a word. */
const UNKNOWN = 'unknown'

/** Translates transcriptions or translations into OpenAI's answers. */
export function transcriptionShape(task: TranscriptionTask): TranscriptionShape {
  const answer = { name: 'openai', whole: (outcome: TranscriptionOutcome) => wholeResult(task, outcome) }
  const filled = {
    name: 'openai ai-sdk',
    whole: (outcome: TranscriptionOutcome) => wholeResult(task, outcome, NO_FIGURES),
  }
  return {
    ...answer,
    read: (exchange, ...rest) => ({
      ...readOpenAiTranscription(exchange, ...rest),
      answer: AI_SDK.test(exchange.headers['user-agent'] ?? '') ? filled : answer,
    }),
    events: (streaming) => ({
      headers: streamFacts(streaming),
      done: ({ result, payload, envelope }) => lastEvents(result, payload.options, envelope.warnings),
    }),
  }
}

/**
 * The AI SDK takes no segment without all of Whisper's figures, and hands out none of them: where the provider does not
 * tell one, it alone gets a zero.
 */
const AI_SDK = /(?:^|\s)ai-sdk[-/]/
const NO_FIGURES: SegmentFigures = {
  ...{ seek: 0, tokens: [], temperature: 0 },
  ...{ avg_logprob: 0, compression_ratio: 0, no_speech_prob: 0 },
}

/** @param unknown figures in the place of those that the provider does not tell */
function wholeResult(
  task: TranscriptionTask,
  outcome: TranscriptionOutcome,
  unknown: SegmentFigures = {},
): WholeResult {
  const { payload, result } = outcome
  const { response_format: format } = payload.options
  if (format === 'text' || format === 'srt' || format === 'vtt') {
    const { body } = renderedText(payload.options, result)!
    const facts = factHeaders(outcome.envelope)
    return { status: 200, headers: { 'content-type': CONTENT_TYPES[format], ...facts }, text: body }
  }
  const warned = format === 'verbose_json' ? withFigureWarning(outcome) : outcome
  const { envelope } = warned
  const headers = { 'content-type': 'application/json', ...factHeaders(envelope) }
  const body = { ...transcriptionJson(task, format, warned, unknown), ...warningsIn(envelope.warnings) }
  return { status: 200, headers, text: JSON.stringify(body) }
}

const FIGURES = Object.keys(NO_FIGURES) as readonly (keyof SegmentFigures)[]

/** The outcome with a warning that names the figures of its segments that the provider does not tell. */
function withFigureWarning(outcome: TranscriptionOutcome): TranscriptionOutcome {
  const { envelope, result, payload } = outcome
  if (result.segments.length === 0 || payload.options.timestamps === 'word') return outcome
  const verboseSegments = result.segments.map((segment, at) =>
    verboseSegment(segment, result.figures?.[at], {}),
  )
  const untold = FIGURES.filter((name) => verboseSegments.some((segment) => segment[name] === undefined))
  if (untold.length === 0) return outcome
  const line = `segments: the provider does not tell ${untold.join(', ')}`
  return { ...outcome, envelope: { ...envelope, warnings: [...envelope.warnings, line] } }
}

function transcriptionJson(
  task: TranscriptionTask,
  format: 'json' | 'verbose_json' | 'diarized_json',
  outcome: TranscriptionOutcome,
  unknown: SegmentFigures,
): object {
  if (format === 'diarized_json') {
    const diarized = diarizedTranscript(outcome)
    return task === 'transcription' ? diarized : { ...diarized, task: 'translate' }
  }
  if (format === 'json') return task === 'transcription' ? transcript(outcome) : { text: outcome.result.text }
  const verbose = verboseTranscript(outcome, unknown)
  return task === 'transcription'
    ? { task: 'transcribe', ...verbose, ...transcriptionUsage(outcome) }
    : { task: 'translate', ...verbose, language: 'english' }
}

export function transcript(outcome: TranscriptionOutcome) {
  const { text, logprobs } = outcome.result
  return { text, ...(logprobs === undefined ? {} : { logprobs }), ...transcriptionUsage(outcome) }
}

/** Segments unless only words were asked for. */
export function verboseTranscript(outcome: TranscriptionOutcome, unknown: SegmentFigures = {}) {
  const { text, language, segments, words, figures = [] } = outcome.result
  const { timestamps } = outcome.payload.options
  return {
    language: language === null ? UNKNOWN : languageName(language),
    duration: durationOf(outcome),
    text,
    ...(timestamps === 'word'
      ? {}
      : { segments: segments.map((segment, at) => verboseSegment(segment, figures[at], unknown)) }),
    ...(timestamps === 'word' || timestamps === 'both' ? { words: words.map(bareWord) } : {}),
  }
}

export function diarizedTranscript(outcome: TranscriptionOutcome) {
  const { text, segments } = outcome.result
  const diarizedSegments = segments.map(diarizedSegment)
  return {
    task: 'transcribe' as const,
    duration: durationOf(outcome),
    text,
    segments: diarizedSegments,
    ...transcriptionUsage(outcome),
  }
}

/** Events after the last delta: with diarization each segment, then the whole. */
export function lastEvents(
  { text, segments, tokens, logprobs }: TranscriptionOutcome['result'],
  { response_format: format }: Pick<TranscriptionOptions, 'response_format'>,
  warnings: readonly string[] = [],
) {
  const figures = logprobs === undefined ? {} : { logprobs }
  const done = {
    type: 'transcript.text.done' as const,
    text,
    ...figures,
    ...transcriptTokens(tokens),
    ...warningsIn(warnings),
  }
  return format === 'diarized_json' ? [...segments.map(diarizedSegment), done] : [done]
}

/** Whisper's figures as the provider tells them. Of others a confidence becomes the log probability. */
function verboseSegment(
  { id, start, end, text, confidence = 0 }: Segment,
  figures: SegmentFigures | undefined,
  unknown: SegmentFigures,
) {
  const sure = confidence > 0 ? { avg_logprob: Math.log(Math.min(1, confidence)) } : {}
  return { id, start, end, text, ...unknown, ...sure, ...figures }
}

function diarizedSegment({ id, start, end, text, speaker }: Segment) {
  const type = 'transcript.text.segment' as const
  return {
    type,
    id: `seg_${id}`,
    start,
    end,
    text,
    speaker: speaker === undefined ? UNKNOWN : letterOf(speaker),
  }
}

/** `speaker_0` is A, `speaker_25` Z, `speaker_26` AA. */
function letterOf(speaker: string): string {
  const number = /^speaker_(\d{1,6})$/.exec(speaker)?.[1]
  if (number === undefined) return speaker
  let letters = ''
  for (let rest = Number(number); rest >= 0; rest = Math.floor(rest / 26) - 1) {
    letters = String.fromCharCode(65 + (rest % 26)) + letters
  }
  return letters
}

function bareWord({ word, start, end }: Word) {
  return { word, start, end }
}

function durationOf({ payload, result }: TranscriptionOutcome): number {
  return payload.audio.durationSeconds ?? result.durationSeconds ?? 0
}

/** The usage of a stream is in tokens and nothing else: left out where the provider counts none. */
function transcriptTokens(tokens: TranscriptionOutcome['result']['tokens']) {
  const { input_tokens: input = null, output_tokens: output = null } = tokens ?? {}
  if (input === null || output === null) return {}
  const usage = {
    type: 'tokens' as const,
    input_tokens: input,
    output_tokens: output,
    total_tokens: input + output,
  }
  return { usage }
}

/** Whole seconds, as OpenAI bills and tells them. Left out where the length of the audio is unknown. */
function transcriptionUsage({ envelope }: TranscriptionOutcome) {
  const { audio_seconds: seconds = null } = envelope.usage
  return seconds === null ? {} : { usage: { type: 'duration' as const, seconds: Math.ceil(seconds) } }
}

const TRANSCRIPTION: TranscriptionRun = {
  task: 'transcription',
  offers: { stream: true, jobs: false },
  shape: transcriptionShape('transcription'),
}
const TRANSLATION: TranscriptionRun = {
  task: 'translation',
  offers: { stream: false, jobs: false },
  shape: transcriptionShape('translation'),
}

const FIELDS = { ...UNSTREAMED_FIELDS, ...OPENAI_FIELDS }

/** SubRip is plain text at OpenAI. */
const RENDERED: readonly Content[] = [
  { type: 'text/plain', schema: { type: 'string', description: '`response_format: text` or `srt`' } },
  { type: 'text/vtt', schema: { type: 'string', description: '`response_format: vtt`' } },
]

function transcriptAnswer(contents: readonly Content[], headers: Answer['headers'] = []): Answer {
  return openaiAnswer(
    [json(OpenAiTranscript), ...RENDERED, ...contents],
    [...headers, 'X-LK-Idempotent-Replay', ...TRANSCRIPT_FACTS],
  )
}

export const audioTranscriptions = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/audio/transcriptions',
  kind: 'call',
  id: 'openaiTranscription',
  summary: 'Transcribe audio',
  description:
    "`model` is read as a purpose where it names one, and ignored otherwise, here as at all of OpenAI's paths.",
  idempotent: 'transcription',
  body: transcriptionBody(TRANSCRIPTION, { ...FIELDS, stream: TRANSCRIPTION_FIELDS.stream }),
  answers: [
    transcriptAnswer(
      [events(OpenAiTranscriptEvent, 'With `stream: true`: one object per event, in `data:`.')],
      ['X-LK-Idempotency'],
    ),
  ],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  handle: (request) => answerTranscription(TRANSCRIPTION, request),
})

export const audioTranslations = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/audio/translations',
  kind: 'call',
  id: 'openaiTranslation',
  summary: 'Translate audio into English',
  idempotent: 'translation',
  body: transcriptionBody(TRANSLATION, FIELDS),
  answers: [transcriptAnswer([])],
  errors: [...TRANSCRIPTION_ERRORS, ...LEDGER_ERRORS],
  handle: (request) => answerTranscription(TRANSLATION, request),
})
