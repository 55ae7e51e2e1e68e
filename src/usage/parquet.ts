import { constants, zstdCompressSync } from 'node:zlib'
import {
  type AsyncBuffer,
  type ColumnChunk,
  type ColumnMetaData,
  type CompressionCodec,
  type Encoding,
  type FileMetaData,
  type KeyValue,
  parquetMetadata,
  parquetRead,
  type RowGroup,
  type SchemaElement,
  type Statistics,
} from 'hyparquet'
import { ByteWriter, ParquetWriter } from 'hyparquet-writer'
import { writePageHeader } from 'hyparquet-writer/src/datapage.js'
import { deltaBinaryPack } from 'hyparquet-writer/src/delta.js'
import { USAGE_COLUMNS, type UsageColumn, type UsageRecord } from '../contracts/usage-record.ts'
import type { IdFilter } from './id-filters.ts'
import { Bytes, isPackable, packDeltas, packFlags, packHybrid, packSame, packTexts } from './packing.ts'
import { inMemory, NumberRows, TextRows, USAGE_SCALES, UsageRows, WordRows } from './rows.ts'
import { finished } from './segment-columns.ts'
import { decompressed, type UnpackedColumn, type UnpackedTexts, unpackColumn } from './unpacking.ts'

/** What files say that they were written by. */
export const CREATED_BY = 'larkway'

/** Rows of a row group at most. What is written of one is in memory at a time. */
export const GROUP_ROWS = 65_536

/** Words of a column that are a dictionary whatever their share of the rows. */
const DICTIONARY_LEAST = 1_000
/** Bytes from which compressing pays: a frame costs some 20 µs. */
const COMPRESS_LEAST = 512
/** What is left after packing is mostly the ends of ids, which are random: some bits of each character are all. */
const ZSTD = {
  params: {
    [constants.ZSTD_c_compressionLevel]: 1,
    [constants.ZSTD_c_minMatch]: 7,
    [constants.ZSTD_c_hashLog]: 10,
    [constants.ZSTD_c_windowLog]: 17,
  },
}

/** How a column stands in a file: sums of decimals are exact, texts are UTF-8, times are UTC. */
function elementOf({ name, kind, isNullable }: UsageColumn): SchemaElement {
  const repetition_type = isNullable ? 'OPTIONAL' : 'REQUIRED'
  if (kind === 'id' || kind === 'word')
    return {
      name,
      repetition_type,
      type: 'BYTE_ARRAY',
      converted_type: 'UTF8',
      logical_type: { type: 'STRING' },
    }
  if (kind === 'flag') return { name, repetition_type, type: 'BOOLEAN' }
  if (kind === 'time')
    return {
      name,
      repetition_type,
      type: 'INT64',
      converted_type: 'TIMESTAMP_MILLIS',
      logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
    }
  if (kind === 'seconds' || kind === 'money') {
    const decimal = { precision: 18, scale: USAGE_SCALES[kind] }
    return {
      name,
      repetition_type,
      type: 'INT64',
      converted_type: 'DECIMAL',
      logical_type: { type: 'DECIMAL', ...decimal },
      ...decimal,
    }
  }
  return { name, repetition_type, type: 'INT64' }
}

const SCHEMA: SchemaElement[] = [
  { name: 'usage', num_children: USAGE_COLUMNS.length },
  ...USAGE_COLUMNS.map(elementOf),
]

/** Values of a column, packed. */
interface Packed {
  readonly encoding: Encoding
  /** Rows that have no value. */
  readonly nulls: number
  /** Words of the dictionary; without one 0. */
  readonly words: number
  readonly statistics: Statistics
}

const FILE_BYTES = 1024 * 1024

/** Memory in which files are made, one after the other. */
export class PageRoom {
  readonly file = new ByteWriter(FILE_BYTES)
  /** Which rows have a value; then their values; then the dictionary of them. */
  readonly levels = new Bytes()
  readonly values = new Bytes()
  readonly words = new Bytes()
  present = new Uint8Array(0)
  /** Numbers that are there, and those above the least of them. */
  numbers = new Float64Array(0)
  above = new Int32Array(0)
  indexes = new Int32Array(0)

  make(rows: number): void {
    if (rows <= this.present.length) return
    this.present = new Uint8Array(rows)
    this.numbers = new Float64Array(rows)
    this.above = new Int32Array(rows)
    this.indexes = new Int32Array(rows)
  }
}

/** A Parquet file of records that is written into memory. */
export class UsageFileWriter {
  readonly #out: ByteWriter
  readonly #writer: ParquetWriter
  readonly #room: PageRoom

