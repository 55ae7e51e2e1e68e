import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { orNone } from '../format.ts'
import { h } from '../h.ts'
import { styleSheet } from '../lazy.ts'
import { ChartHead } from './chart-head.ts'
import { axisOfMoments, type TimeAxis } from './range.ts'

interface ChartProps {
  readonly title: string
  /** Beside the title: "per second". */
  readonly unit?: string
  readonly data: ChartData
  /** The tone of each line: 1 to 6 of --series-…, 7 to 12 the same dashed, or `bad`; default: its place. */
  readonly tones?: readonly (number | 'bad')[]
  /** Writes a value with its unit. */
  readonly format: (value: number) => string
  /** The axis goes up to this at least. */
  readonly top?: number
  /** The axis counts in steps of powers of two, as for bytes. */
  readonly binary?: boolean
  /** How moments are written; default: by the clock, of the last hour. */
  readonly when?: Moments
  /** A click or Enter opens what was at a moment, epoch seconds. */
  readonly onOpen?: (seconds: number) => void
}

/** How a chart writes its moments, given in epoch seconds. */
interface Moments {
  /** Describes the whole: "the last hour". */
  readonly span: string
  readonly name: (seconds: number) => string
  readonly axis: (times: readonly number[]) => TimeAxis
}

const BY_CLOCK: Moments = {
  span: 'the last hour',
  name: axisClock,
  axis: (times) => axisOfMoments(times.map((seconds) => seconds * 1000)),
}

/**
 * Lines over time. uPlot is loaded when the first chart is drawn, or with `useCharts`; its place is kept free until
 * then. What was at a moment is shown at the pointer, or where arrow keys lead; and the whole can be read as a table.
 */
export function Chart(props: ChartProps) {
  const { title, unit, data, format, top = 0, tones, binary = false, when = BY_CLOCK } = props
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const [asTable, setAsTable] = useState(false)
  const onFail = () => setAsTable(true)
  const { place, move } = usePlot({
    data,
    tones,
    format,
    top,
    binary,
    when,
    onPoint: setPointed,
    onFail,
    off: asTable,
  })
  const last = data.times.length - 1
  const open = () => {
    const time = pointed === null ? undefined : data.times[pointed.index]
    if (time !== undefined) props.onOpen?.(time)
  }
  const onKey = (event: KeyboardEvent) => {
    const at = pointed?.index ?? last
    const steps: Readonly<Record<string, number>> = {
      ArrowLeft: at - 1,
      ArrowRight: at + 1,
      Home: 0,
      End: last,
    }
    const to = steps[event.key]
    if (event.key === 'Escape') move(null)
    if (event.key === 'Enter') open()
    if (to === undefined || last < 0) return
    event.preventDefault()
    move(Math.max(0, Math.min(last, to)))
  }
  const name = `${title}${unit ? ` ${unit}` : ''}`
  const keys = `Arrow keys read moments.${props.onOpen ? ' Enter opens one.' : ''}`
  return h(
    'figure',
    { class: 'chart' },
    h(ChartHead, { title, unit, asTable, onSwitch: () => setAsTable(!asTable) }),
    h(Legend, { data, tones, format }),
    asTable
      ? h(ChartTable, { title, data, format, when, key: 'table' })
      : h(
          'div',
          { class: 'chart-body', key: 'chart' },
          h('div', {
            class: props.onOpen ? 'chart-place chart-place-open' : 'chart-place',
            ref: place,
            tabindex: 0,
            role: 'img',
            'aria-label': `${name}, ${when.span}. ${summaryOf(data, format)} ${keys}`,
            onClick: open,
            onKeyDown: onKey,
            onBlur: () => move(null),
          }),
          h(Tip, { pointed, data, tones, format, when }),
        ),
  )
}

type LinesProps = Pick<ChartProps, 'data' | 'tones' | 'format'>

