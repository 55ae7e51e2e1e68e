/** How the runner spends its time; tests are in more of a hurry. */
export interface JobTiming {
  /**
   * The wait for the next look at the queue: it doubles from the first to the last while nothing is found. What this
   * process submits itself is met at once.
   */
  readonly pollMs: readonly [first: number, last: number]
  /** The wait after a look that the state did not answer: it doubles from the first to the last. */
  readonly awayMs: readonly [first: number, last: number]
  readonly leaseMs: number
  readonly renewMs: number
  /** For all that providers do for one claim. */
  readonly attemptMs: number
  /** The waits before the second and each further try to fetch audio. */
  readonly fetchAgainMs: readonly number[]
  /** The waits before a job is tried again because a provider failed. */
  readonly retryMs: readonly number[]
  /** The same because of our own stores: it doubles from the first to the last. */
  readonly returnMs: readonly [first: number, last: number]
}

export const TIMING: JobTiming = {
  pollMs: [250, 1_000],
  awayMs: [250, 5_000],
  leaseMs: 30_000,
  renewMs: 5_000,
  attemptMs: 15 * 60_000,
  fetchAgainMs: [1_000, 5_000],
  retryMs: [5_000, 30_000, 120_000],
  returnMs: [5_000, 60_000],
}

/** A wait, up to 20 % longer or shorter, so that what failed together does not come back together. */
export function spread(ms: number): number {
  return Math.round(ms * (0.8 + 0.4 * Math.random()))
}

/** A wait that has doubled so often. */
export function doubled([first, last]: readonly [number, number], times: number): number {
  return Math.min(last, first * 2 ** times)
}