  /** @param room may be that of another file, which nobody needs any more */
  constructor(room = new PageRoom()) {
    this.#room = room
    this.#out = room.file
    this.#out.offset = 0
    this.#out.index = 0
    this.#writer = new ParquetWriter({ writer: this.#out, schema: SCHEMA, createdBy: CREATED_BY })
  }

  get rows(): number {
    return Number(this.#writer.num_rows)
  }

  /** Bytes so far. */
  get bytes(): number {
    return this.#out.offset
  }

  /** Writes a row group. */
  add(rows: UsageRows): void {
    finished(this.adding(rows))
  }

  /** Writes a row group, a column at each step. */
  *adding(rows: UsageRows): Generator<void, void> {
    const count = rows.length
    if (count === 0) return
    this.#room.make(count)
    const from = this.#out.offset
    const columns: ColumnChunk[] = []
    for (const [place, column] of USAGE_COLUMNS.entries()) {
      columns.push(this.#column(column, rows.columns[place]!, count))
      yield
    }
    const bytes = columns.reduce((sum, { meta_data }) => sum + (meta_data?.total_uncompressed_size ?? 0n), 0n)
    this.#end({
      columns,
      total_byte_size: bytes,
      num_rows: BigInt(count),
      total_compressed_size: BigInt(this.#out.offset - from),
    })
  }

  /** Takes a row group of a file as it is: no value of it is read. */
  copy(file: UsageFile, place: number): void {
    const group = file.metadata.row_groups[place]!
    const { from, to } = file.extent(place)
    const moved = BigInt(this.#out.offset - from)
    this.#out.appendBytes(file.bytes.subarray(from, to))
    this.#end({
      ...group,
      columns: group.columns.map((chunk, column) => movedChunk(chunk, SCHEMA[column + 1]!, moved)),
    })
  }

  /** Has the last row group say which ids it may have. */
  filter(filters: readonly IdFilter[]): void {
    const columns = this.#writer.row_groups.at(-1)?.columns ?? []
    for (const { column, bounds, bloom } of filters) {
      const chunk = columns.find(({ meta_data: data }) => data?.path_in_schema[0] === column)
      if (chunk?.meta_data === undefined) continue
      if (bounds !== null) chunk.meta_data.statistics = { ...chunk.meta_data.statistics, ...bounds }
      if (bloom !== null) this.#writer.pendingIndexes.push({ chunk, bloomFilter: bloom.words })
    }
  }

  /** @returns the whole file, in its room, which may be larger */
  finish(pairs: readonly KeyValue[]): Uint8Array<ArrayBuffer> {
    this.#writer.kvMetadata = [...pairs]
    this.#writer.finish()
    return new Uint8Array(this.#out.buffer, 0, this.#out.offset)
  }

  #end(group: RowGroup): void {
    this.#writer.row_groups.push(group)
    this.#writer.num_rows += group.num_rows
  }

