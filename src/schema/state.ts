/** The state contract: embedded in the process, or Redis. One suite runs against both. */
export interface State {
  readonly kind: 'embedded' | 'redis'
  readonly rateLimiter: RateLimiter
  /** True when the state can be reached. Never throws. */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

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
}

/** Token bucket per key (GCRA). Never throws: without Redis each node limits by itself. */
export interface RateLimiter {
  take(keyId: string, limit: RateLimit): Promise<RateDecision>
}
