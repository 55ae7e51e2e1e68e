import { nextTurn } from '../../contracts/time.ts'
import type { StreamedBody } from './exchange.ts'
import type { ImmediateBatch } from './immediate-batch.ts'
import { SLICE_BYTES } from './reply.ts'
import type { Socket } from './socket.ts'
import { TurnPieces } from './turn-pieces.ts'
import type { HttpResponse } from './uws.ts'

/** Bytes written in one turn of the loop, so that one fast answer does not hold up the others. */
const TURN_BYTES = 1024 * 1024
/** Room of a cork that is left to the head of the answer, where room is short. */
const HEAD_BYTES = 8_192
/** Bytes around a chunk: a line end, its size in four digits, and another line end. */
const FRAME_BYTES = 8
/** Minimum size that a write counts as in a turn: a small one costs a system call too, and may be of many pieces. */
const WRITE_BYTES = 65_536
/**
 * Size of the write that probes whether a reader has taken what uWS held for it: there is no other sign than whether
 * the write goes through. It is small because uWS holds it as well when it does not.
 */
const PROBE_BYTES = 64
/** Time for the last slice, which uWS holds, to reach a reader that was slow. */
const LAST_MS = 30_000

interface Outcome {
  /** The last piece is with the kernel or with uWS, and the head is written: the response is to be ended, in a cork. */
  onEnded(res: HttpResponse): void
  /** The source failed, or the socket did. `begun` says whether anything has been sent. */
  onFailed(error: unknown, begun: boolean): void
  /** The source failed at something after it was left. */
  onFailedLate(error: unknown): void
}

/**
 * Writes an answer whose pieces are still being made, in chunked coding: those that come in one turn of the loop go out
 * at its end, and while they are not taken one more is asked for, at most. The head goes with the first piece, so that
 * what fails before can be answered like any error; uWS has no way to send it alone (20.69's `beginWrite` breaks the
 * coding).
 *
 * uWS sends the line break that ends a chunk with the next chunk, and some readers (Python's `requests`) hand a chunk
 * out only then. So the last byte of a piece is a chunk of its own: the others do not wait for the next piece.
 */
export class StreamWriter {
  readonly #socket: Socket
  readonly #source: AsyncIterator<string | Uint8Array, unknown>
  readonly #outcome: Outcome
  readonly #corkBytes: number
  #writeHead: (res: HttpResponse) => void = () => {}
  #begun = false
  /** Ended, failed or left: nothing is written any more. */
  #over = false
  /** Bytes of the current piece that are not written yet. */
  #rest: Uint8Array = new Uint8Array(0)
  /** Since when uWS holds something that the client does not take; null while it takes all. */
  #blockedSinceMs: number | null = null
  /**
   * The reader was slow once. In a cork uWS reports a small write as taken and only then finds that it is not; so
   * from here on each write has its own, and the next one tells.
   */
  #wasBlocked = false
  /** The kernel has reported room since the last write that it did not take whole, and uWS has sent it on. */
  #hadRoom = false
  #turnBytes = 0
  #sentBytes = 0
  #wake: (() => void) | null = null

  /** @param shared of the server: the most that may be written in one cork, see `loadUws`, and its turns */
  constructor(
    socket: Socket,
    body: StreamedBody,
    shared: { readonly corkBytes: number; readonly immediate: ImmediateBatch },
    outcome: Outcome,
  ) {
    this.#socket = socket
    this.#corkBytes = shared.corkBytes
    this.#source = new TurnPieces(body.stream[Symbol.asyncIterator](), shared.immediate)
    this.#outcome = outcome
  }

