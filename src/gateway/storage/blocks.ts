import { BLOCK_BYTES, type Block } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import { type Clock, systemClock, type Timer } from '../../contracts/time.ts'

/**
 * Copies `source` into `target` at `at`. The caller makes sure that it fits.
 *
 * Not by `set`: into shared memory V8 copies byte by byte, at 4 GB/s, unless both sides happen to be aligned alike,
 * which chunks of a body never are. `fill` ends in one memcpy, at 16 to 29 GB/s.
 */
export function copyInto(target: Uint8Array, at: number, source: Uint8Array): void {
  if (source.length > 0) Buffer.prototype.fill.call(target, source, at, at + source.length)
}

/** Sizes of slices; a typical voice message is 100 to 200 KB. */
const SLICE_BYTES: readonly number[] = [16 * 1024, 64 * 1024, 256 * 1024]

/** A block cut into slices of one size. */
interface Slab {
  readonly block: Block
  readonly size: number
  readonly count: number
  readonly free: Block[]
}

interface SizeClass {
  /** Slabs with a slice in use and a free one. */
  readonly open: Set<Slab>
  /** One slab without any slice in use, kept so that single requests do not cut a block each. */
  spare: Slab | null
}

interface WholeBlocks {
  take(): Block
  give(block: Block): void
}

/** Cuts whole blocks into slices. Their users pay for the slices, this pays for what is free beside a used one. */
class Slabs {
  readonly #budget: ByteBudget
  readonly #blocks: WholeBlocks
  readonly #slabs = new Map<SharedArrayBuffer, Slab>()
  readonly #classes = new Map<number, SizeClass>()

  constructor(budget: ByteBudget, blocks: WholeBlocks) {
    this.#budget = budget
    this.#blocks = blocks
    for (const size of SLICE_BYTES) this.#classes.set(size, { open: new Set(), spare: null })
  }

  get spareBytes(): number {
    let spare = 0
    for (const sizeClass of this.#classes.values()) if (sizeClass.spare !== null) spare += BLOCK_BYTES
    return spare
  }

  /** @param size one of `SLICE_BYTES` */
  take(size: number): Block {
    const sizeClass = this.#classes.get(size)!
    const [slab] = sizeClass.open
    if (slab !== undefined) {
      const slice = slab.free.pop()!
      if (slab.free.length === 0) sizeClass.open.delete(slab)
      this.#budget.refund(size)
      return slice
    }
    const fresh = sizeClass.spare ?? this.#cut(size)
    sizeClass.spare = null
    sizeClass.open.add(fresh)
    this.#budget.charge(BLOCK_BYTES - size)
    return fresh.free.pop()!
  }

  /** @returns false when `slice` is none, but a whole block */
  give(slice: Block): boolean {
    const slab = this.#slabs.get(slice.buffer)
    if (slab === undefined) return false
    const sizeClass = this.#classes.get(slab.size)!
    slab.free.push(slice)
    if (slab.free.length < slab.count) {
      sizeClass.open.add(slab)
      this.#budget.charge(slab.size)
      return true
    }
    sizeClass.open.delete(slab)
    this.#budget.refund(BLOCK_BYTES - slab.size)
    if (sizeClass.spare === null) sizeClass.spare = slab
    else {
      this.#slabs.delete(slab.block.buffer)
      this.#blocks.give(slab.block)
    }
    return true
  }

  #cut(size: number): Slab {
    const block = this.#blocks.take()
    const count = BLOCK_BYTES / size
    const free = Array.from({ length: count }, (_, i) => new Uint8Array(block.buffer, i * size, size))
    const slab = { block, size, count, free }
    this.#slabs.set(block.buffer, slab)
    return slab
  }
}

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
   * Takes a block back that a socket may still be sending from, though it is being closed: the block rests before it
   * goes to others, and `then` is called when it does.
   */
  giveLater(block: Block, then: () => void): void
  /** Bytes of memory that the pool has from the system, in use or not. */
  readonly allocatedBytes: number
  /** Bytes of it that are in use, slabs counted whole. */
  readonly usedBytes: number
  /** Stops the timers and ends every rest; the caller has closed the sockets. */
  close(): void
}

interface BlockOptions {
  readonly trimMs?: number
  readonly restMs?: number
  readonly clock?: Clock
}

/**
 * How often memory that was not needed meanwhile is dropped. Rarely: the garbage collector does not count shared
 * memory, so what is dropped stays until it has other reasons to run.
 */
const TRIM_MS = 30_000
/**
 * How long a block rests after `giveLater`. A socket that is destroyed lets go of its memory in the same turn. The
 * budget counts what rests: a provider that refuses a hundred bodies a second before it has read them has 50 MiB there.
 */
const REST_MS = 1_000

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
export function createBlocks(budget: ByteBudget, options: BlockOptions = {}): BlockPool {
  return new PooledBlocks(budget, options)
}

class PooledBlocks implements BlockPool {
  readonly #free: Block[] = []
  readonly #slabs: Slabs
  readonly #trim: Timer
  readonly #restMs: number
  readonly #clock: Clock
  /** Timers of resting blocks, each with the action at its end. */
  readonly #resting = new Map<Timer, () => void>()
  #allocated = 0
  #used = 0
  #mostUsed = 0

  constructor(budget: ByteBudget, { trimMs = TRIM_MS, restMs = REST_MS, clock = systemClock }: BlockOptions) {
    const source = { take: () => this.#takeWhole(), give: (block: Block) => this.#giveWhole(block) }
    this.#slabs = new Slabs(budget, source)
    this.#restMs = restMs
    this.#clock = clock
    this.#trim = clock.every(trimMs, () => this.#dropUnneeded()).unref()
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
      this.give(block)
      then()
    }
    const rest = this.#clock.after(this.#restMs, end).unref()
    this.#resting.set(rest, end)
  }

  close(): void {
    this.#trim.close()
    for (const [rest, end] of this.#resting) {
      rest.close()
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
