import { sse } from '../stream-of.ts'
import type { Answer, Asked, Dialect, Fields, ReceivedRequest, Script } from './dialect.ts'
import { eventsAnswer, jsonAnswer } from './dialect.ts'
import { createVideos } from './openai-videos.ts'

/** Text of a transcript, as it is streamed. */
export const TRANSCRIPT_DELTAS = ['the ', 'lark at ', 'break of day']

/** An entry of a route for a provider `ears` of this dialect, with all that it can do with audio. */
export const TRANSCRIPTION_ENTRY = {
  provider: 'ears',
  model: 'whisper-1',
  capabilities: ['audio_input'],
  features: ['word_timestamps', 'segment_timestamps'],
  hints: ['language', 'prompt'],
  translates: true,
  price: { per_hour_usd: 3.6 },
}

const TOKENS = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
/** Dimensions of an embedding when none are asked for. */
const DIMENSIONS = 8
const PNG_HEAD = Buffer.from('89504e470d0a1a0a', 'hex')

/**
 * OpenAI's wire format: chat and text completions, transcriptions, speech, embeddings, images, and videos of one
 * upstream. It refuses the transcriptions that OpenAI refuses, and says a secret with every refusal.
 */
export function openAiDialect(): Dialect {
  const videos = createVideos(refuse)
  return {
    basePath: '/v1',
    refuse,
    answer(asked) {
      const path = asked.request.path.replace(/^.*?\/v1(?=\/)/, '')
      if (path.startsWith('/videos')) return videos(asked, path)
      const operation = OPERATIONS[`${asked.request.method} ${path}`]
      return operation === undefined ? refuse(404) : operation(asked)
    },
  }
}

function refuse(status: number): Answer {
  const message = `refused by the upstream with sk-secret-${status}`
  return jsonAnswer({ error: { message, type: 'test', param: null, code: null } }, status)
}

const OPERATIONS: Readonly<Record<string, (asked: Asked) => Answer>> = {
  'GET /models': () => jsonAnswer({ object: 'list', data: [{ id: 'whisper-1', object: 'model' }] }),
  'POST /chat/completions': (asked) => complete(asked, CHAT),
  'POST /completions': (asked) => complete(asked, COMPLETION),
  'POST /embeddings': embed,
  'POST /images/generations': paint,
  'POST /audio/speech': speak,
  'POST /audio/transcriptions': transcribe,
  'POST /audio/translations': transcribe,
}

/** What is different about chat and text completions. */
interface Completion {
  readonly id: string
  readonly object: string
  readonly chunkObject: string
  choice(message: Fields): Fields
  delta(delta: string | Fields): Fields
  logprobs(text: string): Fields
}

const CHAT: Completion = {
  id: 'chatcmpl-1',
  object: 'chat.completion',
  chunkObject: 'chat.completion.chunk',
  choice: (message) => ({ message: { role: 'assistant', ...message } }),
  delta: (delta) => ({ delta: typeof delta === 'string' ? { content: delta } : delta }),
  logprobs: (text) => ({
    content: [{ ...TOKEN, token: text, top_logprobs: [{ ...TOKEN, unknown: 'x' }] }],
    refusal: null,
  }),
}

const COMPLETION: Completion = {
  id: 'cmpl-1',
  object: 'text_completion',
  chunkObject: 'text_completion',
  choice: (message) => ({ text: String(message.content) }),
  delta: (text) => ({ text }),
  logprobs: (text) => ({
    ...{ tokens: [text], token_logprobs: [-0.25], top_logprobs: [{ [text]: -0.25 }], text_offset: [0] },
  }),
}

/** As many choices as are asked for, each with tokens of its own, and with their figures where these are asked for. */
function complete({ request, script }: Asked, kind: Completion): Answer {
  const { message = { content: textOf(request) }, finishReason: finish_reason = 'stop', facts = {} } = script
  const { id, object, chunkObject } = kind
  const { n, logprobs: asked, stream } = request.body ?? {}
  const indexes = Array.from({ length: typeof n === 'number' ? n : 1 }, (_, index) => index)
  const completion_tokens = TOKENS.completion_tokens * indexes.length
  const { usage = { ...TOKENS, completion_tokens } } = script
  const figures = (text: string) =>
    asked === undefined || asked === false ? {} : { logprobs: kind.logprobs(text) }
  if (stream !== true) {
    const text = String(message.content)
    const choices = indexes.map((index) => ({
      index,
      ...kind.choice(message),
      finish_reason,
      ...figures(text),
    }))
    return jsonAnswer({ id, object, model: request.model, ...facts, choices, usage })
  }
  const chunk = (choice: Fields) => sse({ object: chunkObject, ...facts, choices: [choice] })
  function* events() {
    for (const delta of script.deltas ?? ['strea', 'med ', 'answer'])
      for (const index of indexes)
        yield chunk({ index, ...kind.delta(delta), ...(typeof delta === 'string' ? figures(delta) : {}) })
  }
  const ends = indexes.map((index) => chunk({ index, ...kind.delta(kind === CHAT ? {} : ''), finish_reason }))
  return eventsAnswer(events(), [...ends, sse({ choices: [], usage }), sse('[DONE]')])
}

