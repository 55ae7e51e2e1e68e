import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { html } from '../html.ts'

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

/** What a control needs to belong to its field: `id`, `aria-describedby`, `aria-invalid`. */
export interface ControlProps {
  readonly id: string
  readonly 'aria-describedby': string | undefined
  readonly 'aria-invalid': 'true' | undefined
}

/** A label, a control that `control` draws, a hint and what is wrong. */
export function Field(props: Labelled & { readonly control: (to: ControlProps) => ComponentChildren }) {
  const { label, hideLabel = false, hint, error, optional = false, width = 'full', control } = props
  const id = useId()
  const described = [hint ? `${id}-hint` : '', error ? `${id}-error` : ''].filter(Boolean).join(' ')
  return html`<div class=${`field field-${width}`}>
    <label class=${hideLabel ? 'hidden' : 'field-label'} for=${id}>
      ${label}${optional ? html`<span class="field-optional"> optional</span>` : null}
    </label>
    ${control({
      id,
      'aria-describedby': described || undefined,
      'aria-invalid': error ? 'true' : undefined,
    })}
    ${hint ? html`<p class="field-hint" id=${`${id}-hint`}>${hint}</p>` : null}
    ${error ? html`<p class="field-error" id=${`${id}-error`} role="alert">${error}</p>` : null}
  </div>`
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

export function TextInput(props: TextInputProps) {
  const { value, onInput, type = 'text', rows = 1, suffix, suggestions, mono = false } = props
  const list = useId()
  const common = {
    class: mono ? 'input mono' : 'input',
    value,
    onInput: (event: InputEvent) => onInput((event.currentTarget as HTMLInputElement).value),
    placeholder: props.placeholder,
    required: props.required,
    disabled: props.disabled,
    autocomplete: props.autocomplete ?? 'off',
    autocapitalize: 'off',
    spellcheck: false,
    maxLength: props.maxLength,
    inputMode: props.inputMode,
    name: props.name,
    'data-autofocus': props.autofocus ? '' : undefined,
  }
  const control = (to: ControlProps) => {
    if (rows > 1) return html`<textarea ...${common} ...${to} rows=${rows}></textarea>`
    const input = html`<input ...${common} ...${to} type=${type} list=${suggestions ? list : undefined} />`
    const options = suggestions
      ? html`<datalist id=${list}>${suggestions.map((one) => html`<option value=${one} />`)}</datalist>`
      : null
    return suffix
      ? html`<span class="input-suffixed">${input}<span class="input-suffix">${suffix}</span>${options}</span>`
      : html`${input}${options}`
  }
  return html`<${Field} ...${labelling(props)} control=${control} />`
}

export type Option = string | { readonly value: string; readonly label: string; readonly disabled?: boolean }

export interface SelectProps extends Labelled {
  readonly value: string
  readonly onChange: (value: string) => void
  readonly options: readonly Option[]
}

export function Select(props: SelectProps) {
  const { value, onChange, options, disabled } = props
  const control = (to: ControlProps) => html`<span class="select">
    <select
      class="input"
      ...${to}
      value=${value}
      disabled=${disabled}
      onChange=${(event: Event) => onChange((event.currentTarget as HTMLSelectElement).value)}
    >
      ${options.map((one) => {
        const option = typeof one === 'string' ? { value: one, label: one } : one
        return html`<option
          key=${option.value}
          value=${option.value}
          disabled=${'disabled' in option && option.disabled}
          selected=${option.value === value}
        >${option.label}</option>`
      })}
    </select>
  </span>`
  return html`<${Field} ...${labelling(props)} control=${control} />`
}

function labelling({ label, hideLabel, hint, error, optional, width }: Labelled) {
  return { label, hideLabel, hint, error, optional, width }
}
