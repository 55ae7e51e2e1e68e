import type { RateDecision, RateLimit, UnitBucket, UnitDecision } from '../../contracts/rate-limit.ts'

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

const MINUTE_US = 60_000_000

/** Longest time of units, microseconds: Redis counts several of them exactly. Units return by the same measure. */
const UNITS_US_MAX = 2 ** 51

/** Time in which units come back, whole microseconds; rounded up, so that the rate is never exceeded. */
export function unitsUs({ perMinute }: UnitBucket, units: number): number {
  const us = Math.ceil((units * MINUTE_US) / perMinute)
  return Math.max(-UNITS_US_MAX, Math.min(us, UNITS_US_MAX))
}

/** Microseconds until a bucket with so much missing has the units; what is more than all of it takes a full one. */
export function unitWaitUs(missingUs: number, costUs: number): number {
  return Math.max(0, missingUs + Math.min(costUs, MINUTE_US) - MINUTE_US)
}

/** @param missing of each bucket in time, microseconds, and until it had the units; after the take, if there was one */
export function unitDecisionOf(
  buckets: readonly UnitBucket[],
  missing: readonly { readonly missingUs: number; readonly waitUs: number }[],
): UnitDecision {
  return {
    retryAfterMs: Math.ceil(Math.max(...missing.map(({ waitUs }) => waitUs)) / 1000),
    buckets: buckets.map(({ perMinute }, index) => {
      const { missingUs, waitUs } = missing[index]!
      return {
        remaining: Math.floor((Math.max(0, MINUTE_US - missingUs) * perMinute) / MINUTE_US),
        resetMs: Math.ceil(missingUs / 1000),
        retryAfterMs: Math.ceil(waitUs / 1000),
      }
    }),
  }
}
