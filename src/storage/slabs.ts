import { BLOCK_BYTES, type Block } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'

/** Sizes of slices; a typical voice message is 100 to 200 KB. */
export const SLICE_BYTES: readonly number[] = [16 * 1024, 64 * 1024, 256 * 1024]

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
export class Slabs {
  readonly #budget: ByteBudget
  readonly #blocks: WholeBlocks
  readonly #slabs = new Map<SharedArrayBuffer, Slab>()
  readonly #classes = new Map<number, SizeClass>()

  constructor(budget: ByteBudget, blocks: WholeBlocks) {
    this.#budget = budget
    this.#blocks = blocks
    for (const size of SLICE_BYTES) this.#classes.set(size, { open: new Set(), spare: null })
  }

  /** Bytes of slabs that nobody uses. */
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
