import { TimeSlices } from '../../../contracts/time-slices.ts'
import { joinedBytes } from '../bytes.ts'

const NOTHING = new Uint8Array(0)

/** Bytes that come in chunks, read in order and in whatever sizes. Gives the event loop a turn every millisecond. */
export class ByteStream {
  readonly #chunks: AsyncGenerator<Uint8Array>
  readonly #signal: AbortSignal
  readonly #slices = new TimeSlices()
  #rest: Uint8Array = NOTHING
  #at = 0
  #ended = false

  constructor(chunks: AsyncGenerator<Uint8Array>, signal: AbortSignal) {
    this.#chunks = chunks
    this.#signal = signal
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
    if (this.#slices.isOver) await this.#slices.next(this.#signal)
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
