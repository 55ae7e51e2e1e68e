import { useState } from 'preact/hooks'
import type { WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Button } from '../../parts/button.ts'
import { TextInput } from '../../parts/field.ts'
import { Fault } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { navigate } from '../../router.ts'
import { useWorkspaces, workspacesChanged } from '../../workspace-list.ts'
import { faultsOf, formOf, idOf } from '../workspaces/workspace-form.ts'

/** Creates a workspace: its id follows from the name until somebody types another. */
export function WorkspaceStep() {
  const { value } = useWorkspaces()
  const taken = (value ?? []).map(({ id }) => id)
  const [name, setName] = useState('')
  const [typedId, setTypedId] = useState<string | null>(null)
  const [tried, setTried] = useState(false)
  const id = typedId ?? idOf(name)
  const wrong = faultsOf({ ...formOf(null), id, name }, taken).id ?? null
  const { run, busy, error } = useAction(async () => {
    await api.put<WorkspaceAnswer>(apiPath`/workspaces/${id}`, { name: name.trim() || null })
    workspacesChanged()
    navigate(pathOf(id, 'setup'), { replace: true })
  })
  const submit = (event: Event) => {
    event.preventDefault()
    setTried(true)
    if (wrong === null) void run()
  }
  return html`<form class="stack" onSubmit=${submit} novalidate>
    <div class="columns">
      <${TextInput}
        label="Name"
        value=${name}
        onInput=${setName}
        autofocus
        maxLength=${128}
        placeholder="Acme Corp"
        hint="Shown in the console and in GET /v1/me."
      />
      <${TextInput}
        label="ID"
        value=${id}
        onInput=${setTypedId}
        mono
        maxLength=${40}
        placeholder="acme-corp"
        hint="Prefix of its routes and providers. Can’t be changed later."
        error=${tried || (id !== '' && wrong !== null) ? wrong : null}
      />
    </div>
    <${Fault} error=${error} what="Not created" />
    <div><${Button} type="submit" kind="primary" busy=${busy}>Create workspace<//></div>
  </form>`
}
