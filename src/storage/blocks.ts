import { BLOCK_BYTES, type Block } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'

/**
 * Memory for bodies, used again and again: a fresh megabyte costs 256 page faults, more than copying into it.
 *
 * Whole blocks are 1 MiB. A small body, or the end of a large one, gets a slice of a block that it shares with others.
 * The caller keeps account of the slices that it holds; the pool charges the free rest of every block in slices by
 * force, so the budget always counts whole blocks and small bodies cannot hold more memory than it shows.
 */
export interface BlockPool {
  /** A block of `sliceBytes(bytes)` bytes. It holds what its last owner left there. */
  take(bytes: number): Block
  /** Takes a block back. Call it before the refund to the budget, so that the rest of a slab is never unaccounted. */
  give(block: Block): void
  /** Drops a whole block (1 MiB) that somebody may still read. */
  forget(block: Block): void
  /** Bytes of memory that the pool has from the system, in use or not. */
  readonly allocatedBytes: number
  /** Bytes of it that are in use, slabs counted whole. */
  readonly usedBytes: number
  /** Stops trimming. */
  close(): void
}

/** Sizes of slices; a typical voice message is 100 to 200 KB. */
const SLICE_BYTES = [16 * 1024, 64 * 1024, 256 * 1024] as const
/** How often memory that was not needed meanwhile is dropped. */
const TRIM_INTERVAL_MS = 30_000

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
  spare: Slab | undefined
}

/** @param budget what the pool keeps no more memory than, and charges the free rest of its slabs to */
export function createBlocks(budget: ByteBudget): BlockPool {
  const whole: Block[] = []
  const slabs = new Map<SharedArrayBuffer, Slab>()
  const classes = new Map<number, SizeClass>(
    SLICE_BYTES.map((size) => [size, { open: new Set(), spare: undefined }]),
  )
  let allocated = 0
  let inUse = 0
  let mostInUse = 0

  const trim = setInterval(() => {
    // The SharedArrayBuffers go with the next full garbage collection.
    while (whole.length > 0 && allocated > mostInUse) dropWhole()
    mostInUse = inUse
  }, TRIM_INTERVAL_MS)
  trim.unref()

  function dropWhole(): void {
    whole.pop()
    allocated -= BLOCK_BYTES
  }

  function addUse(): void {
    inUse += BLOCK_BYTES
    if (inUse > mostInUse) mostInUse = inUse
  }

  function takeWhole(): Block {
    addUse()
    const block = whole.pop()
    if (block !== undefined) return block
    allocated += BLOCK_BYTES
    return new Uint8Array(new SharedArrayBuffer(BLOCK_BYTES))
  }

  function giveWhole(block: Block): void {
    inUse -= BLOCK_BYTES
    whole.push(block)
    if (allocated > budget.limit) dropWhole()
  }

  function cut(size: number): Slab {
    const block = takeWhole()
    const count = BLOCK_BYTES / size
    const free = Array.from({ length: count }, (_, i) => new Uint8Array(block.buffer, i * size, size))
    const slab = { block, size, count, free }
    slabs.set(block.buffer, slab)
    return slab
  }

  function takeSlice(size: number): Block {
    const { open } = classes.get(size)!
    for (const slab of open) {
      const slice = slab.free.pop()!
      if (slab.free.length === 0) open.delete(slab)
      budget.refund(size)
      return slice
    }
    const slab = takeSpare(size) ?? cut(size)
    open.add(slab)
    budget.charge(BLOCK_BYTES - size)
    return slab.free.pop()!
  }

  function takeSpare(size: number): Slab | undefined {
    const sizeClass = classes.get(size)!
    const { spare } = sizeClass
    sizeClass.spare = undefined
    if (spare !== undefined) addUse()
    return spare
  }

  function giveSlice(slab: Slab, slice: Block): void {
    const sizeClass = classes.get(slab.size)!
    slab.free.push(slice)
    if (slab.free.length < slab.count) {
      sizeClass.open.add(slab)
      budget.charge(slab.size)
      return
    }
    sizeClass.open.delete(slab)
    budget.refund(BLOCK_BYTES - slab.size)
    if (sizeClass.spare === undefined) {
      sizeClass.spare = slab
      inUse -= BLOCK_BYTES
      return
    }
    slabs.delete(slab.block.buffer)
    giveWhole(slab.block)
  }

  return {
    take(bytes) {
      const size = sliceBytes(bytes)
      return size === BLOCK_BYTES ? takeWhole() : takeSlice(size)
    },
    give(block) {
      const slab = slabs.get(block.buffer)
      if (slab === undefined) giveWhole(block)
      else giveSlice(slab, block)
    },
    forget() {
      inUse -= BLOCK_BYTES
      allocated -= BLOCK_BYTES
    },
    get allocatedBytes() {
      return allocated
    },
    get usedBytes() {
      return inUse
    },
    close: () => clearInterval(trim),
  }
}
