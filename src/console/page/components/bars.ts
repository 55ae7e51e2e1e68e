import { useState } from 'preact/hooks'
import { h } from '../h.ts'
import { ChartHead } from './chart-head.ts'
import { axisOfSteps, type Range, stepName } from './range.ts'

export type BarTone = number | 'rest' | 'bad' | 'warn'

export interface Series {
  readonly label: string
  /** 1 to 6 of --series-…, or what the colour says. */
  readonly tone: BarTone
  /** One for each step, from 0 on. */
  readonly values: readonly number[]
}

export interface BarsProps {
  readonly title: string
  /** Beside the title: "by model". */
  readonly unit?: string
  readonly step: Range['step']
  /** When each step begins, epoch milliseconds. */
  readonly times: readonly number[]
  /** From the bottom up. */
  readonly series: readonly Series[]
  /** Writes a value with its unit. */
  readonly format: (value: number) => string
  /** Where a step leads to. */
  readonly href?: (atMs: number) => string
  readonly onOpen?: (href: string) => void
}

/** Units of the drawing from its bottom to its top. */
const HEIGHT = 1000
/** Share of a column that is left free on either side. */
const GAP = 0.12

/**
 * Bars of several parts over time, one column for each step. What a step is made of is shown at the pointer, or where
 * arrow keys lead; a click or Enter opens it, and the whole can be read as a table.
 */
export function Bars(props: BarsProps) {
  const { title, unit, step, times, series, format, href, onOpen } = props
  const [pointed, setPointed] = useState<number | null>(null)
  const [asTable, setAsTable] = useState(false)
  const last = times.length - 1
  const sums = sumsOf(times.length, series)
  const open = (at: number | null) => {
    const time = at === null ? undefined : times[at]
    if (time !== undefined && href && onOpen) onOpen(href(time))
  }
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter') return open(pointed)
    if (event.key === 'Escape') return setPointed(null)
    const at = pointed ?? last + 1
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key]
    if (to === undefined || last < 0) return
    event.preventDefault()
    setPointed(Math.max(0, Math.min(last, to)))
  }
  const total = sums.reduce((sum, value) => sum + value, 0)
  const most = format(Math.max(0, ...sums))
  const words =
    `${title}${unit ? ` ${unit}` : ''}: ${format(total)} in all, at most ${most} in one ${step}. ` +
    `Arrow keys read each ${step}.${href && onOpen ? ' Enter opens one.' : ''}`
  return h(
    'figure',
    { class: 'chart' },
    h(ChartHead, { title, unit, asTable, onSwitch: () => setAsTable(!asTable) }),
    h(Legend, { series, format }),
    asTable
      ? h(BarsTable, { title, step, times, series, format, href })
      : h(
          'div',
          { class: 'chart-body' },
          h(
            'div',
            {
              class: href ? 'bars-place bars-place-open' : 'bars-place',
              tabindex: 0,
              role: 'img',
              'aria-label': words,
              onKeyDown: onKey,
              onBlur: () => setPointed(null),
            },
            h(Drawing, { sums, series, pointed, onPoint: setPointed, onOpen: open }),
            h(Scale, { top: topOf(sums), format }),
            h(Steps, { times, step }),
          ),
          h(Tip, { pointed, times, step, series, sums, format }),
        ),
  )
}

/** The sums of each step. */
function sumsOf(steps: number, series: readonly Series[]): readonly number[] {
  return Array.from({ length: steps }, (_, at) =>
    series.reduce((sum, { values }) => sum + (values[at] ?? 0), 0),
  )
}

/** Ends of scales whose halves are as round. */
const TOPS = [1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10]

/** The end of the scale; of a few whole numbers, its half is whole, too. */
export function topOf(values: readonly number[]): number {
  const most = Math.max(0, ...values)
  if (most === 0) return 1
  if (most <= 10 && values.every(Number.isInteger)) return 2 * Math.ceil(most / 2)
  const power = 10 ** Math.floor(Math.log10(most))
  const top = TOPS.find((one) => one * power >= most * 0.999) ?? 10
  return top * power
}

function Drawing(props: {
  readonly sums: readonly number[]
  readonly series: readonly Series[]
  readonly pointed: number | null
  readonly onPoint: (at: number | null) => void
  readonly onOpen: (at: number) => void
}) {
  const { sums, series, pointed, onPoint, onOpen } = props
  const top = topOf(sums)
  const count = Math.max(1, sums.length)
  return h(
    'svg',
    {
      class: 'bars-svg',
      viewBox: `0 0 ${count} ${HEIGHT}`,
      preserveAspectRatio: 'none',
      'aria-hidden': 'true',
      focusable: 'false',
      onPointerLeave: () => onPoint(null),
    },
    [0, 0.5, 1].map((share) =>
      h('line', {
        key: share,
        class: 'bars-grid',
        x1: 0,
        x2: count,
        y1: share * HEIGHT,
        y2: share * HEIGHT,
      }),
    ),
    sums.map((_, at) =>
      h(
        'g',
        { key: at, onPointerEnter: () => onPoint(at), onClick: () => onOpen(at) },
        h('rect', {
          class: at === pointed ? 'bars-here' : 'bars-under',
          x: at,
          y: 0,
          width: 1,
          height: HEIGHT,
        }),
        stackedParts(series, at, top).map(({ tone, y, height }) =>
          h('rect', {
            key: tone,
            class: `bars-tone-${tone}`,
            x: at + GAP,
            y,
            width: 1 - 2 * GAP,
            height,
          }),
        ),
      ),
    ),
  )
}