  #column(
    { name, kind, isNullable }: UsageColumn,
    rows: UsageRows['columns'][number],
    count: number,
  ): ColumnChunk {
    this.#room.levels.clear()
    this.#room.values.clear()
    this.#room.words.clear()
    const packed = this.#pack(rows, count)
    if (packed.nulls > 0 && !isNullable) throw new Error(`usage: ${name} has no value`)
    if (isNullable) this.#packLevels(packed.nulls, count)
    const bytes = this.#room.values.length + this.#room.words.length
    // Numbers are packed already.
    const mayShrink = (kind === 'id' || kind === 'word') && bytes >= COMPRESS_LEAST
    return this.#write(name, packed, count, mayShrink ? 'ZSTD' : 'UNCOMPRESSED')
  }

  #packLevels(nulls: number, count: number): void {
    if (nulls > 0 && nulls < count) {
      packHybrid(this.#room.levels, this.#room.present, count, 1)
      return
    }
    this.#room.levels.varint(count * 2)
    this.#room.levels.byte(nulls === 0 ? 1 : 0)
  }

  #pack(rows: UsageRows['columns'][number], count: number): Packed {
    if (rows instanceof NumberRows) return this.#packNumbers(rows, count)
    if (rows instanceof WordRows) return this.#packWords(rows, count)
    if (rows instanceof TextRows) return this.#packTexts(rows, count)
    packFlags(this.#room.values, rows.values, count)
    return { encoding: 'PLAIN', nulls: 0, words: 0, statistics: { null_count: 0n } }
  }

  #packNumbers({ values, nulls, least, most }: NumberRows, count: number): Packed {
    if (nulls === count) return nothing(nulls)
    const present = count - nulls
    const numbers = nulls === 0 ? values : this.#presentNumbers(values, count)
    if (least === most) packSame(this.#room.values, least, present)
    else if (isPackable(least, most)) {
      const above = this.#room.above
      for (let at = 0; at < present; at++) above[at] = numbers[at]! - least
      packDeltas(this.#room.values, above, present, least)
    } else this.#packLarge(numbers.subarray(0, present))
    const statistics = { null_count: BigInt(nulls), min_value: BigInt(least), max_value: BigInt(most) }
    return { encoding: 'DELTA_BINARY_PACKED', nulls, words: 0, statistics }
  }

  #presentNumbers(values: Float64Array, count: number): Float64Array {
    let present = 0
    for (let row = 0; row < count; row++) {
      const value = values[row]!
      const isThere = !Number.isNaN(value)
      this.#room.present[row] = isThere ? 1 : 0
      if (isThere) this.#room.numbers[present++] = value
    }
    return this.#room.numbers
  }

  /** Of words and of lengths, none of which is negative unless there is none. */
  #presentIndexes(indexes: Int32Array, count: number): Int32Array {
    let present = 0
    for (let row = 0; row < count; row++) {
      const index = indexes[row]!
      this.#room.present[row] = index < 0 ? 0 : 1
      if (index >= 0) this.#room.indexes[present++] = index
    }
    return this.#room.indexes
  }

  #packLarge(numbers: Float64Array): void {
    const out = new ByteWriter()
    deltaBinaryPack(out, Array.from(numbers, BigInt), 'INT64')
    this.#room.values.append(out.getBytes())
  }

  #packWords({ words, indexes, nulls }: WordRows, count: number): Packed {
    if (nulls === count) return nothing(nulls)
    if (words.length > DICTIONARY_LEAST && words.length > count / 2) {
      const texts = new TextRows()
      for (let row = 0; row < count; row++) texts.append(words[indexes[row]!] ?? null)
      return this.#packTexts(texts, count)
    }
    const ends: number[] = []
    for (const word of words) {
      this.#room.words.prefixed(word)
      ends.push(this.#room.words.length)
    }
    const width = words.length < 2 ? 0 : 32 - Math.clz32(words.length - 1)
    this.#room.values.byte(width)
    packHybrid(
      this.#room.values,
      nulls === 0 ? indexes : this.#presentIndexes(indexes, count),
      count - nulls,
      width,
    )
    const statistics = { null_count: BigInt(nulls), ...this.#boundsOf(words, ends) }
    return { encoding: 'RLE_DICTIONARY', nulls, words: words.length, statistics }
  }

  /** The least and the greatest word by their bytes, as the format orders texts. */
  #boundsOf(words: readonly string[], ends: readonly number[]): Pick<Statistics, 'min_value' | 'max_value'> {
    const bytes = this.#room.words.view()
    const at = (word: number) =>
      bytes.subarray(ends[word]! - bytes.readUInt32LE(ends[word - 1] ?? 0), ends[word])
    let least = 0
    let most = 0
    for (let word = 1; word < words.length; word++) {
      if (at(word).compare(at(least)) < 0) least = word
      if (at(word).compare(at(most)) > 0) most = word
    }
    return { min_value: Uint8Array.from(at(least)), max_value: Uint8Array.from(at(most)) }
  }

  #packTexts(texts: TextRows, count: number): Packed {
    const { nulls } = texts
    if (nulls === count) return nothing(nulls)
    if (nulls > 0) this.#presentIndexes(texts.lengths, count)
    const { values, indexes: shared, above: rest, words: bytes } = this.#room
    if (!packTexts(values, texts, count, { shared, rest, bytes })) {
      values.clear()
      return this.#packTexts(texts.mended(), count)
    }
    // Bounds of ids that are random would keep no reader from reading them.
    return { encoding: 'DELTA_BYTE_ARRAY', nulls, words: 0, statistics: { null_count: BigInt(nulls) } }
  }

  /** Writes the pages of a column: the dictionary, if there is one, and all values in one. */
  #write(name: string, packed: Packed, count: number, codec: CompressionCodec): ColumnChunk {
    const { encoding, nulls, words, statistics } = packed
    const from = this.#out.offset
    const shrink = (bytes: Buffer) => (codec === 'ZSTD' ? zstdCompressSync(bytes, ZSTD) : bytes)
    let uncompressed = 0
    if (words > 0) {
      const page = shrink(this.#room.words.view())
      uncompressed += this.#room.words.length
      writePageHeader(this.#out, {
        type: 'DICTIONARY_PAGE',
        uncompressed_page_size: this.#room.words.length,
        compressed_page_size: page.length,
        dictionary_page_header: { num_values: words, encoding: 'PLAIN' },
      })
      uncompressed += this.#out.offset - from
      this.#out.appendBytes(page)
    }
    const at = this.#out.offset
    const page = shrink(this.#room.values.view())
    writePageHeader(this.#out, {
      type: 'DATA_PAGE_V2',
      uncompressed_page_size: this.#room.levels.length + this.#room.values.length,
      compressed_page_size: this.#room.levels.length + page.length,
      data_page_header_v2: {
        num_values: count,
        num_nulls: nulls,
        num_rows: count,
        encoding,
        definition_levels_byte_length: this.#room.levels.length,
        repetition_levels_byte_length: 0,
        is_compressed: codec === 'ZSTD',
      },
    })
    uncompressed += this.#out.offset - at + this.#room.levels.length + this.#room.values.length
    this.#out.appendBytes(this.#room.levels.view())
    this.#out.appendBytes(page)
    return {
      file_offset: BigInt(from),
      meta_data: {
        type: SCHEMA.find((element) => element.name === name)!.type!,
        encodings: words > 0 ? ['PLAIN', encoding] : [encoding],
        path_in_schema: [name],
        codec,
        num_values: BigInt(count),
        total_uncompressed_size: BigInt(uncompressed),
        total_compressed_size: BigInt(this.#out.offset - from),
        data_page_offset: BigInt(at),
        ...(words > 0 ? { dictionary_page_offset: BigInt(from) } : {}),
        statistics,
      },
    }
  }
}

