import type { RequestAnswer } from '../../../api/answers.ts'
import { bytes, milliseconds, number, orNone, took, usd } from '../../format.ts'
import { html } from '../../html.ts'
import { Facts } from '../../parts/page-head.ts'
import { Time } from '../../parts/time.ts'
import { pathOf } from '../../paths.ts'
import { ServedBy } from './outcome.ts'

/** All that is known of one request beside its attempts. */
export function RequestFacts(props: { readonly workspace: string; readonly request: RequestAnswer }) {
  const { workspace, request } = props
  const { route, job_id: job, usage } = request
  const used = distinct(Object.entries(usage ?? {}).filter(([, count]) => count !== null && count !== 0))
  return html`<${Facts}
    items=${[
      ['Served by', html`<${ServedBy} request=${request} />`],
      ['Ended', html`<${Time} at=${request.at} exact />`],
      ['Duration', took(request.milliseconds)],
      ['Gateway overhead', orNone(request.added_milliseconds, milliseconds)],
      ['App', request.app],
      ['Key', html`<span title=${request.key_id}>${request.key_name ?? request.key_id}</span>`],
      [
        'Route',
        route === null
          ? 'none'
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

/** Billable seconds that equal the seconds of the audio say nothing new. */
function distinct(used: readonly (readonly [string, number | null])[]) {
  const audio = used.find(([name]) => name === 'audio_seconds')?.[1]
  return used.filter(([name, count]) => name !== 'billable_audio_seconds' || count !== audio)
}

/** `billable_audio_seconds` as "Billable audio seconds". */
function words(name: string): string {
  const text = name.replaceAll('_', ' ')
  return text.charAt(0).toUpperCase() + text.slice(1)
}

function decimalsOf(count: number): number {
  return Number.isInteger(count) ? 0 : 2
}
