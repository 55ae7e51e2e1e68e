import type { ComponentChildren } from 'preact'
import { html } from '../html.ts'
import { Icon, type IconName } from './icon.ts'

export interface ButtonProps {
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
  return html`<button
    type=${type}
    class=${classes.filter(Boolean).join(' ')}
    onClick=${busy ? undefined : props.onClick}
    disabled=${props.disabled ?? false}
    aria-disabled=${busy ? 'true' : undefined}
    aria-busy=${busy ? 'true' : undefined}
    aria-label=${label}
    title=${label}
    form=${props.form}
    aria-expanded=${props.expanded}
    aria-controls=${props.controls}
    aria-pressed=${props.pressed}
  >
    ${busy ? html`<span class="spin" aria-hidden="true"></span>` : icon ? html`<${Icon} name=${icon} />` : null}
    ${bare ? null : html`<span class="button-text">${children}</span>`}
  </button>`
}

/** A link that looks like a button, for what leads to another place. */
export function LinkButton(props: {
  readonly href: string
  readonly kind?: 'plain' | 'primary' | 'quiet'
  readonly icon?: IconName
  readonly small?: boolean
  readonly children: ComponentChildren
}) {
  const { href, kind = 'plain', icon, small = false, children } = props
  return html`<a class=${`button button-${kind}${small ? ' button-small' : ''}`} href=${href}>
    ${icon ? html`<${Icon} name=${icon} />` : null}<span class="button-text">${children}</span>
  </a>`
}
