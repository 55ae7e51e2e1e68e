/** Durations of the edge, in ms. Only tests give others. */
export interface EdgeTiming {
  /** How often the one shared timer looks after every open exchange. */
  readonly sweepMs: number
  /** Age at which uWS's own 10 s timer is armed again. */
  readonly rearmMs: number
  /** A body may be as slow as it likes for so long. */
  readonly graceMs: number
  /** After the grace, a body must bring `MIN_BYTES_PER_SECOND` over any window of this length. */
  readonly windowMs: number
  /** A body must be complete after so long. */
  readonly bodyMs: number
  /** How long the rest of a body is taken in and thrown away before an early answer. */
  readonly discardMs: number
  /** Between the pause that ends the discarding and the answer. */
  readonly pauseMs: number
  /** How long a client that is still sending may take to read its answer before its connection is closed. */
  readonly lingerMs: number
  /** An answer of which the client takes nothing for so long is given up. */
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
