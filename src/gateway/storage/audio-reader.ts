import { type AudioReader, type AudioRef, BLOCK_BYTES, type Block } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { Base64Decoder } from '../../contracts/media.ts'
import type { Objects } from '../../contracts/objects.ts'
import type { BlockPool } from './blocks.ts'
import { blockBytes, bodyBytes, copyBytes, MIN_CHUNK_BYTES } from './body-bytes.ts'
import { notBase64 } from './failure.ts'
import { type Chunks, cleanText, decodeText, encodeText, gather } from './stages.ts'

/** Decoded bytes handed over at a time. */
const CHUNK_BYTES = 256 * 1024
/** A unit shorter than this is joined with the next one, so that chunks keep their least size. */
const MIN_UNIT_BYTES = 128 * 1024

interface AheadOptions {
  readonly decoder: Base64Decoder
  readonly blocks: BlockPool
  readonly budget: ByteBudget
  /** The same bytes decoded in slices on the way, for where there is no memory for two blocks. */
  readonly inSlices: () => Chunks
}

/** Text from `start` to `end` of a body, decoded as one task of a worker. */
interface Unit {
  readonly start: number
  readonly end: number
}

/**
 * Decodes canonical base64 in held blocks. Each block is handed to the decoder where it lies, and decoded into one of
 * two blocks while the other is being sent. Chunks as `AudioReader.bytes` promises them.
 */
async function* decodeAhead(
  blocks: readonly Block[],
  { offset, length }: AudioRef,
  { decoder, blocks: pool, budget, inSlices }: AheadOptions,
): AsyncGenerator<Uint8Array> {
  // Every call would take two blocks, however full the memory is.
  if (!budget.tryReserve(2 * BLOCK_BYTES)) {
    yield* inSlices()
    return
  }
  const units = unitsOf(offset, length)
  const outs = [pool.take(BLOCK_BYTES), pool.take(BLOCK_BYTES)] as const
  let next: Promise<number> = decodeUnit(blocks, offset, units[0]!, outs[0], decoder)
  // A failure is handled where it is awaited; until then it must not count as unhandled.
  next.catch(() => {})
  let whole = false
  try {
    for (const [i, unit] of units.entries()) {
      const out = outs[i % 2]!
      const decoded = await next
      const following = units[i + 1]
      const ahead = () => {
        if (following === undefined) return
        next = decodeUnit(blocks, offset, following, outs[(i + 1) % 2]!, decoder)
        next.catch(() => {})
      }
      // The other block holds the last chunk but one once the second chunk of this one is asked for.
      if (i === 0) ahead()
      const sizes = chunkSizes(decoded)
      let at = 0
      for (const [j, size] of sizes.entries()) {
        if (i > 0 && j === 1) ahead()
        const chunk = out.subarray(at, at + size)
        at += size
        const last = following === undefined && j === sizes.length - 1
        // The end of sending the last chunk is not signalled: it is a copy, and the blocks may be reused.
        yield last ? Uint8Array.from(chunk) : chunk
      }
      if (i > 0 && sizes.length === 1) ahead()
      if (unit === units.at(-1)) whole = true
    }
  } finally {
    await next.catch(() => {})
    // A reader that stops early may have chunks on a socket that is being closed.
    for (const out of outs) {
      const refund = () => budget.refund(BLOCK_BYTES)
      if (!whole) pool.giveLater(out, refund)
      else {
        pool.give(out)
        refund()
      }
    }
  }
}

/** One unit per block that the text touches; a short beginning goes with the next block. */
function unitsOf(offset: number, length: number): Unit[] {
  const end = offset + length
  const units: Unit[] = []
  let start = offset
  while (start < end) {
    let to = start - (start % BLOCK_BYTES) + BLOCK_BYTES
    if (to - start < MIN_UNIT_BYTES) to += BLOCK_BYTES
    units.push({ start, end: Math.min(to, end) })
    start = to
  }
  return units
}

/**
 * Decodes the groups of four that end within `unit`. Those that lie across two blocks are decoded on their own, the
 * rest in one piece.
 */
async function decodeUnit(
  blocks: readonly Block[],
  offset: number,
  unit: Unit,
  out: Block,
  decoder: Base64Decoder,
): Promise<number> {
  let written = 0
  const decode = async (text: Uint8Array) => {
    const count = await decoder.decode(text, out.subarray(written))
    if (count < 0) throw notBase64()
    written += count
  }
  // First character of the group that the unit begins with or within.
  let at = unit.start - ((unit.start - offset) % 4)
  const end = unit.end - ((unit.end - offset) % 4)
  while (at < end) {
    const from = at % BLOCK_BYTES
    const whole = Math.min(end - at, (BLOCK_BYTES - from) & ~3)
    if (whole > 0) {
      await decode(blocks[(at - from) / BLOCK_BYTES]!.subarray(from, from + whole))
      at += whole
    } else {
      await decode(Buffer.concat([...blockBytes(blocks, at, at + 4)]))
      at += 4
    }
  }
  return written
}

/** Cuts `bytes` into chunks of `CHUNK_BYTES`; the last takes what would be too little for one of its own. */
function chunkSizes(bytes: number): number[] {
  const count = Math.max(1, Math.floor(bytes / CHUNK_BYTES))
  const sizes = new Array<number>(count).fill(CHUNK_BYTES)
  sizes[count - 1] = bytes - (count - 1) * CHUNK_BYTES
  return sizes
}

interface AudioReaderDependencies {
  readonly objects: Pick<Objects, 'get'>
  readonly decoder: Base64Decoder
  /** Memory for decoding ahead in a worker, and the budget that counts it; without it all is decoded on the way. */
  readonly memory?: { readonly blocks: BlockPool; readonly budget: ByteBudget }
}

/** Reads audio out of blocks and objects; base64 is decoded, and bytes are encoded, on their way out. */
export function createAudioReader({ objects, decoder, memory }: AudioReaderDependencies): AudioReader {
  const text = (audio: AudioRef, signal: AbortSignal) =>
    bodyBytes(objects, audio.source, audio.offset, audio.offset + audio.length, signal)

  function decoded(audio: AudioRef, signal: AbortSignal): Chunks {
    if (audio.encoding === 'identity') return text(audio, signal)
    return decodeText(audio.canonical ? text(audio, signal) : cleanText(text(audio, signal)), decoder)
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
