import { useState } from 'preact/hooks'
import type { PurposeAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Checkbox } from '../../parts/choice.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { TextInput } from '../../parts/field.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { newNameFault } from './app-form.ts'
import type { Known } from './view.ts'

/** Makes a purpose, or says something else of it. */
export function EditPurpose(props: {
  readonly known: Known
  /** Null: a new one. */
  readonly before: PurposeAnswer | null
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { known, before, onSaved, onClose } = props
  const { id, purposes } = known.workspace
  const [purpose, setPurpose] = useState(before?.purpose ?? '')
  const [description, setDescription] = useState(before?.description ?? '')
  const [enabled, setEnabled] = useState(before?.enabled ?? true)
  const [tried, setTried] = useState(false)
  const taken = purposes.map((one) => one.purpose)
  const nameWrong = before === null ? newNameFault(purpose, taken) : null
  const { run, busy, error } = useAction(async () => {
    const path = apiPath`/workspaces/${id}/purposes/${purpose}`
    onSaved(await api.put<WorkspaceAnswer>(path, { description: description.trim(), enabled }))
    toast(`Purpose ${purpose} ${before === null ? 'created' : 'saved'}`)
    onClose()
  })
  const submit = () => {
    setTried(true)
    if (nameWrong === null) run()
  }
  return html`<${FormDialog}
    title=${before === null ? 'Create purpose' : `Edit purpose ${before.purpose}`}
    action=${before === null ? 'Create purpose' : 'Save'}
    onSubmit=${submit}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    what="Not saved"
  >
    <div class="stack">
      ${
        before === null
          ? html`<${TextInput}
              label="Label"
              value=${purpose}
              onInput=${setPurpose}
              mono
              autofocus
              required
              maxLength=${64}
              placeholder="meetings"
              hint="Sent by callers. Can’t be changed later."
              error=${tried || purpose !== '' ? nameWrong : null}
            />`
          : null
      }
      <${TextInput}
        label="Description"
        value=${description}
        onInput=${setDescription}
        optional
        maxLength=${1024}
        rows=${2}
        hint="Shown to callers in GET /v1/me."
      />
      <${Checkbox}
        label="Enabled"
        checked=${enabled}
        onChange=${setEnabled}
        hint="When off, requests that send it are routed as if they had no purpose."
      />
    </div>
  <//>`
}
