import type { Redis } from 'ioredis'
import type { Logger } from '../../log.ts'
import type { RateDecision, RateLimit, RateLimiter } from '../../schema/state.ts'
import { bucketOf, decisionOf } from '../bucket.ts'
import { EmbeddedRateLimiter } from '../embedded/rate-limiter.ts'
import { keys } from './keys.ts'
import { script } from './script.ts'
import { within } from './within.ts'

/** What a request waits at most: more than Redis ever takes on a healthy network, less than a caller would notice. */
const TIMEOUT_MS = 50
/** While Redis does not answer, one request in this time asks it; all others are decided at once. */
const TRIAL_MS = 250

const takeToken = script('take_token', {
  keys: ['bucket'],
  args: ['interval_us', 'burst'],
  reply: (reply): { fullInUs: number; waitUs: number } => {
    if (!Array.isArray(reply) || !reply.every(Number.isSafeInteger) || reply.length !== 2)
      throw new Error('take_token.lua replied something else than two integers')
    return { fullInUs: reply[0], waitUs: reply[1] }
  },
})

/**
 * Token buckets that all nodes share, by Redis's own clock. While Redis is away this node limits alone, at the full
 * rate: a limiter that is down must neither refuse everybody nor let a flood through.
 */
export class RedisRateLimiter implements RateLimiter {
  readonly #redis: Redis
  readonly #log: Logger
  readonly #timeoutMs: number
  readonly #local = new EmbeddedRateLimiter()
  #away = false
  #nextTrialMs = 0

  /**
   * @param redis     a connection of its own, which never sends a command twice: a take is not idempotent
   * @param timeoutMs longest that a request waits for Redis to decide
   */
  constructor(redis: Redis, log: Logger, timeoutMs = TIMEOUT_MS) {
    this.#redis = redis
    this.#log = log
    this.#timeoutMs = timeoutMs
  }

  async take(keyId: string, limit: RateLimit): Promise<RateDecision> {
    if (!this.#mayAsk()) return this.#local.decide(keyId, limit, true)
    const bucket = bucketOf(limit)
    try {
      const { fullInUs, waitUs } = await within(
        this.#timeoutMs,
        takeToken(this.#redis, {
          bucket: keys.bucket(keyId),
          interval_us: bucket.intervalUs,
          burst: bucket.burst,
        }),
      )
      this.#came()
      return decisionOf(bucket, fullInUs, waitUs, false)
    } catch (error) {
      this.#went(error)
      return this.#local.decide(keyId, limit, true)
    }
  }

  /** Whether this take goes to Redis. Bounds what an outage costs: neither waiting callers nor commands pile up. */
  #mayAsk(): boolean {
    if (this.#redis.status !== 'ready') {
      this.#went(new Error(`the connection is ${this.#redis.status}`))
      return false
    }
    if (!this.#away) return true
    const nowMs = performance.now()
    if (nowMs < this.#nextTrialMs) return false
    this.#nextTrialMs = nowMs + TRIAL_MS
    return true
  }

  #went(error: unknown): void {
    if (this.#away) return
    this.#away = true
    this.#nextTrialMs = performance.now() + TRIAL_MS
    const reason = error instanceof Error ? error.message : String(error)
    this.#log.warn({ reason }, 'Redis does not answer: this node keeps the rate limits alone')
  }

  #came(): void {
    if (!this.#away) return
    this.#away = false
    this.#log.info('Redis answers again: the nodes share the rate limits')
  }
}
