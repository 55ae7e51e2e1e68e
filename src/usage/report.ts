import type {
  UsageAnswer,
  UsageAnswerRow,
  UsageDimension,
  UsageMeasure,
  UsageQuestion,
  UsageSums,
} from './answer.ts'
import { groupsMax, USAGE_LATENCIES, USAGE_MEASURES } from './answer.ts'
import { type CsvCell, csvLine } from './csv.ts'

/** An answer, and how far it can be relied on. */
export interface UsageReport {
  readonly question: UsageQuestion
  readonly answer: UsageAnswer
  /** Within the time of the question, epoch milliseconds; what ended later may be missing. */
  readonly completeUntilMs: number
}

/** Rows of CSV that are written at a time, in some 2 ms. */
const SLICE_ROWS = 256
const PERCENTILES = ['p50', 'p95', 'p99'] as const
/** Measures that are whole in memory and have decimals outside. */
const DIVISORS = Object.entries({
  cost_usd: 1_000_000,
  audio_seconds: 1000,
  billable_audio_seconds: 1000,
  video_seconds: 1000,
}) as [UsageMeasure, number][]

/** A report as JSON, but for its rows: money in USD of six decimals, seconds of three. */
export function reportJson({ question, answer, completeUntilMs }: UsageReport) {
  const { fromMs, toMs, step, by, sort, offset, limit } = question
  return {
    from: timeOf(fromMs),
    to: timeOf(toMs),
    step,
    by,
    sort,
    complete_until: timeOf(completeUntilMs),
    groups: answer.groups,
    offset,
    // Fewer where there are many steps: this one is added to page on.
    limit: Math.min(limit, groupsMax(question)),
    truncated: offset + shownGroups(answer) < answer.groups,
    total: sumsJson(answer.total),
  }
}

/** Groups that an answer tells of: the rows of one share their values. */
export const shownGroups = ({ rows }: UsageAnswer): number => new Set(rows.map(({ values }) => values)).size

/** The rows of a report as JSON. There may be thousands: one is made when it is asked for. */
export function* rowsJson({ question, answer }: UsageReport): Iterable<Record<string, unknown> & SumsJson> {
  for (const { timeMs, values, ...row } of answer.rows) {
    const named: Record<string, unknown> = timeMs === null ? {} : { time: timeOf(timeMs) }
    for (const [at, name] of question.by.entries()) named[name] = valueJson(name, values[at] ?? null)
    yield Object.assign(named, sumsJson(row))
  }
}

/** A value has the type that it has in a record: a status is a number. */
function valueJson(name: UsageDimension, value: string | null): string | number | null {
  return name === 'status' && value !== null ? Number(value) : value
}

type SumsJson = Record<UsageMeasure, number> & Required<UsageSums['latencies']>

function sumsJson({ sums, latencies }: UsageSums): SumsJson {
  const json = { ...sums, total_ms: null, first_ms: null, ...latencies }
  for (const [name, divisor] of DIVISORS) json[name] /= divisor
  return json
}

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
export function reportCells({ timeMs, values, ...row }: UsageAnswerRow): CsvCell[] {
  const json = sumsJson(row)
  return [
    ...(timeMs === null ? [] : [timeOf(timeMs)]),
    ...values,
    ...USAGE_MEASURES.map((name) => json[name]),
    ...USAGE_LATENCIES.flatMap((name) => PERCENTILES.map((one) => json[name]?.[one] ?? null)),
  ]
}

/** The lines of a report as CSV, some at a time: the names of its columns, and then its rows. */
export function* csvLines({ question, answer: { rows } }: UsageReport): Iterable<string> {
  yield csvLine(reportColumns(question))
  yield* linesOf(rows, (row) => csvLine(reportCells(row)))
}

/** Lines of rows, some at a time. */
export function* linesOf<Row>(rows: readonly Row[], line: (row: Row) => string): Iterable<string> {
  for (let at = 0; at < rows.length; at += SLICE_ROWS) {
    const some = rows.slice(at, at + SLICE_ROWS)
    yield some.map(line).join('')
  }
}

const timeOf = (ms: number): string => new Date(ms).toISOString()
