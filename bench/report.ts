import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { addedP50Ms, isLarkway, type Result, type Row, type Run, readResults } from './harness/result.ts'
import { LITELLM } from './peers/gateways.ts'
import { ROOT } from './peers/install.ts'
import { type Bar, barChart, courseChart } from './plot.ts'
import { type Entry, readHistory } from './quick/history.ts'
import { QUICK_FIGURES } from './quick/quick.ts'
import { SIZING_CHART, SIZING_PAGE, sizingChart, sizingPage } from './sizing.ts'
import { readSoak, SOAK_CHART, type Soak, soakChart, soakSection } from './soak.ts'
import { markdownTable } from './table.ts'

// `node bench/report.ts` writes docs/benchmarks.md, the charts in docs/charts and the summary in README.md, all of
// them out of bench/results and bench/history.jsonl. A test holds that the committed files are what it writes.

const PAGE = 'docs/benchmarks.md'
const SUMMARY_CHART = 'docs/charts/summary.svg'
const HISTORY_CHART = 'docs/charts/history.svg'
/** So many entries are in the table; the chart has them all. */
const HISTORY_SHOWN = 5
const BEGIN = '<!-- bench -->'
const END = '<!-- /bench -->'

/** The figure of a row that a chart compares. */
interface Figure {
  readonly title: string
  readonly value: (row: Row) => number
  readonly text: (row: Row) => string
  readonly sharedScale: boolean
}

const PER_GB: Figure = {
  title: 'CPU seconds of the server per GB uploaded (less is better)',
  value: ({ cpu }) => cpu,
  text: ({ cpu }) => seconds(cpu),
  sharedScale: true,
}
const PER_REQUEST: Figure = {
  title: 'CPU time of the server per request (less is better)',
  value: ({ cpu }) => cpu,
  text: ({ cpu }) => microseconds(cpu),
  sharedScale: false,
}
const MEMORY: Figure = {
  title: 'Peak memory of the server (less is better)',
  value: ({ peakRssMib }) => peakRssMib,
  text: ({ peakRssMib }) => mebibytes(peakRssMib),
  sharedScale: true,
}
const PER_SECOND: Figure = {
  title: 'Jobs, puts and webhooks per second (more is better)',
  value: ({ requests, seconds }) => requests / seconds,
  text: ({ requests, seconds }) => Math.round(requests / seconds).toString(),
  sharedScale: false,
}
/** Every scenario in the order of the page, with the figure that its chart shows. */
const SECTIONS: readonly (readonly [scenario: string, Figure])[] = [
  ['multipart', PER_GB],
  ['slow-provider', MEMORY],
  ['base64', PER_GB],
  ['small', PER_REQUEST],
  ['chat', PER_REQUEST],
  ['jobs', PER_SECOND],
  ['processes', PER_REQUEST],
  ['live', PER_REQUEST],
  ['cache', PER_REQUEST],
  ['limiter', PER_REQUEST],
  ['observability', PER_REQUEST],
  ['console', PER_REQUEST],
  ['usage', PER_REQUEST],
]

/** A line of the README's table: one figure of one load, at each server that was measured under it. */
interface SummaryLine {
  readonly title: string
  readonly scenario: string
  readonly load: string
  /** Our own candidate under that load. */
  readonly own: string
  /** A rate that LiteLLM cannot keep would be measured as a queue. */
  readonly withoutLiteLlm?: true
  readonly value: (row: Row, rows: readonly Row[]) => number | undefined
  readonly text: (value: number) => string
  readonly charted: boolean
}

/** The columns behind our own: candidate and head. */
const SUMMARY_PEERS = [
  ['nginx-tuned', 'nginx, passing bytes on'],
  ['rolter', 'rolter (Rust)'],
  ['ferrogw', 'ferrogw (Go)'],
  ['portkey', 'Portkey (Node)'],
  [LITELLM.name, 'LiteLLM (Python)'],
] as const

