import { type ArrivingBody, BLOCK_BYTES, type Block, type BodySource } from '../../contracts/audio.ts'
import type { ByteBudget } from '../../contracts/budget.ts'
import type { Objects } from '../../contracts/objects.ts'
import { type Clock, unlessAborted } from '../../contracts/time.ts'
import { type BlockPool, copyInto } from './blocks.ts'
import { blockBytes, objectBytes } from './body-bytes.ts'
import { isScarce } from './budget.ts'
import type { HeldBody } from './held-body.ts'

/** Bytes handed over at a time, and taken at a time for the window. */
const CHUNK_BYTES = 64 * 1024
/** Newest bytes kept of a body that goes to the store: while there is memory, and while it is scarce. */
const WINDOW_BYTES = 512 * 1024
const SCARCE_WINDOW_BYTES = 64 * 1024

interface GrowingBodyDependencies {
  readonly objects: Objects
  readonly budget: ByteBudget
  readonly blocks: BlockPool
  readonly workspace: string
  /** Where it is until it moves to the store. */
  readonly held: HeldBody
  readonly clock: Clock
}

/** A reader that needs the bytes from `at` on. */
interface Reader {
  at: number
}

/** Bytes of a body that has moved to the store. */
interface Piece {
  readonly start: number
  readonly block: Block
  filled: number
}

/**
 * Reads a body while its writer still takes it. What is held is copied out, since a block may move or go to another
 * request at any moment until the body is at rest: into two places that take turns, since a fresh one for every chunk
 * was 50 MiB of garbage for 16 uploads. A body that goes to the store is not kept; there a reader that keeps
 * up gets the newest bytes from a small window, and one that does not waits until the object is there, and continues
 * from that: neither the sender nor the store ever waits for a reader.
 */
export class GrowingBody implements ArrivingBody {
  readonly #deps: GrowingBodyDependencies
  /** The reader that has not begun to read. */
  readonly #expected: Reader = { at: 0 }
  readonly #readers = new Set<Reader>([this.#expected])
  #window: Piece[] = []
  /** It goes to the store: none of it is held any more. */
  #moved = false
  #rest: BodySource | null = null
  /** First byte that waits for the verdict. */
  #heldBackFrom = Number.POSITIVE_INFINITY
  #failure: Error | null = null
  /** Set while a reader waits for something to happen. */
  #news: PromiseWithResolvers<void> | null = null
  #waitedMs = 0
  /** Since when a reader has waited for the sender; null: none does. */
  #waitingSinceMs: number | null = null

  constructor(deps: GrowingBodyDependencies) {
    this.#deps = deps
  }

  get waitedMs(): number {
    return (
      this.#waitedMs + (this.#waitingSinceMs === null ? 0 : this.#deps.clock.now() - this.#waitingSinceMs)
    )
  }

  holdBack(start: number): void {
    this.#heldBackFrom = start
  }

  confirm(): void {
    this.#heldBackFrom = Number.POSITIVE_INFINITY
    this.#tell()
  }

  close(): void {
    this.#leave(this.#expected)
  }

