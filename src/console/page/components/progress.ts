import { useEffect, useRef } from 'preact/hooks'
import { h } from '../h.ts'

/** Work whose end is not known. */
export function Spinner({ label }: { readonly label: string }) {
  return h(
    'span',
    { class: 'spinner', role: 'status' },
    h('span', { class: 'spin', 'aria-hidden': 'true' }),
    label,
  )
}

/** How far something is, e.g. an upload; `value` null: not known. */
export function Progress(props: {
  readonly label: string
  readonly value: number | null
  readonly max: number
  /** Beside the bar: "12.4 of 20 MiB". */
  readonly text?: string
}) {
  const { label, value, max, text } = props
  return h(
    'div',
    { class: 'progress' },
    h(
      'div',
      { class: 'progress-words' },
      h('span', null, label),
      h('span', { class: 'progress-text' }, text ?? ''),
    ),
    h('progress', { 'aria-label': label, max: max || 1, value: value ?? undefined }),
  )
}

/** How much of something is used, e.g. of a budget; it turns amber from 80 % and red from 100 %. */
export function Bar(props: {
  readonly label: string
  readonly value: number
  readonly max: number
  /** In words: "$12.40 of $50.00". */
  readonly text: string
  readonly hideLabel?: boolean
}) {
  const { label, value, max, text, hideLabel = false } = props
  const share = max > 0 ? value / max : value > 0 ? 1 : 0
  const fill = useRef<HTMLSpanElement>(null)
  useEffect(() => {
    fill.current?.style.setProperty('inline-size', `${Math.min(1, Math.max(0, share)) * 100}%`)
  }, [share])
  const tone = share >= 1 ? 'bad' : share >= 0.8 ? 'warn' : 'plain'
  return h(
    'div',
    { class: 'bar' },
    h(
      'div',
      { class: 'progress-words' },
      h('span', { class: hideLabel ? 'hidden' : '' }, label),
      h('span', { class: 'progress-text' }, text),
    ),
    h(
      'div',
      {
        class: 'bar-track',
        role: 'meter',
        'aria-label': label,
        'aria-valuemin': 0,
        'aria-valuemax': max,
        'aria-valuenow': Math.min(value, max),
        'aria-valuetext': text,
      },
      h('span', { class: `bar-fill bar-${tone}`, ref: fill }),
    ),
  )
}
