import { useState } from 'preact/hooks'
import type { KindAnswer, ProviderAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { wholeName } from '../../names.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath } from '../../paths.ts'
import { FactsFields } from './facts-fields.ts'
import { changedFacts, type FactsChange } from './facts-form.ts'
import { bodyOf, faultsOf, formOf, type ProviderFaults, type ProviderForm } from './provider-form.ts'

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
  const [form, setForm] = useState(() => formOf(before, usable))
  const [unread, setUnread] = useState<readonly string[]>([])
  const [tried, setTried] = useState(false)
  const name = before?.name ?? wholeName(workspace, form.name)
  const faults = faultsOf(form, { before, kinds, workspace, taken, setsAddress })
  const { run, busy, error } = useAction(async () => {
    const place = workspace === null ? '' : apiPath`/workspaces/${workspace}`
    const path = place + apiPath`/providers/${name}`
    const saved = await api.put<ProviderAnswer>(path, bodyOf(form, { setsAddress }))
    toast(`Provider ${name} ${before === null ? 'added' : 'saved'}`)
    onSaved()
    onCheck(saved)
  })
  const set = (change: Partial<ProviderForm>) => setForm((old) => ({ ...old, ...change }))
  const submit = () => {
    setTried(true)
    if (Object.keys(faults).length === 0 && unread.length === 0) run()
  }
  const setFacts = (change: FactsChange, read = '') => {
    setUnread((old) => old.filter((field) => field !== read))
    setForm((old) => ({ ...old, facts: changedFacts(old.facts, change) }))
  }
  return html`<${FormDialog}
    title=${before === null ? 'Add provider' : `Edit provider ${before.name}`}
    action=${before === null ? 'Add provider' : 'Save'}
    wide
    onSubmit=${submit}
    onClose=${onClose}
    busy=${busy}
    error=${error}
    what="Not saved"
  >
    <div class="stack">
      <${Account}
        ...${props}
        form=${form}
        set=${set}
        faults=${tried ? faults : onlyTyped(form, faults)}
        kinds=${usable}
      />
      <details class="more" open=${Object.keys(form.facts).length > 0}>
        <summary>Capabilities and pricing (advanced)</summary>
        <div class="stack">
          <p class="small quiet">
            Needed for models missing from the built-in table, or when your prices differ from it.
          </p>
          <${FactsFields}
            facts=${form.facts}
            onChange=${setFacts}
            onUnread=${(field: string) => setUnread((old) => [...new Set([...old, field])])}
          />
        </div>
      </details>
      ${
        tried && unread.length > 0
          ? html`<p class="field-error" role="alert">Fix the errors above first.</p>`
          : null
      }
    </div>
  <//>`
}

/** Before the first try to save only what was typed is found fault with. */
function onlyTyped(form: ProviderForm, faults: ProviderFaults): ProviderFaults {
  return Object.fromEntries(
    Object.entries(faults).filter(([field]) => form[field as keyof ProviderFaults] !== ''),
  )
}

function Account(
  props: EditProviderProps & {
    readonly form: ProviderForm
    readonly set: (change: Partial<ProviderForm>) => void
    readonly faults: ProviderFaults
  },
) {
  const { before, kinds, workspace, setsAddress, form, set, faults } = props
  const kind = kinds.find((one) => one.kind === form.kind)
  const stored = before !== null && before.credential !== 'none' && before.kind === form.kind
  return html`
    <${Select}
      label="Provider type"
      value=${form.kind}
      onChange=${(value: string) => set({ kind: value })}
      options=${kinds.map((one) => one.kind)}
    />
    ${
      before === null
        ? html`<${TextInput}
            label="Name"
            value=${form.name}
            onInput=${(value: string) => set({ name: value })}
            mono
            autofocus
            required
            maxLength=${64}
            placeholder=${form.kind}
            hint=${
              workspace === null
                ? 'Used in routes. Can’t be changed later.'
                : `Full name: ${wholeName(workspace, form.name || form.kind)}. Can’t be changed later.`
            }
            error=${faults.name ?? null}
          />`
        : null
    }
    <${TextInput}
      label="API key"
      type="password"
      value=${form.credential}
      onInput=${(value: string) => set({ credential: value })}
      autocomplete="new-password"
      optional=${kind?.needs_credential === false}
      placeholder=${stored ? '••••••••' : ''}
      hint=${
        stored
          ? 'Leave empty to keep the saved key.'
          : 'Encrypted at rest. You won’t be able to see it again.'
      }
      error=${faults.credential ?? null}
    />
    ${setsAddress ? html`<${Address} kind=${kind} form=${form} set=${set} faults=${faults} />` : null}
  `
}

function Address(props: {
  readonly kind: KindAnswer | undefined
  readonly form: ProviderForm
  readonly set: (change: Partial<ProviderForm>) => void
  readonly faults: ProviderFaults
}) {
  const { kind, form, set, faults } = props
  const isNeeded = kind?.base_url === null
  return html`<${TextInput}
    label="Base URL"
    type="url"
    value=${form.baseUrl}
    onInput=${(value: string) => set({ baseUrl: value })}
    mono
    optional=${!isNeeded}
    placeholder=${kind?.base_url ?? 'https://speech.example.com/v1'}
    hint=${isNeeded ? 'Required.' : 'Leave empty for the default.'}
    error=${faults.baseUrl ?? null}
  />`
}
