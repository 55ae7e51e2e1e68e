/**
 * Split block Bloom filters of Parquet (https://parquet.apache.org/docs/file-format/bloomfilter/): with them a reader
 * leaves out a row group that has no such id, having read 32 bytes of it. Other readers of the files use them, too.
 *
 * The hash is XXH64 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md), in halves of 32 bits: with
 * `BigInt`, as the package has it, a row group of ids takes over a second.
 */

/** Bytes of a block, which is what one text is looked up in. */
const BLOCK_BYTES = 32
/** Of 65,536 ids, some 2.5 % of those that are not there are taken for there; the filter is a byte for each. */
const BITS_PER_TEXT = 8
const SALT = Int32Array.of(
  ...[0x47b6137b, 0x44974d91, 0x8824ad5b, 0xa2b7289d],
  ...[0x705495c7, 0x2df1424b, 0x9efc4947, 0x5c6bfb31],
)

/** A filter that texts are added to. */
export class BloomFilter {
  /** Little-endian words, eight to a block. */
  readonly words: Uint32Array

  /** @param texts how many are added, at most */
  constructor(texts: number) {
    let blocks = 1
    // Some readers take powers of two only.
    while (blocks * BLOCK_BYTES * 8 < texts * BITS_PER_TEXT) blocks *= 2
    this.words = new Uint32Array((blocks * BLOCK_BYTES) / 4)
  }

  /** Adds bytes `from` to `to`, exclusive. */
  add(bytes: Buffer, from = 0, to = bytes.length): void {
    hash(bytes, from, to)
    const first = blockOf(hashHigh, this.words.length / 8) * 8
    for (let word = 0; word < 8; word += 1) this.words[first + word]! |= bitOf(hashLow, word)
  }
}

/** Where in a filter a text would be found: the offset of its block. */
export function bloomBlockAt(text: Buffer, filterBytes: number): number {
  hash(text, 0, text.length)
  return blockOf(hashHigh, filterBytes / BLOCK_BYTES) * BLOCK_BYTES
}

export const BLOOM_BLOCK_BYTES = BLOCK_BYTES

/** Whether a text may be there. @param block the bytes of its block */
export function mayBeIn(block: DataView, text: Buffer): boolean {
  hash(text, 0, text.length)
  for (let word = 0; word < 8; word += 1)
    if ((block.getUint32(word * 4, true) & bitOf(hashLow, word)) === 0) return false
  return true
}

function blockOf(high: number, blocks: number): number {
  return Math.floor(((high >>> 0) * blocks) / 2 ** 32)
}

function bitOf(low: number, word: number): number {
  return 1 << (Math.imul(low, SALT[word]!) >>> 27)
}

/** The last hash. */
let hashHigh = 0
let hashLow = 0

type Half = number

/** The last product, sum or rotation, which saves an object for each. */
let high: Half = 0
let low: Half = 0

const [P1H, P1L] = [0x9e3779b1, 0x85ebca87]
const [P2H, P2L] = [0xc2b2ae3d, 0x27d4eb4f]
const [P3H, P3L] = [0x165667b1, 0x9e3779f9]
const [P4H, P4L] = [0x85ebca77, 0xc2b2ae63]
const [P5H, P5L] = [0x27d4eb2f, 0x165667c5]

/** Multiplies what there is. */
function times(byHigh: Half, byLow: Half): void {
  const a0 = low & 0xffff
  const a1 = low >>> 16
  const b0 = byLow & 0xffff
  const b1 = byLow >>> 16
  const p10 = Math.imul(a1, b0)
  const p01 = Math.imul(a0, b1)
  const middle = (p10 & 0xffff) + (p01 & 0xffff) + (Math.imul(a0, b0) >>> 16)
  const carried = Math.imul(a1, b1) + (p10 >>> 16) + (p01 >>> 16) + (middle >>> 16)
  high = (carried + Math.imul(high, byLow) + Math.imul(low, byHigh)) | 0
  low = Math.imul(low, byLow)
}

