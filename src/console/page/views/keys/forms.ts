import { useState } from 'preact/hooks'
import type { Scope } from '../../../../contracts/catalog.ts'
import type { KeyAnswer, NewKeyAnswer } from '../../../server/answers/keys.ts'
import { api } from '../../api.ts'
import { Button } from '../../components/button.ts'
import { Checkbox, Checkboxes } from '../../components/choice.ts'
import { Code } from '../../components/copy.ts'
import { Dialog, FormDialog } from '../../components/dialog.ts'
import { OPTIONAL_NUMBER, Select, TextInput } from '../../components/field.ts'
import { Note } from '../../components/states.ts'
import type { UnitLimits } from '../../components/unit-limits.ts'
import { UnitLimitInputs, unitLimitIssues, unitLimits, unitRates } from '../../components/unit-limits.ts'
import { AMOUNT, BURST_MAX, KEY_NAME_MAX, REQUESTS_PER_MINUTE_MAX, readUsd, readWhole } from '../../fields.ts'
import { type Form, type Issues, useForm } from '../../form.ts'
import { h } from '../../h.ts'
import { useLeaveGuard } from '../../router.ts'

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

const UNLIMITED = {
  requestsPerMinute: '',
  burst: '',
  ...unitLimits(null),
  budgetUsd: '',
  expires: '',
}

interface KeyFormProps {
  readonly apps: readonly string[]
  readonly mayOperate: boolean
  readonly onClose: () => void
}

/** Creates a key. What is left empty follows the configuration. */
export function NewKey(
  props: KeyFormProps & { readonly path: string; readonly onMade: (key: NewKeyAnswer) => void },
) {
  const { path, onMade, ...rest } = props
  const save = async (fields: KeyFields) => onMade(await api.post<NewKeyAnswer>(path, newKeyOf(fields)))
  return h(KeyForm, { ...rest, title: 'Create key', action: 'Create key', start: emptyForm(rest.apps), save })
}

/** Changes what a key may do; its app stays. */
export function EditKey(
  props: KeyFormProps & {
    readonly path: string
    readonly edited: KeyAnswer
    readonly onSaved: () => void
  },
) {
  const { path, edited, onSaved, ...rest } = props
  const { id, app } = edited
  const save = async (fields: KeyFields) => {
    await api.put(`${path}/${encodeURIComponent(id)}`, changedKeyOf(fields, edited))
    onSaved()
  }
  const words = { title: `Edit the key ${edited.name}`, action: 'Save' }
  return h(KeyForm, { ...rest, ...words, apps: [app], start: fieldsOf(edited), save })
}