const SUMMARY: readonly SummaryLine[] = [
  {
    title: 'CPU per small chat, 64 connections',
    scenario: 'chat',
    load: '64 connections',
    own: 'larkway',
    value: ({ cpu }) => cpu,
    text: microseconds,
    charted: true,
  },
  {
    title: 'Latency added to a chat (p50), 1,000 calls/s',
    scenario: 'chat',
    load: '1,000 calls/s',
    own: 'larkway',
    withoutLiteLlm: true,
    value: (row, rows) => addedP50Ms(rows, row),
    text: milliseconds,
    charted: false,
  },
  {
    title: 'CPU per GB of multipart uploads, 16 connections',
    scenario: 'multipart',
    load: '16 connections',
    own: 'larkway-memory',
    value: ({ cpu }) => cpu,
    text: seconds,
    charted: true,
  },
  {
    title: 'Peak memory, 64 uploads of 25 MB to a slow provider',
    scenario: 'slow-provider',
    load: '64 connections',
    own: 'larkway',
    value: ({ peakRssMib }) => peakRssMib,
    text: mebibytes,
    charted: true,
  },
]

if (import.meta.main ?? process.argv[1]?.endsWith('bench/report.ts')) writeReport()

export function writeReport(): void {
  for (const [path, content] of reportFiles(readResults(), readFileSync(join(ROOT, 'README.md'), 'utf8')))
    writeFileSync(join(ROOT, path), content)
}

/**
 * @param readme the README as it stands; what is between its two markers is replaced
 * @returns      each file of the report: path in the repository → content
 * @throws       Error when a result or a marker is missing: a report with a hole is not written
 */
export function reportFiles(
  results: readonly Result[],
  readme: string,
  history: readonly Entry[] = readHistory(),
  soak: Soak | null = readSoak(),
): ReadonlyMap<string, string> {
  const files = new Map<string, string>()
  for (const [name, figure] of SECTIONS) {
    const { rows } = resultOf(results, name)
    const bars = rows.map((row) => ({
      group: row.load,
      label: row.label,
      value: figure.value(row),
      text: figure.text(row),
      own: isLarkway(row.candidate),
    }))
    files.set(chartPath(name), barChart({ ...figure, bars }))
  }
  files.set(SUMMARY_CHART, summaryChart(results))
  if (history.length > 0) files.set(HISTORY_CHART, historyChart(history))
  files.set(SIZING_PAGE, sizingPage(results))
  files.set(SIZING_CHART, sizingChart(results))
  if (soak !== null) files.set(SOAK_CHART, soakChart(soak))
  files.set(PAGE, page(results, history, soak))
  const [begin, end] = [readme.indexOf(BEGIN), readme.indexOf(END)]
  if (begin < 0 || end < begin) throw new Error(`README.md lacks ${BEGIN} and ${END}`)
  files.set('README.md', `${readme.slice(0, begin)}${BEGIN}\n\n${summary(results)}\n\n${readme.slice(end)}`)
  return files
}

function resultOf(results: readonly Result[], scenario: string): Result {
  const result = results.find(({ name }) => name === scenario)
  if (!result) throw new Error(`bench/results lacks ${scenario}.json`)
  return result
}

function chartPath(scenario: string): string {
  return `docs/charts/${scenario}.svg`
}

function page(results: readonly Result[], history: readonly Entry[], soak: Soak | null): string {
  const shown = SECTIONS.map(([name, figure]) => ({ result: resultOf(results, name), figure }))
  return `${[
    '# Benchmarks',
    '<!-- Written by `node bench/report.ts` out of bench/results. -->',
    '`npm run bench` measures Larkway beside nginx, Portkey, a bare uWebSockets.js handler and handlers as people ' +
      'usually write them, in one run on one machine. The load, the provider and the server share that machine, so ' +
      'only ratios mean anything. [How it is measured](../bench/README.md), and what can be compared with what.',
    '**Each table is about the code of the commit that it was measured at; later changes are not in it:**',
    shown
      .map(({ result }) => `- [${result.title}](#${anchor(result.title)}): ${measuredAt(result)}`)
      .join('\n'),
    ...shown.map(({ result, figure }) => section(result, figure)),
    ...historySection(history),
    ...(soak === null ? [] : [soakSection(soak)]),
    '## Conditions',
    conditions(shown.map(({ result }) => result)),
  ].join('\n\n')}\n`
}

function measuredAt({ at, commit }: Result): string {
  return `commit \`${commit}\` of ${at.slice(0, 10)}`
}

