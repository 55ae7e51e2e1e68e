import { useMemo, useState } from 'preact/hooks'
import type { HealthAnswer, ModelsAnswer, RouteSummary, RoutesAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { LOADING, useLoad } from '../../load.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { fitnessOfEntries, Health, useHealth } from '../../parts/health.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Pager, SearchField, usePaging } from '../../parts/paged.ts'
import { EmptyState, Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { CreateRoute } from './create-route.ts'
import { RouteState } from './route-state.ts'

/** All routes of a workspace. */
export function RouteList({ workspace }: { readonly workspace: string }) {
  const [creating, setCreating] = useState(false)
  const place = apiPath`/workspaces/${workspace}`
  const paging = usePaging()
  const routes = useLoad(
    (signal) => api.get<RoutesAnswer>(`${place}/routes${paging.query}`, { signal }),
    [workspace, paging.query],
  )
  const health = useHealth(workspace)
  const columns = useMemo(() => columnsOf(health ?? null), [health])
  const models = useLoad((signal) => api.get<ModelsAnswer>(`${place}/models`, { signal }), [workspace])
  const hasNone = routes.state === 'ready' && routes.value.all === 0
  const create = html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>Create route<//>`
  return html`
    <${PageHead}
      title="Routes"
      lead="A route decides which provider and model handle each request. Apps send their traffic to a route."
      actions=${hasNone ? null : create}
    />
    ${hasNone ? null : html`<${SearchField} paging=${paging} label="Search routes" all=${routes.value?.all ?? 0} />`}
    <${Loaded}
      load=${health === undefined ? LOADING : routes}
      what="The routes"
      render=${({ routes: shown, total, all }: RoutesAnswer) =>
        all === 0
          ? html`<${NoRoutes} workspace=${workspace} models=${models.value} create=${create} />`
          : shown.length === 0
            ? html`<${EmptyState} title="No matching routes" />`
            : html`<div class="stack">
                <${Table}
                  caption="Routes"
                  columns=${columns}
                  rows=${shown}
                  rowKey=${({ name }: RouteSummary) => name}
                  href=${({ name }: RouteSummary) => pathOf(workspace, 'routes', name)}
                  dim=${({ in_service, has_draft }: RouteSummary) => !in_service && !has_draft}
                />
                <${Pager} paging=${paging} total=${total} shown=${shown.length} />
              </div>`}
    />
    ${
      creating
        ? html`<${CreateRoute}
            workspace=${workspace}
            models=${models}
            taken=${(routes.value?.routes ?? []).map(({ name }) => name)}
            onClose=${() => setCreating(false)}
          />`
        : null
    }
  `
}

/** A route needs a model, and a model needs a provider: the first step that is missing is the one to take. */
function NoRoutes(props: {
  readonly workspace: string
  readonly models: ModelsAnswer | null
  readonly create: unknown
}) {
  const { workspace, models, create } = props
  if (models !== null && models.providers.length === 0)
    return html`<${EmptyState}
      title="Add a provider to create your first route"
      action=${html`<${LinkButton} href=${pathOf(workspace, 'providers')} kind="primary">Add a provider<//>`}
    >
      A route sends requests to models of your providers.
    <//>`
  return html`<${EmptyState} title="No routes yet" action=${create}>
    Create a route, publish it, and assign it to an app.
  <//>`
}

const columnsOf = (health: HealthAnswer | null): readonly Column<RouteSummary>[] => [
  { head: 'Route', primary: true, cell: ({ name }) => html`<span class="mono">${name}</span>` },
  { head: 'State', cell: (route) => html`<${RouteState} ...${route} />` },
  {
    head: 'Health',
    cell: ({ name, entries, in_service }) =>
      in_service
        ? html`<${Health} of=${health && fitnessOfEntries(health, name, entries)} total=${entries.length} />`
        : html`<span class="quiet">–</span>`,
  },
  {
    head: 'Entries',
    cell: ({ entries, strategy }) => html`<${Chain} entries=${entries} strategy=${strategy} />`,
  },
  {
    head: 'Apps',
    cell: ({ apps }) => (apps.length === 0 ? html`<span class="quiet">none</span>` : apps.join(', ')),
  },
  {
    head: 'Version',
    minor: true,
    cell: ({ version, number }) =>
      version === null
        ? html`<span class="quiet">–</span>`
        : html`<span class="nowrap" title=${version}>${number === null ? 'from file' : `v${number}`}</span>`,
  },
  {
    head: 'Published',
    minor: true,
    cell: ({ published_at, published_by }) =>
      published_at === null
        ? html`<span class="quiet">–</span>`
        : html`<span><${Time} at=${published_at} />${published_by === null ? null : html` by ${published_by}`}</span>`,
  },
]

const SHOWN_MAX = 3

/** The entries as they are tried, `a → b → c`; under another strategy their order is not written in the route. */
function Chain({ entries, strategy }: { readonly entries: readonly string[]; readonly strategy: string }) {
  const ordered = strategy === 'priority'
  const rest = entries.length - SHOWN_MAX
  const words = strategy.replaceAll('_', ' ')
  if (entries.length === 0) return html`<span class="quiet">none</span>`
  return html`<span class="routes-chain">
    ${entries.slice(0, SHOWN_MAX).map(
      (entry, index) => html`<span key=${index} class="routes-link">
        ${index === 0 ? null : html`<span class="quiet" aria-hidden="true">${ordered ? '→' : '·'}</span>`}
        <span class="mono small">${entry}</span>
      </span>`,
    )}
    ${
      rest > 0
        ? html`<span class="quiet small" title=${entries.slice(SHOWN_MAX).join(', ')}>and ${rest} more</span>`
        : null
    }
    ${ordered ? null : html`<span class="quiet small">${words}</span>`}
  </span>`
}
