import type { Audio, BodyPiece } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { PartOwner } from '../../contracts/parts.ts'
import type { PartSink } from '../media/cut/cutting.ts'

/** Bytes that are kept together: a part is as many objects as it takes, so that none of it has to be in memory. */
const PIECE_BYTES = 4 * 1024 * 1024

export interface PieceStores {
  readonly budget: ByteBudget
  readonly objects: Pick<JobObjects, 'keepPiece' | 'dropPieces'>
}

/**
 * Lets `use` keep files as pieces of the object store.
 *
 * @throws what `use` throws, and the store's errors. Nothing that was kept is left then
 */
export async function keepingPieces<Result>(
  { budget, objects }: PieceStores,
  owner: PartOwner,
  signal: AbortSignal,
  use: (open: () => PartSink<readonly BodyPiece[]>) => Promise<Result>,
): Promise<Result> {
  const kept: Promise<BodyPiece>[] = []
  const memory = leaseOf(budget, owner)
  try {
    return await use(() => new PieceSink(objects, { owner, signal, memory }, kept))
  } catch (error) {
    void Promise.allSettled(kept).then((ends) => {
      const pieces = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
      return objects.dropPieces(pieces)
    })
    throw error
  } finally {
    memory.hold(0)
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

/** Memory of a buffer, charged to the share of its workspace while there is one. */
interface BufferMemory {
  /** @param bytes 0: it is given back */
  hold(bytes: number): void
}

function leaseOf(budget: ByteBudget, { workspace }: PartOwner): BufferMemory {
  let held = 0
  return {
    hold(bytes) {
      budget.refund(held, workspace)
      budget.charge(bytes, workspace)
      held = bytes
    },
  }
}

interface SinkTerms {
  readonly owner: PartOwner
  readonly signal: AbortSignal
  readonly memory: BufferMemory
}

/** Keeps what is written as objects, one after the other. */
class PieceSink implements PartSink<readonly BodyPiece[]> {
  readonly #objects: Pick<JobObjects, 'keepPiece'>
  readonly #terms: SinkTerms
  /** Everything that is kept of any part, to be deleted when cutting fails. */
  readonly #all: Promise<BodyPiece>[]
  readonly #pieces: Promise<BodyPiece>[] = []
  #buffer: Buffer | null = null
  #used = 0

  constructor(objects: Pick<JobObjects, 'keepPiece'>, terms: SinkTerms, all: Promise<BodyPiece>[]) {
    this.#objects = objects
    this.#terms = terms
    this.#all = all
  }

  async write(chunks: readonly Uint8Array[]): Promise<void> {
    for (let chunk of chunks) {
      while (chunk.length > 0) {
        this.#buffer ??= this.#newBuffer()
        const fits = chunk.subarray(0, PIECE_BYTES - this.#used)
        this.#buffer.set(fits, this.#used)
        this.#used += fits.length
        chunk = chunk.subarray(fits.length)
        if (this.#used === PIECE_BYTES) await this.#flush()
      }
    }
  }

  async finish(head: Uint8Array): Promise<readonly BodyPiece[]> {
    const isOne = this.#pieces.length === 0
    if (!isOne && head.length > 0) this.#pieces.unshift(this.#keep([head]))
    await this.#flush(isOne ? [head] : [])
    return await Promise.all(this.#pieces)
  }

  async #flush(before: readonly Uint8Array[] = []): Promise<void> {
    const chunks = [...before, ...(this.#buffer === null ? [] : [this.#buffer.subarray(0, this.#used)])]
    this.#buffer = null
    this.#used = 0
    // Whoever keeps it counts it from here on.
    this.#terms.memory.hold(0)
    // One piece is on its way to the store while the next is filled.
    await this.#pieces.at(-1)
    if (chunks.some(({ length }) => length > 0)) this.#pieces.push(this.#keep(chunks))
  }

  #newBuffer(): Buffer {
    this.#terms.memory.hold(PIECE_BYTES)
    return Buffer.allocUnsafe(PIECE_BYTES)
  }

  #keep(chunks: readonly Uint8Array[]): Promise<BodyPiece> {
    const { owner, signal } = this.#terms
    const piece = this.#objects
      .keepPiece(owner, chunks, signal)
      .then(({ object, bytes }) => ({ key: object, start: 0, length: bytes }))
    // The next flush may never come, and its failure is told by the cut.
    piece.catch(() => {})
    this.#all.push(piece)
    return piece
  }
}
