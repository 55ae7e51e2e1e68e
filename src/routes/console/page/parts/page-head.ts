import type { ComponentChildren } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { html } from '../html.ts'
import { arrived } from '../router.ts'
import { Icon } from './icon.ts'

/** The head of a view: names it, also in the tab of the browser. One per view, and it alone has the `h1`. */
export function PageHead(props: {
  readonly title: string
  /** The view above this one. */
  readonly parent?: { readonly href: string; readonly label: string }
  /** One sentence: what this is for. */
  readonly lead?: ComponentChildren
  /** Badges beside the title. */
  readonly badges?: ComponentChildren
  readonly actions?: ComponentChildren
}) {
  const { title, parent, lead, badges, actions } = props
  const heading = useRef<HTMLHeadingElement>(null)
  useEffect(() => {
    document.title = `${title} · Larkway`
    // Screen readers say where one is, and Tab goes on from here.
    if (arrived()) heading.current?.focus({ preventScroll: true })
  }, [title])
  return html`<header class="page-head">
    ${
      parent
        ? html`<a class="page-parent" href=${parent.href}><${Icon} name="back" />${parent.label}</a>`
        : null
    }
    <div class="page-line">
      <div class="page-title">
        <h1 tabindex="-1" ref=${heading}>${title}</h1>
        ${badges ?? null}
      </div>
      ${actions ? html`<div class="actions">${actions}</div>` : null}
    </div>
    ${lead ? html`<p class="page-lead">${lead}</p>` : null}
  </header>`
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
  return html`<section class="section" id=${id}>
    <div class="section-head">
      <h2>${title}</h2>
      ${actions ? html`<div class="actions">${actions}</div>` : null}
    </div>
    ${lead ? html`<p class="section-lead">${lead}</p>` : null}
    ${children}
  </section>`
}

/** Names and their values, e.g. of one request. */
export function Facts(props: {
  readonly items: readonly (readonly [label: string, value: ComponentChildren])[]
}) {
  return html`<dl class="facts">
    ${props.items.map(
      ([label, value]) => html`<div class="fact" key=${label}><dt>${label}</dt><dd>${value}</dd></div>`,
    )}
  </dl>`
}

/** Says that the file defines something, so that it can only be changed there. */
export function ManagedByFile({ what }: { readonly what: string }) {
  return html`<div class="note note-info">
    <${Icon} name="lock" />
    <div class="note-text">Managed by file: ${what} is read-only here. Edit it in the configuration file.</div>
  </div>`
}
