import type { JobAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { duration, milliseconds } from '../../format.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { StatusBadge } from '../../parts/badge.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Select } from '../../parts/field.ts'
import { PageHead } from '../../parts/page-head.ts'
import { EmptyState, Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { useKept, useQuery } from '../../router.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { FIRST_JOBS, jobsQuery, KINDS, MOST_JOBS, readJobFilter, STATUSES } from './job-list.ts'
import { OneJob } from './one-job.ts'

const LIVE_MS = 5_000

/** The jobs of a workspace, live; or one of them with its history and runs. */
export function JobsView({ workspace, path, query }: WorkspaceViewProps) {
  const [id] = path
  const search = query.toString() === '' ? '' : `?${query.toString()}`
  return id === undefined
    ? html`<${AllJobs} workspace=${workspace} search=${search} />`
    : html`<${OneJob} key=${id} workspace=${workspace} id=${id} search=${search} />`
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
    [workspace, kind, status, limit],
    { everyMs: LIVE_MS },
  )
  const filtered = kind + status !== ''
  return html`<${PageHead}
      title="Jobs"
      lead="Transcription jobs and queued requests, newest first. Updates live."
    />
    <div class="filters" role="search" aria-label="Filter jobs">
      <${Select}
        label="Kind"
        value=${kind}
        options=${[{ value: '', label: 'All kinds' }, ...KINDS.map((one) => ({ value: one, label: one }))]}
        onChange=${(value: string) => setQuery({ kind: value })}
      />
      <${Select}
        label="Status"
        value=${status}
        options=${[{ value: '', label: 'Any status' }, ...STATUSES.map((one) => ({ value: one, label: one }))]}
        onChange=${(value: string) => setQuery({ status: value })}
      />
    </div>
    <${Loaded}
      load=${load}
      what="The jobs"
      rows=${10}
      render=${(jobs: readonly JobAnswer[]) =>
        jobs.length === 0
          ? html`<${None}
              workspace=${workspace}
              filtered=${filtered}
              onClear=${() => setQuery({ kind: null, status: null })}
            />`
          : html`<div class="stack">
              <${Table}
                caption="Jobs"
                columns=${COLUMNS}
                rows=${jobs}
                rowKey=${({ id }: JobAnswer) => id}
                href=${({ id }: JobAnswer) => pathOf(workspace, 'jobs', id) + search}
              />
              <${More} count=${jobs.length} limit=${limit} busy=${load.busy} onMore=${() => setLimit(MOST_JOBS)} />
            </div>`}
    />`
}

function More(props: {
  readonly count: number
  readonly limit: number
  readonly busy: boolean
  readonly onMore: () => void
}) {
  const { count, limit, busy, onMore } = props
  if (count < limit) return html`<p class="quiet small">End of list.</p>`
  if (limit >= MOST_JOBS)
    return html`<p class="quiet small">Showing the newest ${MOST_JOBS}. Filter to find others.</p>`
  return html`<div class="actions"><${Button} onClick=${onMore} busy=${busy}>Show more<//></div>`
}

const COLUMNS: readonly Column<JobAnswer>[] = [
  { head: 'Job', primary: true, cell: ({ id }) => html`<span class="mono">${id}</span>` },
  {
    head: 'Status',
    cell: ({ status, cancel_requested: cancelling, error, completed_at: ended }) =>
      html`<${StatusBadge} status=${cancelling && ended === null ? 'cancelling' : status} />
        ${error === null ? null : html`<span class="mono small">${error.code}</span>`}`,
  },
  {
    head: 'Endpoint',
    cell: ({ endpoint, mode }) => (mode === 'priority' ? endpoint : `${endpoint}, ${mode}`),
  },
  { head: 'App', cell: ({ app }) => app },
  { head: 'Runs', align: 'end', minor: true, cell: ({ attempts }) => attempts },
  { head: 'Took', align: 'end', cell: (job) => took(job) },
  { head: 'Submitted', align: 'end', cell: ({ created_at: at }) => html`<${Time} at=${at} />` },
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
    return html`<${EmptyState}
      title="No matching jobs"
      action=${html`<${Button} onClick=${onClear}>Show all jobs<//>`}
    >
      No stored job matches these filters.
    <//>`
  }
  return html`<${EmptyState}
    title="No jobs yet"
    action=${html`<${LinkButton} href=${pathOf(workspace, 'playground')}>Open the playground<//>`}
  >
    Send a long recording as a job in the playground, or POST it to /v1/transcription/jobs. Requests to /v1/queue are
    listed here, too.
  <//>`
}
