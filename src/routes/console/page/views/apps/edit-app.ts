import { useState } from 'preact/hooks'
import type { Capability } from '../../../../../schema/calls.ts'
import type { AppAnswer, WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { type Option, Select, TextInput } from '../../parts/field.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { CAPABILITY_NAMES, members } from '../routes/words.ts'
import { type AppForm, fieldsOf, formOf, newNameFault } from './app-form.ts'
import type { Known } from './view.ts'

/** Makes an app, or changes where it leads. */
export function EditApp(props: {
  readonly known: Known
  /** Null: a new one. */
  readonly before: AppAnswer | null
  readonly onSaved: (workspace: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { known, before, onSaved, onClose } = props
  const { workspace, routes: published } = known
  const [form, setForm] = useState(() => {
    const start = formOf(before?.id ?? '', before?.fields ?? null)
    return start.route === '' && published.length === 1 ? { ...start, route: published[0] ?? '' } : start
  })
  const [tried, setTried] = useState(false)
  const taken = workspace.apps.map(({ id }) => id)
  const nameWrong = before === null ? newNameFault(form.id, taken) : null
  const { run, busy, error } = useAction(async () => {
    const path = apiPath`/workspaces/${workspace.id}/apps/${form.id}`
    onSaved(await api.put<WorkspaceAnswer>(path, fieldsOf(form)))
    toast(`App ${form.id} ${before === null ? 'created' : 'saved'}`)
    onClose()
  })
  const set = (change: Partial<AppForm>) => setForm((old) => ({ ...old, ...change }))
  const submit = () => {
    setTried(true)
    if (nameWrong === null && form.route !== '') run()
  }
  return html`<${FormDialog}
    title=${before === null ? 'Create app' : `Edit app ${before.id}`}
    action=${before === null ? 'Create app' : 'Save'}
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
              label="ID"
              value=${form.id}
              onInput=${(id: string) => set({ id })}
              mono
              autofocus
              required
              maxLength=${64}
              placeholder="web"
              hint="Used by keys and in logs. Can’t be changed later."
              error=${tried || form.id !== '' ? nameWrong : null}
            />`
          : null
      }
      <${Select}
        label="Route"
        value=${form.route}
        onChange=${(route: string) => set({ route })}
        options=${optionsOf('Choose a route', published, form.route)}
        hint="Handles its requests unless a route below applies."
        error=${tried && form.route === '' ? 'Choose a route.' : null}
      />
      <${Others} form=${form} set=${set} published=${published} known=${known} />
    </div>
  <//>`
}

function Others(props: {
  readonly form: AppForm
  readonly set: (change: Partial<AppForm>) => void
  readonly published: readonly string[]
  readonly known: Known
}) {
  const { form, set, published, known } = props
  const { capabilityRoutes, purposes } = form
  const labels = [
    ...new Set([...known.workspace.purposes.map(({ purpose }) => purpose), ...Object.keys(purposes)]),
  ]
  return html`
    <details class="more" open=${Object.keys(purposes).length > 0}>
      <summary>Routes by purpose</summary>
      <div class="stack">
        ${
          labels.length === 0
            ? html`<p class="small quiet">No purposes yet. Create them under Apps.</p>`
            : labels.map(
                (label) => html`<${Select}
                  key=${label}
                  label=${label}
                  value=${purposes[label] ?? ''}
                  onChange=${(route: string) => set({ purposes: { ...purposes, [label]: route } })}
                  options=${optionsOf('Default route', published, purposes[label] ?? '')}
                />`,
              )
        }
      </div>
    </details>
    <details class="more" open=${Object.keys(capabilityRoutes).length > 0}>
      <summary>Route overrides by capability</summary>
      <div class="stack">
        ${members(CAPABILITY_NAMES).map(
          (name: Capability) => html`<${Select}
            key=${name}
            label=${CAPABILITY_NAMES[name]}
            value=${capabilityRoutes[name] ?? ''}
            onChange=${(route: string) => set({ capabilityRoutes: { ...capabilityRoutes, [name]: route } })}
            options=${optionsOf('Default route', published, capabilityRoutes[name] ?? '')}
          />`,
        )}
      </div>
    </details>
  `
}

/** The published routes, and the one that is chosen now even when it is none of them. */
function optionsOf(none: string, published: readonly string[], chosen: string): readonly Option[] {
  const names = chosen === '' || published.includes(chosen) ? published : [...published, chosen]
  return [{ value: '', label: none }, ...names]
}
