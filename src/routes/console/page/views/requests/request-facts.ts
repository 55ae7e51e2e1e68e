import type { RequestAnswer } from '../../../api/answers.ts'
import { bytes, milliseconds, number, orNone, usd } from '../../format.ts'
import { html } from '../../html.ts'
import { Facts } from '../../parts/page-head.ts'
import { Time } from '../../parts/time.ts'
import { pathOf } from '../../paths.ts'

/** All that is known of one request beside its attempts. */
export function RequestFacts(props: {
  readonly workspace: string
  readonly request: RequestAnswer
  /** As the workspace calls it; null: not known, then its id stands there. */
  readonly keyName: string | null
}) {
  const { workspace, request, keyName } = props
  const { route, job_id: job, usage } = request
  const used = Object.entries(usage ?? {}).filter(([, count]) => count !== null && count !== 0)
  return html`<${Facts}
    items=${[
      ['Ended', html`<${Time} at=${request.at} exact />`],
      ['Took', milliseconds(request.milliseconds)],
      ['Of that in Larkway', orNone(request.added_milliseconds, milliseconds)],
      ['App', request.app],
      ['Key', html`<span title=${request.key_id}>${keyName ?? request.key_id}</span>`],
      [
        'Route',
        route === null
          ? 'none was chosen'
          : html`<a class="mono" href=${pathOf(workspace, 'routes', route)}>${route}</a>`,
      ],
      ['Route version', html`<span class="mono">${request.policy_version_id ?? '–'}</span>`],
      ['Received', bytes(request.received_bytes)],
      ['Sent', bytes(request.sent_bytes)],
      ['Cost', orNone(request.cost_usd, usd)],
      ...used.map(([name, count]) => [words(name), number(count ?? 0, decimalsOf(count ?? 0))] as const),
      ...(job === null
        ? []
        : [['Job', html`<a class="mono" href=${pathOf(workspace, 'jobs', job)}>${job}</a>`] as const]),
    ]}
  />`
}

/** `billable_audio_seconds` as "Billable audio seconds". */
function words(name: string): string {
  const text = name.replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function decimalsOf(count: number): number {
  return Number.isInteger(count) ? 0 : 2
}
