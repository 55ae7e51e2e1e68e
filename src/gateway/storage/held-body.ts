import { BLOCK_BYTES, type Block } from '../../contracts/audio.ts'
import { type BlockPool, copyInto, heldBytes, sliceBytes } from './blocks.ts'
import { isScarce, type WaitingBudget } from './budget.ts'

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
  /** Bytes that the store has not taken yet, the lent ones included. */
  pending = 0

  constructor(budget: WaitingBudget, pool: BlockPool, workspace: string) {
    this.#budget = budget
    this.#pool = pool
    this.#workspace = workspace
  }

  /** Memory is used up so far that little should wait here. */
  get isScarce(): boolean {
    return isScarce(this.#budget)
  }

  /** Takes over the whole of a held body, to be lent out first. Its blocks are given back one by one. */
  adopt(held: HeldBody): void {
    let left = held.length
    for (const block of held.shiftBlocks(held.blocks.length)) {
      const end = Math.min(left, block.length)
      this.#pieces.push({ block, start: 0, end, free: () => held.giveBlock(block) })
      this.pending += end
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
    this.pending += chunk.length
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
    this.pending -= this.#lent
    this.#lent = 0
    if (piece.start < piece.end) return
    this.#pieces.shift()
    piece.free()
  }

  /** Gives all memory back. Only when the store does not read any more. */
  release(): void {
    for (const piece of this.#pieces.splice(0)) piece.free()
    this.#lent = 0
    this.pending = 0
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

/**
 * One body in pooled blocks, and its account with the budget. Memory that was reserved ahead is used up first; more
 * than that is charged by force, because bytes that have arrived must be somewhere.
 */
export class HeldBody {
  readonly #budget: WaitingBudget
  readonly #pool: BlockPool
  readonly #workspace: string
  /** Length that the body will have, so that its last block can be a slice; null: unknown. */
  readonly #expected: number | null
  #blocks: Block[] = []
  #held = 0
  /** Bytes of memory that were reserved for this body and are not used. */
  credit = 0
  length = 0

  constructor(budget: WaitingBudget, pool: BlockPool, workspace: string, expected: number | null) {
    this.#budget = budget
    this.#pool = pool
    this.#workspace = workspace
    this.#expected = expected
  }

  /** Full blocks of 1 MiB, but for the last. */
  get blocks(): readonly Block[] {
    return this.#blocks
  }

  /** Bytes of memory that the budget counts for this body, used or reserved ahead. */
  get charged(): number {
    return this.#held + this.credit
  }

  /** Adds memory that has been reserved for this body. */
  addCredit(bytes: number): void {
    this.credit += bytes
  }

  /** Gives back what was reserved and is not used. */
  dropCredit(): void {
    if (this.credit === 0) return
    const credit = this.credit
    this.credit = 0
    this.#budget.refund(credit, this.#workspace)
  }

  /** Copies `chunk` after the bytes that are there. */
  append(chunk: Uint8Array): void {
    let from = 0
    while (from < chunk.length) {
      const room = this.#room(chunk.length - from)
      const part = chunk.subarray(from, from + room.length)
      copyInto(room, 0, part)
      from += part.length
      this.length += part.length
    }
  }

  /** Takes the first `count` blocks out; the caller gives each back with `giveBlock`. */
  shiftBlocks(count: number): Block[] {
    const blocks = this.#blocks.splice(0, count)
    for (const block of blocks) this.length -= Math.min(block.length, this.length)
    return blocks
  }

  /**
   * Takes back a block that `shiftBlocks` handed out.
   *
   * @param keepBytes memory up to which this body keeps its reservation, for the bytes that are still to come
   */
  giveBlock(block: Block, keepBytes = 0): void {
    this.#held -= block.length
    this.#pool.give(block)
    if (this.charged + block.length <= keepBytes) this.credit += block.length
    else this.#budget.refund(block.length, this.#workspace)
  }

  /** Gives everything back that is still here. Idempotent. */
  release(): void {
    const blocks = this.#blocks
    this.#blocks = []
    this.length = 0
    for (const block of blocks) this.giveBlock(block)
    this.dropCredit()
  }

  /** Room after the last byte, at least one byte of it. */
  #room(wanted: number): Uint8Array {
    const filled = this.length % BLOCK_BYTES
    const last = this.#blocks.at(-1)
    if (last === undefined || (filled === 0 && last.length === BLOCK_BYTES))
      return this.#add(this.#nextSize(0, wanted))
    if (filled > 0 && filled < last.length) return last.subarray(filled)
    // A slice is full: the bytes move to a larger one. Sizes grow fourfold, so a byte moves at most three times.
    const reserved = this.#expected === null || this.credit === 0 ? 0 : heldBytes(this.#expected)
    const larger = this.#add(this.#nextSize(filled, wanted))
    copyInto(larger, 0, last)
    this.#blocks.splice(-2, 1)
    this.giveBlock(last, reserved)
    return larger.subarray(filled)
  }

  /** Room for all that is to come where that is reserved; a body that still waits for memory takes what it needs. */
  #nextSize(filled: number, wanted: number): number {
    const known = this.#expected === null || this.credit === 0 ? 0 : this.#expected - this.length
    return sliceBytes(Math.min(filled + Math.max(known, wanted), BLOCK_BYTES))
  }

  #add(size: number): Block {
    const missing = size - this.credit
    if (missing > 0) {
      if (!this.#budget.tryReserve(missing, this.#workspace)) this.#budget.charge(missing, this.#workspace)
      this.credit = size
    }
    this.credit -= size
    this.#held += size
    const block = this.#pool.take(size)
    this.#blocks.push(block)
    return block
  }
}

/** Memory to reserve for the rest of a body of `length` bytes, of which `held` is charged already. */
export function missingBytes(length: number, held: HeldBody): number {
  return Math.max(0, heldBytes(length) - held.charged)
}
