import { setImmediate as turnOfLoop } from 'node:timers/promises'
import { BLOCK_BYTES, type Block } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'
import { LEAF_BYTES, type LeafHasher } from '../schema/media.ts'
import type { BlockPool } from './blocks.ts'
import { copyInto } from './copy.ts'

interface GathererParts {
  readonly hasher: LeafHasher
  readonly blocks: BlockPool
  readonly budget: ByteBudget
}

/** Copies chunks together to leaves in two blocks that take turns: one is filled while the other is hashed. */
export class LeafGatherer {
  readonly #parts: GathererParts
  readonly #take: (hash: Uint8Array) => void
  readonly #blocks: Block[] = []
  /** Which of the two is being filled. */
  #turn = 0
  #filled = 0
  #missing: number
  #hashing: Promise<Uint8Array> | null = null

  /**
   * @param total bytes that must come
   * @param take  called with the hash of each leaf, in order
   */
  constructor(total: number, parts: GathererParts, take: (hash: Uint8Array) => void) {
    this.#missing = total
    this.#parts = parts
    this.#take = take
  }

  /**
   * Copies `chunk`, which is free again at once or, where it ends a leaf, when the promise resolves.
   *
   * @throws Error when more comes than was said
   */
  async append(chunk: Uint8Array): Promise<void> {
    if (chunk.length > this.#missing) throw new Error('stored audio is longer than it was when it arrived')
    for (let at = 0; at < chunk.length; ) {
      this.#blocks[this.#turn] ??= this.#takeBlock()
      const part = chunk.subarray(at, at + LEAF_BYTES - this.#filled)
      copyInto(this.#blocks[this.#turn]!, this.#filled, part)
      this.#filled += part.length
      this.#missing -= part.length
      at += part.length
      if (this.#filled === LEAF_BYTES) await this.#endLeaf()
    }
  }

  /** @throws Error when less came than was said */
  async finish(): Promise<void> {
    if (this.#missing > 0) throw new Error('stored audio is shorter than it was when it arrived')
    if (this.#filled > 0) await this.#endLeaf()
    await this.#endHashing()
  }

  /** Gives the memory back, as soon as no worker reads it any more. Never rejects. */
  async release(): Promise<void> {
    await this.#hashing?.catch(() => {})
    for (const block of this.#blocks.splice(0)) {
      this.#parts.blocks.give(block)
      this.#parts.budget.refund(block.length)
    }
  }

  async #endLeaf(): Promise<void> {
    const leaf = this.#blocks[this.#turn]!.subarray(0, this.#filled)
    await this.#endHashing()
    this.#hashing = Promise.resolve(this.#parts.hasher.hash([leaf], 'identity'))
    // A failure is met where it is awaited; until then nobody may call it unhandled.
    this.#hashing.catch(() => {})
    this.#filled = 0
    this.#turn = 1 - this.#turn
    // Where filling takes longer than hashing the worker's answer is always there already, and Node hands out a
    // thousand such messages before anything else has its turn.
    await turnOfLoop()
  }

  async #endHashing(): Promise<void> {
    if (this.#hashing !== null) this.#take(await this.#hashing)
    this.#hashing = null
  }

  #takeBlock(): Block {
    const block = this.#parts.blocks.take(Math.min(this.#missing, BLOCK_BYTES))
    this.#parts.budget.charge(block.length)
    return block
  }
}