  /** @param begin writes status and headers, in the cork of the first piece */
  start(begin: (res: HttpResponse) => void): void {
    if (this.#over) return
    this.#writeHead = begin
    this.#run().catch((error: unknown) => this.#fail(error))
  }

  get sentBytes(): number {
    return this.#sentBytes
  }

  /** It is unknown how much is still to be made. */
  readonly leftBytes = Number.POSITIVE_INFINITY

  /** Ms since the client last took something of what it was sent; 0 while it is the client that waits. */
  stalledMs(nowMs: number): number {
    return this.#blockedSinceMs === null ? 0 : nowMs - this.#blockedSinceMs
  }

  /**
   * To be called every second or so. The kernel reports room only when a third of its buffer is free, megabytes at
   * times: minutes for a player that reads at the pace of its audio. So what it takes sooner is found out by trying.
   */
  watch(): void {
    if (this.#blockedSinceMs !== null) this.#tryOn()
  }

  /** Gives up the source because the answer is no longer read. Idempotent. */
  leave(): void {
    if (this.#over) return
    this.#over = true
    this.#rest = new Uint8Array(0)
    this.#wake?.()
    leaveSource(this.#source, this.#outcome)
  }

  #fail(error: unknown): void {
    if (this.#over) {
      this.#outcome.onFailedLate(error)
      return
    }
    this.leave()
    this.#outcome.onFailed(error, this.#begun)
  }

  async #run(): Promise<void> {
    for (;;) {
      const { value, done } = await this.#source.next()
      if (this.#over) return
      if (done) break
      this.#rest = typeof value === 'string' ? Buffer.from(value) : value
      await this.#writeRest()
      if (this.#over) return
    }
    await this.#waitForLast()
    if (this.#over) return
    this.#over = true
    const { res } = this.#socket
    if (res === null) return
    res.cork(() => {
      if (!this.#begun) this.#writeHead(res)
      this.#outcome.onEnded(res)
    })
  }

  async #writeRest(): Promise<void> {
    while (this.#rest.length > 0) {
      const { res } = this.#socket
      if (res === null) return
      res.cork(() => this.#writeCork(res))
      if (this.#blockedSinceMs !== null) await this.#room()
      else if (this.#turnBytes >= TURN_BYTES) await nextTurn()
      else continue
      this.#turnBytes = 0
    }
  }

  #writeCork(res: HttpResponse): void {
    let room = this.#begun ? this.#corkBytes : this.#corkBytes - HEAD_BYTES
    if (!this.#begun) this.#begin(res)
    this.#turnBytes += Math.max(0, WRITE_BYTES - this.#rest.length)
    while (this.#rest.length > 0 && this.#turnBytes < TURN_BYTES && room > FRAME_BYTES) {
      const mostBytes =
        this.#blockedSinceMs === null ? Math.min(SLICE_BYTES, room - FRAME_BYTES) : PROBE_BYTES
      const slice = this.#rest.subarray(0, Math.max(1, Math.min(mostBytes, this.#rest.length - 1)))
      this.#rest = this.#rest.subarray(slice.length)
      room -= FRAME_BYTES + slice.length
      this.#turnBytes += slice.length
      this.#sentBytes += slice.length
      if (!res.write(slice)) {
        this.#blockedSinceMs ??= this.#socket.clock.now()
        this.#wasBlocked = true
        this.#hadRoom = false
      } else this.#blockedSinceMs = null
      if (this.#wasBlocked) return
    }
  }

  #begin(res: HttpResponse): void {
    this.#begun = true
    this.#writeHead(res)
    this.#socket.writing()
    res.onWritable(() => {
      if (this.#blockedSinceMs !== null) this.#blockedSinceMs = this.#socket.clock.now()
      this.#hadRoom = true
      this.#tryOn()
      return true
    })
  }

  /** Has uWS send on what it holds, which it leaves to whoever has an `onWritable`, by the cork alone; then probes. */
  #tryOn(): void {
    try {
      this.#socket.res?.cork(() => {})
      this.#wake?.()
    } catch (error) {
      this.#fail(error)
    }
  }

  /** Resolves when it is worth trying to write. */
  #room(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = null
        resolve()
      }
      if (this.#over) this.#wake()
    })
  }

  /**
   * Before the end, lets a slow reader take the bytes that it was sent: from there on uWS's own timer of 10 s counts,
   * which knows no more than that the kernel has not reported room.
   */
  async #waitForLast(): Promise<void> {
    const { clock } = this.#socket
    const untilMs = clock.now() + LAST_MS
    while (this.#blockedSinceMs !== null && !this.#hadRoom && !this.#over && clock.now() < untilMs)
      await this.#room()
  }
}

/** Gives up a body that is not to be sent. */
export function leaveStream({ stream }: StreamedBody, outcome: Pick<Outcome, 'onFailedLate'>): void {
  leaveSource(stream[Symbol.asyncIterator](), outcome)
}

function leaveSource(
  source: AsyncIterator<string | Uint8Array, unknown>,
  outcome: Pick<Outcome, 'onFailedLate'>,
): void {
  const leave = async () => void (await source.return?.())
  leave().catch((error: unknown) => outcome.onFailedLate(error))
}
