import type { Clock } from '../../contracts/time.ts'
import type { HttpResponse } from './uws.ts'

/**
 * The native side of one exchange, made safe: nothing is called on a response that is gone, pause and
 * resume always come in pairs (a resume without a pause stops reading for good), and uWS's fixed timer is
 * kept from cutting requests that are only waiting.
 */
export class Socket {
  readonly clock: Clock
  #res: HttpResponse | null
  #paused = false
  /** Paused until its turn comes, besides any other pause. */
  #heldBack = false
  #readingStopped = false
  /** When uWS's timer was last known to be armed; null while it is certainly off. */
  #armedAtMs: number | null
  #pausedAtMs = 0
  #pausedMs = 0
  #pausedBytes = 0

  /** uWS arms its timer when the handler that attached `onData` returns. */
  constructor(res: HttpResponse, clock: Clock, nowMs: number) {
    this.clock = clock
    this.#res = res
    this.#armedAtMs = nowMs
  }

  /** The native response; null once the client left or the answer is complete. */
  get res(): HttpResponse | null {
    return this.#res
  }

  /** Address of the other end, as text; empty when the response is gone. Read from uWS only when needed. */
  get peer(): string {
    return this.#res === null ? '' : Buffer.from(this.#res.getRemoteAddressAsText()).toString('latin1')
  }

  release(): void {
    this.#res = null
  }

  /** Counts bytes that came. @returns how many came since it was paused; 0: it is not */
  arrived(bytes: number): number {
    this.#pausedBytes = this.#isPaused ? this.#pausedBytes + bytes : 0
    return this.#pausedBytes
  }

  get #isPaused(): boolean {
    return this.#paused || this.#heldBack
  }

  pause(): void {
    if (this.#res === null || this.#paused) return
    if (!this.#heldBack) this.#stop(this.#res)
    this.#paused = true
  }

  /** Pauses for good: nothing more is read from this connection. */
  stopReading(): void {
    this.pause()
    this.#readingStopped = true
  }

  resume(): void {
    if (this.#res === null || !this.#paused || this.#readingStopped) return
    this.#paused = false
    if (!this.#heldBack) this.#continue(this.#res)
  }

  /** Stops reading until it is let go, whatever `pause` and `resume` say meanwhile. */
  holdBack(): void {
    if (this.#res === null || this.#heldBack) return
    if (!this.#paused) this.#stop(this.#res)
    this.#heldBack = true
  }

  letGo(): void {
    if (!this.#heldBack) return
    this.#heldBack = false
    if (this.#res !== null && !this.#paused) this.#continue(this.#res)
  }

  #stop(res: HttpResponse): void {
    res.pause()
    this.#pausedAtMs = this.#armedAtMs = this.clock.now()
  }

  #continue(res: HttpResponse): void {
    res.resume()
    this.#armedAtMs = this.clock.now()
    this.#pausedMs += this.#armedAtMs - this.#pausedAtMs
  }

  /**
   * To be called with the last chunk. uWS turns its timer off then, but a socket that is paused must be resumed: a
   * pause would hide the client's leaving, and one left behind would hang the connection's next request. That arms it.
   */
  bodyEnded(): void {
    this.#armedAtMs = null
    this.resume()
  }

  /** Writing arms the timer. */
  writing(): void {
    this.#armedAtMs ??= this.clock.now()
  }

  /** Ms of pauses so far. */
  pausedMs(nowMs: number): number {
    return this.#pausedMs + (this.#isPaused ? nowMs - this.#pausedAtMs : 0)
  }

  /**
   * Arms the timer anew when its last arming is older than `ageMs`, by the only calls that do: `pause` turns it off,
   * `resume` starts it. Data that came after a pause may have started it too, so a paused socket gets both as well.
   */
  rearm(nowMs: number, ageMs: number): void {
    const res = this.#res
    if (res === null || this.#readingStopped || this.#armedAtMs === null || nowMs - this.#armedAtMs < ageMs)
      return
    if (this.#paused || this.#heldBack) {
      res.resume()
      res.pause()
    } else {
      res.pause()
      res.resume()
    }
    this.#armedAtMs = nowMs
  }
}
