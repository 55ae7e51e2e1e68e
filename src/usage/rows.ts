import {
  USAGE_COLUMNS,
  type UsageColumn,
  type UsageColumnKind,
  type UsageRecord,
} from '../contracts/usage-record.ts'
import { Bytes, type Names, numberIn, type Source, sourceOf, type Texts } from './packing.ts'
import { ROW_COLUMNS, ROW_TEXTS, SHAPE_COLUMNS } from './segment.ts'
import { NUMBER_COLUMNS, RECORD_ID, type SegmentColumns, type SegmentTexts } from './segment-columns.ts'
import { type UnpackedColumn, unpackedAt, Words } from './unpacking.ts'

/** Decimals of what is whole in memory. */
export const USAGE_SCALES = { seconds: 3, money: 6 } as const

/** Rows for which a column has room at first; it doubles. */
const FIRST_ROWS = 1024
const NOTHING = new Int32Array(0)
const NO_NUMBERS = new Float64Array(0)

/** Texts that are rarely twice the same, in UTF-8: those that were appended, or some of a segment where they stand. */
export class TextRows implements Texts {
  readonly #own = new Bytes()
  #viewed: Source | null = null
  names: Names | null = null
  starts: Int32Array = new Int32Array(FIRST_ROWS)
  /** Bytes of each; -1 is null. */
  lengths: Int32Array = new Int32Array(FIRST_ROWS)
  length = 0
  nulls = 0

  /** What they stand in, until something is appended. */
  get source(): Source {
    return this.#viewed ?? sourceOf(this.#own.view())
  }

  append(value: unknown): void {
    const row = this.length
    this.starts = withRoom(this.starts, row + 1)
    this.lengths = withRoom(this.lengths, row + 1)
    this.starts[row] = this.#own.length
    this.lengths[row] = value === null ? -1 : this.#own.text(value as string)
    this.length += 1
    if (value === null) this.nulls += 1
  }

  /** Has nothing but some texts of a segment from now on. @param texts null: none of its records has one */
  view(source: Source, texts: SegmentTexts | null, from: number, to: number): void {
    this.#viewed = source
    this.names = null
    this.starts = texts?.starts.subarray(from, to) ?? NOTHING
    this.lengths = texts?.lengths.subarray(from, to) ?? NOTHING
    this.length = to - from
    this.nulls = texts === null ? this.length : 0
    for (let row = 0; row < this.lengths.length; row += 1) if (this.lengths[row]! < 0) this.nulls += 1
  }

  /** The same of ids of records: those without one of their own are named after their place. */
  viewIds(source: Source, { texts, idPrefix, places }: SegmentColumns, from: number, to: number): void {
    this.view(source, texts[RECORD_ID] ?? null, from, to)
    this.names = { prefix: sourceOf(idPrefix), numbers: places?.subarray(from, to) ?? null, from }
    this.nulls = 0
  }

  at(row: number): string | null {
    const length = this.lengths[row] ?? -1
    if (length < 0)
      return this.names === null ? null : `${this.names.prefix.bytes}${numberIn(this.names, row)}`
    const start = this.starts[row]!
    return this.#viewed === null
      ? this.#own.textOf(start, start + length)
      : this.#viewed.bytes.toString('utf8', start, start + length)
  }

  /** The same, with U+FFFD for what is no UTF-8. */
  mended(): TextRows {
    const mended = new TextRows()
    for (let row = 0; row < this.length; row += 1) mended.append(this.at(row))
    return mended
  }

  clear(): void {
    if (this.#viewed !== null) {
      this.starts = NOTHING
      this.lengths = NOTHING
    }
    this.#viewed = null
    this.names = null
    this.#own.clear()
    this.length = 0
    this.nulls = 0
  }
}

/** Texts of few values: each value once, and for each row which of them; -1 is null. */
export class WordRows {
  words: string[] = []
  #own = new Int32Array(FIRST_ROWS)
  indexes = this.#own
  length = 0
  nulls = 0
  readonly #numbers = new Map<string, number>()
  #last: unknown = null
  #lastNumber = -1

  append(value: unknown): void {
    this.#makeRoom(this.length + 1)
    const index = value === this.#last ? this.#lastNumber : this.#numberOf(value)
    this.indexes[this.length++] = index
    if (index < 0) this.nulls += 1
  }

