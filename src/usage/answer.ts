import {
  type AggregateTable,
  type DimensionColumn,
  END_USER_DIMENSIONS,
  type LatencyColumn,
  type Numbers,
  USAGE_LATENCIES,
  USAGE_MEASURES,
  type UsageDimension,
  type UsageLatency,
  type UsageMeasure,
} from './aggregate.ts'
import { BUCKETS, percentile } from './histogram.ts'
import { KeyTable } from './key-table.ts'
import { DAY_MS, HOUR_MS } from './names.ts'
import { NumberedTexts, type TextDictionary, wantedTexts } from './texts.ts'

/** A question that aggregates answer. */
export interface UsageQuestion {
  /** Epoch milliseconds at which an hour begins; a day, where it is about end users. */
  readonly fromMs: number
  /** The same, exclusive. */
  readonly toMs: number
  readonly step: UsageStep
  readonly by: readonly UsageDimension[]
  /** Values of which each dimension has one; null: it has none. */
  readonly where: { readonly [Name in UsageDimension]?: readonly (string | null)[] }
  /** The most first. */
  readonly sort: UsageMeasure
  /** Groups to leave out at the beginning, and the most to tell of. */
  readonly offset: number
  readonly limit: number
  /** Only these are told of, each by its values in the order of `by`; absent: as `offset` and `limit` say. */
  readonly groups?: readonly (readonly (string | null)[])[]
  /** Only groups whose first value begins so are told of; the total has all. */
  readonly beginning?: string
}

export const USAGE_STEPS = ['none', 'hour', 'day'] as const
export type UsageStep = (typeof USAGE_STEPS)[number]

export interface UsageAnswer {
  /** How many groups there are, told or not. */
  readonly groups: number
  /** Groups in the order asked for, each in the order of time; those of no record are left out. */
  readonly rows: readonly UsageAnswerRow[]
  /** Of all groups, told or not. */
  readonly total: UsageSums
}

export interface UsageAnswerRow extends UsageSums {
  /** When its hour or day begins; null: the whole time. */
  readonly timeMs: number | null
  /** In the order of `by`. */
  readonly values: readonly (string | null)[]
}

export interface UsageSums {
  /** Whole numbers: money in micro-USD, seconds in milliseconds. */
  readonly sums: Readonly<Record<UsageMeasure, number>>
  /** Null: no record has that latency. Absent: not known of end users. */
  readonly latencies: { readonly [Name in UsageLatency]?: Percentiles | null }
}

/** Milliseconds, to 6.25 %. */
export interface Percentiles {
  readonly p50: number
  readonly p95: number
  readonly p99: number
}

/** The most that there may be of combinations of values; a question of more has to be narrowed. */
export const GROUPS_MAX = 500_000
/** The most rows of an answer: some 2 KB of memory for each. */
export const ANSWER_ROWS_MAX = 10_000

/** A question that has too many groups. */
export class TooManyGroups extends Error {}

/** The table that has the answer to a question. */
export function tableFor({ by, where }: Pick<UsageQuestion, 'by' | 'where'>): 'calls' | 'endUsers' {
  return by.includes('end_user') || where.end_user !== undefined ? 'endUsers' : 'calls'
}

/** Dimensions that a question of end users can name. */
export function isOfEndUsers(dimension: UsageDimension): boolean {
  return END_USER_DIMENSIONS.some((name) => name === dimension)
}

export function stepMs(step: Exclude<UsageStep, 'none'>): number {
  return step === 'hour' ? HOUR_MS : DAY_MS
}

/** How many steps the time of a question has. */
export function stepsOf({ fromMs, toMs, step }: Pick<UsageQuestion, 'fromMs' | 'toMs' | 'step'>): number {
  if (step === 'none') return 1
  const length = stepMs(step)
  return Math.max(0, Math.ceil(toMs / length) - Math.floor(fromMs / length))
}

/** The most groups that an answer tells of. */
export function groupsMax(question: Pick<UsageQuestion, 'fromMs' | 'toMs' | 'step'>): number {
  return Math.floor(ANSWER_ROWS_MAX / Math.max(1, stepsOf(question)))
}

/**
 * Answers a question from tables. They are looked at twice: to find the groups, and to add up those that are told of.
 *
 * @param tables gives the same tables each time that it is called, in any order
 * @param grouping of the same tables, maybe for another question of the same groups
 * @throws TooManyGroups
 */
