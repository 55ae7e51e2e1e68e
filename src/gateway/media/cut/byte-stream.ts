import { type Clock, ownTurn, systemClock } from '../../../contracts/time.ts'
import { joinedBytes } from '../bytes.ts'

/** Event loop time between two turns of other work. */
const SLICE_MS = 1
const NOTHING = new Uint8Array(0)

/** Bytes that come in chunks, read in order and in whatever sizes. Gives the event loop a turn every millisecond. */
export class ByteStream {
  readonly #chunks: AsyncGenerator<Uint8Array>
  readonly #signal: AbortSignal
  readonly #clock: Clock
  #rest: Uint8Array = NOTHING
  #at = 0
  #ended = false
  #sliceStartedMs: number

  constructor(chunks: AsyncGenerator<Uint8Array>, signal: AbortSignal, clock: Clock = systemClock) {
    this.#chunks = chunks
    this.#signal = signal
    this.#clock = clock
    this.#sliceStartedMs = clock.now()
  }

  /** Place of the next byte. */
  get at(): number {
    return this.#at
  }

  /** The bytes at hand from there on. Valid until the next `fill`. */
  get view(): Uint8Array {
    return this.#rest
  }

  /** Whether no byte comes after those at hand. */
  get ended(): boolean {
    return this.#ended
  }

  /** Resolves when `length` bytes are at hand, or all that there are. @returns what is at hand */
  async fill(length: number): Promise<Uint8Array> {
    if (this.#clock.now() - this.#sliceStartedMs > SLICE_MS) {
      await ownTurn()
      this.#signal.throwIfAborted()
      this.#sliceStartedMs = this.#clock.now()
    }
    while (this.#rest.length < length && !this.#ended) {
      const next = await this.#chunks.next()
      if (next.done === true) this.#ended = true
      else this.#rest = joinedBytes(this.#rest, next.value)
    }
    return this.#rest
  }

  /** Passes over bytes that are at hand. */
  skip(length: number): void {
    this.#rest = this.#rest.subarray(length)
    this.#at += length
  }

  /** Passes over as many bytes, or over all that there are. */
  async seek(length: number): Promise<void> {
    for (let missing = length; missing > 0; ) {
      const view = await this.fill(1)
      if (view.length === 0) return
      const passed = Math.min(missing, view.length)
      this.skip(passed)
      missing -= passed
    }
  }

  /** Lets the source go. */
  async close(): Promise<void> {
    await this.#chunks.return(undefined)
  }
}
