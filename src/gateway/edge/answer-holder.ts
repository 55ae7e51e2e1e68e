import type { HolderPace, MemoryHolder } from '../../contracts/budget.ts'

/** How long an answer is read before its reader's pace is judged. */
const JUDGED_MS = 1_000
/** Held of an answer that is still being made: its bytes that wait for the reader here and in front of the provider. */
const STREAM_BYTES = 64 * 1024

export interface PendingAnswer {
  /** Bytes handed to the socket so far. */
  readonly sentBytes: number
  /** Bytes that are not; infinite while the answer is still being made. */
  readonly leftBytes: number
  /** Ms since the client last took something; 0 while it is the client that waits. */
  stalledMs(nowMs: number): number
}

/** A large answer: a slow reader keeps the memory of all of it, and of its request, until the last byte is out. */
export class AnswerHolder implements MemoryHolder {
  readonly workspace: string
  readonly #answer: PendingAnswer
  readonly #startedMs: number
  readonly #cut: () => void

  /** @param cut ends the connection */
  constructor(workspace: string, answer: PendingAnswer, startedMs: number, cut: () => void) {
    this.workspace = workspace
    this.#answer = answer
    this.#startedMs = startedMs
    this.#cut = cut
  }

  pace(nowMs: number): HolderPace | null {
    const { sentBytes, leftBytes } = this.#answer
    const ms = nowMs - this.#startedMs
    if (ms < JUDGED_MS || this.#answer.stalledMs(nowMs) < JUDGED_MS) return null
    return { bytesPerSecond: (sentBytes * 1_000) / ms, bytesLeft: leftBytes }
  }

  end(): number {
    this.#cut()
    // A whole answer is given back with its request, a stream when its source has been left.
    return this.#answer.leftBytes === Number.POSITIVE_INFINITY ? STREAM_BYTES : 0
  }
}
