const FIRST_CAPACITY = 256

/**
 * Numbers the distinct keys that it is shown, from 0 on. A key is some whole numbers below 2^32: a row of a table of
 * indices, say. Open addressing over typed arrays, since a `Map` would need a string for each look.
 */
export class KeyTable {
  readonly #width: number
  #keys: Uint32Array
  /** Numbers plus one, by hash; 0 is free. At most half are taken. */
  #slots: Int32Array
  size = 0

  constructor(width: number) {
    this.#width = width
    this.#keys = new Uint32Array(width * FIRST_CAPACITY)
    this.#slots = new Int32Array(FIRST_CAPACITY * 2)
  }

  /** Number of a key, a new one where it was not seen before. The array is not kept. */
  numberOf(key: Uint32Array): number {
    const at = this.#slotOf(key)
    const number = this.#slots[at]! - 1
    return number < 0 ? this.#insert(key, at) : number
  }

  /** Number of a key; null: it was not seen before. */
  find(key: Uint32Array): number | null {
    const number = this.#slots[this.#slotOf(key)]! - 1
    return number < 0 ? null : number
  }

  /** One of the numbers that the key with this number consists of. */
  part(number: number, index: number): number {
    return this.#keys[number * this.#width + index]!
  }

  /** The slot that has a key, or the free one that it belongs into. */
  #slotOf(key: Uint32Array): number {
    const width = this.#width
    const keys = this.#keys
    const slots = this.#slots
    const mask = slots.length - 1
    for (let at = hashOf(key, 0, width) & mask; ; at = (at + 1) & mask) {
      const number = slots[at]! - 1
      if (number < 0) return at
      const base = number * width
      let same = 0
      while (same < width && keys[base + same] === key[same]) same += 1
      if (same === width) return at
    }
  }

  #insert(key: Uint32Array, at: number): number {
    const number = this.size
    this.size += 1
    if ((number + 1) * this.#width > this.#keys.length) this.#keys = doubled(this.#keys)
    this.#keys.set(key.length === this.#width ? key : key.subarray(0, this.#width), number * this.#width)
    this.#slots[at] = this.size
    const width = this.#width
    if (this.size * 2 > this.#slots.length)
      this.#slots = spread(2 * this.#slots.length, this.size, (other) =>
        hashOf(this.#keys, other * width, width),
      )
    return number
  }
}

/**
 * Slots of a table with open addressing in which so many numbers, from 0 on, have theirs: each number plus one, at its
 * hash or behind it; 0 is free.
 *
 * @param length a power of two, larger than `count`
 */
export function spread(
  length: number,
  count: number,
  hashOf: (number: number) => number,
): Int32Array<ArrayBuffer> {
  const slots = new Int32Array(length)
  const mask = length - 1
  for (let number = 0; number < count; number += 1) {
    let at = hashOf(number) & mask
    while (slots[at] !== 0) at = (at + 1) & mask
    slots[at] = number + 1
  }
  return slots
}

/** The same numbers, with room for as many again. */
export function doubled<T extends Uint32Array | Int32Array | Float64Array>(numbers: T): T {
  const larger = new (numbers.constructor as new (length: number) => T)(2 * numbers.length)
  larger.set(numbers)
  return larger
}

/** Mixes as MurmurHash3 does. */
function hashOf(keys: Uint32Array, from: number, width: number): number {
  let hash = 0
  for (let at = from; at < from + width; at += 1) {
    const mixed = Math.imul(keys[at]!, 0xcc9e2d51)
    hash ^= Math.imul((mixed << 15) | (mixed >>> 17), 0x1b873593)
    hash = (Math.imul((hash << 13) | (hash >>> 19), 5) + 0xe6546b64) | 0
  }
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b)
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35)
  return hash ^ (hash >>> 16)
}
