import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type Result, readResults } from './harness/result.ts'
import { ROOT } from './peers/install.ts'
import { barPlot, type Figure } from './plot.ts'
import { markdownTable } from './table.ts'

// `node bench/report.ts`: draws the plots of bench/results and writes the tables into README.md.

const BEGIN = '<!-- bench:begin -->'
const END = '<!-- bench:end -->'

const PER_GB: Figure = {
  title: 'CPU seconds of the server per GB uploaded (less is better)',
  value: ({ cpu }) => cpu,
  text: ({ cpu }) => `${cpu.toFixed(2)} s`,
  sharedScale: true,
}
const PER_REQUEST: Figure = {
  title: 'CPU time of the server per request (less is better)',
  value: ({ cpu }) => cpu,
  text: ({ cpu }) => `${cpu.toFixed(1)} µs`,
  sharedScale: false,
}
const MEMORY: Figure = {
  title: 'Peak memory of the server (less is better)',
  value: ({ peakRssMib }) => peakRssMib,
  text: ({ peakRssMib }) => `${Math.round(peakRssMib)} MiB`,
  sharedScale: true,
}

const PER_SECOND: Figure = {
  title: 'Jobs, puts and webhooks per second (more is better)',
  value: ({ requests, seconds }) => requests / seconds,
  text: ({ requests, seconds }) => Math.round(requests / seconds).toString(),
  sharedScale: false,
}

/** Order in the README, and what each plot shows. */
const FIGURES: readonly (readonly [name: string, Figure])[] = [
  ['multipart', PER_GB],
  ['slow-provider', MEMORY],
  ['base64', PER_GB],
  ['small', PER_REQUEST],
  ['chat', PER_REQUEST],
  ['jobs', PER_SECOND],
]

if (import.meta.main ?? process.argv[1]?.endsWith('bench/report.ts')) writeReport()

/** Draws every plot; where the README has the two markers, replaces what stands between them. */
export function writeReport(): void {
  const results = readResults()
  const sections: string[] = []
  for (const [name, figure] of FIGURES) {
    const result = results.find((one) => one.name === name)
    if (!result) continue
    writeFileSync(join(ROOT, 'bench', 'results', `${name}.svg`), barPlot(result, figure))
    sections.push(section(result, figure))
  }
  const path = join(ROOT, 'README.md')
  const readme = existsSync(path) ? readFileSync(path, 'utf8') : ''
  const begin = readme.indexOf(BEGIN)
  const end = readme.indexOf(END)
  if (begin < 0 || end < begin) {
    console.error(`bench: README.md lacks ${BEGIN} and ${END}, so only the plots were drawn`)
    return
  }
  const block = [BEGIN, ...sections, conditions(results), END].join('\n\n')
  writeFileSync(path, readme.slice(0, begin) + block + readme.slice(end + END.length))
}

function section(result: Result, figure: Figure): string {
  const image = `![${result.title}: ${figure.title}](bench/results/${result.name}.svg)`
  const skipped = result.skipped.map(({ candidate, reason }) => `\`${candidate}\` (${reason.split('\n')[0]})`)
  const missing = skipped.length > 0 ? [`Not measured: ${skipped.join(', ')}.`] : []
  return [`### ${result.title}`, image, markdownTable(result), ...missing].join('\n\n')
}

/** What every reader of a benchmark asks first. */
function conditions(results: readonly Result[]): string {
  const machines = [...new Set(results.map(({ machine }) => JSON.stringify(machine)))]
  const lines = machines.map((text) => {
    const of = results.filter(({ machine }) => JSON.stringify(machine) === text)
    const { machine, at } = of[0] as Result
    const versions = Object.entries(
      Object.assign({}, ...of.map((one) => one.versions)) as Record<string, string>,
    )
    const commits = [...new Set(of.map(({ commit }) => commit))].join(', ')
    const networks = [...Map.groupBy(of, ({ network }) => network)].map(
      ([network, alike]) => `${alike.map(({ name }) => name).join(', ')}: ${network}`,
    )
    return [
      `Measured ${at.slice(0, 10)} at commit ${commits} on ${machine.cpu}, ${machine.cores} cores, `,
      `${machine.memoryGib} GiB, ${machine.system}, Linux ${machine.kernel}, Node ${machine.node}, `,
      `${versions.map((one) => one.join(' ')).join(', ')}. `,
      `${capital(machine.placement)}. Loopback without TLS (${networks.join('; ')}). `,
      'Every server’s answer is checked before it is measured; figures are medians of alternating runs, ',
      'GB = 10⁹ bytes of request bodies, CPU and memory of all processes of the server. ',
      '“Waits for” names the side that ran at 85 % of its core or more.',
    ].join('')
  })
  return lines.join('\n\n')
}

function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}
