import type { RateDecision, RateLimit, Take } from '../../contracts/rate-limit.ts'
import { type Clock, systemClock, type Timer } from '../../contracts/time.ts'
import { type Bucket, bucketOf, decisionOf } from './bucket.ts'

/** How long tokens may be held: what is left of them then goes back. A key that is not used is forgotten as soon. */
export const LEASE_MS = 1_000
/** Leases that end within this time are swept together. */
const SWEEP_MS = 50

/** Tokens of one key that this node took ahead of their requests. */
export interface Lease {
  readonly workspace: string
  readonly keyId: string
  readonly limit: RateLimit
  readonly bucket: Bucket
  /** Tokens in hand. */
  left: number
  /** Tokens of this lease that requests have used. */
  used: number
  /** How many the next trip asks for: twice as many after a lease that was used up, as many as were used otherwise. */
  wanted: number
  /** When it is over, by the book's clock. */
  endMs: number
  /** A trip that may fill it is under way. */
  asking: boolean
  /** Microseconds until the bucket is full, as it last said, the tokens in hand taken off. */
  fullInUs: number
}

/**
 * The leases of a node, by key. Deciding from one costs no trip and no promise. Memory follows the keys that were used
 * in the last two seconds.
 */
export class TokenLeases {
  /** In the order in which they end: all live equally long, and one that is renewed goes to the end. */
  readonly #leases = new Map<string, Lease>()
  readonly #giveBack: (lease: Lease, tokens: number) => void
  readonly #clock: Clock
  #timer: Timer | null = null

  /**
   * @param giveBack puts unused tokens back into the bucket; called at most once for each of them
   */
  constructor(giveBack: (lease: Lease, tokens: number) => void, clock: Clock = systemClock) {
    this.#giveBack = giveBack
    this.#clock = clock
  }

  /** Takes a token out of the key's lease; null when it has none. */
  use(keyId: string, limit: RateLimit, slotTaken: boolean): RateDecision | null {
    const lease = this.#leases.get(keyId)
    if (lease === undefined || lease.left === 0) return null
    if (!isSame(lease.limit, limit) || this.#clock.now() >= lease.endMs) return null
    lease.left -= 1
    lease.used += 1
    return decisionOf(lease.bucket, fullInUsOf(lease), 0, false, slotTaken)
  }

  /**
   * The lease that this take's trip should fill with `wanted` tokens; null when it should only take its own. The first
   * take in a second gets none: a key that is used this seldom is not worth one. Of takes at the same time only one
   * does. Whoever gets one calls `fill`.
   *
   * @param most how many tokens this node may hold of this key
   */
  begin({ workspace, keyId, limit }: Take, most: number): Lease | null {
    this.#sweep()
    const lease = this.#leases.get(keyId)
    // A lease of another limit is dropped, not returned: its tokens may be worth more than those of the new one.
    if (lease === undefined || !isSame(lease.limit, limit)) {
      this.#leases.delete(keyId)
      if (most > 0) this.#put(leaseOf(workspace, keyId, limit))
      return null
    }
    if (lease.asking || lease.left > 0 || most === 0) return null
    lease.asking = true
    lease.used = 0
    lease.wanted = Math.min(Math.max(lease.wanted, 1), most)
    this.#put(lease)
    return lease
  }

  /**
   * Ends the trip that `begin` began. Tokens that come too late, or for a limit that has changed since, are given up.
   *
   * @param tokens how many the bucket gave; 0 when the trip failed
   */
  fill(lease: Lease, tokens: number, fullInUs: number): void {
    lease.asking = false
    if (tokens === 0 || this.#leases.get(lease.keyId) !== lease || this.#clock.now() >= lease.endMs) return
    lease.left = tokens
    lease.wanted = tokens * 2
    lease.fullInUs = fullInUs
  }

  /**
   * Notes what the bucket said to a take that went there. A lease answers with no earlier time than that until it is
   * full again.
   *
   * @returns microseconds until the bucket were full if it had the tokens in hand
   */
  heard(keyId: string, fullInUs: number): number {
    const lease = this.#leases.get(keyId)
    if (lease === undefined || lease.left === 0) return fullInUs
    lease.fullInUs = Math.max(lease.fullInUs, fullInUs)
    return fullInUsOf(lease)
  }

  /** Keys that are kept in memory. */
  get size(): number {
    return this.#leases.size
  }

  /** Gives back all that is in hand. */
  close(): void {
    for (const lease of this.#leases.values()) if (lease.left > 0) this.#giveBack(lease, lease.left)
    this.#leases.clear()
    this.#timer?.close()
    this.#timer = null
  }

  /** A whole life from now on. */
  #put(lease: Lease): void {
    lease.endMs = this.#clock.now() + LEASE_MS
    this.#leases.delete(lease.keyId)
    this.#leases.set(lease.keyId, lease)
    this.#timer ??= this.#clock.after(LEASE_MS, this.#onTimer).unref()
  }

  readonly #onTimer = (): void => {
    this.#timer = null
    this.#sweep()
    const [next] = this.#leases.values()
    if (next === undefined) return
    const afterMs = Math.max(next.endMs - this.#clock.now(), SWEEP_MS)
    this.#timer = this.#clock.after(afterMs, this.#onTimer).unref()
  }

  /** Ends the leases whose time is over. How much of one was used is remembered for as long again. */
  #sweep(): void {
    const nowMs = this.#clock.now()
    for (const lease of this.#leases.values()) {
      if (lease.endMs > nowMs) return
      this.#leases.delete(lease.keyId)
      if (lease.left > 0) {
        this.#giveBack(lease, lease.left)
        lease.left = 0
        lease.wanted = lease.used
      }
      if (lease.used === 0) continue
      lease.used = 0
      this.#put(lease)
    }
  }
}

function leaseOf(workspace: string, keyId: string, limit: RateLimit): Lease {
  const counts = { left: 0, used: 0, wanted: 1, endMs: 0, asking: false, fullInUs: 0 }
  return { workspace, keyId, limit, bucket: bucketOf(limit), ...counts }
}

/** Time until the bucket is full with the tokens in hand: no more than it last said, less what was used since. */
function fullInUsOf({ fullInUs, left, bucket }: Lease): number {
  return fullInUs - left * bucket.intervalUs
}

/** By value: a reload of the configuration makes new objects also where nothing changed. */
function isSame(one: RateLimit, other: RateLimit): boolean {
  return one === other || (one.requestsPerMinute === other.requestsPerMinute && one.burst === other.burst)
}

/** All holders together hold at most one in so many of a key's burst. */
const SHARE = 20

/** How many tokens of a key one of several holders may have in hand. @param burst of the key */
export function mostInHand(burst: number, holders: number): number {
  return burst < SHARE ? 0 : Math.floor(burst / (SHARE * holders))
}
