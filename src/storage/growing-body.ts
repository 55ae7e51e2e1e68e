import type { ArrivingBody, BodySource } from '../contracts/audio.ts'
import { BLOCK_BYTES } from '../contracts/audio.ts'
import type { ByteBudget } from '../contracts/budget.ts'
import type { Objects } from '../contracts/objects.ts'
import { unlessAborted } from '../timeouts.ts'
import { copyInto } from './blocks.ts'
import { blockBytes, objectBytes } from './body-bytes.ts'
import { isScarce } from './budget.ts'
import type { HeldBody } from './held-body.ts'

/** Bytes handed over at a time. */
const CHUNK_BYTES = 128 * 1024
/** Newest bytes kept of a body that goes to the store: while there is memory, and while it is scarce. */
const WINDOW_BYTES = 512 * 1024
const SCARCE_WINDOW_BYTES = 64 * 1024
/** Whoever takes a body by its length has none before the last byte is there, so this much waits for the verdict. */
const HELD_BACK_BYTES = 1

interface GrowingBodyParts {
  readonly objects: Objects
  readonly budget: ByteBudget
  readonly workspace: string
  /** Length that the body will have. */
  readonly length: number
  /** Where it is until it moves to the store. */
  readonly held: HeldBody
}

/** Somebody who needs what stands from `at` on. */
interface Reader {
  at: number
}

/** Bytes of a body that has moved to the store. */
interface Piece {
  readonly start: number
  readonly bytes: Uint8Array
}

/**
 * Reads a body while its writer still takes it. What is held is copied out, since a block may move or go to another
 * request at any moment until the body is at rest. A body that goes to the store is not kept; there a reader that keeps
 * up gets the newest bytes from a small window, and one that does not waits until the object is there, and goes on from
 * that: neither the sender nor the store ever waits for a reader.
 */
export class GrowingBody implements ArrivingBody {
  readonly #parts: GrowingBodyParts
  /** Stands for whoever has not begun to read. */
  readonly #expected: Reader = { at: 0 }
  readonly #readers = new Set<Reader>([this.#expected])
  #window: Piece[] = []
  #windowBytes = 0
  /** It goes to the store: nothing is held any more. */
  #moved = false
  #rest: BodySource | null = null
  #confirmed = false
  #failure: Error | null = null
  /** Set while a reader waits for something to happen. */
  #news: PromiseWithResolvers<void> | null = null
  #waitedMs = 0
  /** Since when a reader has waited for the sender; null: none does. */
  #waitingSinceMs: number | null = null

  constructor(parts: GrowingBodyParts) {
    this.#parts = parts
  }

  get waitedMs(): number {
    return this.#waitedMs + (this.#waitingSinceMs === null ? 0 : performance.now() - this.#waitingSinceMs)
  }

  confirm(): void {
    this.#confirmed = true
    this.#tell()
  }

  close(): void {
    this.#leave(this.#expected)
  }

  /** Its writer has taken a chunk. */
  written(chunk: Uint8Array, received: number): void {
    if (this.#moved && this.#readers.size > 0) this.#keep(Buffer.from(chunk), received - chunk.length)
    this.#tell()
  }

  /** What is held is about to go to the store, and with it all that comes. */
  moves(): void {
    const { held } = this.#parts
    let from = held.length
    for (const { at } of this.#readers) if (held.length - at <= this.#room) from = Math.min(from, at)
    for (const view of blockBytes(held.blocks, from, held.length)) {
      const bytes = new Uint8Array(view.length)
      copyInto(bytes, 0, view)
      this.#keep(bytes, from)
      from += bytes.length
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
    const { budget, workspace, objects } = this.#parts
    const reader: Reader = { at: start }
    this.#readers.add(reader)
    if (start === 0 && end === this.#parts.length) this.close()
    budget.charge(CHUNK_BYTES, workspace)
    try {
      while (reader.at < end) {
        signal.throwIfAborted()
        if (this.#failure !== null) throw this.#failure
        const limit = this.#limit(end)
        const rest = this.#rest
        if (rest?.kind === 'memory' && reader.at < limit) {
          const from = reader.at
          reader.at = limit
          yield* blockBytes(rest.blocks, from, limit)
          continue
        }
        const chunk = this.#copy(reader.at, limit)
        if (chunk !== null) {
          reader.at += chunk.length
          yield chunk
        } else if (rest?.kind === 'object' && limit === end) {
          yield* objectBytes(objects, rest.key, reader.at, end, signal)
          return
        } else await this.#nextNews(signal)
      }
    } finally {
      this.#leave(reader)
      budget.refund(CHUNK_BYTES, workspace)
    }
  }

  #leave(reader: Reader): void {
    this.#readers.delete(reader)
    if (this.#readers.size === 0) this.#dropWindow(Number.POSITIVE_INFINITY)
  }

  /** Where reading ends for now. */
  #limit(end: number): number {
    return this.#confirmed ? end : Math.min(end, this.#parts.length - HELD_BACK_BYTES)
  }

  /** A copy of what is at hand from `at` on, of one chunk at most; null: nothing is. */
  #copy(at: number, limit: number): Uint8Array | null {
    const view = this.#moved ? this.#inWindow(at) : this.#inHeld(at)
    const length = Math.min(view?.length ?? 0, CHUNK_BYTES, limit - at)
    if (view === null || length <= 0) return null
    const chunk = Buffer.allocUnsafeSlow(length)
    copyInto(chunk, 0, view.subarray(0, length))
    return chunk
  }

  #inHeld(at: number): Uint8Array | null {
    const { held } = this.#parts
    const to = Math.min(held.length, at - (at % BLOCK_BYTES) + BLOCK_BYTES)
    return at < to ? blockBytes(held.blocks, at, to).next().value! : null
  }

  #inWindow(at: number): Uint8Array | null {
    const piece = this.#window.find(({ start, bytes }) => start <= at && at < start + bytes.length)
    return piece === undefined ? null : piece.bytes.subarray(at - piece.start)
  }

  get #room(): number {
    return isScarce(this.#parts.budget) ? SCARCE_WINDOW_BYTES : WINDOW_BYTES
  }

  #keep(bytes: Uint8Array, start: number): void {
    const { budget, workspace } = this.#parts
    budget.charge(bytes.length, workspace)
    this.#window.push({ start, bytes })
    this.#windowBytes += bytes.length
    let least = start + bytes.length
    const [first] = this.#window
    for (const { at } of this.#readers) if (at >= first!.start) least = Math.min(least, at)
    this.#dropWindow(least)
    // The newest piece stays, whatever its size: a reader gets its turn only after its writer.
    while (this.#windowBytes > this.#room && this.#window.length > 1) this.#dropFirst()
  }

  /** Drops what ends at `until` or before. */
  #dropWindow(until: number): void {
    for (;;) {
      const [first] = this.#window
      if (first === undefined || first.start + first.bytes.length > until) return
      this.#dropFirst()
    }
  }

  #dropFirst(): void {
    const { budget, workspace } = this.#parts
    const { length } = this.#window.shift()!.bytes
    this.#windowBytes -= length
    budget.refund(length, workspace)
  }

  #nextNews(signal: AbortSignal): Promise<void> {
    if (this.#rest === null) this.#waitingSinceMs ??= performance.now()
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
