import { isLarkway, type Result, type Row } from './harness/result.ts'

/** What a plot shows of a row. */
export interface Figure {
  readonly title: string
  /** Of what a reader compares. */
  readonly value: (row: Row) => number
  readonly text: (row: Row) => string
  /** Whether the bars of all loads have one scale, or each load its own because they are of different size. */
  readonly sharedScale: boolean
}

const WIDTH = 760
const LABEL_WIDTH = 270
const VALUE_WIDTH = 90
const BAR_HEIGHT = 18
const LINE_HEIGHT = 24
const GROUP_GAP = 30

/**
 * Horizontal bars, one group per load. No background and two sets of colours, so that it reads on light and on dark
 * pages; without support for media queries the first set is used, which reads on both.
 */
export function barPlot({ rows }: Pick<Result, 'rows'>, figure: Figure): string {
  const loads = [...new Set(rows.map(({ load }) => load))]
  const scaleOf = (shown: readonly Row[]) =>
    (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / Math.max(...shown.map(figure.value))
  const parts: string[] = []
  let y = 46
  for (const load of loads) {
    parts.push(text('load', 0, y + 4, load))
    y += 14
    const group = rows.filter((row) => row.load === load)
    const scale = scaleOf(figure.sharedScale ? rows : group)
    for (const row of group) {
      const width = Math.max(1.5, Math.round(figure.value(row) * scale))
      const middle = y + BAR_HEIGHT / 2 + 4
      const kind = isLarkway(row.candidate) ? 'own' : 'peer'
      parts.push(
        text(`label ${kind}-label`, LABEL_WIDTH - 10, middle, row.label),
        `<rect class="${kind}" x="${LABEL_WIDTH}" y="${y}" width="${width}" height="${BAR_HEIGHT}" rx="2"/>`,
        text('value', LABEL_WIDTH + width + 8, middle, figure.text(row)),
      )
      y += LINE_HEIGHT
    }
    y += GROUP_GAP
  }
  const height = y - GROUP_GAP + 8
  const size = `viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${escapeXml(figure.title)}">
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #6e7781 }
.title { font-size: 15px; font-weight: 600 }
.load { font-weight: 600 }
.label { text-anchor: end }
.own-label { font-weight: 600 }
.own { fill: #0e8f8a }
.peer { fill: #9aa4ae }
@media (prefers-color-scheme: light) { text { fill: #3d444d } }
@media (prefers-color-scheme: dark) { text { fill: #c9d1d9 } .own { fill: #2cb5ae } .peer { fill: #6e7681 } }
</style>
${text('title', 0, 18, figure.title)}
${parts.join('\n')}
</svg>
`
}

function text(kind: string, x: number, y: number, content: string): string {
  return `<text class="${kind}" x="${x}" y="${y}">${escapeXml(content)}</text>`
}

function escapeXml(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('"', '&quot;')
}
