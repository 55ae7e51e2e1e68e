import type { UsageAnswer, UsageAnswerRow, UsageQuestion, UsageSums } from './answer.ts'
import { USAGE_LATENCIES, USAGE_MEASURES, type UsageDimension, type UsageMeasure } from './answer.ts'
import { type CsvCell, csvLine } from './csv.ts'

/** An answer, and how far it can be relied on. */
export interface UsageReport {
  readonly question: UsageQuestion
  readonly answer: UsageAnswer
  /** Within the time of the question, epoch milliseconds; what ended later may be missing. */
  readonly completeUntilMs: number
}

const PERCENTILES = ['p50', 'p95', 'p99'] as const
/** Measures that are whole in memory and have decimals outside. */
const DIVISORS: Partial<Record<UsageMeasure, number>> = {
  cost_usd: 1_000_000,
  audio_seconds: 1000,
  billable_audio_seconds: 1000,
  video_seconds: 1000,
}

/** A report as JSON: money in USD of six decimals, seconds of three. */
export function usageJson({ question, answer, completeUntilMs }: UsageReport) {
  const { fromMs, toMs, step, by, sort, offset, limit } = question
  const groupValues = new Set(answer.rows.map(({ values }) => values)).size
  return {
    from: timeOf(fromMs),
    to: timeOf(toMs),
    step,
    by,
    sort,
    complete_until: timeOf(completeUntilMs),
    groups: answer.groups,
    offset,
    limit,
    truncated: offset + groupValues < answer.groups,
    data: answer.rows.map((row) => ({
      ...(row.timeMs === null ? {} : { time: timeOf(row.timeMs) }),
      ...Object.fromEntries(by.map((name, index) => [name, valueJson(name, row.values[index] ?? null)])),
      ...sumsJson(row),
    })),
    total: sumsJson(answer.total),
  }
}

/** A value has the type that it has in a record: a status is a number. */
function valueJson(name: UsageDimension, value: string | null): string | number | null {
  return name === 'status' && value !== null ? Number(value) : value
}

function sumsJson({ sums, latencies }: UsageSums) {
  return {
    ...Object.fromEntries(USAGE_MEASURES.map((name) => [name, sums[name] / (DIVISORS[name] ?? 1)])),
    ...Object.fromEntries(USAGE_LATENCIES.map((name) => [name, latencies[name] ?? null])),
  } as Record<UsageMeasure, number> & UsageLatenciesJson
}

type UsageLatenciesJson = Record<
  (typeof USAGE_LATENCIES)[number],
  Record<(typeof PERCENTILES)[number], number> | null
>

/** The names of the columns of a report that is a table. */
export function reportColumns({ step, by }: UsageQuestion): string[] {
  return [
    ...(step === 'none' ? [] : ['time']),
    ...by,
    ...USAGE_MEASURES,
    ...USAGE_LATENCIES.flatMap((name) => PERCENTILES.map((one) => `${name}_${one}`)),
  ]
}

/** The values of a row, in the order of `reportColumns`. */
export function reportCells({ timeMs, values, sums, latencies }: UsageAnswerRow): CsvCell[] {
  return [
    ...(timeMs === null ? [] : [timeOf(timeMs)]),
    ...values,
    ...USAGE_MEASURES.map((name) => sums[name] / (DIVISORS[name] ?? 1)),
    ...USAGE_LATENCIES.flatMap((name) => PERCENTILES.map((one) => latencies[name]?.[one] ?? null)),
  ]
}

/** A report as CSV, with the names of its columns first. */
export function usageCsv({ question, answer }: UsageReport): string {
  const lines = [csvLine(reportColumns(question)), ...answer.rows.map((row) => csvLine(reportCells(row)))]
  return lines.join('')
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString()
}
