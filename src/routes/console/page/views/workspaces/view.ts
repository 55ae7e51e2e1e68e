import type { WorkspaceSummary } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { isSameName } from '../../names.ts'
import { FileBadge } from '../../parts/badge.ts'
import { LinkButton } from '../../parts/button.ts'
import { PageHead } from '../../parts/page-head.ts'
import { EmptyState, Loaded } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { pathOf } from '../../paths.ts'
import type { ViewProps } from '../../view.ts'
import { useWorkspaces } from '../../workspace-list.ts'
import { WorkspacePage } from './workspace-page.ts'

/** All workspaces, or one of them: what operators set of it. */
export function WorkspacesView({ path }: ViewProps) {
  const [id] = path
  return id === undefined ? html`<${WorkspaceList} />` : html`<${WorkspacePage} key=${id} id=${id} />`
}

function WorkspaceList() {
  const load = useWorkspaces()
  const add = html`<${LinkButton} kind="primary" icon="plus" href=${pathOf(null, 'setup')}>New workspace<//>`
  return html`
    <${PageHead}
      title="Workspaces"
      lead="Tenants, each with its own apps, keys, routes, provider credentials and credits."
      actions=${add}
    />
    <${Loaded}
      load=${load}
      what="The workspaces"
      render=${(workspaces: readonly WorkspaceSummary[]) =>
        workspaces.length === 0
          ? html`<${EmptyState} title="No workspaces yet" action=${add}>
              Create one to connect a provider, publish a route and create API keys.
            <//>`
          : html`<${Table}
              caption="Workspaces"
              columns=${COLUMNS}
              rows=${workspaces}
              rowKey=${({ id }: WorkspaceSummary) => id}
              href=${({ id }: WorkspaceSummary) => pathOf(null, 'workspaces', id)}
            />`}
    />
  `
}

const COLUMNS: readonly Column<WorkspaceSummary>[] = [
  {
    head: 'Workspace',
    primary: true,
    cell: ({ id, name, managed_by }) => html`<span class="row">
      <span>${name}</span>
      ${isSameName(name, id) ? null : html`<span class="mono small quiet">${id}</span>`}
      <${FileBadge} managedBy=${managed_by} />
    </span>`,
  },
  { head: 'Plan', cell: ({ plan }) => plan ?? html`<span class="quiet">none</span>` },
  { head: 'Apps', align: 'end', cell: ({ apps }) => apps },
  { head: 'Routes', align: 'end', cell: ({ routes }) => routes },
]
