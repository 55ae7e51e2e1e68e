/*
 * Whole numbers as Parquet packs them: in runs and so many bits after another (RLE / bit-packing hybrid), or by their
 * differences (delta encoding); all of them, or those in some places.
 */

/** Widest numbers for which 32 bits hold one that begins within a byte. */
export const NARROW_BITS_MAX = 24

/** Runs of one number, and numbers of so many bits after another, up to 24. */
export function unpackHybrid(bytes: Buffer, width: number, count: number): Int32Array<ArrayBuffer> {
  const values = new Int32Array(count)
  if (width === 0) return values
  const reader = { bytes, at: 0 }
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  for (let done = 0; done < count; ) {
    const head = varint(reader)
    if ((head & 1) === 0) {
      const run = Math.min(count - done, head >>> 1)
      values.fill(bytes.readUIntLE(reader.at, (width + 7) >> 3), done, done + run)
      reader.at += (width + 7) >> 3
      done += run
      continue
    }
    const end = reader.at + (head >>> 1) * width
    const most = Math.min(count, done + (head >>> 1) * 8)
    if (end > bytes.length + width) throw new Error('usage: a page is cut short')
    unpackNarrow(view, reader.at, width, values.subarray(done, most))
    done = most
    reader.at = end
  }
  return values
}

/** As `unpackHybrid`, of some places, each later than the one before. */
export function pickHybrid(bytes: Buffer, width: number, places: readonly number[]): number[] {
  if (width === 0) return places.map(() => 0)
  const mask = (1 << width) - 1
  const picked: number[] = []
  const reader = { bytes, at: 0 }
  for (let done = 0; picked.length < places.length; ) {
    const head = varint(reader)
    const isRun = (head & 1) === 0
    const end = done + (isRun ? head >>> 1 : (head >>> 1) * 8)
    for (; picked.length < places.length && places[picked.length]! < end; ) {
      const bit = (places[picked.length]! - done) * width
      const at = reader.at + (bit >>> 3)
      if (isRun) picked.push(bytes.readUIntLE(reader.at, (width + 7) >> 3))
      else {
        const word =
          bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | ((bytes[at + 3] ?? 0) << 24)
        picked.push((word >>> (bit & 7)) & mask)
      }
    }
    reader.at += isRun ? (width + 7) >> 3 : (head >>> 1) * width
    done = end
  }
  return picked
}

/** For each row how many before it have a value; -1: it has none. */
export function ranksIn(levels: Buffer, wanted: readonly number[]): number[] {
  const ranks: number[] = []
  const reader = { bytes: levels, at: 0 }
  for (let done = 0, before = 0; ranks.length < wanted.length; ) {
    const head = varint(reader)
    const run = (head & 1) === 0 ? head >>> 1 : (head >>> 1) * 8
    const isAll = (head & 1) === 0 && levels[reader.at] === 1
    for (let row = wanted[ranks.length]!; row < done + run; row = wanted[ranks.length]!) {
      if ((head & 1) === 0) ranks.push(isAll ? before + row - done : -1)
      else {
        const byte = levels[reader.at + ((row - done) >>> 3)]!
        const bit = (row - done) & 7
        const ahead =
          bitsIn(levels, reader.at, reader.at + ((row - done) >>> 3)) + bitsOf(byte & ((1 << bit) - 1))
        ranks.push((byte >>> bit) & 1 ? before + ahead : -1)
      }
      if (ranks.length === wanted.length) return ranks
    }
    const end = reader.at + ((head & 1) === 0 ? 1 : head >>> 1)
    before += (head & 1) === 0 ? (isAll ? run : 0) : bitsIn(levels, reader.at, end)
    reader.at = end
    done += run
  }
  return ranks
}

function bitsIn(bytes: Buffer, from: number, to: number): number {
  let bits = 0
  for (let at = from; at < to; at += 1) bits += bitsOf(bytes[at]!)
  return bits
}

function bitsOf(byte: number): number {
  const pairs = byte - ((byte >>> 1) & 0x55)
  const fours = (pairs & 0x33) + ((pairs >>> 2) & 0x33)
  return (fours + (fours >>> 4)) & 0x0f
}

