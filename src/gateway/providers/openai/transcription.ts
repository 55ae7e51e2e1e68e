import type {
  TranscriptionCall,
  TranscriptionOptions,
  TranscriptionResult,
} from '../../../contracts/calls.ts'
import type { ExtraOption } from '../../../contracts/extras.ts'
import type { Operation, Step, Target, Unsupported } from '../../../contracts/provider.ts'
import type { UpstreamReply } from '../../../contracts/upstream.ts'
import { readEnding } from '../answer.ts'
import { classify } from '../failure.ts'
import { encodeAudioForm, type FormField } from '../form.ts'
import { type LanguageHint, languageHint, whisperLanguage } from '../language.ts'
import { wantsSegments, wantsSpeakers, wantsWords, wholeTranscript } from '../transcript-needs.ts'
import { lackedFeatures, unsent, unsupportedField } from '../unsupported.ts'
import { readTranscript } from './transcript.ts'
import { TranscriptStreamReader } from './transcription-stream.ts'
import { bearerHeaders, type ExtraHeaders } from './wire.ts'

type ReplyFormat = 'json' | 'verbose_json' | 'diarized_json'

/** Options that one family of models supports in OpenAI's transcription form. */
export interface TranscriptionShape {
  /** When to ask for `verbose_json`: it alone has times, language and duration, but not every model has it. */
  readonly verbose: 'always' | 'when_needed' | 'never'
  readonly diarized: boolean
  readonly language: 'language' | 'languages[]'
  readonly prompt: boolean
  readonly keywords: boolean
  /**
   * Whether the provider may cut the audio into pieces: `required` by the diarizing model for audio over 30 s, and
   * refused without it for shorter audio too.
   */
  readonly chunking: 'required' | 'taken' | 'never'
  /** Which languages it takes: those of Whisper, or any that is one. */
  readonly anyLanguage: boolean
  /** It answers `stream: true` with events. */
  readonly streams: boolean
  /** It tells the log probabilities of tokens, beside a text without times. */
  readonly logprobs: boolean
  /** It knows speakers by recordings of them. */
  readonly knownSpeakers: boolean
}

/** Whisper, wherever it is served: no events, and `verbose_json` for all that it knows. */
export const WHISPER: TranscriptionShape = {
  verbose: 'always',
  diarized: false,
  language: 'language',
  prompt: true,
  keywords: false,
  chunking: 'never',
  anyLanguage: false,
  streams: false,
  logprobs: false,
  knownSpeakers: false,
}
const GPT_4O: TranscriptionShape = {
  ...WHISPER,
  verbose: 'never',
  chunking: 'taken',
  streams: true,
  logprobs: true,
}
const DIARIZE: TranscriptionShape = {
  ...GPT_4O,
  diarized: true,
  prompt: false,
  chunking: 'required',
  logprobs: false,
  knownSpeakers: true,
}

/** https://platform.openai.com/docs/api-reference/audio/createTranscription */
const SHAPES: ReadonlyMap<string, TranscriptionShape> = new Map([
  ['whisper-1', WHISPER],
  ['gpt-4o-transcribe', GPT_4O],
  ['gpt-4o-mini-transcribe', GPT_4O],
  ['gpt-4o-transcribe-diarize', DIARIZE],
  ['gpt-transcribe', { ...GPT_4O, language: 'languages[]', keywords: true }],
])

/** A model that only the configuration knows: it is asked for what the call needs and for nothing else. */
const UNLISTED: TranscriptionShape = {
  ...WHISPER,
  verbose: 'when_needed',
  diarized: true,
  keywords: true,
  chunking: 'taken',
  anyLanguage: true,
  logprobs: true,
  knownSpeakers: true,
}

type ShapeOf = (model: string) => TranscriptionShape

