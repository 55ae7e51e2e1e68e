import type { SetupAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { LinkButton } from '../../parts/button.ts'
import { Icon } from '../../parts/icon.ts'
import { Section } from '../../parts/page-head.ts'
import { EmptyState } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'

const EVERY_MS = 5_000

/** An hour without requests: the steps to the first one, until there was one. */
export function FirstRequest({ workspace }: { readonly workspace: string | null }) {
  if (workspace === null)
    return html`<${EmptyState}
      title="No requests in the last hour"
      action=${html`<${LinkButton} href=${pathOf(null, 'workspaces')}>Workspaces<//>
        <${LinkButton} kind="primary" href=${pathOf(null, 'setup')}>New workspace<//>`}
    >
      <p>New requests appear here within seconds.</p>
    <//>`
  return html`<${Checklist} workspace=${workspace} />`
}

function Checklist({ workspace }: { readonly workspace: string }) {
  const load = useLoad(
    (signal) => api.get<SetupAnswer>(apiPath`/workspaces/${workspace}/setup`, { signal }),
    [workspace],
    { everyMs: EVERY_MS },
  )
  // What is not known is no reason to begin again.
  if (load.state === 'loading') return null
  if (load.state === 'failed' || isSetUp(load.value))
    return html`<${EmptyState}
      title="No requests in the last hour"
      action=${html`<${LinkButton} href=${pathOf(workspace, 'requests')}>Earlier requests<//>
        <${LinkButton} href=${pathOf(workspace, 'setup')}>Example request<//>`}
    >
      <p>New requests appear here within seconds.</p>
    <//>`
  const steps = stepsOf(load.value)
  const left = steps.filter(([, done]) => !done).length
  return html`<${Section}
    title="Get started"
    lead=${`${steps.length - left} of ${steps.length} steps done. New requests appear here within seconds.`}
    actions=${html`<${LinkButton} kind="primary" href=${pathOf(workspace, 'setup')}>Continue setup<//>`}
  >
    <ol class="overview-steps">
      ${steps.map(
        ([title, done]) => html`<li key=${title} class=${done ? 'overview-done' : undefined}>
          <span class="overview-mark" aria-hidden="true">${done ? html`<${Icon} name="check" />` : null}</span>
          <span>${title}${done ? html`<span class="hidden">: done</span>` : null}</span>
        </li>`,
      )}
    </ol>
  <//>`
}

function stepsOf({
  providers,
  route,
  app,
  keys,
  called,
}: SetupAnswer): readonly (readonly [string, boolean])[] {
  return [
    ['Connect a provider', providers.length > 0],
    ['Publish a route and point an app at it', route !== null && app !== null],
    ['Create an API key', keys > 0],
    ['Send a request', called],
  ]
}

function isSetUp(setup: SetupAnswer): boolean {
  return stepsOf(setup).every(([, done]) => done)
}
