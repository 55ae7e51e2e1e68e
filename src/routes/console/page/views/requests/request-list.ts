import type { RequestAnswer } from '../../../api/answers.ts'
import { queryOf } from '../../paths.ts'

/** How many requests are loaded at a time. */
export const PAGE_SIZE = 50

/** What is shown of a workspace's requests; an empty text stands for all. */
export interface RequestFilter {
  readonly outcome: string
  readonly path: string
  readonly app: string
  readonly key: string
}

export function readFilter(query: URLSearchParams): RequestFilter {
  const outcome = query.get('outcome') ?? ''
  return {
    outcome: ['ok', 'failed'].includes(outcome) ? outcome : '',
    path: query.get('path') ?? '',
    app: query.get('app') ?? '',
    key: query.get('key') ?? '',
  }
}

export function isFiltered({ outcome, path, app, key }: RequestFilter): boolean {
  return outcome + path + app + key !== ''
}

/** The query of the console's API. */
export function listQuery(filter: RequestFilter, beforeMs: number | null): string {
  const { outcome, path, app, key } = filter
  return queryOf({ outcome, path, app, key_id: key, before: beforeMs, limit: PAGE_SIZE })
}

/** Two runs of a job, or requests that brought an id of their own, may have the same id. */
export function rowKey({ id, at, milliseconds }: RequestAnswer): string {
  return `${at} ${id} ${milliseconds}`
}

/** What has been loaded so far, newest first. */
export interface RequestList {
  readonly rows: readonly RequestAnswer[]
  /** There may be older ones. */
  readonly more: boolean
}

/**
 * Puts the newest page before what was loaded. When the page does not reach back to it, what lies between is not
 * known: then the older rows are dropped, and may be loaded anew.
 */
export function withNewest(list: RequestList | null, newest: readonly RequestAnswer[]): RequestList {
  const whole = newest.length < PAGE_SIZE
  const known = new Set(newest.map(rowKey))
  const overlaps = list?.rows.some((row) => known.has(rowKey(row))) ?? false
  if (list === null || whole || !overlaps) return { rows: newest, more: !whole }
  const end = newest.at(-1)
  const older = list.rows.filter((row) => !known.has(rowKey(row)) && row.at <= (end?.at ?? ''))
  return { rows: [...newest, ...older], more: list.more }
}

export function withOlder(list: RequestList, page: readonly RequestAnswer[]): RequestList {
  const known = new Set(list.rows.map(rowKey))
  return {
    rows: [...list.rows, ...page.filter((row) => !known.has(rowKey(row)))],
    more: page.length >= PAGE_SIZE,
  }
}

/**
 * Where older ones begin: what ended in the same millisecond as the last row may not be listed yet, so it is asked for
 * again.
 */
export function olderThan({ rows }: RequestList): number | null {
  const last = rows.at(-1)
  return last === undefined ? null : Date.parse(last.at) + 1
}
