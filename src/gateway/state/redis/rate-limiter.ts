import type { Logger } from '../../../contracts/log.ts'
import type {
  LimiterFigures,
  RateDecision,
  RateLimit,
  RateLimiter,
  Take,
} from '../../../contracts/rate-limit.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import { bucketOf, decisionOf } from '../bucket.ts'
import { EmbeddedRateLimiter, microsecondsOf } from '../embedded/rate-limiter.ts'
import type { RedisConnection } from './connect.ts'
import { Fallback } from './fallback.ts'
import { keys } from './key-names.ts'
import { script } from './script.ts'
import { type Lease, LeaseNodes, TokenLeases } from './token-leases.ts'

/** Longest that a request waits: more than Redis ever takes on a healthy network, less than a caller would notice. */
const TIMEOUT_MS = 50
/** Named where no slot is looked at: the ids of slots are hexadecimal, so none has this one. */
const NO_SLOT = 'none'

interface TakeReply {
  readonly fullInUs: number
  readonly waitUs: number
  readonly leased: number
  readonly slotTaken: boolean
}

const takeToken = script('rate-limiter/take_token', {
  keys: ['bucket', 'slot'],
  args: ['interval_us', 'burst', 'wanted'],
  reply: (reply): TakeReply => {
    if (!Array.isArray(reply) || !reply.every(Number.isSafeInteger) || reply.length !== 4)
      throw new Error('take_token.lua replied something else than four integers')
    const [fullInUs, waitUs, leased, slotTaken] = reply
    return { fullInUs, waitUs, leased, slotTaken: slotTaken === 1 }
  },
})

const returnTokens = script('rate-limiter/return_tokens', {
  keys: ['bucket'],
  args: ['interval_us', 'tokens'],
  reply: () => null,
})

export interface RedisRateLimiterOptions {
  /** Longest that a request waits for Redis to decide. */
  readonly timeoutMs?: number
  /** How often the nodes count themselves. */
  readonly beatMs?: number
  readonly calmMs?: number | undefined
  readonly clock?: Clock
}

/**
 * Token buckets that all nodes share, by Redis's own clock. A node takes several tokens of a busy key in one trip while
 * the bucket is far from empty, and then decides by itself. While Redis is away this node limits alone, at the full
 * rate: a limiter that is down must neither refuse everybody nor let a flood through.
 */
export class RedisRateLimiter implements RateLimiter {
  readonly #redis: RedisConnection
  readonly #fallback: Fallback
  readonly #timeoutMs: number
  readonly #clock: Clock
  readonly #local: EmbeddedRateLimiter
  readonly #nodes: LeaseNodes
  readonly #leases: TokenLeases
  readonly #decisions = { redis: 0, leases: 0, local: 0 }

  /** @param redis a connection of its own, which never sends a command twice: a take is not idempotent */
  constructor(
    redis: RedisConnection,
    log: Logger,
    { timeoutMs = TIMEOUT_MS, beatMs, calmMs, clock = systemClock }: RedisRateLimiterOptions = {},
  ) {
    this.#redis = redis
    const words = {
      away: 'Redis does not answer: this node keeps the rate limits alone',
      back: 'Redis answers again: the nodes share the rate limits',
    }
    this.#fallback = new Fallback(redis, log, words, { calmMs, clock })
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    this.#local = new EmbeddedRateLimiter(microsecondsOf(clock))
    this.#leases = new TokenLeases((lease, tokens) => this.#giveBack(lease, tokens), clock)
    this.#nodes = new LeaseNodes(redis, clock, beatMs)
  }

  take(take: Take): RateDecision | Promise<RateDecision> {
    const { keyId, limit, slotId } = take
    if (slotId === null) {
      const leased = this.#lease(keyId, limit, false)
      if (leased !== null) return leased
    }
    return this.#fallback.mayAsk() ? this.#ask(take) : this.#decideAlone(take)
  }

  figures(): LimiterFigures {
    const decisions = { ...this.#decisions }
    if (this.#fallback.isAway) return { mode: 'local', decisions }
    return { mode: this.#nodes.counted ? 'leases' : 'redis', decisions }
  }

  /** Returns what is leased and leaves the other nodes. Never rejects, and takes no longer than a take. */
  async close(): Promise<void> {
    this.#leases.close()
    await within(this.#timeoutMs, this.#nodes.close(), this.#clock).catch(() => {})
  }

  async #ask(take: Take): Promise<RateDecision> {
    const { workspace, keyId, limit, slotId } = take
    const bucket = bucketOf(limit)
    const lease = slotId === null ? this.#leases.begin(take, this.#nodes.most(limit.burst)) : null
    try {
      const { fullInUs, waitUs, leased, slotTaken } = await within(
        this.#timeoutMs,
        takeToken(this.#redis, {
          bucket: keys.bucket(workspace, keyId),
          slot: keys.slot(workspace, slotId ?? NO_SLOT),
          interval_us: bucket.intervalUs,
          burst: bucket.burst,
          wanted: lease?.wanted ?? 0,
        }),
        this.#clock,
      )
      this.#fallback.came()
      if (lease !== null) this.#leases.fill(lease, leased, fullInUs)
      const couldBeFullInUs = this.#leases.heard(keyId, fullInUs)
      // The bucket may be empty, and yet this node hold a token of it.
      const own = waitUs === 0 ? null : this.#lease(keyId, limit, slotTaken)
      if (own !== null) return own
      this.#decisions.redis += 1
      return decisionOf(bucket, waitUs === 0 ? couldBeFullInUs : fullInUs, waitUs, false, slotTaken)
    } catch (error) {
      if (lease !== null) this.#leases.fill(lease, 0, 0)
      this.#fallback.went(error)
      return this.#decideAlone(take)
    }
  }

  #decideAlone({ keyId, limit }: Take): RateDecision {
    const own = this.#lease(keyId, limit, false)
    if (own !== null) return own
    this.#decisions.local += 1
    return this.#local.decide(keyId, limit, true)
  }

  #lease(keyId: string, limit: RateLimit, slotTaken: boolean): RateDecision | null {
    const decision = this.#leases.use(keyId, limit, slotTaken)
    if (decision !== null) this.#decisions.leases += 1
    return decision
  }

  /** A return that is lost leaves the limit stricter until the bucket is full. */
  #giveBack({ workspace, keyId, bucket }: Lease, tokens: number): void {
    if (this.#redis.status !== 'ready') return
    returnTokens(this.#redis, {
      bucket: keys.bucket(workspace, keyId),
      interval_us: bucket.intervalUs,
      tokens,
    }).catch(() => {})
  }
}
