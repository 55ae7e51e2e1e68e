import { h } from '../h.ts'

/** A chart's title, and the switch between drawing and table. */
export function ChartHead(props: {
  readonly title: string
  /** Beside the title: "per second". */
  readonly unit: string | undefined
  readonly asTable: boolean
  readonly onSwitch: () => void
}) {
  const { title, unit, asTable, onSwitch } = props
  return h(
    'figcaption',
    { class: 'chart-head' },
    h('span', { class: 'chart-title' }, title, unit ? [' ', h('span', { class: 'quiet' }, unit)] : null),
    h(
      'button',
      { class: 'chart-switch', type: 'button', onClick: onSwitch },
      asTable ? 'Chart' : 'Table',
      h('span', { class: 'hidden' }, ' of ', title),
    ),
  )
}
