import type { TranscriptionCall, TranscriptionOptions, TranscriptionResult } from '../schema/calls.ts'
import type { Operation, Step, Target } from '../schema/provider.ts'
import type { Failure, UpstreamReply } from '../schema/upstream.ts'
import { classify, refused, unusable } from './failure.ts'
import { encodeForm, type FormField } from './form.ts'
import { objectOf } from './json.ts'
import { languageCode } from './language.ts'
import { readTranscript } from './openai-transcript.ts'

type ReplyFormat = 'json' | 'verbose_json' | 'diarized_json'

/** What one family of models takes in OpenAI's transcription form. */
interface Shape {
  /**
   * When to ask for `verbose_json`: it alone has times, language and duration, but not every model has it.
   */
  readonly verbose: 'always' | 'when_needed' | 'never'
  readonly diarized: boolean
  readonly language: 'language' | 'languages[]'
  readonly prompt: boolean
  readonly keywords: boolean
}

const WHISPER: Shape = {
  verbose: 'always',
  diarized: false,
  language: 'language',
  prompt: true,
  keywords: false,
}
const GPT_4O: Shape = { ...WHISPER, verbose: 'never' }

/** https://platform.openai.com/docs/api-reference/audio/createTranscription */
const SHAPES: ReadonlyMap<string, Shape> = new Map([
  ['whisper-1', WHISPER],
  ['gpt-4o-transcribe', GPT_4O],
  ['gpt-4o-mini-transcribe', GPT_4O],
  ['gpt-4o-transcribe-diarize', { ...GPT_4O, diarized: true, prompt: false }],
  ['gpt-transcribe', { ...GPT_4O, language: 'languages[]', keywords: true }],
])

/** A model that only the configuration knows: it is asked for what the call needs and for nothing else. */
const UNLISTED: Shape = { ...WHISPER, verbose: 'when_needed', diarized: true, keywords: true }

/** Requests of the operations, with the headers that a provider adds to each. */
export type ExtraHeaders = (target: Target) => Readonly<Record<string, string>>

/** `POST /audio/transcriptions` */
export function transcriptionOperation(
  extra: ExtraHeaders,
): Operation<TranscriptionCall, TranscriptionResult> {
  return audioOperation('/audio/transcriptions', extra, (call, target) => {
    const shape = shapeOf(target.model)
    const { options } = call
    const format = transcriptionFormat(shape, options)
    const fields: FormField[] = [
      ['model', target.model],
      ['response_format', format],
    ]
    if (options.language !== null && !options.detect_language) {
      fields.push([shape.language, languageCode(options.language) ?? options.language])
    }
    if (options.prompt !== null && shape.prompt) fields.push(['prompt', options.prompt])
    if (shape.keywords) for (const term of options.keyterms) fields.push(['keywords[]', term])
    if (format === 'verbose_json') {
      if (wantsWords(options)) fields.push(['timestamp_granularities[]', 'word'])
      if (wantsSegments(options)) fields.push(['timestamp_granularities[]', 'segment'])
    }
    // Required by the diarizing model for audio over 30 s, and harmless below.
    if (format === 'diarized_json') fields.push(['chunking_strategy', 'auto'])
    return fields
  })
}

/** `POST /audio/translations`: always into English. It has no word times and takes no language. */
export function translationOperation(extra: ExtraHeaders): Operation<TranscriptionCall, TranscriptionResult> {
  return audioOperation('/audio/translations', extra, ({ options }, target) => {
    const { verbose } = shapeOf(target.model)
    const verbosely = verbose === 'always' || (verbose === 'when_needed' && wantsSegments(options))
    const fields: FormField[] = [
      ['model', target.model],
      ['response_format', verbosely ? 'verbose_json' : 'json'],
    ]
    if (options.prompt !== null) fields.push(['prompt', options.prompt])
    return fields
  })
}

function audioOperation(
  path: '/audio/transcriptions' | '/audio/translations',
  extra: ExtraHeaders,
  fieldsOf: (call: TranscriptionCall, target: Target) => FormField[],
): Operation<TranscriptionCall, TranscriptionResult> {
  return {
    start(call, target): Step<TranscriptionResult> {
      const fields = fieldsOf(call, target)
      const fault = faultOf(call.options, fields)
      if (fault !== null) return { kind: 'failed', failure: fault }
      const url = `${target.baseUrl}${path}`
      const form = encodeForm(url, fields, { name: 'file', audio: call.audio })
      const headers = { ...headersOf(target, extra), 'content-type': form.contentType }
      return { kind: 'send', request: { method: 'POST', url, headers, body: form.body }, state: null }
    },
    next: (_state, reply, call) => decode(reply, call.options),
  }
}

