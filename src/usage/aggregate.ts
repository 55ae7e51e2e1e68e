import type { UsageRecord } from '../contracts/usage-record.ts'
import { BUCKETS, bucketOf } from './histogram.ts'
import { doubled, KeyTable } from './key-table.ts'
import { DAY_MS, HOUR_MS } from './names.ts'
import { SHAPE_COLUMNS } from './segment.ts'
import { NUMBER_COLUMNS, type SegmentColumns } from './segment-columns.ts'
import type { TextList } from './texts.ts'

/**
 * Aggregates of usage: sums of records by hour (or day) and by what questions are asked of. There are two tables. That
 * of calls has every dimension but the end user, and latencies; it has as many rows as there were combinations, which
 * the configuration bounds. That of end users has the workspace, the end user (or none) and the day alone, since there
 * may be 100,000 of them a day, and each would multiply every other dimension.
 *
 * Both are kept by column, each column in the narrowest numbers that hold it, so that a question runs over some
 * bytes for a row and copies nothing. Sums are whole numbers below 2^53 and therefore exact.
 */
export interface UsageAggregate {
  readonly step: AggregateStep
  readonly calls: AggregateTable
  /** By day, whatever the step. */
  readonly endUsers: AggregateTable
}

export type AggregateStep = 'hour' | 'day'

/** Dimensions of the table of calls, by the names of the columns of records. */
export const CALL_DIMENSIONS = [
  'workspace',
  'app',
  'key_id',
  'purpose',
  'kind',
  'operation',
  'endpoint',
  'route',
  'provider',
  'model',
  'region',
  'outcome',
  'status',
  'error_code',
] as const
export const END_USER_DIMENSIONS = ['workspace', 'end_user'] as const
export type UsageDimension = (typeof CALL_DIMENSIONS)[number] | (typeof END_USER_DIMENSIONS)[number]

/** Columns of records that are added up as they are: money in micro-USD, seconds in milliseconds. */
const SUMMED = [
  'cost_usd',
  'audio_seconds',
  'billable_audio_seconds',
  'video_seconds',
  'input_tokens',
  'output_tokens',
  'characters',
  'images',
  'credits',
] as const

/**
 * What is added up. `errors`: records whose outcome is an error. `unpriced`: those that succeeded, and have no cost
 * because the price or the quantity is not known. `estimated` and `replayed`: those with that flag.
 */
export const USAGE_MEASURES = ['calls', 'errors', 'unpriced', 'estimated', 'replayed', ...SUMMED] as const
export type UsageMeasure = (typeof USAGE_MEASURES)[number]

/** Columns of records of which percentiles can be told. */
export const USAGE_LATENCIES = ['total_ms', 'first_ms'] as const
export type UsageLatency = (typeof USAGE_LATENCIES)[number]

/** The columns of a record that aggregates are made of. */
export type AggregatedRecord = Pick<
  UsageRecord,
  UsageDimension | (typeof SUMMED)[number] | UsageLatency | 'ended_at' | 'estimated' | 'replayed'
>

/** Whole numbers from 0 on, in no more bytes than they need. */
export type Numbers = Uint8Array | Uint16Array | Uint32Array | Float64Array

export interface AggregateTable {
  readonly rows: number
  /** When the hour or the day of each row begins, in hours since the epoch. */
  readonly hours: Numbers
  readonly dimensions: { readonly [Name in UsageDimension]?: DimensionColumn }
  /** Absent: all are 0. */
  readonly measures: { readonly [Name in UsageMeasure]?: Numbers }
  readonly latencies: { readonly [Name in UsageLatency]?: LatencyColumn }
}

export interface DimensionColumn {
  /** In the order of their code units, each once. */
  readonly values: TextList
  /** For each row 0 for null, else the place of its value, counted from 1. */
  readonly indices: Numbers
}

/** Counts by bucket of a histogram, for all rows after another. */
export interface LatencyColumn {
  /** For each row, where its counts end; they begin where those of the row before end. */
  readonly ends: Numbers
  readonly buckets: Uint8Array
  readonly counts: Numbers
}

export const HOURS_PER_DAY = 24
/** Places of `record row × latency × bucket` must stay below 2^32. */
const PLACES_PER_ROW = 512
const ROWS_MAX = 2 ** 32 / PLACES_PER_ROW

const EMPTY_BUILD = 256

/**
 * Adds up records, and other aggregates, in whatever order: the result is the same. A record that comes twice counts
 * twice; telling them apart by `record_id` is for whoever has the records.
 */
