import type { AudioRef, Block, BodyPiece, WrittenBytes } from '../../contracts/audio.ts'
import { BLOCK_BYTES } from '../../contracts/audio.ts'
import type { Objects } from '../../contracts/objects.ts'
import { unlessAborted } from '../../contracts/time.ts'
import { damaged, storeFailure, unavailable } from './failure.ts'
import { WrittenTally } from './written.ts'

/** Least length of a chunk that is not the last: shorter ones have to keep their bytes for good, see `AudioReader`. */
export const MIN_CHUNK_BYTES = 64 * 1024

/** Raw bytes `start` to `end` (exclusive) of a body, as views of its blocks, chunks off the store, or as they come. */
export function bodyBytes(
  objects: Pick<Objects, 'get'>,
  source: AudioRef['source'],
  start: number,
  end: number,
  signal: AbortSignal,
): Iterable<Uint8Array> | AsyncIterable<Uint8Array> {
  if (source.kind === 'memory') return blockBytes(source.blocks, start, end)
  if (source.kind === 'arriving') return source.body.bytes(start, end, signal)
  if (source.kind === 'pieces') return piecesBytes(objects, source.pieces, start, end, signal)
  const { key, written } = source
  // Comparing costs next to nothing beside reading where most of the object is wanted anyway.
  return written !== undefined && (end - start) * 2 > written.bytes
    ? comparedBytes(objects, { key, written }, start, end, signal)
    : objectBytes(objects, key, start, end, signal)
}

/** Views of the blocks, none of them longer than a block. */
export function* blockBytes(blocks: readonly Block[], start: number, end: number): Generator<Uint8Array> {
  for (let at = start; at < end; ) {
    const from = at % BLOCK_BYTES
    const view = blocks[(at - from) / BLOCK_BYTES]!.subarray(from, Math.min(BLOCK_BYTES, from + end - at))
    yield view
    at += view.length
  }
}

/** Bytes `start` to `end` (exclusive) of an object, all of them or an error. */
export async function* objectBytes(
  objects: Pick<Objects, 'get'>,
  key: string,
  start: number,
  end: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let missing = end - start
  try {
    // Leaving the loop early destroys the stream.
    for await (const chunk of await objects.get(key, start, end, signal)) {
      const bytes = chunk as Uint8Array
      missing -= bytes.length
      yield bytes
    }
  } catch (error) {
    throw storeFailure(error, signal)
  }
  if (missing !== 0) throw unavailable(new Error(`the store left out ${missing} bytes of an object`))
}

/**
 * Bytes `start` to `end` (exclusive) of an object of which all is read. The last of them comes only when all are as
 * they were written, so that whoever passes them on with their length never has a whole that is another.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE, as `damaged`
 */
async function* comparedBytes(
  objects: Pick<Objects, 'get'>,
  { key, written }: { readonly key: string; readonly written: WrittenBytes },
  start: number,
  end: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const tally = new WrittenTally()
  let at = 0
  /** Held back, as there is more to compare after it. */
  let last: Uint8Array | null = null
  for await (const chunk of objectBytes(objects, key, 0, written.bytes, signal)) {
    tally.add(chunk)
    const after = at + chunk.length
    if (after === written.bytes && tally.written.crc32 !== written.crc32) throw damaged(key)
    const view = chunk.subarray(Math.max(start - at, 0), Math.max(end - at, 0))
    const isLast = after >= end && after < written.bytes
    if (isLast && view.length > 0) last = Uint8Array.from(view.subarray(-1))
    const passed = isLast ? view.subarray(0, -1) : view
    // Before the reader asks for more, the store may be asked for what follows the audio.
    const isCopied = passed.length < MIN_CHUNK_BYTES || (after >= end - 1 && after < written.bytes)
    if (passed.length > 0) yield isCopied ? Uint8Array.from(passed) : passed
    at = after
  }
  if (last !== null) yield last
}

/** Bytes `start` to `end` (exclusive) of what the pieces add up to, all of them or an error. */
async function* piecesBytes(
  objects: Pick<Objects, 'get'>,
  pieces: readonly BodyPiece[],
  start: number,
  end: number,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  let at = 0
  for (const piece of pieces) {
    const [from, to] = [Math.max(start - at, 0), Math.min(end - at, piece.length)]
    at += piece.length
    if (from < to) yield* objectBytes(objects, piece.key, piece.start + from, piece.start + to, signal)
  }
  if (at < end) throw unavailable(new Error(`the pieces of a body end ${end - at} bytes early`))
}

/** A body of these chunks. */
export async function* chunksOf(...chunks: readonly Uint8Array[]): AsyncGenerator<Uint8Array> {
  yield* chunks
}

/** Bytes `start` to `end` in one piece, owned by the caller. */
export async function copyBytes(
  chunks: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
  length: number,
): Promise<Uint8Array> {
  const copy = Buffer.allocUnsafeSlow(length)
  let filled = 0
  for await (const chunk of chunks) {
    copy.set(chunk, filled)
    filled += chunk.length
  }
  return copy
}

/** The chunks of `body` until `signal` aborts, which ends the wait for one that does not come. */
export async function* untilAborted(
  body: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array> {
  const chunks = body[Symbol.asyncIterator]()
  try {
    signal.throwIfAborted()
    for (;;) {
      const next = await unlessAborted(signal, chunks.next())
      if (next.done === true) return
      yield next.value
    }
  } finally {
    // Not awaited: a body that hangs would hold up its own end.
    void Promise.resolve(chunks.return?.()).catch(() => {})
  }
}
