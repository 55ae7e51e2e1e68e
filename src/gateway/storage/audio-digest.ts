import { createHash } from 'node:crypto'
import { type AudioReader, type AudioRef, BLOCK_BYTES, type Block } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { AudioDigester, LeafHasher, LeafHashing, PassingDigest } from '../../contracts/media.ts'
import { LEAF_BYTES } from '../../contracts/media.ts'
import { nextTurn } from '../../contracts/time.ts'
import { type BlockPool, copyInto } from './blocks.ts'
import { blockBytes } from './body-bytes.ts'
import { notBase64 } from './failure.ts'
import { TextCleaner } from './stages.ts'

interface GathererDependencies {
  readonly hasher: LeafHasher
  /** Where audio is gathered that comes in chunks: two blocks at most for each digest, charged by force. */
  readonly blocks: BlockPool
  readonly budget: ByteBudget
}

/** Copies chunks together to leaves in two blocks that take turns: one is filled while the other is hashed. */
class LeafGatherer {
  readonly #deps: GathererDependencies
  readonly #take: (hash: Uint8Array) => void
  readonly #blocks: Block[] = []
  /** Index of the block that is being filled. */
  #turn = 0
  #filled = 0
  #missing: number
  #hashing: Promise<Uint8Array> | null = null

  /**
   * @param total bytes that must come
   * @param take  called with the hash of each leaf, in order
   */
  constructor(total: number, deps: GathererDependencies, take: (hash: Uint8Array) => void) {
    this.#missing = total
    this.#deps = deps
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

  /** Gives the memory back as soon as no worker reads it. Never rejects. */
  async release(): Promise<void> {
    await this.#hashing?.catch(() => {})
    for (const block of this.#blocks.splice(0)) {
      this.#deps.blocks.give(block)
      this.#deps.budget.refund(block.length)
    }
  }

  async #endLeaf(): Promise<void> {
    const leaf = this.#blocks[this.#turn]!.subarray(0, this.#filled)
    await this.#endHashing()
    this.#hashing = Promise.resolve(this.#deps.hasher.hash([leaf], 'identity'))
    // A failure is handled where it is awaited; until then it must not count as unhandled.
    this.#hashing.catch(() => {})
    this.#filled = 0
    this.#turn = 1 - this.#turn
    // Where filling takes longer than hashing the worker's answer is always there already, and Node hands out a
    // thousand such messages before anything else has its turn.
    await nextTurn()
  }

  async #endHashing(): Promise<void> {
    if (this.#hashing !== null) this.#take(await this.#hashing)
    this.#hashing = null
  }

  #takeBlock(): Block {
    const block = this.#deps.blocks.take(Math.min(this.#missing, BLOCK_BYTES))
    this.#deps.budget.charge(block.length)
    return block
  }
}

/** Text decoded at a time. */
const TEXT_SLICE = 64 * 1024
const GROUP = 4
const PADDING = '='.charCodeAt(0)

/** Used anew by every call: nothing in them outlives one. */
const text = Buffer.allocUnsafeSlow(GROUP + TEXT_SLICE)
const decoded = Buffer.allocUnsafeSlow((text.length / 4) * 3)

/** Digests audio on the event loop while it streams past, and keeps no more of it than an unfinished group. */
class PassingAudio implements PassingDigest {
  readonly #leaves: LeafHashing
  readonly #cleaner = new TextCleaner()
  /** Characters of a group of four that is not whole yet, cleaned. */
  readonly #group = Buffer.alloc(GROUP)
  #grouped = 0

  constructor(leaves: LeafHashing) {
    this.#leaves = leaves
  }

  take(view: Uint8Array, encoding: AudioRef['encoding']): void {
    if (encoding === 'identity') this.#leaves.update(view)
    else
      for (let at = 0; at < view.length; at += TEXT_SLICE) this.#takeText(view.subarray(at, at + TEXT_SLICE))
  }

