import type { ComponentChildren, TargetedInputEvent } from 'preact'
import { useId } from 'preact/hooks'
import { h } from '../h.ts'

interface Labelled {
  readonly label: string
  /** Keeps the label for screen readers only, e.g. in a bar of filters. */
  readonly hideLabel?: boolean
  readonly hint?: ComponentChildren
  /** Why the value will not do. */
  readonly error?: string | null
  /** Says so beside the label. */
  readonly optional?: boolean
  readonly width?: 'short' | 'medium' | 'full'
  readonly disabled?: boolean
}

/** Attributes that tie a control to its field. */
export interface ControlProps {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': 'true' | undefined
}

type TypedInputEvent = TargetedInputEvent<HTMLInputElement | HTMLTextAreaElement>

/** A label, a control that `control` draws, a hint and an error. */
export function Field(props: Labelled & { readonly control: (to: ControlProps) => ComponentChildren }) {
  const { label, hideLabel = false, hint, error, optional = false, width = 'full', control } = props
  const id = useId()
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return h(
    'div',
    { class: `field field-${width}` },
    h(
      'label',
      { class: hideLabel ? 'hidden' : 'field-label', for: id },
      label,
      optional ? h('span', { class: 'field-optional' }, ' optional') : null,
    ),
    control({
      id,
      'aria-describedby': described || undefined,
      'aria-invalid': error ? 'true' : undefined,
    }),
    hint ? h('p', { class: 'field-hint', id: `${id}-hint` }, hint) : null,
    error ? h('p', { class: 'field-error', id: `${id}-error`, role: 'alert' }, error) : null,
  )
}

export interface TextInputProps extends Labelled {
  readonly value: string
  readonly onInput: (value: string) => void
  readonly type?: 'text' | 'password' | 'search' | 'url' | 'email' | 'number' | 'date' | 'datetime-local'
  readonly placeholder?: string
  readonly required?: boolean
  readonly autocomplete?: string
  readonly maxLength?: number
  readonly mono?: boolean
  /** More than one: an area of so many lines. */
  readonly rows?: number
  /** Beside the control, e.g. "USD". */
  readonly suffix?: string
  readonly autofocus?: boolean
  /** Values to choose from; others may be typed. */
  readonly suggestions?: readonly string[]
  readonly inputMode?: 'decimal' | 'numeric' | 'url' | 'text'
  readonly name?: string
}

/** Props of a field for a number that may be left out. */
export const OPTIONAL_NUMBER = { optional: true, inputMode: 'numeric' } as const

export function TextInput(props: TextInputProps) {
  const { value, onInput, type = 'text', rows = 1, suffix, suggestions, mono = false } = props
  const list = useId()
  const common = {
    class: mono ? 'input mono' : 'input',
    value,
    onInput: ({ currentTarget: control }: TypedInputEvent) => onInput(control.value),
    placeholder: props.placeholder,
    required: props.required,
    disabled: props.disabled,
    autocomplete: props.autocomplete ?? 'off',
    autocapitalize: 'off' as const,
    spellcheck: false,
    maxLength: props.maxLength,
    inputMode: props.inputMode,
    name: props.name,
    'data-autofocus': props.autofocus ? '' : undefined,
  }
  const control = (to: ControlProps) => {
    if (rows > 1) return h('textarea', { ...common, ...to, rows })
    const input = h('input', { ...common, ...to, type, list: suggestions ? list : undefined })
    const options = suggestions
      ? h(
          'datalist',
          { id: list },
          suggestions.map((one) => h('option', { value: one })),
        )
      : null
    return suffix
      ? h('span', { class: 'input-suffixed' }, input, h('span', { class: 'input-suffix' }, suffix), options)
      : [input, options]
  }
  return h(Field, { ...labelling(props), control })
}

export type Option<Value extends string> =
  | Value
  | { readonly value: Value; readonly label: string; readonly disabled?: boolean }

export interface SelectProps<Value extends string> extends Labelled {
  readonly value: Value
  readonly onChange: (value: Value) => void
  readonly options: readonly Option<Value>[]
}

export function Select<Value extends string>(props: SelectProps<Value>) {
  const { value, onChange, disabled } = props
  const options = props.options.map((one) => (typeof one === 'string' ? { value: one, label: one } : one))
  const choose = (text: string) => {
    const chosen = options.find((one) => one.value === text)
    if (chosen) onChange(chosen.value)
  }
  const control = (to: ControlProps) =>
    h(
      'span',
      { class: 'select' },
      h(
        'select',
        {
          class: 'input',
          ...to,
          value,
          disabled,
          onChange: (event) => choose(event.currentTarget.value),
        },
        options.map((option) =>
          h(
            'option',
            {
              key: option.value,
              value: option.value,
              disabled: 'disabled' in option && option.disabled,
              selected: option.value === value,
            },
            option.label,
          ),
        ),
      ),
    )
  return h(Field, { ...labelling(props), control })
}

function labelling({ label, hideLabel, hint, error, optional, width }: Labelled) {
  return { label, hideLabel, hint, error, optional, width }
}