export async function answerFrom(
  question: UsageQuestion,
  tables: Tables,
  grouping = new Grouping(question),
): Promise<UsageAnswer> {
  const { sort, offset, groups, beginning = '' } = question
  const { whole, total } = await grouping.sums(sort, tables)
  const times = new Times(question)
  const limit = Math.min(question.limit, groupsMax(question))
  const order =
    groups === undefined
      ? grouping.most(offset + limit, beginning, (group) => whole.of(sort, group)).slice(offset)
      : groups.flatMap((values) => grouping.groupOf(values) ?? []).slice(0, limit)
  const place = new Int32Array(grouping.size).fill(-1)
  for (const [at, group] of order.entries()) place[group] = at
  const cells = new Sums(order.length * times.steps, EVERYTHING)
  for await (const table of tables()) {
    const told = toldRows(grouping.groupsOf(table), place)
    for (const [at, row] of told.rows.entries())
      told.groups[at] = told.groups[at]! * times.steps + times.stepAt(table.hours[row]!)
    cells.add(told.rows, told.groups, table)
  }
  const rows = order.flatMap((group, at) => {
    const values = grouping.valuesOf(group)
    const steps = Array.from({ length: times.steps }, (_, step) => ({ step, cell: at * times.steps + step }))
    return steps
      .filter(({ cell }) => cells.of('calls', cell) > 0)
      .map(({ step, cell }) => ({ timeMs: times.startOf(step), values, ...cells.told(cell) }))
  })
  return { groups: grouping.size, rows, total: total.told(0) }
}

/** The rows whose groups have a place in the answer, with that. */
function toldRows({ rows, groups }: GroupedRows, place: Int32Array): GroupedRows {
  let count = 0
  for (let at = 0; at < groups.length; at += 1) if (place[groups[at]!]! >= 0) count += 1
  const told = { rows: new Uint32Array(count), groups: new Int32Array(count) }
  for (let at = 0, to = 0; to < count; at += 1) {
    if (place[groups[at]!]! < 0) continue
    told.rows[to] = rows[at]!
    told.groups[to] = place[groups[at]!]!
    to += 1
  }
  return told
}

/** The steps of a question. */
class Times {
  readonly steps: number
  /** 0: there is one step, the whole time. */
  readonly #hoursPerStep: number
  readonly #first: number

  constructor(question: UsageQuestion) {
    const { step, fromMs } = question
    this.steps = stepsOf(question)
    this.#hoursPerStep = step === 'none' ? 0 : stepMs(step) / HOUR_MS
    this.#first = step === 'none' ? 0 : Math.floor(fromMs / stepMs(step))
  }

  stepAt(hour: number): number {
    return this.#hoursPerStep === 0 ? 0 : Math.floor(hour / this.#hoursPerStep) - this.#first
  }

  startOf(step: number): number | null {
    return this.#hoursPerStep === 0 ? null : (this.#first + step) * this.#hoursPerStep * HOUR_MS
  }
}

/** Rows of which it is known to which group they belong when they are looked at again: 24 MB. */
const KNOWN_ROWS_MAX = 3_000_000

/** Rows of a table that are asked for, and the group of each. */
interface GroupedRows {
  readonly rows: Uint32Array
  readonly groups: Int32Array
}

/** A dimension of a table: the places of values of its rows, and the number of each value. */
interface GroupingColumn {
  /** Absent: no row has one. */
  readonly indices: Numbers | undefined
  readonly numbers: Uint32Array
}

/** What of a question says which groups there are. */
type GroupedBy = Pick<UsageQuestion, 'fromMs' | 'toMs' | 'by' | 'where'>

/** Gives tables, the same each time. */
type Tables = () => AsyncIterable<AggregateTable> | Iterable<AggregateTable>

/** What the rows of a question come to. */
interface GroupingSums {
  /** Each group, by the measure that was asked for. */
  readonly whole: Sums
  /** All of them together. */
  readonly total: Sums
}

/** Numbers the groups of a question, over all tables, and adds them up. */
export class Grouping {
  readonly #question: GroupedBy
  readonly #groups: KeyTable
  readonly #key: Uint32Array
  readonly #values: readonly Values[]
  /** By one dimension, the group of each value; -1: no row had it. */
  #byValue = new Int32Array(0)
  /** Of tables that are there still when they are looked at again. */
  readonly #known = new WeakMap<AggregateTable, GroupedRows>()
  #knownRows = 0
  /** By measure, as other questions of the same groups may ask for it, too. */
  readonly #sums = new Map<UsageMeasure, Promise<GroupingSums>>()

