import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { listen } from '../http-server.ts'
import type { Teardown } from '../scratch.ts'
import type { Answer, Dialect, Fields, ReceivedRequest, Script, Stage } from './dialect.ts'
import { openAiDialect } from './openai.ts'

/** A provider that does what a test scripts for it, and records what it was asked. */
export interface Upstream {
  readonly origin: string
  /** As a provider's `base_url`. */
  readonly url: string
  /** In the order in which the requests were here whole. */
  readonly received: readonly ReceivedRequest[]
  /** Lines such as `POST /videos`, in order. */
  lines(): string[]
  /** From now on this model does so. */
  behave(model: string, script: Script): void
  /** From now on every model does so that has no script of its own. */
  behaveAll(script: Script): void
  /** Requests from now on stop there; null: they do not stop. */
  holdAt(stage: Stage | null): void
  /** How many are stopped now, and not given up by their sender. */
  readonly held: number
  /** Lets those go on that are stopped now. */
  letGo(): void
  /** How often a request with this mark was here whole: what a provider works on, and bills. */
  executions(mark: string): number
}

export interface UpstreamOptions {
  /** Default: OpenAI's. */
  readonly dialect?: Dialect
  /** What every model does, or what is done with one request; a model's own script comes first. */
  readonly script?: Script | ((request: ReceivedRequest) => Script)
}

/** A text that names a request wherever its body goes; most dialects repeat it in their answer. */
export function markOf(name: string): string {
  return `<mark:${name}>`
}

const MARK = /<mark:([^>]+)>/
/** What was written before a break must have arrived, and been read. */
const BREAK_MS = 100

/**
 * Starts a server that speaks one provider's dialect until the test ends. Like a real provider it works on whatever it
 * has read whole, also when nobody waits for the answer any more.
 */
export async function startUpstream(t: Teardown, options: UpstreamOptions = {}): Promise<Upstream> {
  const upstream = new ScriptedUpstream(options.dialect ?? openAiDialect(), options.script ?? {})
  await upstream.open(t)
  return upstream
}

class ScriptedUpstream implements Upstream {
  readonly received: ReceivedRequest[] = []
  origin = ''
  readonly #dialect: Dialect
  #script: (request: ReceivedRequest) => Script
  readonly #scripts = new Map<string, Script>()
  readonly #executions = new Map<string, number>()
  readonly #waiting = new Map<() => void, Socket>()
  #stage: Stage | null = null

  constructor(dialect: Dialect, script: NonNullable<UpstreamOptions['script']>) {
    this.#dialect = dialect
    this.#script = typeof script === 'function' ? script : () => script
  }

