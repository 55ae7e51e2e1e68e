import type { UnitBucket, UnitDecision, UnitLimiter } from '../../../contracts/rate-limit.ts'
import { unitDecisionOf, unitsUs, unitWaitUs } from '../bucket.ts'
import { BucketBook } from './bucket-book.ts'

/** Buckets of units in the process. */
export class EmbeddedUnitLimiter implements UnitLimiter {
  readonly #book = new BucketBook()
  readonly #clockUs: () => number

  /** @param clockUs monotonic, in whole microseconds */
  constructor(clockUs: () => number) {
    this.#clockUs = clockUs
  }

  take(buckets: readonly UnitBucket[], units: number, isDue = false): UnitDecision {
    const nowUs = this.#clockUs()
    const found = buckets.map((bucket) => {
      const name = `${bucket.partition}/${bucket.id}`
      const missingUs = Math.max(0, this.#book.fullAtUs(name) - nowUs)
      const costUs = unitsUs(bucket, units)
      return { name, missingUs, costUs, waitUs: isDue ? 0 : unitWaitUs(missingUs, costUs) }
    })
    if (found.some(({ waitUs }) => waitUs > 0)) return unitDecisionOf(buckets, found)
    const taken = found.map(({ name, missingUs, costUs }) => {
      const left = Math.max(0, missingUs + costUs)
      this.#book.note(name, nowUs + left, nowUs)
      return { missingUs: left, waitUs: 0 }
    })
    return unitDecisionOf(buckets, taken)
  }
}
