/** Values over time: `times` in epoch seconds, and a value (or null) of each line for each of them. */
export interface ChartData {
  readonly times: readonly number[]
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[]
}

const ROWS_MAX = 12
const LATEST_MAX = 12

/** What a chart shows, in a sentence for each line: for those who do not see it. */
export function summaryOf({ lines }: ChartData, format: (value: number) => string): string {
  return lines
    .map(({ label, values }) => {
      const known = values.filter((value) => value !== null)
      const last = known.at(-1)
      if (last === undefined) return `${label}: no value.`
      const [low, high] = [Math.min(...known), Math.max(...known)]
      return `${label}: now ${format(last)}, between ${format(low)} and ${format(high)}.`
    })
    .join(' ')
}

export interface SummaryRow {
  /** Epoch seconds: when the span of the row ends. */
  readonly at: number
  /** Mean of each line over the span; null where it has no value. */
  readonly means: readonly (number | null)[]
}

/** A chart as a table of a few rows, newest first. */
export function rowsOf({ times, lines }: ChartData): readonly SummaryRow[] {
  const each = Math.max(1, Math.ceil(times.length / ROWS_MAX))
  const rows: SummaryRow[] = []
  for (let end = times.length; end > 0; end -= each) {
    const start = Math.max(0, end - each)
    const means = lines.map(({ values }) => meanOf(values.slice(start, end)))
    rows.push({ at: times[end - 1] ?? 0, means })
  }
  return rows
}

function meanOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length
}

/** The newest value, unless it is older than the last few moments. */
export function latestOf(values: readonly (number | null)[]): number | null {
  return values.slice(-LATEST_MAX).findLast((value) => value !== null) ?? null
}

/** Where a value stands between two that are missing: no line leads there, so that it is drawn as a point. */
export function lonePoints(values: ArrayLike<number | null | undefined>): number[] {
  const points: number[] = []
  for (let index = 0; index < values.length; index++) {
    const isThere = (at: number) => typeof values[at] === 'number'
    if (isThere(index) && !isThere(index - 1) && !isThere(index + 1)) points.push(index)
  }
  return points
}

/** 14:03:07 of epoch seconds, in the reader's own time zone. */
export function clock(seconds: number): string {
  return new Date(seconds * 1000).toTimeString().slice(0, 8)
}