/** `POST /audio/transcriptions`, streamed by the models that can. */
export function transcriptionOperation(
  extra: ExtraHeaders,
  shapeOf: ShapeOf = shapeOfOpenai,
): Operation<TranscriptionCall, TranscriptionResult, string> {
  const path = '/audio/transcriptions'
  const unsupported = ({ options }: TranscriptionCall, { model }: Target) =>
    unsupportedOptions(options, shapeOf(model))
  const begin = (call: TranscriptionCall, target: Target, more: readonly FormField[]) => {
    const issue = unsupported(call, target)
    if (issue !== null) return unsent(issue)
    return startForm(path, extra, call, target, [...transcriptionFields(call, target, shapeOf), ...more])
  }
  return {
    unsupported,
    takesExtra: (extra, { model }) => takesExtra(extra, shapeOf(model)),
    start: (call, target) => begin(call, target, []),
    next: (_state, reply, call, target) => decodeReply(reply, call.options, hintOf(call, target, shapeOf)),
    streamed: {
      applies: (_call, target) => shapeOf(target.model).streams,
      start: (call, target) => begin(call, target, [['stream', 'true']]),
      refused: classify,
      read: (head, call, target) =>
        new TranscriptStreamReader(head, call.options, hintOf(call, target, shapeOf).warnings),
    },
  }
}

/** `POST /audio/translations`: always into English. It has no word times and takes no language. */
export function translationOperation(
  extra: ExtraHeaders,
  shapeOf: ShapeOf = shapeOfOpenai,
): Operation<TranscriptionCall, TranscriptionResult> {
  return {
    unsupported: ({ options }, { model }) => unsupportedOfTranslation(options, shapeOf(model)),
    takesExtra: ({ name }) => name === 'temperature',
    start(call, target) {
      const { options } = call
      const shape = shapeOf(target.model)
      const issue = unsupportedOfTranslation(options, shape)
      if (issue !== null) return unsent(issue)
      const verbosely =
        shape.verbose === 'always' || (shape.verbose === 'when_needed' && wantsSegments(options))
      const fields: FormField[] = [
        ['model', target.model],
        ['response_format', verbosely ? 'verbose_json' : 'json'],
      ]
      if (options.prompt !== null) fields.push(['prompt', options.prompt])
      fields.push(...extraFields(options))
      return startForm('/audio/translations', extra, call, target, fields)
    },
    // It takes no language, so that none can be left out.
    next: (_state, reply, call) => decodeReply(reply, call.options, { language: null, warnings: [] }),
  }
}

function hintOf({ options }: TranscriptionCall, { model }: Target, shapeOf: ShapeOf): LanguageHint {
  const { anyLanguage } = shapeOf(model)
  return languageHint(options, (code) => (anyLanguage ? code : whisperLanguage(code)))
}

function transcriptionFields(call: TranscriptionCall, target: Target, shapeOf: ShapeOf): FormField[] {
  const { options } = call
  const { model } = target
  const shape = shapeOf(model)
  const format = transcriptionFormat(shape, options)
  const fields: FormField[] = [
    ['model', model],
    ['response_format', format],
  ]
  const { language } = hintOf(call, target, shapeOf)
  if (language !== null) fields.push([shape.language, language])
  if (options.prompt !== null && shape.prompt) fields.push(['prompt', options.prompt])
  if (shape.keywords) for (const term of options.keyterms) fields.push(['keywords[]', term])
  if (format === 'verbose_json') {
    if (wantsWords(options)) fields.push(['timestamp_granularities[]', 'word'])
    if (wantsSegments(options)) fields.push(['timestamp_granularities[]', 'segment'])
  }
  if (isChunked(shape, format, options)) fields.push(['chunking_strategy', 'auto'])
  fields.push(...extraFields(options))
  return fields
}

function takesExtra({ name }: ExtraOption, { logprobs, knownSpeakers }: TranscriptionShape): boolean {
  switch (name) {
    case 'temperature':
      return true
    case 'include':
      return logprobs
    case 'known_speaker_names':
    case 'known_speaker_references':
      return knownSpeakers
    default:
      return false
  }
}

