import type { RequestAnswer } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { StatusBadge } from '../../parts/badge.ts'

/** How a request, or a run of a job, ended: its status, and the code of its error. */
export function Outcome({ request }: { readonly request: RequestAnswer }) {
  const { status, error } = request
  return html`<${StatusBadge} status=${status ?? (error === null ? 'ok' : 'failed')} />
    ${error === null ? null : html`<span class="mono small">${error}</span>`}`
}
