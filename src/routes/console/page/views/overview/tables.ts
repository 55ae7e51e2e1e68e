import type { OverviewAnswer } from '../../../api/answers.ts'
import { bytes, number } from '../../format.ts'
import { html } from '../../html.ts'
import { StatusBadge } from '../../parts/badge.ts'
import { Section } from '../../parts/page-head.ts'
import { Bar } from '../../parts/progress.ts'
import { EmptyState } from '../../parts/states.ts'
import { type Column, Table } from '../../parts/table.ts'
import { Time } from '../../parts/time.ts'
import { pathOf } from '../../paths.ts'

type Breaker = OverviewAnswer['breakers'][number]
type Node = NonNullable<OverviewAnswer['nodes']>[number]

const BREAKER_COLUMNS: readonly Column<Breaker>[] = [
  {
    head: 'Entry',
    primary: true,
    cell: ({ provider, model }) => html`<span class="mono">${provider}/${model}</span>`,
  },
  { head: 'Route', cell: ({ route }) => html`<span class="mono">${route}</span>` },
  {
    head: 'State',
    narrow: true,
    cell: ({ state }) => html`<span title=${MEANINGS[state]}><${StatusBadge} status=${state} /></span>`,
  },
]

const MEANINGS: Readonly<Record<Breaker['state'], string>> = {
  open: 'It failed too often: other entries serve until it is tried again.',
  half_open: 'One call is trying whether it works again.',
  cooling: 'The provider asked to be left alone for a while.',
}

/** Entries that are passed over at the moment. */
export function Breakers({
  breakers,
  all,
}: {
  readonly breakers: readonly Breaker[]
  readonly all: boolean
}) {
  const workspace: Column<Breaker> = { head: 'Workspace', cell: (one) => one.workspace }
  return html`<${Section} title="Breakers">
    ${
      breakers.length === 0
        ? html`<${EmptyState} title="All entries take calls">
            <p>An entry that fails too often, or whose provider asks for a pause, stands here until it recovers.</p>
          <//>`
        : html`<${Table}
            caption="Entries that are passed over"
            columns=${all ? BREAKER_COLUMNS.toSpliced(1, 0, workspace) : BREAKER_COLUMNS}
            rows=${breakers}
            rowKey=${(one: Breaker) => [one.workspace, one.route, one.provider, one.model].join(' ')}
            href=${(one: Breaker) => pathOf(one.workspace, 'routes', one.route)}
          />`
    }
  <//>`
}

const NODE_COLUMNS: readonly Column<Node>[] = [
  { head: 'Node', primary: true, cell: ({ node }) => html`<span class="mono">${node}</span>` },
  { head: 'In flight', align: 'end', cell: ({ in_flight: flying }) => number(flying) },
  {
    head: 'Memory budget',
    cell: ({ memory_used_bytes: used, memory_limit_bytes: limit }) => html`<div class="grow">
      <${Bar} label="Memory" hideLabel value=${used} max=${limit} text=${`${bytes(used)} of ${bytes(limit)}`} />
    </div>`,
  },
  { head: 'Last heard', narrow: true, cell: ({ at }) => html`<${Time} at=${at} />` },
]

export function Nodes({ nodes }: { readonly nodes: readonly Node[] }) {
  return html`<${Section} title="Nodes">
    <${Table} caption="Nodes" columns=${NODE_COLUMNS} rows=${nodes} rowKey=${({ node }: Node) => node} />
  <//>`
}
