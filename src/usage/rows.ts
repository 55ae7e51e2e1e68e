import { isUtf8 } from 'node:buffer'
import {
  USAGE_COLUMNS,
  type UsageColumn,
  type UsageColumnKind,
  type UsageRecord,
} from '../contracts/usage-record.ts'
import { Bytes } from './packing.ts'
import { ROW_COLUMNS, ROW_TEXTS, SHAPE_COLUMNS } from './segment.ts'
import { NUMBER_COLUMNS, RECORD_ID, type SegmentColumns, type SegmentTexts } from './segment-columns.ts'
import { type UnpackedColumn, type UnpackedWords, unpackedAt } from './unpacking.ts'

/** Decimals of what is whole in memory. */
export const USAGE_SCALES = { seconds: 3, money: 6 } as const

/** Rows for which a column has room at first; it doubles. */
const FIRST_ROWS = 1024

/** Texts that are rarely twice the same: their UTF-8, one behind the other. */
export class TextRows {
  readonly bytes = new Bytes()
  /** Bytes of each; -1 is null. */
  lengths = new Int32Array(FIRST_ROWS)
  /** Where each ends. */
  #ends = new Int32Array(FIRST_ROWS)
  length = 0
  nulls = 0

  append(value: unknown): void {
    this.#add(value === null ? -1 : this.bytes.text(value as string))
  }

  /** Appends texts of a segment; what is no UTF-8 becomes U+FFFD. */
  appendSegment(
    { bytes }: SegmentColumns,
    { starts, lengths }: SegmentTexts,
    from: number,
    to: number,
  ): void {
    const before = this.length
    this.#make(to - from)
    for (let row = from; row < to; row += 1) {
      const start = starts[row]!
      const length = lengths[row]!
      this.#add(length < 0 ? -1 : this.bytes.copy(bytes, start, start + length))
    }
    this.#mend(before)
  }

  /** Appends ids of records of a segment: those without one of their own are named after their place. */
  appendIds(segment: SegmentColumns, from: number, to: number): void {
    const { bytes, texts, idPrefix, places } = segment
    const own = texts[RECORD_ID] ?? null
    const before = this.length
    this.#make(to - from)
    for (let row = from; row < to; row += 1) {
      const length = own === null ? -1 : own.lengths[row]!
      if (length < 0) this.#add(this.bytes.numbered(idPrefix, places === null ? row : places[row]!))
      else this.#add(this.bytes.copy(bytes, own!.starts[row]!, own!.starts[row]! + length))
    }
    this.#mend(before)
  }

  appendNulls(count: number): void {
    this.#make(count)
    this.lengths.fill(-1, this.length, this.length + count)
    this.#ends.fill(this.bytes.length, this.length, this.length + count)
    this.length += count
    this.nulls += count
  }

  at(row: number): string | null {
    const length = this.lengths[row]!
    const end = this.#ends[row]!
    return length < 0 ? null : this.bytes.textOf(end - length, end)
  }

  clear(): void {
    this.bytes.clear()
    this.length = 0
    this.nulls = 0
  }

  /** Writes the texts from a row on again where their bytes are no UTF-8. */
  #mend(from: number): void {
    const start = from === 0 ? 0 : this.#ends[from - 1]!
    if (isUtf8(this.bytes.view(start))) return
    const texts = Array.from({ length: this.length - from }, (_, row) => this.at(from + row))
    this.nulls -= texts.filter((text) => text === null).length
    this.length = from
    this.bytes.cut(start)
    for (const text of texts) this.append(text)
  }

  #make(more: number): void {
    this.lengths = withRoom(this.lengths, this.length + more)
    this.#ends = withRoom(this.#ends, this.length + more)
  }

  #add(length: number): void {
    if (this.length === this.lengths.length) this.#make(1)
    this.lengths[this.length] = length
    this.#ends[this.length] = this.bytes.length
    this.length += 1
    if (length < 0) this.nulls += 1
  }
}

/** Texts of few values: each value once, and for each row which of them; -1 is null. */
export class WordRows {
  words: string[] = []
  indexes = new Int32Array(FIRST_ROWS)
  length = 0
  nulls = 0
  readonly #numbers = new Map<string, number>()
  #last: unknown = null
  #lastNumber = -1

  append(value: unknown): void {
    this.indexes = withRoom(this.indexes, this.length + 1)
    const index = value === this.#last ? this.#lastNumber : this.#numberOf(value)
    this.indexes[this.length++] = index
    if (index < 0) this.nulls += 1
  }

  appendSame(value: unknown, count: number): void {
    const index = this.#numberOf(value)
    this.indexes = withRoom(this.indexes, this.length + count)
    this.indexes.fill(index, this.length, this.length + count)
    this.length += count
    if (index < 0) this.nulls += count
  }

