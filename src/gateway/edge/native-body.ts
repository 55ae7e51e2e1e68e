import type { ByteBudget } from '../../contracts/budget.ts'
import { ERRORS, GatewayError } from '../../contracts/errors.ts'
import type { BodyConsumer, RequestBody } from './exchange.ts'
import type { Socket } from './socket.ts'
import { type EdgeTiming, RateMeter } from './timing.ts'
import type { UploadTurns } from './upload-turns.ts'

interface Chunk {
  readonly bytes: Buffer
  readonly last: boolean
}

const NO_CHUNKS: readonly Chunk[] = Object.freeze([])
/** An end without bytes, which is all there is of most bodies. */
const END: readonly Chunk[] = Object.freeze([{ bytes: Buffer.alloc(0), last: true }])

/** Parts of the edge that a body works with. */
interface BodyContext {
  readonly budget: ByteBudget
  readonly timing: EdgeTiming
  readonly turns: UploadTurns
}

/** Bytes thrown away at most before an early answer. */
export const MAX_DISCARD_BYTES = 8 * 1024 * 1024

/** Bytes that come of a paused body at most where the memory budget is smaller; else as many as that. */
export const PAUSED_BYTES_MAX = 64 * 1024 * 1024

/**
 * The body of one request. Waits after its first chunk for a consumer, then flows, and from an answer or
 * an error on it is dropped: counted, never held.
 */
export class NativeBody implements RequestBody {
  readonly #socket: Socket
  readonly #context: BodyContext
  readonly #startedMs: number
  readonly #contentLength: number | null
  #rate: RateMeter | null = null
  #consumer: BodyConsumer | null = null
  #consumed = false
  #dropped = false
  #readingStopped = false
  #failure: GatewayError | null = null
  /** Chunks that came before the consumer; copies, charged to the budget. */
  #early: readonly Chunk[] = NO_CHUNKS
  #discardLeft = 0
  #onDiscarded: ((ended: boolean) => void) | null = null
  /** Time until its last byte was here; null before. */
  #endedAfterMs: number | null = null
  receivedBytes = 0

  constructor(socket: Socket, context: BodyContext, startedMs: number, contentLength: number | null) {
    this.#socket = socket
    this.#context = context
    this.#startedMs = startedMs
    this.#contentLength = contentLength
  }

  get ended(): boolean {
    return this.#endedAfterMs !== null
  }

  /** Milliseconds for which its sender was waited for so far: pauses are ours. */
  get waitedMs(): number {
    return this.#endedAfterMs ?? this.#sentForMs(this.#socket.clock.now())
  }

