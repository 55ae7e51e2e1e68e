import { useRef, useState } from 'preact/hooks'
import type { KeyAnswer, RequestAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { milliseconds, orNone, usd } from '../../format.ts'
import { html } from '../../html.ts'
import { useAction, useLoad } from '../../load.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Select } from '../../parts/field.ts'
import { PageHead } from '../../parts/page-head.ts'
import { EmptyState, Fault, Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { useQuery } from '../../router.ts'
import type { WorkspaceViewProps } from '../../view.ts'
import { ENDPOINTS, endpointName } from './endpoints.ts'
import { OneRequest } from './one-request.ts'
import { Outcome } from './outcome.ts'
import {
  isFiltered,
  listQuery,
  olderThan,
  type RequestFilter,
  type RequestList,
  readFilter,
  rowKey,
  withNewest,
  withOlder,
} from './request-list.ts'

const LIVE_MS = 5_000

/** The newest requests of a workspace, live; or one of them with its attempts. */
export function RequestsView({ workspace, path, query }: WorkspaceViewProps) {
  const [id] = path
  const search = query.toString() === '' ? '' : `?${query.toString()}`
  return id === undefined
    ? html`<${AllRequests} workspace=${workspace} search=${search} />`
    : html`<${OneRequest} key=${id} workspace=${workspace} id=${id} search=${search} />`
}

function AllRequests({ workspace, search }: { readonly workspace: string; readonly search: string }) {
  const [query, setQuery] = useQuery()
  const [live, setLive] = useState(true)
  const filter = readFilter(query)
  const { load, older } = useRequests(workspace, filter, live)
  const names = useNames(workspace)
  const head = html`<${PageHead}
    title="Requests"
    lead="Calls of this workspace and runs of its jobs, newest first. Bodies and transcripts are not kept."
    actions=${html`<${Button} icon=${live ? 'pause' : 'play'} pressed=${live} onClick=${() => setLive(!live)}>
      ${live ? 'Live' : 'Paused'}
    <//>`}
  />`
  return html`${head}
    <${Filters} filter=${filter} names=${names} onChange=${setQuery} />
    <${Loaded}
      load=${load}
      what="The requests"
      rows=${10}
      render=${(list: RequestList) =>
        list.rows.length === 0
          ? html`<${None} workspace=${workspace} filtered=${isFiltered(filter)} onClear=${() => setQuery(NO_FILTER)} />`
          : html`<${Rows} workspace=${workspace} list=${list} names=${names} search=${search} older=${older} />`}
    />`
}

const NO_FILTER = { outcome: null, path: null, app: null, key: null }

/** What was loaded stays while new ones come: older pages are kept behind the newest. */
function useRequests(workspace: string, filter: RequestFilter, live: boolean) {
  const root = apiPath`/workspaces/${workspace}/requests`
  const place = JSON.stringify([root, filter])
  const kept = useRef<{ readonly place: string; readonly list: RequestList } | null>(null)
  const load = useLoad(
    async (signal) => {
      const { requests } = await api.get<Page>(root + listQuery(filter, null), { signal })
      const before = kept.current?.place === place ? kept.current.list : null
      const list = withNewest(before, requests)
      kept.current = { place, list }
      return list
    },
    [place],
    { everyMs: live ? LIVE_MS : 0 },
  )
  const older = useAction(async () => {
    const before = kept.current?.place === place ? kept.current.list : null
    if (before === null) return
    const { requests } = await api.get<Page>(root + listQuery(filter, olderThan(before)))
    if (kept.current?.place !== place) return
    const list = withOlder(kept.current.list, requests)
    kept.current = { place, list }
    load.set(list)
  })
  return { load, older }
}

interface Page {
  readonly requests: readonly RequestAnswer[]
}

interface Names {
  readonly apps: readonly string[]
  /** Null: not known yet. */
  readonly keys: readonly KeyAnswer[] | null
}

/** What can be filtered by; nothing until it is known. */
function useNames(workspace: string): Names {
  const load = useLoad<Names>(
    async (signal) => {
      const [about, { keys }] = await Promise.all([
        api.get<WorkspaceAnswer>(apiPath`/workspaces/${workspace}`, { signal }),
        api.get<{ keys: readonly KeyAnswer[] }>(apiPath`/workspaces/${workspace}/keys`, { signal }),
      ])
      return { apps: about.apps.map(({ id }) => id), keys }
    },
    [workspace],
  )
  return load.value ?? { apps: [], keys: null }
}

function Filters(props: {
  readonly filter: RequestFilter
  readonly names: Names
  readonly onChange: (fields: Readonly<Record<string, string | null>>) => void
}) {
  const { filter, names, onChange } = props
  const { apps } = names
  const keys = names.keys ?? []
  const keyOptions = keys.map(({ id, name, prefix }) => {
    const alone = keys.filter((key) => key.name === name).length === 1
    return { value: id, label: alone ? name : `${name} (${prefix ?? id})` }
  })
  return html`<div class="filters requests-filters" role="search" aria-label="Filter requests">
    <${Select}
      label="Outcome"
      value=${filter.outcome}
      options=${[
        { value: '', label: 'All outcomes' },
        { value: 'ok', label: 'Answered' },
        { value: 'failed', label: 'Failed' },
      ]}
      onChange=${(outcome: string) => onChange({ outcome })}
    />
    <${Select}
      label="Endpoint"
      value=${filter.path}
      options=${withChosen(
        [
          { value: '', label: 'All endpoints' },
          ...ENDPOINTS.map((path) => ({ value: path, label: endpointName(path) })),
        ],
        filter.path,
      )}
      onChange=${(path: string) => onChange({ path })}
    />
    <${Select}
      label="App"
      value=${filter.app}
      options=${withChosen(
        [{ value: '', label: 'All apps' }, ...apps.map((app) => ({ value: app, label: app }))],
        filter.app,
      )}
      onChange=${(app: string) => onChange({ app })}
    />
    <${Select}
      label="Key"
      value=${filter.key}
      options=${withChosen([{ value: '', label: 'All keys' }, ...keyOptions], filter.key)}
      onChange=${(key: string) => onChange({ key })}
    />
  </div>`
}

interface Choice {
  readonly value: string
  readonly label: string
}

/** A link may name what is not listed, e.g. a key that was revoked and forgotten. */
function withChosen(options: readonly Choice[], chosen: string): readonly Choice[] {
  return options.some(({ value }) => value === chosen)
    ? options
    : [...options, { value: chosen, label: chosen }]
}

function Rows(props: {
  readonly workspace: string
  readonly list: RequestList
  readonly names: Names
  readonly search: string
  readonly older: ReturnType<typeof useRequests>['older']
}) {
  const { workspace, list, names, search, older } = props
  return html`<div class="stack">
    <${Table}
      caption="Requests"
      columns=${columnsOf(names)}
      rows=${list.rows}
      rowKey=${rowKey}
      href=${({ id }: RequestAnswer) => pathOf(workspace, 'requests', id) + search}
    />
    <${Fault} error=${older.error} what="Older requests" />
    ${
      list.more
        ? html`<div class="actions"><${Button} onClick=${() => older.run()} busy=${older.busy}>Load older<//></div>`
        : html`<p class="quiet small">These are all that are kept.</p>`
    }
  </div>`
}

function columnsOf({ keys }: Names): readonly Column<RequestAnswer>[] {
  // Nothing stands for a name that is still to come: it would move what is below.
  const nameOf = (id: string) => (keys === null ? '' : (keys.find((key) => key.id === id)?.name ?? id))
  return [
    {
      head: 'Endpoint',
      primary: true,
      cell: ({ method, path }) =>
        html`<span class="mono">${path === 'job' ? endpointName(path) : `${method} ${path}`}</span>`,
    },
    { head: 'Outcome', cell: (request) => html`<${Outcome} request=${request} />` },
    { head: 'Served by', cell: ({ attempts }) => servedBy(attempts) },
    {
      head: 'App and key',
      cell: ({ app, key_id: id }) => html`${app} <span class="quiet" title=${id}>${nameOf(id)}</span>`,
    },
    { head: 'Took', align: 'end', cell: (request) => milliseconds(request.milliseconds) },
    { head: 'Cost', align: 'end', minor: true, cell: ({ cost_usd: cost }) => orNone(cost, usd) },
    { head: 'Ended', align: 'end', cell: ({ at }) => html`<${Time} at=${at} />` },
  ]
}

function servedBy(attempts: RequestAnswer['attempts']) {
  const last = attempts.at(-1)
  if (last === undefined) return html`<span class="quiet">–</span>`
  const more =
    attempts.length > 1 ? html`<span class="quiet nowrap">of ${attempts.length} tried</span>` : null
  return html`<span class="mono requests-server">${last.provider}/${last.model}</span> ${more}`
}

function None(props: {
  readonly workspace: string
  readonly filtered: boolean
  readonly onClear: () => void
}) {
  const { workspace, filtered, onClear } = props
  if (filtered) {
    return html`<${EmptyState}
      title="No request matches"
      action=${html`<${Button} onClick=${onClear}>Show all requests<//>`}
    >
      None of those that are kept is like that. New ones appear here by themselves.
    <//>`
  }
  return html`<${EmptyState}
    title="No requests yet"
    action=${html`<${LinkButton} href=${pathOf(workspace, 'playground')}>Open the playground<//>`}
  >
    Make one in the playground, or call /v1 with a key of this workspace. It appears here within seconds.
  <//>`
}
