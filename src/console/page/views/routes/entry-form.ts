import { useState } from 'preact/hooks'
import type { Profile, Strategy } from '../../../../contracts/catalog.ts'
import type { EntryFields } from '../../../../gateway/catalog/file.ts'
import { Button } from '../../components/button.ts'
import { Checkbox, Checkboxes } from '../../components/choice.ts'
import { type Option, Select, TextInput } from '../../components/field.ts'
import { h } from '../../h.ts'
import { factsIn } from '../providers/facts.ts'
import { FactsFields, JsonInput } from '../providers/facts-fields.ts'
import type { Edit, EditedEntry, EntryChange, RouteIssues, ViewContext } from './editing.ts'
import { entryIssues } from './editing.ts'
import { members, PROFILE_WORDS } from './words.ts'

const PROFILES: readonly Option<Profile | ''>[] = [
  { value: '', label: 'None' },
  ...members(PROFILE_WORDS).map((value) => ({ value, label: PROFILE_WORDS[value] })),
]

export interface EntryFormProps {
  readonly entry: EditedEntry
  readonly index: number
  readonly strategy: Strategy
  readonly issues: RouteIssues
  readonly context: ViewContext
  readonly readOnly: boolean
  readonly onChangeModel: () => void
  readonly edit: (edit: Edit) => void
}

/** All settings of an entry, each with its meaning in a line. */
export function EntryForm(props: EntryFormProps) {
  const { entry, index, strategy, issues, readOnly, edit, onChangeModel } = props
  const { fields, key } = entry
  const set = (change: EntryChange, read = '') => edit({ do: 'set', key, change, read })
  const wrong = (field: string) => entryIssues(issues, index, field).join(' ') || null
  const unread = (field: string) => (why: string) => edit({ do: 'unread', key, field, why })
  return h(
    'div',
    { class: 'routes-form' },
    readOnly
      ? null
      : h('div', null, h(Button, { small: true, icon: 'refresh', onClick: onChangeModel }, 'Change model…')),
    h(
      'div',
      { class: 'columns routes-form-columns' },
      h(Select<Profile | ''>, {
        label: 'Profile',
        value: fields.profile ?? '',
        onChange: (value: Profile | '') => set({ profile: value === '' ? undefined : value }),
        options: PROFILES,
        hint: 'Requests with this response_profile prefer entries that have it.',
        error: wrong('profile'),
        disabled: readOnly,
      }),
      h(Weight, {
        value: fields.weight,
        onChange: (weight: number | undefined) => set({ weight }),
        onUnread: unread('weight'),
        hint: strategy === 'weighted' ? 'Share of the traffic.' : 'Used by the Weighted strategy.',
        error: wrong('weight'),
        disabled: readOnly,
      }),
    ),
    h(Labels, { ...props, set, wrong }),
    h(Checkbox, {
      label: 'Pinned',
      hint: 'When any entry is pinned, only pinned entries are used.',
      checked: fields.pinned === true,
      onChange: (on: boolean) => set({ pinned: on || undefined }),
      disabled: readOnly,
    }),
    h(Checkbox, {
      label: 'Retry when empty',
      hint: 'Tries the next entry when 3 s or more of audio returns no words.',
      checked: fields.retry_empty === true,
      onChange: (on: boolean) => set({ retry_empty: on || undefined }),
      disabled: readOnly,
    }),
    h(VoicesInput, {
      value: fields.voices,
      onChange: (voices: EntryFields['voices']) => set({ voices }),
      error: wrong('voices'),
      disabled: readOnly,
    }),
    h(JsonInput, {
      label: 'Options',
      hint: 'Provider-specific settings, as a JSON object.',
      placeholder: '{"region": "eu"}',
      value: fields.options,
      onChange: (options: EntryFields['options']) => set({ options }),
      onUnread: unread('options'),
      error: wrong('options'),
      disabled: readOnly,
    }),
    h(Facts, { ...props, set, wrong }),
  )
}

interface PartProps extends EntryFormProps {
  readonly set: (change: EntryChange, read?: string) => void
  readonly wrong: (field: string) => string | null
}

/** Purposes and plans: those of the workspace, and those that the entry names all the same. */
function Labels({ entry, context, readOnly, set, wrong }: PartProps) {
  const { purposes = [], plans = [] } = entry.fields
  const { workspace } = context
  const purposeNames = [...new Set([...workspace.purposes.map(({ purpose }) => purpose), ...purposes])]
  const planNames = [...new Set([...workspace.plans, ...plans])]
  const optionsOf = (names: readonly string[]) =>
    names.map((value) => ({ value, label: value, disabled: readOnly }))
  const orNone = (chosen: readonly string[]) => (chosen.length === 0 ? undefined : [...chosen])
  return [
    purposeNames.length === 0
      ? h('p', { class: 'small quiet' }, 'No purposes yet. Create them under Apps.')
      : h(Checkboxes, {
          legend: 'Purposes',
          hint: 'Requests with one of these purposes try this entry first.',
          options: optionsOf(purposeNames),
          chosen: purposes,
          onChange: (chosen: readonly string[]) => set({ purposes: orNone(chosen) }),
          error: wrong('purposes'),
          inline: true,
        }),
    planNames.length === 0
      ? null
      : h(Checkboxes, {
          legend: 'Plans',
          hint: 'Limits the entry to workspaces on these plans. None selected: all.',
          options: optionsOf(planNames),
          chosen: plans,
          onChange: (chosen: readonly string[]) => set({ plans: orNone(chosen) }),
          error: wrong('plans'),
          inline: true,
        }),
  ]
}

