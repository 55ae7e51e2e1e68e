import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { KindAnswer, ModelsAnswer, NewKeyAnswer, SetupAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { LinkButton } from '../../parts/button.ts'
import { Icon } from '../../parts/icon.ts'
import { PageHead } from '../../parts/page-head.ts'
import { Loaded } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import type { ViewProps } from '../../view.ts'
import { CallStep } from './call-step.ts'
import { KeyStep } from './key-step.ts'
import { ProviderStep } from './provider-step.ts'
import { RouteStep } from './route-step.ts'
import { WorkspaceStep } from './workspace-step.ts'

/** What the steps are decided by. */
export interface Standing {
  readonly setup: SetupAnswer
  readonly models: ModelsAnswer
  readonly kinds: readonly KindAnswer[]
}

/** From a name for the workspace to the answer of a first request, on one page. */
export function SetupView({ workspace, session }: ViewProps) {
  const title = workspace === null ? 'New workspace' : 'Setup'
  return html`<${PageHead}
      title=${title}
      lead="Connect a provider, publish a route, create an API key and send a first request."
      actions=${
        workspace === null ? null : html`<${LinkButton} href=${pathOf(workspace)}>Go to the overview<//>`
      }
    />
    ${
      workspace === null
        ? html`<ol class="setup">
            <${Step} number=${1} title="Name the workspace" state="now"><${WorkspaceStep} /><//>
            ${STEPS.map((step, index) => html`<${Step} key=${step} number=${index + 2} title=${step} state="later" />`)}
          </ol>`
        : html`<${Steps} workspace=${workspace} isOperator=${session.role === 'operator'} />`
    }`
}

const STEPS = ['Connect a provider', 'Publish a route', 'Create an API key', 'Send a request'] as const

function Steps({ workspace, isOperator }: { readonly workspace: string; readonly isOperator: boolean }) {
  const load = useLoad(
    async (signal): Promise<Standing> => {
      const path = apiPath`/workspaces/${workspace}`
      const [setup, models, { kinds }] = await Promise.all([
        api.get<SetupAnswer>(`${path}/setup`, { signal }),
        api.get<ModelsAnswer>(`${path}/models`, { signal }),
        api.get<{ kinds: readonly KindAnswer[] }>(`${path}/providers`, { signal }),
      ])
      return { setup, models, kinds }
    },
    [workspace],
  )
  const [made, setMade] = useState<NewKeyAnswer | null>(null)
  const draw = (standing: Standing) => {
    const { providers, route, app, keys, called } = standing.setup
    const isRouted = route !== null && app !== null
    const done = [providers.length > 0, isRouted, made !== null || keys > 0]
    const now = done.indexOf(false)
    const stateOf = (index: number) => (done[index] ? 'done' : index === now ? 'now' : 'later')
    const common = { workspace, standing, onDone: load.reload }
    return html`<ol class="setup">
      <${Step} number=${1} title="Name the workspace" state="done" summary=${workspace} />
      <${Step}
        number=${2}
        title=${STEPS[0]}
        state=${stateOf(0)}
        summary=${done[0] ? html`<span class="mono">${providers.slice(0, 3).join(', ')}</span>` : null}
      ><${ProviderStep} ...${common} isOperator=${isOperator} /><//>
      <${Step}
        number=${3}
        title=${STEPS[1]}
        state=${stateOf(1)}
        summary=${
          isRouted
            ? html`<a class="mono" href=${pathOf(workspace, 'routes', route.name)}>${route.name}</a> for the app
                <span class="mono"> ${app}</span>`
            : null
        }
      ><${RouteStep} ...${common} /><//>
      <${Step}
        number=${4}
        title=${STEPS[2]}
        state=${stateOf(2)}
        summary=${made === null ? html`<a href=${pathOf(workspace, 'keys')}>Manage keys</a>` : made.name}
      ><${KeyStep} ...${common} onMade=${setMade} /><//>
      <${Step} number=${5} title=${STEPS[3]} state=${now === -1 ? (called && !made ? 'done' : 'now') : 'later'}>
        <${CallStep} ...${common} made=${made} onMade=${setMade} />
      <//>
    </ol>`
  }
  return html`<${Loaded} load=${load} what="The setup" rows=${6} render=${draw} />`
}

/** A line of the list; what is to be done in it is shown when it is its turn. */
function Step(props: {
  readonly number: number
  readonly title: string
  readonly state: 'done' | 'now' | 'later'
  readonly summary?: ComponentChildren
  readonly children?: ComponentChildren
}) {
  const { number, title, state, summary, children } = props
  const isLast = number === STEPS.length + 1
  return html`<li class=${`setup-step setup-${state}`} aria-current=${state === 'now' ? 'step' : undefined}>
    <span class="setup-mark" aria-hidden="true">${state === 'done' ? html`<${Icon} name="check" />` : number}</span>
    <div class="setup-text">
      <div class="setup-line">
        <h2>${title}${state === 'done' ? html`<span class="hidden">: done</span>` : null}</h2>
        ${state === 'done' ? html`<span class="quiet small">${summary}</span>` : null}
      </div>
      ${state === 'now' || (state === 'done' && isLast) ? html`<div class="setup-body">${children}</div>` : null}
    </div>
  </li>`
}
