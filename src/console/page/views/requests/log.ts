import { useEffect, useMemo, useRef } from 'preact/hooks'
import type { LogRowAnswer, LogRowsAnswer } from '../../../server/answers/log.ts'
import { api } from '../../api.ts'
import { StatusBadge } from '../../components/badge.ts'
import { Button } from '../../components/button.ts'
import { EmptyState, ErrorNote, Loaded } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { moment, noneWords, number, timeOfDay, took } from '../../format.ts'
import { h } from '../../h.ts'
import { stepRows, useKeys } from '../../keys.ts'
import { type Action, useAction, useLoad } from '../../load.ts'
import { pathOf } from '../../paths.ts'
import { entryName, navigate, useKept, useQuery } from '../../router.ts'
import { LogFilters } from './log-bar.ts'
import {
  continuedSearch,
  isLogFiltered,
  type LogFilter,
  logFields,
  logQuery,
  NO_LOG_FILTER,
  readLogFilter,
  recordTitle,
  searchedWords,
} from './log-filter.ts'
import { costDecimals } from './request-list.ts'

/** The page holds no more rows; older ones are another page. */
const ROWS_MAX = 500
const CAPTION = 'Request log'

interface Shown {
  readonly place: string
  readonly nowMs: number
  readonly rows: readonly LogRowAnswer[]
  readonly last: Omit<LogRowsAnswer, 'records'>
}

/**
 * Every request that is kept, newest first: filtered, searched by an id, exported.
 *
 * @param workspace null: of all of them
 */
export function Log(props: LogProps) {
  return h(LogOfEntry, { ...props, key: entryName() })
}

interface LogProps {
  readonly workspace: string | null
  readonly search: string
}

function LogOfEntry({ workspace, search }: LogProps) {
  const [query, setQuery] = useQuery()
  const filter = readLogFilter(query, workspace)
  const { load, older, fields, refresh } = useLog(workspace, filter)
  useKeys({ j: () => stepRows(CAPTION, 1), k: () => stepRows(CAPTION, -1) })
  return [
    h(LogFilters, {
      workspace,
      filter,
      onChange: setQuery,
      refresh,
      exportOf: (format) => exportPath(fields, format),
    }),
    h(Loaded<Shown>, {
      load,
      what: 'The log',
      rows: 10,
      render: (loaded: Shown) =>
        loaded.rows.length === 0
          ? h(None, { workspace, loaded, filter, older, onChange: setQuery })
          : h(Rows, { workspace, loaded, search, older, fields }),
    }),
  ]
}

function exportPath(fields: ReturnType<typeof logFields>, format: 'csv' | 'json'): string {
  return `/console/api${logQuery('/log', fields, { format })}`
}

/** Whoever comes back to the list finds what was loaded. */
function useLog(workspace: string | null, filter: LogFilter) {
  const place = JSON.stringify([workspace, filter])
  const [last, setLast] = useKept<Shown | null>('log', null)
  const kept = useRef(last)
  const known = kept.current?.place === place ? kept.current : null
  const asked = useRef<Pick<Shown, 'place' | 'nowMs'> | null>(null)
  if (asked.current?.place !== place) asked.current = { place, nowMs: known?.nowMs ?? Date.now() }
  const { nowMs } = asked.current
  const fields = logFields(workspace, filter, nowMs)
  const keep = (loaded: Shown): Shown => {
    kept.current = loaded
    // Whoever comes back to an empty list hopes for more than that.
    setLast(loaded.rows.length === 0 ? null : loaded)
    return loaded
  }
  const load = useLoad<Shown>(
    async (signal) => {
      const before = kept.current
      if (before?.place === place && before.nowMs === nowMs) return before
      const { records, ...rest } = await api.get<LogRowsAnswer>(logQuery('/log-rows', fields), { signal })
      return keep({ place, nowMs, rows: records, last: rest })
    },
    [place],
    { initial: known },
  )
  const older = useOlder(place, async (get) => {
    const before = kept.current
    if (before?.place !== place || before.last.next === null) return
    const answer = await get<LogRowsAnswer>(logQuery('/log-rows', fields, { after: before.last.next }))
    if (answer === null || kept.current !== before) return
    const { records, ...rest } = answer
    const knownIds = new Set(before.rows.map(({ record_id: id }) => id))
    const rows = [...before.rows, ...records.filter(({ record_id: id }) => !knownIds.has(id))]
    load.set(keep({ ...before, rows, last: { ...rest, total: before.last.total } }))
  })
  const refresh = () => {
    asked.current = { place, nowMs: Date.now() }
    load.reload()
  }
  // With two requests in flight, the first answer would be lost.
  const busy = load.busy || older.busy
  return { load, older: { ...older, busy }, fields, refresh: { run: refresh, busy } }
}

/**
 * Adds older rows to the list of a place. The list may have become another one before the answer, whose rows and errors
 * are not its own: then there is none.
 */
export function useOlder(
  place: string,
  add: (get: <Answer>(path: string) => Promise<Answer | null>) => Promise<void>,
): Action<[]> {
  const here = useRef(place)
  here.current = place
  const older = useAction(() =>
    add(async <Answer>(path: string) => {
      const answer = await api.get<Answer>(path).catch((thrown: unknown) => {
        if (here.current === place) throw thrown
        return null
      })
      return here.current === place ? answer : null
    }),
  )
  useEffect(older.clear, [place])
  return older
}

type Change = (fields: Readonly<Record<string, string | null>>) => void

