import type { EdgeTiming } from './timing.ts'

/** Least mean rate of a body over a window. */
export const MIN_BYTES_PER_SECOND = 4_096

interface Sample {
  readonly atMs: number
  readonly bytes: number
}

/** Watches one body's rate. Pure: its clock is the time during which the sender was free to send. */
export class Pace {
  readonly #timing: EdgeTiming
  readonly #samples: Sample[] = []

  constructor(timing: EdgeTiming) {
    this.#timing = timing
  }

  /**
   * Takes a sample and judges. To be called about once a second while the body is incomplete.
   *
   * @param sendingMs ms since the headers, without those in which the sender was paused; never falls
   * @param bytes     received so far
   */
  isTooSlow(sendingMs: number, bytes: number): boolean {
    const { graceMs, windowMs, bodyMs } = this.#timing
    if (sendingMs >= bodyMs) return true
    if (sendingMs < graceMs) return false
    const samples = this.#samples
    samples.push({ atMs: sendingMs, bytes })
    while (samples.length > 1 && samples[1]!.atMs <= sendingMs - windowMs) samples.shift()
    const { atMs, bytes: before } = samples[0]!
    const spanMs = sendingMs - atMs
    return spanMs >= windowMs && bytes - before < (MIN_BYTES_PER_SECOND * spanMs) / 1_000
  }
}
