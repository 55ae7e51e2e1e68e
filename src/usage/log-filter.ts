import type { Statistics } from 'hyparquet'
import { USAGE_COLUMNS, type UsageColumn, type UsageColumnName } from '../contracts/usage-record.ts'
import { NumberRows, TextRows, USAGE_SCALES, type UsageRows, WordRows } from './rows.ts'

type ColumnOf<Kind extends UsageColumn['kind']> = Extract<
  (typeof USAGE_COLUMNS)[number],
  { readonly kind: Kind }
>['name']
export type LogWordColumn = ColumnOf<'word'>
export type LogNumberColumn = ColumnOf<'count' | 'milliseconds' | 'money'>
export type LogIdColumn = ColumnOf<'id'>

/** What a record has to have in one of its columns. Plain data: it goes to another thread. */
export type LogTest =
  /** One of these values; null: none. */
  | { readonly column: LogWordColumn; readonly oneOf: readonly (string | null)[] }
  /** A value that does not begin so, or none. */
  | { readonly column: LogWordColumn; readonly notFrom: string }
  /** A number from `from` to `to`, exclusive, as it is in memory: money in micro-USD. */
  | { readonly column: LogNumberColumn; readonly from: number; readonly to: number }

/** An id, and the columns of which one has to have it. */
export interface LogId {
  readonly value: string
  readonly columns: readonly LogIdColumn[]
}

const PLACES: ReadonlyMap<string, number> = new Map(USAGE_COLUMNS.map(({ name }, place) => [name, place]))

/** The rows of a column. */
export function rowsOf({ columns }: UsageRows, name: UsageColumnName): UsageRows['columns'][number] {
  return columns[PLACES.get(name)!]!
}

/** Clears the marks of rows that do not pass. */
export function applyTest(test: LogTest, rows: UsageRows, marks: Uint8Array): void {
  const column = rowsOf(rows, test.column)
  if ('from' in test) {
    if (!(column instanceof NumberRows)) throw new Error(`usage: ${test.column} has no numbers`)
    const { values } = column
    // Of NaN, which is null, neither is true.
    for (let row = 0; row < marks.length; row++)
      if (!(values[row]! >= test.from && values[row]! < test.to)) marks[row] = 0
    return
  }
  if (!(column instanceof WordRows)) throw new Error(`usage: ${test.column} has no words`)
  const passes = (word: string | null) =>
    'oneOf' in test ? test.oneOf.includes(word) : word === null || !word.startsWith(test.notFrom)
  const ofWords = column.words.map(passes)
  const ofNull = passes(null)
  for (let row = 0; row < marks.length; row++) {
    const index = column.indexes[row]!
    if (!(index < 0 ? ofNull : ofWords[index]!)) marks[row] = 0
  }
}

/** Marks the rows whose column has the id. */
export function markId(value: string, column: LogIdColumn, rows: UsageRows, marks: Uint8Array): void {
  const texts = rowsOf(rows, column)
  if (!(texts instanceof TextRows)) throw new Error(`usage: ${column} has no ids`)
  for (let row = 0; row < marks.length; row++) if (texts.at(row) === value) marks[row] = 1
}

/** Whether the statistics of a column say that none of its rows passes. */
export function excludes(test: LogTest, statistics: Statistics | undefined, rows: number): boolean {
  if (statistics === undefined) return false
  const isEmpty = isWithoutValues(statistics, rows)
  const { min_value: least, max_value: most } = statistics
  if ('notFrom' in test) return false
  if ('from' in test) {
    if (isEmpty) return true
    const [min, max] = [wholeOf(least, test.column), wholeOf(most, test.column)]
    return (max !== null && max < test.from) || (min !== null && min >= test.to)
  }
  const mayBeNull = statistics.null_count === undefined || statistics.null_count > 0n
  return test.oneOf.every((word) => {
    if (word === null) return !mayBeNull
    if (isEmpty) return true
    return (
      (typeof least === 'string' && isBefore(word, least)) ||
      (typeof most === 'string' && isBefore(most, word))
    )
  })
}

/** Whether the statistics of a column say that no row has a value. */
export function isWithoutValues(statistics: Statistics | undefined, rows: number): boolean {
  return statistics?.null_count !== undefined && Number(statistics.null_count) === rows
}

/** A bound of a column of numbers as it is in memory; null: there is none. */
export function wholeOf(bound: Statistics['min_value'], name: string): number | null {
  if (typeof bound !== 'bigint' && typeof bound !== 'number' && !(bound instanceof Date)) return null
  const { kind } = USAGE_COLUMNS[PLACES.get(name)!]!
  const scale = kind === 'money' || kind === 'seconds' ? USAGE_SCALES[kind] : 0
  // A reader of the format gives decimals as they are written.
  return scale === 0 ? Number(bound) : Math.round(Number(bound) * 10 ** scale)
}

/** Texts are in the order of their bytes. */
function isBefore(one: string, other: string): boolean {
  return Buffer.compare(Buffer.from(one), Buffer.from(other)) < 0
}
