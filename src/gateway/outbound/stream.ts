import type { AudioReader } from '../../contracts/audio.ts'
import type { OpenOptions, UpstreamRequest, UpstreamStream } from '../../contracts/upstream.ts'
import { readHeaders } from './answer-head.ts'
import type { Connections } from './connections.ts'
import { copyOf, refuseEncoded, Sending } from './sending.ts'

/**
 * Bytes of an answer that wait for their reader before the provider is held back. A read of the socket may add as much
 * again, and the kernel holds more.
 */
const WAITING_BYTES_MAX = 64 * 1024

class ReaderLeft extends Error {
  override readonly name = 'ReaderLeft'
}

/** Sends a request whose answer is read as it comes; see `OpenStream`. */
export async function openStream(
  connections: Connections,
  reader: AudioReader,
  request: UpstreamRequest,
  options: OpenOptions,
): Promise<UpstreamStream> {
  const answer = new StreamedAnswer(connections, reader, request, options)
  answer.begin()
  try {
    const { status, headers } = await answer.opened.promise
    answer.rest()
    return { status, headers, chunks: { [Symbol.asyncIterator]: () => answer } }
  } catch (cause) {
    await answer.bodyLeft
    throw answer.errorOf(cause)
  }
}

/** Buffers a little of an answer for its reader. */
class StreamedAnswer extends Sending implements AsyncIterator<Uint8Array, undefined> {
  readonly opened = Promise.withResolvers<Pick<UpstreamStream, 'status' | 'headers'>>()
  readonly #onHeld: (bytes: number) => void
  #waiting: Uint8Array[] = []
  #waitingBytes = 0
  /** Why it broke off; thrown once. */
  #broken: { readonly cause: unknown } | null = null
  /** Set while the reader waits for the next chunk. */
  #news: PromiseWithResolvers<void> | null = null

  constructor(connections: Connections, reader: AudioReader, request: UpstreamRequest, options: OpenOptions) {
    super(connections, reader, request, options)
    this.#onHeld = options.onHeld ?? (() => {})
  }

  override onHead(status: number, fields: string, encoding: string): void {
    refuseEncoded(status, encoding)
    this.opened.resolve({ status, headers: readHeaders(fields) })
  }

  override onBody(bytes: Buffer, start: number, end: number): void {
    const chunk = copyOf(bytes, start, end)
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    this.#onHeld(chunk.length)
    if (this.#waitingBytes >= WAITING_BYTES_MAX) this.pause()
    this.#tell()
  }

  protected override answered(): void {
    this.#tell()
  }

  protected override failed(cause: unknown): void {
    this.#broken = { cause }
    this.opened.reject(cause)
    this.#tell()
  }

  /** The deadline counts from the following `next` on, and only while that has to wait. */
  rest(): void {
    if (!this.over) this.stopClock()
  }

  /** Ends the request at once, and the answer with `reason`; what waits is thrown away. */
  override abort(reason: Error): void {
    if (!this.over) this.#drop()
    super.abort(reason)
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    while (this.#waiting.length === 0 && !this.over) {
      this.#news ??= Promise.withResolvers()
      this.runClock()
      await this.#news.promise
      this.rest()
    }
    const value = this.#waiting.shift()
    if (value !== undefined) {
      this.#waitingBytes -= value.length
      this.#onHeld(-value.length)
      if (this.#waitingBytes < WAITING_BYTES_MAX) this.resume()
      return { value, done: false }
    }
    await this.bodyLeft
    const broken = this.#broken
    this.#broken = null
    if (broken !== null) throw this.errorOf(broken.cause)
    return { value: undefined, done: true }
  }

  /** Leaving the loop: the provider is to stop at once. */
  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    const left = new ReaderLeft()
    this.abort(left)
    this.#drop()
    this.#broken = null
    await this.bodyLeft
    return { value: undefined, done: true }
  }

  #drop(): void {
    this.#waiting = []
    if (this.#waitingBytes > 0) this.#onHeld(-this.#waitingBytes)
    this.#waitingBytes = 0
  }

  #tell(): void {
    this.#news?.resolve()
    this.#news = null
  }
}
