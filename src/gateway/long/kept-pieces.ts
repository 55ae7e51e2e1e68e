import { type Audio, BLOCK_BYTES, type Block, type BodyPiece } from '../../contracts/audio.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { PartOwner } from '../../contracts/parts.ts'
import type { PartSink } from '../media/cut/cutting.ts'
import { copyInto } from '../storage/blocks.ts'
import { isScarce } from '../storage/budget.ts'
import type { StoreMemory } from '../storage/read-buffers.ts'

/** Bytes that are kept together: a part is as many objects as it takes, so that none of it has to be in memory. */
const PIECE_BYTES = 4 * BLOCK_BYTES

export interface PieceStores extends StoreMemory {
  readonly objects: Pick<JobObjects, 'keepPiece' | 'dropPieces'>
}

/**
 * Lets `use` keep files as pieces of the object store.
 *
 * @throws what `use` throws, and the store's errors. Nothing that was kept is left then
 */
export async function keepingPieces<Result>(
  { objects, ...stores }: PieceStores,
  owner: PartOwner,
  signal: AbortSignal,
  use: (open: () => PartSink<readonly BodyPiece[]>) => Promise<Result>,
): Promise<Result> {
  const kept: Promise<BodyPiece>[] = []
  const memory = new PieceMemory(stores, owner)
  try {
    return await use(() => new PieceSink(objects, { owner, signal, memory }, kept))
  } catch (error) {
    void Promise.allSettled(kept).then((ends) => {
      const pieces = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
      return objects.dropPieces(pieces)
    })
    throw error
  } finally {
    memory.close()
  }
}

/** The audio of pieces that were made out of some other audio. */
export function audioOfPieces(made: Omit<Audio, 'source'>, pieces: readonly BodyPiece[]): Audio {
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  return {
    ...made,
    source: { kind: 'pieces', pieces },
    offset: 0,
    length: bytes,
    encoding: 'identity',
    decodedBytes: bytes,
    canonical: true,
  }
}

/** Blocks that the sinks of one cut fill, charged to the share of its workspace. */
class PieceMemory {
  readonly #stores: StoreMemory
  readonly #workspace: string
  readonly #filling = new Set<Block>()

  constructor(stores: StoreMemory, { workspace }: PartOwner) {
    this.#stores = stores
    this.#workspace = workspace
  }

  /** Bytes that a piece has before it goes to the store: one block while memory is scarce. */
  get pieceBytes(): number {
    return isScarce(this.#stores.budget) ? BLOCK_BYTES : PIECE_BYTES
  }

  take(): Block {
    this.#stores.budget.charge(BLOCK_BYTES, this.#workspace)
    const block = this.#stores.blocks.take(BLOCK_BYTES)
    this.#filling.add(block)
    return block
  }

  /** Lets `keep` have blocks, which it counts itself. Where it fails it may still read them, so that they rest. */
  async lend<Kept>(blocks: readonly Block[], keep: () => Promise<Kept>): Promise<Kept> {
    const pool = this.#stores.blocks
    this.#uncharge(blocks)
    try {
      const kept = await keep()
      for (const block of blocks) pool.give(block)
      return kept
    } catch (error) {
      for (const block of blocks) pool.giveLater(block, () => {})
      throw error
    }
  }

  /** Takes back what was filled and not lent. */
  close(): void {
    for (const block of this.#filling) this.#stores.blocks.give(block)
    this.#uncharge(this.#filling)
  }

  #uncharge(blocks: Iterable<Block>): void {
    for (const block of blocks) {
      this.#stores.budget.refund(BLOCK_BYTES, this.#workspace)
      this.#filling.delete(block)
    }
  }
}

interface SinkTerms {
  readonly owner: PartOwner
  readonly signal: AbortSignal
  readonly memory: PieceMemory
}

/** Keeps what is written as objects, one after the other. */
class PieceSink implements PartSink<readonly BodyPiece[]> {
  readonly #objects: Pick<JobObjects, 'keepPiece'>
  readonly #terms: SinkTerms
  /** Everything that is kept of any part, to be deleted when cutting fails. */
  readonly #all: Promise<BodyPiece>[]
  readonly #pieces: Promise<BodyPiece>[] = []
  #blocks: Block[] = []
  /** Bytes in the blocks, of which only the last may have room. */
  #used = 0

  constructor(objects: Pick<JobObjects, 'keepPiece'>, terms: SinkTerms, all: Promise<BodyPiece>[]) {
    this.#objects = objects
    this.#terms = terms
    this.#all = all
  }

  async write(chunks: readonly Uint8Array[]): Promise<void> {
    const { memory } = this.#terms
    for (let chunk of chunks) {
      while (chunk.length > 0) {
        const at = this.#used % BLOCK_BYTES
        if (at === 0) this.#blocks.push(memory.take())
        const fits = chunk.subarray(0, BLOCK_BYTES - at)
        copyInto(this.#blocks.at(-1)!, at, fits)
        this.#used += fits.length
        chunk = chunk.subarray(fits.length)
        if (this.#used % BLOCK_BYTES === 0 && this.#used >= memory.pieceBytes) await this.#flush()
      }
    }
  }

  async finish(head: Uint8Array): Promise<readonly BodyPiece[]> {
    const isOne = this.#pieces.length === 0
    if (!isOne && head.length > 0) this.#pieces.unshift(this.#keep([head], []))
    await this.#flush(isOne ? [head] : [])
    return await Promise.all(this.#pieces)
  }

  async #flush(before: readonly Uint8Array[] = []): Promise<void> {
    const blocks = this.#blocks
    const filled = blocks.map((block, index) => block.subarray(0, this.#used - index * BLOCK_BYTES))
    const chunks = [...before, ...filled]
    this.#blocks = []
    this.#used = 0
    // One piece is on its way to the store while the next is filled.
    await this.#pieces.at(-1)
    if (chunks.some(({ length }) => length > 0)) this.#pieces.push(this.#keep(chunks, blocks))
  }

  #keep(chunks: readonly Uint8Array[], blocks: readonly Block[]): Promise<BodyPiece> {
    const { owner, signal, memory } = this.#terms
    const piece = memory
      .lend(blocks, () => this.#objects.keepPiece(owner, chunks, signal))
      .then(({ object, bytes }) => ({ key: object, start: 0, length: bytes }))
    // The next flush may never come, and its failure is told by the cut.
    piece.catch(() => {})
    this.#all.push(piece)
    return piece
  }
}