/** A column of nulls. */
function nothing(nulls: number): Packed {
  return { encoding: 'PLAIN', nulls, words: 0, statistics: { null_count: BigInt(nulls) } }
}

/**
 * A chunk at another place. Statistics of decimals are read as numbers, and are written as whole ones; a Bloom filter
 * stands elsewhere, and is not taken along.
 */
function movedChunk(chunk: ColumnChunk, element: SchemaElement, moved: bigint): ColumnChunk {
  const data = chunk.meta_data
  if (data === undefined) throw new Error('usage: a column without metadata')
  const {
    statistics = {},
    dictionary_page_offset: dictionary,
    bloom_filter_offset: _offset,
    bloom_filter_length: _length,
    ...others
  } = data
  return {
    file_offset: chunk.file_offset + moved,
    meta_data: {
      ...others,
      data_page_offset: data.data_page_offset + moved,
      ...(dictionary === undefined ? {} : { dictionary_page_offset: dictionary + moved }),
      statistics: wholeStatistics(statistics, element),
    },
  }
}

function wholeStatistics(statistics: Statistics, { scale = 0 }: SchemaElement): Statistics {
  const whole = (value: Statistics['min_value']) =>
    typeof value === 'number' ? BigInt(Math.round(value * 10 ** scale)) : value
  const { min_value, max_value, ...others } = statistics
  if (min_value === undefined || max_value === undefined) return others
  return { ...others, min_value: whole(min_value)!, max_value: whole(max_value)! }
}

const PARSERS = {
  timestampFromMilliseconds: Number,
  stringFromBytes: (bytes: Uint8Array) =>
    bytes && Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8'),
}

/** A Parquet file of records in memory. */
export class UsageFile {
  readonly bytes: Uint8Array<ArrayBuffer>
  readonly metadata: FileMetaData

  /** @throws Error when the bytes are no Parquet file of records */
  constructor(bytes: Uint8Array<ArrayBuffer>) {
    this.bytes = bytes
    const { buffer, byteOffset, byteLength } = bytes
    this.metadata = parquetMetadata(buffer.slice(byteOffset, byteOffset + byteLength))
  }

  get groups(): readonly RowGroup[] {
    return this.metadata.row_groups
  }

  /** Whether it has the columns that are written now, so that its row groups can be copied. */
  get hasPresentColumns(): boolean {
    const { schema } = this.metadata
    return (
      schema.length === SCHEMA.length &&
      SCHEMA.every(({ name, type, repetition_type: repetition, scale }, place) => {
        const other = schema[place]!
        return (
          name === other.name &&
          type === other.type &&
          repetition === other.repetition_type &&
          scale === other.scale
        )
      })
    )
  }

  /** Value of a pair of its metadata. */
  pair(key: string): string | null {
    return this.metadata.key_value_metadata?.find((pair) => pair.key === key)?.value ?? null
  }

  extent(place: number): Extent {
    return extentOf(this.metadata.row_groups[place]!)
  }

