import type { RateLimit } from '../../../src/contracts/rate-limit.ts'

/** An admission as its caller saw it: it was decided at some moment from the one time to the other. */
export interface Admission {
  readonly fromUs: number
  readonly toUs: number
}

/**
 * Whether admissions keep a limit in every window of time: at most burst + rate × window.
 *
 * A bucket that serves each admission as soon as it has a token, the one whose caller had its answer first before the
 * others, misses none that could have been served in time. So when one comes late, no moments of decision that fit what
 * the callers saw would have kept the limit.
 *
 * @param extra tokens that may be used on top of the burst
 * @returns microseconds by which the latest is too late; 0 or less when the limit was kept
 */
export function latenessUs(admissions: readonly Admission[], limit: RateLimit, extra: number): number {
  const intervalUs = 60_000_000 / limit.requestsPerMinute
  const toleranceUs = intervalUs * (limit.burst + extra - 1)
  const arriving = admissions.toSorted((one, other) => one.fromUs - other.fromUs)
  /** By the time of the answer, the latest first. */
  const waiting: Admission[] = []
  let worstUs = Number.NEGATIVE_INFINITY
  let fullAtUs = Number.NEGATIVE_INFINITY
  let nowUs = Number.NEGATIVE_INFINITY
  for (let next = 0; next < arriving.length || waiting.length > 0; ) {
    if (waiting.length === 0) nowUs = Math.max(nowUs, arriving[next]!.fromUs)
    nowUs = Math.max(nowUs, fullAtUs - toleranceUs)
    for (; next < arriving.length && arriving[next]!.fromUs <= nowUs; next += 1)
      insert(waiting, arriving[next]!)
    worstUs = Math.max(worstUs, nowUs - waiting.pop()!.toUs)
    fullAtUs = Math.max(fullAtUs, nowUs) + intervalUs
  }
  return worstUs
}

function insert(waiting: Admission[], admission: Admission): void {
  let [low, high] = [0, waiting.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if (waiting[middle]!.toUs > admission.toUs) low = middle + 1
    else high = middle
  }
  waiting.splice(low, 0, admission)
}
