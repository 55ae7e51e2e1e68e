import type { TargetedInputEvent } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { h } from '../h.ts'
import { type ControlProps, Field } from './field.ts'
import { type Dates, judgeDates } from './range.ts'

/** Two fields for a time: what is typed stays there, and is applied once it is two dates in order. */
export function DateFields(props: {
  readonly dates: Dates
  readonly type: 'date' | 'datetime-local'
  /** Either may be left out. */
  readonly mayBeOpen?: boolean
  /** Why two dates in order will not do. */
  readonly issueOf?: (dates: Dates) => string | null
  /** Told what has changed alone: a field may show less than the whole moment. */
  readonly onChange: (changed: Partial<Dates>) => void
}) {
  const { dates, type, mayBeOpen = false, issueOf, onChange } = props
  const [typed, setTyped] = useState(dates)
  useEffect(() => setTyped(dates), [dates.from, dates.to])
  const verdict = judgeDates(typed, mayBeOpen)
  const issue = verdict === 'reversed' ? 'From is after To.' : verdict === 'apply' ? issueOf?.(typed) : null
  const enter = (name: keyof Dates, text: string) => setTyped((old) => ({ ...old, [name]: text }))
  const apply = (name: keyof Dates, text: string) => {
    const next = { ...typed, [name]: text }
    if (judgeDates(next, mayBeOpen) !== 'apply' || issueOf?.(next)) return
    const changed = (['from', 'to'] as const).filter((one) => next[one] !== dates[one])
    if (changed.length > 0) onChange(Object.fromEntries(changed.map((one) => [one, next[one]])))
  }
  return (['from', 'to'] as const).map((name) =>
    h(DateField, {
      key: name,
      label: name === 'from' ? 'From' : 'To',
      type,
      value: typed[name],
      error: name === 'to' ? (issue ?? null) : null,
      onInput: (text: string) => enter(name, text),
      onChange: (text: string) => apply(name, text),
      // An unfinished text would hide which date is shown.
      onBlur: () => {
        if (typed[name] === '' && !mayBeOpen) enter(name, dates[name])
      },
    }),
  )
}

type DateEvent = TargetedInputEvent<HTMLInputElement>

function DateField(props: {
  readonly label: string
  readonly type: 'date' | 'datetime-local'
  readonly value: string
  readonly error: string | null
  readonly onInput: (text: string) => void
  readonly onChange: (text: string) => void
  readonly onBlur: () => void
}) {
  const { label, type, value, error, onInput, onChange, onBlur } = props
  return h(Field, {
    label,
    error,
    control: (to: ControlProps) =>
      h('input', {
        class: 'input',
        type,
        value,
        autocomplete: 'off',
        onInput: ({ currentTarget }: DateEvent) => onInput(currentTarget.value),
        onChange: (event: Event) => onChange((event.currentTarget as HTMLInputElement).value),
        onBlur,
        ...to,
      }),
  })
}