  /** Texts of a column of ids, where they stand; null: it has none, or they are written in another way. */
  texts(place: number, column: string): UnpackedTexts | null {
    const unpacked = this.#unpacked(place, column)
    return unpacked !== null && 'lengths' in unpacked ? unpacked : null
  }

  /** Rows of a row group, or only some columns of them. */
  async read(place: number, columns?: readonly string[]): Promise<UsageRows> {
    const own = (columns ?? USAGE_COLUMNS.map(({ name }) => name)).map((name) => ({
      name,
      values: this.#unpacked(place, name),
    }))
    const others = own.filter(({ values }) => values === null).map(({ name }) => name)
    const rows = new UsageRows()
    if (others.length > 0) {
      const { metadata, bytes } = this
      const file = {
        byteLength: bytes.length,
        slice: (from: number, to?: number) => bytes.slice(from, to).buffer,
      }
      await readColumns({ file, metadata, place, columns: others }, (name, values) =>
        rows.appendColumn(name, values),
      )
    }
    for (const { name, values } of own) if (values !== null) rows.setColumn(name, values)
    rows.fill(Number(this.groups[place]!.num_rows), columns)
    return rows
  }

  /** A column as we write most of them; null: it needs the general reader. */
  #unpacked(place: number, column: string): UnpackedColumn | null {
    const { columns, num_rows: rows } = this.groups[place]!
    const data = columns.find(({ meta_data: about }) => about?.path_in_schema[0] === column)?.meta_data
    if (data === undefined) return null
    const { from, to } = extentOfChunk(data)
    const { buffer, byteOffset } = this.bytes
    const chunk = Buffer.from(buffer, byteOffset + from, to - from)
    return unpackColumn(chunk, data, Number(rows))
  }
}

/** Bytes of a file; `to` is exclusive. */
interface Extent {
  readonly from: number
  readonly to: number
}

/** Where a row group stands: columns of one are written one behind the other. */
function extentOf(group: RowGroup): Extent {
  const ends = group.columns.map(({ meta_data: data }) => {
    if (data === undefined) throw new Error('usage: a column without metadata')
    return extentOfChunk(data)
  })
  return { from: Math.min(...ends.map(({ from }) => from)), to: Math.max(...ends.map(({ to }) => to)) }
}

export function extentOfChunk(data: ColumnMetaData): Extent {
  const from = Number(data.dictionary_page_offset ?? data.data_page_offset)
  return { from, to: from + Number(data.total_compressed_size) }
}

/** A row group of a file that need not be in memory. */
export interface GroupToRead {
  readonly file: AsyncBuffer
  readonly metadata: FileMetaData
  /** Of the row group. */
  readonly place: number
}

/** What of it is read. */
interface RowsToRead extends GroupToRead {
  /** Absent: all. */
  readonly columns?: readonly string[] | undefined
}

/** Reads rows of a row group, of a file that need not be in memory: only what the columns take is asked for. */
export async function readRows(toRead: RowsToRead): Promise<UsageRows> {
  const rows = new UsageRows()
  const count = await readColumns(toRead, (name, values) => rows.appendColumn(name, values))
  rows.fill(count, toRead.columns)
  return rows
}

/** Values of some rows of a column, as a record has them. */
export async function readPicked(
  toRead: GroupToRead,
  { name, kind }: UsageColumn,
  rows: readonly number[],
): Promise<UsageRecord[keyof UsageRecord][]> {
  const picked: UsageRecord[keyof UsageRecord][] = []
  await readColumns({ ...toRead, columns: [name] }, (_, values, from) => {
    for (const [place, row] of rows.entries())
      if (row >= from && row < from + values.length) picked[place] = inMemory(kind, values[row - from])
  })
  return picked
}

/** @returns rows of the row group */
async function readColumns(
  { file, metadata, place, columns }: RowsToRead,
  take: (name: string, values: ArrayLike<unknown>, fromRow: number) => void,
): Promise<number> {
  const rowStart = metadata.row_groups
    .slice(0, place)
    .reduce((sum, { num_rows }) => sum + Number(num_rows), 0)
  const rowEnd = rowStart + Number(metadata.row_groups[place]!.num_rows)
  await parquetRead({
    file,
    metadata,
    rowStart,
    rowEnd,
    ...(columns === undefined ? {} : { columns: [...columns] }),
    parsers: PARSERS,
    compressors: { ZSTD: decompressed },
    onChunk: ({ columnName, columnData, rowStart: from }) => take(columnName, columnData, from - rowStart),
  })
  return rowEnd - rowStart
}
