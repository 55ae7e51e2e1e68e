import type { ComponentChildren } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import { h } from '../h.ts'
import { arrived } from '../router.ts'
import { Icon } from './button.ts'

/** The head of a view: names it, also in the tab of the browser. One per view, and it alone has the `h1`. */
export function PageHead(props: {
  readonly title: string
  /** The view above this one. */
  readonly parent?: { readonly href: string; readonly label: string }
  /** One sentence about its purpose. */
  readonly lead?: ComponentChildren
  /** Badges beside the title. */
  readonly badges?: ComponentChildren
  readonly actions?: ComponentChildren
}) {
  const { title, parent, lead, badges, actions } = props
  const heading = useRef<HTMLHeadingElement>(null)
  // Before the view is seen: later, the focus would be taken from whoever types into a field of it already.
  useLayoutEffect(() => {
    document.title = `${title} · Larkway`
    // Screen readers announce the view, and Tab continues from here.
    if (arrived()) heading.current?.focus({ preventScroll: true })
  }, [title])
  return h(
    'header',
    { class: 'page-head' },
    parent
      ? h('a', { class: 'page-parent', href: parent.href }, h(Icon, { name: 'back' }), parent.label)
      : null,
    h(
      'div',
      { class: 'page-line' },
      h('div', { class: 'page-title' }, h('h1', { tabindex: -1, ref: heading }, title), badges ?? null),
      actions ? h('div', { class: 'actions' }, actions) : null,
    ),
    lead ? h('p', { class: 'page-lead' }, lead) : null,
  )
}

/** Links to the same view over other times. */
export function RangeLinks(props: {
  readonly chosen: string
  readonly ranges: readonly { readonly name: string; readonly label: string; readonly href: string }[]
}) {
  const { chosen, ranges } = props
  return h(
    'nav',
    { class: 'range-links', 'aria-label': 'Time range' },
    ranges.map(({ name, label, href }) =>
      h(
        'a',
        { key: name, class: 'range-link', href, 'aria-current': name === chosen ? 'true' : undefined },
        label,
      ),
    ),
  )
}

/** A part of a view under its own heading. */
export function Section(props: {
  readonly title: string
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly id?: string
  readonly children?: ComponentChildren
}) {
  const { title, lead, actions, id, children } = props
  return h(
    'section',
    { class: 'section', id },
    h(
      'div',
      { class: 'section-head' },
      h('h2', null, title),
      actions ? h('div', { class: 'actions' }, actions) : null,
    ),
    lead ? h('p', { class: 'section-lead' }, lead) : null,
    children,
  )
}

export type FactItems = readonly (readonly [label: string, value: ComponentChildren])[]

/** Names and their values, e.g. of one request. */
export function Facts(props: { readonly items: FactItems }) {
  return h(
    'dl',
    { class: 'facts' },
    props.items.map(([label, value]) =>
      h('div', { class: 'fact', key: label }, h('dt', null, label), h('dd', null, value)),
    ),
  )
}

/** A note that the file defines something, and that it can only be changed there. */
export function ManagedByFile({ what }: { readonly what: string }) {
  return h(
    'div',
    { class: 'note note-info' },
    h(Icon, { name: 'lock' }),
    h(
      'div',
      { class: 'note-text' },
      'Managed by file: ',
      what,
      ' is read-only here. Edit it in the configuration file.',
    ),
  )
}