function Rows(props: {
  readonly workspace: string | null
  readonly loaded: Shown
  readonly search: string
  readonly older: ReturnType<typeof useLog>['older']
  readonly fields: ReturnType<typeof logFields>
}) {
  const { workspace, loaded, search, older, fields } = props
  const { rows, last } = loaded
  const decimals = costDecimals(rows)
  const columns = useMemo(() => {
    const own = logColumns(decimals)
    return workspace === null ? own.toSpliced(1, 0, WORKSPACE) : own
  }, [decimals, workspace])
  return h(
    'div',
    { class: 'stack' },
    h(Table<LogRowAnswer>, {
      caption: CAPTION,
      columns,
      rows,
      rowKey: ({ record_id: id }: LogRowAnswer) => id,
      href: ({ record_id: id }: LogRowAnswer) => pathOf(workspace, 'requests', 'log', id) + search,
    }),
    h(ErrorNote, { error: older.error, what: 'Older requests' }),
    h('p', { class: 'quiet small' }, countWords(loaded), last.next === null ? ' End of list.' : null),
    last.next === null
      ? null
      : h(
          'div',
          { class: 'actions' },
          rows.length < ROWS_MAX
            ? h(Button, { onClick: () => older.run(), busy: older.busy }, 'Load older')
            : h(Button, { onClick: () => goOn(search, fields, rows) }, 'Continue from here'),
        ),
  )
}

/** The same list from its last row on; back leads to the rows before. */
function goOn(search: string, fields: ReturnType<typeof logFields>, rows: readonly LogRowAnswer[]): void {
  const last = rows.at(-1)
  if (last !== undefined) navigate(location.pathname + continuedSearch(search, fields, last))
}

function countWords({ rows, last }: Shown): string {
  // Rows may have been added since the sums were asked for.
  const total = last.total === null ? null : Math.max(last.total, rows.length)
  return total === null
    ? `${number(rows.length)} shown.`
    : `${number(rows.length)} of ${number(total)} shown.`
}

export function LogOutcome({ record }: { readonly record: LogRowAnswer }) {
  const { status, outcome, error_code: code } = record
  return [
    h(StatusBadge, { status: status ?? (outcome === 'error' ? 'failed' : outcome) }),
    code === null ? null : h('span', { class: 'mono small' }, code),
  ]
}

/** The entry that was tried last; after how many others, where it answered. */
export function LogServedBy({ record }: { readonly record: LogRowAnswer }) {
  const { provider, model, attempts, tries } = record
  if (provider === null) return h('span', { class: 'quiet' }, record.cache === 'hit' ? 'speech cache' : '–')
  const isAnswered =
    tries.length === 0 ? record.outcome === 'ok' : tries.some(({ reason }) => reason === 'ok')
  if (!isAnswered) return h('span', { class: 'quiet' }, noneWords(attempts))
  return [
    h('span', { class: 'mono requests-server' }, provider, '/', model),
    attempts > 1 ? h('span', { class: 'quiet nowrap' }, ` after ${number(attempts - 1)} failed`) : null,
  ]
}

/** App and key of a request. */
export function AppAndKey(props: { readonly of: Pick<LogRowAnswer, 'app' | 'key_id' | 'key_name'> }) {
  const { app, key_id: id, key_name: name } = props.of
  return [app, ' ', h('span', { class: 'quiet', title: id }, name ?? id)]
}

/** When a request ended, by the clock and from now. */
export function When({ at }: { readonly at: string }) {
  return h(
    'span',
    { class: 'nowrap' },
    timeOfDay(Date.parse(at), Date.now()),
    ' ',
    h('span', { class: 'quiet small' }, h(Time, { at })),
  )
}

const WORKSPACE: Column<LogRowAnswer> = { head: 'Workspace', cell: ({ workspace }) => workspace }

function logColumns(decimals: number): readonly Column<LogRowAnswer>[] {
  return [
    { head: 'Endpoint', primary: true, cell: (record) => h('span', { class: 'mono' }, recordTitle(record)) },
    { head: 'Outcome', cell: (record) => h(LogOutcome, { record }) },
    { head: 'Served by', cell: (record) => h(LogServedBy, { record }) },
    { head: 'App and key', cell: (record) => h(AppAndKey, { of: record }) },
    { head: 'Duration', align: 'end', cell: ({ total_ms: ms }) => took(ms) },
    {
      head: 'Cost',
      align: 'end',
      minor: true,
      cell: ({ cost_usd: cost }) => (cost === null ? '–' : `$${number(cost, decimals)}`),
    },
    { head: 'Time', align: 'end', cell: ({ ended_at: at }) => h(When, { at }) },
  ]
}

function None(props: {
  readonly workspace: string | null
  readonly loaded: Shown
  readonly filter: LogFilter
  readonly older: ReturnType<typeof useLog>['older']
  readonly onChange: Change
}) {
  const { workspace, loaded, filter, older, onChange } = props
  const { is_recorded: isRecorded, next, searched } = loaded.last
  if (!isRecorded && !isLogFiltered(filter))
    return h(
      EmptyState,
      { title: 'The usage ledger is off' },
      'Set LARKWAY_USAGE=true on every node to keep each request for 400 days.',
      workspace === null ? null : ' Until then, Live shows the newest.',
    )
  const looked = `Searched ${searchedWords(searched, moment)}.`
  if (next !== null)
    return h(
      EmptyState,
      {
        title: 'No matching requests so far',
        action: h(Button, { onClick: () => older.run(), busy: older.busy }, 'Search further back'),
      },
      looked,
    )
  return h(
    EmptyState,
    {
      title: isLogFiltered(filter) ? 'No matching requests' : 'No requests in this time',
      action: isLogFiltered(filter)
        ? h(Button, { onClick: () => onChange(NO_LOG_FILTER) }, 'Clear filters')
        : filter.range === 'all'
          ? null
          : h(Button, { onClick: () => onChange({ range: 'all' }) }, 'Show all time'),
    },
    looked,
    ' New requests appear here within two minutes.',
  )
}
