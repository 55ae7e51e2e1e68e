import { type AudioRef, BLOCK_BYTES, type Block } from '../schema/audio.ts'
import type { ByteBudget } from '../schema/budget.ts'
import type { Base64Decoder } from '../schema/media.ts'
import type { BlockPool } from './blocks.ts'
import { blockBytes } from './body-bytes.ts'
import { notBase64 } from './failure.ts'
import type { Chunks } from './stages.ts'

/** Decoded bytes handed over at a time. */
const CHUNK_BYTES = 256 * 1024
/** A unit shorter than this is joined with the next one, so that chunks keep their least size. */
const MIN_UNIT_BYTES = 128 * 1024

export interface AheadOptions {
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
export async function* decodeAhead(
  blocks: readonly Block[],
  { offset, length }: AudioRef,
  { decoder, blocks: pool, budget, inSlices }: AheadOptions,
): AsyncGenerator<Uint8Array> {
  // As many calls as there are would take two blocks each, however full the memory is.
  if (!budget.tryReserve(2 * BLOCK_BYTES)) {
    yield* inSlices()
    return
  }
  const units = unitsOf(offset, length)
  const outs = [pool.take(BLOCK_BYTES), pool.take(BLOCK_BYTES)] as const
  let next: Promise<number> = decodeUnit(blocks, offset, units[0]!, outs[0], decoder)
  // A failure is met where it is awaited; until then nobody may call it unhandled.
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
        // Nobody tells when the last chunk has been sent, so it is a copy, and the blocks may go to others.
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
