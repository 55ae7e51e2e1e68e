/** Limits of what requests hold, a minute; absent or 0: none. */
export interface UnitRates {
  readonly tokensPerMinute?: number
  readonly audioSecondsPerMinute?: number
}

/** Requests per minute and how many may be made at once, beside the limits of what they hold. */
export interface RateLimit extends UnitRates {
  readonly requestsPerMinute: number
  readonly burst: number
}

export interface RateDecision {
  readonly allowed: boolean
  /** The burst: how many requests a rested key may make at once. */
  readonly limit: number
  readonly remaining: number
  /** Milliseconds until the bucket is full again. */
  readonly resetMs: number
  /** Milliseconds until one request is admitted; 0 when allowed. */
  readonly retryAfterMs: number
  /** True when Redis was away and this node decided alone. */
  readonly local: boolean
  /**
   * True where the slot that was asked about is in use; false when none was, and when that could not be found out. No
   * more than a hint: `CallLedger.begin` decides.
   */
  readonly slotTaken: boolean
}

export interface Take {
  readonly workspace: string
  /** Names the bucket: the id of an API key, or of an end user, unique over all workspaces. */
  readonly keyId: string
  readonly limit: RateLimit
  /** Idempotency slot to look at in the same trip; null: none. */
  readonly slotId: string | null
}

/**
 * Token bucket per key and per end user that is limited (GCRA). Never throws or rejects: without Redis each node limits
 * by itself.
 */
export interface RateLimiter {
  /** At once where no trip is needed: the node holds a token of this key. */
  take(take: Take): RateDecision | Promise<RateDecision>
  /** For monitoring. */
  figures(): LimiterFigures
}

/** A bucket of units, such as tokens, that holds those of a minute. */
export interface UnitBucket {
  /** Buckets that are asked together have one. */
  readonly partition: string
  /** Unique within the partition. */
  readonly id: string
  readonly perMinute: number
}

export interface UnitDecision {
  /** Milliseconds until all of the buckets have the units; 0: they were taken. */
  readonly retryAfterMs: number
  /** The buckets as they are then, in their order. */
  readonly buckets: readonly UnitBucketState[]
}

export interface UnitBucketState {
  readonly remaining: number
  /** Milliseconds until the bucket is full again. */
  readonly resetMs: number
  /** Milliseconds until this bucket had the units; 0: it has them. */
  readonly retryAfterMs: number
}

/**
 * Buckets of units (GCRA), which hold what a minute gives. What is more than that is taken from a full bucket, which
 * then owes the rest. Never throws or rejects: without Redis each node limits by itself.
 */
export interface UnitLimiter {
  /**
   * Takes units out of all of the buckets, or out of none.
   *
   * @param buckets one or two of the same partition
   * @param units   less than 0: they are given back
   * @param isDue   they are taken even if they are not there
   */
  take(buckets: readonly UnitBucket[], units: number, isDue?: boolean): UnitDecision | Promise<UnitDecision>
}

/**
 * Place of a decision: the process itself, which shares its keys with no one; Redis, by a trip; this node, with tokens
 * leased from Redis; this node alone, because Redis is unreachable.
 */
export type Limiter = 'process' | 'redis' | 'leases' | 'local'

export interface LimiterFigures {
  /** Present place of decisions. */
  readonly mode: Limiter
  /** Decisions of each since the start; without those that never decide here. */
  readonly decisions: Readonly<Partial<Record<Limiter, number>>>
}
