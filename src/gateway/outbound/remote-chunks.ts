import { type Clock, TimeoutError } from '../../contracts/time.ts'
import { type Answer, isUnreadable } from './ask-host.ts'
import { fetchFailed } from './fetch-failure.ts'

export interface ChunksOptions {
  /** As declared by the host, bytes. */
  readonly length: number
  /** For the whole body, of the time that the reader waits for the host. */
  readonly limitMs: number
  readonly signal: AbortSignal
  readonly clock: Clock
}

/**
 * The body of an answer, for one reader. What the reader does not ask for stays with the host, but for some 100 KB
 * that this process holds and what fits into the system's buffers; and the time until the reader comes back is not
 * the host's.
 */
export class RemoteChunks implements AsyncIterableIterator<Uint8Array, undefined> {
  readonly #answer: Answer
  readonly #source: AsyncIterator<Uint8Array, undefined>
  readonly #options: ChunksOptions
  #leftMs: number
  #received = 0
  #over = false
  /** Why the connection was ended from here. */
  #ended: unknown = null
  readonly #leave = (): void => this.#end(this.#options.signal.reason)

  /** Takes over the connection of the answer, which ends with the body, with the reader's leaving or the signal. */
  constructor(answer: Answer, options: ChunksOptions) {
    this.#answer = answer
    this.#source = answer.message[Symbol.asyncIterator]()
    this.#options = options
    this.#leftMs = options.limitMs
    options.signal.addEventListener('abort', this.#leave, { once: true })
    if (options.signal.aborted) this.#leave()
  }

  [Symbol.asyncIterator](): this {
    return this
  }

  async next(): Promise<IteratorResult<Uint8Array, undefined>> {
    if (this.#over) return { value: undefined, done: true }
    try {
      if (this.#ended !== null) throw this.#ended
      const step = await this.#waited(this.#source.next())
      // Bytes read before the abort are not handed out after it.
      if (this.#ended !== null) throw this.#ended
      if (!step.done) {
        this.#received += step.value.length
        return step
      }
      const broken = this.#answer.broken()
      if (broken !== null) throw broken
      if (this.#received !== this.#options.length) throw new Error(`the body ended at byte ${this.#received}`)
      this.#close()
      return { value: undefined, done: true }
    } catch (cause) {
      this.#close()
      throw this.#errorOf(this.#ended ?? cause)
    }
  }

  /** Leaving the loop: the host is to stop at once. */
  async return(): Promise<IteratorResult<Uint8Array, undefined>> {
    this.#end(new Error('the reader left'))
    this.#close()
    return { value: undefined, done: true }
  }

  /** The clock runs only here, so that one byte a second uses up the time as silence does. */
  async #waited<T>(next: Promise<T>): Promise<T> {
    const { clock, limitMs } = this.#options
    const beganMs = clock.now()
    const late = () => this.#end(new TimeoutError(`the body took over ${Math.round(limitMs)} ms`))
    const timer = clock.after(Math.max(0, this.#leftMs), late)
    try {
      return await next
    } finally {
      timer.close()
      this.#leftMs -= clock.now() - beganMs
    }
  }

  /** Ends the connection; the first reason is the one that is told. */
  #end(reason: unknown): void {
    this.#ended ??= reason
    this.#answer.leave()
  }

  #close(): void {
    this.#over = true
    this.#options.signal.removeEventListener('abort', this.#leave)
    this.#answer.leave()
  }

  #errorOf(cause: unknown): unknown {
    if (this.#options.signal.aborted) return this.#options.signal.reason
    if (cause instanceof TimeoutError) return fetchFailed('is too slow', cause)
    return fetchFailed(isUnreadable(cause) ? 'sent more than it declared' : 'broke off', cause)
  }
}
