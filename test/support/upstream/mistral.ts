import { sse } from '../stream-of.ts'
import { type Answer, type Dialect, eventsAnswer, type Fields, jsonAnswer } from './dialect.ts'

export const MISTRAL_KEY = 'mistral-upstream-key'

type Refusal = readonly [status: number, body: Fields]

/** Fields of `POST /v1/audio/transcriptions` that may come beside the file, and what each may hold. */
const HEARD: Readonly<Record<string, RegExp>> = {
  model: /./,
  language: /^[a-z]{2}$/,
  timestamp_granularities: /^(segment|word)$/,
  diarize: /^(true|false)$/,
  context_bias: /^.+$/,
  temperature: /^[\d.]+$/,
  stream: /^(true|false)$/,
}
/** Fields that may come more than once. */
const LISTS: ReadonlySet<string> = new Set(['context_bias', 'timestamp_granularities'])

const SPOKEN: ReadonlySet<string> = new Set(['model', 'input', 'voice_id', 'response_format', 'stream'])
const EMBEDDED: ReadonlySet<string> = new Set(['model', 'input', 'encoding_format', 'output_dimension'])
const VOICES: ReadonlySet<unknown> = new Set(['voice_478', 'voice_592'])

/**
 * Mistral's contract, as strict as it: unknown fields, values out of range and combinations that it documents as errors
 * are refused. A transcript names the SHA-256 of the audio that came. A model that is called `busy` is over its
 * capacity.
 */
export function mistralDialect(): Dialect {
  return {
    basePath: '/v1',
    refuse: (status) => refuse([status, { detail: 'Refused' }]),
    answer({ request, form }) {
      if (request.headers.authorization !== `Bearer ${MISTRAL_KEY}`)
        return refuse([401, { detail: 'Unauthorized' }])
      const body = request.body ?? {}
      switch (`${request.method} ${request.path}`) {
        case 'POST /v1/audio/transcriptions':
          return transcribe(form ?? new FormData(), request.sha256)
        case 'POST /v1/audio/speech':
          return speak(body)
        case 'POST /v1/embeddings':
          return embed(body)
        case 'GET /v1/models':
          return jsonAnswer({ object: 'list', data: [{ id: 'mistral-embed', object: 'model' }] })
        default:
          return refuse([404, { detail: 'Not Found' }])
      }
    },
  }
}

function refuse([status, body]: Refusal): Answer {
  return jsonAnswer(body, status, status === 429 ? { 'retry-after': '7' } : {})
}

function error(status: number, message: string, type: string, code: string): Refusal {
  return [status, { object: 'error', message, type, param: null, code, raw_status_code: status }]
}

function invalid(field: string, type: string): Refusal {
  const detail = [{ type, loc: ['body', field], msg: 'invalid', input: null }]
  const body = {
    object: 'error',
    message: { detail },
    type: 'invalid_request_error',
    param: null,
    code: null,
  }
  return [422, { ...body, raw_status_code: 422 }]
}

/** What is wrong with the model that was asked for; null: nothing. */
function modelFault(model: unknown, known: RegExp): Refusal | null {
  if (model === 'busy') {
    const message = 'Service tier capacity exceeded for this model.'
    return error(429, message, 'service_tier_capacity_exceeded', '3505')
  }
  const fits = typeof model === 'string' && known.test(model)
  return fits ? null : error(400, `Invalid model: ${model}`, 'invalid_model', '1500')
}

function transcribe(form: FormData, digest: string): Answer {
  const refusal = hearingFault(form)
  if (refusal !== null) return refuse(refusal)
  const language = form.get('language') ?? null
  const timed = form.has('timestamp_granularities')
  const segments = ['Heard', `${digest}.`].map((text, index) => ({
    type: 'transcription_segment',
    text: ` ${text}`,
    start: index,
    end: index + 0.5,
    score: null,
    speaker_id: form.get('diarize') === 'true' ? `speaker_${index + 1}` : null,
  }))
  const whole = {
    model: form.get('model'),
    text: ` Heard ${digest}.`,
    language,
    segments: timed ? segments : [],
    usage: { prompt_audio_seconds: 3, prompt_tokens: 4, total_tokens: 40, completion_tokens: 9 },
  }
  if (form.get('stream') !== 'true') return jsonAnswer(whole)
  return eventsOf([
    { type: 'transcription.text.delta', text: ' Heard' },
    { type: 'transcription.text.delta', text: ` ${digest}.` },
    { ...whole, type: 'transcription.done' },
  ])
}

