import type { Block } from '../schema/audio.ts'
import { type BlockPool, sliceBytes } from './blocks.ts'
import type { WaitingBudget } from './budget.ts'
import { copyInto } from './copy.ts'
import type { HeldBody } from './held-body.ts'

interface Piece {
  readonly block: Block
  /** First byte that the store has not taken. */
  start: number
  /** End of what has been written. */
  end: number
  /** Gives the block and its bytes in the budget back. */
  readonly free: () => void
}

/**
 * Memory taken at a time for bytes on their way to the store. Small pieces are given back soon: with whole blocks two
 * of them, 2 MiB, were held for a queue of half a megabyte.
 */
const PIECE_MIN_BYTES = 64 * 1024
const PIECE_MAX_BYTES = 256 * 1024

/** Bytes between a sender and the store: copied in, lent out once, in order. Charged to the budget by force. */
export class ChunkQueue {
  readonly #budget: WaitingBudget
  readonly #pool: BlockPool
  readonly #workspace: string
  readonly #pieces: Piece[] = []
  #lent = 0
  #pending = 0

  constructor(budget: WaitingBudget, pool: BlockPool, workspace: string) {
    this.#budget = budget
    this.#pool = pool
    this.#workspace = workspace
  }

  /** Bytes that the store has not taken yet, the lent ones included. */
  get pending(): number {
    return this.#pending
  }

  /** Takes over the whole of a held body, to be lent out first. Its blocks are given back one by one. */
  adopt(held: HeldBody): void {
    let left = held.length
    for (const block of held.shiftBlocks(held.blocks.length)) {
      const end = Math.min(left, block.length)
      this.#pieces.push({ block, start: 0, end, free: () => held.giveBlock(block) })
      this.#pending += end
      left -= end
    }
    held.dropCredit()
  }

  append(chunk: Uint8Array): void {
    let from = 0
    while (from < chunk.length) {
      const piece = this.#tail(chunk.length - from)
      const part = chunk.subarray(from, from + piece.block.length - piece.end)
      copyInto(piece.block, piece.end, part)
      piece.end += part.length
      from += part.length
    }
    this.#pending += chunk.length
  }

  /** The next bytes, at most `max` of them; undefined when there are none. Valid until `settle`. */
  lend(max: number): Uint8Array | undefined {
    const piece = this.#pieces[0]
    if (piece === undefined || max <= 0) return undefined
    this.#lent = Math.min(max, piece.end - piece.start)
    return piece.block.subarray(piece.start, piece.start + this.#lent)
  }

  /** The store has taken what was lent. */
  settle(): void {
    const piece = this.#pieces[0]
    if (piece === undefined || this.#lent === 0) return
    piece.start += this.#lent
    this.#pending -= this.#lent
    this.#lent = 0
    if (piece.start < piece.end) return
    this.#pieces.shift()
    piece.free()
  }

  /** Gives all memory back. Only when the store does not read any more. */
  release(): void {
    for (const piece of this.#pieces.splice(0)) piece.free()
    this.#lent = 0
    this.#pending = 0
  }

  #tail(wanted: number): Piece {
    const last = this.#pieces.at(-1)
    if (last !== undefined && last.end < last.block.length) return last
    const size = sliceBytes(Math.min(Math.max(wanted, PIECE_MIN_BYTES), PIECE_MAX_BYTES))
    this.#budget.charge(size, this.#workspace)
    const block = this.#pool.take(size)
    const free = () => {
      this.#pool.give(block)
      this.#budget.refund(size, this.#workspace)
    }
    const piece = { block, start: 0, end: 0, free }
    this.#pieces.push(piece)
    return piece
  }
}
