import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { createServer, type Socket } from 'node:net'
import { listen } from './http-server.ts'
import type { Teardown } from './scratch.ts'

/** How far a request may come: a connection of which nothing was read; all of it; half of the answer written. */
export type Stage = 'connected' | 'whole' | 'half'

/** A provider whose requests can be stopped on their way. */
export interface HoldingUpstream {
  /** As a provider's `base_url`. */
  readonly url: string
  /** Requests from now on stop there; null: they do not stop. */
  holdAt(stage: Stage | null): void
  /** How many are stopped now, and not given up by their sender. */
  readonly held: number
  /** Lets those go on that are stopped now. */
  letGo(): void
  /** How often a request with this mark was here whole: what a provider works on, and bills. */
  executions(mark: string): number
  /** All of them. */
  readonly executed: number
  /** Answers of this status from now on; 0 breaks the connection when the request is here whole. */
  answer: number
}

/** A text that names a request wherever its body goes. */
export function markOf(name: string): string {
  return `<mark:${name}>`
}

const MARK = /<mark:([^>]+)>/
const ANSWER_TOKENS = { prompt_tokens: 10, completion_tokens: 50, total_tokens: 60 }

/**
 * A server that speaks OpenAI's wire format: transcriptions, speech and chats. Like a real one it works on whatever
 * it has read whole, also when nobody waits for the answer any more.
 */
export async function startHoldingUpstream(t: Teardown): Promise<HoldingUpstream> {
  const waiting = new Map<() => void, Socket>()
  const executions = new Map<string, number>()
  let stage: Stage | null = null
  let executed = 0

  /** Resolves when it may go on. */
  const reach = async (now: Stage, socket: Socket): Promise<void> => {
    if (now !== stage) return
    await new Promise<void>((resolve) => waiting.set(resolve, socket))
  }
  const upstream = {
    holdAt: (next: Stage | null) => {
      stage = next
    },
    get held() {
      return [...waiting.values()].filter((socket) => !socket.destroyed).length
    },
    letGo() {
      const all = [...waiting.keys()]
      waiting.clear()
      for (const resolve of all) resolve()
    },
    executions: (mark: string) => executions.get(mark) ?? 0,
    get executed() {
      return executed
    },
    answer: 200,
  }

  const http = createHttpServer((request, response) => {
    void handle(request, response).catch(() => response.destroy())
  })
  async function handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await bodyOf(request)
    const mark = MARK.exec(body)?.[1] ?? 'none'
    executions.set(mark, (executions.get(mark) ?? 0) + 1)
    executed += 1
    await reach('whole', request.socket)
    if (upstream.answer === 0) return void request.socket.destroy()
    const { type, bytes } = upstream.answer === 200 ? answerTo(request.url ?? '', mark) : refusal()
    response.writeHead(upstream.answer, { 'content-type': type, 'content-length': bytes.length })
    const middle = bytes.length >> 1
    response.write(bytes.subarray(0, middle))
    await reach('half', request.socket)
    response.end(bytes.subarray(middle))
  }

  const sockets = new Set<Socket>()
  const server = createServer({ pauseOnConnect: true, noDelay: true }, (socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
    void reach('connected', socket).then(() => {
      http.emit('connection', socket)
      socket.resume()
    })
  })
  const origin = await listen(t, server)
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
  })
  return Object.assign(upstream, { url: `${origin}/v1` })
}

/** Rejects when the sender leaves before the end. */
async function bodyOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('latin1')
}

interface Answer {
  readonly type: string
  readonly bytes: Buffer
}

/** The mark comes back in it, so that the answer to another request would be told from its own. */
function answerTo(path: string, mark: string): Answer {
  if (path.endsWith('/audio/speech')) return { type: 'audio/mpeg', bytes: Buffer.from(`sound of ${mark}`) }
  if (path.endsWith('/audio/transcriptions')) {
    return json({ text: `heard ${mark}`, usage: { type: 'duration', seconds: 2 } })
  }
  const message = { role: 'assistant', content: `answer to ${mark}` }
  const choices = [{ index: 0, message, finish_reason: 'stop' }]
  return json({ id: 'chatcmpl-1', object: 'chat.completion', choices, usage: ANSWER_TOKENS })
}

function refusal(): Answer {
  return json({ error: { message: 'refused', type: 'test', code: null } })
}

function json(value: object): Answer {
  return { type: 'application/json', bytes: Buffer.from(JSON.stringify(value)) }
}
