import type { RequestAnswer } from '../../../api/answers.ts'
import { plural } from '../../format.ts'
import { html } from '../../html.ts'
import { StatusBadge } from '../../parts/badge.ts'
import { serverOf } from './request-list.ts'

/** How a request, or a run of a job, ended: its status, and the code of its error. */
export function Outcome({ request }: { readonly request: RequestAnswer }) {
  const { status, error } = request
  return html`<${StatusBadge} status=${status ?? (error === null ? 'ok' : 'failed')} />
    ${error === null ? null : html`<span class="mono small">${error}</span>`}`
}

/** The entry that answered, and how many were tried before it; none of a request that nobody answered. */
export function ServedBy({ request }: { readonly request: Pick<RequestAnswer, 'attempts'> }) {
  const { attempts } = request
  const server = serverOf(request)
  if (server === null) {
    const words = attempts.length === 0 ? '–' : `none, ${attempts.length} failed`
    return html`<span class="quiet">${words}</span>`
  }
  const before = attempts.length - 1
  return html`<span class="mono requests-server">${server.provider}/${server.model}</span>${' '}
    ${before === 0 ? null : html`<span class="quiet nowrap">after ${plural(before, 'failover')}</span>`}`
}
