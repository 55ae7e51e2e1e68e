import { html } from '../html.ts'

/** The sign of the product: one way in, several out. */
export function Mark() {
  return html`<svg class="mark" viewBox="0 0 20 20" aria-hidden="true" focusable="false">
    <path d="M2 10h5c3.5 0 3.5-6 7-6h4M7 10h11M7 10c3.5 0 3.5 6 7 6h4" />
    <circle cx="3.2" cy="10" r="2.2" />
  </svg>`
}