  /** Has nothing but so many of one value from now on. */
  fill(value: unknown, count: number): void {
    this.clear()
    // All have number 0, and of nulls nothing is looked up.
    this.indexes = this.#numberOf(value) < 0 ? NOTHING : zerosFor(count)
    this.length = count
    this.nulls = value === null ? count : 0
  }

  /** Has nothing but the values that rows pick from now on; -1 picks null. */
  pick(values: readonly unknown[], picks: Int32Array): void {
    this.clear()
    this.#makeRoom(picks.length)
    // Of those that no row picks no word comes into the dictionary.
    const numbers = new Int32Array(values.length).fill(UNKNOWN)
    for (let row = 0; row < picks.length; row += 1) {
      const pick = picks[row]!
      let index = pick < 0 ? -1 : numbers[pick]!
      if (index === UNKNOWN) {
        index = this.#numberOf(values[pick])
        numbers[pick] = index
      }
      if (index < 0) this.nulls += 1
      this.indexes[row] = index
    }
    this.length = picks.length
  }

  at(row: number): string | null {
    return this.words[this.indexes[row]!] ?? null
  }

  clear(): void {
    this.indexes = this.#own
    this.words = []
    this.length = 0
    this.nulls = 0
    this.#numbers.clear()
    this.#last = null
    this.#lastNumber = -1
  }

  #makeRoom(length: number): void {
    this.#own = withRoom(this.#own, length)
    this.indexes = this.#own
  }

  #numberOf(value: unknown): number {
    this.#last = value
    if (value === null) {
      this.#lastNumber = -1
      return -1
    }
    let number = this.#numbers.get(value as string)
    if (number === undefined) {
      number = this.words.length
      this.words.push(value as string)
      this.#numbers.set(value as string, number)
    }
    this.#lastNumber = number
    return number
  }
}

/** Numbers; NaN is null. */
export class NumberRows {
  values: Float64Array = new Float64Array(FIRST_ROWS)
  length = 0
  nulls = 0
  /** Of those that are there. */
  least = Number.POSITIVE_INFINITY
  most = Number.NEGATIVE_INFINITY
  /** Of all rows that `values` has none of; NaN: there are none. */
  #same = Number.NaN
  #own: Float64Array = this.values

  append(value: unknown): void {
    this.#own = withRoom(this.#own, this.length + 1)
    this.values = this.#own
    const number = value === null ? Number.NaN : (value as number)
    this.values[this.length] = number
    this.length += 1
    if (value === null) this.nulls += 1
    if (number < this.least) this.least = number
    if (number > this.most) this.most = number
  }

  /** Has nothing but these from now on. They are not copied. */
  view(values: Float64Array): void {
    let nulls = 0
    let least = Number.POSITIVE_INFINITY
    let most = Number.NEGATIVE_INFINITY
    for (let row = 0; row < values.length; row += 1) {
      const value = values[row]!
      if (value < least) least = value
      if (value > most) most = value
      if (Number.isNaN(value)) nulls += 1
    }
    this.#view(values, values.length, nulls)
    this.least = least
    this.most = most
  }

  /** Has nothing but so many of one value from now on. */
  fill(value: unknown, count: number): void {
    this.#view(NO_NUMBERS, count, value === null ? count : 0)
    if (value !== null) {
      this.#same = value as number
      this.least = value as number
      this.most = value as number
    }
  }

  /** Has nothing but the values that rows pick from now on. */
  pick(values: readonly unknown[], picks: Int32Array): void {
    const numbers = Float64Array.from(values, (value) => (value === null ? Number.NaN : (value as number)))
    this.#own = withRoom(this.#own, picks.length)
    const picked = this.#own.subarray(0, picks.length)
    for (let row = 0; row < picks.length; row += 1) picked[row] = numbers[picks[row]!]!
    this.view(picked)
  }

  at(row: number): number | null {
    const value = this.values[row] ?? this.#same
    return Number.isNaN(value) ? null : value
  }

  clear(): void {
    this.#view(this.#own, 0, 0)
  }

  #view(values: Float64Array, length: number, nulls: number): void {
    this.values = values
    this.#same = Number.NaN
    this.length = length
    this.nulls = nulls
    this.least = Number.POSITIVE_INFINITY
    this.most = Number.NEGATIVE_INFINITY
  }
}

export class FlagRows {
  values = new Uint8Array(FIRST_ROWS)
  length = 0

  append(value: unknown): void {
    this.values = withRoom(this.values, this.length + 1)
    this.values[this.length++] = value === true ? 1 : 0
  }

