import {
  type AggregateTable,
  type DimensionColumn,
  type LatencyColumn,
  type Numbers,
  USAGE_LATENCIES,
  USAGE_MEASURES,
  type UsageDimension,
} from './aggregate.ts'
import { BUCKETS } from './histogram.ts'
import { KeyTable } from './key-table.ts'
import { pickTexts, wantedTexts } from './texts.ts'

// Tables that are smaller than those of a file, and answer some questions as well: what a console asks each time that
// it is opened is then answered from some thousand rows, not from a million.

/** Rows for each row of their sums from which on these are worth to be kept. */
const SUMS_WORTH = 16
/** Rows for each row of a workspace from which on these are worth to be kept by themselves. */
const WORKSPACE_WORTH = 4

/**
 * A table of calls summed up by its hours, workspaces and some other dimensions; null: that would not be far fewer
 * rows. Keys are what makes most rows, and most questions do not name them.
 */
export function summedBy(
  table: AggregateTable,
  dimensions: readonly UsageDimension[],
): AggregateTable | null {
  const named = [...new Set<UsageDimension>(['workspace', ...dimensions])]
  const columns = named.map((name) => table.dimensions[name])
  const most = table.rows / SUMS_WORTH
  // Each value has a row at least.
  if (columns.some((column) => (column?.values.length ?? 0) > most)) return null
  const groups = new KeyTable(columns.length + 1)
  const key = new Uint32Array(columns.length + 1)
  const groupOf = new Uint32Array(table.rows)
  for (let row = 0; row < table.rows; row += 1) {
    key[0] = table.hours[row]!
    for (let index = 0; index < columns.length; index += 1) key[index + 1] = columns[index]?.indices[row] ?? 0
    groupOf[row] = groups.numberOf(key)
    if (groups.size > most) return null
  }
  const rows = groups.size
  const part = (index: number) => Uint32Array.from({ length: rows }, (_, group) => groups.part(group, index))
  return {
    rows,
    hours: part(0),
    dimensions: ofNames(named, (_, index) => {
      const column = columns[index]
      return column && { ...column, indices: part(index + 1) }
    }),
    measures: ofNames(USAGE_MEASURES, (name) => {
      const numbers = table.measures[name]
      return numbers && sumsOf(numbers, groupOf, rows)
    }),
    latencies: ofNames(USAGE_LATENCIES, (name) => {
      const column = table.latencies[name]
      return column && bucketsOf(column, groupOf, rows)
    }),
  }
}

function sumsOf(numbers: Numbers, groupOf: Uint32Array, rows: number): Float64Array {
  const sums = new Float64Array(rows)
  for (let row = 0; row < groupOf.length; row += 1) sums[groupOf[row]!]! += numbers[row]!
  return sums
}

function bucketsOf({ ends, buckets, counts }: LatencyColumn, groupOf: Uint32Array, rows: number) {
  const dense = new Uint32Array(rows * BUCKETS)
  let filled = 0
  for (let row = 0, at = 0; row < groupOf.length; row += 1) {
    const first = groupOf[row]! * BUCKETS
    for (const end = ends[row]!; at < end; at += 1) {
      const cell = first + buckets[at]!
      if (dense[cell] === 0) filled += 1
      dense[cell]! += counts[at]!
    }
  }
  const column = {
    ends: new Uint32Array(rows),
    buckets: new Uint8Array(filled),
    counts: new Uint32Array(filled),
  }
  let at = 0
  for (let row = 0; row < rows; row += 1) {
    for (let bucket = 0; bucket < BUCKETS; bucket += 1) {
      const count = dense[row * BUCKETS + bucket]!
      if (count === 0) continue
      column.buckets[at] = bucket
      column.counts[at] = count
      at += 1
    }
    column.ends[row] = at
  }
  return column
}

/** The rows of one workspace in a table of end users, which stand together; null: they are no small part of it. */
export function ofWorkspace(table: AggregateTable, workspace: string): AggregateTable | null {
  const column = table.dimensions.workspace
  if (column === undefined) return null
  const place = wantedTexts(column.values, new Set([workspace])).indexOf(1) + 1
  const from = place === 0 ? 0 : column.indices.indexOf(place)
  const to = place === 0 ? 0 : column.indices.lastIndexOf(place) + 1
  if ((to - from) * WORKSPACE_WORTH > table.rows) return null
  return {
    rows: to - from,
    hours: table.hours.slice(from, to),
    dimensions: ofNames(['workspace', 'end_user'] as const, (name) => {
      const own = table.dimensions[name]
      return own === undefined
        ? { values: [], indices: new Uint8Array(to - from) }
        : withoutOthers(own, own.indices.subarray(from, to))
    }),
    measures: ofNames(USAGE_MEASURES, (name) => table.measures[name]?.slice(from, to)),
    latencies: {},
  }
}

/** Only the values that some row has. */
function withoutOthers({ values }: DimensionColumn, indices: Numbers): DimensionColumn {
  const used = [...new Set(indices)].filter((index) => index > 0).sort((a, b) => a - b)
  const places = new Map(used.map((index, at) => [index, at + 1]))
  return {
    values: pickTexts(
      values,
      used.map((index) => index - 1),
    ),
    indices: Uint32Array.from(indices, (index) => places.get(index) ?? 0),
  }
}

function ofNames<const Name extends string, Value>(
  names: readonly Name[],
  itsOwn: (name: Name, index: number) => Value | undefined,
): { readonly [Known in Name]?: Value } {
  const found = names.flatMap((name, index) => {
    const value = itsOwn(name, index)
    return value === undefined ? [] : [[name, value] as const]
  })
  return Object.fromEntries(found) as { readonly [Known in Name]?: Value }
}
