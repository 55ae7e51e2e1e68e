import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import type { NewKeyAnswer } from '../../../server/answers/keys.ts'
import type { KindAnswer, ModelsAnswer } from '../../../server/answers/providers.ts'
import type { SetupAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Icon, LinkButton } from '../../components/button.ts'

import { PageHead } from '../../components/page-head.ts'
import { Loaded } from '../../components/states.ts'
import { h } from '../../h.ts'
import { useLoad } from '../../load.ts'
import { apiPath, pathOf } from '../../paths.ts'
import type { ViewProps } from '../../view.ts'
import { CallStep, KeyStep, ProviderStep, RouteStep, type Standing, WorkspaceStep } from './steps.ts'

/** From a name for the workspace to the answer of a first request, on one page. */
export function SetupView({ workspace, session }: ViewProps) {
  const title = workspace === null ? 'New workspace' : 'Setup'
  return [
    h(PageHead, {
      title,
      lead: 'Connect a provider, publish a route, create an API key and send a first request.',
      actions: workspace === null ? null : h(LinkButton, { href: pathOf(workspace) }, 'Go to the overview'),
    }),
    workspace === null
      ? h(
          'ol',
          { class: 'setup' },
          h(Step, { number: 1, title: 'Name the workspace', state: 'now' }, h(WorkspaceStep, null)),
          STEPS.map((step, index) => h(Step, { key: step, number: index + 2, title: step, state: 'later' })),
        )
      : h(Steps, { workspace, isOperator: session.role === 'operator' }),
  ]
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
    return h(
      'ol',
      { class: 'setup' },
      h(Step, { number: 1, title: 'Name the workspace', state: 'done', summary: workspace }),
      h(
        Step,
        {
          number: 2,
          title: STEPS[0],
          state: stateOf(0),
          summary: done[0] ? h('span', { class: 'mono' }, providers.slice(0, 3).join(', ')) : null,
        },
        h(ProviderStep, { ...common, isOperator }),
      ),
      h(
        Step,
        {
          number: 3,
          title: STEPS[1],
          state: stateOf(1),
          summary: isRouted
            ? [
                h('a', { class: 'mono', href: pathOf(workspace, 'routes', route.name) }, route.name),
                ' for the app',
                h('span', { class: 'mono' }, ' ', app),
              ]
            : null,
        },
        h(RouteStep, common),
      ),
      h(
        Step,
        {
          number: 4,
          title: STEPS[2],
          state: stateOf(2),
          summary: made === null ? h('a', { href: pathOf(workspace, 'keys') }, 'Manage keys') : made.name,
        },
        h(KeyStep, { ...common, onMade: setMade }),
      ),
      h(
        Step,
        { number: 5, title: STEPS[3], state: now === -1 ? (called && !made ? 'done' : 'now') : 'later' },
        h(CallStep, { ...common, made, onMade: setMade }),
      ),
    )
  }
  return h(Loaded<Standing>, { load, what: 'The setup', rows: 6, render: draw })
}

/** A step of the list; its content is shown when it is next. */
function Step(props: {
  readonly number: number
  readonly title: string
  readonly state: 'done' | 'now' | 'later'
  readonly summary?: ComponentChildren
  readonly children?: ComponentChildren
}) {
  const { number, title, state, summary, children } = props
  const isLast = number === STEPS.length + 1
  return h(
    'li',
    { class: `setup-step setup-${state}`, 'aria-current': state === 'now' ? 'step' : undefined },
    h(
      'span',
      { class: 'setup-mark', 'aria-hidden': 'true' },
      state === 'done' ? h(Icon, { name: 'check' }) : number,
    ),
    h(
      'div',
      { class: 'setup-text' },
      h(
        'div',
        { class: 'setup-line' },
        h('h2', null, title, state === 'done' ? h('span', { class: 'hidden' }, ': done') : null),
        state === 'done' ? h('span', { class: 'quiet small' }, summary) : null,
      ),
      state === 'now' || (state === 'done' && isLast) ? h('div', { class: 'setup-body' }, children) : null,
    ),
  )
}
