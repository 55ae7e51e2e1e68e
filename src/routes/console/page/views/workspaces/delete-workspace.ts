import type { WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { Confirm } from '../../parts/dialog.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { workspacesChanged } from '../../workspace-list.ts'

export function DeleteWorkspace(props: {
  readonly workspace: WorkspaceAnswer
  readonly onClose: () => void
}) {
  const { workspace, onClose } = props
  const { id } = workspace
  const remove = async () => {
    await api.delete(apiPath`/workspaces/${id}`)
    workspacesChanged()
    toast(`Workspace ${id} deleted`)
    navigate(pathOf(null, 'workspaces'))
  }
  return html`<${Confirm}
    title=${`Delete the workspace ${id}?`}
    action="Delete workspace"
    onConfirm=${remove}
    onClose=${onClose}
    typed=${id}
  >
    <p>
      A workspace must be empty: delete its apps, routes, providers, purposes and keys first. Otherwise nothing is
      deleted, and what is left is listed here.
    </p>
  <//>`
}