  /** Has nothing but so many of one value from now on. */
  fill(value: unknown, count: number): void {
    this.values = withRoom(this.values, count)
    this.values.fill(value === true ? 1 : 0, 0, count)
    this.length = count
  }

  /** Has nothing but the values that rows pick from now on. */
  pick(values: readonly unknown[], picks: Int32Array): void {
    this.values = withRoom(this.values, picks.length)
    const flags = Uint8Array.from(values, (value) => (value === true ? 1 : 0))
    for (let row = 0; row < picks.length; row += 1) this.values[row] = flags[picks[row]!]!
    this.length = picks.length
  }

  at(row: number): boolean {
    return this.values[row] === 1
  }

  clear(): void {
    this.length = 0
  }
}

let zeros = new Int32Array(0)

/** Nobody writes into them. */
function zerosFor(count: number): Int32Array<ArrayBuffer> {
  if (zeros.length < count) zeros = new Int32Array(count)
  return zeros
}

/** Of a word that has no number yet. */
const UNKNOWN = -2

const same = (value: unknown) => value

/** From what a reader of Parquet gives to what a record has. */
const TO_MEMORY: Readonly<Record<UsageColumnKind, (value: unknown) => unknown>> = {
  id: same,
  word: same,
  flag: same,
  time: Number,
  count: Number,
  milliseconds: Number,
  seconds: (value) => Math.round((value as number) * 10 ** USAGE_SCALES.seconds),
  money: (value) => Math.round((value as number) * 10 ** USAGE_SCALES.money),
}

/** A value that a reader of Parquet gives, as a record has it. */
export function inMemory(kind: UsageColumnKind, value: unknown): UsageRecord[keyof UsageRecord] {
  return value === null || value === undefined ? null : (TO_MEMORY[kind](value) as string | number | boolean)
}

const placesOf = (names: readonly string[]) => new Map(names.map((name, place) => [name, place]))
const SHAPE_PLACES = placesOf(SHAPE_COLUMNS)
const TEXT_PLACES = placesOf(ROW_COLUMNS.slice(0, ROW_TEXTS))
const NUMBER_PLACES = placesOf(NUMBER_COLUMNS)

type ColumnRows = TextRows | WordRows | NumberRows | FlagRows

/** The same, with room for so many at least. */
function withRoom<T extends Int32Array | Float64Array | Uint8Array>(values: T, length: number): T {
  if (length <= values.length) return values
  const most = Math.max(length, values.length * 2)
  const room = new (values.constructor as new (length: number) => T)(most)
  room.set(values)
  return room
}

function rowsFor({ kind }: UsageColumn): ColumnRows {
  if (kind === 'id') return new TextRows()
  if (kind === 'word') return new WordRows()
  return kind === 'flag' ? new FlagRows() : new NumberRows()
}

/** Records by column, in the order of `USAGE_COLUMNS`: what becomes a row group, or was one. */
export class UsageRows {
  readonly columns: readonly ColumnRows[] = USAGE_COLUMNS.map(rowsFor)
  #length = 0

  get length(): number {
    return this.#length
  }

  /** Has nothing but records of a segment from now on. Most of what they have is not copied. */
  view(segment: SegmentColumns, from: number, to: number): void {
    const { shapes, shapeOf, texts, endUsers, numbers } = segment
    const source = sourceOf(segment.bytes)
    this.#length = to - from
    const used = usedShapes(segment, from, to)
    for (const [place, { name }] of USAGE_COLUMNS.entries()) {
      const column = this.columns[place]!
      const shaped = SHAPE_PLACES.get(name)
      if (column instanceof TextRows) {
        if (name === 'record_id') column.viewIds(source, segment, from, to)
        else column.view(source, texts[TEXT_PLACES.get(name)!] ?? null, from, to)
      } else if (shaped !== undefined) {
        const values = shapes.map((shape) => shape[shaped] ?? null)
        const first = values[used[0]!] ?? null
        if (used.every((shape) => values[shape] === first)) column.fill(first, to - from)
        else column.pick(values, shapeOf.subarray(from, to))
      } else if (column instanceof WordRows) {
        if (endUsers === null) column.fill(null, to - from)
        else column.pick(endUsers.words, endUsers.indexes.subarray(from, to))
      } else if (column instanceof NumberRows) {
        const own = numbers[NUMBER_PLACES.get(name)!] ?? null
        if (own === null) column.fill(null, to - from)
        else column.view(own.subarray(from, to))
      }
    }
  }