function KeyForm(
  props: KeyFormProps & {
    readonly title: string
    readonly action: string
    readonly start: KeyFields
    readonly save: (fields: KeyFields) => Promise<void>
  },
) {
  const { title, action, start, save, apps, mayOperate, onClose } = props
  const [more, setMore] = useState(() => hasMore(start))
  const form = useForm<KeyFields>(
    () => start,
    (fields) => keyIssues(fields, Date.now()),
    save,
  )
  const { fields, set, issue, busy, error, bind } = form
  const submit = () => {
    // An issue in a closed section would not be seen.
    setMore(more || Object.keys(keyIssues(fields, Date.now())).some((name) => name in UNLIMITED))
    form.submit()
  }
  return h(
    FormDialog,
    { title, action, onSubmit: submit, onClose, busy, error },
    h(TextInput, {
      label: 'Name',
      hint: 'What it is for, e.g. ci or voice-bot.',
      ...bind('name'),
      maxLength: KEY_NAME_MAX,
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

/** A key as the form shows it. A rate limit of the configuration is left empty, so that it keeps following it. */
export function fieldsOf(key: KeyAnswer): KeyFields {
  const { name, app, scopes, rate_limit: limit, budget_usd_per_month: budget, expires_at: expires } = key
  const own = !key.rate_limit_is_default
  return {
    ...{ name, app, scopes },
    requestsPerMinute: own ? String(limit.requests_per_minute) : '',
    burst: own ? String(limit.burst) : '',
    ...unitLimits(own ? limit : null),
    budgetUsd: budget === null ? '' : String(budget),
    expires: dateOf(expires),
  }
}

function hasMore(fields: KeyFields): boolean {
  const { scopes } = fields
  const isLimited = (Object.keys(UNLIMITED) as (keyof typeof UNLIMITED)[]).some((name) => fields[name] !== '')
  return isLimited || scopes.some((scope) => scope === 'admin' || scope === 'operator')
}

const dateOf = (time: string | null) => time?.slice(0, 10) ?? ''

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
  const { bind } = form
  return h(
    'div',
    { class: 'key-limits' },
    h(TextInput, {
      label: 'Requests/min',
      ...OPTIONAL_NUMBER,
      placeholder: '600',
      ...bind('requestsPerMinute'),
    }),
    h(TextInput, { label: 'Burst', ...OPTIONAL_NUMBER, placeholder: '100', ...bind('burst') }),
    h(UnitLimitInputs, { bind }),
    h(TextInput, {
      label: 'Monthly budget',
      optional: true,
      inputMode: 'decimal',
      suffix: 'USD',
      ...bind('budgetUsd'),
    }),
    h(TextInput, { label: 'Expires on', optional: true, type: 'date', ...bind('expires') }),
  )
}

/** A key as it is typed in. Empty texts are not sent: then the defaults of the configuration hold. */
export interface KeyFields extends UnitLimits {
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
  readonly rate_limit?: KeyAnswer['rate_limit']
  readonly budget_usd_per_month?: number
  readonly expires_at?: string
}

/** Finds what has to be fixed before the key can be made. */
export function keyIssues(fields: KeyFields, nowMs: number): Issues<KeyFields> {
  const name = fields.name.trim()
  const { perMinute, burst, budget, endsMs } = readLimits(fields)
  const { requestsPerMinute, tokensPerMinute, audioSecondsPerMinute } = fields
  const limits = [requestsPerMinute, fields.burst, tokensPerMinute, audioSecondsPerMinute]
  const isLimited = limits.some((text) => text.trim() !== '')
  return {
    ...(name === '' ? { name: 'Enter a name.' } : {}),
    ...(name.length > KEY_NAME_MAX ? { name: `Use at most ${KEY_NAME_MAX} characters.` } : {}),
    ...(fields.app === '' ? { app: 'Choose an app.' } : {}),
    ...(fields.scopes.length === 0 ? { scopes: 'Choose at least one.' } : {}),
    ...(perMinute === null ? { requestsPerMinute: 'Enter a whole number, 1 or more.' } : {}),
    ...(burst === null ? { burst: 'Enter a whole number from 1 to 100,000.' } : {}),
    ...(perMinute === undefined && isLimited ? { requestsPerMinute: 'Required with any other limit.' } : {}),
    ...(burst === undefined && isLimited ? { burst: 'Required with any other limit.' } : {}),
    ...unitLimitIssues(fields),
    ...(budget === null ? { budgetUsd: AMOUNT } : {}),
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
    ...(perMinute == null || burst == null
      ? {}
      : {
          rate_limit: { requests_per_minute: perMinute, burst, ...unitRates(fields) },
        }),
    ...(budget == null ? {} : { budget_usd_per_month: budget }),
    ...(endsMs === null ? {} : { expires_at: new Date(endsMs).toISOString() }),
  }
}

/**
 * Makes the body that changes a key out of fields without issues. A date that was left alone keeps its time; a limit of
 * tokens or of audio that was cleared is taken away.
 */
export function changedKeyOf(fields: KeyFields, edited: KeyAnswer): Omit<NewKeyBody, 'app'> {
  const { app: _, rate_limit: limit, ...body } = newKeyOf(fields)
  const { expires_at: expires, rate_limit: before } = edited
  const isCleared = (name: 'tokens_per_minute' | 'audio_seconds_per_minute') =>
    before[name] !== undefined && limit !== undefined && limit[name] === undefined
  return {
    ...body,
    ...(limit === undefined
      ? {}
      : {
          rate_limit: {
            ...limit,
            ...(isCleared('tokens_per_minute') ? { tokens_per_minute: 0 } : {}),
            ...(isCleared('audio_seconds_per_minute') ? { audio_seconds_per_minute: 0 } : {}),
          },
        }),
    ...(expires !== null && fields.expires === dateOf(expires) ? { expires_at: expires } : {}),
  }
}

function readLimits(fields: KeyFields) {
  const { requestsPerMinute, burst, budgetUsd, expires } = fields
  return {
    perMinute: readWhole(requestsPerMinute, REQUESTS_PER_MINUTE_MAX),
    burst: readWhole(burst, BURST_MAX),
    budget: readUsd(budgetUsd),
    endsMs: expires === '' ? null : Date.parse(`${expires}T23:59:59Z`),
  }
}

/** Choices of how long the former key stays valid; seconds. */
const OVERLAPS = [
  { value: '86400', label: 'Accept the old key for 1 day' },
  { value: '604800', label: 'Accept the old key for 7 days' },
  { value: '2592000', label: 'Accept the old key for 30 days' },
  { value: '0', label: 'Refuse the old key now' },
]

/** Asks how long the former key stays valid, and makes the new one. */
export function RotateKey(props: {
  readonly path: string
  readonly rotated: KeyAnswer
  readonly onMade: (key: NewKeyAnswer) => void
  readonly onClose: () => void
}) {
  const { path, rotated, onMade, onClose } = props
  const { id, name, former } = rotated
  const form = useForm(
    () => ({ overlap: former === null ? '86400' : '0' }),
    () => ({}),
    async ({ overlap }) => {
      const body = { overlap_seconds: Number(overlap) }
      onMade(await api.post<NewKeyAnswer>(`${path}/${encodeURIComponent(id)}/rotation`, body))
    },
  )
  const { fields, set, submit, busy, error } = form
  return h(
    FormDialog,
    { title: `Rotate the key ${name}?`, action: 'Rotate key', onSubmit: submit, onClose, busy, error },
    h('p', null, 'Creates a new secret. ID, limits, budget and spending stay the same.'),
    former === null
      ? null
      : h(
          Note,
          { tone: 'warn' },
          `The key before this one, ${former.prefix}…, is still accepted, `,
          'so that this one can’t be kept beside a third: both would be refused now.',
        ),
    h(Select, {
      label: 'Old key',
      value: fields.overlap,
      options: former === null ? OVERLAPS : OVERLAPS.filter(({ value }) => value === '0'),
      onChange: (overlap: string) => set({ overlap }),
    }),
  )
}

/** Shows a new key, once. The dialog stays until the key is copied, or confirmed to be stored. */
export function KeyShown({ made, onClose }: { readonly made: NewKeyAnswer; readonly onClose: () => void }) {
  const [kept, setKept] = useState(false)
  useLeaveGuard(!kept, 'The key is shown only once. Leave anyway?')
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
