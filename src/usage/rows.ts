import {
  USAGE_COLUMNS,
  type UsageColumn,
  type UsageColumnKind,
  type UsageRecord,
} from '../contracts/usage-record.ts'
import { ROW_COLUMNS, ROW_TEXTS, SHAPE_COLUMNS } from './segment.ts'
import { NUMBER_COLUMNS, type SegmentColumns } from './segment-columns.ts'

/** Decimals of what is whole in memory. */
export const USAGE_SCALES = { seconds: 3, money: 6 } as const

/** Rows for which a column has room at first; it doubles. */
const FIRST_ROWS = 1024

/** Texts that are rarely twice the same. */
export class TextRows {
  readonly values: (string | null)[] = []

  get length(): number {
    return this.values.length
  }

  append(value: unknown): void {
    this.values.push(value as string | null)
  }

  /** Appends rows of a column. */
  appendAll(values: ArrayLike<string | null>, from: number, to: number): void {
    for (let row = from; row < to; row += 1) this.values.push(values[row] ?? null)
  }

  at(row: number): string | null {
    return this.values[row] ?? null
  }

  clear(): void {
    this.values.length = 0
  }
}

/** Texts of few values: each value once, and for each row which of them; -1 is null. */
export class WordRows {
  words: string[] = []
  indexes = new Int32Array(FIRST_ROWS)
  length = 0
  readonly #numbers = new Map<string, number>()
  #last: unknown = null
  #lastNumber = -1

  append(value: unknown): void {
    if (this.length === this.indexes.length) this.indexes = doubled(this.indexes)
    this.indexes[this.length++] = value === this.#last ? this.#lastNumber : this.#numberOf(value)
  }

  appendAll(values: ArrayLike<string | null>, from: number, to: number): void {
    for (let row = from; row < to; row += 1) this.append(values[row] ?? null)
  }

  /** Appends for each row the value that it picks. */
  appendPicked(values: readonly unknown[], picks: Int32Array, from: number, to: number): void {
    while (this.length + to - from > this.indexes.length) this.indexes = doubled(this.indexes)
    // Of those that no row picks no word comes into the dictionary.
    const numbers = new Int32Array(values.length).fill(UNKNOWN)
    for (let row = from; row < to; row += 1) {
      const pick = picks[row]!
      if (numbers[pick] === UNKNOWN) numbers[pick] = this.#numberOf(values[pick])
      this.indexes[this.length++] = numbers[pick]!
    }
  }

  at(row: number): string | null {
    return this.words[this.indexes[row]!] ?? null
  }

  clear(): void {
    this.words = []
    this.length = 0
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

  append(value: unknown): void {
    if (this.length === this.values.length) this.values = doubled(this.values)
    this.values[this.length++] = value === null ? Number.NaN : (value as number)
  }

  appendAll(values: Float64Array, from: number, to: number): void {
    this.#make(to - from)
    this.values.set(values.subarray(from, to), this.length)
    this.length += to - from
  }

  appendPicked(values: readonly unknown[], picks: Int32Array, from: number, to: number): void {
    this.#make(to - from)
    const numbers = Float64Array.from(values, (value) => (value === null ? Number.NaN : (value as number)))
    for (let row = from; row < to; row += 1) this.values[this.length++] = numbers[picks[row]!]!
  }

  at(row: number): number | null {
    const value = this.values[row]!
    return Number.isNaN(value) ? null : value
  }

  clear(): void {
    this.length = 0
  }

  #make(more: number): void {
    while (this.length + more > this.values.length) this.values = doubled(this.values)
  }
}

export class FlagRows {
  values = new Uint8Array(FIRST_ROWS)
  length = 0

  append(value: unknown): void {
    if (this.length === this.values.length) this.values = doubled(this.values)
    this.values[this.length++] = value === true ? 1 : 0
  }

  appendPicked(values: readonly unknown[], picks: Int32Array, from: number, to: number): void {
    while (this.length + to - from > this.values.length) this.values = doubled(this.values)
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

const placesOf = (names: readonly string[]) => new Map(names.map((name, place) => [name, place]))
const SHAPE_PLACES = placesOf(SHAPE_COLUMNS)
const TEXT_PLACES = placesOf(ROW_COLUMNS.slice(0, ROW_TEXTS))
const NUMBER_PLACES = placesOf(NUMBER_COLUMNS)

type ColumnRows = TextRows | WordRows | NumberRows | FlagRows

function doubled<T extends Int32Array | Float64Array | Uint8Array>(values: T): T {
  const room = new (values.constructor as new (length: number) => T)(values.length * 2)
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

  /** Column by column, since a property of one name is looked up faster than of forty. */
  append(records: readonly UsageRecord[]): void {
    for (const [place, column] of USAGE_COLUMNS.entries()) {
      const rows = this.columns[place]!
      for (const record of records) rows.append(record[column.name])
    }
    this.#length += records.length
  }

  /** Appends records of a segment. */
  appendSegment({ shapes, shapeOf, texts, numbers }: SegmentColumns, from: number, to: number): void {
    for (const [place, { name }] of USAGE_COLUMNS.entries()) {
      const column = this.columns[place]!
      const [shaped, text] = [SHAPE_PLACES.get(name), TEXT_PLACES.get(name)]
      if (shaped !== undefined && !(column instanceof TextRows))
        column.appendPicked(
          shapes.map((shape) => shape[shaped]),
          shapeOf,
          from,
          to,
        )
      else if (text !== undefined && (column instanceof TextRows || column instanceof WordRows))
        column.appendAll(texts[text]!, from, to)
      else if (column instanceof NumberRows) column.appendAll(numbers[NUMBER_PLACES.get(name)!]!, from, to)
    }
    this.#length += to - from
  }

  /** Appends rows of another, in the order named. */
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

const placeOf = (wanted: string) => USAGE_COLUMNS.findIndex(({ name }) => name === wanted)
const [RECORD_ID, WORKSPACE, ENDED_AT] = [placeOf('record_id'), placeOf('workspace'), placeOf('ended_at')]

export function recordIdRows({ columns }: UsageRows): TextRows {
  return columns[RECORD_ID] as TextRows
}

export function workspaceRows({ columns }: UsageRows): WordRows {
  return columns[WORKSPACE] as WordRows
}

export function endedAtRows({ columns }: UsageRows): NumberRows {
  return columns[ENDED_AT] as NumberRows
}