  /** Appends rows of another, in the order named. Column by column, since each is of another kind. */
  take(other: UsageRows, rows: readonly number[] | Uint32Array): void {
    for (const [place, column] of this.columns.entries()) {
      const from = other.columns[place]!
      for (const row of rows) column.append(from.at(row))
    }
    this.#length += rows.length
  }

  /** Appends the values of one column, as a reader of Parquet gives them. Every column needs as many. */
  appendColumn(name: string, values: ArrayLike<unknown>): void {
    const place = USAGE_COLUMNS.findIndex((column) => column.name === name)
    const rows = this.columns[place]
    if (rows === undefined) return
    const toMemory = TO_MEMORY[USAGE_COLUMNS[place]!.kind]
    for (let row = 0; row < values.length; row++) {
      const value = values[row] ?? null
      rows.append(value === null ? null : toMemory(value))
    }
  }

  /** Takes the values of one column, which has nothing but these from now on. */
  setColumn(name: string, values: UnpackedColumn): void {
    const rows = this.columns[USAGE_COLUMNS.findIndex((column) => column.name === name)]
    if ('words' in values && rows instanceof WordRows) rows.pick(values.words.all(), values.indexes)
    else if ('values' in values && rows instanceof NumberRows) rows.view(values.values)
    else if ('lengths' in values && rows instanceof TextRows) {
      const [starts, lengths] = [Int32Array.from(values.starts), Int32Array.from(values.lengths)]
      rows.view(sourceOf(values.bytes), { starts, lengths }, 0, lengths.length)
    } else if ('lengths' in values && rows instanceof WordRows)
      for (let row = 0; row < values.lengths.length; row += 1) rows.append(unpackedAt(values, row))
    else throw new Error(`usage: ${name} is of another kind`)
  }

  /** Ends reading: columns that the file did not have are null, but for those that were not asked for. */
  fill(length: number, asked: readonly string[] | undefined): void {
    for (const [place, rows] of this.columns.entries()) {
      if (asked !== undefined && !asked.includes(USAGE_COLUMNS[place]!.name)) continue
      while (rows.length < length) rows.append(null)
    }
    this.#length = length
  }

  record(row: number): UsageRecord {
    const values = USAGE_COLUMNS.map(({ name }, place) => [name, this.columns[place]!.at(row)])
    return Object.fromEntries(values) as UsageRecord
  }

  clear(): void {
    for (const column of this.columns) column.clear()
    this.#length = 0
  }
}

/** Rows that the general reader has read, as those that needed none. */
export function asUnpacked(rows: ColumnRows): UnpackedColumn {
  if (rows instanceof NumberRows) return { values: rows.values.subarray(0, rows.length) }
  if (rows instanceof TextRows)
    return { bytes: rows.source.bytes, starts: rows.starts, lengths: rows.lengths }
  if (rows instanceof FlagRows) throw new Error('usage: flags are read one by one')
  const page = new Bytes()
  for (const word of rows.words) page.prefixed(word)
  const { words, nulls, indexes } = rows
  return {
    words: new Words(page.view(), words.length),
    nulls,
    indexes,
    indexesOf: (some) => some.map((row) => indexes[row]!),
  }
}

/** Shapes that some of the records have. */
function usedShapes({ shapes, shapeOf }: SegmentColumns, from: number, to: number): number[] {
  const isUsed = new Uint8Array(shapes.length)
  for (let row = from; row < to; row += 1) isUsed[shapeOf[row]!] = 1
  return [...shapes.keys()].filter((shape) => isUsed[shape] === 1)
}

const placeOf = (wanted: string) => USAGE_COLUMNS.findIndex(({ name }) => name === wanted)
const [RECORD_IDS, WORKSPACES, ENDED_AT] = [placeOf('record_id'), placeOf('workspace'), placeOf('ended_at')]

export function recordIdRows({ columns }: UsageRows): TextRows {
  return columns[RECORD_IDS] as TextRows
}

/** Ids of a column, where they stand. They are good until rows are appended. */
export function idRows({ columns }: UsageRows, name: 'request_id' | 'trace_id') {
  const { source, starts, lengths, length } = columns[placeOf(name)] as TextRows
  return { bytes: source.bytes, starts, lengths: lengths.subarray(0, length) }
}

export function workspaceRows({ columns }: UsageRows): WordRows {
  return columns[WORKSPACES] as WordRows
}

export function endedAtRows({ columns }: UsageRows): NumberRows {
  return columns[ENDED_AT] as NumberRows
}
