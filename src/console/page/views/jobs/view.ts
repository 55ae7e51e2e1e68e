import type { JobAnswer } from '../../../server/answers/jobs.ts'
import { api } from '../../api.ts'
import { StatusBadge } from '../../components/badge.ts'
import { Button, LinkButton } from '../../components/button.ts'
import { Select } from '../../components/field.ts'
import { PageHead } from '../../components/page-head.ts'
import { EmptyState, Loaded } from '../../components/states.ts'
import { type Column, Table } from '../../components/table.ts'
import { Time } from '../../components/time.ts'
import { duration, milliseconds } from '../../format.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import { useKept, useQuery } from '../../router.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { OneJob } from './one-job.ts'

const LIVE_MS = 5_000

/** The jobs of a workspace, live; or one of them with its history and runs. */
export function JobsView({ workspace, path, query }: WorkspaceViewProps) {
  const [id] = path
  const search = query.toString() === '' ? '' : `?${query.toString()}`
  return id === undefined ? h(AllJobs, { workspace, search }) : h(OneJob, { key: id, workspace, id, search })
}

function AllJobs({ workspace, search }: { readonly workspace: string; readonly search: string }) {
  const [query, setQuery] = useQuery()
  const [limit, setLimit] = useKept('jobs', FIRST_JOBS)
  const { kind, status } = readJobFilter(query)
  const load = useLoad(
    async (signal) => {
      const path = apiPath`/workspaces/${workspace}/jobs` + jobsQuery({ kind, status }, limit)
      return (await api.get<{ jobs: readonly JobAnswer[] }>(path, { signal })).jobs
    },
    [workspace, kind, status],
    { everyMs: LIVE_MS },
  )
  // The rows that are there stay meanwhile.
  const more = () => {
    setLimit(MOST_JOBS)
    load.reload()
  }
  const filtered = kind + status !== ''
  return [
    h(PageHead, {
      title: 'Jobs',
      lead: 'Transcription jobs and queued requests, newest first. Updates live.',
    }),
    h(
      'div',
      { class: 'filters', role: 'search', 'aria-label': 'Filter jobs' },
      h(Select, {
        label: 'Kind',
        value: kind,
        options: [{ value: '', label: 'All kinds' }, ...KINDS.map((one) => ({ value: one, label: one }))],
        onChange: (value: string) => setQuery({ kind: value }),
      }),
      h(Select, {
        label: 'Status',
        value: status,
        options: [{ value: '', label: 'Any status' }, ...STATUSES.map((one) => ({ value: one, label: one }))],
        onChange: (value: string) => setQuery({ status: value }),
      }),
    ),
    h(Loaded<readonly JobAnswer[]>, {
      load,
      what: 'The jobs',
      rows: 10,
      render: (jobs: readonly JobAnswer[]) =>
        jobs.length === 0
          ? h(None, { workspace, filtered, onClear: () => setQuery({ kind: null, status: null }) })
          : h(
              'div',
              { class: 'stack' },
              h(Table<JobAnswer>, {
                caption: 'Jobs',
                columns: COLUMNS,
                rows: jobs,
                rowKey: ({ id }: JobAnswer) => id,
                href: ({ id }: JobAnswer) => pathOf(workspace, 'jobs', id) + search,
              }),
              h(More, { count: jobs.length, limit, busy: load.busy, onMore: more }),
            ),
    }),
  ]
}

function More(props: {
  readonly count: number
  readonly limit: number
  readonly busy: boolean
  readonly onMore: () => void
}) {
  const { count, limit, busy, onMore } = props
  if (count < limit) return h('p', { class: 'quiet small' }, 'End of list.')
  if (limit >= MOST_JOBS)
    return h('p', { class: 'quiet small' }, 'Showing the newest ', MOST_JOBS, '. Filter to find others.')
  return h('div', { class: 'actions' }, h(Button, { onClick: onMore, busy }, 'Show more'))
}

const COLUMNS: readonly Column<JobAnswer>[] = [
  { head: 'Job', primary: true, cell: ({ id }) => h('span', { class: 'mono' }, id) },
  {
    head: 'Status',
    cell: ({ status, cancel_requested: cancelling, error, completed_at: ended }) => [
      h(StatusBadge, { status: cancelling && ended === null ? 'cancelling' : status }),
      error === null ? null : h('span', { class: 'mono small' }, error.code),
    ],
  },
  {
    head: 'Endpoint',
    cell: ({ endpoint, mode }) => (mode === 'priority' ? endpoint : `${endpoint}, ${mode}`),
  },
  { head: 'App', cell: ({ app }) => app },
  { head: 'Runs', align: 'end', minor: true, cell: ({ attempts }) => attempts },
  { head: 'Took', align: 'end', cell: (job) => took(job) },
  { head: 'Submitted', align: 'end', cell: ({ created_at: at }) => h(Time, { at }) },
]

function took({ started_at: from, completed_at: to }: JobAnswer): string {
  if (from === null || to === null) return '–'
  const elapsedMs = Math.max(0, Date.parse(to) - Date.parse(from))
  return elapsedMs < 60_000 ? milliseconds(elapsedMs) : duration(elapsedMs / 1_000)
}

function None(props: {
  readonly workspace: string
  readonly filtered: boolean
  readonly onClear: () => void
}) {
  const { workspace, filtered, onClear } = props
  if (filtered) {
    return h(
      EmptyState,
      { title: 'No matching jobs', action: h(Button, { onClick: onClear }, 'Show all jobs') },
      'No stored job matches these filters.',
    )
  }
  return h(
    EmptyState,
    {
      title: 'No jobs yet',
      action: h(LinkButton, { href: pathOf(workspace, 'playground') }, 'Open the playground'),
    },
    'Send a long recording as a job in the playground, or POST it to /v1/transcription/jobs. Requests to ' +
      '/v1/queue are listed here, too.',
  )
}

/** Most jobs that are shown at first, and most that the API lists. */
const FIRST_JOBS = 50
const MOST_JOBS = 200

const STATUSES = ['queued', 'processing', 'succeeded', 'failed', 'cancelled'] as const
const KINDS = ['transcription', 'queue'] as const

/** An empty string: all. */
interface JobFilter {
  readonly kind: string
  readonly status: string
}

export function readJobFilter(query: URLSearchParams): JobFilter {
  const kind = query.get('kind') ?? ''
  const status = query.get('status') ?? ''
  return {
    kind: KINDS.some((known) => known === kind) ? kind : '',
    status: STATUSES.some((known) => known === status) ? status : '',
  }
}

export function jobsQuery({ kind, status }: JobFilter, limit: number): string {
  return queryOf({ kind, status, limit })
}
