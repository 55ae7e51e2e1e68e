import type { ByteBudget } from '../../contracts/budget.ts'
import type { BlockPool } from './blocks.ts'
import { isScarce } from './budget.ts'

/** Memory of the process, from which readers of the store take what they read into. */
export interface StoreMemory {
  readonly blocks: BlockPool
  readonly budget: ByteBudget
}

/** Bytes read at a time while there is memory, and while there is not. */
const READ_BYTES = 256 * 1024
const SCARCE_READ_BYTES = 64 * 1024
/** Shorter chunks are their reader's to keep, so they are not in memory that others get. */
const KEPT_BYTES = 64 * 1024

/**
 * Two places that a reader fills in turn: a fresh one for each read, of many readers at once, is hundreds of
 * megabytes. The budget counts them; while memory is scarce they are smaller, which costs more calls of the system.
 */
export class ReadBuffers {
  readonly both: readonly [Uint8Array, Uint8Array]
  readonly #memory: StoreMemory | null

  /** @param length of all that is read */
  constructor(memory: StoreMemory | undefined, length: number) {
    this.#memory = memory === undefined || length < KEPT_BYTES ? null : memory
    if (this.#memory === null) {
      const size = Math.min(READ_BYTES, length)
      this.both = [Buffer.allocUnsafeSlow(size), Buffer.allocUnsafeSlow(size)]
      return
    }
    const { blocks, budget } = this.#memory
    const size = isScarce(budget) || length <= SCARCE_READ_BYTES ? SCARCE_READ_BYTES : READ_BYTES
    budget.charge(2 * size)
    this.both = [blocks.take(size), blocks.take(size)]
  }

  /** Bytes to read next of `left`: the last chunk is copied, so it is kept short. */
  next(left: number): number {
    const [{ length: size }] = this.both
    return left > size || left <= 2 * KEPT_BYTES ? Math.min(size, left) : left - KEPT_BYTES
  }

  /** Makes the last chunk its reader's own: nothing signals that it has been sent. */
  last(chunk: Uint8Array): Uint8Array {
    return this.#memory === null ? chunk : Uint8Array.from(chunk)
  }

  /** @param whole all was read; else chunks may be on a socket that is being closed, and the memory rests first */
  release(whole: boolean): void {
    if (this.#memory === null) return
    const { blocks, budget } = this.#memory
    for (const buffer of this.both) {
      const refund = () => budget.refund(buffer.length)
      if (whole) {
        blocks.give(buffer as Uint8Array<SharedArrayBuffer>)
        refund()
      } else blocks.giveLater(buffer as Uint8Array<SharedArrayBuffer>, refund)
    }
  }
}
