import { useState } from 'preact/hooks'
import type { Scope } from '../../../../../schema/catalog.ts'
import type { NewKeyAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Checkboxes } from '../../parts/choice.ts'
import { FormDialog } from '../../parts/dialog.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { type KeyForm as Form, type KeyFaults, newKeyOf } from './new-key.ts'

const SCOPES = [
  { value: 'inference', label: 'inference', hint: 'Synchronous requests' },
  { value: 'jobs', label: 'jobs', hint: 'Transcription jobs' },
  { value: 'queue', label: 'queue', hint: 'Background queue' },
] as const

const ADMIN = {
  value: 'admin',
  label: 'admin',
  hint: 'This console and the settings of this workspace. For people, not programs.',
} as const

const OPERATOR = {
  value: 'operator',
  label: 'operator',
  hint: 'Everything in the console, in every workspace.',
} as const

const UNLIMITED = { requestsPerMinute: '', burst: '', budgetUsd: '', expires: '' }

/** Creates a key. What is left empty follows the configuration. */
export function KeyForm(props: {
  readonly path: string
  readonly apps: readonly string[]
  readonly mayOperate: boolean
  readonly onMade: (key: NewKeyAnswer) => void
  readonly onClose: () => void
}) {
  const { path, apps, mayOperate, onMade, onClose } = props
  const [form, setForm] = useState<Form>({
    name: '',
    app: apps.length === 1 ? (apps[0] ?? '') : '',
    scopes: ['inference', 'jobs', 'queue'],
    ...UNLIMITED,
  })
  const [faults, setFaults] = useState<KeyFaults>({})
  const [more, setMore] = useState(false)
  const change = (fields: Partial<Form>) => {
    setForm({ ...form, ...fields })
    setFaults(Object.fromEntries(Object.entries(faults).filter(([name]) => !(name in fields))))
  }
  const create = useAction(async () => {
    const made = newKeyOf(form, Date.now())
    if ('faults' in made) {
      setFaults(made.faults)
      // A fault that nobody sees cannot be put right.
      return setMore(more || Object.keys(made.faults).some((name) => name in UNLIMITED))
    }
    onMade(await api.post<NewKeyAnswer>(path, made.body))
  })
  return html`<${FormDialog}
    title="Create key"
    action="Create key"
    onSubmit=${() => create.run()}
    onClose=${onClose}
    busy=${create.busy}
    error=${create.error}
  >
    <${TextInput}
      label="Name"
      hint="What it is for, e.g. ci or voice-bot."
      value=${form.name}
      onInput=${(name: string) => change({ name })}
      error=${faults.name}
      maxLength=${128}
      autofocus
    />
    <${Select}
      label="App"
      value=${form.app}
      options=${[...(apps.length === 1 ? [] : [{ value: '', label: 'Choose an app' }]), ...apps]}
      onChange=${(app: string) => change({ app })}
      error=${faults.app}
    />
    <${Checkboxes}
      legend="Scopes"
      options=${SCOPES}
      chosen=${form.scopes}
      onChange=${(chosen: readonly string[]) => change({ scopes: withChosen(form.scopes, SCOPES, chosen) })}
      error=${faults.scopes}
    />
    <${More}
      form=${form}
      faults=${faults}
      onChange=${change}
      administration=${mayOperate ? [ADMIN, OPERATOR] : [ADMIN]}
      open=${more}
      onOpen=${setMore}
    />
  <//>`
}

/** Scopes after a choice among some of them; the others stay. */
function withChosen(
  scopes: readonly Scope[],
  among: readonly { readonly value: Scope }[],
  chosen: readonly string[],
): readonly Scope[] {
  const others = scopes.filter((scope) => among.every(({ value }) => value !== scope))
  return [...others, ...(chosen as readonly Scope[])]
}

/** What few keys need. */
function More(props: {
  readonly form: Form
  readonly faults: KeyFaults
  readonly onChange: (fields: Partial<Form>) => void
  readonly administration: readonly { readonly value: Scope; readonly label: string; readonly hint: string }[]
  readonly open: boolean
  readonly onOpen: (open: boolean) => void
}) {
  const { form, faults, onChange, administration, open, onOpen } = props
  const toggled = ({ currentTarget }: Event) => onOpen((currentTarget as HTMLDetailsElement).open)
  return html`<details class="more" open=${open} onToggle=${toggled}>
    <summary>More</summary>
    <div class="stack">
      <${Limits} form=${form} faults=${faults} onChange=${onChange} />
      <${Checkboxes}
        legend="Administration"
        options=${administration}
        chosen=${form.scopes}
        onChange=${(chosen: readonly string[]) =>
          onChange({ scopes: withChosen(form.scopes, administration, chosen) })}
      />
    </div>
  </details>`
}

function Limits(props: {
  readonly form: Form
  readonly faults: KeyFaults
  readonly onChange: (fields: Partial<Form>) => void
}) {
  const { form, faults, onChange } = props
  return html`<div class="key-limits">
    <${TextInput}
      label="Requests/min"
      optional
      inputMode="numeric"
      placeholder="600"
      value=${form.requestsPerMinute}
      onInput=${(requestsPerMinute: string) => onChange({ requestsPerMinute })}
      error=${faults.requestsPerMinute}
    />
    <${TextInput}
      label="Burst"
      optional
      inputMode="numeric"
      placeholder="100"
      value=${form.burst}
      onInput=${(burst: string) => onChange({ burst })}
      error=${faults.burst}
    />
    <${TextInput}
      label="Monthly budget"
      optional
      inputMode="decimal"
      suffix="USD"
      value=${form.budgetUsd}
      onInput=${(budgetUsd: string) => onChange({ budgetUsd })}
      error=${faults.budgetUsd}
    />
    <${TextInput}
      label="Expires on"
      optional
      type="date"
      value=${form.expires}
      onInput=${(expires: string) => onChange({ expires })}
      error=${faults.expires}
    />
  </div>`
}
