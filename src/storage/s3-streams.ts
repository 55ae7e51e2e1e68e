import {
  type ClientRequest,
  Agent as HttpAgent,
  request as httpRequest,
  type IncomingMessage,
} from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import type { S3ClientConfig } from '@aws-sdk/client-s3'

type RequestHandler = Extract<NonNullable<S3ClientConfig['requestHandler']>, { handle: unknown }>
type SignedRequest = Parameters<RequestHandler['handle']>[0]

export interface StreamTiming {
  /** How long a connection may take to come about. */
  readonly connectMs: number
  /** How long the store may take no byte, or give no answer, while it is its turn. */
  readonly stallMs: number
}

/** Idle connections are closed before servers do it, which would fail the next upload. */
const IDLE_MS = 4_000

/**
 * Sends the SDK's signed requests whose body is an AsyncIterable of chunks, on connections of their own.
 *
 * The SDK's own handler pipes a Readable, so nobody learns when a chunk has left, and an upload that waits for its
 * sender looks like one that waits for the store. Here the next chunk is asked for when the last one has been given to
 * the operating system, so its memory may be used again; and only the store's own time is measured.
 */
export class StreamHandler {
  readonly metadata = { handlerProtocol: 'http/1.1' }
  readonly #timing: StreamTiming
  // Upload slots limit the connections, not the agent, which would let uploads queue unseen.
  readonly #http = new HttpAgent({ keepAlive: true, timeout: IDLE_MS })
  readonly #https = new HttpsAgent({ keepAlive: true, timeout: IDLE_MS })

  constructor(timing: StreamTiming) {
    this.#timing = timing
  }

  /** @throws Error of the connection, or the signal's reason. Never sends a body twice. */
  async handle(request: SignedRequest, { abortSignal }: { abortSignal?: unknown } = {}) {
    const signal = abortSignal as AbortSignal
    const chunks = (request.body as AsyncIterable<Uint8Array>)[Symbol.asyncIterator]()
    // Without a first byte no connection is opened: a slow sender costs the store nothing yet.
    const first = await chunks.next()
    const attempt = (reuse: boolean) => {
      signal.throwIfAborted()
      return new Transmission(this.#open(request, reuse), chunks, first, signal, this.#timing)
    }
    let transmission = attempt(true)
    let answer = await transmission.answer.catch((error: unknown) => {
      if (transmission.failedStale) return null
      throw error
    })
    if (answer === null) {
      transmission = attempt(false)
      answer = await transmission.answer
    }
    const headers: Record<string, string> = {}
    for (const [name, value] of Object.entries(answer.headers)) headers[name] = String(value)
    return {
      response: {
        statusCode: answer.statusCode ?? 0,
        reason: answer.statusMessage ?? '',
        headers,
        body: answer,
      },
    }
  }

  destroy(): void {
    this.#http.destroy()
    this.#https.destroy()
  }

  updateHttpClientConfig(): void {}

  httpHandlerConfigs(): Record<string, never> {
    return {}
  }

  #open(request: SignedRequest, reuse: boolean): ClientRequest {
    const secure = request.protocol === 'https:'
    const agent = secure ? this.#https : this.#http
    const options = {
      method: request.method,
      // Node wants an IPv6 address without its brackets.
      host: request.hostname.replace(/^\[|\]$/g, ''),
      port: request.port,
      path: pathOf(request),
      headers: request.headers,
      agent: reuse ? agent : false,
    }
    return secure ? httpsRequest(options) : httpRequest(options)
  }
}

function pathOf({ path, query }: SignedRequest): string {
  const pairs = new URLSearchParams()
  for (const [name, value] of Object.entries(query ?? {}))
    pairs.append(name, value === null ? '' : String(value))
  return pairs.size === 0 ? path : `${path}?${pairs}`
}

/** One request on its way. */
class Transmission {
  /** The answer, as soon as its headers are there, also when it comes before the body has been sent. */
  readonly answer: Promise<IncomingMessage>
  readonly #outgoing: ClientRequest
  readonly #timer: NodeJS.Timeout
  #fail: (error: unknown) => void = () => {}
  #storesTurn = false
  #asked = false
  #reused = false
  #answered = false

  constructor(
    outgoing: ClientRequest,
    chunks: AsyncIterator<Uint8Array>,
    first: IteratorResult<Uint8Array>,
    signal: AbortSignal,
    { connectMs, stallMs }: StreamTiming,
  ) {
    this.#outgoing = outgoing
    // Refreshed whenever it becomes the store's turn, which is cheaper than a timer per chunk.
    this.#timer = setTimeout(() => {
      if (this.#storesTurn) this.#fail(new Error(`the store did nothing for ${stallMs} ms`))
    }, stallMs)
    const connecting = setTimeout(
      () => this.#fail(new Error(`no connection within ${connectMs} ms`)),
      connectMs,
    )
    const onAbort = () => this.#fail(signal.reason)
    signal.addEventListener('abort', onAbort, { once: true })
    this.answer = new Promise<IncomingMessage>((resolve, reject) => {
      this.#fail = (error) => {
        reject(error)
        outgoing.destroy()
      }
      outgoing.on('error', reject)
      outgoing.on('close', () => reject(new Error('the store closed the connection')))
      outgoing.on('socket', (socket) => {
        this.#reused = outgoing.reusedSocket
        if (!socket.connecting) clearTimeout(connecting)
        else socket.once('connect', () => clearTimeout(connecting))
      })
      outgoing.on('response', (response) => {
        this.#answered = true
        // An answer before the end of the body is a refusal, and the connection is no use after it.
        if (!outgoing.writableEnded) response.once('close', () => outgoing.destroy())
        resolve(response)
      })
    }).finally(() => {
      clearTimeout(connecting)
      clearTimeout(this.#timer)
      signal.removeEventListener('abort', onAbort)
    })
    this.#send(chunks, first).catch((error: unknown) => this.#fail(error))
  }

  /** The store had closed the kept connection. Nothing but the first chunk was sent, so it can be sent again. */
  get failedStale(): boolean {
    return this.#reused && !this.#asked && !this.#answered
  }

  async #send(chunks: AsyncIterator<Uint8Array>, first: IteratorResult<Uint8Array>): Promise<void> {
    for (let next = first; next.done !== true && !this.#answered; next = await chunks.next()) {
      await this.#write(next.value)
      this.#asked = true
    }
    if (this.#answered) {
      await chunks.return?.()
      return
    }
    this.#startTurn()
    this.#outgoing.end()
  }

  #startTurn(): void {
    this.#storesTurn = true
    this.#timer.refresh()
  }

  /** Resolves when the operating system has the chunk. */
  async #write(chunk: Uint8Array): Promise<void> {
    this.#startTurn()
    await new Promise<void>((resolve, reject) => {
      // A request that is destroyed before it has a connection forgets the callback.
      this.#outgoing.once('close', reject)
      this.#outgoing.write(chunk, (error) => {
        this.#outgoing.off('close', reject)
        if (error) reject(error)
        else resolve()
      })
    })
    this.#storesTurn = false
  }
}
