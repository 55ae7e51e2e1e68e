import { zstdDecompressSync } from 'node:zlib'
import type { ColumnMetaData, PageHeader } from 'hyparquet'
import { parquetHeader } from 'hyparquet/src/column.js'

/*
 * Columns as `packing.ts` writes them, read into typed arrays: a general reader makes a value of JavaScript of each
 * row, of numbers even a `BigInt`, which takes ten times as long where a million rows are looked through. Files that
 * were written by others, or otherwise, are for the general reader.
 */

/** Words, and for each row which of them; -1 is null. */
export interface UnpackedWords {
  readonly words: Words
  readonly indexes: Int32Array<ArrayBuffer>
}

/** Texts, where they begin in some bytes, and of how many bytes they are; -1 is null. */
export interface UnpackedTexts {
  readonly bytes: Buffer
  readonly starts: ArrayLike<number>
  readonly lengths: ArrayLike<number>
}

/** The words of a dictionary, in its bytes: there may be tens of thousands, of which a question is about one. */
export class Words {
  readonly #page: Buffer
  /** Where each begins, behind its length in four bytes. */
  readonly #starts: Uint32Array

  constructor(page: Buffer, count: number) {
    this.#page = page
    this.#starts = new Uint32Array(count)
    for (let word = 0, at = 0; word < count; word += 1) {
      this.#starts[word] = at + 4
      at += 4 + page.readUInt32LE(at)
    }
  }

  get length(): number {
    return this.#starts.length
  }

  at(word: number): string {
    const start = this.#starts[word]!
    return this.#page.toString('utf8', start, start + this.#lengthOf(word))
  }

