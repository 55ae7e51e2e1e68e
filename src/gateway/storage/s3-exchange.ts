import { readHeaders } from '../outbound/answer-head.ts'
import type { Connection } from '../outbound/connection.ts'
import type { Connections, WaitingExchange } from '../outbound/connections.ts'
import { Perishable } from '../outbound/deadlines.ts'
import type { RequestHead } from '../outbound/request-head.ts'
import { copyInto } from './blocks.ts'

/** Head of an answer of the store. */
export interface StoreAnswer {
  readonly status: number
  /** Lower-case names; repeated headers joined with `, `. */
  readonly headers: Readonly<Record<string, string>>
  /** Length of the body; null: unknown until it ends. */
  readonly length: number | null
}

interface S3Request {
  readonly head: RequestHead
  /** The chunks of the body, of which the first one is here; null: there is none. */
  readonly body: { readonly first: Uint8Array; readonly others: AsyncIterator<Uint8Array> } | null
  readonly bodyBytes: number
  readonly signal: AbortSignal
  /** Only a new connection will do. */
  readonly needsFresh: boolean
  /** How long a call without a body may take until its answer begins. */
  readonly answerMs: number
  /** How long the store may take no byte, or send none, while it is its turn. */
  readonly stallMs: number
}

/** A reader that waits for bytes. */
interface Want {
  readonly target: Uint8Array
  /** Bytes that satisfy it, unless the answer ends. */
  readonly least: number
  /** Place of the bytes after these. */
  readonly after: Uint8Array | null
  filled: number
  resolve(bytes: number): void
  reject(error: Error): void
}

const noop = () => {}

/**
 * One request to the store. The body of its answer is read only when its reader asks for it, by the system straight
 * into the reader's memory; a chunk of its own body may be used again as soon as the next one is asked for, or the
 * request has failed. A failure ends the connection and whoever waits for it.
 */
export class S3Exchange extends Perishable implements WaitingExchange {
  readonly body: AsyncIterable<Uint8Array> | null
  over = false
  readonly #connections: Connections
  readonly #request: S3Request
  readonly #answer = Promise.withResolvers<StoreAnswer>()
  #isAnswered = false
  /** More of the body was asked for than its first chunk. */
  #isFollowed = false
  #connection: Connection | null = null
  #awaitedMs = 0
  /** Bytes of the answer that came before their reader asked for them. */
  #rest: Uint8Array[] = []
  #place: Uint8Array | null = null
  #want: Want | null = null
  #failure: Error | null = null

  constructor(connections: Connections, request: S3Request) {
    super()
    this.#connections = connections
    this.#request = request
    this.body = request.body === null ? null : this.#chunks(request.body)
    this.#answer.promise.catch(noop)
  }

  get head(): RequestHead {
    return this.#request.head
  }

  get bodyBytes(): number {
    return this.#request.bodyBytes
  }

  get needsFresh(): boolean {
    return this.#request.needsFresh
  }

  /** The store had closed the kept connection. Nothing but the first chunk was sent, so it can be sent again. */
  get failedStale(): boolean {
    const { signal } = this.#request
    return this.#connection?.isReused === true && !this.#isFollowed && !this.#isAnswered && !signal.aborted
  }

  /** @returns the head of the answer, which may come before all of the body is out */
  send(): Promise<StoreAnswer> {
    const { signal } = this.#request
    signal.addEventListener('abort', this, { once: true })
    if (signal.aborted) this.handleEvent()
    else this.#connections.send(this)
    return this.#answer.promise
  }

