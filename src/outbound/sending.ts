import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { AudioReader } from '../schema/audio.ts'
import { type SendOptions, UpstreamFailure, type UpstreamRequest } from '../schema/upstream.ts'
import { Dispatched } from './dispatched.ts'
import { DeadlinePassed, toFailure } from './failure.ts'
import { bodyLength, encodeBody, Reading } from './request-body.ts'

/** The provider has answered, or the request has failed. */
class RequestOver extends Error {
  override readonly name = 'RequestOver'
}

/** One request on its way: what undici is told of it, the reading of its body, its deadline and its caller. */
export class Sending {
  readonly dispatch: Dispatcher.DispatchOptions
  readonly dispatched = new Dispatched()
  readonly #signal: AbortSignal
  /** Of the deadline, when the clock last stood still. */
  #leftMs: number
  #runningSinceMs = 0
  readonly #reading = new Reading()
  #timer: NodeJS.Timeout | undefined
  #giveUp = (_reason: Error): void => {}
  #leave = (): void => {}

  /** @throws the signal's reason when the caller has left already */
  constructor(
    reader: AudioReader,
    request: UpstreamRequest,
    { deadlineMs, signal }: Pick<SendOptions, 'deadlineMs' | 'signal'>,
  ) {
    signal.throwIfAborted()
    this.#signal = signal
    this.#leftMs = Math.max(1, deadlineMs)
    const pathAt = request.url.indexOf('/', request.url.indexOf('://') + 3)
    this.dispatch = {
      origin: request.url.slice(0, pathAt),
      path: request.url.slice(pathAt),
      method: request.method,
      headers: { ...request.headers, 'content-length': String(bodyLength(request.body)) },
      // undici takes any async iterable; its types name only Readable.
      body: encodeBody(request.body, reader, this.#reading) as Readable | Buffer | null,
    }
  }

  /** Stops reading the body and calls `abort` when the deadline passes or the caller leaves. Until `unwatch`. */
  watch(abort: (reason: Error) => void): void {
    this.#giveUp = (reason: Error): void => {
      this.stopReading(reason)
      abort(reason)
    }
    this.#leave = () => this.#giveUp(this.#signal.reason)
    this.runClock()
    this.#signal.addEventListener('abort', this.#leave, { once: true })
  }

  /** From now on the provider is waited for. */
  runClock(): void {
    this.#runningSinceMs = performance.now()
    this.#timer = setTimeout(() => this.#giveUp(new DeadlinePassed()), Math.max(1, this.#leftMs))
  }

  /** Nobody waits for the provider: what passes now is the reader's own time. */
  stopClock(): void {
    clearTimeout(this.#timer)
    this.#leftMs -= performance.now() - this.#runningSinceMs
  }

  /**
   * The request is over. A provider that answered before it had read the body needs no more of it: a store that
   * hangs over the rest would hold the answer up.
   */
  unwatch(): void {
    clearTimeout(this.#timer)
    this.#signal.removeEventListener('abort', this.#leave)
    this.stopReading(new RequestOver())
  }

  stopReading(reason: Error): void {
    this.#reading.stop(reason)
  }

  /** Settles when the body is not read any more, so that its memory may be given back. */
  get bodyLeft(): Promise<void> {
    return this.#reading.ended
  }

  /** What to throw for `cause`: a caller's leaving and a store's failure are not the provider's. */
  errorOf(cause: unknown): unknown {
    if (this.#signal.aborted) return this.#signal.reason
    if (this.#reading.failed) return this.#reading.error
    return new UpstreamFailure(toFailure(cause, this.dispatched.controller !== null), cause)
  }
}
