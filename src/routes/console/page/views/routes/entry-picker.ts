import { useState } from 'preact/hooks'
import type { EntryFields } from '../../../../../catalog/file.ts'
import type { Capability } from '../../../../../schema/calls.ts'
import type { ModelsAnswer } from '../../../api/answers.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { Button } from '../../parts/button.ts'
import { Checkboxes } from '../../parts/choice.ts'
import { Select, TextInput } from '../../parts/field.ts'
import { type Choice, choicesOf, matching } from './model-list.ts'
import { priceInWords } from './price-words.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, members, wordFor } from './words.ts'

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
  return html`<div class="stack">
    ${
      other
        ? html`<${Unlisted} providers=${open} onPick=${onPick} />`
        : html`<${Listed} models=${models} picked=${picked} onPick=${onPick} />`
    }
    ${
      open.length > 0 && hasList
        ? html`<div>
            <${Button} kind="quiet" small icon=${other ? 'back' : 'plus'} onClick=${turn}>
              ${other ? 'Choose from the list' : 'Use another model…'}
            <//>
          </div>`
        : null
    }
  </div>`
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
  return html`<div class="stack stack-tight">
    <div class="filters routes-pick-filters">
      <${TextInput}
        label="Search models"
        type="search"
        value=${text}
        onInput=${setText}
        placeholder="whisper"
        autofocus
      />
      <${Select}
        label="Capability"
        value=${capability}
        onChange=${setCapability}
        options=${[{ value: '', label: 'Any' }, ...abilities]}
      />
    </div>
    <p class="small quiet" role="status">
      ${found.length === all.length ? plural(all.length, 'model') : `${found.length} of ${plural(all.length, 'model')}`}
    </p>
    <div class="routes-pick" role="radiogroup" aria-label="Model">
      ${found.map(
        (choice) => html`<${Row}
          key=${choice.id}
          choice=${choice}
          checked=${choice.id === chosen}
          onPick=${() => onPick({ provider: choice.provider.name, model: choice.model.model })}
        />`,
      )}
      ${found.length === 0 ? html`<p class="routes-pick-none quiet">No matching models.</p>` : null}
    </div>
  </div>`
}

function Row({ choice, checked, onPick }: { choice: Choice; checked: boolean; onPick: () => void }) {
  const { provider, model } = choice
  const does = model.capabilities.map((name) => wordFor(CAPABILITY_NAMES, name))
  const keeps = model.features.map((name) => wordFor(FEATURE_WORDS, name).toLowerCase())
  return html`<label class=${`routes-pick-row${checked ? ' routes-pick-chosen' : ''}`}>
    <input type="radio" class="choice-box choice-radio" name="routes-pick" checked=${checked} onChange=${onPick} />
    <span class="routes-pick-text">
      <span class="mono">${provider.name}/${model.model}</span>
      <span class="small quiet">
        ${[...does, ...(model.translates ? ['translates'] : [])].join(', ')}
        ${keeps.length > 0 ? html` · keeps ${keeps.join(', ')}` : null}
        ${model.note === undefined ? null : html` · ${model.note}`}
      </span>
    </span>
    <span class="small routes-pick-price">${priceInWords(model.price)}</span>
  </label>`
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
  return html`<div class="stack">
    <${Select}
      label="Provider"
      value=${provider}
      onChange=${(value: string) => {
        setProvider(value)
        tell({ ...now, provider: value })
      }}
      options=${providers.map(({ name, kind }) => ({ value: name, label: `${name} (${kind})` }))}
    />
    <${TextInput}
      label="Model"
      value=${model}
      onInput=${(value: string) => {
        setModel(value)
        tell({ ...now, model: value })
      }}
      hint="The provider’s name for the model."
      mono
      autofocus
      maxLength=${256}
    />
    <${Checkboxes}
      legend="Capabilities"
      hint="Unknown model: select what it supports."
      options=${members(CAPABILITY_NAMES).map((value) => ({ value, label: CAPABILITY_NAMES[value] }))}
      chosen=${capabilities}
      onChange=${(value: readonly Capability[]) => {
        setCapabilities(value)
        tell({ ...now, capabilities: value })
      }}
    />
  </div>`
}
