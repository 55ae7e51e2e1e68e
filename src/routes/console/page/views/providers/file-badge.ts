import type { ManagedBy } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { Badge } from '../../parts/badge.ts'

/** Marks in a list what the file defines; nothing for what was made in the console. */
export function FileBadge({ managedBy }: { readonly managedBy: ManagedBy }) {
  if (managedBy === 'console') return null
  return html`<${Badge} title="The configuration file defines it: read-only here">file<//>`
}
