import { useState } from 'preact/hooks'
import type { Scope } from '../../../../contracts/catalog.ts'
import type { NewKeyAnswer } from '../../../server/api/answers.ts'
import { api } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Checkbox, Checkboxes } from '../../components/choice.ts'
import { Code } from '../../components/copy.ts'
import { Dialog, FormDialog } from '../../components/dialog.ts'
import { Select, TextInput } from '../../components/field.ts'
import { Note } from '../../components/states.ts'
import { h } from '../../h.ts'
import { useAction } from '../../load.ts'

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
  const [form, setForm] = useState<KeyFields>(() => emptyForm(apps))
  const [issues, setFaults] = useState<KeyIssues>({})
  const [more, setMore] = useState(false)
  const change = (fields: Partial<KeyFields>) => {
    setForm({ ...form, ...fields })
    setFaults(Object.fromEntries(Object.entries(issues).filter(([name]) => !(name in fields))))
  }
  const create = useAction(async () => {
    const made = newKeyOf(form, Date.now())
    if ('issues' in made) {
      setFaults(made.issues)
      // An issue in a closed section would not be seen.
      return setMore(more || Object.keys(made.issues).some((name) => name in UNLIMITED))
    }
    onMade(await api.post<NewKeyAnswer>(path, made.body))
  })
  return h(
    FormDialog,
    {
      title: 'Create key',
      action: 'Create key',
      onSubmit: () => create.run(),
      onClose,
      busy: create.busy,
      error: create.error,
    },
    h(TextInput, {
      label: 'Name',
      hint: 'What it is for, e.g. ci or voice-bot.',
      value: form.name,
      onInput: (name: string) => change({ name }),
      error: issues.name,
      maxLength: 128,
      autofocus: true,
    }),
    h(Select, {
      label: 'App',
      value: form.app,
      options: [...(apps.length === 1 ? [] : [{ value: '', label: 'Choose an app' }]), ...apps],
      onChange: (app: string) => change({ app }),
      error: issues.app,
    }),
    h(Checkboxes<Scope>, {
      legend: 'Scopes',
      options: SCOPES,
      chosen: form.scopes,
      onChange: (chosen: readonly Scope[]) => change({ scopes: withChosen(form.scopes, SCOPES, chosen) }),
      error: issues.scopes,
    }),
    h(More, {
      form,
      issues,
      onChange: change,
      administration: mayOperate ? [ADMIN, OPERATOR] : [ADMIN],
      open: more,
      onOpen: setMore,
    }),
  )
}

function emptyForm(apps: readonly string[]): KeyFields {
  const app = apps.length === 1 ? (apps[0] ?? '') : ''
  return { name: '', app, scopes: ['inference', 'jobs', 'queue'], ...UNLIMITED }
}

/** Scopes after a choice among some of them; the others stay. */
function withChosen(
  scopes: readonly Scope[],
  among: readonly { readonly value: Scope }[],
  chosen: readonly Scope[],
): readonly Scope[] {
  const others = scopes.filter((scope) => among.every(({ value }) => value !== scope))
  return [...others, ...chosen]
}

/** Settings that few keys need. */
function More(props: {
  readonly form: KeyFields
  readonly issues: KeyIssues
  readonly onChange: (fields: Partial<KeyFields>) => void
  readonly administration: readonly { readonly value: Scope; readonly label: string; readonly hint: string }[]
  readonly open: boolean
  readonly onOpen: (open: boolean) => void
}) {
  const { form, issues, onChange, administration, open, onOpen } = props
  const toggled = ({ currentTarget }: Event) => onOpen((currentTarget as HTMLDetailsElement).open)
  return h(
    'details',
    { class: 'more', open, onToggle: toggled },
    h('summary', null, 'More'),
    h(
      'div',
      { class: 'stack' },
      h(Limits, { form, issues, onChange }),
      h(Checkboxes<Scope>, {
        legend: 'Administration',
        options: administration,
        chosen: form.scopes,
        onChange: (chosen: readonly Scope[]) =>
          onChange({ scopes: withChosen(form.scopes, administration, chosen) }),
      }),
    ),
  )
}

function Limits(props: {
  readonly form: KeyFields
  readonly issues: KeyIssues
  readonly onChange: (fields: Partial<KeyFields>) => void
}) {
  const { form, issues, onChange } = props
  return h(
    'div',
    { class: 'key-limits' },
    h(TextInput, {
      label: 'Requests/min',
      optional: true,
      inputMode: 'numeric',
      placeholder: '600',
      value: form.requestsPerMinute,
      onInput: (requestsPerMinute: string) => onChange({ requestsPerMinute }),
      error: issues.requestsPerMinute,
    }),
    h(TextInput, {
      label: 'Burst',
      optional: true,
      inputMode: 'numeric',
      placeholder: '100',
      value: form.burst,
      onInput: (burst: string) => onChange({ burst }),
      error: issues.burst,
    }),
    h(TextInput, {
      label: 'Monthly budget',
      optional: true,
      inputMode: 'decimal',
      suffix: 'USD',
      value: form.budgetUsd,
      onInput: (budgetUsd: string) => onChange({ budgetUsd }),
      error: issues.budgetUsd,
    }),
    h(TextInput, {
      label: 'Expires on',
      optional: true,
      type: 'date',
      value: form.expires,
      onInput: (expires: string) => onChange({ expires }),
      error: issues.expires,
    }),
  )
}