function Legend({ data, tones, format }: LinesProps) {
  return h(
    'ul',
    { class: 'chart-legend' },
    data.lines.map(({ label, values }, line) =>
      h(
        'li',
        { class: 'chart-line', key: label },
        h('span', { class: `chart-swatch tone-${tones?.[line] ?? line + 1}` }),
        h('span', { class: 'chart-label cut', title: label }, label),
        // Legends of bars beside this one have sums of the whole time.
        h('span', { class: 'quiet' }, 'latest'),
        h('strong', null, orNone(latestOf(values), format)),
      ),
    ),
  )
}

/** The values at the moment under the pointer, drawn beside it on the side that has room. */
function Tip({
  pointed,
  data,
  tones,
  format,
  when,
}: LinesProps & { readonly pointed: Pointed | null; readonly when: Moments }) {
  const tip = useRef<HTMLDivElement>(null)
  const left = pointed?.left ?? 0
  useEffect(() => {
    const element = tip.current
    const room = element?.parentElement?.clientWidth ?? 0
    if (!element) return
    const width = element.offsetWidth
    element.style.setProperty(
      'left',
      `${Math.max(0, left + 12 + width > room ? left - 12 - width : left + 12)}px`,
    )
  }, [left, pointed !== null])
  const time = pointed ? data.times[pointed.index] : undefined
  return h(
    'div',
    { class: 'chart-live', role: 'status' },
    pointed === null || time === undefined
      ? null
      : h(
          'div',
          { class: 'chart-tip', ref: tip },
          h('p', { class: 'quiet' }, when.name(time)),
          data.lines.map(({ label, values }, line) =>
            h(
              'p',
              { class: 'chart-line', key: label },
              h('span', { class: `chart-swatch tone-${tones?.[line] ?? line + 1}` }),
              h('span', { class: 'chart-label cut' }, label),
              h('strong', null, orNone(values[pointed.index] ?? null, format)),
            ),
          ),
        ),
  )
}

function ChartTable(props: Pick<ChartProps, 'title' | 'data' | 'format'> & { readonly when: Moments }) {
  const { title, data, format, when } = props
  return h(
    'div',
    { class: 'chart-place chart-table', tabindex: 0, role: 'region', 'aria-label': title },
    h(
      'table',
      { class: 'table-plain' },
      h('caption', { class: 'hidden' }, title, `: means of ${when.span}, newest first`),
      h(
        'thead',
        null,
        h(
          'tr',
          null,
          h('th', { scope: 'col' }, 'Until'),
          data.lines.map(({ label }) => h('th', { scope: 'col', key: label }, label)),
        ),
      ),
      h(
        'tbody',
        null,
        summaryRows(data).map(({ at, means }) =>
          h(
            'tr',
            { key: at },
            h('th', { scope: 'row' }, when.name(at)),
            means.map((mean, index) => h('td', { key: index }, orNone(mean, format))),
          ),
        ),
      ),
    ),
  )
}

/** Where the cursor is: at which moment, and how far from the left of the place. */
interface Pointed {
  readonly index: number
  readonly left: number
}

interface PlotProps {
  readonly data: ChartData
  /** The tone of each line: 1 to 6 of --series-…, 7 to 12 the same dashed, or `bad`; default: its place. */
  readonly tones: readonly (number | 'bad')[] | undefined
  readonly format: (value: number) => string
  /** The axis goes up to this at least. */
  readonly top: number
  /** The axis counts in steps of powers of two, as for bytes. */
  readonly binary: boolean
  readonly when: Moments
  readonly onPoint: (at: Pointed | null) => void
  /** uPlot could not be loaded. */
  readonly onFail: () => void
  /** The plot is off, e.g. because a table is shown. */
  readonly off: boolean
}

interface Drawn {
  readonly plot: uPlot
  readonly look: string
}

const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power)
const FONT_PX = 11
/** Room beside the drawing, as beside `.bars-svg`: axes of charts above one another are in one place. */
const BEFORE_PX = 60
const AFTER_PX = 18
/** Count of --series-…; tones beyond them are dashed lines in the same colours. */
const COLOURS = 6

