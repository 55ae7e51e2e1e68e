import { BLOCK_BYTES, type Block } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'
import { SLICE_BYTES, Slabs } from './slabs.ts'

/**
 * Memory for bodies, used again and again: a fresh megabyte costs 256 page faults, more than copying into it.
 *
 * Whole blocks are 1 MiB. A small body, or the end of a large one, gets a slice of a block that it shares with others.
 * The caller keeps account of the slices that it holds; the pool charges the free rest of every block in slices by
 * force, so the budget always counts whole blocks, and small bodies cannot hold more memory than it shows.
 */
export interface BlockPool {
  /** A block of `sliceBytes(bytes)` bytes. It holds what its last owner left there. */
  take(bytes: number): Block
  /** Takes a block back. Call it before the refund to the budget, so that the rest of a slab is never unaccounted. */
  give(block: Block): void
  /**
   * Takes a whole block (1 MiB) back that a socket may still be sending from, though it is being closed: the block
   * rests before it goes to others, and `then` is called when it does.
   */
  giveLater(block: Block, then: () => void): void
  /** Bytes of memory that the pool has from the system, in use or not. */
  readonly allocatedBytes: number
  /** Bytes of it that are in use, slabs counted whole. */
  readonly usedBytes: number
  /** Stops the timers, and ends every rest: whoever calls this has closed the sockets. */
  close(): void
}

export interface BlockTiming {
  readonly trimMs?: number
  readonly restMs?: number
}

/**
 * How often memory that was not needed meanwhile is dropped. Rarely: the garbage collector does not count shared
 * memory, so what is dropped stays until it has other reasons to run.
 */
const TRIM_MS = 30_000
/** How long a block rests after `giveLater`. A socket that is destroyed lets go of its memory in the same turn. */
const REST_MS = 5_000

/** Bytes of memory that holding `bytes` (1 to 1 MiB) takes: the smallest slice that fits, or a whole block. */
export function sliceBytes(bytes: number): number {
  for (const size of SLICE_BYTES) if (bytes <= size) return size
  return BLOCK_BYTES
}

/** Bytes of memory that a body of `length` bytes takes. */
export function heldBytes(length: number): number {
  const rest = length % BLOCK_BYTES
  return length - rest + (rest === 0 ? 0 : sliceBytes(rest))
}

/** @param budget what bounds the memory in use, and is charged the free rest of slabs */
export function createBlocks(budget: ByteBudget, timing: BlockTiming = {}): BlockPool {
  return new PooledBlocks(budget, timing)
}

class PooledBlocks implements BlockPool {
  readonly #free: Block[] = []
  readonly #slabs: Slabs
  readonly #trim: NodeJS.Timeout
  readonly #restMs: number
  /** What is to be done when a rest is over. */
  readonly #resting = new Map<NodeJS.Timeout, () => void>()
  #allocated = 0
  #used = 0
  #mostUsed = 0

  constructor(budget: ByteBudget, { trimMs = TRIM_MS, restMs = REST_MS }: BlockTiming) {
    const source = { take: () => this.#takeWhole(), give: (block: Block) => this.#giveWhole(block) }
    this.#slabs = new Slabs(budget, source)
    this.#restMs = restMs
    this.#trim = setInterval(() => this.#dropUnneeded(), trimMs).unref()
  }

  get allocatedBytes(): number {
    return this.#allocated
  }

  get usedBytes(): number {
    return this.#used - this.#slabs.spareBytes
  }

  take(bytes: number): Block {
    const size = sliceBytes(bytes)
    return size === BLOCK_BYTES ? this.#takeWhole() : this.#slabs.take(size)
  }

  give(block: Block): void {
    if (!this.#slabs.give(block)) this.#giveWhole(block)
  }

  giveLater(block: Block, then: () => void): void {
    const end = () => {
      this.#resting.delete(rest)
      this.#giveWhole(block)
      then()
    }
    const rest = setTimeout(end, this.#restMs).unref()
    this.#resting.set(rest, end)
  }

  close(): void {
    clearInterval(this.#trim)
    for (const [rest, end] of this.#resting) {
      clearTimeout(rest)
      end()
    }
  }

  #takeWhole(): Block {
    this.#used += BLOCK_BYTES
    this.#mostUsed = Math.max(this.#mostUsed, this.#used)
    const block = this.#free.pop()
    if (block !== undefined) return block
    this.#allocated += BLOCK_BYTES
    return new Uint8Array(new SharedArrayBuffer(BLOCK_BYTES))
  }

  #giveWhole(block: Block): void {
    this.#used -= BLOCK_BYTES
    this.#free.push(block)
  }

  #dropUnneeded(): void {
    while (this.#free.length > 0 && this.#allocated > this.#mostUsed) {
      this.#free.pop()
      this.#allocated -= BLOCK_BYTES
    }
    this.#mostUsed = this.#used
  }
}