  /** Called when the signal of the request aborts. */
  handleEvent(): void {
    this.end(this.#request.signal.reason)
  }

  /** Ends the request and its connection. Whoever waits for it fails with `error`. Idempotent. */
  end(error: Error): void {
    if (this.over) return
    this.#connection?.abandon(this)
    this.onBroken(error)
  }

  /**
   * Reads bytes of the answer's body into `target`, at least `least` of them: fewer only when the answer has ended.
   *
   * @param after memory for the bytes after these, where the same reader continues: the next target, or the beginning
   *              of it is; null when nothing is to follow
   */
  read(target: Uint8Array, least: number, after: Uint8Array | null): Promise<number> {
    const filled = this.#takeRest(target)
    if (filled >= least || (this.over && this.#failure === null)) return Promise.resolve(filled)
    if (this.#failure !== null) return Promise.reject(this.#failure)
    this.#awaitStore(this.#request.stallMs)
    return new Promise((resolve, reject) => {
      this.#want = { target, least, after, filled, resolve, reject }
      this.#connection?.resume()
    })
  }

  onAssigned(connection: Connection): void {
    this.#connection = connection
  }

  onBegun(): void {
    const { answerMs, stallMs } = this.#request
    this.#awaitStore(this.body === null ? answerMs : stallMs)
  }

  onHead(status: number, fields: string): void {
    const headers = readHeaders(fields)
    const { 'content-length': declared } = headers
    const isBodiless = status === 204 || status === 304
    const length = isBodiless ? 0 : declared === undefined ? null : Number(declared)
    this.#isAnswered = true
    this.#connections.deadlines.remove(this)
    this.#connection?.pause()
    this.#answer.resolve({ status, headers, length })
  }

  onBody(bytes: Buffer, start: number, end: number): void {
    const want = this.#want
    let at = start
    if (want !== null) {
      at += Math.min(end - start, want.target.length - want.filled)
      copyInto(want.target, want.filled, bytes.subarray(start, at))
      this.#filled(want, at - start)
    }
    if (at < end) this.#rest.push(Uint8Array.from(bytes.subarray(at, end)))
  }

  /** Bytes that have come beyond those that were read go first into the buffer that would be the place. */
  place(): Uint8Array | null {
    return this.#rest.length === 0 ? this.#place : null
  }

  onPlaced(bytes: number): void {
    if (this.#want !== null) this.#filled(this.#want, bytes)
  }

  onEnd(): void {
    this.#settle()
    this.#want?.resolve(this.#want.filled)
    this.#want = null
  }

  onBroken(cause: Error): void {
    if (this.over) return
    this.#settle()
    this.#failure = cause
    this.#answer.reject(cause)
    this.#want?.reject(cause)
    this.#want = null
  }

  override expire(): void {
    this.end(new Error(`the store did nothing for ${this.#awaitedMs} ms`))
  }

  #settle(): void {
    this.over = true
    this.#connections.deadlines.remove(this)
    this.#request.signal.removeEventListener('abort', this)
  }

  /** From now on the store has so long to do something. */
  #awaitStore(ms: number): void {
    const { deadlines } = this.#connections
    this.#awaitedMs = ms
    deadlines.add(this, deadlines.clock.now() + ms)
  }

  /** Hands the body on; whenever the next chunk is asked for, the system has the last one. */
  async *#chunks({ first, others }: NonNullable<S3Request['body']>): AsyncGenerator<Uint8Array> {
    yield first
    while (!this.over) {
      this.#isFollowed = true
      if (!this.#isAnswered) this.#connections.deadlines.remove(this)
      const next = await others.next()
      if (!this.#isAnswered && !this.over) this.#awaitStore(this.#request.stallMs)
      if (next.done === true) return
      yield next.value
    }
  }

  #takeRest(target: Uint8Array): number {
    let filled = 0
    while (filled < target.length) {
      const piece = this.#rest.shift()
      if (piece === undefined) break
      const part = piece.subarray(0, target.length - filled)
      copyInto(target, filled, part)
      filled += part.length
      if (part.length < piece.length) this.#rest.unshift(piece.subarray(part.length))
    }
    return filled
  }

  #filled(want: Want, bytes: number): void {
    want.filled += bytes
    if (want.filled < want.least) {
      this.#place = want.target.subarray(want.filled)
      return
    }
    this.#place = want.after
    this.#want = null
    this.#connections.deadlines.remove(this)
    this.#connection?.pause()
    want.resolve(want.filled)
  }
}
