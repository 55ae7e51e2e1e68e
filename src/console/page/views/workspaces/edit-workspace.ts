import type { WorkspaceAnswer } from '../../../server/answers/workspaces.ts'
import { api } from '../../api.ts'
import { Checkbox } from '../../components/choice.ts'
import { FormDialog } from '../../components/dialog.ts'
import { OPTIONAL_NUMBER, Select, TextInput } from '../../components/field.ts'
import { toast } from '../../components/toasts.ts'
import { UnitLimitInputs } from '../../components/unit-limits.ts'
import { type Form, useForm } from '../../form.ts'
import { h } from '../../h.ts'
import { apiPath } from '../../paths.ts'
import { workspacesChanged } from '../../session.ts'
import { type WorkspaceForm, workspaceBody, workspaceForm, workspaceIssues } from './workspace-form.ts'

/** Edits the settings that operators decide for a workspace. */
export function EditWorkspace(props: {
  readonly before: WorkspaceAnswer
  readonly onSaved: (saved: WorkspaceAnswer) => void
  readonly onClose: () => void
}) {
  const { before, onSaved, onClose } = props
  const save = async (fields: WorkspaceForm) => {
    const path = apiPath`/workspaces/${fields.id}`
    const saved = await api.put<WorkspaceAnswer>(path, workspaceBody(fields, before))
    workspacesChanged()
    toast(`Workspace ${fields.id} saved`)
    onClose()
    onSaved(saved)
  }
  const form = useForm(
    () => workspaceForm(before),
    (fields) => workspaceIssues(fields, null),
    save,
  )
  const { fields, submit, busy, error, bind } = form
  const plans = before.plans
  return h(
    FormDialog,
    { title: `Edit ${before.id}`, action: 'Save', onSubmit: submit, onClose, busy, error, what: 'Not saved' },
    h(
      'div',
      { class: 'stack' },
      h(TextInput, {
        label: 'Name',
        ...bind('name'),
        optional: true,
        maxLength: 1024,
        placeholder: fields.id,
        hint: 'Shown to callers in GET /v1/me.',
      }),
      h(Terms, { form, plans }),
    ),
  )
}

function Terms(props: { readonly form: Form<WorkspaceForm>; readonly plans: readonly string[] }) {
  const { form, plans } = props
  const { fields, issue, bind } = form
  const names = fields.plan === '' || plans.includes(fields.plan) ? plans : [...plans, fields.plan]
  return [
    h(Select, {
      label: 'Plan',
      ...bind('plan'),
      options: [{ value: '', label: 'None (everything is included)' }, ...names],
    }),
    h(TextInput, {
      label: 'Budget per month',
      ...bind('budget'),
      optional: true,
      suffix: 'USD',
      inputMode: 'decimal',
      hint: 'Caps the spending of all its keys together per calendar month (UTC).',
    }),
    h('div', { class: 'columns' }, h(UnitLimitInputs, { bind })),
    h('p', { class: 'field-hint' }, 'Limits all its keys together, besides the limits of each.'),
    h(
      'div',
      { class: 'columns' },
      h(TextInput, {
        label: 'Trial',
        ...bind('trialAllowance'),
        optional: true,
        suffix: 'USD',
        inputMode: 'decimal',
      }),
      h(TextInput, {
        label: 'Ends',
        type: 'date',
        ...bind('trialEnds'),
        optional: true,
        error: fields.trialAllowance !== '' || fields.trialEnds !== '' ? issue('trialEnds') : null,
      }),
    ),
    h('p', { class: 'field-hint' }, 'Trial credit is used before paid credit.'),
    h(EndUsers, { form }),
  ]
}

/** Its own customers, whom calls name. */
function EndUsers({ form }: { readonly form: Form<WorkspaceForm> }) {
  const { fields, set, bind } = form
  return [
    h(TextInput, {
      label: 'Budget per month of each end user',
      ...bind('endUserBudget'),
      optional: true,
      suffix: 'USD',
      inputMode: 'decimal',
      hint: 'End users are named by X-LK-End-User, or by user in requests to /openai/v1.',
    }),
    h(
      'div',
      { class: 'columns' },
      h(TextInput, { label: 'Requests per minute of each', ...OPTIONAL_NUMBER, ...bind('endUserPerMinute') }),
      h(TextInput, { label: 'Burst of each', ...OPTIONAL_NUMBER, ...bind('endUserBurst') }),
    ),
    h(Checkbox, {
      label: 'Keep a keyed hash of their IDs',
      checked: fields.hashEndUsers,
      onChange: (hashEndUsers: boolean) => set({ hashEndUsers }),
      hint: 'Switching it makes other end users of them, with new budgets.',
    }),
  ]
}