/** The parts of one column, in units of the drawing. */
function stackedParts(series: readonly Series[], at: number, top: number) {
  let below = 0
  return series.flatMap(({ tone, values }) => {
    const value = values[at] ?? 0
    if (value <= 0) return []
    const height = (value / top) * HEIGHT
    below += height
    return [{ tone, y: HEIGHT - below, height }]
  })
}

function Scale({ top, format }: { readonly top: number; readonly format: (value: number) => string }) {
  return marksOf(top, format).map(([place, mark]) =>
    h('span', { key: place, class: `bars-high bars-high-${place}`, 'aria-hidden': 'true' }, mark),
  )
}

/** Labels of the scale by their places. The half is left out where only whole numbers are written. */
export function marksOf(top: number, format: (value: number) => string): [place: string, mark: string][] {
  const write = (value: number) => format(value).replace(/\.0+(?=\D|$)/, '')
  const [high, half] = [write(top), write(top / 2)]
  return [['top', high], ...(half === high ? [] : [['half', half] as [string, string]]), ['none', write(0)]]
}

function Steps({ times, step }: Pick<BarsProps, 'times' | 'step'>) {
  const { fromMs, toMs, marks } = axisOfSteps(times, step)
  return h(
    'div',
    { class: 'bars-days', 'aria-hidden': 'true' },
    marks.map(({ atMs, label }) =>
      h(
        'span',
        {
          key: atMs,
          class: 'bars-low',
          style: { insetInlineStart: `${((atMs - fromMs) / (toMs - fromMs)) * 100}%` },
        },
        label,
      ),
    ),
  )
}

function Legend({ series, format }: Pick<BarsProps, 'series' | 'format'>) {
  return h(
    'ul',
    { class: 'chart-legend' },
    series.map(({ label, tone, values }) =>
      h(
        'li',
        { class: 'chart-line', key: label },
        h('span', { class: `chart-swatch chart-swatch-square tone-${tone}` }),
        h('span', { class: 'chart-label cut', title: label }, label),
        h('strong', null, format(values.reduce((sum, value) => sum + value, 0))),
      ),
    ),
  )
}

/** The parts of the step under the pointer. */
function Tip(
  props: Pick<BarsProps, 'times' | 'step' | 'series' | 'format'> & {
    readonly pointed: number | null
    readonly sums: readonly number[]
  },
) {
  const { pointed, times, step, series, sums, format } = props
  const time = pointed === null ? undefined : times[pointed]
  if (pointed === null || time === undefined) return h('div', { class: 'chart-live', role: 'status' })
  const share = (pointed + 0.5) / times.length
  const side =
    share > 0.5 ? { insetInlineEnd: `${(1 - share) * 100}%` } : { insetInlineStart: `${share * 100}%` }
  return h(
    'div',
    { class: 'chart-live', role: 'status' },
    h(
      'div',
      { class: 'chart-tip bars-tip', style: side },
      h('p', { class: 'quiet' }, stepName(time, step)),
      series.length > 1
        ? series
            .toReversed()
            .map(({ label, tone, values }) =>
              (values[pointed] ?? 0) > 0
                ? h(
                    'p',
                    { class: 'chart-line', key: label },
                    h('span', { class: `chart-swatch chart-swatch-square tone-${tone}` }),
                    h('span', { class: 'chart-label cut' }, label),
                    h('strong', null, format(values[pointed] ?? 0)),
                  )
                : null,
            )
        : null,
      h(
        'p',
        { class: 'chart-line' },
        h('span', { class: 'chart-label' }, 'Total'),
        h('strong', null, format(sums[pointed] ?? 0)),
      ),
    ),
  )
}

function BarsTable(props: Pick<BarsProps, 'title' | 'step' | 'times' | 'series' | 'format' | 'href'>) {
  const { title, step, times, series, format, href } = props
  const rows = times.map((time, at) => ({ time, at })).toReversed()
  return h(
    'div',
    { class: 'chart-place chart-table', tabindex: 0, role: 'region', 'aria-label': title },
    h(
      'table',
      { class: 'table-plain' },
      h('caption', { class: 'hidden' }, title, ', newest first'),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          h('th', { scope: 'col' }, step === 'day' ? 'Day' : 'Hour'),
          series.map(({ label }) => h('th', { scope: 'col', key: label }, label)),
        ),
      ),
      h(
        'tbody',
        null,
        rows.map(({ time, at }) => {
          const name = stepName(time, step)
          return h(
            'tr',
            { key: time },
            h('th', { scope: 'row' }, href ? h('a', { href: href(time) }, name) : name),
            series.map(({ label, values }) => h('td', { key: label }, format(values[at] ?? 0))),
          )
        }),
      ),
    ),
  )
}
