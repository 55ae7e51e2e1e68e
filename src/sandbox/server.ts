import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { type Clock, sleep, systemClock } from '../contracts/time.ts'
import { speech, timedSpeech, transcription } from './audio.ts'
import { chat, completion } from './chat.ts'
import { embeddings } from './embeddings.ts'
import { FaultRules, type Faults, ordersOf } from './faults.ts'
import { type Answer, type CallBody, json, Refusal, readBody, readForm, readJson, sha256 } from './http.ts'
import { images } from './images.ts'
import { LiveSessions } from './live/server.ts'
import type { LiveRecord } from './live/session.ts'
import { listModels } from './models.ts'
import { VideoJobs } from './videos.ts'

export interface SandboxOptions {
  /** Address to listen on; the default is the loopback, since the sandbox asks for no key. */
  readonly host?: string
  /** 0, the default, picks a free one. */
  readonly port?: number
  /** Default: 60,000, so that no client with a pool of connections sends into one that is just being closed. */
  readonly keepAliveMs?: number
  /** By which it waits and dates; default: the machine's. */
  readonly clock?: Clock
}

export interface Sandbox {
  /** Base URL of the API, for a provider's `base_url`: `http://127.0.0.1:<port>/v1`. */
  readonly url: string
  readonly port: number
  /** Breaks every connection, those of hanging calls too, and frees the port. */
  close(): Promise<void>
}

const LOGGED_VALUE_MAX_LENGTH = 200

/**
 * Starts the built-in provider: OpenAI's endpoints over real HTTP, and live transcription of OpenAI and Deepgram over
 * WebSockets, answered out of the request itself, with faults on order (`FaultRules`). `GET /sandbox/calls` lists the
 * last 1000 calls and live sessions, `DELETE` forgets them.
 *
 * @throws the listener's error, EADDRINUSE for one
 */
export async function startSandbox({
  host = '127.0.0.1',
  port = 0,
  keepAliveMs = 60_000,
  clock = systemClock,
}: SandboxOptions = {}): Promise<Sandbox> {
  const videos = new VideoJobs(clock)
  const context: SandboxContext = { book: new FaultRules(), log: new CallLog(), videos, clock }
  const server = createServer((request, response) => {
    void serve(request, response, context)
  })
  server.keepAliveTimeout = keepAliveMs
  const live = new LiveSessions(context.book, clock)
  server.on('upgrade', (request, socket, head) => {
    const call = received(request, ordersOf(request.headers, request.url ?? ''), clock)
    context.log.add(call)
    void live.upgrade({ request, socket: socket as Socket, head, call })
  })
  // Bodies that are read slowly on order take longer than the five minutes that Node allows.
  server.requestTimeout = 0
  server.listen(port, host)
  await once(server, 'listening')
  const { port: bound } = server.address() as AddressInfo
  const name = host.includes(':') ? `[${host}]` : host
  return {
    url: `http://${name}:${bound}/v1`,
    port: bound,
    close: async () => {
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      live.close()
      await closed
    },
  }
}

/** State that a sandbox keeps between requests. */
interface SandboxContext {
  readonly book: FaultRules
  readonly log: CallLog
  readonly videos: VideoJobs
  readonly clock: Clock
}

/** Answers one request; whatever is thrown becomes an answer, or nothing when the caller has left. */
async function serve(
  request: IncomingMessage,
  response: ServerResponse,
  context: SandboxContext,
): Promise<void> {
  const target = ordersOf(request.headers, request.url ?? '')
  if (target.path === '/sandbox/calls') return serveCalls(request, response, context)
  const gone = new AbortController()
  response.once('close', () => gone.abort())
  const call = received(request, target, context.clock)
  context.log.add(call)
  response.setHeader('x-request-id', call.request_id)
  try {
    const faults = context.book.read(target.orders)
    const body = await heed(request, call, faults, { clock: context.clock, signal: gone.signal })
    const answer =
      body === null
        ? early(faults)
        : (injectedFailure(faults) ?? (await route(call, body, context, faults.empty)))
    call.status = answer.status
    await sendAnswer(response, answer, faults, context.clock)
  } catch (error) {
    if (gone.signal.aborted || response.headersSent) return void response.destroy()
    const refusal = error instanceof Refusal ? error : new Refusal(500, 'The server had an error.')
    call.status = refusal.status
    // A body that was not read to its end would be taken for the next request.
    const headers = request.complete ? {} : { connection: 'close' }
    await sendAnswer(response, json(refusal.status, refusal.body, headers), SOUND, context.clock)
  }
}

