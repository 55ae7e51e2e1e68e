import { setImmediate as turn } from 'node:timers/promises'
import { errorReply, GatewayError, toGatewayError } from '../../src/contracts/errors.ts'
import type { BodyConsumer, Exchange, Reply, RequestBody } from '../../src/gateway/edge/exchange.ts'

export interface FakeRequest {
  readonly contentType?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly query?: string
  /** Defaults to the length of the chunks; null is a chunked body. */
  readonly contentLength?: number | null
  readonly chunks: readonly Uint8Array[]
  /** Chunks that still arrive after `pause`. */
  readonly overshoot?: number
  /** What happens before the chunk of this index instead of its arrival, and ends the body. */
  readonly breaks?: { readonly before: number; readonly error: GatewayError | 'leave' }
}

type Listener = Parameters<Exchange['onFinished']>[0]

/**
 * An exchange in memory. Chunks come one per turn of the loop out of one buffer that is overwritten as soon
 * as the consumer returns, as uWebSockets.js detaches its own.
 */
export class FakeExchange implements Exchange {
  readonly requestId = 'req_given'
  readonly method = 'POST'
  readonly path = '/v1/transcription'
  readonly pattern = '/v1/transcription'
  readonly query: string
  readonly peer = '127.0.0.1'
  readonly encrypted = false
  readonly headFault = null
  readonly headers: Readonly<Record<string, string>>
  readonly contentLength: number | null
  readonly params: readonly string[] = []
  readonly elapsedMs = 0
  readonly bodyMs = 0
  readonly sentBytes = 0
  readonly firstByteMs = null
  readonly handshake = false
  readonly body: RequestBody
  status: number | null = null
  receivedBytes = 0
  pauses = 0
  paused = false
  consumed = false
  readonly #leaving = new AbortController()
  readonly #request: FakeRequest
  readonly #listeners: Listener[] = []
  #resumed: () => void = () => {}

  upgrade(): void {
    throw new Error('it asks for no WebSocket')
  }

  constructor(request: FakeRequest) {
    const { chunks, contentType, headers = {}, query = '' } = request
    const length = chunks.reduce((sum, chunk) => sum + chunk.length, 0)
    this.#request = request
    this.query = query
    this.headers = contentType === undefined ? headers : { 'content-type': contentType, ...headers }
    this.contentLength = request.contentLength === undefined ? length : request.contentLength
    this.body = {
      consume: (consumer) => this.#consume(consumer),
      pause: () => {
        if (!this.paused) this.pauses += 1
        this.paused = true
      },
      resume: () => {
        this.paused = false
        this.#resumed()
      },
    }
  }

  get signal(): AbortSignal {
    return this.#leaving.signal
  }

  leave(): void {
    this.#leaving.abort(new GatewayError('CLIENT_CLOSED'))
  }

  reply({ status }: Reply): void {
    this.status ??= status
  }

  replyError(error: GatewayError): void {
    this.status ??= errorReply(error, this.requestId).status
  }

  fail(thrown: unknown): void {
    this.replyError(toGatewayError(thrown))
  }

  onFinished(listener: Listener): void {
    this.#listeners.push(listener)
  }

  /** The answer is out, or the client has left. */
  finish(): void {
    for (const listener of this.#listeners.splice(0)) {
      if (typeof listener === 'function') listener()
      else listener.finished()
    }
  }

  #consume(consumer: BodyConsumer): void {
    if (this.consumed) throw new Error('the body has a consumer already')
    this.consumed = true
    void this.#deliver(consumer)
  }

  async #deliver(consumer: BodyConsumer): Promise<void> {
    const { chunks, breaks, overshoot = 0 } = this.#request
    const memory = Buffer.alloc(Math.max(0, ...chunks.map((chunk) => chunk.length)))
    let late = 0
    for (const [index, chunk] of chunks.entries()) {
      await turn()
      late = this.paused ? late + 1 : 0
      if (late > overshoot) await this.#resume()
      if (breaks?.before === index) {
        if (breaks.error === 'leave') this.leave()
        else consumer.onError(breaks.error)
        return
      }
      memory.set(chunk)
      this.receivedBytes += chunk.length
      consumer.onChunk(memory.subarray(0, chunk.length), index === chunks.length - 1)
      memory.fill(0x2a)
    }
  }

  #resume(): Promise<void> {
    return new Promise((resolve) => {
      if (!this.paused) resolve()
      else this.#resumed = resolve
    })
  }
}
