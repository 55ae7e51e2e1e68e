import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import { styleSheet } from '../style-sheet.ts'
import { type ChartData, clock, lonePoints } from './chart-words.ts'

/** Where the cursor is: at which moment, and how far from the left of the place. */
export interface Pointed {
  readonly index: number
  readonly left: number
}

interface PlotProps {
  readonly data: ChartData
  /** The tone of each line: 1 to 6 of --series-…, 7 to 12 the same dashed, or `bad`; its place unless said. */
  readonly tones: readonly (number | 'bad')[] | undefined
  readonly format: (value: number) => string
  /** The axis goes up to this at least. */
  readonly top: number
  /** The axis counts in steps of powers of two, as for bytes. */
  readonly binary: boolean
  readonly onPoint: (at: Pointed | null) => void
  /** uPlot could not be loaded. */
  readonly onFail: () => void
  /** Nothing is drawn, e.g. since a table stands there. */
  readonly off: boolean
}

interface Drawn {
  readonly plot: uPlot
  readonly look: string
}

const POWERS_OF_TWO = Array.from({ length: 50 }, (_, power) => 2 ** power)
/** What happened within less is drawn at the end of so much, rather than spread. */
const SPAN_MIN_SECONDS = 600
const FONT_PX = 11
/** Those of --series-…; tones beyond them are dashed lines in the same colours. */
const COLOURS = 6

/** Keeps a plot in its place, in the colours of the theme. `move` points at a moment; null: at none. */
export function usePlot(props: PlotProps) {
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
    const observer = new ResizeObserver(() => drawn.current?.plot.setSize(sizeOf(element)))
    const draw = (Plot: typeof uPlot) => {
      if (gone) return
      const plot = new Plot(optionsOf(latest, element), columnsOf(latest.current.data), element)
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
    if (drawn.current?.look === look) drawn.current.plot.setData(columnsOf(data))
  }, [data, look])

  const move = (index: number | null) => {
    const plot = drawn.current?.plot
    const time = index === null ? undefined : data.times[index]
    plot?.setCursor(time === undefined ? { left: -10, top: -10 } : { left: plot.valToPos(time, 'x'), top: 1 })
  }
  return { place, move }
}

async function loadPlot() {
  const [{ default: Plot }] = await Promise.all([import('uplot'), styleSheet('vendor/uplot.css')])
  return Plot
}

function columnsOf({ times, lines }: ChartData): uPlot.AlignedData {
  return [[...times], ...lines.map(({ values }) => [...values])]
}

function sizeOf(element: HTMLElement) {
  return { width: Math.max(80, element.clientWidth), height: element.clientHeight }
}

function optionsOf(latest: { readonly current: PlotProps }, element: HTMLElement): uPlot.Options {
  const { top } = latest.current
  const colour = colourReader(element)
  return {
    ...sizeOf(element),
    padding: [8, 18, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: {
      x: {
        time: true,
        // What uPlot proposes for one moment alone is the day behind it.
        range: ({ data: [times] }) => {
          const end = times.at(-1) ?? 0
          return [Math.min(times[0] ?? 0, end - SPAN_MIN_SECONDS), end]
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

type Colour = (name: string) => string

function axesOf(latest: { readonly current: PlotProps }, colour: Colour): uPlot.Axis[] {
  const common = {
    stroke: colour('--ink-3'),
    font: `${FONT_PX}px ${fontFamily()}`,
    ticks: { show: false },
    grid: { stroke: colour('--line'), width: 1 },
  }
  return [
    {
      ...common,
      grid: { show: false },
      size: 30,
      gap: 9,
      space: 64,
      values: (_plot, splits) => splits.map((time) => clock(time).slice(0, 5)),
    },
    {
      ...common,
      size: (plot, values) => widest(plot, values),
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

/** As much room as the longest word of the axis needs. */
function widest({ ctx }: uPlot, values: readonly string[] | null): number {
  if (!values) return 40
  ctx.save()
  ctx.font = `${FONT_PX * devicePixelRatio}px ${fontFamily()}`
  const width = Math.max(...values.map((value) => ctx.measureText(value).width), 0) / devicePixelRatio
  ctx.restore()
  return Math.ceil(width) + 12
}

function fontFamily(): string {
  return getComputedStyle(document.body).fontFamily
}

/** "4.00 s" is 4 s on an axis. */
function rounded(text: string): string {
  return text.replace(/\.0+(?=\D|$)/, '')
}

/** Colours as a canvas takes them: what a custom property comes to in the theme of now. */
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
