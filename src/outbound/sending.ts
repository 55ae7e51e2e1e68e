import type { Readable } from 'node:stream'
import type { Dispatcher } from 'undici'
import type { CancelSignal } from '../cancellation.ts'
import type { AudioReader } from '../contracts/audio.ts'
import {
  type Failure,
  type SendOptions,
  UpstreamFailure,
  type UpstreamRequest,
} from '../contracts/upstream.ts'
import { Deadlines, type Perishable } from './deadlines.ts'
import { bodyLength, encodeBody, Reading } from './request-body.ts'

/** Reason to stop reading a body once its provider has answered, or its request has failed. */
class RequestOver extends Error {
  override readonly name = 'RequestOver'
}
/** One for all: most requests end so, and the stack trace of a new one costs as much as all else at its end. */
const REQUEST_OVER = new RequestOver()

const deadlines = new Deadlines()

/** Part that is told when a request is given up: at its deadline, or because its caller left. */
interface Abortable {
  /** Ends the request with `reason`, wherever it is; its connection is not used again. */
  abort(reason: Error): void
}

/** One request on its way: what undici is told of it, the reading of its body, its deadline and its caller. */
export class Sending implements Perishable {
  readonly dispatch: Dispatcher.DispatchOptions
  readonly dispatched = new Dispatched()
  readonly #signal: CancelSignal
  /** Time left until the deadline when the clock last stopped. */
  #leftMs: number
  /** When the clock began to run; null while it stands. */
  #runningSinceMs: number | null = null
  /** Where its deadline is kept. */
  #slot = 0
  readonly #reading = new Reading()
  #watcher: Abortable | null = null

  /** @throws the signal's reason when the caller has left already */
  constructor(
    reader: AudioReader,
    request: UpstreamRequest,
    { deadlineMs, signal }: Pick<SendOptions, 'deadlineMs' | 'signal'>,
  ) {
    signal.throwIfAborted()
    this.#signal = signal
    this.#leftMs = Math.max(1, deadlineMs)
    const { url, method, headers, body } = request
    const pathAt = url.indexOf('/', url.indexOf('://') + 3)
    const pairs = ['content-length', String(bodyLength(body))]
    for (const name in headers) pairs.push(name, headers[name]!)
    this.dispatch = {
      origin: url.slice(0, pathAt),
      path: url.slice(pathAt),
      method,
      headers: pairs,
      // undici takes any async iterable; its types name only Readable.
      body: encodeBody(body, reader, this.#reading) as Readable | Buffer | null,
    }
  }

  /** Stops reading the body and tells `watcher` when the deadline passes or the caller leaves. Until `unwatch`. */
  watch(watcher: Abortable): void {
    this.#watcher = watcher
    this.runClock()
    this.#signal.addEventListener('abort', this, { once: true })
  }

  /** From now on the provider is waited for. */
  runClock(): void {
    this.#runningSinceMs = performance.now()
    this.#slot = deadlines.add(this, this.#runningSinceMs + this.#leftMs)
  }

  /** Nobody waits for the provider: what passes now is the reader's own time. */
  stopClock(): void {
    if (this.#runningSinceMs === null) return
    deadlines.remove(this, this.#slot)
    this.#leftMs = Math.max(1, this.#leftMs - (performance.now() - this.#runningSinceMs))
    this.#runningSinceMs = null
  }

  /** Called at the deadline. */
  expire(): void {
    this.#giveUp(new DeadlinePassed())
  }

  /** Called when the caller leaves. */
  handleEvent(): void {
    this.#giveUp(this.#signal.reason ?? REQUEST_OVER)
  }

  #giveUp(reason: Error): void {
    this.stopReading(reason)
    this.#watcher?.abort(reason)
  }

  /**
   * The request is over. A provider that answered before it had read the body needs no more of it: a store that
   * hangs over the rest would hold the answer up.
   */
  unwatch(): void {
    this.stopClock()
    this.#signal.removeEventListener('abort', this)
    this.#watcher = null
    this.stopReading(REQUEST_OVER)
  }

  stopReading(reason: Error): void {
    this.#reading.stop(reason)
  }

  /** Settles when the body is not read any more, so that its memory may be given back; null: it never was. */
  get bodyLeft(): Promise<void> | null {
    return this.#reading.ended
  }

  /** Chooses the error to throw for `cause`: a caller's leaving and a store's failure are not the provider's. */
  errorOf(cause: unknown): unknown {
    if (this.#signal.aborted) return this.#signal.reason
    if (this.#reading.failed) return this.#reading.error
    return new UpstreamFailure(toFailure(cause, this.dispatched.controller !== null), cause)
  }
}

/** A request that undici has taken, to be given up at any moment: also before it has a connection. */
export class Dispatched {
  #controller: Dispatcher.DispatchController | null = null
  #abandoned: Error | null = null

  /** Null until the request has a connection: nothing of it has been sent then. */
  get controller(): Dispatcher.DispatchController | null {
    return this.#controller
  }

  start(controller: Dispatcher.DispatchController): void {
    this.#controller = controller
    if (this.#abandoned !== null) controller.abort(this.#abandoned)
  }

  /** Ends the request, wherever it is; its connection is not used again. */
  abort(reason: Error): void {
    this.#abandoned = reason
    this.#controller?.abort(reason)
  }
}

/**
 * Headers as undici gives them, repeated ones joined.
 *
 * @throws ReplyEncoded for a good answer whose body is compressed: taken as it comes it would be handed on as
 *         the audio or the video that it is not
 */
export function readHeaders(
  status: number,
  headers: Record<string, string | string[] | undefined>,
): Record<string, string> {
  const joined: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]
    if (value !== undefined) joined[name] = Array.isArray(value) ? value.join(', ') : value
  }
  const encoding = joined['content-encoding']?.trim().toLowerCase() ?? ''
  const plain = encoding === '' || encoding === 'identity'
  if (!plain && status >= 200 && status <= 299) throw new ReplyEncoded()
  return joined
}

class DeadlinePassed extends Error {
  override readonly name = 'DeadlinePassed'
}

/** The answer is over what may be held of one. */
export class ReplyTooLarge extends Error {
  override readonly name = 'ReplyTooLarge'
}

/** The answer is compressed, which no request asks for. */
class ReplyEncoded extends Error {
  override readonly name = 'ReplyEncoded'
}

/**
 * Classifies a request that ended with `cause` instead of an answer.
 *
 * @param begun whether it had a connection: without one the provider cannot have done anything
 */
function toFailure(cause: unknown, begun: boolean): Failure {
  const plain = { status: null, retryAfterMs: null, providerMessage: null }
  if (cause instanceof DeadlinePassed)
    return { ...plain, kind: 'ambiguous', reason: 'no answer before its deadline' }
  if (cause instanceof ReplyTooLarge) return { ...plain, kind: 'server', reason: 'its answer is over 64 MiB' }
  if (cause instanceof ReplyEncoded) return { ...plain, kind: 'server', reason: 'its answer is compressed' }
  if (!begun) return { ...plain, kind: 'connect', reason: 'no connection' }
  return { ...plain, kind: 'ambiguous', reason: 'the connection broke' }
}
