import { html as tagged } from 'htm/preact'
import type { VNode } from 'preact'

/** Markup as a tagged template: html`<${Button} onClick=${save}>Save<//>`. Its own type takes anything as a value. */
export const html: (strings: TemplateStringsArray, ...values: unknown[]) => VNode = tagged
