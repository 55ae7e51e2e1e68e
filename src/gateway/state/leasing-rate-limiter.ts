import type { Limiter, LimiterFigures, RateDecision, RateLimit, Take } from '../../contracts/rate-limit.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { type Bucket, bucketOf, decisionOf } from './bucket.ts'
import { EmbeddedRateLimiter, microsecondsOf } from './embedded/rate-limiter.ts'
import { type Lease, TokenLeases } from './token-leases.ts'

export interface BucketReply {
  /** Until the bucket is full, after this take; 0: it is. */
  readonly fullInUs: number
  /** Until a token is there; 0: this take got one. */
  readonly waitUs: number
  /** Tokens on top, of those that were wanted. */
  readonly leased: number
  readonly slotTaken: boolean
}

export interface SharedBuckets {
  /** Place of the decisions that a trip is needed for. */
  readonly name: Extract<Limiter, 'redis' | 'process'>
  /** False: this process decides alone for now. */
  mayAsk(): boolean
  /** Whether this process decides alone. */
  readonly isAway: boolean
  /** @param wanted tokens that this process would like on top */
  take(take: Take, bucket: Bucket, wanted: number): Promise<BucketReply>
  /** Notes that a take was answered, or was not. */
  answered(error: unknown): void
  /** Puts back tokens that were not used. Those that are lost leave the limit stricter until the bucket is full. */
  giveBack(lease: Lease, tokens: number): void
  /** How many tokens of a key with such a burst this process may have in hand; 0: none for now. */
  mostInHand(burst: number): number
}

/**
 * Decides by buckets that other processes share. It takes several tokens of a busy key in one trip while the bucket is
 * far from empty, and then decides by itself. While the buckets are away it limits alone, at the full rate: a limiter
 * that is down must neither refuse everybody nor let a flood through.
 */
export class LeasingRateLimiter {
  readonly #buckets: SharedBuckets
  readonly #local: EmbeddedRateLimiter
  readonly #leases: TokenLeases
  readonly #decisions = { asked: 0, leases: 0, local: 0 }

  constructor(buckets: SharedBuckets, clock: Clock = systemClock) {
    this.#buckets = buckets
    this.#local = new EmbeddedRateLimiter(microsecondsOf(clock))
    this.#leases = new TokenLeases((lease, tokens) => buckets.giveBack(lease, tokens), clock)
  }

  take(take: Take): RateDecision | Promise<RateDecision> {
    const { keyId, limit, slotId } = take
    if (slotId === null) {
      const leased = this.#lease(keyId, limit, false)
      if (leased !== null) return leased
    }
    return this.#buckets.mayAsk() ? this.#ask(take) : this.#decideAlone(take)
  }

  figures(): LimiterFigures {
    const { name, isAway } = this.#buckets
    const { asked, ...rest } = this.#decisions
    const decisions = { [name]: asked, ...rest }
    if (isAway) return { mode: 'local', decisions }
    return { mode: this.#buckets.mostInHand(Number.MAX_SAFE_INTEGER) > 0 ? 'leases' : name, decisions }
  }

  /** Gives back what is leased. */
  close(): void {
    this.#leases.close()
  }

  async #ask(take: Take): Promise<RateDecision> {
    const { keyId, limit, slotId } = take
    const bucket = bucketOf(limit)
    const lease = slotId === null ? this.#leases.begin(take, this.#buckets.mostInHand(limit.burst)) : null
    try {
      const reply = await this.#buckets.take(take, bucket, lease?.wanted ?? 0)
      const { fullInUs, waitUs, leased, slotTaken } = reply
      this.#buckets.answered(null)
      if (lease !== null) this.#leases.fill(lease, leased, fullInUs)
      const couldBeFullInUs = this.#leases.heard(keyId, fullInUs)
      // The bucket may be empty, and yet this process hold a token of it.
      const own = waitUs === 0 ? null : this.#lease(keyId, limit, slotTaken)
      if (own !== null) return own
      this.#decisions.asked += 1
      return decisionOf(bucket, waitUs === 0 ? couldBeFullInUs : fullInUs, waitUs, false, slotTaken)
    } catch (error) {
      if (lease !== null) this.#leases.fill(lease, 0, 0)
      this.#buckets.answered(error)
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
}
