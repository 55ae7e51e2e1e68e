import type { UnitBucket, UnitDecision, UnitLimiter } from '../../../contracts/rate-limit.ts'
import { unitDecisionOf, unitsUs, unitWaitUs } from '../bucket.ts'

/** Below this many buckets nothing is pruned. */
const PRUNE_FROM = 1024

/** Buckets of units in the process: of each the moment at which it is full again. */
export class EmbeddedUnitLimiter implements UnitLimiter {
  readonly #fullAtUs = new Map<string, number>()
  readonly #clockUs: () => number
  #pruneAt = PRUNE_FROM

  /** @param clockUs monotonic, in whole microseconds */
  constructor(clockUs: () => number) {
    this.#clockUs = clockUs
  }

  take(buckets: readonly UnitBucket[], units: number, isDue = false): UnitDecision {
    const nowUs = this.#clockUs()
    const found = buckets.map((bucket) => {
      const name = `${bucket.partition}/${bucket.id}`
      const missingUs = Math.max(0, (this.#fullAtUs.get(name) ?? 0) - nowUs)
      const costUs = unitsUs(bucket, units)
      return { name, missingUs, costUs, waitUs: isDue ? 0 : unitWaitUs(missingUs, costUs) }
    })
    if (found.some(({ waitUs }) => waitUs > 0)) return unitDecisionOf(buckets, found)
    const taken = found.map(({ name, missingUs, costUs }) => {
      const left = Math.max(0, missingUs + costUs)
      if (left === 0) this.#fullAtUs.delete(name)
      else this.#fullAtUs.set(name, nowUs + left)
      return { missingUs: left, waitUs: 0 }
    })
    if (this.#fullAtUs.size >= this.#pruneAt) this.#prune(nowUs)
    return unitDecisionOf(buckets, taken)
  }

  /** Drops every full bucket. The next pruning waits until the map has doubled, so that takes stay O(1) on average. */
  #prune(nowUs: number): void {
    for (const [name, fullAtUs] of this.#fullAtUs) if (fullAtUs <= nowUs) this.#fullAtUs.delete(name)
    this.#pruneAt = Math.max(PRUNE_FROM, this.#fullAtUs.size * 2)
  }
}
