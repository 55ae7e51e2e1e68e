import { useState } from 'preact/hooks'
import type { WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { usd } from '../../format.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { isSameName } from '../../names.ts'
import { FileBadge } from '../../parts/badge.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Facts, ManagedByFile, PageHead, Section } from '../../parts/page-head.ts'
import { Bar } from '../../parts/progress.ts'
import { Loaded, Note } from '../../parts/states.ts'
import { Time } from '../../parts/time.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { AddCredits } from './add-credits.ts'
import { DeleteWorkspace } from './delete-workspace.ts'
import { EditWorkspace } from './edit-workspace.ts'

/** One workspace as operators see it: its plan, what it may spend and has spent. */
export function WorkspacePage({ id }: { readonly id: string }) {
  const load = useLoad((signal) => api.get<WorkspaceAnswer>(apiPath`/workspaces/${id}`, { signal }), [id])
  const [asking, setAsking] = useState<'edit' | 'credits' | 'delete' | null>(null)
  const close = () => setAsking(null)
  const workspace = load.value
  const readOnly = workspace?.managed_by === 'file'
  const isAway = workspace === null
  const actions = html`
    <${LinkButton} kind="primary" href=${pathOf(id, 'overview')}>Open<//>
    <${LinkButton} href=${pathOf(id, 'setup')}>Setup<//>
    <${Button} onClick=${() => setAsking('credits')} disabled=${isAway}>Add credits<//>
    ${
      readOnly
        ? null
        : html`
            <${Button} onClick=${() => setAsking('edit')} disabled=${isAway}>Edit<//>
            <${Button}
              kind="danger"
              icon="trash"
              label="Delete workspace"
              onClick=${() => setAsking('delete')}
              disabled=${isAway}
            />
          `
    }
  `
  return html`
    <${PageHead}
      title=${workspace?.name ?? id}
      parent=${{ href: pathOf(null, 'workspaces'), label: 'Workspaces' }}
      badges=${html`${isSameName(workspace?.name ?? id, id) ? null : html`<span class="mono small quiet">${id}</span>`}
        <${FileBadge} managedBy=${workspace?.managed_by ?? 'console'} />`}
      actions=${actions}
    />
    <${Loaded}
      load=${load}
      what=${`The workspace ${id}`}
      render=${(value: WorkspaceAnswer) => html`<${Account} workspace=${value} />`}
    />
    ${
      workspace !== null && asking === 'edit'
        ? html`<${EditWorkspace} before=${workspace} onSaved=${load.set} onClose=${close} />`
        : null
    }
    ${
      workspace !== null && asking === 'credits'
        ? html`<${AddCredits} workspace=${workspace} onSaved=${load.set} onClose=${close} />`
        : null
    }
    ${
      workspace !== null && asking === 'delete'
        ? html`<${DeleteWorkspace} workspace=${workspace} onClose=${close} />`
        : null
    }
  `
}

function Account({ workspace }: { readonly workspace: WorkspaceAnswer }) {
  const { account, plan, budget_usd_per_month: budget, apps, purposes } = workspace
  const items = [
    ['Plan', plan ?? 'None (everything is included)'],
    ['Apps', apps.length === 0 ? 'None' : apps.map(({ id }) => id).join(', ')],
    ['Purposes', purposes.length === 0 ? 'None' : purposes.map(({ purpose }) => purpose).join(', ')],
    ['Audio and transcripts in the console', workspace.content_shown ? 'Shown' : 'Hidden'],
  ]
  return html`<div class="stack stack-loose">
    ${workspace.managed_by === 'file' ? html`<${ManagedByFile} what=${`the workspace ${workspace.id}`} />` : null}
    <${Facts} items=${items} />
    <${Section} title="Spending" lead="Shared providers draw from credits; your own don’t.">
      ${
        account === null
          ? html`<${Note} tone="warn">Spending is unavailable right now: the state store doesn’t answer.<//>`
          : html`
              <${Facts}
                items=${[
                  ['Credits', usd(account.credits_usd)],
                  ['Reserved', usd(account.reserved_usd)],
                  [`Spent in ${account.month}`, usd(account.spent_usd)],
                ]}
              />
              ${
                budget === null
                  ? html`<p class="quiet">No monthly budget.</p>`
                  : html`<${Bar}
                      label=${`Budget of ${account.month}`}
                      value=${account.spent_usd}
                      max=${budget}
                      text=${`${usd(account.spent_usd)} of ${usd(budget)}`}
                    />`
              }
              <${Trial} workspace=${workspace} />
            `
      }
    <//>
  </div>`
}

function Trial({ workspace }: { readonly workspace: WorkspaceAnswer }) {
  const { account, trial } = workspace
  if (!account || account.trial_allowance_usd === null) return null
  const { trial_spent_usd: spent, trial_allowance_usd: allowance } = account
  return html`<${Bar} label="Trial" value=${spent} max=${allowance} text=${`${usd(spent)} of ${usd(allowance)}`} />
    ${trial ? html`<p class="small quiet">Trial ends <${Time} at=${trial.expires_at} />.</p>` : null}`
}
