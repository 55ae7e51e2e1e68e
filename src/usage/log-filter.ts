import type { Statistics } from 'hyparquet'
import { USAGE_COLUMNS, type UsageColumn, type UsageColumnName } from '../contracts/usage-record.ts'
import { TextRows, USAGE_SCALES, type UsageRows } from './rows.ts'
import { type UnpackedColumn, type UnpackedTexts, type UnpackedWords, unpackedAt } from './unpacking.ts'

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

type LogWordTest = Exclude<LogTest, { readonly from: number }>

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

/** Where no more than one row in so many is marked, only these are looked at. */
const FEW = 16

interface WordTest {
  readonly column: UnpackedWords
  /** 1 for each word that passes, behind the same of rows without one. */
  readonly passes: Uint8Array
  /** Words that pass, of all. */
  readonly share: number
}

/**
 * Clears the marks of rows that do not pass. Dictionaries are looked at before rows are; then comes the column of which
 * the fewest words pass.
 *
 * @param columnOf null: it has no values
 */
export async function applyTests(
  tests: readonly LogTest[],
  columnOf: (column: LogTest['column']) => Promise<UnpackedColumn | null>,
  marks: Uint8Array,
): Promise<void> {
  const ofWords: WordTest[] = []
  for (const test of tests) {
    if ('from' in test) continue
    const column = await columnOf(test.column)
    if (column !== null && 'values' in column) throw new Error(`usage: ${test.column} has no words`)
    if (column === null || 'lengths' in column) applyToTexts(test, column, marks)
    else {
      const passes = wordsThatPass(test, column)
      const count = passes.subarray(1).reduce((sum, mark) => sum + mark, 0)
      const { length } = column.words
      // Of none, or of all of them, the rows need not be known.
      if (count === 0 && passes[0] === 0) return void marks.fill(0)
      if (count < length || (column.nulls > 0 && passes[0] === 0))
        ofWords.push({ column, passes, share: count / length })
    }
  }
  for (const test of ofWords.sort((one, other) => one.share - other.share)) applyToWords(test, marks)
  for (const test of tests) {
    if (!('from' in test)) continue
    if (!marks.includes(1)) return
    const column = await columnOf(test.column)
    if (column === null) marks.fill(0)
    else if ('values' in column) applyBounds(test, column.values, marks)
    else throw new Error(`usage: ${test.column} has no numbers`)
  }
}

function applyToTexts(test: LogWordTest, column: UnpackedTexts | null, marks: Uint8Array): void {
  const passes = (word: string | null) =>
    'oneOf' in test ? test.oneOf.includes(word) : word === null || !word.startsWith(test.notFrom)
  if (column === null) {
    if (!passes(null)) marks.fill(0)
    return
  }
  for (let row = 0; row < marks.length; row++)
    if (marks[row] === 1 && !passes(unpackedAt(column, row) as string | null)) marks[row] = 0
}

function applyToWords({ column, passes }: WordTest, marks: Uint8Array): void {
  const rows = fewMarked(marks)
  if (rows === null) {
    const { indexes } = column
    for (let row = 0; row < marks.length; row++) if (passes[indexes[row]! + 1] === 0) marks[row] = 0
    return
  }
  const indexes = column.indexesOf(rows)
  for (const [at, row] of rows.entries()) if (passes[indexes[at]! + 1] === 0) marks[row] = 0
}

/** The rows that are marked; null: they are not few. */
function fewMarked(marks: Uint8Array): number[] | null {
  const rows: number[] = []
  for (let row = marks.indexOf(1); row >= 0; row = marks.indexOf(1, row + 1)) {
    if (rows.length * FEW >= marks.length) return null
    rows.push(row)
  }
  return rows
}

function applyBounds(
  { from, to }: { readonly from: number; readonly to: number },
  values: Float64Array,
  marks: Uint8Array,
): void {
  // Of NaN, which is null, neither is true.
  for (let row = 0; row < marks.length; row++)
    if (!(values[row]! >= from && values[row]! < to)) marks[row] = 0
}

/** 1 for each word that passes, behind the same of rows without one. */
function wordsThatPass(test: LogWordTest, { words }: UnpackedWords): Uint8Array {
  const passes = new Uint8Array(words.length + 1)
  const ofWords = passes.subarray(1)
  if ('notFrom' in test) {
    passes[0] = 1
    ofWords.set(words.marks(test.notFrom, false).map((mark) => 1 - mark))
    return passes
  }
  for (const wanted of test.oneOf)
    if (wanted === null) passes[0] = 1
    else for (const [word, mark] of words.marks(wanted, true).entries()) ofWords[word]! |= mark
  return passes
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

/** Whether the bounds of a column of texts, where it has some, leave room for one. */
export function isWithin(text: Buffer, statistics: Statistics | undefined): boolean {
  const { min_value: least, max_value: most } = statistics ?? {}
  return (
    (typeof least !== 'string' || Buffer.compare(Buffer.from(least), text) <= 0) &&
    (typeof most !== 'string' || Buffer.compare(text, Buffer.from(most)) <= 0)
  )
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
