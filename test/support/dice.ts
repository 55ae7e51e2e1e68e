/** Draws from a seed: the same seed gives the same draws. */
export class Dice {
  #state: number
  constructor(seed: number) {
    this.#state = seed >>> 0
  }

  /** Uniform in [0, 1): mulberry32. */
  roll(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    let mixed = this.#state
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }

  chance(probability: number): boolean {
    return this.roll() < probability
  }

  below(end: number): number {
    return Math.floor(this.roll() * end)
  }

  one<Item>(items: readonly Item[]): Item {
    return items[this.below(items.length)] as Item
  }

  /** Each of the items with that probability. */
  some<Item>(items: readonly Item[], probability: number): Item[] {
    return items.filter(() => this.chance(probability))
  }

  /** As often as not nothing at all. */
  maybe<Value>(probability: number, make: () => Value): Value | undefined {
    return this.chance(probability) ? make() : undefined
  }
}
