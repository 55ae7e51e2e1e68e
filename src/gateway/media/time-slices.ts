import { ownTurn, systemClock } from '../../contracts/time.ts'

/** Time that work on a recording may keep the event loop. */
const SLICE_MS = 1

/** Splits work on a recording into slices of a millisecond, each in a turn of its own. */
export class TimeSlices {
  #startedMs = systemClock.now()

  /** Tells whether to wait for `next` before the work continues. */
  get isOver(): boolean {
    return systemClock.now() - this.#startedMs > SLICE_MS
  }

  /** @throws the signal's reason when it was aborted meanwhile */
  async next(signal: AbortSignal): Promise<void> {
    await ownTurn()
    signal.throwIfAborted()
    this.#startedMs = systemClock.now()
  }
}