/** Headers of every call. */
export function headersOf(target: Target, extra: ExtraHeaders): Record<string, string> {
  const authorization = target.credential === null ? {} : { authorization: `Bearer ${target.credential}` }
  return { accept: '*/*', ...authorization, ...extra(target) }
}

/**
 * What cannot be sent without losing what the caller requires. Selection should have seen it; this fails
 * closed.
 */
function faultOf(options: TranscriptionOptions, fields: readonly FormField[]): Failure | null {
  const format = fields.find(([name]) => name === 'response_format')?.[1]
  const names = new Set(fields.map(([name]) => name))
  const lacks = [
    wantsWords(options) && !names.has('timestamp_granularities[]') && 'word times',
    wantsSegments(options) && format === 'json' && 'segment times',
    wantsSpeakers(options) && format !== 'diarized_json' && 'speakers',
    options.keyterms.length > 0 && !names.has('keywords[]') && 'keyterms',
    options.redaction.length > 0 && 'redaction',
    options.multichannel && 'channels',
    options.mode === 'realtime' && 'realtime',
  ].filter((lack) => lack !== false)
  if (lacks.length > 0) return refused('model', `the model has no ${lacks.join(', ')}`)
  // One such keyword makes OpenAI refuse the whole request.
  if (options.keyterms.some((term) => /[<>\r\n]/.test(term))) {
    return refused('caller', 'keyterms: the provider takes single lines without < and >')
  }
  return null
}

function decode(reply: UpstreamReply, options: TranscriptionOptions): Step<TranscriptionResult> {
  if (reply.status < 200 || reply.status > 299) return { kind: 'failed', failure: classify(reply) }
  const body = objectOf(reply)
  const result = body === null ? null : readTranscript(body, wantsSpeakers(options))
  if (result === null) {
    return { kind: 'failed', failure: unusable(reply, 'the answer of the provider is no transcript') }
  }
  const lacking = lackOf(result, options)
  if (lacking !== null) return { kind: 'failed', failure: unusable(reply, lacking) }
  return { kind: 'done', result }
}

/**
 * What was asked for and did not come. Servers that ignore a field would otherwise degrade the transcript
 * silently.
 */
function lackOf(
  { text, segments, words }: TranscriptionResult,
  options: TranscriptionOptions,
): string | null {
  if (text.trim() === '') return null
  if (wantsWords(options) && words.length === 0) return 'the answer lacks the word times that were asked for'
  if (wantsSegments(options) && segments.length === 0) {
    return 'the answer lacks the segment times that were asked for'
  }
  if (wantsSpeakers(options) && !segments.some((segment) => segment.speaker !== undefined)) {
    return 'the answer lacks the speakers that were asked for'
  }
  return null
}

function transcriptionFormat(shape: Shape, options: TranscriptionOptions): ReplyFormat {
  const timed = wantsWords(options) || wantsSegments(options)
  if (shape.diarized && (wantsSpeakers(options) || (shape.verbose === 'never' && timed)))
    return 'diarized_json'
  if (shape.verbose === 'always') return 'verbose_json'
  if (shape.verbose === 'when_needed' && (timed || options.detect_language)) return 'verbose_json'
  return 'json'
}

function wantsWords({ timestamps }: TranscriptionOptions): boolean {
  return timestamps === 'word' || timestamps === 'both'
}

function wantsSegments({ timestamps, response_format: format }: TranscriptionOptions): boolean {
  const timed = format === 'srt' || format === 'vtt' || format === 'verbose_json'
  return timed || timestamps === 'segment' || timestamps === 'both'
}

function wantsSpeakers({ diarization, response_format: format }: TranscriptionOptions): boolean {
  return diarization || format === 'diarized_json'
}

/** Dated snapshots (`gpt-4o-mini-transcribe-2025-12-15`) have the shape of their model. */
function shapeOf(model: string): Shape {
  return SHAPES.get(model) ?? SHAPES.get(model.replace(/-\d{4}-\d{2}-\d{2}$/, '')) ?? UNLISTED
}
