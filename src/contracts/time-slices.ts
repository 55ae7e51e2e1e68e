import { ownTurn, systemClock } from './time.ts'

/**
 * Splits long work into slices, each in a turn of its own of the event loop. They are measured by the machine's clock,
 * since they are about its time.
 */
export class TimeSlices {
  readonly #sliceMs: number
  #startedMs = systemClock.now()

  /** @param sliceMs how long the work may keep the event loop */
  constructor(sliceMs = 1) {
    this.#sliceMs = sliceMs
  }

  /** Tells whether to wait for `next` before the work continues. */
  get isOver(): boolean {
    return systemClock.now() - this.#startedMs > this.#sliceMs
  }

  /** @throws the signal's reason when it was aborted meanwhile */
  async next(signal?: AbortSignal): Promise<void> {
    await ownTurn()
    signal?.throwIfAborted()
    this.#startedMs = systemClock.now()
  }
}