function Facts(props: PartProps) {
  const { entry, issues, index, readOnly, set, edit } = props
  const facts = factsIn(entry.fields)
  const names = [
    'capabilities',
    'operations',
    'features',
    'translation_features',
    'hints',
    'conflicts',
    'languages',
  ]
  const wrongs = [...names, 'limits', 'price', 'translates'].flatMap((name) =>
    entryIssues(issues, index, name).map((line) => `${name}: ${line}`),
  )
  const needed = entryIssues(issues, index, 'model').length > 0
  return h(
    'details',
    { class: 'more', open: needed || Object.keys(facts).length > 0 },
    h('summary', null, 'Model capabilities and pricing'),
    h(
      'div',
      { class: 'stack' },
      h(
        'p',
        { class: 'small quiet' },
        'Overrides the built-in table and the provider’s settings. Required for models missing from the table.',
      ),
      wrongs.map((line) => h('p', { class: 'field-error', role: 'alert', key: line }, line)),
      h(FactsFields, {
        facts,
        onChange: set,
        onUnread: (field: string, why: string) => edit({ do: 'unread', key: entry.key, field, why }),
        disabled: readOnly,
      }),
    ),
  )
}

/** A positive number, or nothing for 1. */
function Weight(props: {
  readonly value: number | undefined
  readonly onChange: (value: number | undefined) => void
  readonly onUnread: (why: string) => void
  readonly hint: string
  readonly error: string | null
  readonly disabled: boolean
}) {
  const { value, onChange, onUnread, hint, error, disabled } = props
  const [text, setText] = useState(value === undefined ? '' : String(value))
  const [fault, setFault] = useState<string | null>(null)
  const type = (typed: string) => {
    setText(typed)
    const number = typed.trim() === '' ? undefined : Number(typed)
    const isRight = number === undefined || (number > 0 && number <= 1_000_000)
    setFault(isRight ? null : 'Enter a number above 0.')
    if (isRight) onChange(number)
    else onUnread('is no number over 0')
  }
  return h(TextInput, {
    label: 'Weight',
    value: text,
    onInput: type,
    inputMode: 'decimal',
    placeholder: '1',
    hint,
    error: fault ?? error,
    disabled,
  })
}

type Voices = NonNullable<EntryFields['voices']>
type Row = readonly [asked: string, given: string]

/** Callers' names of voices, and the provider's. Incomplete rows are not saved. */
function VoicesInput(props: {
  readonly value: EntryFields['voices']
  readonly onChange: (value: Voices | undefined) => void
  readonly error: string | null
  readonly disabled: boolean
}) {
  const { value, onChange, error, disabled } = props
  const [rows, setRows] = useState<readonly Row[]>(() => Object.entries(value ?? {}))
  const change = (next: readonly Row[]) => {
    setRows(next)
    const whole = next.filter(([asked, given]) => asked !== '' && given !== '')
    onChange(whole.length === 0 ? undefined : Object.fromEntries(whole))
  }
  const repeated = rows.find(
    ([asked], index) => asked !== '' && rows.findIndex(([other]) => other === asked) < index,
  )
  return h(
    'fieldset',
    { class: 'choices' },
    h('legend', { class: 'field-label' }, 'Voices'),
    h('p', { class: 'field-hint' }, 'Voice names in requests, and the provider’s names for them.'),
    rows.map(([asked, given], index) =>
      h(
        'div',
        { class: 'routes-voice', key: index },
        h(TextInput, {
          label: `Voice ${index + 1} in requests`,
          hideLabel: true,
          placeholder: 'asked for',
          value: asked,
          onInput: (text: string) => change(rows.with(index, [text, given])),
          disabled,
          maxLength: 256,
        }),
        h('span', { class: 'quiet', 'aria-hidden': 'true' }, '→'),
        h(TextInput, {
          label: `Voice ${index + 1} at the provider`,
          hideLabel: true,
          placeholder: "provider's",
          value: given,
          onInput: (text: string) => change(rows.with(index, [asked, text])),
          disabled,
          maxLength: 256,
          mono: true,
        }),
        disabled
          ? null
          : h(Button, {
              kind: 'quiet',
              small: true,
              icon: 'trash',
              label: `Remove voice ${asked || index + 1}`,
              onClick: () => change(rows.toSpliced(index, 1)),
            }),
      ),
    ),
    repeated === undefined
      ? null
      : h('p', { class: 'field-error', role: 'alert' }, repeated[0], ' is there twice.'),
    error === null ? null : h('p', { class: 'field-error', role: 'alert' }, error),
    disabled
      ? null
      : h(
          'div',
          null,
          h(Button, { small: true, icon: 'plus', onClick: () => setRows([...rows, ['', '']]) }, 'Add voice'),
        ),
  )
}
