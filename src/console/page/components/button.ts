import type { ComponentChildren } from 'preact'
import { h } from '../h.ts'

interface ButtonProps {
  /** `primary`: the one thing to do here. `quiet`: without a frame. `danger`: destroys something. */
  readonly kind?: 'plain' | 'primary' | 'quiet' | 'danger'
  readonly onClick?: (event: MouseEvent) => void
  readonly type?: 'button' | 'submit'
  readonly icon?: IconName
  /** Its work is under way: it shows so and takes no clicks. */
  readonly busy?: boolean
  readonly disabled?: boolean
  readonly small?: boolean
  /** For screen readers and as a tooltip; needed when the button shows nothing but an icon. */
  readonly label?: string
  readonly form?: string
  readonly expanded?: boolean
  readonly controls?: string
  readonly pressed?: boolean
  readonly children?: ComponentChildren
}

export function Button(props: ButtonProps) {
  const { kind = 'plain', type = 'button', icon, busy = false, small = false, label, children } = props
  const bare = children === undefined || children === null
  const classes = ['button', `button-${kind}`, small ? 'button-small' : '', bare ? 'button-icon' : '']
  return h(
    'button',
    {
      type,
      class: classes.filter(Boolean).join(' '),
      onClick: busy ? undefined : props.onClick,
      disabled: props.disabled ?? false,
      'aria-disabled': busy ? 'true' : undefined,
      'aria-busy': busy ? 'true' : undefined,
      'aria-label': label,
      title: label,
      form: props.form,
      'aria-expanded': props.expanded,
      'aria-controls': props.controls,
      'aria-pressed': props.pressed,
    },
    busy ? h('span', { class: 'spin', 'aria-hidden': 'true' }) : icon ? h(Icon, { name: icon }) : null,
    bare ? null : h('span', { class: 'button-text' }, children),
  )
}

/** A link that looks like a button. */
export function LinkButton(props: {
  readonly href: string
  readonly kind?: 'plain' | 'primary' | 'quiet'
  readonly icon?: IconName
  readonly small?: boolean
  readonly children: ComponentChildren
}) {
  const { href, kind = 'plain', icon, small = false, children } = props
  return h(
    'a',
    { class: `button button-${kind}${small ? ' button-small' : ''}`, href },
    icon ? h(Icon, { name: icon }) : null,
    h('span', { class: 'button-text' }, children),
  )
}

/** Drawn for 16 × 16 px, strokes of 1.5. */
const ICONS = {
  alert: 'M8 2 1.8 13.2h12.4ZM8 6.5v3M8 11.4v.1',
  back: 'M9.5 3.5 5 8l4.5 4.5',
  check: 'M3 8.5 6.5 12 13 4.5',
  close: 'm4 4 8 8m0-8-8 8',
  copy: 'M5.5 5.5h8v8h-8zM3.5 10.5h-1v-8h8v1',
  down: 'm3.5 6 4.5 4.5L12.5 6',
  download: 'M8 2.5V10m-3-3 3 3 3-3m-8.5 6.5h11',
  drag: 'M6 3.5v.01M10 3.5v.01M6 8v.01M10 8v.01M6 12.5v.01M10 12.5v.01',
  external: 'M9 3h4v4m0-4L7.5 8.5M11 9.5V13H3V5h3.5',
  key: 'M9.5 6.5a3 3 0 1 0-2.2 2.9L9 11h1.5v1.5H12V14h2v-2L9.2 7.3M5.8 5.8v.1',
  lock: 'M4 7.5h8v6H4zm1.5 0V5.2a2.5 2.5 0 0 1 5 0v2.3',
  menu: 'M2.5 4.5h11m-11 3.5h11m-11 3.5h11',
  mic: 'M8 2a2 2 0 0 1 2 2v4a2 2 0 0 1-4 0V4a2 2 0 0 1 2-2ZM3.8 7.5a4.2 4.2 0 0 0 8.4 0M8 11.7V14',
  more: 'M3.5 8v.01M8 8v.01M12.5 8v.01',
  pause: 'M5.5 3.5v9m5-9v9',
  play: 'M5 3v10l8-5Z',
  plus: 'M8 3v10M3 8h10',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.5L13 6m0-3.5V6H9.5',
  search: 'M7 2.5a4.5 4.5 0 1 1 0 9 4.5 4.5 0 0 1 0-9Zm3.3 7.8 3.2 3.2',
  stop: 'M4 4h8v8H4z',
  trash: 'M2.5 4.5h11m-9.5 0 .6 9h6.8l.6-9M6 4.5v-2h4v2',
  up: 'm3.5 10 4.5-4.5L12.5 10',
  upload: 'M8 10V2.5m-3 3 3-3 3 3M2.5 13.5h11',
  user: 'M8 2.5a2.7 2.7 0 1 1 0 5.4 2.7 2.7 0 0 1 0-5.4ZM2.8 14a5.2 5.2 0 0 1 10.4 0',
} as const

type IconName = keyof typeof ICONS

/** A picture beside a word or in a labelled control; screen readers skip it. */
export function Icon({ name }: { readonly name: IconName }) {
  return h(
    'svg',
    { class: 'icon', viewBox: '0 0 16 16', 'aria-hidden': 'true', focusable: 'false' },
    h('path', { d: ICONS[name] }),
  )
}