/** Keeps a plot in its place, in the colours of the theme. `move` points at a moment; null: at none. */
function usePlot(props: PlotProps) {
  const { data, tones, off } = props
  const place = useRef<HTMLDivElement>(null)
  const drawn = useRef<Drawn | null>(null)
  const latest = useRef(props)
  latest.current = props
  const [theme, setTheme] = useState(0)
  const look = useMemo(
    () => JSON.stringify([data.lines.map(({ label }) => label), tones, theme]),
    [data, tones, theme],
  )

  useEffect(() => onThemeChange(() => setTheme((old) => old + 1)), [])
  useEffect(() => {
    const element = place.current
    if (off || !element) return
    let gone = false
    const observer = new ResizeObserver(() => drawn.current?.plot.setSize(elementSize(element)))
    const draw = (Plot: typeof uPlot) => {
      if (gone) return
      const plot = new Plot(plotOptions(latest, element), plotColumns(latest.current.data), element)
      drawn.current = { plot, look }
      observer.observe(element)
    }
    loadPlot().then(draw, () => !gone && latest.current.onFail())
    return () => {
      gone = true
      observer.disconnect()
      drawn.current?.plot.destroy()
      drawn.current = null
    }
  }, [look, off])
  useEffect(() => {
    if (drawn.current?.look === look) drawn.current.plot.setData(plotColumns(data))
  }, [data, look])

  const move = (index: number | null) => {
    const plot = drawn.current?.plot
    const time = index === null ? undefined : data.times[index]
    plot?.setCursor(time === undefined ? { left: -10, top: -10 } : { left: plot.valToPos(time, 'x'), top: 1 })
  }
  return { place, move }
}

/** Has views load what draws charts while they ask for their data. */
export function useCharts(): void {
  useLayoutEffect(() => {
    // The chart itself reports that it cannot be loaded.
    loadPlot().catch(() => {})
  }, [])
}

async function loadPlot() {
  const [{ default: Plot }] = await Promise.all([import('uplot'), styleSheet('vendor/uplot.css')])
  return Plot
}

function plotColumns({ times, lines }: ChartData): uPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])]
}

function elementSize(element: HTMLElement) {
  return { width: Math.max(80, element.clientWidth), height: element.clientHeight }
}

function plotOptions(latest: { readonly current: PlotProps }, element: HTMLElement): uPlot.Options {
  const { top } = latest.current
  const colour = colourReader(element)
  return {
    ...elementSize(element),
    padding: [8, AFTER_PX, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: {
        time: true,
        range: () => {
          const { fromMs, toMs } = axisIn(latest.current)
          return [fromMs / 1000, toMs / 1000]
        },
      },
      // Where all is 0 the ticks of a scale that is next to nothing would all be the same.
      y: { range: (_plot, _low, high) => [0, Math.max(top, (high ?? 0) * 1.1 || 1)] },
    },
    axes: axesOf(latest, colour),
    series: [{}, ...seriesOf(latest.current, colour)],
    hooks: { setCursor: [(plot) => latest.current.onPoint(pointedIn(plot))] },
  }
}

function pointedIn({ cursor, over }: uPlot): Pointed | null {
  const { idx, left = -1 } = cursor
  return typeof idx === 'number' && left >= 0 ? { index: idx, left: left + over.offsetLeft } : null
}

function axisIn({ when, data }: PlotProps): TimeAxis {
  return when.axis(data.times)
}

type Colour = (name: string) => string

function axesOf(latest: { readonly current: PlotProps }, colour: Colour): uPlot.Axis[] {
  const common = {
    stroke: colour('--ink-3'),
    font: `${FONT_PX}px ${getComputedStyle(document.body).fontFamily}`,
    ticks: { show: false },
    grid: { stroke: colour('--line'), width: 1 },
  }
  return [
    {
      ...common,
      grid: { show: false },
      size: 30,
      gap: 9,
      splits: () => axisIn(latest.current).marks.map(({ atMs }) => atMs / 1000),
      values: () => axisIn(latest.current).marks.map(({ label }) => label),
    },
    {
      ...common,
      size: BEFORE_PX,
      space: 34,
      ...(latest.current.binary ? { incrs: POWERS_OF_TWO } : {}),
      values: (_plot, splits) => splits.map((value) => rounded(latest.current.format(value))),
    },
  ]
}

