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
import { type Form, type Issues, useForm } from '../../form.ts'
import { h } from '../../h.ts'

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
  const [more, setMore] = useState(false)
  const form = useForm<KeyFields>(
    () => emptyForm(apps),
    (fields) => keyIssues(fields, Date.now()),
    async (fields) => onMade(await api.post<NewKeyAnswer>(path, newKeyOf(fields))),
  )
  const { fields, set, issue, busy, error } = form
  const submit = () => {
    // An issue in a closed section would not be seen.
    setMore(more || Object.keys(keyIssues(fields, Date.now())).some((name) => name in UNLIMITED))
    form.submit()
  }
  return h(
    FormDialog,
    { title: 'Create key', action: 'Create key', onSubmit: submit, onClose, busy, error },
    h(TextInput, {
      label: 'Name',
      hint: 'What it is for, e.g. ci or voice-bot.',
      value: fields.name,
      onInput: (name: string) => set({ name }),
      error: issue('name'),
      maxLength: 128,
      autofocus: true,
    }),
    h(Select, {
      label: 'App',
      value: fields.app,
      options: [...(apps.length === 1 ? [] : [{ value: '', label: 'Choose an app' }]), ...apps],
      onChange: (app: string) => set({ app }),
      error: issue('app'),
    }),
    h(Checkboxes<Scope>, {
      legend: 'Scopes',
      options: SCOPES,
      chosen: fields.scopes,
      onChange: (chosen: readonly Scope[]) => set({ scopes: withChosen(fields.scopes, SCOPES, chosen) }),
      error: issue('scopes'),
    }),
    h(More, {
      form,
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
  readonly form: Form<KeyFields>
  readonly administration: readonly { readonly value: Scope; readonly label: string; readonly hint: string }[]
  readonly open: boolean
  readonly onOpen: (open: boolean) => void
}) {
  const { form, administration, open, onOpen } = props
  const { fields, set } = form
  const toggled = ({ currentTarget }: Event) => onOpen((currentTarget as HTMLDetailsElement).open)
  return h(
    'details',
    { class: 'more', open, onToggle: toggled },
    h('summary', null, 'More'),
    h(
      'div',
      { class: 'stack' },
      h(Limits, { form }),
      h(Checkboxes<Scope>, {
        legend: 'Administration',
        options: administration,
        chosen: fields.scopes,
        onChange: (chosen: readonly Scope[]) =>
          set({ scopes: withChosen(fields.scopes, administration, chosen) }),
      }),
    ),
  )
}

function Limits({ form }: { readonly form: Form<KeyFields> }) {
  const { fields, set, issue } = form
  return h(
    'div',
    { class: 'key-limits' },
    h(TextInput, {
      label: 'Requests/min',
      optional: true,
      inputMode: 'numeric',
      placeholder: '600',
      value: fields.requestsPerMinute,
      onInput: (requestsPerMinute: string) => set({ requestsPerMinute }),
      error: issue('requestsPerMinute'),
    }),
    h(TextInput, {
      label: 'Burst',
      optional: true,
      inputMode: 'numeric',
      placeholder: '100',
      value: fields.burst,
      onInput: (burst: string) => set({ burst }),
      error: issue('burst'),
    }),
    h(TextInput, {
      label: 'Monthly budget',
      optional: true,
      inputMode: 'decimal',
      suffix: 'USD',
      value: fields.budgetUsd,
      onInput: (budgetUsd: string) => set({ budgetUsd }),
      error: issue('budgetUsd'),
    }),
    h(TextInput, {
      label: 'Expires on',
      optional: true,
      type: 'date',
      value: fields.expires,
      onInput: (expires: string) => set({ expires }),
      error: issue('expires'),
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

const NAME_LENGTH_MAX = 128

/** Finds what has to be fixed before the key can be made. */
export function keyIssues(fields: KeyFields, nowMs: number): Issues<KeyFields> {
  const name = fields.name.trim()
  const { perMinute, burst, budget, endsMs } = readLimits(fields)
  return {
    ...(name === '' ? { name: 'Enter a name.' } : {}),
    ...([...name].length > NAME_LENGTH_MAX ? { name: `Use at most ${NAME_LENGTH_MAX} characters.` } : {}),
    ...(fields.app === '' ? { app: 'Choose an app.' } : {}),
    ...(fields.scopes.length === 0 ? { scopes: 'Choose at least one.' } : {}),
    ...(perMinute === undefined ? { requestsPerMinute: 'Enter a whole number, 1 or more.' } : {}),
    ...(burst === undefined ? { burst: 'Enter a whole number from 1 to 100,000.' } : {}),
    ...(perMinute === null && burst !== null ? { requestsPerMinute: 'Required with a burst.' } : {}),
    ...(burst === null && perMinute !== null ? { burst: 'Required with a rate.' } : {}),
    ...(budget !== null && !(budget >= 0 && budget <= 1e9)
      ? { budgetUsd: 'Enter an amount in USD, 0 or more.' }
      : {}),
    ...(endsMs !== null && !(endsMs > nowMs) ? { expires: 'Choose today or a later date.' } : {}),
  }
}

/** Makes the body for the API of fields without issues. */
export function newKeyOf(fields: KeyFields): NewKeyBody {
  const { perMinute, burst, budget, endsMs } = readLimits(fields)
  return {
    name: fields.name.trim(),
    app: fields.app,
    scopes: fields.scopes,
    ...(perMinute == null || burst == null ? {} : { rate_limit: { requests_per_minute: perMinute, burst } }),
    ...(budget === null ? {} : { budget_usd_per_month: budget }),
    ...(endsMs === null ? {} : { expires_at: new Date(endsMs).toISOString() }),
  }
}

function readLimits({ requestsPerMinute, burst, budgetUsd, expires }: KeyFields) {
  return {
    perMinute: wholeOf(requestsPerMinute, 100_000_000),
    burst: wholeOf(burst, 100_000),
    budget: budgetUsd.trim() === '' ? null : Number(budgetUsd),
    endsMs: expires === '' ? null : Date.parse(`${expires}T23:59:59Z`),
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