/** A key as it is typed in. Empty texts are not sent: then the defaults of the configuration hold. */
export interface KeyFields {
  readonly name: string
  readonly app: string
  readonly scopes: readonly Scope[]
  readonly requestsPerMinute: string
  readonly burst: string
  readonly budgetUsd: string
  /** As `<input type="date">` has it, e.g. 2027-01-31; the key ends when that day has ended, in UTC. */
  readonly expires: string
}

interface NewKeyBody {
  readonly name: string
  readonly app: string
  readonly scopes: readonly Scope[]
  readonly rate_limit?: { readonly requests_per_minute: number; readonly burst: number }
  readonly budget_usd_per_month?: number
  readonly expires_at?: string
}

/** Why a field cannot be sent, by its name in the form. */
type KeyIssues = Readonly<Partial<Record<keyof KeyFields, string>>>

const NAME_LENGTH_MAX = 128

/** The body for the API, or the issues to fix first. */
export function newKeyOf(
  form: KeyFields,
  nowMs: number,
): { readonly body: NewKeyBody } | { readonly issues: KeyIssues } {
  const name = form.name.trim()
  const perMinute = wholeOf(form.requestsPerMinute, 100_000_000)
  const burst = wholeOf(form.burst, 100_000)
  const budget = form.budgetUsd.trim() === '' ? null : Number(form.budgetUsd)
  const endsMs = form.expires === '' ? null : Date.parse(`${form.expires}T23:59:59Z`)
  const issues: KeyIssues = {
    ...(name === '' ? { name: 'Enter a name.' } : {}),
    ...([...name].length > NAME_LENGTH_MAX ? { name: `Use at most ${NAME_LENGTH_MAX} characters.` } : {}),
    ...(form.app === '' ? { app: 'Choose an app.' } : {}),
    ...(form.scopes.length === 0 ? { scopes: 'Choose at least one.' } : {}),
    ...(perMinute === undefined ? { requestsPerMinute: 'Enter a whole number, 1 or more.' } : {}),
    ...(burst === undefined ? { burst: 'Enter a whole number from 1 to 100,000.' } : {}),
    ...(perMinute === null && burst !== null ? { requestsPerMinute: 'Required with a burst.' } : {}),
    ...(burst === null && perMinute !== null ? { burst: 'Required with a rate.' } : {}),
    ...(budget !== null && !(budget >= 0 && budget <= 1e9)
      ? { budgetUsd: 'Enter an amount in USD, 0 or more.' }
      : {}),
    ...(endsMs !== null && !(endsMs > nowMs) ? { expires: 'Choose today or a later date.' } : {}),
  }
  if (Object.keys(issues).length > 0) return { issues }
  return {
    body: {
      name,
      app: form.app,
      scopes: form.scopes,
      ...(perMinute == null || burst == null
        ? {}
        : { rate_limit: { requests_per_minute: perMinute, burst } }),
      ...(budget === null ? {} : { budget_usd_per_month: budget }),
      ...(endsMs === null ? {} : { expires_at: new Date(endsMs).toISOString() }),
    },
  }
}

/** Null: left empty; undefined: not a valid number. */
function wholeOf(text: string, max: number): number | null | undefined {
  if (text.trim() === '') return null
  const number = Number(text)
  return Number.isInteger(number) && number >= 1 && number <= max ? number : undefined
}

/** Shows a new key, once. The dialog stays until the key is copied or somebody confirms that it is stored. */
export function KeyShown({ made, onClose }: { readonly made: NewKeyAnswer; readonly onClose: () => void }) {
  const [kept, setKept] = useState(false)
  const curl = [
    `export LARKWAY_API_KEY=${made.key}`,
    `curl -sS ${location.origin}/v1/me -H "Authorization: Bearer $LARKWAY_API_KEY"`,
  ].join('\n')
  return h(
    Dialog,
    {
      title: `Key ${made.name} for the app ${made.app}`,
      wide: true,
      onClose,
      locked: !kept,
      footer: h(Button, { kind: 'primary', onClick: onClose, disabled: !kept }, 'Done'),
    },
    h(Note, { tone: 'warn' }, 'Copy this key now. You won’t see it again.'),
    h(Code, { title: 'API key', text: made.key, wrap: true, onCopied: () => setKept(true) }),
    h(Code, { title: 'Test it', text: curl, wrap: true, onCopied: () => setKept(true) }),
    h('p', { class: 'small quiet' }, 'Active on all nodes within 5 seconds.'),
    h(Checkbox, { label: 'I have stored the key', checked: kept, onChange: setKept }),
  )
}