/**
 * Numbers by their differences, in blocks, and where these end. Null: a difference takes more than 32 bits, or one of
 * the bases more than are exact here.
 *
 * @param wanted how many of them there shall be, from the first
 */
export function unpackDeltas(
  bytes: Buffer,
  count: number,
  wanted = count,
): { readonly numbers: Float64Array; readonly end: number } | null {
  const numbers = new Float64Array(wanted)
  if (count === 0) return { numbers, end: bytes.length }
  const parts = DeltaParts.open(bytes)
  if (parts === null) return null
  if (wanted > 0) numbers[0] = parts.value
  for (let done = 1; done < count; done += parts.size) {
    if (!parts.next()) return null
    if (done < wanted) parts.take(numbers, done, Math.min(wanted, done + parts.size))
  }
  return { numbers, end: parts.end }
}

/**
 * As `unpackDeltas`, of some places, each later than the one before: of the numbers between them only the sum is made,
 * and what is behind the last is not read.
 */
export function pickDeltas(bytes: Buffer, places: readonly number[]): number[] | null {
  const picked: number[] = []
  if (places.length === 0) return picked
  const parts = DeltaParts.open(bytes)
  if (parts === null) return null
  if (places[0] === 0) picked.push(parts.value)
  const { size } = parts
  const numbers = new Float64Array(size)
  for (let done = 1; picked.length < places.length; done += size) {
    if (!parts.next()) return null
    if (places[picked.length]! >= done + size) {
      parts.pass()
      continue
    }
    parts.take(numbers, 0, Math.min(size, places.at(-1)! + 1 - done))
    for (let place = places[picked.length]!; place < done + size; place = places[picked.length]!)
      picked.push(numbers[place - done]!)
  }
  return picked
}

/** Numbers by their differences: blocks of parts, of which each has its width. */
class DeltaParts {
  /** The last number so far. */
  value: number
  /** Numbers of a part. */
  readonly size: number
  readonly #parts: number
  readonly #reader: ByteReader
  readonly #view: DataView
  readonly #narrow: Int32Array
  readonly #wide: Float64Array
  /** Of the block. */
  #least = 0
  #widthsAt = 0
  #nextPart: number
  /** Of the part. */
  #from = 0
  #width = 0

  private constructor(reader: ByteReader, parts: number, size: number, first: number) {
    this.value = first
    this.size = size
    this.#parts = parts
    this.#nextPart = parts
    this.#reader = reader
    const { bytes } = reader
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    this.#narrow = new Int32Array(size)
    this.#wide = new Float64Array(size)
  }

  /** Reads the first number. Null: it is not exact here. */
  static open(bytes: Buffer): DeltaParts | null {
    const reader = { bytes, at: 0 }
    const blockSize = varint(reader)
    const parts = varint(reader)
    varint(reader)
    const first = zigzag(reader)
    return isExact(first) ? new DeltaParts(reader, parts, Math.floor(blockSize / parts), first) : null
  }

  /** Where what was gone to ends. */
  get end(): number {
    return this.#reader.at
  }

