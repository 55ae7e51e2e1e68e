import type { SessionAnswer } from '../api/answers.ts'
import { html } from './html.ts'
import { isSameName } from './names.ts'
import { type Place, pathOf } from './paths.ts'
import { navigate } from './router.ts'
import { WORKSPACE_VIEWS } from './views.ts'
import { useWorkspaces } from './workspace-list.ts'

/** Which workspace the console is about: operators choose, and admins have one. */
export function WorkspacePicker(props: {
  readonly session: SessionAnswer
  readonly workspace: string
  readonly place: Place
}) {
  const { session, workspace, place } = props
  if (session.role === 'admin')
    return html`<p class="picker-name cut" title=${workspace}>
      <span class="hidden">Workspace </span>${workspace}
    </p>`
  return html`<${Choice} workspace=${workspace} place=${place} />`
}

function Choice({ workspace, place }: { readonly workspace: string; readonly place: Place }) {
  const { value } = useWorkspaces()
  const listed = value ?? []
  const named = listed.map(({ id, name }) => ({
    id,
    label: name === '' ? id : isSameName(name, id) ? name : `${name} (${id})`,
  }))
  const options = named.some(({ id }) => id === workspace)
    ? named
    : [{ id: workspace, label: workspace }, ...named]
  const choose = (event: Event) => {
    const view = WORKSPACE_VIEWS.find(({ id }) => id === place.view)?.id ?? 'overview'
    const select = event.currentTarget as HTMLSelectElement
    navigate(pathOf(select.value, view))
    // Leaving may have been refused; else it is drawn anew.
    select.value = workspace
  }
  return html`<span class="select picker">
    <select class="input" aria-label="Workspace" value=${workspace} onChange=${choose}>
      ${options.map(
        ({ id, label }) => html`<option key=${id} value=${id} selected=${id === workspace}>${label}</option>`,
      )}
    </select>
  </span>`
}
