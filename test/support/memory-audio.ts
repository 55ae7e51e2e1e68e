import type { AudioReader, AudioRef, Block } from '../../src/contracts/audio.ts'
import { BLOCK_BYTES } from '../../src/contracts/audio.ts'

/** How the audio stands in its body: as it is, as base64, or as base64 with line breaks, which has no random access. */
export type Standing = 'identity' | 'base64' | 'loose base64'
export const STANDINGS: readonly Standing[] = ['identity', 'base64', 'loose base64']

/** What a reader was asked for. */
export interface Reads {
  /** Decoded bytes of every range. */
  readonly ranges: number[]
  passes: number
  /** Decoded bytes given out by all passes. */
  passedBytes: number
  /** Passes that were neither read to the end nor returned. */
  open: number
}

export interface MemoryAudio {
  readonly audio: AudioRef
  readonly reader: AudioReader
  readonly reads: Reads
}

const LEAD = Buffer.from('{"audio":"')

/** An AudioRef over blocks of memory, and a reader of it that keeps count. `chunkBytes` is that of a pass. */
export function memoryAudio(bytes: Uint8Array, standing: Standing, chunkBytes = 64 * 1024): MemoryAudio {
  const stored = store(bytes, standing)
  const audio: AudioRef = {
    source: { kind: 'memory', blocks: blocksOf(Buffer.concat([LEAD, stored, Buffer.from('"}')])) },
    offset: LEAD.length,
    length: stored.length,
    encoding: standing === 'identity' ? 'identity' : 'base64',
    decodedBytes: bytes.length,
    canonical: standing !== 'loose base64',
    mediaType: null,
    filename: null,
  }
  const reads: Reads = { ranges: [], passes: 0, passedBytes: 0, open: 0 }
  const reader: AudioReader = {
    async range(ref, start, end, signal) {
      signal.throwIfAborted()
      const decoded = decode(ref, start, Math.min(end, ref.decodedBytes))
      reads.ranges.push(decoded.length)
      return decoded
    },

    // Chunks share two buffers, so that a probe that holds one for too long reads something else.
    async *bytes(ref, signal) {
      const all = decode(ref, 0, ref.decodedBytes)
      const buffers = [new Uint8Array(chunkBytes), new Uint8Array(chunkBytes)]
      reads.passes += 1
      reads.open += 1
      try {
        for (let at = 0, count = 0; at < all.length; at += chunkBytes, count++) {
          signal.throwIfAborted()
          const buffer = buffers[count % 2]!.fill(0xff)
          const chunk = all.subarray(at, at + chunkBytes)
          buffer.set(chunk)
          reads.passedBytes += chunk.length
          yield buffer.subarray(0, chunk.length)
        }
      } finally {
        reads.open -= 1
      }
    },

    base64() {
      throw new Error('a probe has no use for base64')
    },
  }
  return { audio, reader, reads }
}

function store(bytes: Uint8Array, standing: Standing): Buffer {
  if (standing === 'identity') return Buffer.from(bytes)
  const text = Buffer.from(bytes).toString('base64')
  return Buffer.from(standing === 'base64' ? text : text.replaceAll(/.{76}/g, '$&\r\n'))
}

function blocksOf(body: Uint8Array): Block[] {
  const blocks: Block[] = []
  for (let at = 0; at < body.length; at += BLOCK_BYTES) {
    const block = new Uint8Array(new SharedArrayBuffer(BLOCK_BYTES))
    block.set(body.subarray(at, at + BLOCK_BYTES))
    blocks.push(block)
  }
  return blocks
}

/** Decoded bytes `start` to `end`, out of the blocks alone. */
function decode(audio: AudioRef, start: number, end: number): Uint8Array {
  if (audio.encoding === 'identity') return slice(audio, start, end)
  if (!audio.canonical) {
    const text = Buffer.from(slice(audio, 0, audio.length)).toString('latin1')
    return new Uint8Array(Buffer.from(text.replaceAll(/\s/g, ''), 'base64')).slice(start, end)
  }
  const first = Math.floor(start / 3)
  const text = Buffer.from(slice(audio, first * 4, Math.ceil(end / 3) * 4)).toString('latin1')
  return new Uint8Array(Buffer.from(text, 'base64')).slice(start - first * 3, end - first * 3)
}

/** Bytes `start` to `end` of the audio as it stands in its body. */
function slice({ source, offset, length }: AudioRef, start: number, end: number): Uint8Array {
  if (source.kind !== 'memory') throw new Error('only memory is read here')
  const out = new Uint8Array(Math.max(0, Math.min(end, length) - start))
  for (let done = 0; done < out.length; ) {
    const at = offset + start + done
    const within = at % BLOCK_BYTES
    const piece = source.blocks[Math.floor(at / BLOCK_BYTES)]!.subarray(within, within + out.length - done)
    out.set(piece, done)
    done += piece.length
  }
  return out
}
