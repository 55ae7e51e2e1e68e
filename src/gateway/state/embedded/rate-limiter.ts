import type {
  LimiterFigures,
  RateDecision,
  RateLimit,
  RateLimiter,
  Take,
} from '../../../contracts/rate-limit.ts'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import { bucketOf, decisionOf } from '../bucket.ts'

/** Below this many buckets nothing is pruned: they take less memory than the pruning takes time. */
const PRUNE_FROM = 1024

/**
 * Token buckets in the process (GCRA): one number per key, the moment at which its bucket is full again. A key that
 * has rested until then needs no number, so memory follows the keys in use, not the keys ever seen.
 */
export class EmbeddedRateLimiter implements RateLimiter {
  readonly #fullAtUs = new Map<string, number>()
  readonly #clockUs: () => number
  #pruneAt = PRUNE_FROM
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
    const held = Math.min(this.#fullAtUs.get(keyId) ?? 0, nowUs + capacityUs)
    const missingUs = Math.max(0, held - nowUs)

    const waitUs = missingUs + intervalUs - capacityUs
    if (waitUs > 0) return decisionOf(bucket, missingUs, waitUs, local, false)

    this.#fullAtUs.set(keyId, nowUs + missingUs + intervalUs)
    if (this.#fullAtUs.size >= this.#pruneAt) this.#prune(nowUs)
    return decisionOf(bucket, missingUs + intervalUs, 0, local, false)
  }

  figures(): LimiterFigures {
    return { mode: 'process', decisions: { process: this.#decisions } }
  }

  /** Buckets that are kept in memory. */
  get size(): number {
    return this.#fullAtUs.size
  }

  /** Drops every full bucket. The next pruning waits until the map has doubled, so that takes stay O(1) on average. */
  #prune(nowUs: number): void {
    for (const [keyId, fullAtUs] of this.#fullAtUs) if (fullAtUs <= nowUs) this.#fullAtUs.delete(keyId)
    this.#pruneAt = Math.max(PRUNE_FROM, this.#fullAtUs.size * 2)
  }
}

/** The time of a clock in whole microseconds. */
export function microsecondsOf(clock: Clock): () => number {
  return () => Math.floor(clock.now() * 1000)
}
