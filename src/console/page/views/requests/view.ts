import { useMemo, useRef, useState } from 'preact/hooks'
import type {
  Coverage,
  EndpointsAnswer,
  RequestAnswer,
  RequestsAnswer,
} from '../../../server/answers/requests.ts'
import { api } from '../../api.ts'
import { Outcome, ServedBy } from '../../components/attempts.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Switch } from '../../components/choice.ts'
import { Select, TextInput } from '../../components/field.ts'
import { NamePicker } from '../../components/name-picker.ts'
import { PageHead } from '../../components/page-head.ts'
import { EmptyState, ErrorNote, Loaded } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Tabs } from '../../components/tabs.ts'
import { number, took } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { useKept, useQuery } from '../../router.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { AppAndKey, Log, useOlder, When } from './log.ts'
import { OneRecord } from './one-record.ts'
import { OneRequest } from './one-request.ts'
import {
  costDecimals,
  coverageWords,
  endpointName,
  firstPage,
  isFiltered,
  JOB_RUN,
  listQuery,
  newerThan,
  olderThan,
  type RequestFilter,
  type RequestList,
  ROWS_MAX,
  readFilter,
  rowKey,
  withNewer,
  withNewest,
  withOlder,
} from './request-list.ts'

const LIVE_MS = 5_000
/** A reader who has scrolled further must not see anything move. */
const TOP_PX = 120

/** The newest requests of a workspace, live; or one of them with its attempts. */
export function RequestsView({ workspace, path, query }: WorkspaceViewProps) {
  const [id, record] = path
  const search = query.toString() === '' ? '' : `?${query.toString()}`
  if (id === undefined) return h(AllRequests, { workspace, search })
  if (id === 'log' && record !== undefined)
    return h(OneRecord, { key: record, workspace, id: record, search })
  return h(OneRequest, { key: id, workspace, id, search })
}

const TABS = [
  { id: 'live', label: 'Live' },
  { id: 'log', label: 'Log' },
] as const

/** The newest requests as they come, or all that are kept. */
function AllRequests({ workspace, search }: { readonly workspace: string; readonly search: string }) {
  const [query, setQuery] = useQuery()
  const chosen = query.get('tab') === 'log' ? 'log' : 'live'
  const [live, setLive] = useState(true)
  const isLive = chosen === 'live'
  return [
    h(PageHead, {
      title: 'Requests',
      lead: isLive
        ? 'The newest requests and job runs, as they come. Bodies and transcripts are not stored.'
        : 'Every call, job and live session of the last 400 days. Bodies and transcripts are not stored.',
      actions: isLive
        ? h(
            Button,
            { icon: live ? 'pause' : 'play', pressed: live, onClick: () => setLive(!live) },
            live ? 'Live' : 'Paused',
          )
        : null,
    }),
    h(
      Tabs<(typeof TABS)[number]['id']>,
      {
        label: 'Requests',
        tabs: TABS,
        chosen,
        onChoose: (id: string) => setQuery({ tab: id === 'log' ? 'log' : null }),
      },
      isLive ? h(LiveRequests, { workspace, search, live }) : h(Log, { workspace, search }),
    ),
  ]
}

/** The newest requests, which tick. */
function LiveRequests(props: {
  readonly workspace: string
  readonly search: string
  readonly live: boolean
}) {
  const { workspace, search, live } = props
  const [query, setQuery] = useQuery()
  const filter = readFilter(query)
  const requests = useRequests(workspace, filter, live)
  return [
    h(Filters, { workspace, filter, onChange: setQuery }),
    h(Loaded<Shown>, {
      load: requests.load,
      what: 'The requests',
      rows: 10,
      render: ({ list, coverage }: Shown) =>
        list.rows.length === 0
          ? h(None, { workspace, filter, onClear: () => setQuery(NO_FILTER) })
          : h(Rows, { workspace, filter, list, coverage, search, requests }),
    }),
  ]
}

const NO_FILTER = { outcome: null, path: null, app: null, key: null, key_id: null, id: null }