  /** Sockets are opened by hand, so that a request can be held before anything of it is read. */
  async open(t: Teardown): Promise<void> {
    const http = createHttpServer((request, response) => {
      void this.#serve(request, response).catch(() => response.destroy())
    })
    const sockets = new Set<Socket>()
    const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
      sockets.add(socket)
      socket.on('error', () => {})
      socket.on('close', () => sockets.delete(socket))
      void this.#reach('connected', socket).then(() => {
        http.emit('connection', socket)
        socket.resume()
      })
    })
    t.teardown(() => {
      for (const socket of sockets) socket.destroy()
    })
    this.origin = await listen(t, server)
  }

  get url(): string {
    return this.origin + this.#dialect.basePath
  }

  lines(): string[] {
    const { basePath } = this.#dialect
    return this.received.map(({ method, path }) => `${method} ${path.replace(basePath, '')}`)
  }

  behave(model: string, script: Script): void {
    this.#scripts.set(model, script)
  }

  behaveAll(script: Script): void {
    this.#script = () => script
  }

  holdAt(stage: Stage | null): void {
    this.#stage = stage
  }

  get held(): number {
    return [...this.#waiting.values()].filter((socket) => !socket.destroyed).length
  }

  letGo(): void {
    const all = [...this.#waiting.keys()]
    this.#waiting.clear()
    for (const resolve of all) resolve()
  }

  executions(mark: string): number {
    return this.#executions.get(mark) ?? 0
  }

  /** Resolves when the request may go on. */
  async #reach(stage: Stage, socket: Socket): Promise<void> {
    if (stage !== this.#stage) return
    await new Promise<void>((resolve) => this.#waiting.set(resolve, socket))
  }

  async #serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of incoming) chunks.push(chunk as Buffer)
    const bytes = Buffer.concat(chunks)
    const form = await readForm(incoming, bytes)
    const request = await understand(incoming, bytes, form)
    this.received.push(request)
    if (request.mark !== null) this.#executions.set(request.mark, this.executions(request.mark) + 1)
    void once(response, 'close').then(() => {
      request.state = response.writableFinished ? 'finished' : 'left'
    })
    const script = this.#scripts.get(request.model) ?? this.#script(request)
    await this.#reach('whole', incoming.socket)
    if (script.waitMs !== undefined) await sleep(script.waitMs)
    const scriptOf = (model: string) => this.#scripts.get(model) ?? this.#script({ ...request, model })
    const answer = await answerTo(this.#dialect, { request, script, bytes, form, scriptOf })
    if (answer.fate === 'hang') return
    if (answer.chunks === undefined) await this.#sendWhole(response, answer, script)
    else await sendChunks(response, answer, { script, request })
  }

  async #sendWhole(response: ServerResponse, answer: Answer, script: Script): Promise<void> {
    const { status = 200, bytes = Buffer.alloc(0), headers } = answer
    if (status === 200) await script.before?.(0)
    if (answer.fate === 'cut') {
      if (bytes.length > 0) {
        response.writeHead(status, { ...headers, 'content-length': 2 * bytes.length, ...script.headers })
        response.write(bytes)
        await sleep(BREAK_MS)
      }
      return void response.destroy()
    }
    response.writeHead(status, { ...headers, 'content-length': bytes.length, ...script.headers })
    if (this.#stage !== 'half' || response.socket === null) return void response.end(bytes)
    const middle = bytes.length >> 1
    response.write(bytes.subarray(0, middle))
    await this.#reach('half', response.socket)
    response.end(bytes.subarray(middle))
  }
}

/** What the script says comes before what the dialect would answer. */
function answerTo(dialect: Dialect, asked: Parameters<Dialect['answer']>[0]): Answer | Promise<Answer> {
  const { status, fate, body, contentType = 'application/json' } = asked.script
  if (fate === 'hang') return { fate }
  const given =
    body === undefined ? {} : { bytes: Buffer.from(body), headers: { 'content-type': contentType } }
  if (status !== undefined && status !== 200)
    return body === undefined ? dialect.refuse(status) : { ...given, status }
  if (fate === 'cut') return { ...given, fate }
  if (body !== undefined) return given
  return dialect.answer(asked)
}

/** Sends chunks at the reader's pace, with the waits and the break that the script asks for. */
async function sendChunks(
  response: ServerResponse,
  answer: Answer,
  { script, request }: { readonly script: Script; readonly request: ReceivedRequest },
): Promise<void> {
  const { status = 200, headers, chunks = [], tail = [], fate } = answer
  const { before, cutAfter, unfinished = false } = script
  const chunkMs = answer.chunkMs ?? script.chunkMs ?? 0
  response.writeHead(status, { ...headers, ...script.headers })
  response.flushHeaders()
  const closed = once(response, 'close')
  const write = async (chunk: string | Uint8Array) => {
    if (!response.write(chunk)) await Promise.race([drained(response), closed])
    request.written += chunk.length
  }
  let sent = 0
  for (const chunk of chunks) {
    if (sent > 0) await before?.(sent)
    if (response.destroyed) return
    if (sent === cutAfter) break
    if (chunkMs > 0) await sleep(chunkMs)
    await write(chunk)
    sent += 1
  }
  if (sent === cutAfter || fate === 'cut') {
    if (sent > 0) await sleep(BREAK_MS)
    return void response.destroy()
  }
  if (!unfinished) for (const chunk of tail) await write(chunk)
  response.end()
}

function drained(response: ServerResponse): Promise<void> {
  return new Promise((resolve) => void response.once('drain', resolve))
}

async function readForm({ headers }: IncomingMessage, bytes: Buffer): Promise<FormData | null> {
  const type = headers['content-type'] ?? ''
  if (!type.startsWith('multipart/form-data')) return null
  return new Response(new Uint8Array(bytes), { headers: { 'content-type': type } }).formData()
}

/** Reads a request as far as it is recorded: audio by its digest alone. */
async function understand(
  { method = '', url: path = '', headers }: IncomingMessage,
  bytes: Buffer,
  form: FormData | null,
): Promise<ReceivedRequest> {
  const isJson = headers['content-type']?.startsWith('application/json') && bytes.length > 0
  const body = isJson ? (JSON.parse(bytes.toString()) as Fields) : null
  const texts = [...(form ?? [])].filter(([, value]) => typeof value === 'string')
  const fields = Object.fromEntries(texts) as Record<string, string>
  const file = form?.get('file')
  const markAt = bytes.indexOf('<mark:')
  return {
    method,
    path,
    headers,
    body,
    fields,
    model: String(body?.model ?? fields.model ?? ''),
    sha256: createHash('sha256')
      .update(file instanceof File ? await file.bytes() : bytes)
      .digest('hex'),
    mark: markAt < 0 ? null : (MARK.exec(bytes.toString('latin1', markAt, markAt + 200))?.[1] ?? null),
    written: 0,
    state: 'answering',
  }
}