export class AggregateBuilder {
  readonly #step: AggregateStep
  readonly #calls: TableBuilder
  readonly #endUsers = new TableBuilder(END_USER_DIMENSIONS)

  constructor({ step = 'hour' }: { readonly step?: AggregateStep } = {}) {
    this.#step = step
    this.#calls = new TableBuilder(CALL_DIMENSIONS)
  }

  add(record: AggregatedRecord): void {
    const hour = Math.floor(record.ended_at / HOUR_MS)
    const day = hour - (hour % HOURS_PER_DAY)
    const row = this.#calls.addRecord(this.#step === 'day' ? day : hour, record)
    for (const [index, latency] of USAGE_LATENCIES.entries()) {
      const ms = record[latency]
      if (ms !== null) this.#calls.count(row, index, bucketOf(ms), 1)
    }
    this.#endUsers.addRecord(day, record)
  }

  /** Adds the records of a segment: what those of one group come to, and that once. */
  addSegment(segment: SegmentColumns): void {
    const shapes = segment.shapes.map(shapedBy)
    const calls = callGroups(segment, shapes, this.#step, this.#calls)
    addSums(this.#calls, calls, segment, shapes)
    for (const [latency, name] of USAGE_LATENCIES.entries())
      countBuckets(calls, numbersIn(segment, name), (row, bucket, count) =>
        this.#calls.count(row, latency, bucket, count),
      )
    addSums(this.#endUsers, endUserGroups(segment, shapes, this.#endUsers), segment, shapes)
  }

  /**
   * @param keeps leaves out the rows of workspaces that it is false for
   * @throws RangeError for one by day where this is by hour
   */
  merge(aggregate: UsageAggregate, keeps: (workspace: string) => boolean = () => true): void {
    if (aggregate.step === 'day' && this.#step === 'hour') throw new RangeError('a day has no hours any more')
    this.#calls.addTable(aggregate.calls, this.#step, keeps)
    this.#endUsers.addTable(aggregate.endUsers, 'day', keeps)
  }

  finish(): UsageAggregate {
    return { step: this.#step, calls: this.#calls.finish(), endUsers: this.#endUsers.finish() }
  }
}

/** The sum of some aggregates, by day where one of them is. */
export function mergeAggregates(aggregates: readonly UsageAggregate[], step: AggregateStep): UsageAggregate {
  const builder = new AggregateBuilder({ step })
  for (const aggregate of aggregates) builder.merge(aggregate)
  return builder.finish()
}

/** A table added up by some of its dimensions, and by day or as it is. */
export function summedTable(
  table: AggregateTable,
  dimensions: readonly UsageDimension[],
  step: AggregateStep,
): AggregateTable {
  const builder = new TableBuilder(dimensions)
  builder.addTable(table, step, () => true)
  return builder.finish()
}

class TableBuilder {
  readonly #dimensions: readonly UsageDimension[]
  readonly #numbers: readonly Map<string, number>[]
  readonly #rows: KeyTable
  readonly #key: Uint32Array
  readonly #sums: Record<UsageMeasure, Float64Array>
  /** Numbers of `row × latency × bucket`. */
  readonly #places = new KeyTable(1)
  readonly #place = new Uint32Array(1)
  #counts = new Float64Array(EMPTY_BUILD)

  constructor(dimensions: readonly UsageDimension[]) {
    this.#dimensions = dimensions
    this.#numbers = dimensions.map(() => new Map())
    this.#rows = new KeyTable(dimensions.length + 1)
    this.#key = new Uint32Array(dimensions.length + 1)
    const empty = USAGE_MEASURES.map((name) => [name, new Float64Array(EMPTY_BUILD)] as const)
    this.#sums = Object.fromEntries(empty) as Record<UsageMeasure, Float64Array>
  }

  /** The row of an hour and values, a new one where there was none. */
  rowOf(hour: number, record: Pick<AggregatedRecord, UsageDimension>): number {
    const key = this.#key
    key[0] = hour
    for (let index = 0; index < this.#dimensions.length; index += 1) {
      const value = record[this.#dimensions[index]!]
      key[index + 1] = value === null ? 0 : this.#numberOf(index, String(value))
    }
    return this.#row()
  }

  sum(row: number, name: UsageMeasure, more: number): void {
    this.#sums[name][row]! += more
  }

  addRecord(hour: number, record: AggregatedRecord): number {
    const row = this.rowOf(hour, record)
    const sums = this.#sums
    sums.calls[row]! += 1
    if (record.outcome === 'error') sums.errors[row]! += 1
    if (record.outcome === 'ok' && record.cost_usd === null && !record.replayed) sums.unpriced[row]! += 1
    if (record.estimated) sums.estimated[row]! += 1
    if (record.replayed) sums.replayed[row]! += 1
    for (const name of SUMMED) {
      const value = record[name]
      if (value !== null) sums[name][row]! += value
    }
    return row
  }

  count(row: number, latency: number, bucket: number, count: number): void {
    this.#place[0] = row * PLACES_PER_ROW + latency * 256 + bucket
    const place = this.#places.numberOf(this.#place)
    if (place >= this.#counts.length) this.#counts = doubled(this.#counts)
    this.#counts[place]! += count
  }

  addTable(table: AggregateTable, step: AggregateStep, keeps: (workspace: string) => boolean): void {
    const columns = this.#dimensions.map((name) => table.dimensions[name])
    // Values get their numbers with the first row that is kept: of what is left out not a name stays.
    const numbers = columns.map((column) => new Int32Array((column?.values.length ?? 0) + 1).fill(-1))
    const workspaces = table.dimensions.workspace
    const kept = [true, ...Array.from(workspaces?.values ?? [], keeps)]
    const rowOf = new Int32Array(table.rows).fill(-1)
    for (let from = 0; from < table.rows; from += 1) {
      if (!kept[workspaces?.indices[from] ?? 0]) continue
      const hour = table.hours[from]!
      this.#key[0] = step === 'day' ? hour - (hour % HOURS_PER_DAY) : hour
      for (let index = 0; index < columns.length; index += 1) {
        const place = columns[index]?.indices[from] ?? 0
        const known = numbers[index]!
        if (known[place]! < 0)
          known[place] = place === 0 ? 0 : this.#numberOf(index, columns[index]!.values.at(place - 1)!)
        this.#key[index + 1] = known[place]!
      }
      rowOf[from] = this.#row()
    }
    for (const name of USAGE_MEASURES) {
      const added = table.measures[name]
      const sums = this.#sums[name]
      if (added !== undefined)
        for (let from = 0; from < table.rows; from += 1)
          if (rowOf[from]! >= 0) sums[rowOf[from]!]! += added[from]!
    }
    for (const [latency, name] of USAGE_LATENCIES.entries()) {
      const added = table.latencies[name]
      if (added === undefined) continue
      for (let from = 0, at = 0; from < table.rows; from += 1)
        for (; at < added.ends[from]!; at += 1)
          if (rowOf[from]! >= 0) this.count(rowOf[from]!, latency, added.buckets[at]!, added.counts[at]!)
    }
  }

  /** The table in one order, so that the same records make the same bytes. */
  finish(): AggregateTable {
    const rows = this.#rows.size
    const sorted = this.#numbers.map(inOrder)
    // Workspaces stand together: a question of one of them finds its rows in one place.
    const [workspace = 0, ...others] = sorted.keys()
    const place = (row: number, index: number) => sorted[index]!.places[this.#rows.part(row, index + 1)]!
    const ranks = [
      numbersOf(rows, (row) => place(row, workspace)),
      numbersOf(rows, (row) => this.#rows.part(row, 0)),
      ...others.map((index) => numbersOf(rows, (row) => place(row, index))),
    ]
    const order = numbersOf(rows, (row) => row).sort((a, b) => {
      for (const rank of ranks) if (rank[a] !== rank[b]) return rank[a]! - rank[b]!
      return 0
    })
    const columnOf = (index: number) => ranks[index === workspace ? 0 : index + 1]!
    return {
      rows,
      hours: narrowed(picked(ranks[1]!, order)),
      dimensions: Object.fromEntries(
        this.#dimensions.map((name, index) => [
          name,
          { values: sorted[index]!.values, indices: narrowed(picked(columnOf(index), order)) },
        ]),
      ),
      measures: Object.fromEntries(
        USAGE_MEASURES.map((name) => [name, narrowed(picked(this.#sums[name], order))] as const).filter(
          ([, numbers]) => numbers.some((number) => number !== 0),
        ),
      ),
      latencies: this.#latencies(order),
    }
  }

  #latencies(order: Uint32Array): AggregateTable['latencies'] {
    const newRow = new Uint32Array(order.length)
    for (const [to, row] of order.entries()) newRow[row] = to
    const placed = numbersOf(this.#places.size, (number) => {
      const place = this.#places.part(number, 0)
      return newRow[Math.floor(place / PLACES_PER_ROW)]! * PLACES_PER_ROW + (place % PLACES_PER_ROW)
    })
    const numbers = numbersOf(placed.length, (number) => number).sort((a, b) => placed[a]! - placed[b]!)
    const found = USAGE_LATENCIES.map((name, latency) => {
      const own = numbers.filter((number) => (placed[number]! % PLACES_PER_ROW) >> 8 === latency)
      const ends = new Uint32Array(order.length)
      for (const number of own) ends[Math.floor(placed[number]! / PLACES_PER_ROW)]! += 1
      for (let row = 1; row < ends.length; row += 1) ends[row]! += ends[row - 1]!
      const buckets = Uint8Array.from(own, (number) => placed[number]! & 255)
      return [name, { ends: narrowed(ends), buckets, counts: narrowed(picked(this.#counts, own)) }] as const
    })
    return Object.fromEntries(found.filter(([, { buckets }]) => buckets.length > 0))
  }

  #row(): number {
    const row = this.#rows.numberOf(this.#key)
    if (row >= ROWS_MAX) throw new RangeError(`an aggregate has at most ${ROWS_MAX} rows`)
    if (row >= this.#sums.calls.length)
      for (const name of USAGE_MEASURES) this.#sums[name] = doubled(this.#sums[name])
    return row
  }

  #numberOf(index: number, value: string): number {
    const numbers = this.#numbers[index]!
    const known = numbers.get(value)
    if (known !== undefined) return known
    numbers.set(value, numbers.size + 1)
    return numbers.size
  }
}

/** Groups for which all buckets are counted at once: some 10 MB. */
const DENSE_GROUPS = 10_000

/** A record with the values of its shape alone. */
type Shaped = Pick<UsageRecord, (typeof SHAPE_COLUMNS)[number]>

/** The records of a segment in groups, of which there are few: each comes to one row of a table. */
interface Groups {
  /** Of each record. */
  readonly groupOf: Int32Array
  /** The row of each group. */
  readonly rows: readonly number[]
}

/** Groups by hour (or day) and shape. */
function callGroups(
  segment: SegmentColumns,
  shapes: readonly Shaped[],
  step: AggregateStep,
  table: TableBuilder,
): Groups {
  const endedAt = numbersIn(segment, 'ended_at')!
  const { shapeOf } = segment
  const groupOf = new Int32Array(segment.rows)
  const rows: number[] = []
  const byHour = new Map<number, Int32Array>()
  let byShape: Int32Array = new Int32Array(0)
  let [hour, fromMs, toMs] = [0, 0, 0]
  for (let record = 0; record < groupOf.length; record += 1) {
    const ms = endedAt[record]!
    if (ms < fromMs || ms >= toMs) {
      const exact = Math.floor(ms / HOUR_MS)
      fromMs = exact * HOUR_MS
      toMs = fromMs + HOUR_MS
      hour = step === 'day' ? exact - (exact % HOURS_PER_DAY) : exact
      byShape = byHour.get(hour) ?? new Int32Array(shapes.length).fill(-1)
      byHour.set(hour, byShape)
    }
    const shape = shapeOf[record]!
    if (byShape[shape]! < 0)
      byShape[shape] = rows.push(table.rowOf(hour, { ...shapes[shape]!, end_user: null })) - 1
    groupOf[record] = byShape[shape]!
  }
  return { groupOf, rows }
}

/** Groups by day, workspace and end user; the records of a workspace without one are a group, too. */
function endUserGroups(segment: SegmentColumns, shapes: readonly Shaped[], table: TableBuilder): Groups {
  const { endUsers, shapeOf } = segment
  const endedAt = numbersIn(segment, 'ended_at')!
  const workspaces = new Map<string, number>()
  for (const { workspace } of shapes)
    if (!workspaces.has(workspace)) workspaces.set(workspace, workspaces.size)
  const workspaceOf = Uint32Array.from(shapes, ({ workspace }) => workspaces.get(workspace)!)
  const groupOf = new Int32Array(segment.rows)
  const rows: number[] = []
  const groups = new KeyTable(3)
  const key = new Uint32Array(3)
  for (let record = 0; record < groupOf.length; record += 1) {
    const endUser = endUsers === null ? -1 : endUsers.indexes[record]!
    key[0] = Math.floor(endedAt[record]! / DAY_MS)
    key[1] = workspaceOf[shapeOf[record]!]!
    key[2] = endUser + 1
    const group = groups.numberOf(key)
    if (group === rows.length) {
      const values = { ...shapes[shapeOf[record]!]!, end_user: endUsers?.words[endUser] ?? null }
      rows.push(table.rowOf(key[0] * HOURS_PER_DAY, values))
    }
    groupOf[record] = group
  }
  return { groupOf, rows }
}

/** Adds what the records of each group come to. */
function addSums(
  table: TableBuilder,
  { groupOf, rows }: Groups,
  segment: SegmentColumns,
  shapes: readonly Shaped[],
): void {
  const sums = new Float64Array(rows.length)
  const add = (name: UsageMeasure) => {
    for (const [group, row] of rows.entries()) if (sums[group] !== 0) table.sum(row, name, sums[group]!)
    sums.fill(0)
  }
  for (const name of SUMMED) {
    const values = numbersIn(segment, name)
    if (values === null) continue
    for (let record = 0; record < groupOf.length; record += 1) {
      const group = groupOf[record]!
      const value = values[record]!
      if (!Number.isNaN(value)) sums[group]! += value
    }
    add(name)
  }
  const costs = numbersIn(segment, 'cost_usd')
  for (const name of COUNTED_MEASURES) {
    const counted = Uint8Array.from(shapes, (shape) => (COUNTED[name](shape) ? 1 : 0))
    if (!counted.includes(1)) continue
    const leftOut = name === 'unpriced' ? costs : null
    for (let record = 0; record < groupOf.length; record += 1) {
      const group = groupOf[record]!
      if (leftOut === null || Number.isNaN(leftOut[record]!))
        sums[group]! += counted[segment.shapeOf[record]!]!
    }
    add(name)
  }
}

function countBuckets(
  { groupOf, rows }: Groups,
  values: Float64Array | null,
  count: (row: number, bucket: number, count: number) => void,
): void {
  if (values === null) return
  const isDense = rows.length <= DENSE_GROUPS
  const counts = new Uint32Array(isDense ? rows.length * BUCKETS : 0)
  for (let record = 0; record < groupOf.length; record += 1) {
    const ms = values[record]!
    if (Number.isNaN(ms)) continue
    const group = groupOf[record]!
    if (isDense) counts[group * BUCKETS + bucketOf(ms)]! += 1
    else count(rows[group]!, bucketOf(ms), 1)
  }
  for (let at = 0; at < counts.length; at += 1)
    if (counts[at]! > 0) count(rows[Math.floor(at / BUCKETS)]!, at % BUCKETS, counts[at]!)
}

/** A column of numbers of a segment; null: no record has one. */
function numbersIn({ numbers }: SegmentColumns, name: (typeof NUMBER_COLUMNS)[number]): Float64Array | null {
  return numbers[NUMBER_COLUMNS.indexOf(name)] ?? null
}

function shapedBy(values: SegmentColumns['shapes'][number]): Shaped {
  return Object.fromEntries(SHAPE_COLUMNS.map((name, at) => [name, values[at]])) as Shaped
}

/** Measures that count records; `unpriced` where there is no cost, too. */
type Counted = Exclude<UsageMeasure, (typeof SUMMED)[number]>
const COUNTED: Readonly<Record<Counted, (shape: Shaped) => boolean>> = {
  calls: () => true,
  errors: ({ outcome }) => outcome === 'error',
  unpriced: ({ outcome, replayed }) => outcome === 'ok' && !replayed,
  estimated: ({ estimated }) => estimated,
  replayed: ({ replayed }) => replayed,
}

const COUNTED_MEASURES = Object.keys(COUNTED) as Counted[]

/** Values in the order of their code units, and for each number that one had its place there, counted from 1. */
function inOrder(numbers: ReadonlyMap<string, number>): {
  readonly values: string[]
  readonly places: Uint32Array
} {
  const values = [...numbers.keys()].sort()
  const places = new Uint32Array(values.length + 1)
  for (const [at, value] of values.entries()) places[numbers.get(value)!] = at + 1
  return { values, places }
}

function picked(numbers: Float64Array | Uint32Array, order: Uint32Array): Float64Array {
  const chosen = new Float64Array(order.length)
  for (let at = 0; at < order.length; at += 1) chosen[at] = numbers[order[at]!]!
  return chosen
}

function numbersOf(length: number, numberAt: (at: number) => number): Uint32Array {
  const numbers = new Uint32Array(length)
  for (let at = 0; at < length; at += 1) numbers[at] = numberAt(at)
  return numbers
}

/** The same numbers in as few bytes as hold them all. */
export function narrowed(numbers: Float64Array | Uint32Array): Numbers {
  let most = 0
  for (const number of numbers) {
    if (!(number >= 0)) return Float64Array.from(numbers)
    if (number > most) most = number
  }
  if (most < 2 ** 8) return Uint8Array.from(numbers)
  if (most < 2 ** 16) return Uint16Array.from(numbers)
  return most < 2 ** 32 ? Uint32Array.from(numbers) : Float64Array.from(numbers)
}