  /** Its writer has taken a chunk. */
  written(chunk: Uint8Array, received: number): void {
    if (this.#moved && this.#readers.size > 0) this.#keep(chunk, received - chunk.length)
    this.#tell()
  }

  /** The held bytes are about to go to the store, and with them all that come. */
  moves(): void {
    const { held } = this.#deps
    let from = held.length
    for (const { at } of this.#readers) if (held.length - at <= this.#room) from = Math.min(from, at)
    for (const view of blockBytes(held.blocks, from, held.length)) {
      this.#keep(view, from)
      from += view.length
    }
    this.#moved = true
  }

  /** The body is complete, and stays where it is. */
  rests(source: BodySource): void {
    this.#rest = source
    this.#stopWaiting()
    this.#tell()
  }

  /** There will be no more of it. */
  fail(error: Error): void {
    this.#failure ??= error
    this.#dropWindow(Number.POSITIVE_INFINITY)
    this.#tell()
  }

  async *bytes(start: number, end: number, signal: AbortSignal): AsyncGenerator<Uint8Array> {
    const reader: Reader = { at: start }
    this.#readers.add(reader)
    if (end > this.#heldBackFrom) this.close()
    const places: [Block, Block] = [this.#take(), this.#take()]
    try {
      while (reader.at < end) {
        signal.throwIfAborted()
        if (this.#failure !== null) throw this.#failure
        const limit = Math.min(end, this.#heldBackFrom)
        const rest = this.#rest
        if (rest?.kind === 'memory' && reader.at < limit) {
          const from = reader.at
          reader.at = limit
          yield* blockBytes(rest.blocks, from, limit)
          continue
        }
        const chunk = this.#copy(reader.at, limit, places[0])
        if (chunk !== null) {
          reader.at += chunk.length
          places.reverse()
          yield chunk
        } else if (rest?.kind === 'object' && limit === end) {
          const from = reader.at
          reader.at = end
          yield* objectBytes(this.#deps.objects, rest.key, from, end, signal)
        } else await this.#nextNews(signal)
      }
    } finally {
      this.#leave(reader)
      for (const place of places) this.#giveBack(place, reader.at === end)
    }
  }

  #leave(reader: Reader): void {
    this.#readers.delete(reader)
    if (this.#readers.size === 0) this.#dropWindow(Number.POSITIVE_INFINITY)
  }

  /** Copies the bytes at hand from `at` on, at most a chunk; null: there are none. */
  #copy(at: number, limit: number, place: Block): Uint8Array | null {
    const view = this.#moved ? this.#inWindow(at) : this.#inHeld(at)
    const length = Math.min(view?.length ?? 0, CHUNK_BYTES, limit - at)
    if (view === null || length <= 0) return null
    copyInto(place, 0, view.subarray(0, length))
    return place.subarray(0, length)
  }

  #take(): Block {
    const { budget, blocks, workspace } = this.#deps
    budget.charge(CHUNK_BYTES, workspace)
    return blocks.take(CHUNK_BYTES)
  }

  /** @param sent false: it may be on a socket that is being closed, and rests before it goes to others */
  #giveBack(block: Block, sent: boolean): void {
    const { budget, blocks, workspace } = this.#deps
    const refund = () => budget.refund(CHUNK_BYTES, workspace)
    if (!sent) blocks.giveLater(block, refund)
    else {
      blocks.give(block)
      refund()
    }
  }

  #inHeld(at: number): Uint8Array | null {
    const { held } = this.#deps
    const to = Math.min(held.length, at - (at % BLOCK_BYTES) + BLOCK_BYTES)
    return at < to ? blockBytes(held.blocks, at, to).next().value! : null
  }

  #inWindow(at: number): Uint8Array | null {
    const piece = this.#window.find(({ start, filled }) => start <= at && at < start + filled)
    return piece === undefined ? null : piece.block.subarray(at - piece.start, piece.filled)
  }

  get #room(): number {
    return isScarce(this.#deps.budget) ? SCARCE_WINDOW_BYTES : WINDOW_BYTES
  }

  #keep(bytes: Uint8Array, start: number): void {
    for (let at = 0; at < bytes.length; ) {
      const piece = this.#pieceAt(start + at)
      const part = bytes.subarray(at, at + CHUNK_BYTES - piece.filled)
      copyInto(piece.block, piece.filled, part)
      piece.filled += part.length
      at += part.length
    }
    const [first] = this.#window
    let least = start + bytes.length
    for (const { at } of this.#readers) if (at >= first!.start) least = Math.min(least, at)
    this.#dropWindow(least)
    // The newest bytes stay, however many they are: a reader gets its turn only after the writer.
    const room = this.#room
    while (this.#window.length * CHUNK_BYTES > room && pieceEnd(this.#window[0]!) <= start) this.#dropFirst()
  }

  /** The piece that continues at `start`. */
  #pieceAt(start: number): Piece {
    const last = this.#window.at(-1)
    if (last !== undefined && last.filled < CHUNK_BYTES) return last
    const piece = { start, block: this.#take(), filled: 0 }
    this.#window.push(piece)
    return piece
  }

  /** Drops the pieces that end at `until` or before. */
  #dropWindow(until: number): void {
    while (this.#window.length > 0 && pieceEnd(this.#window[0]!) <= until) this.#dropFirst()
  }

  #dropFirst(): void {
    this.#giveBack(this.#window.shift()!.block, true)
  }

  #nextNews(signal: AbortSignal): Promise<void> {
    if (this.#rest === null) this.#waitingSinceMs ??= this.#deps.clock.now()
    this.#news ??= Promise.withResolvers()
    return unlessAborted(signal, this.#news.promise)
  }

  #tell(): void {
    if (this.#news === null) return
    this.#stopWaiting()
    this.#news.resolve()
    this.#news = null
  }

  #stopWaiting(): void {
    this.#waitedMs = this.waitedMs
    this.#waitingSinceMs = null
  }
}

function pieceEnd({ start, filled }: Piece): number {
  return start + filled
}
