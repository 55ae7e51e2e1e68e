/** Audio is kept in blocks of half a second at 16 kHz: most sessions hold a few. */
const BLOCK_BYTES = 16 * 1024
/** At most so many unused blocks are kept for the next session. */
const FREE_MAX = 1_024

/** The memory of all rings of a process. */
export class RingMemory {
  /** Bytes that all rings may hold together. */
  readonly limit: number
  readonly #free: Uint8Array[] = []
  #joined = new Uint8Array(BLOCK_BYTES)
  #used = 0

  constructor(limit: number) {
    this.limit = limit
  }

  /** Bytes that rings hold. */
  get used(): number {
    return this.#used
  }

  /** @returns null when all of it is in use */
  take(): Uint8Array | null {
    if (this.#used + BLOCK_BYTES > this.limit) return null
    this.#used += BLOCK_BYTES
    return this.#free.pop() ?? Buffer.allocUnsafeSlow(BLOCK_BYTES)
  }

  /** Memory for a piece that lies in several blocks. Valid until the next call. */
  joined(length: number): Uint8Array {
    if (length > this.#joined.length) this.#joined = new Uint8Array(length)
    return this.#joined.subarray(0, length)
  }

  giveBack(block: Uint8Array): void {
    this.#used -= BLOCK_BYTES
    if (this.#free.length < FREE_MAX) this.#free.push(block)
  }
}

/**
 * The audio of a session that is not settled, by its place in all that the caller has sent, in bytes. Audio pushed over
 * its reach, or over the memory of the process, pushes the oldest out: that cannot be replayed any more.
 */
export class AudioRing {
  readonly #memory: RingMemory
  readonly #reach: number
  readonly #blocks: Uint8Array[] = []
  /** Place of the first byte of the first block. */
  #base = 0
  #start = 0
  #end = 0

  /** @param reach bytes that it holds at most */
  constructor(memory: RingMemory, reach: number) {
    this.#memory = memory
    this.#reach = reach
  }

  /** Place of the oldest byte that is held. */
  get start(): number {
    return this.#start
  }

  /** Place of the next byte that comes. */
  get end(): number {
    return this.#end
  }

  /** Keeps a copy of `bytes`. */
  push(bytes: Uint8Array): void {
    let at = 0
    while (at < bytes.length) {
      const isFull = this.#end - this.#base === this.#blocks.length * BLOCK_BYTES
      if (isFull && !this.#grow()) return void this.#skip(bytes.length - at)
      // Growing may have moved the base.
      const offset = this.#end - this.#base
      const block = this.#blocks[Math.floor(offset / BLOCK_BYTES)]!
      const place = offset % BLOCK_BYTES
      const count = Math.min(BLOCK_BYTES - place, bytes.length - at)
      block.set(count === bytes.length ? bytes : bytes.subarray(at, at + count), place)
      at += count
      this.#end += count
    }
    if (this.#end - this.#start > this.#reach) this.drop(this.#end - this.#reach)
  }

  /** Lets go of all before `place`. */
  drop(place: number): void {
    this.#start = Math.min(this.#end, Math.max(this.#start, place))
    while (this.#blocks.length > 0 && this.#base + BLOCK_BYTES <= this.#start) {
      this.#memory.giveBack(this.#blocks.shift()!)
      this.#base += BLOCK_BYTES
    }
    if (this.#blocks.length === 0) this.#base = this.#start
  }

  /** The bytes held from `place` on, at most `length` of them. To be read only, and before anything else is done. */
  read(place: number, length: number): Uint8Array {
    const from = Math.max(place, this.#start)
    const count = Math.max(0, Math.min(length, this.#end - from))
    const offset = from - this.#base
    const within = offset % BLOCK_BYTES
    const first = this.#blocks[Math.floor(offset / BLOCK_BYTES)]
    // Most pieces lie in one block, and need not be copied.
    if (first !== undefined && within + count <= BLOCK_BYTES) return first.subarray(within, within + count)
    return this.#join(offset, count)
  }

  #join(offset: number, count: number): Uint8Array {
    const target = this.#memory.joined(count)
    let at = 0
    while (at < count) {
      const block = this.#blocks[Math.floor((offset + at) / BLOCK_BYTES)]!
      const place = (offset + at) % BLOCK_BYTES
      const part = block.subarray(place, Math.min(BLOCK_BYTES, place + count - at))
      target.set(part, at)
      at += part.length
    }
    return target
  }

  /** Gives its memory back. */
  clear(): void {
    this.drop(this.#end)
    for (const block of this.#blocks.splice(0)) this.#memory.giveBack(block)
    this.#base = this.#end
  }

  /** Adds a block; where there is no memory, its own oldest one. @returns false when it has none */
  #grow(): boolean {
    const fresh = this.#memory.take()
    if (fresh !== null) {
      this.#blocks.push(fresh)
      return true
    }
    const oldest = this.#blocks.shift()
    if (oldest === undefined) return false
    this.#base += BLOCK_BYTES
    this.#start = Math.max(this.#start, this.#base)
    this.#blocks.push(oldest)
    return true
  }

  /** Nothing can be kept: the audio is lost as soon as it has come. */
  #skip(count: number): void {
    this.#end += count
    this.#start = this.#end
    this.#base = this.#end
  }
}
