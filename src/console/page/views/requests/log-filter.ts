import type { LogRowAnswer } from '../../../server/answers/log.ts'
import { NONE, queryOf } from '../../paths.ts'

/** Filters that are chips, by their names in the console's API and in addresses. */
export const LOG_FILTERS = {
  workspace: { label: 'Workspace', kind: 'workspace' },
  app: { label: 'App', kind: 'app' },
  key_id: { label: 'Key', kind: 'key' },
  provider: { label: 'Provider', kind: 'text' },
  model: { label: 'Model', kind: 'text' },
  route: { label: 'Route', kind: 'text' },
  operation: { label: 'Operation', kind: 'text' },
  endpoint: { label: 'Endpoint', kind: 'text' },
  kind: { label: 'Kind', kind: 'choice', choices: ['call', 'job', 'session', 'lease_expired'] },
  status: { label: 'Status', kind: 'status' },
  error_code: { label: 'Error code', kind: 'text' },
  end_user: { label: 'End user', kind: 'text' },
  purpose: { label: 'Purpose', kind: 'text' },
  min_ms: { label: 'Duration at least', kind: 'milliseconds' },
  min_cost_usd: { label: 'Cost at least', kind: 'usd' },
} as const satisfies Record<string, FilterKind>

type FilterKind =
  | {
      readonly label: string
      readonly kind: 'workspace' | 'app' | 'key' | 'text' | 'status' | 'milliseconds' | 'usd'
    }
  | { readonly label: string; readonly kind: 'choice'; readonly choices: readonly string[] }

export type LogFilterName = keyof typeof LOG_FILTERS
const LOG_FILTER_NAMES = Object.keys(LOG_FILTERS) as LogFilterName[]

/** Filters of the log of a workspace, or (null) of all. */
export function logFilterNames(workspace: string | null): readonly LogFilterName[] {
  return LOG_FILTER_NAMES.filter((name) => workspace === null || name !== 'workspace')
}

/** Times to choose from, in hours; null: all that are kept. */
export const LOG_RANGES = {
  '1h': { label: 'Last hour', hours: 1 },
  '24h': { label: 'Last 24 hours', hours: 24 },
  '7d': { label: 'Last 7 days', hours: 7 * 24 },
  '30d': { label: 'Last 30 days', hours: 30 * 24 },
  all: { label: 'All time', hours: null },
} as const
export type LogRange = keyof typeof LOG_RANGES | 'custom'

const RANGE: LogRange = '7d'
const HOUR_MS = 3_600_000
const OUTCOMES = ['ok', 'error', 'canceled', 'left']

/** Question to the log, as the address has it; an empty string: all. */
export interface LogFilter {
  readonly id: string
  readonly range: LogRange
  /** Begin of a custom range, RFC 3339; empty: open. */
  readonly from: string
  readonly to: string
  readonly outcome: string
  readonly playground: boolean
  readonly chips: readonly (readonly [name: LogFilterName, value: string])[]
}

/** @param workspace null: the log is of all of them */
export function readLogFilter(query: URLSearchParams, workspace: string | null): LogFilter {
  const range = query.get('range') ?? RANGE
  const outcome = query.get('outcome') ?? ''
  const [from, to] = ['from', 'to'].map((name) => momentIn(query.get(name)))
  const isCustom = from !== '' || to !== '' || range === 'custom'
  return {
    id: query.get('id') ?? '',
    range: isCustom ? 'custom' : Object.hasOwn(LOG_RANGES, range) ? (range as LogRange) : RANGE,
    from: from ?? '',
    to: to ?? '',
    outcome: outcome === 'failed' ? 'error' : OUTCOMES.includes(outcome) ? outcome : '',
    // Live has another name for it.
    playground: (query.get('playground') ?? query.get('all')) === 'true',
    chips: logFilterNames(workspace).flatMap((name) => {
      const value = query.get(name === 'key_id' && !query.has(name) ? 'key' : name)
      if (value === null || value === '' || (value === NONE && !mayBeNone(name))) return []
      return [[name, value] as const]
    }),
  }
}

/** True if records without a value can be looked for. */
function mayBeNone(name: LogFilterName): boolean {
  return ['app', 'key', 'text'].includes(LOG_FILTERS[name].kind)
}

/** An address may have been written by anyone. */
function momentIn(text: string | null): string {
  const ms = Date.parse(text ?? '')
  return Number.isNaN(ms) ? '' : new Date(ms).toISOString()
}

