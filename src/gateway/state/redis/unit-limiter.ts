import type { Logger } from '../../../contracts/log.ts'
import type { UnitBucket, UnitDecision, UnitLimiter } from '../../../contracts/rate-limit.ts'
import { type Clock, systemClock, within } from '../../../contracts/time.ts'
import { unitDecisionOf, unitsUs } from '../bucket.ts'
import { microsecondsOf } from '../embedded/rate-limiter.ts'
import { EmbeddedUnitLimiter } from '../embedded/unit-limiter.ts'
import type { RedisConnection } from './connect.ts'
import { Fallback } from './fallback.ts'
import { keys } from './key-names.ts'
import { script } from './script.ts'

/** As long as a request waits for its token. */
const TIMEOUT_MS = 50

const takeUnits = script('rate-limiter/take_units', {
  keys: ['own', 'shared'],
  args: ['own_us', 'shared_us', 'due'],
  reply: (reply) => {
    if (!Array.isArray(reply) || !reply.every(Number.isSafeInteger) || reply.length !== 4)
      throw new Error('take_units.lua replied something else than four integers')
    const [ownMissing, ownWait, sharedMissing, sharedWait] = reply
    return [
      { missingUs: ownMissing, waitUs: ownWait },
      { missingUs: sharedMissing, waitUs: sharedWait },
    ]
  },
})

interface UnitLimiterOptions {
  /** Longest that a request waits for Redis to decide. */
  readonly timeoutMs?: number
  readonly calmMs?: number | undefined
  readonly clock?: Clock
}

/** Buckets of units that all nodes share, by Redis's own clock. While Redis is away this node limits alone. */
export class RedisUnitLimiter implements UnitLimiter {
  readonly #redis: RedisConnection
  readonly #fallback: Fallback
  readonly #timeoutMs: number
  readonly #clock: Clock
  readonly #local: EmbeddedUnitLimiter

  /** @param redis a connection that never sends a command twice: a take is not idempotent */
  constructor(
    redis: RedisConnection,
    log: Logger,
    { timeoutMs = TIMEOUT_MS, calmMs, clock = systemClock }: UnitLimiterOptions = {},
  ) {
    this.#redis = redis
    this.#timeoutMs = timeoutMs
    this.#clock = clock
    const words = {
      away: 'Redis does not answer: this node keeps the limits of tokens and audio alone',
      back: 'Redis answers again: the nodes share the limits of tokens and audio',
    }
    this.#fallback = new Fallback(redis, log, words, { calmMs, clock })
    this.#local = new EmbeddedUnitLimiter(microsecondsOf(clock))
  }

  take(buckets: readonly UnitBucket[], units: number, isDue = false): UnitDecision | Promise<UnitDecision> {
    return this.#fallback.mayAsk()
      ? this.#ask(buckets, units, isDue)
      : this.#local.take(buckets, units, isDue)
  }

  async #ask(buckets: readonly UnitBucket[], units: number, isDue: boolean): Promise<UnitDecision> {
    const [own, shared] = buckets
    if (own === undefined) throw new Error('units are taken out of a bucket')
    try {
      const taking = takeUnits({
        own: keys.units(own.partition, own.id),
        shared: keys.units(own.partition, shared?.id ?? own.id),
        own_us: unitsUs(own, units),
        shared_us: shared === undefined ? 'none' : unitsUs(shared, units),
        due: isDue ? 1 : 0,
      })(this.#redis)
      const missing = await within(this.#timeoutMs, taking, this.#clock)
      this.#fallback.came()
      return unitDecisionOf(buckets, missing.slice(0, buckets.length))
    } catch (error) {
      this.#fallback.went(error)
      return this.#local.take(buckets, units, isDue)
    }
  }
}