interface Shown {
  readonly list: RequestList
  readonly coverage: Coverage | null
}

/**
 * Rows that stay within a bound while new ones come; who reads further down finds the new ones on top. Whoever comes
 * back to the list finds what was loaded.
 */
function useRequests(workspace: string, filter: RequestFilter, live: boolean) {
  const root = apiPath`/workspaces/${workspace}/requests`
  const place = JSON.stringify([root, filter])
  const [last, setLast] = useKept<(Shown & { readonly place: string }) | null>('requests', null)
  const kept = useRef(last)
  const known = () => (kept.current?.place === place ? kept.current : null)
  const keep = (list: RequestList, coverage: Coverage | null): Shown => {
    const shown = { place, list, coverage }
    kept.current = shown
    setLast(shown)
    return shown
  }
  const load = useLoad<Shown>(
    async (signal) => {
      const before = known()
      const afterMs = before && newerThan(before.list)
      const span = afterMs === null ? {} : { afterMs, limit: ROWS_MAX }
      const page = await api.get<RequestsAnswer>(root + listQuery(filter, span), { signal })
      const now = known()?.list
      if (now === undefined || now.rows.length === 0) return keep(firstPage(page.requests), page.coverage)
      // Rows that were left for older ones are not pushed away.
      const follows = scrollY < TOP_PX && (now.newer.length === 0 || now.rows.length < ROWS_MAX)
      return keep(withNewest(now, page.requests, follows), page.coverage)
    },
    [place],
    { everyMs: live ? LIVE_MS : 0, initial: known() },
  )
  const older = useOlder(place, async (get) => {
    const before = known()
    if (before === null) return
    const path = root + listQuery(filter, { beforeMs: olderThan(before.list) })
    const answer = await get<RequestsAnswer>(path)
    const now = known()
    if (answer !== null && now !== null) load.set(keep(withOlder(now.list, answer.requests), answer.coverage))
  })
  const showNewer = () => {
    const now = known()
    if (now === null) return
    load.set(keep(withNewer(now.list), now.coverage))
    scrollTo(0, 0)
  }
  return { load, older, showNewer }
}

function Filters(props: {
  readonly workspace: string
  readonly filter: RequestFilter
  readonly onChange: (fields: Readonly<Record<string, string | null>>) => void
}) {
  const { workspace, filter, onChange } = props
  const load = useLoad((signal) => api.get<EndpointsAnswer>('/endpoints', { signal }), [])
  const known = [...(load.value?.paths ?? []), JOB_RUN]
  const endpoints = known.includes(filter.path) || filter.path === '' ? known : [...known, filter.path]
  return h(
    'div',
    { class: 'filters requests-filters', role: 'search', 'aria-label': 'Filter requests' },
    h(Select, {
      label: 'Outcome',
      value: filter.outcome,
      options: [
        { value: '', label: 'All outcomes' },
        { value: 'ok', label: 'Succeeded' },
        { value: 'failed', label: 'Failed' },
      ],
      onChange: (outcome: string) => onChange({ outcome }),
    }),
    h(Select, {
      label: 'Endpoint',
      value: filter.path,
      options: [
        { value: '', label: 'All endpoints' },
        ...endpoints.map((path) => ({ value: path, label: endpointName(path) })),
      ],
      onChange: (path: string) => onChange({ path }),
    }),
    h(NamePicker, {
      workspace,
      of: 'apps',
      label: 'App',
      all: 'All apps',
      value: filter.app,
      onChange: (app: string) => onChange({ app }),
    }),
    h(NamePicker, {
      workspace,
      of: 'keys',
      label: 'Key',
      all: 'All keys',
      value: filter.key,
      onChange: (key: string) => onChange({ key, key_id: null }),
    }),
    h(TextInput, {
      label: 'Request ID',
      type: 'search',
      mono: true,
      value: filter.id,
      onInput: (id: string) => onChange({ id: id.trim() }),
    }),
    h(Switch, {
      label: 'Show polls and playground',
      checked: filter.all,
      onChange: (all: boolean) => onChange({ all: all ? 'true' : null }),
    }),
  )
}

