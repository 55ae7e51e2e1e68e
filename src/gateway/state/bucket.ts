import type { RateDecision, RateLimit } from '../../contracts/rate-limit.ts'

/**
 * A rate limit as GCRA counts it, in whole microseconds: floats would drift by a fraction with every take, and Redis
 * tells its time in microseconds too.
 */
export interface Bucket {
  /** Time that one token takes to come back. Rounded up, so that the rate is never exceeded. */
  readonly intervalUs: number
  /** Tokens of a full bucket. */
  readonly burst: number
}

export function bucketOf(limit: RateLimit): Bucket {
  return { intervalUs: Math.ceil(60_000_000 / limit.requestsPerMinute), burst: limit.burst }
}

/**
 * The answer to a caller, out of what a take found.
 *
 * @param fullInUs  microseconds until the bucket is full again, after this take
 * @param waitUs    microseconds until a token is there; 0 when this take got one
 * @param local     whether this node decided alone, for a store that all nodes share
 * @param slotTaken whether the slot that was asked about is in use
 */
export function decisionOf(
  bucket: Bucket,
  fullInUs: number,
  waitUs: number,
  local: boolean,
  slotTaken: boolean,
): RateDecision {
  const missing = Math.ceil(fullInUs / bucket.intervalUs)
  return {
    allowed: waitUs === 0,
    limit: bucket.burst,
    remaining: Math.max(0, bucket.burst - missing),
    resetMs: Math.ceil(fullInUs / 1000),
    retryAfterMs: Math.ceil(waitUs / 1000),
    local,
    slotTaken,
  }
}
