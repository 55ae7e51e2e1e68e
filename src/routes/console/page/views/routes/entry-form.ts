import { useState } from 'preact/hooks'
import type { EntryFields } from '../../../../../catalog/file.ts'
import type { Profile } from '../../../../../schema/catalog.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Checkbox, Checkboxes } from '../../parts/choice.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { FactsFields } from '../providers/facts-fields.ts'
import { factsIn } from '../providers/facts-form.ts'
import { JsonInput } from '../providers/json-input.ts'
import type { EntryChange } from './editing.ts'
import type { EntryCardProps } from './entry-card.ts'
import { faultsOfEntry } from './route-faults.ts'
import { VoicesInput } from './voices-input.ts'
import { members, PROFILE_WORDS } from './words.ts'

const PROFILES = [
  { value: '', label: 'None' },
  ...members(PROFILE_WORDS).map((value) => ({ value, label: PROFILE_WORDS[value] })),
]

/** All settings of an entry, each with its meaning in a line. */
export function EntryForm(props: EntryCardProps) {
  const { entry, index, strategy, faults, readOnly, edit, onChangeModel } = props
  const { fields, key } = entry
  const set = (change: EntryChange, read = '') => edit({ do: 'set', key, change, read })
  const wrong = (field: string) => faultsOfEntry(faults, index, field).join(' ') || null
  const unread = (field: string) => (why: string) => edit({ do: 'unread', key, field, why })
  return html`<div class="routes-form">
    ${
      readOnly
        ? null
        : html`<div><${Button} small icon="refresh" onClick=${onChangeModel}>Change model…<//></div>`
    }
    <div class="columns routes-form-columns">
      <${Select}
        label="Profile"
        value=${fields.profile ?? ''}
        onChange=${(value: Profile | '') => set({ profile: value === '' ? undefined : value })}
        options=${PROFILES}
        hint="Requests with this response_profile prefer entries that have it."
        error=${wrong('profile')}
        disabled=${readOnly}
      />
      <${Weight}
        value=${fields.weight}
        onChange=${(weight: number | undefined) => set({ weight })}
        onUnread=${unread('weight')}
        hint=${strategy === 'weighted' ? 'Share of the traffic.' : 'Used by the Weighted strategy.'}
        error=${wrong('weight')}
        disabled=${readOnly}
      />
    </div>
    <${Labels} ...${props} set=${set} wrong=${wrong} />
    <${Checkbox}
      label="Pinned"
      hint="When any entry is pinned, only pinned entries are used."
      checked=${fields.pinned === true}
      onChange=${(on: boolean) => set({ pinned: on || undefined })}
      disabled=${readOnly}
    />
    <${Checkbox}
      label="Retry when empty"
      hint="Tries the next entry when 3 s or more of audio returns no words."
      checked=${fields.retry_empty === true}
      onChange=${(on: boolean) => set({ retry_empty: on || undefined })}
      disabled=${readOnly}
    />
    <${VoicesInput}
      value=${fields.voices}
      onChange=${(voices: EntryFields['voices']) => set({ voices })}
      error=${wrong('voices')}
      disabled=${readOnly}
    />
    <${JsonInput}
      label="Options"
      hint="Provider-specific settings, as a JSON object."
      placeholder='{"region": "eu"}'
      value=${fields.options}
      onChange=${(options: EntryFields['options']) => set({ options })}
      onUnread=${unread('options')}
      error=${wrong('options')}
      disabled=${readOnly}
    />
    <${Facts} ...${props} set=${set} wrong=${wrong} />
  </div>`
}

interface PartProps extends EntryCardProps {
  readonly set: (change: EntryChange, read?: string) => void
  readonly wrong: (field: string) => string | null
}

/** Purposes and plans: those of the workspace, and those that the entry names all the same. */
function Labels({ entry, surroundings, readOnly, set, wrong }: PartProps) {
  const { purposes = [], plans = [] } = entry.fields
  const { workspace } = surroundings
  const purposeNames = [...new Set([...workspace.purposes.map(({ purpose }) => purpose), ...purposes])]
  const planNames = [...new Set([...workspace.plans, ...plans])]
  const optionsOf = (names: readonly string[]) =>
    names.map((value) => ({ value, label: value, disabled: readOnly }))
  const orNone = (chosen: readonly string[]) => (chosen.length === 0 ? undefined : [...chosen])
  return html`
    ${
      purposeNames.length === 0
        ? html`<p class="small quiet">No purposes yet. Create them under Apps.</p>`
        : html`<${Checkboxes}
            legend="Purposes"
            hint="Requests with one of these purposes try this entry first."
            options=${optionsOf(purposeNames)}
            chosen=${purposes}
            onChange=${(chosen: readonly string[]) => set({ purposes: orNone(chosen) })}
            error=${wrong('purposes')}
            inline
          />`
    }
    ${
      planNames.length === 0
        ? null
        : html`<${Checkboxes}
            legend="Plans"
            hint="Limits the entry to workspaces on these plans. None selected: all."
            options=${optionsOf(planNames)}
            chosen=${plans}
            onChange=${(chosen: readonly string[]) => set({ plans: orNone(chosen) })}
            error=${wrong('plans')}
            inline
          />`
    }
  `
}

function Facts(props: PartProps) {
  const { entry, faults, index, readOnly, set, edit } = props
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
    faultsOfEntry(faults, index, name).map((line) => `${name}: ${line}`),
  )
  const needed = faultsOfEntry(faults, index, 'model').length > 0
  return html`<details class="more" open=${needed || Object.keys(facts).length > 0}>
    <summary>Model capabilities and pricing</summary>
    <div class="stack">
      <p class="small quiet">
        Overrides the built-in table and the provider’s settings. Required for models missing from the table.
      </p>
      ${wrongs.map((line) => html`<p class="field-error" role="alert" key=${line}>${line}</p>`)}
      <${FactsFields}
        facts=${facts}
        onChange=${set}
        onUnread=${(field: string, why: string) => edit({ do: 'unread', key: entry.key, field, why })}
        disabled=${readOnly}
      />
    </div>
  </details>`
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
  return html`<${TextInput}
    label="Weight"
    value=${text}
    onInput=${type}
    inputMode="decimal"
    placeholder="1"
    hint=${hint}
    error=${fault ?? error}
    disabled=${disabled}
  />`
}
