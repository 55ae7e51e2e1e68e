import { idTimeMs, isOwnId } from '../contracts/ids.ts'
import type { LogId, LogIdColumn } from './log.ts'
import { DAY_MS, HOUR_MS } from './names.ts'

const TRACE_ID = /^[0-9a-f]{32}$/
/** Columns by the prefixes of what is in them; any of them may be the id of a request that a caller chose. */
const COLUMNS: readonly (readonly [prefix: RegExp, column: LogIdColumn])[] = [
  [/^use_/, 'record_id'],
  [/^[tq]j_/, 'job_id'],
  [/^(live|sess)_/, 'session_id'],
  [TRACE_ID, 'trace_id'],
]

/** How far clocks of nodes may be apart. */
const SKEW_MS = 600_000
/** Calls end within it; jobs and sessions may not. */
const SOON_MS = HOUR_MS
/** After it no record is waited for any more: a job of the queue is gone by then. */
const LATE_MS = 8 * DAY_MS
/** Before it there was no ledger. */
const FIRST_MS = Date.parse('2026-01-01')

/** Where an id of a request, trace, job, session or record can stand. */
export function logIdOf(value: string): LogId {
  const columns = COLUMNS.filter(([prefix]) => prefix.test(value)).map(([, column]) => column)
  return { value, columns: ['request_id', ...columns] }
}

export interface LogSpan {
  readonly fromMs: number
  readonly toMs: number
}

/**
 * The times in which to look for an id, one after the other. An id of ours says when it was made: what has it ended
 * soon after that or, as a job, within days. Others may be from any time.
 */
export function idSpans(id: string, all: LogSpan): readonly LogSpan[] {
  const madeMs = isOwnId(id) ? idTimeMs(id) : 0
  if (madeMs < FIRST_MS || madeMs >= all.toMs) return [all]
  const spans = [
    { fromMs: madeMs - SKEW_MS, toMs: madeMs + SOON_MS },
    { fromMs: madeMs + SOON_MS, toMs: madeMs + LATE_MS },
  ]
  const within = spans.map(({ fromMs, toMs }) => ({
    fromMs: Math.max(fromMs, all.fromMs),
    toMs: Math.min(toMs, all.toMs),
  }))
  return within.filter(({ fromMs, toMs }) => fromMs < toMs)
}
