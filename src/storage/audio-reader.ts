import { type AudioReader, type AudioRef, BLOCK_BYTES } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { Base64Decoder } from '../schema/media.ts'
import type { Objects } from '../schema/objects.ts'
import { decodeAhead } from './ahead-decoder.ts'
import type { BlockPool } from './blocks.ts'
import { blockBytes, bodyBytes, copyBytes } from './body-bytes.ts'
import { type Chunks, cleanText, decodeText, encodeText, gather } from './stages.ts'

/** Least size of a chunk that is not the last; see `AudioReader`. */
const MIN_CHUNK_BYTES = 64 * 1024

export interface AudioReaderParts {
  readonly objects: Objects
  readonly decoder: Base64Decoder
  /** Memory for decoding ahead in a worker, and the budget that counts it; without it all is decoded on the way. */
  readonly memory?: { readonly blocks: BlockPool; readonly budget: ByteBudget }
}

/** Reads audio out of blocks and objects; base64 is decoded, and bytes are encoded, on their way out. */
export function createAudioReader({ objects, decoder, memory }: AudioReaderParts): AudioReader {
  const text = (audio: AudioRef, signal: AbortSignal) =>
    bodyBytes(objects, audio.source, audio.offset, audio.offset + audio.length, signal)

  function decoded(audio: AudioRef, signal: AbortSignal): Chunks {
    if (audio.encoding === 'identity') return text(audio, signal)
    const canonical = audio.canonical ? text(audio, signal) : cleanText(text(audio, signal))
    return decodeText(canonical, decoder)
  }

  function inSlices(audio: AudioRef, signal: AbortSignal): Chunks {
    return gather(decoded(audio, signal), audio.decodedBytes)
  }

  function bytes(audio: AudioRef, signal: AbortSignal): Chunks {
    if (audio.decodedBytes === 0) return []
    if (audio.source.kind === 'memory') {
      const { blocks } = audio.source
      if (audio.encoding === 'identity') return views(blocks, audio)
      const large = audio.canonical && audio.length > BLOCK_BYTES
      if (large && memory !== undefined) {
        return decodeAhead(blocks, audio, { decoder, ...memory, inSlices: () => inSlices(audio, signal) })
      }
    }
    return audio.encoding === 'identity' ? text(audio, signal) : inSlices(audio, signal)
  }

  function base64(audio: AudioRef, signal: AbortSignal): Chunks {
    const length = 4 * Math.ceil(audio.decodedBytes / 3)
    if (length === 0) return []
    if (audio.encoding === 'identity') return gather(encodeText(text(audio, signal)), length)
    if (!audio.canonical) return gather(cleanText(text(audio, signal)), length)
    return audio.source.kind === 'memory' ? views(audio.source.blocks, audio) : text(audio, signal)
  }

  async function range(
    audio: AudioRef,
    start: number,
    end: number,
    signal: AbortSignal,
  ): Promise<Uint8Array> {
    signal.throwIfAborted()
    const from = Math.min(Math.max(start, 0), audio.decodedBytes)
    const to = Math.min(end, audio.decodedBytes)
    if (from >= to) return new Uint8Array(0)
    const { source, offset } = audio
    if (audio.encoding === 'identity') {
      return copyBytes(bodyBytes(objects, source, offset + from, offset + to, signal), to - from)
    }
    if (!audio.canonical) return copyBytes(between(decoded(audio, signal), from, to), to - from)
    // Three bytes are four characters: the groups that the range touches, and no more.
    const first = Math.floor(from / 3)
    const groups = bodyBytes(objects, source, offset + first * 4, offset + Math.ceil(to / 3) * 4, signal)
    return copyBytes(between(decodeText(groups, decoder), from - first * 3, to - first * 3), to - from)
  }

  return {
    bytes: (audio, signal) => guarded(bytes(audio, signal), signal),
    base64: (audio, signal) => guarded(base64(audio, signal), signal),
    range,
  }
}

/** Ends with the signal's reason once it is aborted, whichever source the chunks come from. */
async function* guarded(chunks: Chunks, signal: AbortSignal): AsyncGenerator<Uint8Array> {
  signal.throwIfAborted()
  for await (const chunk of chunks) {
    signal.throwIfAborted()
    yield chunk
    signal.throwIfAborted()
  }
}

/** The audio's own blocks, without a copy; only a short beginning is put in front of what follows. */
function* views(
  blocks: Parameters<typeof blockBytes>[0],
  { offset, length }: AudioRef,
): Generator<Uint8Array> {
  const end = offset + length
  const first = BLOCK_BYTES - (offset % BLOCK_BYTES)
  if (first >= MIN_CHUNK_BYTES || first >= length) {
    yield* blockBytes(blocks, offset, end)
    return
  }
  const joined = Math.min(offset + MIN_CHUNK_BYTES, end)
  yield Buffer.concat([...blockBytes(blocks, offset, joined)])
  yield* blockBytes(blocks, joined, end)
}

/** Bytes `start` to `end` of what `chunks` add up to; reads no further. */
async function* between(chunks: Chunks, start: number, end: number): AsyncGenerator<Uint8Array> {
  let at = 0
  for await (const chunk of chunks) {
    const from = Math.max(start - at, 0)
    if (from < chunk.length) yield chunk.subarray(from, end - at)
    at += chunk.length
    if (at >= end) return
  }
}
