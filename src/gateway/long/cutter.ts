import type { Audio, AudioReader, BodyPiece } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { AudioCutter, AudioPart, CutPlan, PartOwner } from '../../contracts/parts.ts'
import { toMilliseconds } from '../../contracts/seconds.ts'
import { type CutPart, cutSound, type PartSink, skipLevelOf } from '../media/cut/cutting.ts'
import { withSound } from '../media/cut/open-sound.ts'
import { Uncuttable } from '../media/cut/sound.ts'

/** Bytes that are kept together: a part is as many objects as it takes, so that none of it has to be in memory. */
const PIECE_BYTES = 4 * 1024 * 1024

interface CutterDependencies {
  readonly budget: ByteBudget
  readonly reader: AudioReader
  readonly objects: Pick<JobObjects, 'keepPiece' | 'dropPieces'>
}

/** Cuts audio into files of its own container and codec, without decoding it. */
export function createAudioCutter({ reader, objects, budget }: CutterDependencies): AudioCutter {
  return {
    async cut(audio, plan, owner, signal) {
      const kept: Promise<BodyPiece>[] = []
      const memory = leaseOf(budget, owner)
      try {
        const open = () => new PieceSink(objects, { owner, signal, memory }, kept)
        const skipLevel = plan.skipsSilence ? await withSound(reader, audio, signal, skipLevelOf) : null
        const parts = await withSound(reader, audio, signal, (sound) =>
          cutSound(sound, plan, open, skipLevel),
        )
        return parts.map((part) => partOf(part, audio))
      } catch (error) {
        void Promise.allSettled(kept).then((ends) => {
          const pieces = ends.flatMap((end) => (end.status === 'fulfilled' ? [end.value] : []))
          return objects.dropPieces(pieces)
        })
        throw error instanceof Uncuttable ? uncuttable(error, plan) : error
      } finally {
        memory.hold(0)
      }
    },
    async drop({ audio: { source } }: AudioPart) {
      if (source.kind === 'pieces') await objects.dropPieces(source.pieces)
    },
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

function uncuttable({ message }: Uncuttable, { maxBytes, maxSeconds }: CutPlan): GatewayError {
  const limits = [
    ...(Number.isFinite(maxBytes) ? [`${Math.floor(maxBytes)} bytes`] : []),
    ...(Number.isFinite(maxSeconds) ? [`${Math.floor(maxSeconds)} seconds`] : []),
  ]
  return new GatewayError(
    'INVALID_REQUEST',
    `no provider takes this audio whole, and it cannot be cut into parts of at most ${limits.join(' or ')}: ${message}`,
    { param: 'audio' },
  )
}

function partOf(
  { kept, soundSeconds, stretches, ...part }: CutPart<readonly BodyPiece[]>,
  whole: Audio,
): AudioPart {
  const durationSeconds = toMilliseconds(soundSeconds)
  return {
    ...part,
    audio: { ...ofPieces(whole, kept), durationSeconds },
    ...(stretches.length > 1 ? { stretches } : {}),
  }
}

function ofPieces(whole: Audio, pieces: readonly BodyPiece[]): Audio {
  const bytes = pieces.reduce((sum, { length }) => sum + length, 0)
  return {
    ...whole,
    source: { kind: 'pieces', pieces },
    offset: 0,
    length: bytes,
    encoding: 'identity',
    decodedBytes: bytes,
    canonical: true,
  }
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
