import type { HealthAnswer, OverviewAnswer } from '../../../api/answers.ts'
import { bytes, number, percent } from '../../format.ts'
import { html } from '../../html.ts'
import { BreakerBadge, LastError } from '../../parts/health.ts'
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
  { head: 'State', narrow: true, cell: ({ state }) => html`<${BreakerBadge} state=${state} />` },
  { head: 'Since', narrow: true, cell: ({ since }) => html`<${Time} at=${since} />` },
  { head: 'Last error', cell: ({ last_error }) => html`<span><${LastError} error=${last_error} /></span>` },
]

/** Entries that are passed over at the moment. */
export function Breakers({
  breakers,
  all,
}: {
  readonly breakers: readonly Breaker[]
  readonly all: boolean
}) {
  const workspace: Column<Breaker> = { head: 'Workspace', cell: (one) => one.workspace }
  return html`<${Section} title="Unhealthy entries">
    ${
      breakers.length === 0
        ? html`<${EmptyState} title="No breaker is open">
            <p>Entries that are failing or rate-limited are listed here until they recover.</p>
          <//>`
        : html`<${Table}
            caption="Unhealthy entries"
            columns=${all ? BREAKER_COLUMNS.toSpliced(1, 0, workspace) : BREAKER_COLUMNS}
            rows=${breakers}
            rowKey=${(one: Breaker) => [one.workspace, one.route, one.provider, one.model].join(' ')}
            href=${(one: Breaker) => pathOf(one.workspace, 'routes', one.route)}
          />`
    }
  <//>`
}

type ProviderNow = HealthAnswer['providers'][number]

const PROVIDER_COLUMNS: readonly Column<ProviderNow>[] = [
  { head: 'Provider', primary: true, cell: ({ provider }) => html`<span class="mono">${provider}</span>` },
  { head: 'Calls', align: 'end', cell: ({ calls }) => number(calls) },
  { head: 'Failed', align: 'end', cell: ({ failed }) => number(failed) },
  { head: 'Errors', align: 'end', cell: ({ calls, failed }) => percent(calls === 0 ? 0 : failed / calls) },
  { head: 'Last error', cell: ({ last_error }) => html`<span><${LastError} error=${last_error} /></span>` },
]

/** Every provider that was called in the last minutes, those that fail first. */
export function Providers({ health }: { readonly health: HealthAnswer | null }) {
  if (health === null || health.providers.length === 0) return null
  const rows = health.providers.toSorted((one, other) => other.failed - one.failed || other.calls - one.calls)
  return html`<${Section} title="Providers, last 5 minutes">
    <${Table}
      caption="Providers, last 5 minutes"
      columns=${PROVIDER_COLUMNS}
      rows=${rows}
      rowKey=${({ provider }: ProviderNow) => provider}
    />
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
