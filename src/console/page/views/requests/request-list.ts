import type { Coverage, RequestAnswer } from '../../../server/answers/requests.ts'
import { queryOf } from '../../paths.ts'

/** How many requests are loaded at a time. */
export const PAGE_SIZE = 50
/** The page holds no more rows, however long it is open. */
export const ROWS_MAX = 300
/** Nodes report requests at slightly different times, so the newest ones are requested again. */
const AGAIN_MS = 5_000

/** Filter of a workspace's requests; an empty string: all. */
export interface RequestFilter {
  readonly outcome: string
  readonly path: string
  readonly app: string
  readonly key: string
  /** The id of a request, which several records may share. */
  readonly id: string
  /** Reads, such as polls, and what the playground sends are listed too. */
  readonly all: boolean
}

export function readFilter(query: URLSearchParams): RequestFilter {
  const outcome = query.get('outcome') ?? ''
  return {
    // The log has other names for these.
    outcome: outcome === 'error' ? 'failed' : ['ok', 'failed'].includes(outcome) ? outcome : '',
    path: query.get('path') ?? '',
    app: query.get('app') ?? '',
    key: query.get('key') ?? query.get('key_id') ?? '',
    id: query.get('id') ?? '',
    all: query.get('all') === 'true',
  }
}

export function isFiltered({ outcome, path, app, key, id }: RequestFilter): boolean {
  return outcome + path + app + key + id !== ''
}

interface Span {
  readonly beforeMs?: number | null
  readonly afterMs?: number | null
  readonly limit?: number
}

/** The query of the console's API. */
export function listQuery(
  filter: RequestFilter,
  { beforeMs, afterMs, limit = PAGE_SIZE }: Span = {},
): string {
  const { outcome, path, app, key, id, all } = filter
  const chosen = { outcome, path, app, key_id: key, request_id: id, all: all ? 'true' : '' }
  return queryOf({ ...chosen, before: beforeMs, after: afterMs, limit })
}

export function rowKey({ record_id: id }: RequestAnswer): string {
  return id
}

/** Requests loaded so far. */
export interface RequestList {
  /** Newest first, at most `ROWS_MAX`. */
  readonly rows: readonly RequestAnswer[]
  /** There may be older ones. */
  readonly more: boolean
  /** Requests newer than the rows and not shown yet, newest first; at most `ROWS_MAX`. */
  readonly newer: readonly RequestAnswer[]
  /** There are more of those than are known. */
  readonly gap: boolean
}

/** The newest page, when nothing is known yet. */
export function firstPage(page: readonly RequestAnswer[]): RequestList {
  return { rows: page, more: page.length >= PAGE_SIZE, newer: [], gap: false }
}

/**
 * Adds what came since: on top of the rows when these are followed, else to what waits to be shown. A page that does
 * not reach back to what is known leaves a gap: what lies between may be loaded from the top.
 *
 * @param page what is newer than `newerThan`, at most `ROWS_MAX`
 */
export function withNewest(list: RequestList, page: readonly RequestAnswer[], follows: boolean): RequestList {
  const known = new Set([...list.newer, ...list.rows].map(rowKey))
  const fresh = page.filter((row) => !known.has(rowKey(row)))
  if (fresh.length === 0 && !(follows && list.newer.length > 0)) return list
  const gap = list.gap || (page.length >= ROWS_MAX && fresh.length === page.length)
  const newer = newestFirst([...fresh, ...list.newer])
  if (follows) return withNewer({ ...list, newer, gap })
  return { ...list, newer: newer.slice(0, ROWS_MAX), gap: gap || newer.length > ROWS_MAX }
}

/** Shows the waiting rows, and drops as many of the oldest. */
export function withNewer({ rows, more, newer, gap }: RequestList): RequestList {
  // After a gap, older rows must not look as if they followed.
  const all = gap ? newer : newestFirst([...newer, ...rows])
  return { rows: all.slice(0, ROWS_MAX), more: more || gap || all.length > ROWS_MAX, newer: [], gap: false }
}

/** Adds the next older page, and lets go of as many of the newest rows: they wait to be shown again. */
export function withOlder(list: RequestList, page: readonly RequestAnswer[]): RequestList {
  const known = new Set(list.rows.map(rowKey))
  const rows = [...list.rows, ...page.filter((row) => !known.has(rowKey(row)))]
  const over = Math.max(0, rows.length - ROWS_MAX)
  const newer = [...list.newer, ...rows.slice(0, over)]
  return {
    rows: rows.slice(over),
    more: page.length >= PAGE_SIZE,
    newer: newer.slice(-ROWS_MAX),
    gap: list.gap || newer.length > ROWS_MAX,
  }
}

function newestFirst(rows: readonly RequestAnswer[]): readonly RequestAnswer[] {
  // All timestamps have one format, so they compare as strings.
  return rows.toSorted((one, other) => (one.at === other.at ? 0 : one.at < other.at ? 1 : -1))
}

/**
 * Where older ones begin: what ended in the same millisecond as the last row may not be listed yet, so it is asked for
 * again.
 */
export function olderThan({ rows }: Pick<RequestList, 'rows'>): number | null {
  const last = rows.at(-1)
  return last === undefined ? null : Date.parse(last.at) + 1
}

/** Where newer ones begin; null: nothing is known yet. */
export function newerThan({ rows, newer }: Pick<RequestList, 'rows' | 'newer'>): number | null {
  const first = newer[0] ?? rows[0]
  return first === undefined ? null : Date.parse(first.at) - AGAIN_MS
}

/** Says how many requests were recorded: "350 of 10,000 requests in the last hour were recorded". */
export function coverageWords(coverage: Coverage | null, number: (value: number) => string): string | null {
  if (coverage === null || coverage.requests === 0) return null
  const { requests, recorded, failures_dropped: dropped } = coverage
  if (recorded >= requests) return `All ${number(requests)} requests of the last hour were recorded.`
  const of = `${number(recorded)} of ${number(requests)} requests in the last hour were recorded`
  return dropped === 0
    ? `${of}: every failure, and a sample of the rest.`
    : `${of}. ${number(dropped)} failures are missing: a node records at most 200 a second for a workspace.`
}

/** How many decimals the costs of a column need, the same for all of them. */
export function costDecimals(requests: readonly Pick<RequestAnswer, 'cost_usd'>[]): number {
  const needs = ({ cost_usd: cost }: Pick<RequestAnswer, 'cost_usd'>) =>
    cost !== null && Math.abs(cost * 100 - Math.round(cost * 100)) > 1e-9
  return requests.some(needs) ? 6 : 2
}

/** Value that runs of jobs have in place of a path. */
export const JOB_RUN = 'job'

export function endpointName(path: string): string {
  return path === JOB_RUN ? 'Job run' : path
}
