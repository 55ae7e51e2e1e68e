const FIRST_BYTES = 512

/** Bytes put together from pieces of any size, in amortized linear time. The caller bounds them. */
export class ByteBuilder {
  #buffer: Buffer
  #length = 0
  readonly #most: number

  /**
   * @param capacity bytes that fit without growing
   * @param most     bytes that are expected at most: it grows beyond only when more come
   */
  constructor(capacity = 0, most = Number.POSITIVE_INFINITY) {
    this.#buffer = Buffer.allocUnsafe(capacity)
    this.#most = most
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
    return this.#length === this.#buffer.length ? this.#buffer : this.#buffer.subarray(0, this.#length)
  }

  /** Gives back the memory that is not used. */
  trim(): void {
    if (this.#length < this.#buffer.length) this.#buffer = Buffer.from(this.bytes())
  }

  clear(): void {
    this.#length = 0
  }

  #grow(length: number): void {
    const grown = Buffer.allocUnsafe(
      Math.max(Math.min(Math.max(FIRST_BYTES, 2 * this.#buffer.length), this.#most), length),
    )
    grown.set(this.bytes())
    this.#buffer = grown
  }
}