  /** Appends for each row the value that it picks; -1 picks null. */
  appendPicked(values: readonly unknown[], picks: Int32Array, from: number, to: number): void {
    this.indexes = withRoom(this.indexes, this.length + to - from)
    // Of those that no row picks no word comes into the dictionary.
    const numbers = new Int32Array(values.length).fill(UNKNOWN)
    for (let row = from; row < to; row += 1) {
      const pick = picks[row]!
      let index = pick < 0 ? -1 : numbers[pick]!
      if (index === UNKNOWN) {
        index = this.#numberOf(values[pick])
        numbers[pick] = index
      }
      if (index < 0) this.nulls += 1
      this.indexes[this.length++] = index
    }
  }

  /** Takes values as they are where there are none yet; nothing can be appended then. */
  set({ words, indexes }: UnpackedWords): void {
    this.words = words
    this.indexes = indexes
    this.length = indexes.length
  }

  at(row: number): string | null {
    return this.words[this.indexes[row]!] ?? null
  }

  clear(): void {
    this.words = []
    this.length = 0
    this.nulls = 0
    this.#numbers.clear()
    this.#last = null
    this.#lastNumber = -1
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
  values = new Float64Array(FIRST_ROWS)
  length = 0
  nulls = 0

  append(value: unknown): void {
    this.appendSame(value, 1)
  }

  appendSame(value: unknown, count: number): void {
    this.values = withRoom(this.values, this.length + count)
    this.values.fill(value === null ? Number.NaN : (value as number), this.length, this.length + count)
    this.length += count
    if (value === null) this.nulls += count
  }

  appendAll(values: Float64Array, from: number, to: number): void {
    this.values = withRoom(this.values, this.length + to - from)
    this.values.set(values.subarray(from, to), this.length)
    this.length += to - from
    for (let row = from; row < to; row += 1) if (Number.isNaN(values[row]!)) this.nulls += 1
  }

  appendPicked(values: readonly unknown[], picks: Int32Array, from: number, to: number): void {
    const numbers = Float64Array.from(values, (value) => (value === null ? Number.NaN : (value as number)))
    this.appendAll(
      Float64Array.from(picks.subarray(from, to), (pick) => numbers[pick]!),
      0,
      to - from,
    )
  }

  at(row: number): number | null {
    const value = this.values[row]!
    return Number.isNaN(value) ? null : value
  }

  clear(): void {
    this.length = 0
    this.nulls = 0
  }
}

export class FlagRows {
  values = new Uint8Array(FIRST_ROWS)
  length = 0

  append(value: unknown): void {
    this.appendSame(value, 1)
  }

  appendSame(value: unknown, count: number): void {
    this.values = withRoom(this.values, this.length + count)
    this.values.fill(value === true ? 1 : 0, this.length, this.length + count)
    this.length += count
  }

  appendPicked(values: readonly unknown[], picks: Int32Array, from: number, to: number): void {
    this.values = withRoom(this.values, this.length + to - from)
    const flags = Uint8Array.from(values, (value) => (value === true ? 1 : 0))
    for (let row = from; row < to; row += 1) this.values[this.length++] = flags[picks[row]!]!
  }

  at(row: number): boolean {
    return this.values[row] === 1
  }

  clear(): void {
    this.length = 0
  }
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

  /** Appends records of a segment. */
  appendSegment(segment: SegmentColumns, from: number, to: number): void {
    const { shapes, shapeOf, texts, endUsers, numbers } = segment
    if (from === to) return
    const used = usedShapes(segment, from, to)
    for (const [place, { name }] of USAGE_COLUMNS.entries()) {
      const column = this.columns[place]!
      const [shaped, text] = [SHAPE_PLACES.get(name), TEXT_PLACES.get(name)]
      if (column instanceof TextRows) {
        const own = texts[text!] ?? null
        if (name === 'record_id') column.appendIds(segment, from, to)
        else if (own === null) column.appendNulls(to - from)
        else column.appendSegment(segment, own, from, to)
      } else if (shaped !== undefined) {
        const values = shapes.map((shape) => shape[shaped])
        const first = values[used[0]!]
        if (used.every((shape) => values[shape] === first)) column.appendSame(first, to - from)
        else column.appendPicked(values, shapeOf, from, to)
      } else if (column instanceof WordRows) {
        if (endUsers === null) column.appendSame(null, to - from)
        else column.appendPicked(endUsers.words, endUsers.indexes, from, to)
      } else if (column instanceof NumberRows) {
        const own = numbers[NUMBER_PLACES.get(name)!] ?? null
        if (own === null) column.appendSame(null, to - from)
        else column.appendAll(own, from, to)
      }
    }
    this.#length += to - from
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

  /** Takes the values of one column, of which it has none yet, as they are. */
  setColumn(name: string, values: UnpackedColumn): void {
    const rows = this.columns[USAGE_COLUMNS.findIndex((column) => column.name === name)]
    if ('words' in values && rows instanceof WordRows) rows.set(values)
    else if ('values' in values && rows instanceof NumberRows)
      rows.appendAll(values.values, 0, values.values.length)
    else if ('lengths' in values && (rows instanceof TextRows || rows instanceof WordRows))
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

export function workspaceRows({ columns }: UsageRows): WordRows {
  return columns[WORKSPACES] as WordRows
}

export function endedAtRows({ columns }: UsageRows): NumberRows {
  return columns[ENDED_AT] as NumberRows
}