/** A token that every text has, and how probable it was. */
export const TOKEN = { token: 'lark', logprob: -0.25, bytes: [108, 97, 114, 107] }

function textOf({ mark }: ReceivedRequest): string {
  return mark === null ? 'whole answer' : `answer to ${mark}`
}

function embed({ request: { body, model }, script }: Asked): Answer {
  const texts = body?.input as readonly (string | readonly number[])[]
  const data = texts.map((text, index) => ({
    object: 'embedding',
    index,
    embedding: vectorOf(text, Number(body?.dimensions ?? DIMENSIONS)),
  }))
  const { usage = { prompt_tokens: texts.length, total_tokens: texts.length } } = script
  // Out of order, as the format allows: `index` says what belongs where.
  return jsonAnswer({ object: 'list', model, data: data.reverse(), usage })
}

/** The vector that the upstream makes of a text, or of tokens. */
export function vectorOf(text: string | readonly number[], dimensions: number): number[] {
  return Array.from({ length: dimensions }, (_, index) => Math.sin(text.length * 31 + index))
}

function paint({ request: { body }, script: { picture = 60 } }: Asked): Answer {
  const bytes = typeof picture === 'number' ? Buffer.concat([PNG_HEAD, Buffer.alloc(picture, 7)]) : picture
  const made =
    body?.response_format === 'url'
      ? { url: 'https://pictures.example.com/1.png' }
      : { b64_json: bytes.toString('base64') }
  return jsonAnswer({ created: 1, data: Array.from({ length: Number(body?.n) }, () => made) })
}

const SPEECH_TYPES: Readonly<Record<string, string>> = {
  mp3: 'audio/mpeg',
  opus: 'audio/opus',
  aac: 'audio/aac',
  flac: 'audio/flac',
  wav: 'audio/wav',
  pcm: 'audio/pcm',
}

/** In chunks, as the sound is made. */
function speak({ request, script }: Asked): Answer {
  const { chunks = [Buffer.from(`sound of ${request.mark}`)], contentType } = script
  const format = String(request.body?.response_format ?? 'mp3')
  return { headers: { 'content-type': contentType ?? SPEECH_TYPES[format] ?? 'audio/mpeg' }, chunks }
}

/**
 * `stream: true` in events from the models that stream, `verbose_json` with times from whisper-1, speakers from the
 * model that diarizes.
 */
function transcribe({ request, form, script }: Asked): Answer {
  const { fields, model, mark } = request
  if (!(form?.get('file') instanceof File) || !isTaken(fields)) return refuse(400)
  const { deltas = mark === null ? TRANSCRIPT_DELTAS : [`heard ${mark}`] } = script
  const texts = deltas as Iterable<string>
  if (fields.stream === 'true' && model !== 'whisper-1') return transcriptEvents(fields, [...texts], script)
  return jsonAnswer(transcript(fields, [...texts].join(''), script))
}

/** Whether the model makes the format, and takes times. */
function isTaken({
  model = '',
  response_format: format = 'json',
  ...fields
}: ReceivedRequest['fields']): boolean {
  if (model === 'whisper-1') return format === 'json' || format === 'verbose_json'
  if ('timestamp_granularities[]' in fields) return false
  // "chunking_strategy is required for diarization models"
  if (model.endsWith('-diarize') && !('chunking_strategy' in fields)) return false
  return format === 'json' || (format === 'diarized_json' && model.endsWith('-diarize'))
}

const DIARIZED_SEGMENT = { type: 'transcript.text.segment', id: 'seg_1', start: 0.1, end: 1.9, speaker: 'A' }

function transcriptEvents(
  { response_format: format, 'include[]': include }: ReceivedRequest['fields'],
  deltas: readonly string[],
  script: Script,
): Answer {
  const text = deltas.join('')
  const isCounted = include === 'logprobs'
  const { usage = { type: 'tokens', input_tokens: 14, output_tokens: 45, total_tokens: 59 } } = script
  const segments = format === 'diarized_json' ? [sse({ ...DIARIZED_SEGMENT, text })] : []
  return eventsAnswer(
    deltas.map((delta) => sse({ type: 'transcript.text.delta', delta })),
    [
      ...segments,
      sse({ type: 'transcript.text.done', text, usage, ...(isCounted && { logprobs: [TOKEN] }) }),
    ],
  )
}

function transcript(
  fields: ReceivedRequest['fields'],
  text: string,
  { usage = { type: 'duration', seconds: 2 }, facts = {} }: Script,
): object {
  const { response_format: format } = fields
  if (format === 'diarized_json')
    return { task: 'transcribe', duration: 2, text, segments: [{ ...DIARIZED_SEGMENT, text }] }
  const isCounted = fields['include[]'] === 'logprobs'
  if (format !== 'verbose_json') return { text, usage, ...(isCounted && { logprobs: [TOKEN] }) }
  const words = text.split(' ').map((word, at) => ({ word, start: at / 4, end: at / 4 + 0.2 }))
  const segments = [
    { id: 0, seek: 0, start: 0, end: 2, text, tokens: [], temperature: 0, avg_logprob: -0.2, ...facts },
  ]
  const isByWord = fields['timestamp_granularities[]'] === 'word'
  return { task: 'transcribe', language: 'english', duration: 2, text, segments, ...(isByWord && { words }) }
}
