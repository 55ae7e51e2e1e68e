import type { ComponentChildren } from 'preact'
import { useId } from 'preact/hooks'
import { h } from '../h.ts'

export interface CheckboxProps {
  readonly label: ComponentChildren
  readonly checked: boolean
  readonly onChange: (checked: boolean) => void
  readonly hint?: ComponentChildren
  readonly disabled?: boolean
}

export function Checkbox(props: CheckboxProps) {
  return h(Choice, props)
}

/** For settings that take effect at once; a checkbox is for those saved later. */
export function Switch(props: CheckboxProps) {
  return h(Choice, { ...props, role: 'switch' })
}

function Choice(props: CheckboxProps & { readonly role?: 'switch' }) {
  const { label, checked, onChange, hint, disabled, role } = props
  const id = useId()
  return h(
    'div',
    { class: 'choice' },
    h('input', {
      id,
      type: 'checkbox',
      role,
      class: role === 'switch' ? 'switch' : 'choice-box',
      checked,
      disabled,
      'aria-describedby': hint ? `${id}-hint` : undefined,
      onChange: (event: Event) => {
        const box = event.currentTarget as HTMLInputElement
        onChange(box.checked)
        // The box shows the owner's value, not the click.
        box.checked = checked
      },
    }),
    h(
      'label',
      { for: id },
      h('span', { class: 'choice-label' }, label),
      hint ? h('span', { class: 'field-hint', id: `${id}-hint` }, hint) : null,
    ),
  )
}

export interface ChoiceOption<Value extends string> {
  readonly value: Value
  readonly label: string
  readonly hint?: string
  readonly disabled?: boolean
}

interface ChoicesLook {
  readonly legend: string
  readonly hideLegend?: boolean
  readonly hint?: string
  readonly error?: string | null
  /** Side by side rather than below one another. */
  readonly inline?: boolean
}

/** Any of several. */
export function Checkboxes<Value extends string>(
  props: ChoicesLook & {
    readonly options: readonly ChoiceOption<Value>[]
    readonly chosen: readonly Value[]
    readonly onChange: (chosen: readonly Value[]) => void
  },
) {
  const { options, chosen, onChange } = props
  const toggle = (value: Value, on: boolean) =>
    onChange(options.map((one) => one.value).filter((one) => (one === value ? on : chosen.includes(one))))
  return h(
    Choices,
    props,
    options.map((one) =>
      h(Checkbox, {
        key: one.value,
        label: one.label,
        hint: one.hint,
        disabled: one.disabled,
        checked: chosen.includes(one.value),
        onChange: (on: boolean) => toggle(one.value, on),
      }),
    ),
  )
}

function Choices(props: ChoicesLook & { readonly children: ComponentChildren }) {
  const { legend, hideLegend = false, hint, error, inline = false, children } = props
  return h(
    'fieldset',
    { class: 'choices' },
    h('legend', { class: hideLegend ? 'hidden' : 'field-label' }, legend),
    h('div', { class: inline ? 'choices-inline' : 'choices-stacked' }, children),
    hint ? h('p', { class: 'field-hint' }, hint) : null,
    error ? h('p', { class: 'field-error', role: 'alert' }, error) : null,
  )
}