function anchor(title: string): string {
  return title
    .toLowerCase()
    .replaceAll(/[^\w -]/g, '')
    .replaceAll(' ', '-')
}

function section(result: Result, figure: Figure): string {
  const image = `![${result.title}: ${figure.title}](charts/${result.name}.svg)`
  const skipped = result.skipped.map(({ candidate, reason }) => `\`${candidate}\` (${reason.split('\n')[0]})`)
  const missing = skipped.length > 0 ? [`Not measured: ${skipped.join(', ')}.`] : []
  const measured = `Measured at ${measuredAt(result)}, not at any later one.`
  return [`## ${result.title}`, image, measured, markdownTable(result), ...missing].join('\n\n')
}

/** The figures of the quick set as they went on: each as a multiple of what a peer took in the same rounds. */
function historySection(history: readonly Entry[]): string[] {
  const shown = history.slice(-HISTORY_SHOWN)
  const last = shown.at(-1)
  if (last === undefined) return []
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const rows = QUICK_FIGURES.map((name) => {
    const { value, unit } = last.figures[name] ?? {}
    const ratios = shown.map(({ figures }) => times(figures[name]?.ratio))
    return line([name, value === undefined ? '–' : `${value} ${unit}`, ...ratios])
  })
  const heads = shown.map(({ commit, at }) => `\`${commit.slice(0, 7)}\` of ${at}`)
  return [
    '## History',
    'What `npm run bench -- --quick` holds in every run of CI, by the commits that were recorded: each figure as a ' +
      'multiple of what its peer took in the same rounds. [Which peer, and what fails](../bench/README.md#gates).',
    `![The figures of the quick set over the recorded commits, as multiples of their peers](charts/history.svg)`,
    [
      line(['figure', `at \`${last.commit.slice(0, 7)}\``, ...heads]),
      line(['---', '---:', ...heads.map(() => '---:')]),
      ...rows,
    ].join('\n'),
    `Last recorded on ${last.machine}.`,
  ]
}

function historyChart(history: readonly Entry[]): string {
  const courses = QUICK_FIGURES.map((name) => {
    const values = history.map(({ figures }) => figures[name]?.ratio ?? null)
    return { label: name, values, text: times(values.at(-1) ?? undefined) }
  })
  return courseChart({ title: 'Multiples of the peer, by recorded commit (less is better)', courses })
}

function times(ratio: number | undefined): string {
  return ratio === undefined ? '–' : `${ratio} ×`
}

/** Conditions of the measurements, which every reader asks for first. */
function conditions(results: readonly Result[]): string {
  const byMachine = Map.groupBy(results, ({ machine }) => JSON.stringify(machine))
  return [...byMachine.values()]
    .map((alike) => {
      const { machine } = alike[0] as Result
      const versions = Object.entries(
        Object.assign({}, ...alike.map((one) => one.versions)) as Record<string, string>,
      )
      const networks = [...Map.groupBy(alike, ({ network }) => network)].map(
        ([network, those]) => `- ${capital(network)}: ${those.map(({ name }) => name).join(', ')}`,
      )
      return [
        `${machine.cpu}, ${machine.cores} cores, ${machine.memoryGib} GiB, ${machine.system}, Linux ` +
          `${machine.kernel}, ${[['Node', machine.node], ...versions].map((one) => one.join(' ')).join(', ')}. ` +
          `${capital(machine.placement)}. Loopback without TLS:`,
        networks.join('\n'),
        'Every server’s answer is checked before it is measured. Figures are medians of alternating runs; a GB is ' +
          '10⁹ bytes of request bodies; CPU and memory are those of all processes of the server; tables ' +
          'of 2026-11-27 and later leave the memory of the usage engine out, a process of at most 256 MiB that comes ' +
          'and goes. “Waits for” names the side that used 85 % of its core or more.',
      ].join('\n\n')
    })
    .join('\n\n')
}

