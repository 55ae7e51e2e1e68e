import { OVERVIEW_SPANS } from '../../components/range.ts'
import { h } from '../../h.ts'
import { lazy } from '../../lazy.ts'
import type { ViewProps } from '../../view.ts'

const LiveOverview = lazy({
  title: 'The overview',
  load: async () => (await import('./live.ts')).LiveOverview,
})

const RangeOverview = lazy({
  title: 'The overview',
  load: async () => (await import('./ranges.ts')).RangeOverview,
})

/** The figures of now and of the last hour, or those of a longer time. */
export function OverviewView({ workspace, query }: ViewProps) {
  const span = OVERVIEW_SPANS.find((name) => name === query.get('range'))
  return span === undefined
    ? h(LiveOverview, { workspace })
    : h(RangeOverview, { key: span, workspace, span })
}