/** Reads the body and waits as ordered; null when the answer is ordered to come before the body. */
async function heed(
  request: IncomingMessage,
  call: LoggedCall,
  faults: Faults,
  { clock, signal }: { readonly clock: Clock; readonly signal: AbortSignal },
): Promise<CallBody | null> {
  if (faults.early) return null
  const body = await receivedBody(request, faults.readBytesPerSecond, clock)
  note(call, body)
  if (faults.delayMs > 0) await sleep(clock, faults.delayMs, { signal })
  if (faults.hang) {
    signal.throwIfAborted()
    await once(signal, 'abort')
    throw signal.reason
  }
  return body
}

function early(faults: Faults): Answer {
  return injectedFailure(faults) ?? json(200, { text: 'answered before the audio was read' })
}

function route(
  { method, path }: ReceivedCall,
  body: CallBody,
  { videos }: SandboxContext,
  empty: boolean,
): Answer | Promise<Answer> {
  const [, id, content] = /^\/v1\/videos\/([a-z0-9_]+)(\/content)?$/.exec(path) ?? []
  if (id !== undefined && (method === 'GET' || method === 'DELETE'))
    return videos.answer(method, id, content !== undefined)
  switch (`${method} ${path}`) {
    case 'GET /v1/models':
      return listModels()
    case 'POST /v1/audio/transcriptions':
      return transcription(body, 'transcribe', empty)
    case 'POST /v1/audio/translations':
      return transcription(body, 'translate', empty)
    case 'POST /v1/audio/speech':
      return speech(body)
    case 'POST /v1/audio/speech/with-timestamps':
      return timedSpeech(body)
    case 'POST /v1/chat/completions':
      return chat(body)
    case 'POST /v1/completions':
      return completion(body)
    case 'POST /v1/embeddings':
      return embeddings(body)
    case 'POST /v1/images/generations':
      return images(body)
    case 'POST /v1/videos':
      return videos.create(body)
    default:
      throw new Refusal(404, `Invalid URL (${method} ${path})`, { code: 'unknown_url' })
  }
}

function injectedFailure({ status, code, retryAfter }: Faults): Answer | null {
  if (status === null) return null
  const refusal = new Refusal(status, `The sandbox was told to fail with ${status}.`, { code })
  return json(status, refusal.body, retryAfter === null ? {} : { 'retry-after': retryAfter })
}

async function receivedBody(
  request: IncomingMessage,
  bytesPerSecond: number | null,
  clock: Clock,
): Promise<CallBody> {
  const raw = await readBody(request, bytesPerSecond, clock)
  const contentType = request.headers['content-type'] ?? ''
  if (raw.length === 0) return { fields: new Map(), file: null, json: null, raw }
  if (contentType.startsWith('multipart/form-data')) return readForm(raw, contentType)
  if (contentType.startsWith('application/json')) return readJson(raw)
  throw new Refusal(400, 'Content-Type takes multipart/form-data or application/json')
}

function received(
  request: IncomingMessage,
  { path, query }: Pick<ReturnType<typeof ordersOf>, 'path' | 'query'>,
  clock: Clock,
): LoggedCall {
  const { traceparent } = request.headers
  const names = [...new Set(query.keys())]
  return {
    time: new Date(clock.wallNow()).toISOString(),
    request_id: `req_${randomBytes(16).toString('hex')}`,
    method: request.method ?? 'GET',
    path,
    traceparent: traceparent?.toString() ?? null,
    model: null,
    sha256: null,
    bytes: null,
    fields: Object.fromEntries(names.map((name) => [name, logged(query.getAll(name))])),
    status: null,
    live: null,
    received: null,
  }
}

