import { useState } from 'preact/hooks'
import type { KindAnswer, ProviderAnswer } from '../../../server/answers/providers.ts'
import { api } from '../../api.ts'
import { FormDialog } from '../../components/dialog.ts'
import { Select, TextInput } from '../../components/field.ts'
import { toast } from '../../components/toasts.ts'
import { type Form, useForm } from '../../form.ts'
import { h } from '../../h.ts'
import { wholeName } from '../../names.ts'
import { apiPath } from '../../paths.ts'
import { changedFacts, type FactsChange } from './facts.ts'
import { FactsFields } from './facts-fields.ts'
import { addressesIn, bodyOf, type ProviderForm, providerForm, providerIssues } from './provider-form.ts'

interface EditProviderProps {
  /** Null: a new one. */
  readonly before: ProviderAnswer | null
  readonly kinds: readonly KindAnswer[]
  /** Whole names of all providers. */
  readonly taken: readonly string[]
  readonly workspace: string | null
  readonly setsAddress: boolean
  readonly onSaved: () => void
  readonly onCheck: (provider: ProviderAnswer) => void
  readonly onClose: () => void
}

/** Adds a provider, or changes one. It is checked right after, since a wrong credential shows nowhere else so soon. */
export function EditProvider(props: EditProviderProps) {
  const { before, kinds, taken, workspace, setsAddress, onSaved, onCheck, onClose } = props
  const usable = kinds.filter((kind) => setsAddress || kind.base_url !== null || kind.kind === before?.kind)
  const [unread, setUnread] = useState<readonly string[]>([])
  const save = async (fields: ProviderForm) => {
    const name = before?.name ?? wholeName(workspace, fields.name)
    const place = workspace === null ? '' : apiPath`/workspaces/${workspace}`
    const saved = await api.put<ProviderAnswer>(
      place + apiPath`/providers/${name}`,
      bodyOf(fields, { setsAddress }),
    )
    toast(`Provider ${name} ${before === null ? 'added' : 'saved'}`)
    onSaved()
    onCheck(saved)
  }
  const form = useForm<ProviderForm>(
    () => providerForm(before, usable),
    (fields) => ({
      ...providerIssues(fields, { before, kinds, workspace, taken, setsAddress }),
      ...(unread.length > 0 ? { facts: 'Fix the errors above first.' } : {}),
    }),
    save,
  )
  const { fields, set, submit, busy, error } = form
  const setFacts = (change: FactsChange, read = '') => {
    setUnread((old) => old.filter((field) => field !== read))
    set((old) => ({ facts: changedFacts(old.facts, change) }))
  }
  return h(
    FormDialog,
    {
      title: before === null ? 'Add provider' : `Edit provider ${before.name}`,
      action: before === null ? 'Add provider' : 'Save',
      wide: true,
      onSubmit: submit,
      onClose,
      busy,
      error,
      what: 'Not saved',
    },
    h(
      'div',
      { class: 'stack' },
      h(Account, { ...props, form, kinds: usable }),
      h(
        'details',
        { class: 'more', open: Object.keys(fields.facts).length > 0 },
        h('summary', null, 'Capabilities and pricing (advanced)'),
        h(
          'div',
          { class: 'stack' },
          h(
            'p',
            { class: 'small quiet' },
            'Needed for models missing from the built-in table, or when your prices differ from it.',
          ),
          h(FactsFields, {
            facts: fields.facts,
            onChange: setFacts,
            onUnread: (field: string) => setUnread((old) => [...new Set([...old, field])]),
          }),
        ),
      ),
      form.tried && unread.length > 0
        ? h('p', { class: 'field-error', role: 'alert' }, form.issue('facts'))
        : null,
    ),
  )
}

function Account(
  props: EditProviderProps & {
    readonly form: Form<ProviderForm>
  },
) {
  const { before, kinds, workspace, setsAddress, form } = props
  const { fields, bind } = form
  const kind = kinds.find((one) => one.kind === fields.kind)
  const stored = before !== null && before.credential !== 'none' && before.kind === fields.kind
  return [
    h(Select, { label: 'Provider type', ...bind('kind'), options: kinds.map((one) => one.kind) }),
    before === null
      ? h(TextInput, {
          label: 'Name',
          ...bind('name'),
          mono: true,
          autofocus: true,
          required: true,
          maxLength: 64,
          placeholder: fields.kind,
          hint:
            workspace === null
              ? 'Used in routes. Can’t be changed later.'
              : `Full name: ${wholeName(workspace, fields.name || fields.kind)}. Can’t be changed later.`,
        })
      : null,
    h(TextInput, {
      label: 'API key',
      type: 'password',
      ...bind('credential'),
      autocomplete: 'new-password',
      optional: kind?.needs_credential === false,
      placeholder: stored ? '••••••••' : '',
      hint: stored
        ? 'Leave empty to keep the saved key.'
        : 'Encrypted at rest. You won’t be able to see it again.',
    }),
    setsAddress ? h(Address, { kind, form }) : null,
  ]
}

function Address(props: { readonly kind: KindAnswer | undefined; readonly form: Form<ProviderForm> }) {
  const { kind, form } = props
  const { bind } = form
  if (kind?.base_url === null) return h(Addresses, { form })
  return h(TextInput, {
    label: 'Base URL',
    type: 'url',
    ...bind('baseUrl'),
    mono: true,
    optional: true,
    placeholder: kind?.base_url ?? 'https://speech.example.com/v1',
    hint: 'Leave empty for the default.',
  })
}

/** Fields of a kind without an address of its own: one server, or several equal ones. */
function Addresses({ form }: { readonly form: Form<ProviderForm> }) {
  const { fields, bind } = form
  const addresses = addressesIn(fields.baseUrl)
  return [
    h(TextInput, {
      label: 'Base URL',
      rows: Math.max(2, addresses.length + 1),
      ...bind('baseUrl'),
      mono: true,
      placeholder: 'https://speech.example.com/v1',
      hint: 'Required. For several servers that answer alike, one per line: the least busy gets the next call.',
    }),
    addresses.length < 2
      ? null
      : h(TextInput, {
          label: 'Health check path',
          ...bind('healthPath'),
          mono: true,
          optional: true,
          placeholder: '/health',
          hint: 'From the root of each server. Leave empty to ask for the list of models.',
        }),
  ]
}
