import { useState } from 'preact/hooks'
import type { DeliveryAnswer } from '../../server/answers/settings.ts'
import { api } from '../api.ts'
import { h } from '../h.ts'
import { useAction } from '../load.ts'
import { apiPath, pathOf } from '../paths.ts'
import { Badge, StatusBadge } from './badge.ts'
import { Button } from './button.ts'
import { ErrorNote } from './states.ts'
import { type Column, Table } from './table.ts'
import { Time } from './time.ts'
import { toast } from './toasts.ts'

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
      cell: ({ job_id: job }) => h('a', { class: 'mono', href: pathOf(workspace, 'jobs', job) }, job),
    },
    { head: 'Event', cell: ({ status }) => h(StatusBadge, { status }) },
    {
      head: 'Delivery',
      cell: ({ next_attempt_at: next, reason }) => [
        next === null
          ? h(Badge, { tone: 'bad' }, 'Failed')
          : [h(Badge, { tone: 'warn' }, 'Retrying'), h(Next, { at: next })],
        reason === null ? null : h('span', { class: 'quiet' }, reason),
      ],
    },
    { head: 'Attempts', align: 'end', cell: ({ attempts }) => attempts },
    { head: 'Ended', align: 'end', minor: true, cell: ({ occurred_at: at }) => h(Time, { at }) },
    {
      head: 'Redeliver',
      hideHead: true,
      narrow: true,
      align: 'end',
      cell: ({ job_id: job }) =>
        h(
          Button,
          {
            small: true,
            icon: 'refresh',
            label: `Redeliver job ${job}`,
            onClick: () => again.run(job),
            busy: again.busy && sent === job,
            disabled: again.busy && sent !== job,
          },
          'Redeliver',
        ),
    },
  ]
  return h(
    'div',
    { class: 'stack stack-tight' },
    h(Table<DeliveryAnswer>, {
      caption: 'Deliveries',
      columns,
      rows: deliveries,
      rowKey: ({ id }: DeliveryAnswer) => id,
    }),
    h(ErrorNote, { error: again.error, what: 'Not redelivered' }),
  )
}

/** A delivery due within this time is shown as about to happen. */
const DUE_MS = 5_000

function Next({ at }: { readonly at: string }) {
  return h('span', null, Date.parse(at) > Date.now() + DUE_MS ? ['next ', h(Time, { at })] : 'due now')
}