  finish(): string {
    if (this.#grouped > 0) this.#leaves.update(decodeGroups(this.#group.fill(PADDING, this.#grouped)))
    return createHash('sha256').update(this.#leaves.finish()).digest('hex')
  }

  #takeText(slice: Uint8Array): void {
    const at = this.#takePlain(slice)
    text.set(this.#group.subarray(0, this.#grouped))
    const filled = this.#grouped + this.#cleaner.clean(slice.subarray(at), text.subarray(this.#grouped))
    const whole = filled - (filled % GROUP)
    const bytes = decodeGroups(text.subarray(0, whole))
    if (bytes.length !== (whole / GROUP) * 3) throw notBase64()
    this.#leaves.update(bytes)
    text.copy(this.#group, 0, whole, filled)
    this.#grouped = filled - whole
  }

  /**
   * Takes as many whole groups as there are, if they need no cleaning: thirty times as fast as doing it.
   *
   * @returns characters of `slice` that were taken: all but three at most, or none
   */
  #takePlain(slice: Uint8Array): number {
    const length = this.#grouped + slice.length
    const whole = length - (length % GROUP)
    if (whole === 0 || this.#cleaner.inEscape) return 0
    text.set(this.#group.subarray(0, this.#grouped))
    text.set(slice, this.#grouped)
    // Node's decoder takes both alphabets, and anything else makes the result too short.
    const bytes = decodeGroups(text.subarray(0, whole))
    if (bytes.length !== (whole / GROUP) * 3) return 0
    this.#leaves.update(bytes)
    const taken = whole - this.#grouped
    this.#grouped = 0
    return taken
  }
}

/** The bytes that base64 text of one slice means; valid until the next call. */
function decodeGroups(groups: Buffer): Buffer {
  return decoded.subarray(0, decoded.write(groups.toString('latin1'), 'base64'))
}

/**
 * Bytes that a worker hashes in place at a time: four leaves, or the text of exactly three. Large enough that the
 * message costs nothing beside it, and small enough (2 ms) that many digests take turns on one thread.
 */
const STRIDE_BYTES = 4 * LEAF_BYTES

interface AudioDigesterDependencies extends GathererDependencies {
  readonly reader: AudioReader
}

/** Digests audio at rest and audio in passing: the same audio has the same digest, however it arrived. */
export function createAudioDigester(deps: AudioDigesterDependencies): AudioDigester {
  return {
    async digest(audio, signal) {
      signal.throwIfAborted()
      const leaves = createHash('sha256')
      const take = (hashes: Uint8Array) => void leaves.update(hashes)
      const { source } = audio
      if (source.kind === 'memory' && audio.canonical)
        await hashHeld(source.blocks, audio, { hasher: deps.hasher, signal, take })
      else await hashGathered(audio, deps, { signal, take })
      return leaves.digest('hex')
    },
    passing: () => new PassingAudio(deps.hasher.begin()),
  }
}

interface Hashing {
  readonly signal: AbortSignal
  /** Called with the hashes of the leaves, in order. */
  readonly take: (hashes: Uint8Array) => void
}

/** Hashes audio in blocks where it lies, as bytes or as text that can be decoded from any group of four. */
async function hashHeld(
  blocks: readonly Block[],
  { offset, length, encoding }: AudioRef,
  { hasher, signal, take }: Hashing & Pick<AudioDigesterDependencies, 'hasher'>,
): Promise<void> {
  const end = offset + length
  for (let at = offset; at < end; at += STRIDE_BYTES) {
    const views = [...blockBytes(blocks, at, Math.min(at + STRIDE_BYTES, end))]
    // One at a time, and always awaited: once the digest is done its caller may give the blocks away.
    take(await hasher.hash(views, encoding))
    signal.throwIfAborted()
  }
}

async function hashGathered(
  audio: AudioRef,
  { reader, ...memory }: AudioDigesterDependencies,
  { signal, take }: Hashing,
): Promise<void> {
  const gatherer = new LeafGatherer(audio.decodedBytes, memory, take)
  try {
    for await (const chunk of reader.bytes(audio, signal)) await gatherer.append(chunk)
    await gatherer.finish()
    signal.throwIfAborted()
  } finally {
    await gatherer.release()
  }
}