/** Adds to what there is. */
function plus(byHigh: Half, byLow: Half): void {
  const sum = (low >>> 0) + (byLow >>> 0)
  high = (high + byHigh + (sum > 0xffff_ffff ? 1 : 0)) | 0
  low = sum | 0
}

/** Rotates what there is. @param bits 1 to 31 */
function rotate(bits: number): void {
  const before = high
  high = (high << bits) | (low >>> (32 - bits))
  low = (low << bits) | (before >>> (32 - bits))
}

/** A lane of 8 bytes, mixed into what there is. */
function round(bytes: Buffer, at: number): void {
  const ownHigh = high
  const ownLow = low
  low = bytes.readInt32LE(at)
  high = bytes.readInt32LE(at + 4)
  times(P2H, P2L)
  plus(ownHigh, ownLow)
  rotate(31)
  times(P1H, P1L)
}

/** The four sums of a text of 32 bytes or more: high and low halves, one after another. */
const sums = new Int32Array(8)
/** Bits by which each is rotated at the end. */
const ROTATIONS = [1, 7, 12, 18]

/** Sets `hashHigh` and `hashLow`. */
function hash(bytes: Buffer, from: number, to: number): void {
  let at = from
  if (to - from >= 32) at = hashStripes(bytes, from, to)
  else {
    high = P5H
    low = P5L
  }
  plus(0, to - from)
  for (; at + 8 <= to; at += 8) {
    const ownHigh = high
    const ownLow = low
    high = 0
    low = 0
    round(bytes, at)
    high ^= ownHigh
    low ^= ownLow
    rotate(27)
    times(P1H, P1L)
    plus(P4H, P4L)
  }
  if (at + 4 <= to) {
    mixIn(bytes.readInt32LE(at), P1H, P1L)
    rotate(23)
    times(P2H, P2L)
    plus(P3H, P3L)
    at += 4
  }
  for (; at < to; at += 1) {
    mixIn(bytes[at]!, P5H, P5L)
    rotate(11)
    times(P1H, P1L)
  }
  avalanche()
  hashHigh = high
  hashLow = low
}

/** @returns where the rest begins */
function hashStripes(bytes: Buffer, from: number, to: number): number {
  for (let lane = 0; lane < 4; lane += 1) {
    // p1 + p2, p2, 0, -p1
    high = 0
    low = 0
    if (lane < 2) plus(P2H, P2L)
    if (lane === 0) plus(P1H, P1L)
    if (lane === 3) plus(~P1H, -P1L)
    sums[2 * lane] = high
    sums[2 * lane + 1] = low
  }
  let at = from
  for (; at + 32 <= to; at += 32)
    for (let lane = 0; lane < 4; lane += 1) {
      high = sums[2 * lane]!
      low = sums[2 * lane + 1]!
      round(bytes, at + 8 * lane)
      sums[2 * lane] = high
      sums[2 * lane + 1] = low
    }
  let sumHigh = 0
  let sumLow = 0
  for (let lane = 0; lane < 4; lane += 1) {
    high = sums[2 * lane]!
    low = sums[2 * lane + 1]!
    rotate(ROTATIONS[lane]!)
    plus(sumHigh, sumLow)
    sumHigh = high
    sumLow = low
  }
  for (let lane = 0; lane < 4; lane += 1) {
    high = sums[2 * lane]!
    low = sums[2 * lane + 1]!
    times(P2H, P2L)
    rotate(31)
    times(P1H, P1L)
    high ^= sumHigh
    low ^= sumLow
    times(P1H, P1L)
    plus(P4H, P4L)
    sumHigh = high
    sumLow = low
  }
  return at
}

/** Some bytes as a number times a prime, into what there is. */
function mixIn(value: number, byHigh: Half, byLow: Half): void {
  const ownHigh = high
  const ownLow = low
  high = 0
  low = value
  times(byHigh, byLow)
  high ^= ownHigh
  low ^= ownLow
}

function avalanche(): void {
  low ^= high >>> 1
  times(P2H, P2L)
  // Shifted by 29 bits.
  const shifted = (high << 3) | (low >>> 29)
  high ^= high >>> 29
  low ^= shifted
  times(P3H, P3L)
  low ^= high
}
