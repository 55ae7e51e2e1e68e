import { useState } from 'preact/hooks'
import type { WorkspaceAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { workspacesChanged } from '../../workspace-list.ts'
import { bodyOf, faultsOf, formOf, type WorkspaceForm } from './workspace-form.ts'

/** Changes what operators decide about a workspace. */
export function EditWorkspace(props: {
  readonly before: WorkspaceAnswer
  readonly onSaved: (saved: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { before, onSaved, onClose } = props
  const [form, setForm] = useState(() => formOf(before))
  const [tried, setTried] = useState(false)
  const faults = faultsOf(form, null)
  const { run, busy, error } = useAction(async () => {
    const path = apiPath`/workspaces/${form.id}`
    const saved = await api.put<WorkspaceAnswer>(path, bodyOf(form, before))
    workspacesChanged()
    toast(`Workspace ${form.id} saved`)
    onClose()
    onSaved(saved)
  })
  const set = (change: Partial<WorkspaceForm>) => setForm((old) => ({ ...old, ...change }))
  const fault = (field: keyof WorkspaceForm) => (tried || form[field] !== '' ? (faults[field] ?? null) : null)
  const submit = () => {
    setTried(true)
    if (Object.keys(faults).length === 0) run()
  }
  const plans = before.plans
  return html`<${FormDialog}
    title=${`Edit ${before.id}`}
    action="Save"
    onSubmit=${submit}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    what="Not saved"
  >
    <div class="stack">
      <${TextInput}
        label="Name"
        value=${form.name}
        onInput=${(name: string) => set({ name })}
        optional
        maxLength=${1024}
        placeholder=${form.id}
        hint="Shown to callers in GET /v1/me."
      />
      <${Terms} form=${form} set=${set} plans=${plans} fault=${fault} />
    </div>
  <//>`
}

function Terms(props: {
  readonly form: WorkspaceForm
  readonly set: (change: Partial<WorkspaceForm>) => void
  readonly plans: readonly string[]
  readonly fault: (field: keyof WorkspaceForm) => string | null
}) {
  const { form, set, plans, fault } = props
  const names = form.plan === '' || plans.includes(form.plan) ? plans : [...plans, form.plan]
  return html`
    <${Select}
      label="Plan"
      value=${form.plan}
      onChange=${(plan: string) => set({ plan })}
      options=${[{ value: '', label: 'None (everything is included)' }, ...names]}
    />
    <${TextInput}
      label="Budget per month"
      value=${form.budget}
      onInput=${(budget: string) => set({ budget })}
      optional
      suffix="USD"
      inputMode="decimal"
      hint="Caps the spending of all its keys together per calendar month (UTC)."
      error=${fault('budget')}
    />
    <div class="columns">
      <div>
        <${TextInput}
          label="Trial"
          value=${form.trialAllowance}
          onInput=${(trialAllowance: string) => set({ trialAllowance })}
          optional
          suffix="USD"
          inputMode="decimal"
          error=${fault('trialAllowance')}
        />
      </div>
      <div>
        <${TextInput}
          label="Ends"
          type="date"
          value=${form.trialEnds}
          onInput=${(trialEnds: string) => set({ trialEnds })}
          optional
          error=${form.trialAllowance !== '' || form.trialEnds !== '' ? fault('trialEnds') : null}
        />
      </div>
    </div>
    <p class="field-hint">Trial credit is used before paid credit.</p>
  `
}
