import type { ComponentChildren } from 'preact'
import { useState } from 'preact/hooks'
import { html } from '../../html.ts'

/** What may be asked for: open beside the source where there is room, else closed, so that sending is near. */
export function Options({ children }: { readonly children: ComponentChildren }) {
  const [open] = useState(() => matchMedia('(min-width: 1000px)').matches)
  return html`<details class="play-options" open=${open}>
    <summary><h2>Options</h2></summary>
    ${children}
  </details>`
}
