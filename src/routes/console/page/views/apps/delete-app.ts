import type { AppAnswer, KeysAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Button, LinkButton } from '../../parts/button.ts'
import { Confirm, Dialog } from '../../parts/dialog.ts'
import { Loaded } from '../../parts/states.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath, pathOf, queryOf } from '../../paths.ts'
import type { Known } from './view.ts'

interface DeleteAppProps {
  readonly known: Known
  readonly app: AppAnswer
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}

/** Deletes an app, once no key stands for it. */
export function DeleteApp(props: DeleteAppProps) {
  const { known, app, onSaved, onClose } = props
  const place = apiPath`/workspaces/${known.workspace.id}`
  const keys = useLoad(
    async (signal) => {
      const query = queryOf({ app: app.id, state: 'active' })
      return await api.get<KeysAnswer>(`${place}/keys${query}`, { signal })
    },
    [place, app.id],
  )
  const remove = async () => {
    onSaved(await api.delete<WorkspaceAnswer>(place + apiPath`/apps/${app.id}`))
    toast(`App ${app.id} deleted`)
  }
  if (keys.state === 'ready' && keys.value.total === 0)
    return html`<${Confirm}
      title=${`Delete the app ${app.id}?`}
      action="Delete app"
      onConfirm=${remove}
      onClose=${onClose}
      typed=${app.id}
    >
      <p>No key uses it. Its route ${app.fields.route} stays.</p>
    <//>`
  return html`<${Dialog}
    title=${`Delete the app ${app.id}?`}
    onClose=${onClose}
    footer=${html`<${Button} onClick=${onClose}>Close<//>
      ${
        keys.state === 'ready'
          ? html`<${LinkButton} href=${pathOf(known.workspace.id, 'keys')} kind="primary">Go to keys<//>`
          : null
      }`}
  >
    <${Loaded}
      load=${keys}
      what="The keys of the app"
      rows=${2}
      render=${({ keys: shown, total }: KeysAnswer) => html`<div class="stack">
        <p>
          ${`${plural(total, 'key')} ${total === 1 ? 'uses' : 'use'} this app. `}
          ${`Revoke ${total === 1 ? 'it' : 'them'} first:`}
        </p>
        <ul class="stack stack-tight">
          ${shown.map(({ id, name }) => html`<li key=${id}>${name} <span class="mono small quiet">${id}</span></li>`)}
        </ul>
      </div>`}
    />
  <//>`
}