  /** Goes to the next part. @returns whether it can be read here */
  next(): boolean {
    if (this.#nextPart === this.#parts) {
      this.#least = zigzag(this.#reader)
      if (!isExact(this.#least)) return false
      this.#widthsAt = this.#reader.at
      this.#reader.at += this.#parts
      this.#nextPart = 0
    }
    this.#width = this.#reader.bytes[this.#widthsAt + this.#nextPart++]!
    this.#from = this.#reader.at
    this.#reader.at += (this.size * this.#width) >>> 3
    return this.#width <= 32
  }

  /** Reads the numbers of the part, or the first of them. */
  take(into: Float64Array, from: number, to: number): void {
    const least = this.#least
    let value = this.value
    if (this.#width === 0) for (let at = from; at < to; at += 1) into[at] = value += least
    else if (this.#width <= NARROW_BITS_MAX) {
      unpackNarrow(this.#view, this.#from, this.#width, this.#narrow)
      for (let at = from; at < to; at += 1) into[at] = value += least + this.#narrow[at - from]!
    } else {
      unpackWide(this.#view, this.#from, this.#width, to - from, this.#wide)
      for (let at = from; at < to; at += 1) into[at] = value += least + this.#wide[at - from]!
    }
    this.value = value
  }

  /** Comes to the last number of the part. */
  pass(): void {
    const { size } = this
    let sum = size * this.#least
    if (this.#width > NARROW_BITS_MAX) {
      unpackWide(this.#view, this.#from, this.#width, size, this.#wide)
      for (let at = 0; at < size; at += 1) sum += this.#wide[at]!
    } else if (this.#width > 0) {
      unpackNarrow(this.#view, this.#from, this.#width, this.#narrow)
      for (let at = 0; at < size; at += 1) sum += this.#narrow[at]!
    }
    this.value += sum
  }
}

/**
 * Numbers of so many bits after another, up to 24: each is within four bytes. To read these anew for each number is
 * three times as fast as to keep what is left of the bytes before; eight of them begin where a byte does, which makes
 * it three times as fast again.
 */
function unpackNarrow(view: DataView, from: number, width: number, into: Int32Array): void {
  const mask = (1 << width) - 1
  const eights = Math.min(into.length >>> 3, Math.floor((view.byteLength - from - 4) / width))
  const [b1, b2, b3, b4] = [width, 2 * width, 3 * width, 4 * width]
  const [b5, b6, b7] = [5 * width, 6 * width, 7 * width]
  let number = 0
  for (let at = from; number < eights * 8; number += 8, at += width) {
    into[number] = view.getInt32(at, true) & mask
    into[number + 1] = (view.getInt32(at + (b1 >>> 3), true) >>> (b1 & 7)) & mask
    into[number + 2] = (view.getInt32(at + (b2 >>> 3), true) >>> (b2 & 7)) & mask
    into[number + 3] = (view.getInt32(at + (b3 >>> 3), true) >>> (b3 & 7)) & mask
    into[number + 4] = (view.getInt32(at + (b4 >>> 3), true) >>> (b4 & 7)) & mask
    into[number + 5] = (view.getInt32(at + (b5 >>> 3), true) >>> (b5 & 7)) & mask
    into[number + 6] = (view.getInt32(at + (b6 >>> 3), true) >>> (b6 & 7)) & mask
    into[number + 7] = (view.getInt32(at + (b7 >>> 3), true) >>> (b7 & 7)) & mask
  }
  for (; number < into.length; number += 1) {
    const bit = number * width
    into[number] = (wordAt(view, from + (bit >>> 3)) >>> (bit & 7)) & mask
  }
}

/** Four bytes, of which some may be behind the end. */
function wordAt(view: DataView, from: number): number {
  if (from + 4 <= view.byteLength) return view.getInt32(from, true)
  let word = 0
  for (let at = from; at < view.byteLength; at += 1) word |= view.getUint8(at) << ((at - from) * 8)
  return word
}

/** The same, up to 32. */
function unpackWide(view: DataView, from: number, width: number, count: number, into: Float64Array): void {
  for (let number = 0, bit = 0; number < count; number += 1, bit += width) {
    const at = from + (bit >>> 5) * 4
    const within = bit & 31
    let one = view.getUint32(at, true) >>> within
    if (within + width > 32) one |= view.getUint32(at + 4, true) << (32 - within)
    into[number] = width === 32 ? one >>> 0 : (one & (2 ** width - 1)) >>> 0
  }
}

interface ByteReader {
  readonly bytes: Buffer
  at: number
}

/** Below 2^53. */
function varint(reader: ByteReader): number {
  let value = 0
  for (let scale = 1; ; scale *= 128) {
    const byte = reader.bytes[reader.at++]
    if (byte === undefined) throw new Error('usage: a page is cut short')
    value += (byte & 127) * scale
    if (byte < 128) return value
  }
}

/** Folded it takes less than 53 bits. */
function isExact(value: number): boolean {
  return Math.abs(value) < 2 ** 51
}

function zigzag(reader: ByteReader): number {
  const value = varint(reader)
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2
}
