import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'
import { sse } from './stream-of.ts'

export const MISTRAL_KEY = 'mistral-upstream-key'

type Json = Readonly<Record<string, unknown>>
type Refusal = readonly [status: number, body: Json]

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
 * A server that speaks Mistral's contract and is as strict as it: unknown fields, values out of range and
 * combinations that it documents as errors are refused. A transcript names the SHA-256 of the audio that came.
 * A model that is called `busy` is over its capacity.
 *
 * @returns the base URL
 */
export async function startMistralUpstream(t: Pick<Test, 'teardown'>): Promise<string> {
  const origin = await serveHttp(t, (request, response) => {
    void answer(request, response).catch(() => response.destroy())
  })
  return `${origin}/v1`
}

async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = Buffer.concat(chunks)
  if (request.headers.authorization !== `Bearer ${MISTRAL_KEY}`) {
    return refuse(response, [401, { detail: 'Unauthorized' }])
  }
  switch (`${request.method} ${request.url}`) {
    case 'POST /v1/audio/transcriptions': {
      const headers = { 'content-type': request.headers['content-type'] ?? '' }
      return transcribe(response, await new Response(body, { headers }).formData())
    }
    case 'POST /v1/audio/speech':
      return speak(response, JSON.parse(body.toString()) as Json)
    case 'POST /v1/embeddings':
      return embed(response, JSON.parse(body.toString()) as Json)
    case 'GET /v1/models':
      return json(response, 200, { object: 'list', data: [{ id: 'mistral-embed', object: 'model' }] })
    default:
      return refuse(response, [404, { detail: 'Not Found' }])
  }
}

function json(response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, {
    'content-type': 'application/json',
    ...(status === 429 ? { 'retry-after': '7' } : {}),
  })
  response.end(JSON.stringify(body))
}

function refuse(response: ServerResponse, [status, body]: Refusal): void {
  json(response, status, body)
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

async function transcribe(response: ServerResponse, form: FormData): Promise<void> {
  const refusal = hearingFault(form)
  if (refusal !== null) return refuse(response, refusal)
  const digest = createHash('sha256')
    .update(await (form.get('file') as File).bytes())
    .digest('hex')
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
  if (form.get('stream') !== 'true') return json(response, 200, whole)
  await stream(response, [
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

async function speak(response: ServerResponse, body: Json): Promise<void> {
  const extra = Object.keys(body).find((name) => !SPOKEN.has(name))
  if (extra !== undefined) return refuse(response, invalid(extra, 'extra_forbidden'))
  const { model, input, voice_id: voice, response_format: format, stream: streamed } = body
  const fault = modelFault(model, /^voxtral-mini-tts-3(-0)?$/)
  if (fault !== null) return refuse(response, fault)
  if (typeof input !== 'string' || typeof streamed !== 'boolean') {
    return refuse(response, invalid('input', 'value_error'))
  }
  if (!['mp3', 'wav', 'flac', 'opus', 'pcm'].includes(format as string)) {
    return refuse(response, invalid('response_format', 'enum'))
  }
  if (!VOICES.has(voice)) return refuse(response, error(404, 'no such voice', 'not_found', '1404'))
  const pieces = [`${format} `, `${voice} `, input].map((text) => Buffer.from(text))
  if (!streamed) return json(response, 200, { audio_data: Buffer.concat(pieces).toString('base64') })
  await stream(response, [
    ...pieces.map((piece) => ({ type: 'speech.audio.delta', audio_data: piece.toString('base64') })),
    { type: 'speech.audio.done', usage: { prompt_tokens: 1, total_tokens: 2, completion_tokens: 1 } },
  ])
}

function embed(response: ServerResponse, body: Json): void {
  const extra = Object.keys(body).find((name) => !EMBEDDED.has(name))
  const fault =
    extra === undefined ? modelFault(body.model, /^mistral-embed$/) : invalid(extra, 'extra_forbidden')
  const texts = (Array.isArray(body.input) ? body.input : []) as string[]
  const data = texts.map((text, index) => ({ object: 'embedding', index, embedding: [text.length, 0.5] }))
  const usage = { prompt_tokens: 5, total_tokens: 5, completion_tokens: 0 }
  if (fault !== null) refuse(response, fault)
  else json(response, 200, { id: 'e1', object: 'list', model: body.model, data: data.toReversed(), usage })
}

/** One event after the other, each with its name. */
async function stream(response: ServerResponse, events: readonly Json[]): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  for (const event of events) {
    if (!response.write(`event: ${event.type}\n${sse(event)}`)) await once(response, 'drain')
  }
  response.end()
}
