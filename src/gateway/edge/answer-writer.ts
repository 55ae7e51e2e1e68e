import type { Answer } from './reply.ts'
import type { Socket } from './socket.ts'
import type { HttpResponse } from './uws.ts'

/** Bytes written in one turn of the loop, so that one fast reader of a large answer does not hold up the others. */
const TURN_BYTES = 1024 * 1024
/** Twice the 16 KiB in which uWS collects small writes. */
const MIN_LAST_BYTES = 32_768

interface Outcome {
  /** The last byte is with the kernel or in uWS's own small buffer. @param close the connection is to be closed */
  onDone(close: boolean): void
  onFailed(error: unknown): void
}

/**
 * Writes an answer slice by slice, as the client takes them, so that a slow reader of a large one costs one slice of
 * memory. With `close` the native response stays pending after the last byte, and its owner closes it: `tryEnd` has
 * no way to, and while a response is pending uWS itself refuses whatever request follows on the connection.
 */
export class AnswerWriter {
  readonly #socket: Socket
  readonly #answer: Answer
  readonly #close: boolean
  readonly #outcome: Outcome
  readonly #slices: Generator<Uint8Array, void>
  /** Bytes of the current slice that uWS has not accepted yet. */
  #rest: Uint8Array = new Uint8Array(0)
  #offset = 0
  #progressMs: number
  #scheduled = false

  constructor(socket: Socket, answer: Answer, close: boolean, outcome: Outcome) {
    this.#socket = socket
    this.#answer = answer
    this.#close = close
    this.#outcome = outcome
    this.#slices = answer.slices()
    this.#progressMs = socket.clock.now()
  }

  /**
   * To be called in a cork, after status and headers, for an answer of at least two bytes. The first call to
   * `tryEnd` fixes the Content-Length; the total of later ones only tells when the response is complete. It takes
   * one byte along, because uWS 20.69 holds a response complete whose first call brings none.
   */
  start(res: HttpResponse): void {
    this.#socket.writing()
    const first = this.#next()
    res.tryEnd(first.subarray(0, 1), this.#answer.length)
    this.#offset = 1
    this.#rest = first.subarray(1)
    res.onWritable(() => {
      this.#pump()
      return true
    })
    this.#schedule()
  }

  get sentBytes(): number {
    return this.#offset
  }

  get leftBytes(): number {
    return this.#answer.length - this.#offset
  }

  /** Ms since the client last took something. */
  stalledMs(nowMs: number): number {
    return nowMs - this.#progressMs
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => {
      this.#scheduled = false
      this.#pump()
    })
  }

  #pump(): void {
    const res = this.#socket.res
    if (res === null || this.#offset === this.#answer.length) return
    try {
      let free = true
      res.cork(() => {
        free = this.#writeTurn(res)
      })
      if (this.#offset === this.#answer.length) this.#outcome.onDone(this.#close)
      else if (free) this.#schedule()
    } catch (error) {
      this.#outcome.onFailed(error)
    }
  }

  /** @returns false when the client must take something first */
  #writeTurn(res: HttpResponse): boolean {
    const until = Math.min(this.#answer.length, this.#offset + TURN_BYTES)
    const total = this.#answer.length + (this.#close ? 1 : 0)
    while (this.#offset < until) {
      if (this.#rest.length === 0) this.#rest = this.#next()
      const [whole] = res.tryEnd(this.#rest, total)
      const written = whole ? this.#rest.length : res.getWriteOffset() - this.#offset
      if (written > 0) this.#progressMs = this.#socket.clock.now()
      this.#offset += written
      this.#rest = this.#rest.subarray(written)
      if (!whole) return false
    }
    return true
  }

  /**
   * The next slice; the last one is never small when the connection is to be closed after it. A write that is
   * smaller than uWS's own buffer goes there and is reported as written even when the kernel is full, and would
   * die with the socket.
   */
  #next(): Uint8Array {
    const slice = this.#nextSlice()
    const leftBytes = this.#answer.length - this.#offset - slice.length
    if (!this.#close || leftBytes === 0 || leftBytes >= MIN_LAST_BYTES) return slice
    const joined = Buffer.allocUnsafe(slice.length + leftBytes)
    joined.set(slice)
    for (let at = slice.length; at < joined.length; ) {
      const further = this.#nextSlice()
      joined.set(further, at)
      at += further.length
    }
    return joined
  }

  #nextSlice(): Uint8Array {
    const { value, done } = this.#slices.next()
    if (done || value === undefined) throw new Error('the answer is shorter than its declared length')
    return value
  }
}
