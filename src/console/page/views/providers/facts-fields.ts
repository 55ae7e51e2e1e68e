import { useRef, useState } from 'preact/hooks'
import type { Capability, Feature, Hint } from '../../../../contracts/calls.ts'
import { Checkbox, Checkboxes } from '../../components/choice.ts'
import { TextInput } from '../../components/field.ts'
import { readUsd } from '../../fields.ts'
import { h } from '../../h.ts'
import { CAPABILITY_NAMES, FEATURE_WORDS, HINT_WORDS, members } from '../routes/words.ts'
import type { DeclaredFacts, FactsChange, PricePart } from './facts.ts'
import { changeOfOthers, jsonText, otherFacts, PRICE_PARTS, readJsonObject, withPricePart } from './facts.ts'

interface FactsFieldsProps {
  readonly facts: DeclaredFacts
  /** @param read what can be read again by it */
  readonly onChange: (change: FactsChange, read?: string) => void
  /** Reports that the text typed into `field` cannot be read and must not be saved. */
  readonly onUnread: (field: string, why: string) => void
  readonly disabled?: boolean
}

/** Declared capabilities, features and prices of models, all optional. */
export function FactsFields(props: FactsFieldsProps) {
  const { facts, onChange, onUnread, disabled = false } = props
  const orNone = <Name extends string>(chosen: readonly Name[]) =>
    chosen.length === 0 ? undefined : [...chosen]
  const optionsOf = <Name extends string>(words: Readonly<Record<Name, string>>) =>
    members(words).map((value) => ({ value, label: words[value], disabled }))
  return h(
    'div',
    { class: 'stack' },
    h(Checkboxes<Capability>, {
      legend: 'Capabilities',
      options: optionsOf(CAPABILITY_NAMES),
      chosen: facts.capabilities ?? [],
      onChange: (chosen: readonly Capability[]) => onChange({ capabilities: orNone(chosen) }),
      inline: true,
    }),
    h(Checkboxes<Feature>, {
      legend: 'Guaranteed transcription features',
      hint: 'Requests that need other features go to another entry.',
      // No model has it for files: it follows from facts of live audio.
      options: optionsOf(FEATURE_WORDS).filter(({ value }) => value !== 'realtime'),
      chosen: facts.features ?? [],
      onChange: (chosen: readonly Feature[]) => onChange({ features: orNone(chosen) }),
      inline: true,
    }),
    h(Checkboxes<Hint>, {
      legend: 'Supported hints',
      hint: 'Unsupported hints are dropped, with a warning.',
      options: optionsOf(HINT_WORDS),
      chosen: facts.hints ?? [],
      onChange: (chosen: readonly Hint[]) => onChange({ hints: orNone(chosen) }),
      inline: true,
    }),
    h(Checkbox, {
      label: 'Translates audio to English',
      checked: facts.translates === true,
      onChange: (on: boolean) => onChange({ translates: on || undefined }),
      disabled,
    }),
    h(Prices, { ...props, disabled }),
    h(JsonInput, {
      label: 'Other facts (JSON)',
      hint: 'limits, languages, conflicts, operations, translation_features, live, as in the configuration file.',
      placeholder: '{"limits": {"max_audio_seconds": 7200}}',
      value: otherFacts(facts),
      check: unknownFacts,
      onChange: (others: JsonObject | undefined) => onChange(changeOfOthers(others).change, 'more'),
      onUnread: (why: string) => onUnread('more', why),
      disabled,
    }),
  )
}

function unknownFacts(others: JsonObject | undefined): string | null {
  const { unknown } = changeOfOthers(others)
  return unknown.length === 0 ? null : `Unknown, or set by a field above: ${unknown.join(', ')}.`
}

function Prices(props: FactsFieldsProps) {
  return h(
    'fieldset',
    { class: 'choices' },
    h('legend', { class: 'field-label' }, 'Price (USD)'),
    h(
      'div',
      { class: 'columns' },
      members(PRICE_PARTS).map((part) => h(PriceInput, { ...props, key: part, part })),
    ),
  )
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
  return h(TextInput, {
    label: PRICE_PARTS[part],
    value: text,
    onInput: type,
    inputMode: 'decimal',
    suffix: 'USD',
    error: isWrong ? 'Enter an amount such as 0.36, with at most 6 decimals.' : null,
    disabled,
  })
}

type JsonObject = Readonly<Record<string, unknown>>

/**
 * An object as JSON text. What cannot be read stays in the field, with the reason beside it, and is told by `onUnread`;
 * the value is then still the last one that could be read.
 */
export function JsonInput(props: {
  readonly label: string
  readonly value: JsonObject | undefined
  /** Why an object cannot be taken, which then stays in the field, too; null: it can. */
  readonly check?: (value: JsonObject | undefined) => string | null
  readonly onChange: (value: JsonObject | undefined) => void
  readonly onUnread: (why: string) => void
  readonly hint?: string
  readonly error?: string | null
  readonly disabled?: boolean
  readonly placeholder?: string
}) {
  const { label, check = () => null, onChange, onUnread, hint, error, disabled, placeholder } = props
  const [text, setText] = useState(() => jsonText(props.value))
  const [fault, setFault] = useState<string | null>(null)
  const known = useRef(jsonText(props.value))
  const given = jsonText(props.value)
  // The value was set elsewhere: the text typed here is dropped.
  if (given !== known.current) {
    known.current = given
    setText(given)
    setFault(null)
  }
  const type = (typed: string) => {
    const read = readJsonObject(typed)
    const value = read.value ?? undefined
    const issue = read.fault ?? check(value)
    setText(typed)
    setFault(issue)
    if (issue !== null) return onUnread(issue)
    known.current = jsonText(value)
    onChange(value)
  }
  return h(TextInput, {
    label,
    value: text,
    onInput: type,
    rows: Math.min(16, Math.max(3, text.split('\n').length)),
    mono: true,
    optional: true,
    hint,
    error: fault ?? error,
    disabled,
    placeholder,
  })
}