/** Lists are repeated fields. */
function extraFields({ extras = [] }: TranscriptionOptions): FormField[] {
  return extras.flatMap(({ name, value }): FormField[] =>
    Array.isArray(value) ? value.map((item) => [`${name}[]`, String(item)]) : [[name, String(value)]],
  )
}

function isChunked(
  { chunking }: TranscriptionShape,
  format: ReplyFormat,
  { chunking_strategy: asked }: TranscriptionOptions,
): boolean {
  if (chunking === 'required') return true
  return chunking === 'taken' && (asked === 'auto' || format === 'diarized_json')
}

function startForm(
  path: '/audio/transcriptions' | '/audio/translations',
  extra: ExtraHeaders,
  call: TranscriptionCall,
  target: Target,
  fields: readonly FormField[],
): Step<TranscriptionResult> & { readonly kind: 'send' } {
  const url = `${target.baseUrl}${path}`
  const form = encodeAudioForm(url, fields, call.audio, { field: 'url', url: target.audioUrl })
  const headers = { ...bearerHeaders(target, extra), 'content-type': form.contentType }
  return { kind: 'send', request: { method: 'POST', url, headers, body: form.body }, state: null }
}

/** A server that answers with speakers has no word times beside them. */
const WORDS_AND_SPEAKERS = ['word_timestamps', 'diarization'] as const

function unsupportedOptions(options: TranscriptionOptions, shape: TranscriptionShape): Unsupported | null {
  const format = transcriptionFormat(shape, options)
  const wordless = wantsWords(options) && format !== 'verbose_json'
  const conflicting = wordless && format === 'diarized_json' && shape.verbose !== 'never'
  const lacked = lackedFeatures(
    [
      wordless && !conflicting && 'word_timestamps',
      wantsSegments(options) && format === 'json' && 'segment_timestamps',
      wantsSpeakers(options) && format !== 'diarized_json' && 'diarization',
      options.keyterms.length > 0 && !shape.keywords && 'keyterms',
      options.redaction.length > 0 && 'redaction',
      options.multichannel && 'multichannel',
      options.mode === 'realtime' && 'realtime',
    ],
    conflicting ? { conflict: WORDS_AND_SPEAKERS } : {},
  )
  if (lacked !== null) return lacked
  // One such keyword makes OpenAI refuse the whole request.
  if (!options.keyterms.some((term) => /[<>\r\n]/.test(term))) return null
  return unsupportedField('keyterms', 'the provider takes single lines without < and >')
}

function unsupportedOfTranslation(
  options: TranscriptionOptions,
  { verbose }: TranscriptionShape,
): Unsupported | null {
  return lackedFeatures([
    wantsWords(options) && 'word_timestamps',
    wantsSegments(options) && verbose === 'never' && 'segment_timestamps',
    wantsSpeakers(options) && 'diarization',
    options.keyterms.length > 0 && 'keyterms',
    options.redaction.length > 0 && 'redaction',
    options.multichannel && 'multichannel',
    options.mode === 'realtime' && 'realtime',
  ])
}

function decodeReply(
  reply: UpstreamReply,
  options: TranscriptionOptions,
  { warnings }: LanguageHint,
): Step<TranscriptionResult> {
  return readEnding(reply, (body) => wholeTranscript(readTranscript(body, options, warnings), options, reply))
}

function transcriptionFormat(shape: TranscriptionShape, options: TranscriptionOptions): ReplyFormat {
  const timed = wantsWords(options) || wantsSegments(options)
  if (shape.diarized && (wantsSpeakers(options) || (shape.verbose === 'never' && timed)))
    return 'diarized_json'
  if (shape.verbose === 'always') return 'verbose_json'
  if (shape.verbose === 'when_needed' && (timed || options.detect_language)) return 'verbose_json'
  return 'json'
}

/** Dated snapshots (`gpt-4o-mini-transcribe-2025-12-15`) have the shape of their model. */
function shapeOfOpenai(model: string): TranscriptionShape {
  return SHAPES.get(model) ?? SHAPES.get(model.replace(/-\d{4}-\d{2}-\d{2}$/, '')) ?? UNLISTED
}
