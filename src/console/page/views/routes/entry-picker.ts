import { useState } from 'preact/hooks'
import type { Capability } from '../../../../contracts/calls.ts'
import type { EntryFields } from '../../../../gateway/catalog/file.ts'
import type { ModelsAnswer } from '../../../server/answers/providers.ts'
import { Button } from '../../components/button.ts'
import { Checkboxes } from '../../components/choice.ts'
import { Select, TextInput } from '../../components/field.ts'
import { plural } from '../../format.ts'
import { h } from '../../h.ts'
import {
  CAPABILITY_NAMES,
  type Choice,
  choicesOf,
  FEATURE_WORDS,
  matching,
  members,
  priceInWords,
  wordFor,
} from './words.ts'

/** The part of an entry that is picked. */
export type Picked = Pick<EntryFields, 'provider' | 'model' | 'capabilities'>

/** Picks a model out of all that the providers have, or names one that no list has. */
export function EntryPicker(props: {
  readonly models: ModelsAnswer
  readonly picked: Picked | null
  readonly onPick: (picked: Picked | null) => void
}) {
  const { models, picked, onPick } = props
  const [unlisted, setUnlisted] = useState(false)
  const open = models.providers.filter((provider) => provider.open)
  const hasList = models.providers.some((provider) => provider.models.length > 0)
  const other = unlisted || !hasList
  const turn = () => {
    setUnlisted(!unlisted)
    onPick(null)
  }
  return h(
    'div',
    { class: 'stack' },
    other ? h(Unlisted, { providers: open, onPick }) : h(Listed, { models, picked, onPick }),
    open.length > 0 && hasList
      ? h(
          'div',
          null,
          h(
            Button,
            { kind: 'quiet', small: true, icon: other ? 'back' : 'plus', onClick: turn },
            other ? 'Choose from the list' : 'Use another model…',
          ),
        )
      : null,
  )
}

function Listed(props: {
  readonly models: ModelsAnswer
  readonly picked: Picked | null
  readonly onPick: (picked: Picked) => void
}) {
  const { models, picked, onPick } = props
  const [text, setText] = useState('')
  const [capability, setCapability] = useState<Capability | ''>('')
  const all = choicesOf(models)
  const found = matching(all, text, capability)
  const present = members(CAPABILITY_NAMES).filter((name) =>
    all.some(({ model }) => model.capabilities.includes(name)),
  )
  const abilities = present.map((value) => ({ value, label: CAPABILITY_NAMES[value] }))
  const chosen = picked && `${picked.provider}/${picked.model}`
  return h(
    'div',
    { class: 'stack stack-tight' },
    h(
      'div',
      { class: 'filters routes-pick-filters' },
      h(TextInput, {
        label: 'Search models',
        type: 'search',
        value: text,
        onInput: setText,
        placeholder: 'whisper',
        autofocus: true,
      }),
      h(Select<Capability | ''>, {
        label: 'Capability',
        value: capability,
        onChange: setCapability,
        options: [{ value: '', label: 'Any' }, ...abilities],
      }),
    ),
    h(
      'p',
      { class: 'small quiet', role: 'status' },
      found.length === all.length
        ? plural(all.length, 'model')
        : `${found.length} of ${plural(all.length, 'model')}`,
    ),
    h(
      'div',
      { class: 'routes-pick', role: 'radiogroup', 'aria-label': 'Model' },
      found.map((choice) =>
        h(Row, {
          key: choice.id,
          choice,
          checked: choice.id === chosen,
          onPick: () => onPick({ provider: choice.provider.name, model: choice.model.model }),
        }),
      ),
      found.length === 0 ? h('p', { class: 'routes-pick-none quiet' }, 'No matching models.') : null,
    ),
  )
}

function Row({ choice, checked, onPick }: { choice: Choice; checked: boolean; onPick: () => void }) {
  const { provider, model } = choice
  const does = model.capabilities.map((name) => wordFor(CAPABILITY_NAMES, name))
  const keeps = model.features.map((name) => wordFor(FEATURE_WORDS, name).toLowerCase())
  return h(
    'label',
    { class: `routes-pick-row${checked ? ' routes-pick-chosen' : ''}` },
    h('input', {
      type: 'radio',
      class: 'choice-box choice-radio',
      name: 'routes-pick',
      checked,
      onChange: onPick,
    }),
    h(
      'span',
      { class: 'routes-pick-text' },
      h('span', { class: 'mono' }, provider.name, '/', model.model),
      h(
        'span',
        { class: 'small quiet' },
        [...does, ...(model.translates ? ['translates'] : [])].join(', '),
        keeps.length > 0 ? [' · keeps ', keeps.join(', ')] : null,
        model.note === undefined ? null : [' · ', model.note],
      ),
    ),
    h('span', { class: 'small routes-pick-price' }, priceInWords(model.price)),
  )
}

function Unlisted(props: {
  readonly providers: ModelsAnswer['providers']
  readonly onPick: (picked: Picked | null) => void
}) {
  const { providers, onPick } = props
  const [provider, setProvider] = useState(providers[0]?.name ?? '')
  const [model, setModel] = useState('')
  const [capabilities, setCapabilities] = useState<readonly Capability[]>([])
  const tell = (next: { provider: string; model: string; capabilities: readonly Capability[] }) => {
    const isWhole = next.provider !== '' && next.model.trim() !== '' && next.capabilities.length > 0
    onPick(isWhole ? { ...next, model: next.model.trim(), capabilities: [...next.capabilities] } : null)
  }
  const now = { provider, model, capabilities }
  return h(
    'div',
    { class: 'stack' },
    h(Select, {
      label: 'Provider',
      value: provider,
      onChange: (value: string) => {
        setProvider(value)
        tell({ ...now, provider: value })
      },
      options: providers.map(({ name, kind }) => ({ value: name, label: `${name} (${kind})` })),
    }),
    h(TextInput, {
      label: 'Model',
      value: model,
      onInput: (value: string) => {
        setModel(value)
        tell({ ...now, model: value })
      },
      hint: 'The provider’s name for the model.',
      mono: true,
      autofocus: true,
      maxLength: 256,
    }),
    h(Checkboxes<Capability>, {
      legend: 'Capabilities',
      hint: 'Unknown model: select what it supports.',
      options: members(CAPABILITY_NAMES).map((value) => ({ value, label: CAPABILITY_NAMES[value] })),
      chosen: capabilities,
      onChange: (value: readonly Capability[]) => {
        setCapabilities(value)
        tell({ ...now, capabilities: value })
      },
    }),
  )
}
