const FIRST_BYTES = 512

/** Bytes put together from pieces of any size, in amortized linear time. The caller bounds them. */
export class Gather {
  #buffer: Buffer
  #length = 0

  /** @param capacity bytes that fit without growing */
  constructor(capacity = 0) {
    this.#buffer = Buffer.allocUnsafe(capacity)
  }

  get length(): number {
    return this.#length
  }

  /** Memory held, at most twice `length` but for what it was made with and the first 512 bytes. */
  get capacity(): number {
    return this.#buffer.length
  }

  append(bytes: Uint8Array): void {
    const length = this.#length + bytes.length
    if (length > this.#buffer.length) this.#grow(length)
    this.#buffer.set(bytes, this.#length)
    this.#length = length
  }

  /** A view that the next `append` after a `clear` overwrites. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  clear(): void {
    this.#length = 0
  }

  #grow(length: number): void {
    const grown = Buffer.allocUnsafe(Math.max(FIRST_BYTES, 2 * this.#buffer.length, length))
    grown.set(this.bytes())
    this.#buffer = grown
  }
}
