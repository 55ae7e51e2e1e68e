/** Durations of the edge, in ms. Only tests give others. */
export interface EdgeTiming {
  /** Interval at which the shared timer checks every open exchange. */
  readonly sweepMs: number
  /** Age at which uWS's own 10 s timer is armed again. */
  readonly rearmMs: number
  /** Grace period in which a body may be arbitrarily slow. */
  readonly graceMs: number
  /** After the grace, a body must bring `MIN_BYTES_PER_SECOND` over any window of this length. */
  readonly windowMs: number
  /** Time limit for a complete body. */
  readonly bodyMs: number
  /** How long the rest of a body is read and discarded before an early answer. */
  readonly discardMs: number
  /** Between the pause that ends the discarding and the answer. */
  readonly pauseMs: number
  /** How long a client that is still sending may take to read its answer before its connection is closed. */
  readonly lingerMs: number
  /** How long a client may take nothing of an answer before it is given up. */
  readonly writeStallMs: number
}

export const EDGE_TIMING: EdgeTiming = Object.freeze({
  sweepMs: 1_000,
  rearmMs: 3_000,
  graceMs: 10_000,
  windowMs: 30_000,
  bodyMs: 900_000,
  discardMs: 2_000,
  pauseMs: 50,
  lingerMs: 3_000,
  writeStallMs: 60_000,
})

/** Least mean rate of a body over a window. */
const MIN_BYTES_PER_SECOND = 4_096

interface Sample {
  readonly atMs: number
  readonly bytes: number
}

/** Watches one body's rate. Pure: its clock is the time during which the sender was free to send. */
export class RateMeter {
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
   * @param isLasting it may take as long as it keeps the least rate
   */
  isTooSlow(sendingMs: number, bytes: number, isLasting = false): boolean {
    const { graceMs, windowMs, bodyMs } = this.#timing
    if (sendingMs >= bodyMs && !isLasting) return true
    if (sendingMs < graceMs) return false
    const samples = this.#samples
    samples.push({ atMs: sendingMs, bytes })
    while (samples.length > 1 && samples[1]!.atMs <= sendingMs - windowMs) samples.shift()
    const { atMs, bytes: before } = samples[0]!
    const spanMs = sendingMs - atMs
    return spanMs >= windowMs && bytes - before < (MIN_BYTES_PER_SECOND * spanMs) / 1_000
  }
}