/** Fields of an address without any filter of the log. */
export const NO_LOG_FILTER: Readonly<Record<string, null>> = Object.fromEntries(
  ['id', 'range', 'from', 'to', 'outcome', 'playground', 'all', 'key', 'path', ...LOG_FILTER_NAMES].map(
    (name) => [name, null],
  ),
)

/** The fields of an address that set a filter, or (null) remove it: what Live has another name for goes. */
export function withFilter(name: LogFilterName | 'playground', value: string | null) {
  const other = { key_id: 'key', playground: 'all' }[name as string]
  return { [name]: value, ...(other === undefined ? {} : { [other]: null }) }
}

/** True if anything but the time is chosen. */
export function isLogFiltered({ id, outcome, chips, range }: LogFilter): boolean {
  return id !== '' || outcome !== '' || chips.length > 0 || range === 'custom'
}

/** The filters as the console's API takes them. An id is looked for at any time, unless two dates are chosen. */
export function logFields(
  workspace: string | null,
  filter: LogFilter,
  nowMs: number,
): Readonly<Record<string, string | null>> {
  const { id, range, outcome, playground, chips } = filter
  const hours = range === 'custom' || id !== '' ? null : LOG_RANGES[range].hours
  return {
    workspace,
    // Whole hours are counted by sums, too.
    from: range === 'custom' ? filter.from : hours === null ? null : hourBefore(nowMs, hours),
    to: range === 'custom' ? filter.to : null,
    id,
    outcome,
    playground: playground ? 'true' : null,
    ...Object.fromEntries(chips),
  }
}

function hourBefore(nowMs: number, hours: number): string {
  return new Date(Math.floor(nowMs / HOUR_MS) * HOUR_MS - hours * HOUR_MS).toISOString()
}

/** The query of an address that continues a list after its last row, and ends where the list does. */
export function continuedSearch(
  search: string,
  { from }: ReturnType<typeof logFields>,
  { ended_at: endedAt }: Pick<LogRowAnswer, 'ended_at'>,
): string {
  const to = new Date(Date.parse(endedAt) + 1).toISOString()
  return queryOf({ ...Object.fromEntries(new URLSearchParams(search)), range: 'custom', from, to })
}

export function logQuery(
  path: '/log' | '/log-rows' | `/log/${string}`,
  fields: ReturnType<typeof logFields>,
  more: Record<string, string | null> = {},
) {
  // The API takes an empty field for records without a value.
  const query = new URLSearchParams(queryOf({ ...fields, ...more }))
  for (const [name, value] of Object.entries(fields)) if (value === NONE && name !== 'id') query.set(name, '')
  return query.size === 0 ? path : `${path}?${query.toString()}`
}

/** Why a value will not do for a filter; null: it will. */
export function filterFault(name: LogFilterName, value: string): string | null {
  const { kind } = LOG_FILTERS[name]
  if (value === '') return 'Enter a value.'
  if (kind === 'status' && !/^[1-5](xx|\d\d)$/.test(value)) return 'Enter a status such as 502, or 5xx.'
  if (kind === 'milliseconds' && !/^\d{1,9}$/.test(value)) return 'Enter a whole number of milliseconds.'
  if (kind === 'usd' && !/^\d{1,9}(\.\d{1,6})?$/.test(value)) return 'Enter an amount such as 0.05.'
  return null
}

/** "Duration at least 500 ms", "Provider: openai". */
export function chipText([name, value]: LogFilter['chips'][number]): string {
  const { label, kind } = LOG_FILTERS[name]
  if (value === NONE) return `${label}: none`
  if (kind === 'milliseconds') return `${label} ${value} ms`
  return kind === 'usd' ? `${label} $${value}` : `${label}: ${value}`
}

/** "Not found" alone would not say where it was looked. */
export function searchedWords(
  { from, to }: { readonly from: string; readonly to: string },
  write: (ms: number) => string,
): string {
  const [fromMs, toMs] = [Date.parse(from), Date.parse(to)]
  // All that there can be.
  if (fromMs <= Date.parse('2026-01-01')) return `up to ${write(Math.min(toMs, Date.now()))}`
  return `from ${write(fromMs)} to ${write(Math.min(toMs, Date.now()))}`
}

/** Name of a record: its endpoint, or its kind of job. */
export function recordTitle({ kind, endpoint }: Pick<LogRowAnswer, 'kind' | 'endpoint'>): string {
  return kind === 'job' ? `Job: ${endpoint}` : endpoint
}
