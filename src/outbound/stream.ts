import type { Agent, Dispatcher } from 'undici'
import type { AudioReader } from '../contracts/audio.ts'
import type { OpenOptions, UpstreamRequest, UpstreamStream } from '../contracts/upstream.ts'
import { readHeaders, Sending } from './sending.ts'

/**
 * Bytes of an answer that wait for their reader before the provider is held back. undici hands out at most 64 KiB
 * behind it, and the socket holds as much again.
 */
const WAITING_BYTES_MAX = 64 * 1024

/** The reader has left the loop. */
class ReaderLeft extends Error {
  override readonly name = 'ReaderLeft'
}

/** Sends a request whose answer is read as it comes; see `OpenStream`. */
export async function openStream(
  agent: Agent,
  reader: AudioReader,
  request: UpstreamRequest,
  options: OpenOptions,
): Promise<UpstreamStream> {
  const sending = new Sending(reader, request, options)
  const answer = new Answer(sending, options.onHeld ?? (() => {}))
  sending.watch(answer)
  agent.dispatch(sending.dispatch, answer)
  try {
    const { status, headers } = await answer.head
    answer.rest()
    return { status, headers, chunks: { [Symbol.asyncIterator]: () => answer } }
  } catch (cause) {
    await sending.bodyLeft
    throw sending.errorOf(cause)
  }
}

/**
 * Receives an answer from undici and buffers a little of it for the reader. By undici's handler, as
 * `WholeAnswer` does.
 */
class Answer implements Dispatcher.DispatchHandler, AsyncIterator<Uint8Array, undefined> {
  readonly head: Promise<Pick<UpstreamStream, 'status' | 'headers'>>
  readonly #headCame: PromiseWithResolvers<Pick<UpstreamStream, 'status' | 'headers'>>
  readonly #sending: Sending
  readonly #onHeld: (bytes: number) => void
  #waiting: Uint8Array[] = []
  #waitingBytes = 0
  /** Nothing more comes from undici. */
  #over = false
  /** Why it broke off; told once. */
  #broken: { readonly cause: unknown } | null = null
  /** Somebody waits for the next chunk. */
  #news: PromiseWithResolvers<void> | null = null

  constructor(sending: Sending, onHeld: (bytes: number) => void) {
    this.#sending = sending
    this.#onHeld = onHeld
    this.#headCame = Promise.withResolvers()
    this.head = this.#headCame.promise
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#sending.dispatched.start(controller)
  }

  onResponseStart(_: unknown, status: number, headers: Record<string, string | string[] | undefined>): void {
    if (status >= 200) this.#headCame.resolve({ status, headers: readHeaders(status, headers) })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    this.#waiting.push(chunk)
    this.#waitingBytes += chunk.length
    this.#onHeld(chunk.length)
    if (this.#waitingBytes >= WAITING_BYTES_MAX) controller.pause()
    this.#tell()
  }

  onResponseEnd(): void {
    this.#end()
  }

  onResponseError(_: unknown, cause: Error): void {
    if (!this.#over) this.#break(cause)
  }

  /** The deadline counts from the next `next` on, and only while that has to wait. */
  rest(): void {
    if (!this.#over) this.#sending.stopClock()
  }

  /** Ends the request at once, and the answer with `reason`; what waits is thrown away. */
  abort(reason: Error): void {
    if (this.#over) return
    this.#drop()
    this.#break(reason)
    this.#sending.dispatched.abort(reason)
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    while (this.#waiting.length === 0 && !this.#over) {
      this.#news ??= Promise.withResolvers()
      this.#sending.runClock()
      await this.#news.promise
      this.rest()
    }
    const value = this.#waiting.shift()
    if (value !== undefined) {
      this.#waitingBytes -= value.length
      this.#onHeld(-value.length)
      if (this.#waitingBytes < WAITING_BYTES_MAX) this.#resume()
      return { value, done: false }
    }
    await this.#sending.bodyLeft
    const broken = this.#broken
    this.#broken = null
    if (broken !== null) throw this.#sending.errorOf(broken.cause)
    return { value: undefined, done: true }
  }

  /** Leaving the loop: the provider is to stop at once. */
  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    const left = new ReaderLeft()
    this.#sending.stopReading(left)
    this.abort(left)
    this.#drop()
    this.#broken = null
    await this.#sending.bodyLeft
    return { value: undefined, done: true }
  }

  /** Not once it is over: undici would resume whatever answer comes on that connection next. */
  #resume(): void {
    const { controller } = this.#sending.dispatched
    if (!this.#over && controller?.paused) controller.resume()
  }

  #break(cause: unknown): void {
    this.#broken = { cause }
    this.#headCame.reject(cause)
    this.#end()
  }

  #end(): void {
    this.#over = true
    this.#sending.unwatch()
    this.#tell()
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