function Rows(props: {
  readonly workspace: string
  readonly filter: RequestFilter
  readonly list: RequestList
  readonly coverage: Coverage | null
  readonly search: string
  readonly requests: ReturnType<typeof useRequests>
}) {
  const { workspace, filter, list, coverage, search, requests } = props
  const { older, showNewer } = requests
  const decimals = costDecimals(list.rows)
  const columns = useMemo(() => requestColumns(decimals), [decimals])
  const count = `${number(list.newer.length)}${list.gap ? ' or more' : ''}`
  return h(
    'div',
    { class: 'stack' },
    h(
      'div',
      { class: 'requests-newer', role: 'status' },
      list.newer.length === 0
        ? null
        : h(Button, { small: true, icon: 'up', onClick: showNewer }, `+${count} newer`),
    ),
    h(Table<RequestAnswer>, {
      caption: 'Requests',
      columns,
      rows: list.rows,
      rowKey,
      href: ({ record_id: id }: RequestAnswer) => pathOf(workspace, 'requests', id) + search,
    }),
    h(ErrorNote, { error: older.error, what: 'Older requests' }),
    h(
      'p',
      { class: 'quiet small' },
      number(list.rows.length),
      ' shown. ',
      coverageWords(coverage, number),
      list.more
        ? null
        : [
            ' End of list: the newest 1,000 failures and 1,000 others are kept for a week. ',
            h(
              'a',
              { href: pathOf(workspace, 'requests') + logSearch(filter) },
              'Older requests are in the log',
            ),
            '.',
          ],
    ),
    list.more
      ? h(
          'div',
          { class: 'actions' },
          h(Button, { onClick: () => older.run(), busy: older.busy }, 'Load older'),
        )
      : null,
  )
}

function requestColumns(decimals: number): readonly Column<RequestAnswer>[] {
  return [
    {
      head: 'Endpoint',
      primary: true,
      cell: ({ method, path }) =>
        h('span', { class: 'mono' }, path === JOB_RUN ? endpointName(path) : `${method} ${path}`),
    },
    { head: 'Outcome', cell: (request) => h(Outcome, { request }) },
    { head: 'Served by', cell: (request) => h(ServedBy, { request }) },
    { head: 'App and key', cell: (request) => h(AppAndKey, { of: request }) },
    { head: 'Duration', align: 'end', cell: (request) => took(request.milliseconds) },
    {
      head: 'Cost',
      align: 'end',
      minor: true,
      cell: ({ cost_usd: cost }) => (cost === null ? '–' : `$${number(cost, decimals)}`),
    },
    { head: 'Time', align: 'end', cell: ({ at }) => h(When, { at }) },
  ]
}

/** The log with the same filters, but the endpoint, which has its method there. */
function logSearch({ outcome, app, key, id, all }: RequestFilter): string {
  return queryOf({
    ...{ outcome: outcome === 'failed' ? 'error' : outcome, app, key_id: key, id },
    ...{ playground: all ? 'true' : null, tab: 'log' },
  })
}

function None(props: {
  readonly workspace: string
  readonly filter: RequestFilter
  readonly onClear: () => void
}) {
  const { workspace, filter, onClear } = props
  if (isFiltered(filter)) {
    const log = pathOf(workspace, 'requests') + logSearch(filter)
    return h(
      EmptyState,
      {
        title: 'No matching requests',
        action: [
          h(LinkButton, { href: log }, 'Search the log'),
          ' ',
          h(Button, { onClick: onClear }, 'Clear filters'),
        ],
      },
      'None of the newest requests matches these filters. New requests appear here within seconds.',
    )
  }
  return h(
    EmptyState,
    {
      title: 'No requests yet',
      action: h(LinkButton, { href: pathOf(workspace, 'playground') }, 'Open the playground'),
    },
    'Call /v1 with a key of this workspace. New requests appear here within seconds',
    filter.all ? '.' : '; those of the playground only if you show them.',
  )
}
