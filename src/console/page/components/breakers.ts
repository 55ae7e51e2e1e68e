import type { BreakerAnswer } from '../../server/answers/health.ts'
import { h } from '../h.ts'
import { pathOf } from '../paths.ts'
import { BreakerBadge, LastError } from './health.ts'
import { Section } from './page-head.ts'
import { type Column, Table } from './table.ts'
import { Time } from './time.ts'

const COLUMNS: readonly Column<BreakerAnswer>[] = [
  {
    head: 'Entry',
    primary: true,
    cell: ({ provider, model }) => h('span', { class: 'mono' }, provider, '/', model),
  },
  {
    head: 'Route',
    cell: ({ workspace, route }) =>
      h('a', { class: 'mono', href: pathOf(workspace, 'routes', route) }, route),
  },
  { head: 'State', narrow: true, cell: ({ state }) => h(BreakerBadge, { state }) },
  { head: 'Since', narrow: true, cell: ({ since }) => h(Time, { at: since }) },
  { head: 'Last error', cell: ({ last_error }) => h('span', null, h(LastError, { error: last_error })) },
]
const WORKSPACE: Column<BreakerAnswer> = { head: 'Workspace', cell: (one) => one.workspace }

/** Entries that are passed over at the moment; nothing where there are none. @param workspace null: of all */
export function Breakers({
  breakers,
  workspace,
}: {
  readonly breakers: readonly BreakerAnswer[]
  readonly workspace: string | null
}) {
  if (breakers.length === 0) return null
  return h(
    Section,
    { title: 'Unhealthy entries', lead: 'Other entries of the route are tried until these recover.' },
    h(Table<BreakerAnswer>, {
      caption: 'Unhealthy entries',
      columns: workspace === null ? COLUMNS.toSpliced(1, 0, WORKSPACE) : COLUMNS,
      rows: breakers,
      rowKey: (one: BreakerAnswer) => [one.workspace, one.route, one.provider, one.model].join(' '),
      href: (one: BreakerAnswer) => pathOf(workspace, 'providers', one.provider),
    }),
  )
}
