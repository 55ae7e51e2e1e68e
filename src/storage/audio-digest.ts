import { createHash } from 'node:crypto'
import type { AudioReader, AudioRef, Block } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'
import { type AudioDigester, LEAF_BYTES, type LeafHasher } from '../schema/media.ts'
import type { BlockPool } from './blocks.ts'
import { blockBytes } from './body-bytes.ts'
import { LeafGatherer } from './leaf-gatherer.ts'
import { PassingAudio } from './passing-audio.ts'

/**
 * What a worker hashes at a time where the audio lies: four leaves, or the text of exactly three. So much that the
 * message costs nothing beside it, and so little (2 ms) that many digests take turns on a thread.
 */
const STRIDE_BYTES = 4 * LEAF_BYTES

export interface AudioDigesterParts {
  readonly reader: AudioReader
  readonly hasher: LeafHasher
  /** Where audio is gathered that comes in chunks: two blocks at most for each digest, charged by force. */
  readonly blocks: BlockPool
  readonly budget: ByteBudget
}

/** Digests audio where it rests, and audio that passes: the same audio has one digest, however it came. */
export function createAudioDigester(parts: AudioDigesterParts): AudioDigester {
  return {
    async digest(audio, signal) {
      signal.throwIfAborted()
      const leaves = createHash('sha256')
      const take = (hashes: Uint8Array) => void leaves.update(hashes)
      const { source } = audio
      if (source.kind === 'memory' && audio.canonical)
        await hashHeld(source.blocks, audio, { hasher: parts.hasher, signal, take })
      else await hashGathered(audio, parts, { signal, take })
      return leaves.digest('hex')
    },
    passing: () => new PassingAudio(parts.hasher.begin()),
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
  { hasher, signal, take }: Hashing & Pick<AudioDigesterParts, 'hasher'>,
): Promise<void> {
  const end = offset + length
  for (let at = offset; at < end; at += STRIDE_BYTES) {
    const views = [...blockBytes(blocks, at, Math.min(at + STRIDE_BYTES, end))]
    // One at a time, and always waited for: whoever is told that the digest is over may give the blocks away.
    take(await hasher.hash(views, encoding))
    signal.throwIfAborted()
  }
}

/** Hashes audio that comes in chunks. */
async function hashGathered(
  audio: AudioRef,
  { reader, ...memory }: AudioDigesterParts,
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
