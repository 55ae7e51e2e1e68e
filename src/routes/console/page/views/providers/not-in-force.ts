import { html } from '../../html.ts'
import { Badge } from '../../parts/badge.ts'

/** Marks in a list what was saved and does not fit the rest any more; nothing when it does. */
export function NotInForce({ faults }: { readonly faults: readonly string[] | undefined }) {
  if (faults === undefined) return null
  return html`<${Badge} tone="bad" title=${faults.join('\n')}>not in force<//>`
}
