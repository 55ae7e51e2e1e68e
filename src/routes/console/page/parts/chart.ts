import { useEffect, useRef, useState } from 'preact/hooks'
import { orNone } from '../format.ts'
import { html } from '../html.ts'
import { type ChartData, clock, latestOf, rowsOf, summaryOf } from './chart-words.ts'
import { type Pointed, usePlot } from './plot.ts'

export interface ChartProps {
  readonly title: string
  /** Beside the title: "per second". */
  readonly unit?: string
  readonly data: ChartData
  /** The tone of each line: 1 to 6 of --series-…, 7 to 12 the same dashed, or `bad`; its place unless said. */
  readonly tones?: readonly (number | 'bad')[]
  /** Writes a value with its unit. */
  readonly format: (value: number) => string
  /** The axis goes up to this at least. */
  readonly top?: number
  /** The axis counts in steps of powers of two, as for bytes. */
  readonly binary?: boolean
}

/**
 * Lines over time. uPlot is loaded when the first chart is drawn; its place is kept free until then. What was at a
 * moment is shown at the pointer, or where arrow keys lead; and the whole can be read as a table.
 */
export function Chart(props: ChartProps) {
  const { title, unit, data, format, top = 0, tones, binary = false } = props
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const [asTable, setAsTable] = useState(false)
  const onFail = () => setAsTable(true)
  const { place, move } = usePlot({
    data,
    tones,
    format,
    top,
    binary,
    onPoint: setPointed,
    onFail,
    off: asTable,
  })
  const last = data.times.length - 1
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
    if (to === undefined || last < 0) return
    event.preventDefault()
    move(Math.max(0, Math.min(last, to)))
  }
  const name = `${title}${unit ? ` ${unit}` : ''}`
  return html`<figure class="chart">
    <figcaption class="chart-head">
      <span class="chart-title">${title}${unit ? html` <span class="quiet">${unit}</span>` : null}</span>
      <button class="chart-switch" type="button" onClick=${() => setAsTable(!asTable)}>
        ${asTable ? 'Chart' : 'Table'}<span class="hidden"> of ${title}</span>
      </button>
    </figcaption>
    <${Legend} data=${data} tones=${tones} format=${format} />
    ${
      asTable
        ? html`<${ChartTable} title=${title} data=${data} format=${format} key="table" />`
        : html`<div class="chart-body" key="chart">
            <div
              class="chart-place"
              ref=${place}
              tabindex="0"
              role="img"
              aria-label=${`${name}, the last hour. ${summaryOf(data, format)} Arrow keys read moments.`}
              onKeyDown=${onKey}
              onBlur=${() => move(null)}
            ></div>
            <${Tip} pointed=${pointed} data=${data} tones=${tones} format=${format} />
          </div>`
    }
  </figure>`
}

type LinesProps = Pick<ChartProps, 'data' | 'tones' | 'format'>

function Legend({ data, tones, format }: LinesProps) {
  return html`<ul class="chart-legend">
    ${data.lines.map(
      ({ label, values }, line) => html`<li class="chart-line" key=${label}>
        <span class=${`chart-swatch tone-${tones?.[line] ?? line + 1}`}></span>
        <span class="chart-label cut" title=${label}>${label}</span>
        <strong>${orNone(latestOf(values), format)}</strong>
      </li>`,
    )}
  </ul>`
}

/** What was at the moment that is pointed at; it stands beside the pointer, on the side where there is room. */
function Tip({ pointed, data, tones, format }: LinesProps & { readonly pointed: Pointed | null }) {
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
  return html`<div class="chart-live" role="status">
    ${
      pointed === null || time === undefined
        ? null
        : html`<div class="chart-tip" ref=${tip}>
            <p class="quiet">${clock(time)}</p>
            ${data.lines.map(
              ({ label, values }, line) => html`<p class="chart-line" key=${label}>
                <span class=${`chart-swatch tone-${tones?.[line] ?? line + 1}`}></span>
                <span class="chart-label cut">${label}</span>
                <strong>${orNone(values[pointed.index] ?? null, format)}</strong>
              </p>`,
            )}
          </div>`
    }
  </div>`
}

function ChartTable(props: Pick<ChartProps, 'title' | 'data' | 'format'>) {
  const { title, data, format } = props
  return html`<div class="chart-place chart-table" tabindex="0" role="region" aria-label=${title}>
    <table class="table-plain">
      <caption class="hidden">${title}: means of the last hour, newest first</caption>
      <thead>
        <tr>
          <th scope="col">Until</th>
          ${data.lines.map(({ label }) => html`<th scope="col" key=${label}>${label}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rowsOf(data).map(
          ({ at, means }) => html`<tr key=${at}>
            <th scope="row">${clock(at)}</th>
            ${means.map((mean, index) => html`<td key=${index}>${orNone(mean, format)}</td>`)}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`
}
