/** Over how long the rate is averaged, in ms: short enough to follow a line that changes, long enough to be read. */
const WINDOW_MS = 3_000

interface Mark {
  readonly atMs: number
  readonly bytes: number
}

export interface Transfer {
  readonly sentBytes: number
  readonly totalBytes: number
  /** Null until enough was seen. */
  readonly bytesPerSecond: number | null
  readonly secondsLeft: number | null
}

/** Follows one upload, out of what the browser says it has sent. */
export class TransferRate {
  readonly #totalBytes: number
  #marks: readonly Mark[]

  /** @param startMs when it began, on the clock of `note` */
  constructor(totalBytes: number, startMs: number) {
    this.#totalBytes = totalBytes
    this.#marks = [{ atMs: startMs, bytes: 0 }]
  }

  note(sentBytes: number, atMs: number): Transfer {
    const last = this.#marks.at(-1)
    const bytes = Math.min(Math.max(sentBytes, last?.bytes ?? 0), this.#totalBytes)
    const recent = [...this.#marks, { atMs, bytes }]
    // The newest mark that is older than the window stays, so that the window is covered.
    const first = recent.findLastIndex((mark) => mark.atMs <= atMs - WINDOW_MS)
    this.#marks = recent.slice(Math.max(0, first))
    const [begin = { atMs, bytes }] = this.#marks
    const elapsedMs = atMs - begin.atMs
    const rate = elapsedMs < 100 ? null : ((bytes - begin.bytes) / elapsedMs) * 1_000
    const left = this.#totalBytes - bytes
    return {
      sentBytes: bytes,
      totalBytes: this.#totalBytes,
      bytesPerSecond: rate,
      secondsLeft: rate === null || rate <= 0 ? null : left / rate,
    }
  }
}
