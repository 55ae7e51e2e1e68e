import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ROOT } from './peers/install.ts'
import { courseChart } from './plot.ts'

/** How one node fared at one moment. */
export interface SoakSample {
  readonly seconds: number
  /** Place of the node; the first is never killed. */
  readonly node: number
  readonly rssMiB: number
  readonly heapMiB: number
  readonly descriptors: number
  /** 99th of a hundred delays of the event loop, ms, with the 10 ms of its timer. */
  readonly loopMs: number
}

/** Findings of the last `npm run soak` that was recorded. */
export interface Soak {
  readonly commit: string
  readonly at: string
  readonly minutes: number
  readonly killed: number
  /** Answered calls, by their kind. */
  readonly done: Readonly<Record<string, number>>
  /** Calls that a kill broke, or that were refused for a moment after it. */
  readonly broken: Readonly<Record<string, number>>
  readonly samples: readonly SoakSample[]
}

export const SOAK_CHART = 'docs/charts/soak.svg'
const FILE = join(ROOT, 'bench', 'soak.json')

/** Null: none was recorded. */
export function readSoak(): Soak | null {
  return existsSync(FILE) ? (JSON.parse(readFileSync(FILE, 'utf8')) as Soak) : null
}

/** The node that is never killed. */
const own = ({ samples }: Soak) => samples.filter(({ node }) => node === 0)

export function soakChart(soak: Soak): string {
  const course = (label: string, unit: string, value: (sample: SoakSample) => number) => {
    const values = own(soak).map(value)
    return { label, values, text: `${values.at(-1)} ${unit}`.trim() }
  }
  return courseChart({
    title: `A node under mixed traffic for ${soak.minutes} minutes`,
    courses: [
      course('resident memory', 'MiB', ({ rssMiB }) => rssMiB),
      course('heap in use', 'MiB', ({ heapMiB }) => heapMiB),
      course('descriptors', '', ({ descriptors }) => descriptors),
      course('delay of the loop, p99', 'ms', ({ loopMs }) => loopMs),
    ],
  })
}

/** Mean resident memory in one quarter of the time, MiB. */
function rssIn(soak: Soak, quarter: 1 | 2 | 3): number {
  const all = own(soak)
  const part = all.slice(Math.floor((all.length * quarter) / 4), Math.floor((all.length * (quarter + 1)) / 4))
  return Math.round(part.reduce((sum, { rssMiB }) => sum + rssMiB, 0) / part.length)
}

/** How much something grew in the second half, an hour, by least squares. */
function growth(soak: Soak, value: (sample: SoakSample) => number): string {
  const half = own(soak).slice(Math.floor(own(soak).length / 2))
  const mean = (of: (sample: SoakSample) => number) =>
    half.reduce((sum, sample) => sum + of(sample), 0) / half.length
  const [at, level] = [mean(({ seconds }) => seconds), mean(value)]
  const shared = mean((sample) => (sample.seconds - at) * (value(sample) - level))
  const slope = (shared / mean(({ seconds }) => (seconds - at) ** 2)) * 3600
  return `${slope < 0 ? '−' : ''}${Math.abs(slope).toFixed(1)}`
}

export function soakSection(soak: Soak): string {
  const counted = Object.entries(soak.done).map(([kind, count]) => `${count.toLocaleString('en')} ${kind}`)
  const broken = Object.values(soak.broken).reduce((sum, count) => sum + count, 0)
  return [
    '## Soak',
    `![Memory, descriptors and delay of a node under mixed traffic](${SOAK_CHART.replace('docs/', '')})`,
    `Measured at commit \`${soak.commit}\` of ${soak.at.slice(0, 10)}, not at any later one.`,
    `Two nodes over Redis and S3 for ${soak.minutes} minutes, in which one of them was killed ${soak.killed} times: ` +
      `${counted.join(', ')} were answered as they should be, and ${broken} calls were broken by the kills. No call ` +
      'under a key was answered twice differently, no job was lost, and in the end accounts and records of usage ' +
      'agreed to the micro-dollar. Resident memory of the other node was ' +
      `${rssIn(soak, 1)} MiB on average in the second quarter, ${rssIn(soak, 2)} in the third and ${rssIn(soak, 3)} ` +
      `in the last. In the second half it changed by ${growth(soak, ({ rssMiB }) => rssMiB)} MiB an hour, and the ` +
      `heap in use by ${growth(soak, ({ heapMiB }) => heapMiB)}, by least squares. ` +
      '`npm run soak -- --hours 24` does it for a day, `--hours 168` for a week.',
  ].join('\n\n')
}
