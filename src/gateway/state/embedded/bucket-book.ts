/** Below this many buckets nothing is pruned: they take less memory than the pruning takes time. */
const PRUNE_FROM = 1024

/**
 * Buckets by name: of each the moment at which it is full again, on a clock in microseconds. A bucket that has rested
 * until then needs no record, so memory follows the buckets in use, not those ever seen.
 */
export class BucketBook {
  readonly #fullAtUs = new Map<string, number>()
  #pruneAt = PRUNE_FROM

  /** 0: it is full. */
  fullAtUs(name: string): number {
    return this.#fullAtUs.get(name) ?? 0
  }

  note(name: string, fullAtUs: number, nowUs: number): void {
    this.#fullAtUs.set(name, fullAtUs)
    if (this.#fullAtUs.size >= this.#pruneAt) this.#prune(nowUs)
  }

  /** Buckets that are kept in memory. */
  get size(): number {
    return this.#fullAtUs.size
  }

  /** Drops every full bucket. The next pruning waits until the map has doubled, so that takes stay O(1) on average. */
  #prune(nowUs: number): void {
    for (const [name, fullAtUs] of this.#fullAtUs) if (fullAtUs <= nowUs) this.#fullAtUs.delete(name)
    this.#pruneAt = Math.max(PRUNE_FROM, this.#fullAtUs.size * 2)
  }
}