  constructor(question: GroupedBy) {
    this.#question = question
    this.#groups = new KeyTable(Math.max(1, question.by.length))
    this.#key = new Uint32Array(Math.max(1, question.by.length))
    this.#values = question.by.map(() => new Values())
  }

  get size(): number {
    return this.#groups.size
  }

  /** @throws TooManyGroups, and what reading throws */
  async sums(measure: UsageMeasure, tables: Tables): Promise<GroupingSums> {
    const begun = this.#sums.get(measure)
    // What another question reads is over when that question is.
    const known = begun && (await begun.catch(() => null))
    if (known) return known
    const sums = this.#addUp(measure, tables)
    this.#sums.set(measure, sums)
    return sums
  }

  async #addUp(measure: UsageMeasure, tables: Tables): Promise<GroupingSums> {
    const whole = new Sums(1, { measures: [measure], withLatencies: false })
    const total = new Sums(1, EVERYTHING)
    for await (const table of tables()) {
      const { rows, groups } = this.groupsOf(table)
      whole.grow(this.size)
      whole.add(rows, groups, table)
      total.add(rows, null, table)
    }
    return { whole, total }
  }

  groupsOf(table: AggregateTable): GroupedRows {
    const known = this.#known.get(table)
    if (known !== undefined) return known
    const grouped = this.#groupsIn(table)
    this.#knownRows += grouped.rows.length
    if (this.#knownRows <= KNOWN_ROWS_MAX) this.#known.set(table, grouped)
    return grouped
  }

  #groupsIn(table: AggregateTable): GroupedRows {
    const rows = this.#meantRows(table)
    const columns = this.#question.by.map((name, index) => {
      const column = table.dimensions[name]
      return { indices: column?.indices, numbers: this.#values[index]!.numbersOf(column) }
    })
    const [first, ...others] = columns
    const groups =
      first?.indices !== undefined && others.length === 0
        ? this.#groupsByOne(rows, first.indices, first.numbers)
        : this.#groupsByAll(rows, columns)
    if (this.#groups.size > GROUPS_MAX) throw new TooManyGroups(`over ${GROUPS_MAX} groups`)
    return { rows, groups }
  }

  /** By one dimension each value is a group, which is looked up once. */
  #groupsByOne(rows: Uint32Array, indices: Numbers, numbers: Uint32Array): Int32Array {
    const groups = new Int32Array(rows.length)
    const byValue = this.#groupsByValue()
    for (let at = 0; at < rows.length; at += 1) {
      const value = numbers[indices[rows[at]!]!]!
      let group = byValue[value]!
      if (group < 0) {
        this.#key[0] = value
        group = this.#groups.numberOf(this.#key)
        byValue[value] = group
      }
      groups[at] = group
    }
    return groups
  }

  /** Room for the groups of all values that were met. */
  #groupsByValue(): Int32Array {
    const values = this.#values[0]!.texts.length
    if (this.#byValue.length < values) {
      const larger = new Int32Array(2 * values).fill(-1)
      larger.set(this.#byValue)
      this.#byValue = larger
    }
    return this.#byValue
  }

  #groupsByAll(rows: Uint32Array, columns: readonly GroupingColumn[]): Int32Array {
    const groups = new Int32Array(rows.length)
    if (columns.length === 0) {
      if (rows.length > 0) groups.fill(this.#groups.numberOf(this.#key))
      return groups
    }
    for (let at = 0; at < rows.length && this.#groups.size <= GROUPS_MAX; at += 1) {
      const row = rows[at]!
      for (let index = 0; index < columns.length; index += 1) {
        const { indices, numbers } = columns[index]!
        this.#key[index] = numbers[indices?.[row] ?? 0]!
      }
      groups[at] = this.#groups.numberOf(this.#key)
    }
    return groups
  }

  /** Null: no row has these values. */
  groupOf(values: readonly (string | null)[]): number | null {
    for (const [index, value] of values.entries()) {
      const number = this.#values[index]?.find(value) ?? null
      if (number === null) return null
      this.#key[index] = number
    }
    return this.#groups.find(this.#key)
  }

  valuesOf(group: number): (string | null)[] {
    return this.#values.map(({ texts }, index) => texts[this.#groups.part(group, index)] ?? null)
  }

  /**
   * So many groups whose first value begins so, by a figure, the most first, and where they have the same by their
   * values.
   */
  most(count: number, beginning: string, figureOf: (group: number) => number): number[] {
    const texts = this.#values.map((values) => values.texts)
    const all = Array.from({ length: this.size }, (_, group) => group)
    const isMeant = (group: number) => texts[0]?.[this.#groups.part(group, 0)]?.startsWith(beginning)
    const meant = beginning === '' ? all : all.filter(isMeant)
    // To put all in order takes ten times as long as to find those that are told of.
    const least = Float64Array.from(meant, figureOf).sort()[meant.length - count] ?? Number.NEGATIVE_INFINITY
    const order = meant
      .filter((group) => figureOf(group) >= least)
      .sort((a, b) => {
        const difference = figureOf(b) - figureOf(a)
        if (difference !== 0) return difference
        for (const [index, values] of texts.entries()) {
          const [one, other] = [values[this.#groups.part(a, index)], values[this.#groups.part(b, index)]]
          if (one !== other) return (one ?? '') < (other ?? '') ? -1 : 1
        }
        return 0
      })
    return order.slice(0, count)
  }

  /** The rows that are of the time, and have the values, that are asked for. */
  #meantRows({ rows, hours, dimensions }: AggregateTable): Uint32Array {
    const { fromMs, toMs, where } = this.#question
    const [fromHour, toHour] = [fromMs / HOUR_MS, toMs / HOUR_MS]
    const marks = new Uint8Array(rows).fill(1)
    for (let row = 0; row < rows; row += 1) {
      const hour = hours[row]!
      if (hour < fromHour || hour >= toHour) marks[row] = 0
    }
    for (const [name, values] of Object.entries(where)) {
      const column = dimensions[name as UsageDimension]
      const wanted = new Set(values)
      if (column === undefined) {
        if (!wanted.has(null)) marks.fill(0)
        continue
      }
      const { indices } = column
      const ofTexts = wantedTexts(column.values, wanted)
      const ofNull = wanted.has(null) ? 1 : 0
      for (let row = 0; row < rows; row += 1) {
        const place = indices[row]!
        if ((place === 0 ? ofNull : ofTexts[place - 1]) === 0) marks[row] = 0
      }
    }
    let count = 0
    for (let row = 0; row < rows; row += 1) count += marks[row]!
    if (count === rows) return firstNumbers(rows)
    const meant = new Uint32Array(count)
    for (let row = 0, at = 0; at < count; row += 1) if (marks[row] === 1) meant[at++] = row
    return meant
  }
}

let ordinals = new Uint32Array(0)

/** The numbers from 0 on. Nobody writes into them. */
function firstNumbers(count: number): Uint32Array {
  if (ordinals.length < count) {
    ordinals = new Uint32Array(2 * count)
    for (let at = 0; at < ordinals.length; at += 1) ordinals[at] = at
  }
  return ordinals.subarray(0, count)
}

/** Numbers the values of a dimension, over all tables; null is 0. */
class Values {
  readonly texts: (string | null)[] = [null]
  readonly #numbers = new Map<string, number>()
  /** The same by the numbers that texts have elsewhere; 0: not known yet. */
  readonly #byText = new Map<TextDictionary, Int32Array<ArrayBuffer>>()

  /** Null: no table had it. */
  find(value: string | null): number | null {
    return value === null ? 0 : (this.#numbers.get(value) ?? null)
  }

  /** By the index of a column, the number of its value. */
  numbersOf(column: DimensionColumn | undefined): Uint32Array {
    const values = column?.values ?? []
    const numbers = new Uint32Array(values.length + 1)
    if (!(values instanceof NumberedTexts)) {
      for (let at = 0; at < values.length; at += 1) numbers[at + 1] = this.#numberOf(values.at(at)!)
      return numbers
    }
    const { dictionary, numbers: texts } = values
    const known = this.#knownOf(dictionary)
    for (let at = 0; at < texts.length; at += 1) {
      const text = texts[at]!
      if (known[text] === 0) known[text] = this.#numberOf(dictionary.textOf(text))
      numbers[at + 1] = known[text]!
    }
    return numbers
  }

  #numberOf(value: string): number {
    const known = this.#numbers.get(value)
    if (known !== undefined) return known
    const number = this.texts.push(value) - 1
    this.#numbers.set(value, number)
    return number
  }

  #knownOf(dictionary: TextDictionary): Int32Array {
    const known = this.#byText.get(dictionary)
    if (known !== undefined && known.length >= dictionary.size) return known
    const larger = new Int32Array(dictionary.size)
    if (known !== undefined) larger.set(known)
    this.#byText.set(dictionary, larger)
    return larger
  }
}

