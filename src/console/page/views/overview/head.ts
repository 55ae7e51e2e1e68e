import type { ComponentChildren } from 'preact'
import { PageHead, RangeLinks } from '../../components/page-head.ts'
import { OVERVIEW_SPANS, type OverviewSpan, spanLabel } from '../../components/range.ts'
import { h } from '../../h.ts'
import { pathOf } from '../../paths.ts'

/** The head of the overview, with the way to other times. @param chosen a span, or `live` */
export function OverviewHead(props: {
  readonly workspace: string | null
  readonly chosen: OverviewSpan | 'live'
  readonly children?: ComponentChildren
}) {
  const { workspace, chosen, children } = props
  const href = pathOf(workspace, 'overview')
  const ranges = [
    { name: 'live', label: '1 hour', href },
    ...OVERVIEW_SPANS.map((name) => ({ name, label: spanLabel(name), href: `${href}?range=${name}` })),
  ]
  return h(PageHead, {
    title: workspace === null ? 'Platform overview' : 'Overview',
    actions: [children, h(RangeLinks, { chosen, ranges })],
  })
}
