/** Tokens per minute and how many may be taken at once. */
export interface RateLimit {
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
