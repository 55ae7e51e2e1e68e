import type { CancelSignal } from '../../contracts/cancellation.ts'
import type { BodyConsumer, Exchange } from './exchange.ts'
import { type HeaderValue, parseHeaderValue } from './header-value.ts'
import { requestTooLarge } from './refusals.ts'

/** The type of most bodies. */
const PLAIN_JSON: HeaderValue = { value: 'application/json', parameters: new Map() }

/** The Content-Type in parts; null when it is malformed or missing, or when the body is compressed. */
export function contentTypeOf({ headers }: Exchange): HeaderValue | null {
  const encoding = headers['content-encoding']?.trim().toLowerCase() ?? ''
  if (encoding !== '' && encoding !== 'identity') return null
  const type = headers['content-type'] ?? ''
  return type === PLAIN_JSON.value ? PLAIN_JSON : parseHeaderValue(type)
}

/** @throws GatewayError REQUEST_TOO_LARGE when Content-Length alone is over the limit */
export function refuseDeclared({ contentLength, receivedBytes }: Exchange, maxBytes: number): void {
  if (contentLength !== null && contentLength > maxBytes) {
    throw requestTooLarge(maxBytes, receivedBytes, contentLength)
  }
}

/**
 * Reads a body to its end. The bytes up to the limit are taken before the one that crosses it is refused, so
 * that of two limits the one that the stream crosses first is reported.
 *
 * @param signal ends the reading, with its reason; must abort when the client leaves
 * @returns the taker's result for the last chunk
 * @throws GatewayError REQUEST_TOO_LARGE, the body's own errors, the signal's reason, errors of the taker
 */
export function readBody<Read>(
  exchange: Exchange,
  maxBytes: number,
  signal: CancelSignal,
  taker: BodyTaker<Read>,
): Promise<Read> {
  const reading = new BodyReading(exchange, maxBytes, signal, taker)
  reading.start()
  return reading.promise
}

export interface BodyTaker<Read> {
  /** As of `BodyConsumer`. */
  readonly isLasting?: boolean
  /**
   * Called with each chunk, in order; the view is valid during the call. `last` is true exactly once. An error ends the
   * reading.
   */
  take(view: Buffer, last: boolean): Read
  /** Called once, before the reading rejects. */
  failed?(): void
}

class BodyReading<Read> implements BodyConsumer {
  readonly promise: Promise<Read>
  readonly #exchange: Exchange
  readonly #maxBytes: number
  readonly #signal: CancelSignal
  readonly #taker: BodyTaker<Read>
  #resolve!: (read: Read) => void
  #reject!: (error: unknown) => void
  #received = 0
  #ended = false

  constructor(exchange: Exchange, maxBytes: number, signal: CancelSignal, taker: BodyTaker<Read>) {
    this.#exchange = exchange
    this.#maxBytes = maxBytes
    this.#signal = signal
    this.#taker = taker
    this.promise = new Promise((resolve, reject) => {
      this.#resolve = resolve
      this.#reject = reject
    })
  }

  get isLasting(): boolean {
    return this.#taker.isLasting === true
  }

  start(): void {
    this.#signal.addEventListener('abort', this, { once: true })
    if (this.#signal.aborted) this.handleEvent()
    else this.#exchange.body.consume(this)
  }

  /** Called when the signal aborts. */
  handleEvent(): void {
    this.onError(this.#signal.reason)
  }

  onChunk(view: Buffer, last: boolean): void {
    if (this.#ended) return
    const room = this.#maxBytes - this.#received
    this.#received += view.length
    let read: Read
    try {
      if (view.length > room) {
        this.#taker.take(view.subarray(0, room), false)
        throw requestTooLarge(this.#maxBytes, this.#received)
      }
      read = this.#taker.take(view, last)
    } catch (error) {
      this.onError(error)
      return
    }
    if (last && this.#end()) this.#resolve(read)
  }

  onError(error: unknown): void {
    if (!this.#end()) return
    this.#taker.failed?.()
    this.#reject(error)
  }

  /** @returns false when it has ended before */
  #end(): boolean {
    if (this.#ended) return false
    this.#ended = true
    this.#signal.removeEventListener('abort', this)
    // The rest of a refused body must come, to be discarded, and the connection may carry another request.
    if (!this.#exchange.signal.aborted) this.#exchange.body.resume()
    return true
  }
}
