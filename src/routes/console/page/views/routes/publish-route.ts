import { useEffect, useState } from 'preact/hooks'
import type { RouteAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { toApiError } from '../../api-error.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { Facts } from '../../parts/page-head.ts'
import { Spinner } from '../../parts/progress.ts'
import { Note } from '../../parts/states.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { ChangeLines } from './changes.ts'
import type { Draft } from './use-draft.ts'

/** Says what publishing would change, and for whom; then publishes. What is not saved yet is saved first. */
export function PublishRoute({ draft, onClose }: { readonly draft: Draft; readonly onClose: () => void }) {
  const [route, setRoute] = useState<RouteAnswer | null>(null)
  useEffect(() => {
    draft.flush().then((answer) => (answer === null ? onClose() : setRoute(answer)))
  }, [])
  const { run, busy, error } = useAction(async () => {
    if (route === null) return
    try {
      await publish(route, draft)
    } catch (thrown) {
      if (!(await draft.foundConflict(toApiError(thrown)))) throw thrown
    }
    onClose()
  })
  const faults = route?.draft?.faults ?? []
  const ready = route?.draft != null && faults.length === 0
  return html`<${FormDialog}
    title=${`Publish ${draft.saving.known.name}`}
    action="Publish"
    wide
    onSubmit=${() => run()}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    what="Not published"
    disabled=${!ready}
  >
    <div class="stack routes-publish">
      ${route === null ? html`<${Spinner} label="Saving the draft" />` : html`<${Summary} route=${route} />`}
      ${
        faults.length > 0
          ? html`<${Note} tone="bad">
              <p>Fix these errors to publish:</p>
              <ul class="faults">${faults.map((fault) => html`<li key=${fault}>${fault}</li>`)}</ul>
            <//>`
          : null
      }
    </div>
  <//>`
}

function Summary({ route }: { readonly route: RouteAnswer }) {
  const { published, draft, apps } = route
  const number = published?.number ?? null
  const from = published === null ? 'nothing' : (number ?? 'the file')
  const servedBefore = published !== null && published.fields.published !== false
  const goesOut = servedBefore && draft?.fields.published === false
  const items = [
    ['Version', html`${from} → ${(number ?? 0) + 1}`],
    [
      'Version ID',
      html`<span class="mono small">${published?.version ?? '–'} → ${draft?.version ?? '–'}</span>`,
    ],
    ['Used by', apps.length === 0 ? html`<span class="quiet">No app yet</span>` : apps.join(', ')],
  ]
  return html`
    <${Facts} items=${items} />
    <div class="stack stack-tight">
      <h3>Changes</h3>
      <${ChangeLines} changes=${draft?.changes ?? []} isNew=${published === null} />
    </div>
    ${
      goesOut
        ? html`<${Note} tone="warn">
            This disables the route: ${
              apps.length === 0 ? 'no app uses it now.' : `requests from ${apps.join(', ')} will fail.`
            }
          <//>`
        : null
    }
    <p class="small quiet">Active on all nodes within 5 s. In-flight requests finish on the old version.</p>
  `
}

async function publish(route: RouteAnswer, draft: Draft): Promise<void> {
  const path = apiPath`/workspaces/${route.workspace}/routes/${route.name}/publish`
  const answer = await api.post<RouteAnswer>(path, { revision: route.draft?.revision ?? null })
  draft.load(answer)
  const number = answer.published?.number
  toast(`${route.name} published${number == null ? '' : ` as version ${number}`}`)
}
