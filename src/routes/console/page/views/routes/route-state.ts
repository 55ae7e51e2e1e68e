import type { RouteSummary } from '../../../api/answers.ts'
import { html } from '../../html.ts'
import { Badge, FileBadge, NotInForce } from '../../parts/badge.ts'

/** Whether a route serves, and what else there is to know of it at a glance. */
export function RouteState(props: {
  readonly version: string | null
  readonly in_service: boolean
  readonly has_draft: boolean
  readonly managed_by: RouteSummary['managed_by']
  readonly faults?: readonly string[]
}) {
  const { version, in_service, has_draft, managed_by, faults } = props
  const service = () => {
    if (faults !== undefined) return html`<${NotInForce} faults=${faults} />`
    if (version === null) return html`<${Badge}>not published<//>`
    return in_service ? html`<${Badge} tone="ok">live<//>` : html`<${Badge} tone="warn">disabled<//>`
  }
  return html`
    ${service()}
    ${has_draft ? html`<${Badge} tone="accent">draft<//>` : null}
    <${FileBadge} managedBy=${managed_by} />
  `
}