/** The README's table and chart: every server at its best, all of one commit. */
function summary(results: readonly Result[]): string {
  const line = (cells: readonly string[]) => `| ${cells.join(' | ')} |`
  const heads = ['', 'Larkway', ...SUMMARY_PEERS.map(([, head]) => head)]
  const rows = SUMMARY.map((one) => {
    const [own, ...peers] = summaryValues(one, results).map((value) =>
      value === null ? '–' : one.text(value),
    )
    return line([one.title, `**${own}**`, ...peers])
  })
  return [
    `![Larkway beside nginx and four gateways: CPU and memory](${SUMMARY_CHART})`,
    [line(heads), line(['---', ...heads.slice(1).map(() => '---:')]), ...rows].join('\n'),
    `Measured in one run at ${measuredAt(summaryResult(results, SUMMARY[0]!.scenario))}; each server at the best of ` +
      'its rounds. Later changes are not in these figures. “–”: it cannot keep that rate. ' +
      `[All tables, and the conditions](${PAGE}); again with ` +
      '`npm run bench -- --only chat,multipart,slow-provider --rounds 2 --s3 --report`.',
  ].join('\n\n')
}

function summaryChart(results: readonly Result[]): string {
  const labels = ['Larkway', ...SUMMARY_PEERS.map(([, head]) => head)]
  const bars = SUMMARY.filter(({ charted }) => charted).flatMap((one) =>
    summaryValues(one, results).flatMap((value, index): Bar[] => {
      const label = labels[index] ?? ''
      return value === null
        ? []
        : [{ group: one.title, label, value, text: one.text(value), own: index === 0 }]
    }),
  )
  return barChart({ title: 'CPU and memory of the server (less is better)', bars, sharedScale: false })
}

/** @throws Error when the summary would have lines of several commits */
function summaryResult(results: readonly Result[], scenario: string): Result {
  const result = resultOf(results, scenario)
  const other = SUMMARY.map((one) => resultOf(results, one.scenario)).find(
    ({ commit }) => commit !== result.commit,
  )
  if (other) throw new Error(`${other.name}.json is of ${other.commit}, ${scenario}.json of ${result.commit}`)
  return result
}

function summaryValues(
  { scenario, load, own, withoutLiteLlm, value }: SummaryLine,
  results: readonly Result[],
): (number | null)[] {
  const rows = summaryResult(results, scenario).rows.map(atItsBest)
  return [own, ...SUMMARY_PEERS.map(([candidate]) => candidate)].map((candidate) => {
    if (withoutLiteLlm && candidate === LITELLM.name) return null
    const row = rows.find((one) => one.load === load && one.candidate === candidate)
    const figure = row && value(row, rows)
    if (figure === undefined) throw new Error(`${scenario}.json lacks ${candidate} under ${load}`)
    return figure
  })
}

function atItsBest(row: Row): Row {
  const least = (figure: (run: Run) => number) => Math.min(...row.runs.map(figure))
  const [cpu, p50Ms] = [least((run) => run.cpu), least((run) => run.p50Ms)]
  return { ...row, cpu, p50Ms, peakRssMib: least((run) => run.peakRssMib) }
}

function seconds(value: number): string {
  return `${value.toFixed(2)} s`
}

function milliseconds(value: number): string {
  return `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`
}

function microseconds(value: number): string {
  return `${value.toFixed(value < 100 ? 1 : 0)} µs`
}

function mebibytes(value: number): string {
  return `${Math.round(value)} MiB`
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
