import type { PurposeAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Confirm, Dialog } from '../../parts/dialog.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import type { Known } from './view.ts'

export function DeletePurpose(props: {
  readonly known: Known
  readonly purpose: PurposeAnswer
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { known, purpose, onSaved, onClose } = props
  const { workspace } = known
  const bound = bindersOf(known, purpose.purpose)
  const remove = async () => {
    onSaved(
      await api.delete<WorkspaceAnswer>(apiPath`/workspaces/${workspace.id}/purposes/${purpose.purpose}`),
    )
    toast(`Purpose ${purpose.purpose} deleted`)
  }
  if (bound.length > 0)
    return html`<${Dialog}
      title=${`The purpose ${purpose.purpose} is in use`}
      onClose=${onClose}
      footer=${html`<${Button} kind="primary" onClick=${onClose}>Close<//>`}
    >
      <p>${bound.join(', ')} ${bound.length === 1 ? 'binds' : 'bind'} it to a route. Remove the binding there first.</p>
    <//>`
  return html`<${Confirm}
    title=${`Delete the purpose ${purpose.purpose}?`}
    action="Delete purpose"
    onConfirm=${remove}
    onClose=${onClose}
  >
    <p>Requests that send it are then routed as if they had no purpose. Remove it from route entries first.</p>
  <//>`
}

/** Ids of the apps that bind a purpose to a route. */
export function bindersOf({ workspace }: Known, purpose: string): readonly string[] {
  return workspace.apps
    .filter(({ fields }) => Object.hasOwn(fields.purposes ?? {}, purpose))
    .map(({ id }) => id)
}
