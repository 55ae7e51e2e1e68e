/** One bar of a chart. */
export interface Bar {
  /** Bars with the same group stand together under its name. */
  readonly group: string
  readonly label: string
  readonly value: number
  /** The value as a reader sees it. */
  readonly text: string
  /** Larkway's own, which is drawn in colour. */
  readonly own: boolean
}

export interface Chart {
  readonly title: string
  readonly bars: readonly Bar[]
  /** One scale for the bars of all groups, or one for each group because their values differ in size. */
  readonly sharedScale: boolean
}

/** How one figure went on, oldest first. */
export interface Course {
  readonly label: string
  /** Null: not measured at that point. */
  readonly values: readonly (number | null)[]
  /** The last value as a reader sees it. */
  readonly text: string
}

const WIDTH = 760
const LABEL_WIDTH = 270
const VALUE_WIDTH = 90
const BAR_HEIGHT = 18
const LINE_HEIGHT = 24
const GROUP_GAP = 30
const COURSE_HEIGHT = 38

/**
 * Draws horizontal bars in groups. There is no background and there are two sets of colours, so the chart reads on
 * light and on dark pages; a viewer that knows no media queries uses the first set, which reads on both.
 */
export function barChart({ title, bars, sharedScale }: Chart): string {
  const groups = Map.groupBy(bars, ({ group }) => group)
  const scaleOf = (shown: readonly Bar[]) =>
    (WIDTH - LABEL_WIDTH - VALUE_WIDTH) / Math.max(...shown.map(({ value }) => value))
  const parts: string[] = []
  let y = 46
  for (const [name, group] of groups) {
    parts.push(text('group', 0, y + 4, name))
    y += 14
    const scale = scaleOf(sharedScale ? bars : group)
    for (const bar of group) {
      const width = Math.max(1.5, Math.round(bar.value * scale))
      const middle = y + BAR_HEIGHT / 2 + 4
      const kind = bar.own ? 'own' : 'peer'
      parts.push(
        text(`label ${kind}-label`, LABEL_WIDTH - 10, middle, bar.label),
        `<rect class="${kind}" x="${LABEL_WIDTH}" y="${y}" width="${width}" height="${BAR_HEIGHT}" rx="2"/>`,
        text('value', LABEL_WIDTH + width + 8, middle, bar.text),
      )
      y += LINE_HEIGHT
    }
    y += GROUP_GAP
  }
  return drawing(title, y - GROUP_GAP + 8, parts)
}

/** Draws a line for each figure over the same points, each on a scale of its own from 0 up. */
export function courseChart({ title, courses }: { title: string; courses: readonly Course[] }): string {
  const width = WIDTH - LABEL_WIDTH - VALUE_WIDTH
  const points = Math.max(2, ...courses.map(({ values }) => values.length))
  const parts = courses.flatMap(({ label, values, text: last }, row) => {
    const bottom = 32 + (row + 1) * COURSE_HEIGHT - 8
    const top = Math.max(...values.map((value) => value ?? 0)) || 1
    const places = values.flatMap((value, index) => {
      const x = LABEL_WIDTH + Math.round((width * index) / (points - 1))
      return value === null ? [] : [{ x, y: Math.round(bottom - (value / top) * (COURSE_HEIGHT - 14)) }]
    })
    const end = places.at(-1)
    return [
      text('label own-label', LABEL_WIDTH - 10, bottom - 4, label),
      `<path class="floor" d="M${LABEL_WIDTH} ${bottom}h${width}"/>`,
      `<polyline class="course" points="${places.map(({ x, y }) => `${x},${y}`).join(' ')}"/>`,
      ...(end ? [`<circle class="own" cx="${end.x}" cy="${end.y}" r="3"/>`] : []),
      text('value', LABEL_WIDTH + width + 8, bottom - 4, last),
    ]
  })
  return drawing(title, 32 + courses.length * COURSE_HEIGHT + 8, parts, COURSE_STYLE)
}

const COURSE_STYLE = `
.course { fill: none; stroke: #0e8f8a; stroke-width: 2 }
.floor { stroke: #9aa4ae; stroke-opacity: 0.4 }
@media (prefers-color-scheme: dark) { .course { stroke: #2cb5ae } }`

function drawing(title: string, height: number, parts: readonly string[], style = ''): string {
  const size = `viewBox="0 0 ${WIDTH} ${height}" width="${WIDTH}" height="${height}"`
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} role="img" aria-label="${escapeXml(title)}">
<style>
text { font: 13px system-ui, -apple-system, "Segoe UI", "Helvetica Neue", Arial, sans-serif; fill: #6e7781 }
.title { font-size: 15px; font-weight: 600 }
.group { font-weight: 600 }
.label { text-anchor: end }
.own-label { font-weight: 600 }
.own { fill: #0e8f8a }
.peer { fill: #9aa4ae }
@media (prefers-color-scheme: light) { text { fill: #3d444d } }
@media (prefers-color-scheme: dark) { text { fill: #c9d1d9 } .own { fill: #2cb5ae } .peer { fill: #6e7681 } }${style}
</style>
${text('title', 0, 18, title)}
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
