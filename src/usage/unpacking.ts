import { zstdDecompressSync } from 'node:zlib'
import type { ColumnMetaData, PageHeader } from 'hyparquet'
import { parquetHeader } from 'hyparquet/src/column.js'
import {
  NARROW_BITS_MAX,
  pickDeltas,
  pickHybrid,
  ranksIn,
  unpackDeltas,
  unpackHybrid,
} from './unpacking-numbers.ts'

/*
 * Columns as `packing.ts` writes them, read into typed arrays: a general reader makes a value of JavaScript of each
 * row, of numbers even a `BigInt`, which takes ten times as long where a million rows are looked through. Files that
 * were written by others, or otherwise, are for the general reader.
 */

/** Words, and for each row which of them; -1 is null. */
export interface UnpackedWords {
  readonly words: Words
  /** Rows that have none. */
  readonly nulls: number
  readonly indexes: Int32Array<ArrayBuffer>
  /** The same of some rows, each later than the one before. */
  indexesOf(rows: readonly number[]): readonly number[]
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
  const { about, levels, values, words } = opened
  if (about.encoding === 'PLAIN') return null
  if (words !== null)
    return (values[0] ?? 0) > NARROW_BITS_MAX ? null : new PackedWords({ ...opened, words }, rows)
  const isThere = levels === null ? null : unpackHybrid(levels, 1, rows)
  const isOfTexts = about.encoding === 'DELTA_BYTE_ARRAY'
  const unpacked = unpackDeltas(values, rows - about.num_nulls)
  if (unpacked === null) return null
  const { numbers, end } = unpacked
  if (!isOfTexts) return { values: spread(numbers, isThere, new Float64Array(rows).fill(Number.NaN)) }
  return unpackTexts(values.subarray(end), numbers, isThere, rows)
}

/** Which word each row has is unpacked when that is asked for: often the words alone say that no row passes, or all. */
class PackedWords implements UnpackedWords {
  readonly words: Words
  readonly nulls: number
  readonly #chunk: OpenedChunk
  readonly #rows: number
  #indexes: Int32Array<ArrayBuffer> | null = null

  constructor(chunk: OpenedChunk & { readonly words: Words }, rows: number) {
    this.words = chunk.words
    this.nulls = chunk.about.num_nulls
    this.#chunk = chunk
    this.#rows = rows
  }

  get indexes(): Int32Array<ArrayBuffer> {
    this.#indexes ??= this.#unpacked()
    return this.#indexes
  }

  indexesOf(rows: readonly number[]): readonly number[] {
    if (this.#indexes !== null) return rows.map((row) => this.#indexes![row]!)
    const { levels, values } = this.#chunk
    const ranks = levels === null ? rows : ranksIn(levels, rows)
    return spreadPicked(ranks, pickHybrid(values.subarray(1), values[0] ?? 0, presentIn(ranks)), -1)
  }

  #unpacked(): Int32Array<ArrayBuffer> {
    const { levels, values } = this.#chunk
    const packed = unpackHybrid(values.subarray(1), values[0] ?? 0, this.#rows - this.nulls)
    const isThere = levels === null ? null : unpackHybrid(levels, 1, this.#rows)
    return spread(packed, isThere, new Int32Array(isThere === null ? 0 : this.#rows).fill(-1))
  }
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
  if (words !== null) {
    if ((values[0] ?? 0) > NARROW_BITS_MAX) return null
    const indexes = new PackedWords({ ...opened, words }, rows).indexesOf(wanted)
    return indexes.map((word) => (word < 0 ? null : words.at(word)))
  }
  const ranks = levels === null ? wanted : ranksIn(levels, wanted)
  const present = presentIn(ranks)
  const picked =
    about.encoding === 'DELTA_BYTE_ARRAY'
      ? pickTexts(values, rows - about.num_nulls, present)
      : pickDeltas(values, present)
  return picked && spreadPicked<string | number | null>(ranks, picked, null)
}

function presentIn(ranks: readonly number[]): readonly number[] {
  return ranks.filter((rank) => rank >= 0)
}

/** Puts values where the ranks say that there are some. */
function spreadPicked<Value>(ranks: readonly number[], picked: readonly Value[], otherwise: Value): Value[] {
  let at = 0
  return ranks.map((rank) => (rank < 0 ? otherwise : picked[at++]!))
}

/** As `unpackTexts`, of some places, each later than the one before: of the others nothing is kept. */
function pickTexts(values: Buffer, count: number, places: readonly number[]): string[] | null {
  const wanted = (places.at(-1) ?? -1) + 1
  const shared = unpackDeltas(values, count, wanted)
  if (shared === null) return null
  const bytes = values.subarray(shared.end)
  const rest = unpackDeltas(bytes, count, wanted)
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