function seriesOf({ data, tones }: PlotProps, colour: Colour): uPlot.Series[] {
  return data.lines.map(({ label }, index) => {
    const tone = tones?.[index] ?? index + 1
    const stroke = colour(tone === 'bad' ? '--bad' : `--series-${((tone - 1) % COLOURS) + 1}`)
    const dash = tone !== 'bad' && tone > COLOURS ? { dash: [5, 4] } : {}
    const filter = (plot: uPlot, line: number) => lonePoints(plot.data[line] ?? [])
    return { label, stroke, ...dash, width: 1.5, points: { show: false, size: 4, fill: stroke, filter } }
  })
}

/** "4.00 s" is 4 s on an axis. */
function rounded(text: string): string {
  return text.replace(/\.0+(?=\D|$)/, '')
}

/** A custom property as a colour for a canvas, in the current theme. */
function colourReader(element: HTMLElement): Colour {
  return (name) => {
    element.style.setProperty('color', `var(${name})`)
    const { color } = getComputedStyle(element)
    element.style.removeProperty('color')
    return color
  }
}

function onThemeChange(listener: () => void): () => void {
  const system = matchMedia('(prefers-color-scheme: dark)')
  system.addEventListener('change', listener)
  addEventListener('lk-theme', listener)
  return () => {
    system.removeEventListener('change', listener)
    removeEventListener('lk-theme', listener)
  }
}

/** Values over time: `times` in epoch seconds, and a value (or null) of each line for each of them. */
interface ChartData {
  readonly times: readonly number[]
  readonly lines: readonly { readonly label: string; readonly values: readonly (number | null)[] }[]
}

const ROWS_MAX = 12
const LATEST_MAX = 12

/** Describes a chart for screen readers, one sentence per line. */
export function summaryOf({ lines }: ChartData, format: (value: number) => string): string {
  return lines
    .map(({ label, values }) => {
      const known = values.filter((value) => value !== null)
      const last = known.at(-1)
      if (last === undefined) return `${label}: no value.`
      const [low, high] = [Math.min(...known), Math.max(...known)]
      return `${label}: now ${format(last)}, between ${format(low)} and ${format(high)}.`
    })
    .join(' ')
}

interface SummaryRow {
  /** Epoch seconds: when the span of the row ends. */
  readonly at: number
  /** Mean of each line over the span; null where it has no value. */
  readonly means: readonly (number | null)[]
}

/** A chart as a table of a few rows, newest first. */
export function summaryRows({ times, lines }: ChartData): readonly SummaryRow[] {
  const each = Math.max(1, Math.ceil(times.length / ROWS_MAX))
  const rows: SummaryRow[] = []
  for (let end = times.length; end > 0; end -= each) {
    const start = Math.max(0, end - each)
    const means = lines.map(({ values }) => meanOf(values.slice(start, end)))
    rows.push({ at: times[end - 1] ?? 0, means })
  }
  return rows
}

function meanOf(values: readonly (number | null)[]): number | null {
  const known = values.filter((value) => value !== null)
  return known.length === 0 ? null : known.reduce((sum, value) => sum + value, 0) / known.length
}

/** The newest value, unless it is older than the last few moments. */
export function latestOf(values: readonly (number | null)[]): number | null {
  return values.slice(-LATEST_MAX).findLast((value) => value !== null) ?? null
}

/** Indexes of values between two missing ones: no line leads there, so they are drawn as points. */
export function lonePoints(values: ArrayLike<number | null | undefined>): number[] {
  const points: number[] = []
  for (let index = 0; index < values.length; index++) {
    const isThere = (at: number) => typeof values[at] === 'number'
    if (isThere(index) && !isThere(index - 1) && !isThere(index + 1)) points.push(index)
  }
  return points
}

/** 14:03:07 of epoch seconds, in the reader's own time zone. */
export function axisClock(seconds: number): string {
  return new Date(seconds * 1000).toTimeString().slice(0, 8)
}
