import { toAbortSignal } from '../../contracts/cancellation.ts'
import type { GatewayError } from '../../contracts/errors.ts'
import type { BodyWriter, Spool } from '../../contracts/spool.ts'
import type { Exchange } from '../edge/exchange.ts'
import { readBody } from '../edge/read-body.ts'
import { pieceName } from './uploads.ts'

/**
 * Sizes of pieces: each is twice as long as the one before. A connection that is cut loses the piece under way, so that
 * is no more than half of what it has brought, and at most the largest.
 */
const PIECE_BYTES_FIRST = 256 * 1024
const PIECE_BYTES_LAST = 8 * 1024 * 1024
/** Pieces that wait for the store beside the one that is filled. */
const SETTLING_MAX = 4

export interface AppendOptions {
  readonly exchange: Exchange
  readonly spool: Spool
  readonly workspace: string
  readonly id: string
  readonly offset: number
  readonly length: number
  /** Looks at the bytes; its verdict on all of them is asked for before any is kept. Absent: whatever comes is kept. */
  readonly check?: { update(bytes: Uint8Array): void; verify(): void }
  /** Aborts when the body is not wanted any more, with the reason. */
  readonly signal: AbortSignal
}

/**
 * Streams the body of a request into the store, behind what an upload has: as pieces, each of them for good as soon as
 * the store has it, or as one where all of it has to be looked at first. When this rejects, pieces that came whole
 * before are kept all the same.
 *
 * @throws GatewayError as `readBody`, of the spool, of the check; the signal's reason
 */
export async function appendBody(options: AppendOptions): Promise<void> {
  await new Appending(options).run()
}

class Appending {
  readonly #options: AppendOptions
  readonly #failure = new AbortController()
  readonly #end: number
  /** Place of the next byte. */
  #at: number
  #pieceBytes: number
  #writer: BodyWriter | null = null
  /** Where the piece under way ends. */
  #pieceEnd = 0
  #started: Promise<void> = Promise.resolve()
  readonly #settling = new Set<Promise<void>>()

  constructor(options: AppendOptions) {
    const { offset, length, check } = options
    this.#options = options
    this.#at = offset
    this.#end = offset + length
    this.#pieceBytes = check === undefined ? PIECE_BYTES_FIRST : length
  }

  async run(): Promise<void> {
    const { exchange, signal, length } = this.#options
    const stop = AbortSignal.any([toAbortSignal(exchange.signal), signal, this.#failure.signal])
    try {
      await readBody(exchange, length, stop, {
        isLasting: true,
        take: (view, last) => this.#take(view, last),
      })
      stop.throwIfAborted()
      await Promise.all(this.#settling)
    } catch (error) {
      this.#writer?.abort().catch(() => {})
      // The next request is told of them.
      await Promise.allSettled(this.#settling)
      throw error
    }
  }

  #take(view: Buffer, last: boolean): void {
    for (let rest = view; rest.length > 0; ) {
      this.#writer ??= this.#open()
      const part = rest.subarray(0, this.#pieceEnd - this.#at)
      this.#options.check?.update(part)
      this.#writer.write(part)
      this.#at += part.length
      rest = rest.subarray(part.length)
      if (this.#at === this.#pieceEnd) this.#settle(this.#writer)
    }
    if (!last && !this.#isReady) this.#options.exchange.body.pause()
  }

  get #isReady(): boolean {
    return this.#settling.size <= SETTLING_MAX && this.#writer?.ready !== false
  }

  #open(): BodyWriter {
    const { spool, exchange, workspace, id } = this.#options
    const start = this.#at
    this.#pieceEnd = Math.min(start + this.#pieceBytes, this.#end)
    this.#pieceBytes = Math.min(2 * this.#pieceBytes, PIECE_BYTES_LAST)
    const writer = spool.open({
      ...{ kind: 'resumable', stored: true, workspace, id },
      name: pieceName(start, this.#pieceEnd),
      contentLength: this.#pieceEnd - start,
      sendingMs: () => exchange.bodyMs,
    })
    writer.onReady = () => this.#resume()
    writer.onFailure = (error) => this.#failure.abort(error)
    this.#started = writer.start()
    this.#started.catch((error: GatewayError) => this.#failure.abort(error))
    return writer
  }

  /** All of the piece has been handed over. */
  #settle(writer: BodyWriter): void {
    // Before the piece is whole: nothing is left of it when this fails.
    this.#options.check?.verify()
    this.#writer = null
    const settled = this.#started
      .then(() => writer.finish())
      .then(() => {})
      .finally(() => {
        this.#settling.delete(settled)
        this.#resume()
      })
    this.#settling.add(settled)
    settled.catch((error: GatewayError) => this.#failure.abort(error))
  }

  #resume(): void {
    if (this.#isReady && !this.#failure.signal.aborted) this.#options.exchange.body.resume()
  }
}
