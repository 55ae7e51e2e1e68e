/** Shorter delimiters, and those in short views, are found as soon by the runtime's search. */
const LEAST_BYTES = 24
const LEAST_VIEW_BYTES = 16 * 1024
/** Looks at a place that turned out to be none, after which a view is left to the runtime's search. */
const MOST_LOOKS = 32

/**
 * Finds a delimiter in a stream of audio, where it hardly ever is. It covers a pair of neighbours of a grid as wide as
 * itself wherever it lies, so that one pair is looked at in each width. Where four pairs in a row are none of its own,
 * which is so in nearly all of audio, nothing else is read. That takes 0.04 s of CPU per GB of bytes in a cache; the
 * runtime's search reads most of a view, and takes 0.1. The time is linear whatever the bytes are: a view that looks
 * like the delimiter in many places is left to the runtime.
 */
export class Delimiter {
  readonly bytes: Buffer
  #grid: Grid | null = null

  constructor(bytes: Buffer) {
    this.bytes = bytes
  }

  /** @returns where it begins in `view`, from `from` on; -1: nowhere */
  find(view: Buffer, from: number): number {
    const { bytes } = this
    if (bytes.length < LEAST_BYTES || view.length - from < LEAST_VIEW_BYTES) return view.indexOf(bytes, from)
    this.#grid ??= new Grid(bytes)
    return this.#grid.find(view, from)
  }
}

class Grid {
  readonly #bytes: Buffer
  /** Pairs from one place of the grid to the next: none is cut, so that it is one load. */
  readonly #step: number
  /** A bit for each pair of neighbours that it has, of which the first one is the low byte. */
  readonly #pairs = new Uint32Array(65_536 / 32)

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.#step = (bytes.length - 1) >> 1
    for (let at = 1; at < bytes.length; at += 1) {
      const pair = bytes.readUInt16LE(at - 1)
      this.#pairs[pair >>> 5]! |= 1 << (pair & 31)
    }
  }

  find(view: Buffer, from: number): number {
    const bytes = this.#bytes
    const step = this.#step
    const pairs = this.#pairs
    // A load of two bytes has to begin at an even place of its memory.
    const odd = view.byteOffset & 1
    const words = new Uint16Array(view.buffer, view.byteOffset + odd, (view.length - odd) >> 1)
    const end = words.length
    let looks = 0
    for (let at = (from + bytes.length - 2 - odd) >> 1; ; ) {
      at = this.#skip(words, at)
      if (at >= end) return -1
      for (const stop = Math.min(end, at + 4 * step); at < stop; at += step) {
        if ((shifted(pairs, words[at]!) & 1) === 0) continue
        const place = 2 * at + odd
        const first = Math.max(from, place + 2 - bytes.length)
        if (looks === MOST_LOOKS) return view.indexOf(bytes, first)
        looks += 1
        const found = view.subarray(first, place + bytes.length).indexOf(bytes)
        if (found !== -1) return first + found
      }
    }
  }

  /** @returns the first of the places from there on where one of four has a pair of it, or one near the end */
  #skip(words: Uint16Array, from: number): number {
    const pairs = this.#pairs
    const step = this.#step
    const end = words.length - 3 * step
    let at = from
    for (; at < end; at += 4 * step) {
      const bits =
        shifted(pairs, words[at]!) |
        shifted(pairs, words[at + step]!) |
        shifted(pairs, words[at + 2 * step]!) |
        shifted(pairs, words[at + 3 * step]!)
      if ((bits & 1) !== 0) break
    }
    return at
  }
}

/** @returns the bits of a word, the one at that place first */
function shifted(bits: Uint32Array, at: number): number {
  return bits[at >>> 5]! >>> (at & 31)
}
