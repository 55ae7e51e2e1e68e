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
  readonly words: string[]
  readonly indexes: Int32Array<ArrayBuffer>
}

/** Texts, where they begin in some bytes, and of how many bytes they are; -1 is null. */
export interface UnpackedTexts {
  readonly bytes: Buffer
  readonly starts: Float64Array
  readonly lengths: Float64Array
}

/** Whole numbers as they are written, so decimals without their point; NaN is null. */
export interface UnpackedNumbers {
  readonly values: Float64Array
}

export type UnpackedColumn = UnpackedWords | UnpackedTexts | UnpackedNumbers

/** The value of a row. */
export function unpackedAt(column: UnpackedColumn, row: number): string | number | null {
  if ('words' in column) return column.words[column.indexes[row]!] ?? null
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
 * @param rows  of the row group
 * @param until the row before which it may end, where it is no column of texts
 * @returns     null where it is written in another way
 */
export function unpackColumn(
  chunk: Buffer,
  data: ColumnMetaData,
  rows: number,
  until = rows,
): UnpackedColumn | null {
  if (data.codec !== 'ZSTD' && data.codec !== 'UNCOMPRESSED') return null
  const pages = pagesIn(chunk)
  const last = pages.at(-1)
  const { data_page_header_v2: about } = last?.header ?? {}
  if (last === undefined || about === undefined || about.num_values !== rows) return null
  if (about.repetition_levels_byte_length !== 0) return null
  const levels = about.definition_levels_byte_length
  const isThere = levels === 0 ? null : unpackHybrid(last.bytes.subarray(0, levels), 1, rows)
  const isOfTexts = about.encoding === 'DELTA_BYTE_ARRAY'
  if (levels === 0 && about.num_nulls > 0) return null
  const body = last.bytes.subarray(levels)
  const values = about.is_compressed === false || data.codec !== 'ZSTD' ? body : zstdDecompressSync(body)
  const asked = isOfTexts ? rows : Math.min(rows, until)
  const count = asked === rows ? rows - about.num_nulls : presentIn(isThere, asked)
  if (about.encoding === 'RLE_DICTIONARY' && pages.length === 2) {
    const words = dictionaryIn(pages[0]!, data.codec)
    const packed = unpackHybrid(values.subarray(1), values[0] ?? 0, count)
    if (words === null || packed === null) return null
    return { words, indexes: spread(packed, isThere, new Int32Array(asked).fill(-1)) }
  }
  if (pages.length !== 1) return null
  if (!isOfTexts && about.encoding !== 'DELTA_BINARY_PACKED') return null
  const unpacked = unpackDeltas(values, count)
  if (unpacked === null) return null
  const { numbers, end } = unpacked
  if (!isOfTexts) return { values: spread(numbers, isThere, new Float64Array(asked).fill(Number.NaN)) }
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

/** How many of the first rows have a value. */
function presentIn(isThere: Int32Array | null, rows: number): number {
  if (isThere === null) return rows
  let count = 0
  for (let row = 0; row < rows; row += 1) count += isThere[row]!
  return count
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

function dictionaryIn({ header, bytes }: Page, codec: string): string[] | null {
  const { dictionary_page_header: about } = header
  if (about === undefined) return null
  const page = codec === 'ZSTD' ? zstdDecompressSync(bytes) : bytes
  const words: string[] = []
  for (let at = 0; words.length < about.num_values; ) {
    const end = at + 4 + page.readUInt32LE(at)
    words.push(page.toString('utf8', at + 4, end))
    at = end
  }
  return words
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
  const mask = (1 << width) - 1
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
    let [buffer, bits] = [0, 0]
    for (let at = reader.at; done < most; done += 1) {
      for (; bits < width; bits += 8) buffer |= bytes[at++]! << bits
      values[done] = buffer & mask
      buffer >>>= width
      bits -= width
    }
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
  const partSize = blockSize / parts
  const room = new Float64Array(partSize)
  let value = zigzag(reader)
  if (!isExact(value)) return null
  values[0] = value
  for (let done = 1; done < count; ) {
    const least = zigzag(reader)
    if (!isExact(least)) return null
    const widths = bytes.subarray(reader.at, reader.at + parts)
    reader.at += parts
    for (let part = 0; part < parts && done < count; part += 1) {
      const width = widths[part]!
      if (width > 32) return null
      const differences = unpackBits(bytes, reader.at, width, Math.min(partSize, count - done), room)
      for (let at = 0; at < differences; at += 1, done += 1) {
        value += least + room[at]!
        values[done] = value
      }
      reader.at += (partSize * width) / 8
    }
  }
  return { numbers: values, end: reader.at }
}

/** Numbers of so many bits, up to 32, after another. @returns how many there are */
function unpackBits(bytes: Buffer, from: number, width: number, count: number, into: Float64Array): number {
  if (width === 0) into.fill(0, 0, count)
  else if (width <= NARROW_BITS_MAX) {
    const mask = (1 << width) - 1
    let [buffer, bits, at] = [0, 0, from]
    for (let number = 0; number < count; number += 1) {
      for (; bits < width; bits += 8) buffer |= bytes[at++]! << bits
      into[number] = buffer & mask
      buffer >>>= width
      bits -= width
    }
  } else {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    for (let number = 0, bit = 0; number < count; number += 1, bit += width) {
      const at = from + (bit >>> 5) * 4
      const within = bit & 31
      let one = view.getUint32(at, true) >>> within
      if (within + width > 32) one |= view.getUint32(at + 4, true) << (32 - within)
      into[number] = width === 32 ? one >>> 0 : (one & (2 ** width - 1)) >>> 0
    }
  }
  return count
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
