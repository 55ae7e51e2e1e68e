import type { JobDetailAnswer, WebhookAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useLoad } from '../../load.ts'
import { Skeleton } from '../../parts/states.ts'
import { apiPath, pathOf } from '../../paths.ts'
import { Deliveries, type DeliveriesAnswer } from '../settings/deliveries.ts'
import { hasEnded } from './job-list.ts'

/** Whether the webhook was told that the job has ended. */
export function JobDelivery({
  workspace,
  job,
}: {
  readonly workspace: string
  readonly job: JobDetailAnswer
}) {
  const root = apiPath`/workspaces/${workspace}/webhook`
  const load = useLoad(
    async (signal) => {
      const [{ webhook }, { deliveries }] = await Promise.all([
        api.get<WebhookAnswer>(root, { signal }),
        api.get<DeliveriesAnswer>(`${root}/deliveries`, { signal }),
      ])
      return { webhook, deliveries: deliveries.filter(({ job_id }) => job_id === job.id) }
    },
    [root, job.id, job.status],
  )
  const settings = html`<a href=${`${pathOf(workspace, 'settings')}?section=webhook`}>settings</a>`
  if (load.state === 'loading') return html`<${Skeleton} rows=${1} />`
  if (load.state === 'failed')
    return html`<p class="quiet">The delivery status is unavailable: ${load.error.message}.</p>`
  const { webhook, deliveries } = load.value
  if (deliveries.length > 0)
    return html`<${Deliveries} workspace=${workspace} deliveries=${deliveries} onChanged=${load.reload} />`
  if (webhook === null) return html`<p class="quiet">No webhook is set. Set one in ${settings}.</p>`
  return html`<p class="quiet">
    ${
      hasEnded(job)
        ? 'No pending or failed delivery for this job. See all in '
        : `When the job ends, ${webhook.url} is called. See `
    }${settings}.
  </p>`
}