interface SumsOptions {
  /** Others are 0. */
  readonly measures: readonly UsageMeasure[]
  readonly withLatencies: boolean
}

const EVERYTHING: SumsOptions = { measures: USAGE_MEASURES, withLatencies: true }

/** Sums by cell. */
class Sums {
  #size: number
  readonly #measures: readonly UsageMeasure[]
  readonly #sums: { [Name in UsageMeasure]?: Float64Array }
  /** Counts by cell and bucket; null: nobody asks. */
  readonly #latencies: Record<UsageLatency, Uint32Array> | null
  #hasLatencies = false

  constructor(size: number, { measures, withLatencies }: SumsOptions) {
    this.#size = size
    this.#measures = measures
    this.#sums = byName(measures, () => new Float64Array(size))
    this.#latencies = withLatencies ? byName(USAGE_LATENCIES, () => new Uint32Array(size * BUCKETS)) : null
  }

  /** Makes room for cells that there were not before; of one that tells no latencies. */
  grow(size: number): void {
    if (size <= this.#size) return
    this.#size = Math.max(size, this.#size * 2)
    for (const name of this.#measures) {
      const larger = new Float64Array(this.#size)
      larger.set(this.#sums[name]!)
      this.#sums[name] = larger
    }
  }

  /** @param cells of the rows; null: they are all of the first */
  add(rows: Uint32Array, cells: Int32Array | null, { measures, latencies }: AggregateTable): void {
    for (const name of this.#measures) {
      const [added, sums] = [measures[name], this.#sums[name]!]
      if (added === undefined) continue
      if (cells === null) sums[0]! += sumOf(added, rows)
      else for (let at = 0; at < rows.length; at += 1) sums[cells[at]!]! += added[rows[at]!]!
    }
    if (this.#latencies === null) return
    for (const name of USAGE_LATENCIES) {
      const column = latencies[name]
      if (column === undefined) continue
      this.#hasLatencies = true
      addBuckets(this.#latencies[name], column, rows, cells)
    }
  }

  of(measure: UsageMeasure, cell: number): number {
    return this.#sums[measure]?.[cell] ?? 0
  }

  told(cell: number): UsageSums {
    const latencies = this.#latencies
    return {
      sums: byName(USAGE_MEASURES, (name) => this.of(name, cell)),
      latencies:
        latencies === null || !this.#hasLatencies
          ? {}
          : byName(USAGE_LATENCIES, (name) => percentilesOf(latencies[name], cell * BUCKETS)),
    }
  }
}

function sumOf(numbers: Numbers, rows: Uint32Array): number {
  let sum = 0
  if (rows.length === numbers.length) for (let at = 0; at < numbers.length; at += 1) sum += numbers[at]!
  else for (let at = 0; at < rows.length; at += 1) sum += numbers[rows[at]!]!
  return sum
}

function addBuckets(
  sums: Uint32Array,
  { ends, buckets, counts }: LatencyColumn,
  rows: Uint32Array,
  cells: Int32Array | null,
): void {
  for (let place = 0; place < rows.length; place += 1) {
    const row = rows[place]!
    const cell = cells === null ? 0 : cells[place]! * BUCKETS
    const end = ends[row]!
    for (let at = row === 0 ? 0 : ends[row - 1]!; at < end; at += 1) sums[cell + buckets[at]!]! += counts[at]!
  }
}

function percentilesOf(counts: Uint32Array, from: number): Percentiles | null {
  const p50 = percentile(counts, from, 0.5)
  if (p50 === null) return null
  return { p50, p95: percentile(counts, from, 0.95)!, p99: percentile(counts, from, 0.99)! }
}

function byName<const Name extends string, Value>(
  names: readonly Name[],
  make: (name: Name) => Value,
): Record<Name, Value> {
  return Object.fromEntries(names.map((name) => [name, make(name)])) as Record<Name, Value>
}