  all(): string[] {
    return Array.from(this.#starts, (_, word) => this.at(word))
  }

  /** 1 for each word that is the text, or begins with it. */
  marks(text: string, isWhole: boolean): Uint8Array {
    const bytes = Buffer.from(text)
    const marks = new Uint8Array(this.length)
    for (let word = 0; word < this.length; word += 1) {
      const length = this.#lengthOf(word)
      if (length < bytes.length || (isWhole && length > bytes.length)) continue
      const start = this.#starts[word]!
      let at = 0
      while (at < bytes.length && this.#page[start + at] === bytes[at]) at += 1
      if (at === bytes.length) marks[word] = 1
    }
    return marks
  }

  #lengthOf(word: number): number {
    return this.#page.readUInt32LE(this.#starts[word]! - 4)
  }
}

/** Whole numbers as they are written, so decimals without their point; NaN is null. */
export interface UnpackedNumbers {
  readonly values: Float64Array
}

export type UnpackedColumn = UnpackedWords | UnpackedTexts | UnpackedNumbers

/** The value of a row. */
export function unpackedAt(column: UnpackedColumn, row: number): string | number | null {
  if ('words' in column) {
    const word = column.indexes[row]!
    return word < 0 ? null : column.words.at(word)
  }
  if ('values' in column) return Number.isNaN(column.values[row]!) ? null : column.values[row]!
  const { bytes, starts, lengths } = column
  return lengths[row]! < 0 ? null : bytes.toString('utf8', starts[row]!, starts[row]! + lengths[row]!)
}

interface Page {
  readonly header: PageHeader
  readonly bytes: Buffer
}

/**
 * The rows of a column chunk.
 *
 * @param chunk bytes of its pages
 * @param rows of the row group
 * @returns    null where it is written in another way
 */
export function unpackColumn(chunk: Buffer, data: ColumnMetaData, rows: number): UnpackedColumn | null {
  const opened = openChunk(chunk, data, rows)
  if (opened === null) return null
  const { about, levels, values } = opened
  if (about.encoding === 'PLAIN') return null
  const isThere = levels === null ? null : unpackHybrid(levels, 1, rows)
  const isOfTexts = about.encoding === 'DELTA_BYTE_ARRAY'
  const count = rows - about.num_nulls
  if (opened.words !== null) {
    const packed = unpackHybrid(values.subarray(1), values[0] ?? 0, count)
    if (packed === null) return null
    return { words: opened.words, indexes: spread(packed, isThere, new Int32Array(rows).fill(-1)) }
  }
  const unpacked = unpackDeltas(values, count)
  if (unpacked === null) return null
  const { numbers, end } = unpacked
  if (!isOfTexts) return { values: spread(numbers, isThere, new Float64Array(rows).fill(Number.NaN)) }
  return unpackTexts(values.subarray(end), numbers, isThere, rows)
}

/**
 * Texts of which each begins as the one before.
 *
 * @param bytes  how many bytes each has besides, and these
 * @param shared with how many bytes of the one before each begins
 */
function unpackTexts(
  bytes: Buffer,
  shared: Float64Array,
  isThere: Int32Array | null,
  rows: number,
): UnpackedTexts | null {
  const rest = unpackDeltas(bytes, shared.length)
  if (rest === null) return null
  const lengths = rest.numbers.map((length, at) => length + shared[at]!)
  const texts = Buffer.alloc(lengths.reduce((sum, length) => sum + length, 0))
  const starts = new Float64Array(lengths.length)
  // Byte by byte: they are few, and a call for some of them takes longer.
  for (let text = 0, from = rest.end, to = 0; text < starts.length; text += 1) {
    const before = text === 0 ? 0 : starts[text - 1]!
    const same = shared[text]!
    starts[text] = to
    for (let at = 0; at < same; at += 1) texts[to++] = texts[before + at]!
    for (let left = rest.numbers[text]!; left > 0; left -= 1) texts[to++] = bytes[from++]!
  }
  return {
    bytes: texts,
    starts: spread(starts, isThere, new Float64Array(rows)),
    lengths: spread(lengths, isThere, new Float64Array(rows).fill(-1)),
  }
}

interface OpenedChunk {
  readonly about: NonNullable<PageHeader['data_page_header_v2']>
  /** Which rows have a value; null: all. */
  readonly levels: Buffer | null
  readonly values: Buffer
  /** Null: the values are no numbers of words. */
  readonly words: Words | null
}

/** The one page of values that a column chunk of ours has; null: it is written in another way. */
function openChunk(chunk: Buffer, data: ColumnMetaData, rows: number): OpenedChunk | null {
  if (data.codec !== 'ZSTD' && data.codec !== 'UNCOMPRESSED') return null
  const pages = pagesIn(chunk)
  const last = pages.at(-1)
  const { data_page_header_v2: about } = last?.header ?? {}
  if (last === undefined || about === undefined || about.num_values !== rows) return null
  if (about.repetition_levels_byte_length !== 0) return null
  const length = about.definition_levels_byte_length
  if (length === 0 && about.num_nulls > 0) return null
  const isOfWords = about.encoding === 'RLE_DICTIONARY'
  const isOfFlags = about.encoding === 'PLAIN' && data.type === 'BOOLEAN' && about.num_nulls === 0
  const isOfNumbers = about.encoding === 'DELTA_BINARY_PACKED' || about.encoding === 'DELTA_BYTE_ARRAY'
  if (pages.length !== (isOfWords ? 2 : 1) || !(isOfWords || isOfNumbers || isOfFlags)) return null
  const words = isOfWords ? dictionaryIn(pages[0]!, data.codec) : null
  if (isOfWords && words === null) return null
  const body = last.bytes.subarray(length)
  return {
    about,
    levels: length === 0 ? null : last.bytes.subarray(0, length),
    values:
      about.is_compressed === false || data.codec !== 'ZSTD'
        ? body
        : decompressed(body, last.header.uncompressed_page_size - length),
    words,
  }
}

/**
 * Values of some rows of a column chunk, in the order of the rows. Nothing is made for the others: of some records from
 * here and there, what they take to be read is little more than to decompress them.
 *
 * @param wanted rows of the row group, each later than the one before
 * @returns      null where it is written in another way
 */
export function pickFromColumn(
  chunk: Buffer,
  data: ColumnMetaData,
  rows: number,
  wanted: readonly number[],
): (string | number | boolean | null)[] | null {
  const opened = openChunk(chunk, data, rows)
  if (opened === null) return null
  const { about, levels, values, words } = opened
  if (about.encoding === 'PLAIN') return wanted.map((row) => ((values[row >>> 3]! >>> (row & 7)) & 1) === 1)
  const ranks = levels === null ? wanted : ranksIn(levels, wanted)
  const present = ranks.filter((rank) => rank >= 0)
  const count = rows - about.num_nulls
  const picked =
    words !== null
      ? pickHybrid(values.subarray(1), values[0] ?? 0, present)?.map((word) => words.at(word))
      : about.encoding === 'DELTA_BYTE_ARRAY'
        ? pickTexts(values, count, present)
        : pickDeltas(values, present)
  if (picked === undefined || picked === null) return null
  let at = 0
  return ranks.map((rank) => (rank < 0 ? null : picked[at++]!))
}

/** For each row how many before it have a value; -1: it has none. */
function ranksIn(levels: Buffer, wanted: readonly number[]): number[] {
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

/** As `unpackHybrid`, of some places, each later than the one before. */
function pickHybrid(bytes: Buffer, width: number, places: readonly number[]): number[] | null {
  if (width > NARROW_BITS_MAX) return null
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

/** As `unpackTexts`, of some places, each later than the one before: of the others nothing is kept. */
function pickTexts(values: Buffer, count: number, places: readonly number[]): string[] | null {
  const shared = unpackDeltas(values, count)
  if (shared === null) return null
  const bytes = values.subarray(shared.end)
  const rest = unpackDeltas(bytes, count)
  if (rest === null) return null
  const picked: string[] = []
  // Where the bytes of a text end that it does not share with the one before.
  let end = rest.end
  for (let text = 0; picked.length < places.length; text += 1) {
    end += rest.numbers[text]!
    if (text === places[picked.length]) picked.push(textAt(text, end, bytes, shared.numbers, rest.numbers))
  }
  return picked
}

/** One text, from its last byte to its first: what it shares is in those before it, mostly in few of them. */
function textAt(
  text: number,
  end: number,
  bytes: Buffer,
  shared: Float64Array,
  lengths: Float64Array,
): string {
  let missing = shared[text]! + lengths[text]!
  const room = Buffer.alloc(missing)
  for (let [from, before] = [end, text]; missing > 0; before -= 1) {
    if (before < 0) throw new Error('usage: a text shares what there is not')
    from -= lengths[before]!
    const same = shared[before]!
    for (let at = missing - 1; at >= same; at -= 1) room[at] = bytes[from + at - same]!
    missing = Math.min(missing, same)
  }
  return room.toString('utf8')
}

/** As `unpackDeltas`, of some places, each later than the one before; what is behind the last is not read. */
function pickDeltas(bytes: Buffer, places: readonly number[]): number[] | null {
  const unpacked = unpackDeltas(bytes, (places.at(-1) ?? -1) + 1)
  return unpacked && places.map((place) => unpacked.numbers[place]!)
}

function pagesIn(chunk: Buffer): Page[] {
  const reader = { view: new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength), offset: 0 }
  const pages: Page[] = []
  while (reader.offset < chunk.length) {
    const header = parquetHeader(reader)
    const end = reader.offset + header.compressed_page_size
    pages.push({ header, bytes: chunk.subarray(reader.offset, end) })
    reader.offset = end
  }
  return pages
}

function dictionaryIn({ header, bytes }: Page, codec: string): Words | null {
  const { dictionary_page_header: about } = header
  if (about === undefined) return null
  const page = codec === 'ZSTD' ? decompressed(bytes, header.uncompressed_page_size) : bytes
  return new Words(page, about.num_values)
}

/** Bytes beyond those that come out: without some, there might be more, for which room would be made, too. */
const SPARE_BYTES = 64

/** A page of known size, in one piece: in pieces of the usual size it is put together from a hundred. */
export function decompressed(page: Uint8Array, bytes: number): Buffer {
  return zstdDecompressSync(page, { chunkSize: bytes + SPARE_BYTES })
}

/** Puts the values of the rows that have one where these rows are. */
function spread<Numbers extends Int32Array | Float64Array>(
  values: Numbers,
  isThere: Int32Array | null,
  all: Numbers,
): Numbers {
  if (isThere === null) return values
  for (let row = 0, at = 0; row < all.length; row += 1) if (isThere[row] === 1) all[row] = values[at++]!
  return all
}

/** Widest numbers for which 32 bits hold one that begins within a byte. */
const NARROW_BITS_MAX = 24

/** Runs of one number, and numbers of so many bits after another. Null: they are wider than it can. */
export function unpackHybrid(bytes: Buffer, width: number, count: number): Int32Array<ArrayBuffer> | null {
  if (width > NARROW_BITS_MAX) return null
  const values = new Int32Array(count)
  if (width === 0) return values
  const reader = { bytes, at: 0 }
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
    unpackNarrow(bytes, reader.at, width, values.subarray(done, most))
    done = most
    reader.at = end
  }
  return values
}

/**
 * Numbers by their differences, in blocks, and where these end. Null: a difference takes more than 32 bits, or one of
 * the bases more than are exact here.
 */
export function unpackDeltas(
  bytes: Buffer,
  count: number,
): { readonly numbers: Float64Array; readonly end: number } | null {
  const values = new Float64Array(count)
  if (count === 0) return { numbers: values, end: bytes.length }
  const reader = { bytes, at: 0 }
  const blockSize = varint(reader)
  const parts = varint(reader)
  varint(reader)
  const partSize = Math.floor(blockSize / parts)
  const [narrow, wide] = [new Int32Array(partSize), new Float64Array(partSize)]
  let value = zigzag(reader)
  if (!isExact(value)) return null
  values[0] = value
  for (let done = 1; done < count; ) {
    const least = zigzag(reader)
    if (!isExact(least)) return null
    const widthsAt = reader.at
    reader.at += parts
    for (let part = 0; part < parts && done < count; part += 1) {
      const width = bytes[widthsAt + part]!
      if (width > 32) return null
      const end = Math.min(count, done + partSize)
      const isNarrow = width <= NARROW_BITS_MAX
      if (isNarrow) unpackNarrow(bytes, reader.at, width, narrow)
      else unpackWide(bytes, reader.at, width, end - done, wide)
      for (let at = 0; done < end; at += 1, done += 1) {
        value += least + (isNarrow ? narrow[at]! : wide[at]!)
        values[done] = value
      }
      reader.at += (partSize * width) >>> 3
    }
  }
  return { numbers: values, end: reader.at }
}

/**
 * Numbers of so many bits after another, up to 24: each is within four bytes. To read these anew for each number is
 * three times as fast as to keep what is left of the bytes before.
 */
function unpackNarrow(bytes: Buffer, from: number, width: number, into: Int32Array): void {
  const mask = (1 << width) - 1
  for (let number = 0, bit = 0; number < into.length; number += 1, bit += width) {
    const at = from + (bit >>> 3)
    const word = bytes[at]! | (bytes[at + 1]! << 8) | (bytes[at + 2]! << 16) | (bytes[at + 3]! << 24)
    into[number] = (word >>> (bit & 7)) & mask
  }
}

/** The same, up to 32. */
function unpackWide(bytes: Buffer, from: number, width: number, count: number, into: Float64Array): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
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