function hearingFault(form: FormData): Refusal | null {
  if (!(form.get('file') instanceof File)) return invalid('file', 'missing')
  for (const [name, value] of form) {
    if (name === 'file') continue
    const known = Object.hasOwn(HEARD, name) ? HEARD[name] : undefined
    if (known === undefined) return invalid(name, 'extra_forbidden')
    if (typeof value !== 'string' || !known.test(value)) return invalid(name, 'value_error')
    if (!LISTS.has(name) && form.getAll(name).length > 1) return invalid(name, 'value_error')
  }
  const fault = modelFault(form.get('model'), /^voxtral-(mini|small)-transcribe-3(-0)?$/)
  if (fault !== null) return fault
  const bad = (message: string) => error(400, message, 'invalid_request_invalid_args', '3051')
  const times = form.getAll('timestamp_granularities')
  if (times.includes('word')) return bad('Word-level segments are not enabled for this model')
  if (form.get('diarize') === 'true' && !times.includes('segment')) return bad('diarize needs segments')
  if (form.getAll('context_bias').length > 100) return invalid('context_bias', 'too_long')
  const together = form.has('language') && times.length > 0
  return together ? bad('timestamp_granularities is currently not compatible with language') : null
}

function speak(body: Fields): Answer {
  const extra = Object.keys(body).find((name) => !SPOKEN.has(name))
  if (extra !== undefined) return refuse(invalid(extra, 'extra_forbidden'))
  const { model, input, voice_id: voice, response_format: format, stream: streamed } = body
  const fault = modelFault(model, /^voxtral-mini-tts-3(-0)?$/)
  if (fault !== null) return refuse(fault)
  if (typeof input !== 'string' || typeof streamed !== 'boolean') {
    return refuse(invalid('input', 'value_error'))
  }
  if (!['mp3', 'wav', 'flac', 'opus', 'pcm'].includes(format as string)) {
    return refuse(invalid('response_format', 'enum'))
  }
  if (!VOICES.has(voice)) return refuse(error(404, 'no such voice', 'not_found', '1404'))
  const pieces = [`${format} `, `${voice} `, input].map((text) => Buffer.from(text))
  if (!streamed) return jsonAnswer({ audio_data: Buffer.concat(pieces).toString('base64') })
  return eventsOf([
    ...pieces.map((piece) => ({ type: 'speech.audio.delta', audio_data: piece.toString('base64') })),
    { type: 'speech.audio.done', usage: { prompt_tokens: 1, total_tokens: 2, completion_tokens: 1 } },
  ])
}

function embed(body: Fields): Answer {
  const extra = Object.keys(body).find((name) => !EMBEDDED.has(name))
  const fault =
    extra === undefined ? modelFault(body.model, /^mistral-embed$/) : invalid(extra, 'extra_forbidden')
  const texts = (Array.isArray(body.input) ? body.input : []) as string[]
  const data = texts.map((text, index) => ({ object: 'embedding', index, embedding: [text.length, 0.5] }))
  const usage = { prompt_tokens: 5, total_tokens: 5, completion_tokens: 0 }
  if (fault !== null) return refuse(fault)
  return jsonAnswer({ id: 'e1', object: 'list', model: body.model, data: data.toReversed(), usage })
}

/** One event after the other, each with its name. */
function eventsOf(events: readonly Fields[]): Answer {
  return eventsAnswer(events.map((event) => `event: ${event.type}\n${sse(event)}`))
}
