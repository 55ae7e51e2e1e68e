import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Test } from 'tap'
import { type WebSocket, WebSocketServer } from 'ws'
import { samplesOf } from '../../support/speech-rig.ts'

/** What the provider does with a sentence that comes by its socket. */
interface SocketBehaviour {
  /** What becomes of the connection behind this many bytes of the sentence. */
  readonly dies?: { readonly how: 'reset' | '1011' | 'silence'; readonly afterBytes: number }
  readonly bytes?: number
}

interface VoiceSocketOptions {
  readonly key?: string
  readonly behave?: (text: string, count: number) => SocketBehaviour
  /** What its HTTP endpoint answers. */
  readonly status?: number
}

/** ElevenLabs' names of formats that its sockets make. */
const FORMAT = /^(?:mp3_\d{5}_\d{2,3}|pcm_\d{4,5}|ulaw_8000|alaw_8000|opus_48000_\d{2,3})$/
const FIELDS: ReadonlySet<string> = new Set([
  ...['text', 'voice_settings', 'generation_config', 'context_id', 'flush', 'close_context', 'close_socket'],
])
const CONTEXTS_MAX = 5
const CHUNK_BYTES = 4_000

/**
 * ElevenLabs' `multi-stream-input` and, at the same address, its streamed HTTP endpoint. Strict: what its types, its
 * documentation or the words of its errors refuse ends the connection as they say, and is noted. elevenlabs-js 2.73.0
 * api/types/WebsocketTtsClientMessageMulti.d.ts, InitializeConnectionMulti.d.ts, SendTextMulti.d.ts, CloseContext.d.ts
 */
export async function serveVoiceSocket(
  t: Pick<Test, 'teardown'>,
  { key = 'k', behave = () => ({}), status = 200 }: VoiceSocketOptions = {},
) {
  const heard = { spoken: [] as string[], requested: [] as string[], refused: [] as string[], sockets: 0 }
  const queries: URLSearchParams[] = []
  const server = createServer((request, response) => void answer(request, response))
  const sockets = new WebSocketServer({ noServer: true })
  const answer = async (request: IncomingMessage, response: ServerResponse) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const { text } = JSON.parse(Buffer.concat(chunks).toString())
    heard.requested.push(text)
    const isKnown = request.headers['xi-api-key'] === key
    if (!isKnown || status !== 200)
      return void response.writeHead(isKnown ? status : 401).end('{"detail":{"status":"ill"}}')
    response.writeHead(200, { 'content-type': 'audio/pcm' }).end(samplesOf(text))
  }
  server.on('upgrade', (request, socket, head) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://x')
    queries.push(searchParams)
    if (!/^\/v1\/text-to-speech\/[\w-]+\/multi-stream-input$/.test(pathname))
      return void socket.end('HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    sockets.handleUpgrade(request, socket, head, (open) => {
      heard.sockets += 1
      const connection = new Connection(open, (what) => heard.refused.push(what))
      const issue = handshakeIssue(searchParams, request.headers['xi-api-key'] === key)
      if (issue !== null) return void connection.refuse(issue)
      open.on('message', (data: Buffer, isBinary: boolean) => {
        if (isBinary) return void connection.refuse('invalid_input_message')
        const text = connection.read(String(data))
        if (text === null) return
        heard.spoken.push(text.text)
        void connection.speak(text.context, text.text, behave(text.text, heard.spoken.length - 1))
      })
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    for (const open of sockets.clients) open.terminate()
    server.closeAllConnections()
    server.close()
  })
  return { ...heard, heard, queries, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
}

function handshakeIssue(query: URLSearchParams, isKnown: boolean): string | null {
  if (!isKnown) return 'invalid_api_key'
  if (query.get('model_id') === null) return 'model_id_missing'
  if (!FORMAT.test(query.get('output_format') ?? 'mp3_44100_128')) return 'invalid_output_format'
  const timeout = Number(query.get('inactivity_timeout') ?? 20)
  return timeout >= 1 && timeout <= 180 ? null : 'invalid_inactivity_timeout'
}

interface Context {
  text: string
  isFlushed: boolean
}

class Connection {
  readonly #socket: WebSocket
  readonly #noted: (what: string) => void
  readonly #contexts = new Map<string, Context>()
  #isOver = false

  constructor(socket: WebSocket, noted: (what: string) => void) {
    this.#socket = socket
    this.#noted = noted
    socket.on('error', () => {})
    socket.on('close', () => {
      this.#isOver = true
    })
  }

  refuse(error: string): null {
    this.#noted(error)
    this.#isOver = true
    this.#socket.send(JSON.stringify({ message: `what is wrong: ${error}`, error, code: 1008 }))
    this.#socket.close(1008, error)
    return null
  }

  /** @returns a text that is to be spoken now; null: none is */
  read(data: string): { readonly context: string; readonly text: string } | null {
    if (this.#isOver) return null
    const message = parsed(data)
    if (message === null || Object.keys(message).some((name) => !FIELDS.has(name)))
      return this.refuse('invalid_input_message')
    const {
      text,
      context_id: context = 'default',
      flush,
      close_context: closes,
      close_socket: ends,
    } = message
    if (ends === true) {
      this.#isOver = true
      this.#socket.close(1000)
      return null
    }
    if (typeof context !== 'string') return this.refuse('invalid_input_message')
    const open = this.#contexts.get(context)
    if (closes === true) {
      if (open === undefined) return this.refuse('context_not_found')
      return open.isFlushed ? { context, text: open.text.trim() } : this.refuse('closed_without_flush')
    }
    if (typeof text !== 'string') return this.refuse('invalid_input_message')
    if (open === undefined) return this.#begin(context, text)
    if (text !== '' && !text.endsWith(' ')) this.#noted('text without a space behind it')
    open.text += text
    open.isFlushed ||= flush === true
    return null
  }

  #begin(context: string, text: string): null {
    if (text !== ' ') return this.refuse('invalid_input_message')
    if (this.#contexts.size >= CONTEXTS_MAX) return this.refuse('max_active_conversations')
    this.#contexts.set(context, { text: '', isFlushed: false })
    return null
  }

  async speak(context: string, text: string, { dies, bytes }: SocketBehaviour): Promise<void> {
    const samples = samplesOf(text, bytes)
    for (let at = 0; at < samples.length; at += CHUNK_BYTES) {
      const most = dies === undefined ? samples.length : dies.afterBytes
      const part = samples.subarray(at, Math.min(at + CHUNK_BYTES, most))
      if (part.length > 0) this.#say({ audio: part.toString('base64'), contextId: context })
      if (dies !== undefined && at + CHUNK_BYTES >= most) return this.#die(dies.how)
      await new Promise((resolve) => setImmediate(resolve))
    }
    this.#contexts.delete(context)
    this.#say({ isFinal: true, contextId: context })
  }

  #say(message: object): void {
    if (!this.#isOver) this.#socket.send(JSON.stringify(message))
  }

  /** What was said before gets there. */
  #die(how: 'reset' | '1011' | 'silence'): void {
    this.#isOver = true
    if (how === '1011') this.#socket.close(1011, 'ill')
    if (how === 'reset') setTimeout(() => this.#socket.terminate(), 30)
  }
}

function parsed(data: string): Record<string, unknown> | null {
  try {
    const value = JSON.parse(data)
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : null
  } catch {
    return null
  }
}
