import type { AppAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { FileBadge, NotInForce } from '../../parts/badge.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Section } from '../../parts/page-head.ts'
import { Pager, type Paging, SearchField } from '../../parts/paged.ts'
import { EmptyState } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { pathOf } from '../../paths.ts'
import { CAPABILITY_NAMES, wordFor } from '../routes/words.ts'
import type { Asking, Known } from './view.ts'

export function AppList({
  known,
  paging,
  onAsk,
}: {
  readonly known: Known
  readonly paging: Paging
  readonly onAsk: (asking: Asking) => void
}) {
  const { id } = known.workspace
  const { apps, total, all } = known.listed
  const isReady = known.routes.length > 0
  const make = () => onAsk({ what: 'app', app: null })
  const add = html`<${Button} kind="primary" icon="plus" onClick=${make}>Create app<//>`
  if (all === 0)
    return isReady
      ? html`<${EmptyState} title="No apps yet" action=${add}>
          Create an app, choose its route, then create a key.
        <//>`
      : html`<${EmptyState}
          title="Publish a route to create your first app"
          action=${html`<${LinkButton} href=${pathOf(id, 'routes')} kind="primary">Go to routes<//>`}
        >
          An app sends its traffic to a published route.
        <//>`
  return html`<${Section} title="Apps" actions=${add}>
    <${SearchField} paging=${paging} label="Search apps" all=${all} />
    <${Table} caption="Apps" columns=${columnsOf(id, onAsk)} rows=${apps} rowKey=${(app: AppAnswer) => app.id} />
    <${Pager} paging=${paging} total=${total} shown=${apps.length} />
  <//>`
}

function columnsOf(workspace: string, onAsk: (asking: Asking) => void): readonly Column<AppAnswer>[] {
  const link = (route: string) =>
    html`<a class="mono" href=${pathOf(workspace, 'routes', route)}>${route}</a>`
  const pairs = (routes: readonly (readonly [what: string, route: string])[]) =>
    routes.length === 0
      ? html`<span class="quiet">–</span>`
      : html`<span class="stack stack-tight">
          ${routes.map(([what, route]) => html`<span key=${what}>${what} → ${link(route)}</span>`)}
        </span>`
  return [
    {
      head: 'App',
      primary: true,
      cell: ({ id, managed_by, faults }) => html`<span class="mono">${id}</span>
        <${FileBadge} managedBy=${managed_by} />
        <${NotInForce} faults=${faults} />`,
    },
    { head: 'Route', cell: ({ fields }) => link(fields.route) },
    {
      head: 'Route overrides by capability',
      cell: ({ fields }) =>
        pairs(
          Object.entries(fields.capability_routes ?? {}).map(([name, route]) => [
            wordFor(CAPABILITY_NAMES, name),
            String(route),
          ]),
        ),
    },
    { head: 'Purposes', cell: ({ fields }) => pairs(Object.entries(fields.purposes ?? {})) },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      cell: (app) =>
        app.managed_by === 'file'
          ? null
          : html`
              <${Button}
                small
                label=${`Edit the app ${app.id}`}
                onClick=${() => onAsk({ what: 'app', app })}
              >Edit<//>
              <${Button}
                small
                kind="quiet"
                icon="trash"
                label=${`Delete the app ${app.id}`}
                onClick=${() => onAsk({ what: 'delete-app', app })}
              />
            `,
    },
  ]
}
