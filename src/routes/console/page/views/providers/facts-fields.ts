import { useState } from 'preact/hooks'
import type { Capability, Feature, Hint } from '../../../../../schema/calls.ts'
import { html } from '../../html.ts'
import { Checkbox, Checkboxes } from '../../parts/choice.ts'
import { TextInput } from '../../parts/field.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, HINT_WORDS, members } from '../routes/words.ts'
import {
  changeOfOthers,
  type DeclaredFacts,
  type FactsChange,
  otherFacts,
  PRICE_PARTS,
  type PricePart,
  readUsd,
  withPricePart,
} from './facts-form.ts'
import { JsonInput } from './json-input.ts'

interface FactsFieldsProps {
  readonly facts: DeclaredFacts
  /** @param read what can be read again by it */
  readonly onChange: (change: FactsChange, read?: string) => void
  /** What was typed into `field` cannot be read: it must not be saved so. */
  readonly onUnread: (field: string, why: string) => void
  readonly disabled?: boolean
}

/** What is declared of models: what they can do, keep and cost. Nothing has to be. */
export function FactsFields(props: FactsFieldsProps) {
  const { facts, onChange, onUnread, disabled = false } = props
  const [unknown, setUnknown] = useState<readonly string[]>([])
  const orNone = <Name extends string>(chosen: readonly Name[]) =>
    chosen.length === 0 ? undefined : [...chosen]
  const optionsOf = (words: Readonly<Record<string, string>>) =>
    members(words).map((value) => ({ value, label: words[value] ?? value, disabled }))
  const setOthers = (others: Readonly<Record<string, unknown>> | undefined) => {
    const { change, unknown } = changeOfOthers(others)
    setUnknown(unknown)
    if (unknown.length > 0) onUnread('more', 'there is no such fact')
    else onChange(change, 'more')
  }
  return html`<div class="stack">
    <${Checkboxes}
      legend="Capabilities"
      options=${optionsOf(CAPABILITY_NAMES)}
      chosen=${facts.capabilities ?? []}
      onChange=${(chosen: readonly Capability[]) => onChange({ capabilities: orNone(chosen) })}
      inline
    />
    <${Checkboxes}
      legend="Guaranteed transcription features"
      hint="Requests that need other features go to another entry."
      options=${optionsOf(FEATURE_WORDS)}
      chosen=${facts.features ?? []}
      onChange=${(chosen: readonly Feature[]) => onChange({ features: orNone(chosen) })}
      inline
    />
    <${Checkboxes}
      legend="Supported hints"
      hint="Unsupported hints are dropped, with a warning."
      options=${optionsOf(HINT_WORDS)}
      chosen=${facts.hints ?? []}
      onChange=${(chosen: readonly Hint[]) => onChange({ hints: orNone(chosen) })}
      inline
    />
    <${Checkbox}
      label="Translates audio to English"
      checked=${facts.translates === true}
      onChange=${(on: boolean) => onChange({ translates: on || undefined })}
      disabled=${disabled}
    />
    <${Prices} ...${props} disabled=${disabled} />
    <${JsonInput}
      label="Other facts (JSON)"
      hint="limits, languages, conflicts, operations, translation_features, as in the configuration file."
      placeholder='{"limits": {"max_audio_seconds": 7200}}'
      value=${otherFacts(facts)}
      onChange=${setOthers}
      onUnread=${(why: string) => onUnread('more', why)}
      error=${unknown.length === 0 ? null : `Unknown, or set by a field above: ${unknown.join(', ')}.`}
      disabled=${disabled}
    />
  </div>`
}

function Prices(props: FactsFieldsProps) {
  return html`<fieldset class="choices">
    <legend class="field-label">Price (USD)</legend>
    <div class="columns">
      ${members(PRICE_PARTS).map((part) => html`<${PriceInput} ...${props} key=${part} part=${part} />`)}
    </div>
  </fieldset>`
}

function PriceInput(props: FactsFieldsProps & { readonly part: PricePart }) {
  const { part, facts, onChange, onUnread, disabled } = props
  const amount = facts.price?.[part]
  const [text, setText] = useState(amount === undefined ? '' : String(amount))
  const [isWrong, setWrong] = useState(false)
  const type = (typed: string) => {
    setText(typed)
    const read = readUsd(typed)
    setWrong(read === null)
    if (read === null) onUnread(part, 'is no amount')
    else onChange({ price: withPricePart(facts.price, part, read) }, part)
  }
  return html`<${TextInput}
    label=${PRICE_PARTS[part]}
    value=${text}
    onInput=${type}
    inputMode="decimal"
    suffix="USD"
    error=${isWrong ? 'Enter an amount such as 0.36, with at most 6 decimals.' : null}
    disabled=${disabled}
  />`
}
