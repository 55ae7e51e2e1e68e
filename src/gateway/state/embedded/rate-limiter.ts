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
