import type { Logger } from '../../../contracts/log.ts'
import type { LimiterFigures, RateDecision, RateLimiter, Take } from '../../../contracts/rate-limit.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import { type BucketReply, LeasingRateLimiter, type SharedBuckets } from '../leasing-rate-limiter.ts'
import type { RedisConnection } from './connect.ts'
import { Fallback } from './fallback.ts'
import { keys } from './key-names.ts'
import { LeaseNodes } from './lease-nodes.ts'
import { script } from './script.ts'

/** Longest that a request waits: more than Redis ever takes on a healthy network, less than a caller would notice. */
const TIMEOUT_MS = 50
/** Named where no slot is looked at: the ids of slots are hexadecimal, so none has this one. */
const NO_SLOT = 'none'

const takeToken = script('rate-limiter/take_token', {
  keys: ['bucket', 'slot'],
  args: ['interval_us', 'burst', 'wanted'],
  reply: (reply): BucketReply => {
    if (!Array.isArray(reply) || !reply.every(Number.isSafeInteger) || reply.length !== 4)
      throw new Error('take_token.lua replied something else than four integers')
    const [fullInUs, waitUs, leased, slotTaken] = reply
    return { fullInUs, waitUs, leased, slotTaken: slotTaken === 1 }
  },
})

const returnTokens = script('rate-limiter/return_tokens', {
  keys: ['bucket'],
  args: ['interval_us', 'tokens'],
})

export interface RedisRateLimiterOptions {
  /** Longest that a request waits for Redis to decide. */
  readonly timeoutMs?: number
  /** How often the nodes count themselves. */
  readonly beatMs?: number
  readonly calmMs?: number | undefined
  readonly clock?: Clock
}

/** Token buckets that all nodes share, by Redis's own clock. */
export class RedisRateLimiter implements RateLimiter {
  readonly #timeoutMs: number
  readonly #clock: Clock
  readonly #nodes: LeaseNodes
  readonly #limiter: LeasingRateLimiter

  /** @param redis a connection of its own, which never sends a command twice: a take is not idempotent */
  constructor(
    redis: RedisConnection,
    log: Logger,
    { timeoutMs = TIMEOUT_MS, beatMs, calmMs, clock = systemClock }: RedisRateLimiterOptions = {},
  ) {
    const words = {
      away: 'Redis does not answer: this node keeps the rate limits alone',
      back: 'Redis answers again: the nodes share the rate limits',
    }
    const fallback = new Fallback(redis, log, words, { calmMs, clock })
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    const nodes = new LeaseNodes(redis, clock, beatMs)
    this.#nodes = nodes
    const buckets: SharedBuckets = {
      name: 'redis',
      mayAsk: () => fallback.mayAsk(),
      get isAway() {
        return fallback.isAway
      },
      take({ workspace, keyId, slotId }, { intervalUs, burst }, wanted) {
        const places = {
          bucket: keys.bucket(workspace, keyId),
          slot: keys.slot(workspace, slotId ?? NO_SLOT),
        }
        const taking = takeToken({ ...places, interval_us: intervalUs, burst, wanted })(redis)
        return within(timeoutMs, taking, clock)
      },
      answered: (error) => (error === null ? fallback.came() : fallback.went(error)),
      giveBack({ workspace, keyId, bucket }, tokens) {
        if (redis.status !== 'ready') return
        const returned = { bucket: keys.bucket(workspace, keyId), interval_us: bucket.intervalUs, tokens }
        returnTokens(returned)(redis).catch(() => {})
      },
      mostInHand: (burst) => nodes.most(burst),
    }
    this.#limiter = new LeasingRateLimiter(buckets, clock)
  }

  take(take: Take): RateDecision | Promise<RateDecision> {
    return this.#limiter.take(take)
  }

  figures(): LimiterFigures {
    return this.#limiter.figures()
  }

  /** Returns what is leased and leaves the other nodes. Never rejects, and takes no longer than a take. */
  async close(): Promise<void> {
    this.#limiter.close()
    await within(this.#timeoutMs, this.#nodes.close(), this.#clock).catch(() => {})
  }
}
