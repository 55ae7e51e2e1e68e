import { createHash } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Test } from 'tap'
import { type BehavingUpstream, startBehavingUpstream } from './behaving-upstream.ts'

/** What a model of the upstream does with a request. */
export interface HearingBehaviour {
  readonly status?: number
  /** Seconds, as its header says them; with a status other than 200. */
  readonly retryAfter?: string
  /** The text, cut as it is streamed. */
  readonly pieces?: readonly string[]
  /** Waits before each piece but the first, and before an answer that is not streamed. */
  readonly before?: () => Promise<unknown>
  /** Cuts the connection behind so many pieces. */
  readonly cutAfter?: number
  /** Cuts the connection instead of an answer that is not streamed. */
  readonly cut?: boolean
  /** Ends the stream well, but without its last event. */
  readonly unfinished?: boolean
}

export interface HearingRequest {
  readonly path: string
  readonly model: string
  readonly fields: Readonly<Record<string, string>>
  /** SHA-256 of the audio. */
  readonly sha256: string
  state: 'answering' | 'finished' | 'left'
}

export type TranscriptUpstream = BehavingUpstream<HearingRequest, HearingBehaviour>

export const PIECES = ['the ', 'lark at ', 'break of day']

/** An entry of a route for a provider `ears` of that protocol, which knows what this one does. */
export const HEARING_ENTRY = {
  provider: 'ears',
  model: 'whisper-1',
  capabilities: ['audio_input'],
  features: ['word_timestamps', 'segment_timestamps'],
  hints: ['language', 'prompt'],
  translates: true,
  price: { per_hour_usd: 3.6 },
}

/**
 * A server that hears as OpenAI's `POST /audio/transcriptions` does: `stream: true` in events from the models
 * that stream, `verbose_json` with times from whisper-1, speakers from the model that diarizes. It refuses what
 * OpenAI refuses, and lists one model.
 */
export function startTranscriptUpstream(t: Pick<Test, 'teardown'>): Promise<TranscriptUpstream> {
  return startBehavingUpstream(t, answer)
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  received: HearingRequest[],
  behaviours: ReadonlyMap<string, HearingBehaviour>,
): Promise<void> {
  if (request.method === 'GET' && request.url === '/v1/models') {
    const data = [{ id: 'whisper-1', object: 'model' }]
    return void response
      .setHeader('content-type', 'application/json')
      .end(JSON.stringify({ object: 'list', data }))
  }
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const headers = { 'content-type': request.headers['content-type'] ?? '' }
  const form = await new Response(Buffer.concat(chunks), { headers }).formData()
  const file = await (form.get('file') as File).bytes()
  const fields = Object.fromEntries([...form].filter(([, value]) => typeof value === 'string')) as Record<
    string,
    string
  >
  const { model = '' } = fields
  const sha256 = createHash('sha256').update(file).digest('hex')
  const hearing: HearingRequest = { path: request.url ?? '', model, fields, sha256, state: 'answering' }
  received.push(hearing)
  void once(response, 'close').then(() => {
    hearing.state = response.writableFinished ? 'finished' : 'left'
  })
  const behaviour = behaviours.get(model) ?? {}
  const status = behaviour.status ?? (isTaken(fields) ? 200 : 400)
  if (status !== 200) {
    const { retryAfter } = behaviour
    const asked = retryAfter === undefined ? {} : { 'retry-after': retryAfter }
    response.writeHead(status, { 'content-type': 'application/json', ...asked })
    return void response.end(
      JSON.stringify({ error: { message: 'sk-secret refused', type: 'x', code: null } }),
    )
  }
  if (fields.stream === 'true' && model !== 'whisper-1') return stream(response, fields, behaviour)
  await behaviour.before?.()
  if (behaviour.cut) return void response.destroy()
  response.writeHead(200, { 'content-type': 'application/json' })
  response.end(JSON.stringify(whole(fields, behaviour)))
}

/** Whether the model makes the format, and takes times. */
function isTaken({
  model = '',
  response_format: format = 'json',
  ...fields
}: Record<string, string>): boolean {
  if (model === 'whisper-1') return format === 'json' || format === 'verbose_json'
  if ('timestamp_granularities[]' in fields) return false
  // "chunking_strategy is required for diarization models"
  if (model.endsWith('-diarize') && !('chunking_strategy' in fields)) return false
  return format === 'json' || (format === 'diarized_json' && model.endsWith('-diarize'))
}

const SEGMENT = { id: 'seg_1', start: 0.1, end: 1.9, speaker: 'A' }

async function stream(
  response: ServerResponse,
  { response_format: format }: Record<string, string>,
  { pieces = PIECES, before, cutAfter, unfinished = false }: HearingBehaviour,
): Promise<void> {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  response.flushHeaders()
  const send = (event: object) =>
    new Promise((resolve) => response.write(`data: ${JSON.stringify(event)}\n\n`, resolve))
  for (const [index, delta] of pieces.entries()) {
    if (index > 0) await before?.()
    if (index === cutAfter) return void response.destroy()
    await send({ type: 'transcript.text.delta', delta })
  }
  const text = pieces.join('')
  if (format === 'diarized_json') await send({ type: 'transcript.text.segment', ...SEGMENT, text })
  const usage = { type: 'tokens', input_tokens: 14, output_tokens: 45, total_tokens: 59 }
  if (!unfinished) await send({ type: 'transcript.text.done', text, usage })
  response.end()
}

function whole(fields: Record<string, string>, { pieces = PIECES }: HearingBehaviour): object {
  const text = pieces.join('')
  if (fields.response_format === 'diarized_json')
    return {
      task: 'transcribe',
      duration: 2,
      text,
      segments: [{ type: 'transcript.text.segment', ...SEGMENT, text }],
    }
  if (fields.response_format !== 'verbose_json') return { text, usage: { type: 'duration', seconds: 2 } }
  const words = text.split(' ').map((word, at) => ({ word, start: at / 4, end: at / 4 + 0.2 }))
  const segments = [{ id: 0, seek: 0, start: 0, end: 2, text, tokens: [], temperature: 0, avg_logprob: -0.2 }]
  const asked = fields['timestamp_granularities[]'] ?? 'segment'
  return {
    task: 'transcribe',
    language: 'english',
    duration: 2,
    text,
    segments,
    ...(asked === 'word' && { words }),
  }
}
