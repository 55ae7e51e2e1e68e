/** Latencies of a run, in milliseconds. */
export interface Quantiles {
  readonly count: number
  readonly p50: number
  readonly p99: number
  readonly max: number
}

/** Gathers latencies without an allocation per sample. */
export class Samples {
  #values = new Float64Array(1 << 16)
  #count = 0

  add(ms: number): void {
    if (this.#count === this.#values.length) {
      const larger = new Float64Array(this.#values.length * 2)
      larger.set(this.#values)
      this.#values = larger
    }
    this.#values[this.#count] = ms
    this.#count += 1
  }

  quantiles(): Quantiles {
    const sorted = this.#values.slice(0, this.#count).sort()
    const at = (share: number) =>
      sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
    return { count: this.#count, p50: at(0.5), p99: at(0.99), max: at(1) }
  }
}
