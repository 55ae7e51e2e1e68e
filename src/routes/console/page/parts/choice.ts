import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { html } from '../html.ts'

export interface CheckboxProps {
  readonly label: ComponentChildren
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
  readonly hint?: ComponentChildren
  readonly disabled?: boolean
}

export function Checkbox(props: CheckboxProps) {
  return html`<${Choice} ...${props} type="checkbox" />`
}

/** For what takes effect at once; a checkbox is for what is saved later. */
export function Switch(props: CheckboxProps) {
  return html`<${Choice} ...${props} type="checkbox" role="switch" />`
}

function Choice(
  props: Omit<CheckboxProps, 'onChange'> & {
    readonly onChange: (checked: boolean) => void
    readonly type: 'checkbox' | 'radio'
    readonly role?: 'switch'
    readonly name?: string
  },
) {
  const { label, checked, onChange, hint, disabled, type, role, name } = props
  const id = useId()
  return html`<div class="choice">
    <input
      id=${id}
      type=${type}
      role=${role}
      name=${name}
      class=${role === 'switch' ? 'switch' : `choice-box choice-${type}`}
      checked=${checked}
      disabled=${disabled}
      aria-describedby=${hint ? `${id}-hint` : undefined}
      onChange=${(event: Event) => {
        const box = event.currentTarget as HTMLInputElement
        onChange(box.checked)
        // It shows what the owner of the value says, not what was clicked.
        if (type === 'checkbox') box.checked = checked
      }}
    />
    <label for=${id}>
      <span class="choice-label">${label}</span>
      ${hint ? html`<span class="field-hint" id=${`${id}-hint`}>${hint}</span>` : null}
    </label>
  </div>`
}

export interface ChoiceOption {
  readonly value: string
  readonly label: string
  readonly hint?: string
  readonly disabled?: boolean
}

interface ChoicesProps {
  readonly legend: string
  readonly hideLegend?: boolean
  readonly options: readonly ChoiceOption[]
  readonly hint?: string
  readonly error?: string | null
  /** Side by side rather than below one another. */
  readonly inline?: boolean
}

/** Any of several. */
export function Checkboxes(
  props: ChoicesProps & {
    readonly chosen: readonly string[]
    readonly onChange: (chosen: readonly string[]) => void
  },
) {
  const { options, chosen, onChange } = props
  const toggle = (value: string, on: boolean) =>
    onChange(options.map((one) => one.value).filter((one) => (one === value ? on : chosen.includes(one))))
  return html`<${Choices} ...${props}>
    ${options.map(
      (one) => html`<${Checkbox}
        key=${one.value}
        label=${one.label}
        hint=${one.hint}
        disabled=${one.disabled}
        checked=${chosen.includes(one.value)}
        onChange=${(on: boolean) => toggle(one.value, on)}
      />`,
    )}
  <//>`
}

/** One of several. */
export function Radios(
  props: ChoicesProps & { readonly value: string; readonly onChange: (value: string) => void },
) {
  const { options, value, onChange } = props
  const name = useId()
  return html`<${Choices} ...${props}>
    ${options.map(
      (one) => html`<${Choice}
        key=${one.value}
        type="radio"
        name=${name}
        label=${one.label}
        hint=${one.hint}
        disabled=${one.disabled}
        checked=${one.value === value}
        onChange=${() => onChange(one.value)}
      />`,
    )}
  <//>`
}

function Choices(props: ChoicesProps & { readonly children: ComponentChildren }) {
  const { legend, hideLegend = false, hint, error, inline = false, children } = props
  return html`<fieldset class="choices">
    <legend class=${hideLegend ? 'hidden' : 'field-label'}>${legend}</legend>
    <div class=${inline ? 'choices-inline' : 'choices-stacked'}>${children}</div>
    ${hint ? html`<p class="field-hint">${hint}</p>` : null}
    ${error ? html`<p class="field-error" role="alert">${error}</p>` : null}
  </fieldset>`
}
