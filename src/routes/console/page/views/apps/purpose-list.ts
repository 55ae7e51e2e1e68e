import type { PurposeAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { FileBadge } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { Switch } from '../../parts/choice.ts'
import { Section } from '../../parts/page-head.ts'
import { EmptyState, Fault } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { bindersOf } from './delete-purpose.ts'
import type { Asking, Known } from './view.ts'

/** The labels by which callers say what a call is for. */
export function PurposeList(props: {
  readonly known: Known
  readonly onAsk: (asking: Asking) => void
  readonly onSaved: (workspace: WorkspaceAnswer) => void
}) {
  const { known, onAsk, onSaved } = props
  const { id, purposes } = known.workspace
  const turn = useAction(async ({ purpose, description }: PurposeAnswer, enabled: boolean) => {
    const path = apiPath`/workspaces/${id}/purposes/${purpose}`
    onSaved(await api.put<WorkspaceAnswer>(path, { description, enabled }))
    toast(`Purpose ${purpose} ${enabled ? 'enabled' : 'disabled'}`)
  })
  const add = html`<${Button} icon="plus" onClick=${() => onAsk({ what: 'purpose', purpose: null })}>Create purpose<//>`
  return html`<${Section}
    title="Purposes"
    lead="Labels a request can send to pick a different route or entry."
    actions=${purposes.length === 0 ? null : add}
    id="purposes"
  >
    ${
      purposes.length === 0
        ? html`<${EmptyState} title="No purposes yet" action=${add}>
            Create one to send some of an app’s requests to another route or entry.
          <//>`
        : html`<${Table}
            caption="Purposes"
            columns=${columnsOf(known, onAsk, turn.run, turn.busy)}
            rows=${purposes}
            rowKey=${({ purpose }: PurposeAnswer) => purpose}
          />`
    }
    <${Fault} error=${turn.error} what="Not changed" />
  <//>`
}

function columnsOf(
  known: Known,
  onAsk: (asking: Asking) => void,
  turn: (purpose: PurposeAnswer, enabled: boolean) => void,
  busy: boolean,
): readonly Column<PurposeAnswer>[] {
  return [
    {
      head: 'Purpose',
      primary: true,
      cell: ({ purpose, managed_by }) => html`<span class="mono">${purpose}</span>
        <${FileBadge} managedBy=${managed_by} />`,
    },
    { head: 'Description', cell: ({ description }) => description || html`<span class="quiet">–</span>` },
    {
      head: 'Used by',
      cell: ({ purpose }) => {
        const apps = bindersOf(known, purpose)
        return apps.length === 0 ? html`<span class="quiet">No app</span>` : apps.join(', ')
      },
    },
    {
      head: 'Enabled',
      cell: (purpose) => html`<${Switch}
        label=${html`<span class="hidden">${purpose.purpose} is </span>${purpose.enabled ? 'enabled' : 'disabled'}`}
        checked=${purpose.enabled}
        onChange=${(enabled: boolean) => turn(purpose, enabled)}
        disabled=${purpose.managed_by === 'file' || busy}
      />`,
    },
    {
      head: 'Actions',
      hideHead: true,
      align: 'end',
      cell: (purpose) =>
        purpose.managed_by === 'file'
          ? null
          : html`
              <${Button}
                small
                label=${`Edit the purpose ${purpose.purpose}`}
                onClick=${() => onAsk({ what: 'purpose', purpose })}
              >Edit<//>
              <${Button}
                small
                kind="quiet"
                icon="trash"
                label=${`Delete the purpose ${purpose.purpose}`}
                onClick=${() => onAsk({ what: 'delete-purpose', purpose })}
              />
            `,
    },
  ]
}
