import { useState } from 'preact/hooks'
import type { ModelsAnswer, RouteSummary } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { PageHead } from '../../parts/page-head.ts'
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
  const routes = useLoad(
    async (signal) =>
      (await api.get<{ routes: readonly RouteSummary[] }>(`${place}/routes`, { signal })).routes,
    [workspace],
  )
  const models = useLoad((signal) => api.get<ModelsAnswer>(`${place}/models`, { signal }), [workspace])
  const hasNone = routes.state === 'ready' && routes.value.length === 0
  const create = html`<${Button} kind="primary" icon="plus" onClick=${() => setCreating(true)}>New route<//>`
  return html`
    <${PageHead}
      title="Routes"
      lead="A route decides which provider and model serve a call. Apps lead their keys to one."
      actions=${hasNone ? null : create}
    />
    <${Loaded}
      load=${routes}
      what="The routes"
      render=${(all: readonly RouteSummary[]) =>
        all.length === 0
          ? html`<${NoRoutes} workspace=${workspace} models=${models.value} create=${create} />`
          : html`<${Table}
              caption="Routes"
              columns=${COLUMNS}
              rows=${all}
              rowKey=${({ name }: RouteSummary) => name}
              href=${({ name }: RouteSummary) => pathOf(workspace, 'routes', name)}
              dim=${({ in_service, has_draft }: RouteSummary) => !in_service && !has_draft}
            />`}
    />
    ${
      creating
        ? html`<${CreateRoute}
            workspace=${workspace}
            models=${models}
            taken=${(routes.value ?? []).map(({ name }) => name)}
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
      title="No routes yet, and no provider to build one of"
      action=${html`<${LinkButton} href=${pathOf(workspace, 'providers')} kind="primary">Add a provider<//>`}
    >
      Add a provider with its credential first. Then make a route of its models.
    <//>`
  return html`<${EmptyState} title="No routes yet" action=${create}>
    Make a route of one or more models, publish it, and lead an app to it.
  <//>`
}

const COLUMNS: readonly Column<RouteSummary>[] = [
  { head: 'Route', primary: true, cell: ({ name }) => html`<span class="mono">${name}</span>` },
  { head: 'State', cell: (route) => html`<${RouteState} ...${route} />` },
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
    cell: ({ version }) =>
      version === null
        ? html`<span class="quiet">–</span>`
        : html`<span class="mono small nowrap">${version}</span>`,
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
