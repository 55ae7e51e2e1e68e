import type { UsageAnswer, UsageRow, UsageSums } from '../../../server/answers/usage.ts'
import type { Series } from '../../components/bars.ts'
import { stepsIn } from '../../components/range.ts'
import { fillsOf } from '../../components/tones.ts'
import type { Dimension, Measure } from './question.ts'

/** Answers to what the page asks of one state. */
export interface Answers {
  readonly table: UsageAnswer
  /** Figures of the groups that the chart shows separately. */
  readonly parts: UsageAnswer
  /** Figures of all groups together. */
  readonly whole: UsageAnswer
  /** The table of the period before; null: there is none. */
  readonly before: UsageAnswer | null
}

/** A line of the table. */
export interface GroupRow {
  readonly kind: 'group' | 'others' | 'total'
  readonly key: string
  /** Values of the dimensions, null: the records have none; empty for a line of several groups. */
  readonly values: readonly (string | null)[]
  /** Names of the values, or of the line. */
  readonly labels: readonly string[]
  readonly sums: UsageSums
  /** The measure in the period before; null: it is not known. */
  readonly before: number | null
  /** Share of the total, from 0 to 1; null: the total is 0. */
  readonly share: number | null
}

/** Name of a value. */
export function valueName(dimension: Dimension, value: string | null, names: UsageAnswer['names']): string {
  if (value === null) return NONE_WORDS[dimension] ?? 'None'
  return dimension === 'key_id' ? (names[value] ?? value) : value
}

const NONE_WORDS: { readonly [Name in Dimension]?: string } = {
  provider: 'No provider',
  model: 'No model',
  route: 'No route',
  purpose: 'No purpose',
  status: 'Jobs (no status)',
  error_code: 'No error',
  end_user: 'No end user',
  operation: 'Unknown',
  region: 'No region',
}

/** The groups, the most first, then those that are not listed, then the total. */
export function groupRows(
  { table, before }: Pick<Answers, 'table' | 'before'>,
  by: readonly Dimension[],
  measure: Measure,
): readonly GroupRow[] {
  const total = measure.read(table.total)
  const share = (value: number) => (total === 0 ? null : value / total)
  const valuesOf = (sums: UsageRow) => by.map((name) => valueIn(sums, name))
  const earlier = new Map(before?.data.map((sums) => [JSON.stringify(valuesOf(sums)), measure.read(sums)]))
  const absent = before === null || before.truncated ? null : 0
  const groups = table.data
    .map((sums): GroupRow => {
      const values = valuesOf(sums)
      const key = JSON.stringify(values)
      const labels = by.map((name, at) => valueName(name, values[at] ?? null, table.names))
      const inTime = { sums, share: share(measure.read(sums)), before: earlier.get(key) ?? absent }
      return { kind: 'group', key, values, labels, ...inTime }
    })
    .sort((one, other) => measure.read(other.sums) - measure.read(one.sums))
  const rest = table.groups - groups.length
  const totalBefore = before === null ? null : measure.read(before.total)
  const sum = { key: 'total', values: [], labels: ['Total'], sums: table.total, before: totalBefore }
  if (rest === 0) return [...groups, { kind: 'total', ...sum, share: total === 0 ? null : 1 }]
  const others = lessOf(table.total, table.data)
  const isKnown = totalBefore !== null && groups.every((group) => group.before !== null)
  return [
    ...groups,
    {
      kind: 'others',
      key: 'others',
      values: [],
      labels: [rest === 1 ? '1 other' : `${rest.toLocaleString('en-US')} others`],
      sums: others,
      share: share(measure.read(others)),
      before: isKnown
        ? Math.max(
            0,
            groups.reduce((left, group) => left - (group.before ?? 0), totalBefore),
          )
        : null,
    },
    { kind: 'total', ...sum, share: total === 0 ? null : 1 },
  ]
}

const ADDED = [
  'calls',
  'errors',
  'cost_usd',
  'audio_seconds',
  'input_tokens',
  'output_tokens',
  'characters',
  'images',
] as const

function lessOf(total: UsageSums, rows: readonly UsageSums[]): UsageSums {
  const left = ADDED.map((name) => [
    name,
    Math.max(
      0,
      rows.reduce((rest, sums) => rest - sums[name], total[name]),
    ),
  ])
  return { ...Object.fromEntries(left), total_ms: null, first_ms: null } as UsageSums
}

function valueIn(row: UsageRow, by: Dimension): string | null {
  const value = row[by]
  return typeof value === 'string' || typeof value === 'number' ? String(value) : null
}

/** The steps of the chart, and its parts: the largest groups, and all others together. */
export function chartOf({ parts, whole }: Pick<Answers, 'parts' | 'whole'>, by: Dimension, measure: Measure) {
  const step = whole.step === 'hour' ? ('hour' as const) : ('day' as const)
  const times = stepsIn({ fromMs: Date.parse(whole.from), toMs: Date.parse(whole.to), step })
  const place = new Map(times.map((time, at) => [time, at]))
  const row = () => new Array<number>(times.length).fill(0)
  const left = row()
  for (const sums of whole.data) {
    const at = place.get(Date.parse(sums.time ?? ''))
    if (at !== undefined) left[at] = measure.read(sums)
  }
  const groups = new Map<string | null, number[]>()
  for (const sums of parts.data) {
    const value = valueIn(sums, by)
    const values = groups.get(value) ?? row()
    groups.set(value, values)
    const at = place.get(Date.parse(sums.time ?? ''))
    if (at === undefined) continue
    const amount = measure.read(sums)
    values[at] = amount
    left[at] = Math.max(0, (left[at] ?? 0) - amount)
  }
  const shown = [...groups].filter(([, values]) => values.some((value) => value > 0))
  const tones = fillsOf(shown.map(([value]) => `${by} ${value}`))
  const series: Series[] = shown.map(([value, values], at) => ({
    label: valueName(by, value, parts.names),
    tone: tones[at] ?? 1,
    values,
  }))
  // Differences of sums may leave a trace that was never spent.
  const most = Math.max(0, ...left)
  const hasOthers = parts.groups > groups.size && most > 1e-9
  return {
    step,
    times,
    series: hasOthers ? [...series, { label: 'Others', tone: 'rest' as const, values: left }] : series,
  }
}