  get #leftBytes(): number | null {
    return this.#contentLength === null ? null : this.#contentLength - this.receivedBytes
  }

  consume(consumer: BodyConsumer): void {
    if (this.#consumed) throw new Error('the body has a consumer already')
    this.#consumed = true
    if (this.#failure !== null) consumer.onError(this.#failure)
    if (this.#dropped) return
    this.#consumer = consumer
    this.#socket.resume()
    try {
      while (this.#early.length > 0) {
        const [first, ...others] = this.#early
        this.#early = others
        this.#handOver(first!)
      }
    } finally {
      if (this.#early.length > 0) this.drop()
    }
  }

  pause(): void {
    if (!this.ended && !this.#dropped) this.#socket.pause()
  }

  resume(): void {
    this.#socket.resume()
  }

  /**
   * Takes a chunk from uWS, in the native callback: `bytes` is only a view. An error of the consumer comes out here.
   */
  receive(bytes: Buffer, last: boolean): void {
    // uWS hands out an empty chunk when the body comes in a later segment than the head.
    if (bytes.length === 0 && !last) return
    this.receivedBytes += bytes.length
    this.#countPaused(bytes.length)
    if (last) {
      this.#endedAfterMs = this.receivedBytes === 0 ? 0 : this.#sentForMs(this.#socket.clock.now())
      this.#socket.bodyEnded()
      this.#context.turns.leave(this.#socket, bytes.length)
    } else if (!this.#dropped) this.#context.turns.take(this.#socket, bytes.length, this.#leftBytes)
    if (this.#dropped) this.#discarded(bytes.length, last)
    else if (this.#consumer !== null) this.#consumer.onChunk(bytes, last)
    else this.#keep(bytes, last)
  }

  /**
   * Refuses a body that does not stop, where `capReceiveBuffers` has failed: without it a sender on loopback had
   * gigabytes of one body in memory, and with it less than a megabyte comes after a pause.
   */
  #countPaused(bytes: number): void {
    if (this.#socket.arrived(bytes) > Math.max(PAUSED_BYTES_MAX, this.#context.budget.limit))
      this.fail(new GatewayError('OVERLOADED', 'the body came faster than it could be taken'))
  }

  /** Ends the delivery for good and gives the held bytes back. */
  drop(): void {
    this.#dropped = true
    this.#consumer = null
    this.#context.turns.leave(this.#socket)
    if (this.#early === NO_CHUNKS || this.#early === END) return
    for (const { bytes } of this.#early) this.#context.budget.refund(bytes.length)
    this.#early = NO_CHUNKS
  }

  /** Stops reading for good: the end of the body cannot be known. */
  stopReading(): void {
    this.drop()
    this.#readingStopped = true
    this.#socket.stopReading()
  }

  /** Ends a body that cannot be read any further: its consumer is told, also one that comes later. */
  fail(error: GatewayError): void {
    if (this.#failure !== null) return
    this.#failure = error
    const consumer = this.#consumer
    this.stopReading()
    consumer?.onError(error)
  }

  /**
   * Drops the body and reads it on, up to `MAX_DISCARD_BYTES`.
   *
   * @param done called once: true when the body ended, false at the bound
   */
  discard(done: (ended: boolean) => void): void {
    this.drop()
    if (this.#readingStopped) {
      done(false)
      return
    }
    this.#discardLeft = MAX_DISCARD_BYTES
    this.#onDiscarded = done
    this.#socket.resume()
  }

  /** Stops a discarding whose time is over; `done` will not be called any more. */
  stopDiscarding(): void {
    this.#onDiscarded = null
    this.#socket.pause()
  }

  /** Judges the sender's rate; a body that is too slow ends with REQUEST_TIMEOUT at its consumer. */
  watch(nowMs: number): void {
    if (this.ended || this.#dropped) return
    this.#rate ??= new RateMeter(this.#context.timing)
    const isLasting = this.#consumer?.isLasting === true
    if (!this.#rate.isTooSlow(this.#sentForMs(nowMs), this.receivedBytes, isLasting)) return
    const consumer = this.#consumer
    this.#failure = new GatewayError('REQUEST_TIMEOUT', ERRORS.REQUEST_TIMEOUT.message, {
      details: { received_bytes: this.receivedBytes },
    })
    this.drop()
    consumer?.onError(this.#failure)
  }

  /** Milliseconds without those in which it was paused. */
  #sentForMs(nowMs: number): number {
    return nowMs - this.#startedMs - this.#socket.pausedMs(nowMs)
  }

  #keep(bytes: Buffer, last: boolean): void {
    if (last && bytes.length === 0 && this.#early.length === 0) {
      this.#early = END
      return
    }
    this.#context.budget.charge(bytes.length)
    this.#early = [...this.#early, { bytes: Buffer.from(bytes), last }]
    if (!last) this.#socket.pause()
  }

  /** A consumer may answer while it is handed a chunk: then it gets no further one. */
  #handOver({ bytes, last }: Chunk): void {
    try {
      this.#consumer?.onChunk(bytes, last)
    } finally {
      this.#context.budget.refund(bytes.length)
    }
  }

  #discarded(bytes: number, last: boolean): void {
    this.#discardLeft -= bytes
    if (this.#onDiscarded === null || (!last && this.#discardLeft > 0)) return
    const done = this.#onDiscarded
    this.#onDiscarded = null
    done(last)
  }
}
