import type { RouteAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Confirm, Dialog } from '../../parts/dialog.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import type { Draft } from './use-draft.ts'

/** Deletes a route, once no app leads to it. */
export function DeleteRoute({
  known,
  onClose,
}: {
  readonly known: RouteAnswer
  readonly onClose: () => void
}) {
  const { name, workspace, apps, published } = known
  if (apps.length > 0)
    return html`<${Dialog}
      title=${`${name} is in use`}
      onClose=${onClose}
      footer=${html`<${Button} onClick=${onClose}>Close<//>
        <${LinkButton} href=${pathOf(workspace, 'apps')} kind="primary">Go to apps<//>`}
    >
      <p>
        ${`${plural(apps.length, 'app')} ${apps.length === 1 ? 'uses' : 'use'} it: ${apps.join(', ')}. `}
        ${`Assign ${apps.length === 1 ? 'it' : 'them'} another route first.`}
      </p>
    <//>`
  const remove = async () => {
    await api.delete(apiPath`/workspaces/${workspace}/routes/${name}`)
    toast(`Route ${name} deleted`)
    navigate(pathOf(workspace, 'routes'))
  }
  return html`<${Confirm}
    title=${`Delete the route ${name}?`}
    action="Delete route"
    onConfirm=${remove}
    onClose=${onClose}
    typed=${published === null ? undefined : name}
  >
    <p>
      ${
        published === null
          ? 'Never published. Its draft will be deleted.'
          : `Version ${published.number ?? ''} and any draft will be deleted. No app uses it.`
      }
    </p>
  <//>`
}

/** Drops the draft, so that what is on the screen is again what serves. */
export function DiscardDraft({ draft, onClose }: { readonly draft: Draft; readonly onClose: () => void }) {
  const { known } = draft.saving
  const discard = async () => {
    await draft.flush()
    const path = apiPath`/workspaces/${known.workspace}/routes/${known.name}/draft`
    draft.load(await api.delete<RouteAnswer>(path))
    toast(`Draft of ${known.name} discarded`)
  }
  const count = known.draft?.changes.length ?? 0
  return html`<${Confirm}
    title=${`Discard the draft of ${known.name}?`}
    action="Discard draft"
    onConfirm=${discard}
    onClose=${onClose}
  >
    <p>
      ${count === 0 ? 'The draft' : plural(count, 'change')}${
        known.draft === null ? '' : `, last saved by ${known.draft.saved_by},`
      }${` ${count > 1 ? 'are' : 'is'} lost. Version ${known.published?.number ?? ''} goes on serving.`}
    </p>
  <//>`
}
