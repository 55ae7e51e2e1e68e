import type {
  LimiterFigures,
  RateDecision,
  RateLimit,
  RateLimiter,
  Take,
} from '../../../contracts/rate-limit.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import { bucketOf, decisionOf } from '../bucket.ts'
import { BucketBook } from './bucket-book.ts'

/** Token buckets in the process (GCRA). */
export class EmbeddedRateLimiter implements RateLimiter {
  readonly #book = new BucketBook()
  readonly #clockUs: () => number
  #decisions = 0

  /** @param clockUs monotonic, in whole microseconds; a test injects its own */
  constructor(clockUs: () => number = microsecondsOf(systemClock)) {
    this.#clockUs = clockUs
  }

  /** Slots are not kept here: `slotTaken` is always false. */
  take({ keyId, limit }: Take): RateDecision {
    return this.decide(keyId, limit, false)
  }

  /** `local` says that this node decides in place of a store that all nodes share. */
  decide(keyId: string, limit: RateLimit, local: boolean): RateDecision {
    const bucket = bucketOf(limit)
    this.#decisions += 1
    const { intervalUs, burst } = bucket
    const capacityUs = intervalUs * burst
    const nowUs = this.#clockUs()
    // No more than one whole bucket can be missing, also when the key's limit was lowered since the last take.
    const held = Math.min(this.#book.fullAtUs(keyId), nowUs + capacityUs)
    const missingUs = Math.max(0, held - nowUs)

    const waitUs = missingUs + intervalUs - capacityUs
    if (waitUs > 0) return decisionOf(bucket, missingUs, waitUs, local, false)

    this.#book.note(keyId, nowUs + missingUs + intervalUs, nowUs)
    return decisionOf(bucket, missingUs + intervalUs, 0, local, false)
  }

  /** Time until the bucket of a key is full, microseconds. */
  fullInUs(keyId: string): number {
    return Math.max(0, this.#book.fullAtUs(keyId) - this.#clockUs())
  }

  /**
   * Takes tokens ahead for a process that shares this limiter. The lower half of a bucket is never lent: near its limit
   * every take is decided here, and the wait that a refused caller is told stays true.
   *
   * @returns how many of those that are wanted
   */
  lend(keyId: string, limit: RateLimit, wanted: number): number {
    const { intervalUs, burst } = bucketOf(limit)
    const nowUs = this.#clockUs()
    const missingUs = Math.max(0, this.#book.fullAtUs(keyId) - nowUs)
    const spare = Math.floor((intervalUs * burst - missingUs) / intervalUs) - Math.ceil(burst / 2)
    const lent = Math.max(0, Math.min(wanted, spare))
    if (lent > 0) this.#book.note(keyId, nowUs + missingUs + lent * intervalUs, nowUs)
    return lent
  }

  /** Puts back tokens that were lent and not used. */
  giveBack(keyId: string, limit: RateLimit, tokens: number): void {
    const nowUs = this.#clockUs()
    const fullAtUs = this.#book.fullAtUs(keyId) - bucketOf(limit).intervalUs * tokens
    this.#book.note(keyId, Math.max(nowUs, fullAtUs), nowUs)
  }

  figures(): LimiterFigures {
    return { mode: 'process', decisions: { process: this.#decisions } }
  }

  /** Buckets that are kept in memory. */
  get size(): number {
    return this.#book.size
  }
}

/** The time of a clock in whole microseconds. */
export function microsecondsOf(clock: Clock): () => number {
  return () => Math.floor(clock.now() * 1000)
}
