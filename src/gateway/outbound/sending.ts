import type { AudioReader } from '../../contracts/audio.ts'
import type { CancelSignal } from '../../contracts/cancellation.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { Failure, SendOptions, UpstreamRequest } from '../../contracts/upstream.ts'
import { UpstreamFailure } from '../../contracts/upstream.ts'
import { toldCode } from './ask-host.ts'
import type { Connection } from './connection.ts'
import type { Connections, WaitingExchange } from './connections.ts'
import { Perishable } from './deadlines.ts'
import { bodyLength, encodeBody, Reading } from './request-body.ts'
import { type RequestHead, requestHead } from './request-head.ts'

/** Reason to stop reading a body once its provider has answered, or its request has failed. */
class RequestOver extends Error {
  override readonly name = 'RequestOver'
}
/** One for all: most requests end so, and the stack trace of a new one costs as much as all else at its end. */
const REQUEST_OVER = new RequestOver()

/** One request on its way: the reading of its body, its deadline and its caller. A subclass takes its answer. */
export abstract class Sending extends Perishable implements WaitingExchange {
  readonly head: RequestHead
  body: Uint8Array | AsyncIterable<Uint8Array> | null
  readonly bodyBytes: number
  /** Its answer is whole, or there will be none. */
  over = false
  /** The provider may have seen a part of it. */
  #begun = false
  readonly #connections: Connections
  #connection: Connection | null = null
  protected readonly signal: CancelSignal
  /** Time left until the deadline when the clock last stopped. */
  #leftMs: number
  /** When the clock began to run; null while it is stopped. */
  #runningSinceMs: number | null = null
  readonly #reading = new Reading()

  /** @throws the signal's reason when the caller has left already; UpstreamFailure for what cannot be sent */
  constructor(
    connections: Connections,
    reader: AudioReader,
    request: UpstreamRequest,
    { deadlineMs, signal }: Pick<SendOptions, 'deadlineMs' | 'signal'>,
  ) {
    super()
    signal.throwIfAborted()
    this.#connections = connections
    this.signal = signal
    this.#leftMs = Math.max(1, deadlineMs)
    try {
      this.head = requestHead(request)
    } catch (cause) {
      throw new UpstreamFailure(toFailure(cause, false), cause)
    }
    this.bodyBytes = bodyLength(request.body)
    this.body = encodeBody(request.body, this.bodyBytes, reader, this.#reading)
  }

  abstract onHead(status: number, fields: string, encoding: string): void
  abstract onBody(bytes: Buffer, start: number, end: number): void
  /** The answer is whole. */
  protected abstract answered(): void
  /** There is no answer, or no more of it. */
  protected abstract failed(cause: unknown): void

  /** Sends it over a connection to its origin; its deadline counts from now on. */
  begin(): void {
    this.runClock()
    this.signal.addEventListener('abort', this)
    this.#connections.send(this)
  }

  onAssigned(connection: Connection): void {
    this.#connection = connection
  }

  onBegun(): void {
    this.#begun = true
    this.body = null // the connection has it: a copy is not to stay until the answer
  }

  onEnd(): void {
    this.#unwatch()
    this.answered()
  }

  onBroken(cause: unknown): void {
    if (this.over) return
    this.#unwatch()
    this.failed(cause)
  }

  /** Ends the request with `reason`, wherever it is; its connection is not used again. */
  abort(reason: Error): void {
    if (this.over) return
    this.stopReading(reason)
    this.#connection?.abandon(this)
    this.onBroken(reason)
  }

  /** Holds the provider back. */
  pause(): void {
    this.#connection?.pause()
  }

  /** Not once it is over: the connection may have the next request by then. */
  resume(): void {
    if (!this.over) this.#connection?.resume()
  }

  /** From now on the provider is waited for. */
  runClock(): void {
    const { deadlines } = this.#connections
    this.#runningSinceMs = deadlines.clock.now()
    deadlines.add(this, this.#runningSinceMs + this.#leftMs)
  }

  /** The provider is not waited for: the time that passes now is the reader's own. */
  stopClock(): void {
    if (this.#runningSinceMs === null) return
    const { deadlines } = this.#connections
    deadlines.remove(this)
    this.#leftMs = Math.max(1, this.#leftMs - (deadlines.clock.now() - this.#runningSinceMs))
    this.#runningSinceMs = null
  }

  /** Called at the deadline. */
  override expire(): void {
    this.abort(new DeadlinePassed())
  }

  /** Called when the caller leaves. */
  handleEvent(): void {
    this.abort(this.signal.reason ?? REQUEST_OVER)
  }

  /**
   * The request is over. A provider that answered before it had read the body needs no more of it: a store that
   * hangs over the rest would hold the answer up.
   */
  #unwatch(): void {
    this.over = true
    this.#connections.deadlines.remove(this)
    this.signal.removeEventListener('abort', this)
    this.stopReading(REQUEST_OVER)
  }

  stopReading(reason: Error): void {
    this.#reading.stop(reason)
  }

  /** Settles when the body is not read any more, so that its memory may be given back; null: it never was. */
  get bodyLeft(): Promise<void> | null {
    return this.#reading.ended
  }

  /** Chooses the error to throw: a caller's leaving, a store's failure and a want of memory are not the provider's. */
  errorOf(cause: unknown): unknown {
    if (this.signal.aborted) return this.signal.reason
    if (this.#reading.failed) return this.#reading.error
    if (cause instanceof GatewayError) return cause
    return new UpstreamFailure(toFailure(cause, this.#begun), cause)
  }
}

/** A part of a body as the receiver's own: what the connection hands out is valid during the call only. */
export function copyOf(bytes: Buffer, start: number, end: number): Buffer {
  const chunk = Buffer.allocUnsafe(end - start)
  bytes.copy(chunk, 0, start, end)
  return chunk
}

/**
 * Refuses a good answer whose body is compressed: taken as it comes it would be handed on as the audio or the video
 * that it is not.
 *
 * @throws ReplyEncoded
 */
export function refuseEncoded(status: number, encoding: string): void {
  if (encoding === '' || status < 200 || status > 299) return
  if (encoding.toLowerCase() !== 'identity') throw new ReplyEncoded()
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
  if (!begun) return { ...plain, kind: 'connect', reason: `no connection${toldCode(cause)}` }
  return { ...plain, kind: 'ambiguous', reason: 'the connection broke' }
}
