import type { IncomingMessage, ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { serveHttp } from './http-server.ts'

/** What a model of the upstream does with a request; default: it answers what was asked. */
export interface Behaviour {
  /** Refuses with this status, as OpenAI does. */
  readonly status?: number
  /** The message of a chat's one choice. */
  readonly message?: Readonly<Record<string, unknown>>
  readonly finishReason?: string
  /** Pieces of a streamed chat: each is the `delta` of one chunk, or text. */
  readonly deltas?: Iterable<string | Readonly<Record<string, unknown>>>
  /** Waits before each streamed piece, ms. */
  readonly pieceMs?: number
  /** Cuts the connection behind so many streamed pieces. */
  readonly cutAfter?: number
  /** Waits before the answer, ms. */
  readonly waitMs?: number
  /** Bytes of each picture. */
  readonly pictureBytes?: number
}

export interface ReceivedRequest {
  readonly path: string
  readonly model: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: Readonly<Record<string, unknown>>
  /** Bytes of the answer handed to the socket so far. */
  written: number
  /** The answer was given whole. */
  finished: boolean
  /** The connection was closed before that. */
  cancelled: boolean
}

export interface OpenAiUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  readonly received: readonly ReceivedRequest[]
  /** From now on this model does so. */
  behave(model: string, behaviour: Behaviour): void
  forget(): void
}

const USAGE = { prompt_tokens: 11, completion_tokens: 7, total_tokens: 18 }
/** Dimensions of an embedding when none are asked for. */
const DIMENSIONS = 8
const PNG_HEAD = Buffer.from('89504e470d0a1a0a', 'hex')

/**
 * A server that speaks OpenAI's wire format: chat and text completions, whole and streamed, embeddings and
 * images.
 */
export async function startOpenAiUpstream(t: Pick<Test, 'teardown'>): Promise<OpenAiUpstream> {
  const received: ReceivedRequest[] = []
  const behaviours = new Map<string, Behaviour>()
  const url = await serveHttp(t, (request, response) => {
    void answer(request, response, received, behaviours).catch(() => response.destroy())
  })
  return {
    url: `${url}/v1`,
    received,
    behave: (model, behaviour) => void behaviours.set(model, behaviour),
    forget() {
      received.length = 0
      behaviours.clear()
    },
  }
}

async function answer(
  request: IncomingMessage,
  response: ServerResponse,
  received: ReceivedRequest[],
  behaviours: ReadonlyMap<string, Behaviour>,
): Promise<void> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  const body = JSON.parse(Buffer.concat(chunks).toString()) as Record<string, unknown>
  const model = String(body.model)
  const path = request.url ?? ''
  const call: ReceivedRequest = {
    path,
    model,
    headers: request.headers,
    body,
    written: 0,
    finished: false,
    cancelled: false,
  }
  received.push(call)
  response.on('finish', () => {
    call.finished = true
  })
  response.on('close', () => {
    call.cancelled = !call.finished
  })
  const behaviour = behaviours.get(model) ?? {}
  if (behaviour.waitMs !== undefined) await sleep(behaviour.waitMs)
  if (behaviour.status !== undefined) return refuse(response, behaviour.status)
  if (body.stream === true) return stream(response, call, behaviour)
  const json = wholeAnswer(path, body, behaviour)
  if (json === null) return refuse(response, 404)
  response.setHeader('content-type', 'application/json').end(JSON.stringify(json))
}

function refuse(response: ServerResponse, status: number): void {
  const error = { message: `refused by the upstream with sk-secret-${status}`, type: 'test', code: null }
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify({ error }))
}

function wholeAnswer(path: string, body: Record<string, unknown>, behaviour: Behaviour): object | null {
  const { finishReason = 'stop', pictureBytes = 60, message = { content: 'whole answer' } } = behaviour
  if (path === '/v1/chat/completions') {
    const choice = { index: 0, message: { role: 'assistant', ...message }, finish_reason: finishReason }
    return { id: 'chatcmpl-1', object: 'chat.completion', model: body.model, choices: [choice], usage: USAGE }
  }
  if (path === '/v1/completions') {
    const choice = { index: 0, text: String(message.content), finish_reason: finishReason }
    return { id: 'cmpl-1', object: 'text_completion', model: body.model, choices: [choice], usage: USAGE }
  }
  if (path === '/v1/embeddings') {
    const texts = body.input as readonly string[]
    const data = texts.map((text, index) => ({
      object: 'embedding',
      index,
      embedding: vectorOf(text, Number(body.dimensions ?? DIMENSIONS)),
    }))
    // Out of order, as the format allows: `index` says what belongs where.
    const usage = { prompt_tokens: texts.length, total_tokens: texts.length }
    return { object: 'list', model: body.model, data: data.reverse(), usage }
  }
  if (path === '/v1/images/generations') {
    const b64_json = Buffer.concat([PNG_HEAD, Buffer.alloc(pictureBytes, 7)]).toString('base64')
    return { created: 1, data: Array.from({ length: Number(body.n) }, () => ({ b64_json })) }
  }
  return null
}

/** The vector that the upstream makes of a text. */
export function vectorOf(text: string, dimensions: number): number[] {
  return Array.from({ length: dimensions }, (_, index) => Math.sin(text.length * 31 + index))
}

/** As chunks of `chat.completion.chunk` or `text_completion`, at the reader's pace. */
async function stream(response: ServerResponse, call: ReceivedRequest, behaviour: Behaviour): Promise<void> {
  const {
    deltas = ['strea', 'med ', 'answer'],
    pieceMs = 0,
    cutAfter = Infinity,
    finishReason = 'stop',
  } = behaviour
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  response.flushHeaders()
  const chat = call.path === '/v1/chat/completions'
  let wake = () => {}
  response.on('drain', () => wake()).on('close', () => wake())
  const write = async (data: string) => {
    const text = `data: ${data}\n\n`
    const free = response.write(text)
    call.written += text.length
    if (!free && !response.destroyed)
      await new Promise<void>((resolve) => {
        wake = resolve
      })
  }
  const chunk = (choice: object) =>
    JSON.stringify({
      object: chat ? 'chat.completion.chunk' : 'text_completion',
      choices: [{ index: 0, ...choice }],
    })
  let pieces = 0
  for (const delta of deltas) {
    if (response.destroyed) return
    if (pieces === cutAfter) return cut(response)
    if (pieceMs > 0) await sleep(pieceMs)
    if (chat) await write(chunk({ delta: typeof delta === 'string' ? { content: delta } : delta }))
    else await write(chunk({ text: delta }))
    pieces += 1
  }
  if (pieces === cutAfter) return cut(response)
  await write(chunk({ ...(chat ? { delta: {} } : { text: '' }), finish_reason: finishReason }))
  await write(JSON.stringify({ choices: [], usage: USAGE }))
  await write('[DONE]')
  response.end()
}

/** Cuts the connection when what was written has arrived. */
async function cut(response: ServerResponse): Promise<void> {
  await sleep(100)
  response.destroy()
}