function logged(values: readonly string[]): string[] {
  return values.map((value) => value.slice(0, LOGGED_VALUE_MAX_LENGTH))
}

function note(call: LoggedCall, { fields, file, raw }: CallBody): void {
  const bytes = file?.bytes ?? raw
  call.model = fields.get('model')?.[0] ?? null
  call.sha256 = sha256(bytes)
  call.bytes = bytes.length
  call.fields = Object.fromEntries([...fields].map(([name, values]) => [name, logged(values)]))
}

type Sending = Pick<Faults, 'cut' | 'pieceDelayMs'>
const SOUND: Sending = { cut: false, pieceDelayMs: 0 }

/** Sends an answer; a cut one breaks the connection half-way through what was promised. */
async function sendAnswer(
  response: ServerResponse,
  answer: Answer,
  { cut, pieceDelayMs }: Sending,
  clock: Clock,
): Promise<void> {
  const { status, headers, body, chunks } = answer
  if (chunks === undefined) {
    response.writeHead(status, { ...headers, 'content-length': String(body.length) })
    if (!cut) return void response.end(body)
    await writtenOut(response, body.subarray(0, Math.ceil(body.length / 2)))
    return void response.destroy()
  }
  response.writeHead(status, headers)
  for (const chunk of cut ? chunks.slice(0, Math.ceil(chunks.length / 2)) : chunks) {
    if (response.destroyed) return
    await writtenOut(response, chunk)
    if (pieceDelayMs > 0) await sleep(clock, pieceDelayMs)
  }
  if (cut) response.destroy()
  else response.end()
}

function writtenOut(response: ServerResponse, bytes: Buffer): Promise<void> {
  return new Promise((resolve) => response.write(bytes, () => resolve()))
}

async function serveCalls(
  request: IncomingMessage,
  response: ServerResponse,
  { log, clock }: SandboxContext,
): Promise<void> {
  if (request.method === 'GET') return sendAnswer(response, json(200, { calls: log.calls }), SOUND, clock)
  if (request.method !== 'DELETE')
    return sendAnswer(response, json(405, {}, { allow: 'GET, DELETE' }), SOUND, clock)
  log.clear()
  response.writeHead(204).end()
}

/** A call as it was received, for tests to look at. */
export interface ReceivedCall {
  /** RFC 3339, when its headers came. */
  readonly time: string
  /** Id of the answer, from its `x-request-id`. */
  readonly request_id: string
  readonly method: string
  readonly path: string
  readonly traceparent: string | null
  model: string | null
  /** SHA-256 and size of the audio received; of the body where there is no audio. Null until read. */
  sha256: string | null
  bytes: number | null
  /** Form or JSON fields but the file, else those of the query, each cut to 200 characters. */
  fields: Readonly<Record<string, readonly string[]>>
  /** As answered; null while unanswered. */
  status: number | null
  /** The record of a WebSocket that was accepted. */
  live: LiveRecord | null
}

interface LoggedCall extends ReceivedCall {
  /** Reads what a live session has received so far. */
  received: (() => { sha256: string; bytes: number }) | null
}

const CALLS_MAX = 1000

/** The last calls, oldest first. */
class CallLog {
  readonly #calls: LoggedCall[] = []

  add(call: LoggedCall): void {
    this.#calls.push(call)
    if (this.#calls.length > CALLS_MAX) this.#calls.shift()
  }

  get calls(): readonly ReceivedCall[] {
    return this.#calls.map(({ received, ...call }) => ({ ...call, ...received?.() }))
  }

  clear(): void {
    this.#calls.length = 0
  }
}
