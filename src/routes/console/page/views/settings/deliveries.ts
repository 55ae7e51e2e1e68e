import { useState } from 'preact/hooks'
import type { DeliveryAnswer } from '../../../api/answers.ts'
import { api } from '../../api.ts'
import { html } from '../../html.ts'
import { useAction } from '../../load.ts'
import { Badge, StatusBadge } from '../../parts/badge.ts'
import { Button } from '../../parts/button.ts'
import { Fault } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { toast } from '../../parts/toasts.ts'
import { apiPath, pathOf } from '../../paths.ts'

/** GET …/webhook/deliveries */
export interface DeliveriesAnswer {
  readonly deliveries: readonly DeliveryAnswer[]
}

/** Deliveries of the webhook that wait or were given up, each to be sent again. */
export function Deliveries(props: {
  readonly workspace: string
  readonly deliveries: readonly DeliveryAnswer[]
  readonly onChanged: () => void
}) {
  const { workspace, deliveries, onChanged } = props
  /** The one that is sent again. */
  const [sent, setSent] = useState<string | null>(null)
  const again = useAction(async (job: string) => {
    setSent(job)
    await api.post(apiPath`/workspaces/${workspace}/webhook/deliveries/${job}/redeliver`)
    toast(`Redelivering job ${job}`)
    onChanged()
  })
  const columns: readonly Column<DeliveryAnswer>[] = [
    {
      head: 'Job',
      primary: true,
      cell: ({ job_id: job }) => html`<a class="mono" href=${pathOf(workspace, 'jobs', job)}>${job}</a>`,
    },
    { head: 'Event', cell: ({ status }) => html`<${StatusBadge} status=${status} />` },
    {
      head: 'Delivery',
      cell: ({ next_attempt_at: next, reason }) =>
        html`${
          next === null
            ? html`<${Badge} tone="bad">Failed<//>`
            : html`<${Badge} tone="warn">Retrying<//><${Next} at=${next} />`
        }
        ${reason === null ? null : html`<span class="quiet">${reason}</span>`}`,
    },
    { head: 'Attempts', align: 'end', cell: ({ attempts }) => attempts },
    { head: 'Ended', align: 'end', minor: true, cell: ({ occurred_at: at }) => html`<${Time} at=${at} />` },
    {
      head: 'Redeliver',
      hideHead: true,
      narrow: true,
      align: 'end',
      cell: ({ job_id: job }) =>
        html`<${Button}
          small
          icon="refresh"
          label=${`Redeliver job ${job}`}
          onClick=${() => again.run(job)}
          busy=${again.busy && sent === job}
          disabled=${again.busy && sent !== job}
        >Redeliver<//>`,
    },
  ]
  return html`<div class="stack stack-tight">
    <${Table} caption="Deliveries" columns=${columns} rows=${deliveries} rowKey=${({ id }: DeliveryAnswer) => id} />
    <${Fault} error=${again.error} what="Not redelivered" />
  </div>`
}

/** What is due so soon is about to happen. */
const DUE_MS = 5_000

function Next({ at }: { readonly at: string }) {
  return html`<span>${Date.parse(at) > Date.now() + DUE_MS ? html`next <${Time} at=${at} />` : 'due now'}</span>`
}
