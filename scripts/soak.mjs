// Mixed traffic on two nodes for hours, one of which is killed every ten minutes: `npm run soak -- --hours 24`. Writes
// what was measured and a chart of it. Plain JavaScript for Node 18 and newer.

import { spawn } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { capture, main, ROOT, Unusable } from './install.mjs'

const RESULT = join(ROOT, 'bench', 'results', 'soak.json')
const CHART = join(ROOT, 'docs', 'charts', 'soak.svg')
const FIGURES = [
  ['rssMiB', 'resident memory', 'MiB'],
  ['heapMiB', 'heap in use', 'MiB'],
  ['descriptors', 'descriptors', ''],
  ['loopMs', 'delay of the loop, p99', 'ms'],
]

/** Growth in the second half, by least squares: units an hour. */
function slopePerHour(points) {
  const half = points.slice(Math.floor(points.length / 2))
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length
  const [x, y] = [mean(half.map(([at]) => at)), mean(half.map(([, value]) => value))]
  const over = half.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0)
  return (over / half.reduce((sum, [at]) => sum + (at - x) ** 2, 0)) * 3_600
}

async function draw() {
  const { courseChart } = await import('../bench/plot.ts')
  const report = JSON.parse(readFileSync(RESULT, 'utf8'))
  // The first node is never killed.
  const own = report.samples.filter(({ node }) => node === 0)
  const courses = FIGURES.map(([field, label, unit]) => {
    const values = own.map((sample) => sample[field])
    return { label, values, text: `${values.at(-1)} ${unit}`.trim() }
  })
  writeFileSync(
    CHART,
    courseChart({ title: `A node under mixed traffic for ${report.minutes} minutes`, courses }),
  )
  const growth = slopePerHour(own.map(({ seconds, rssMiB }) => [seconds, rssMiB]))
  console.log(
    JSON.stringify({ ...report, samples: own.length, rssMiBPerHour: Number(growth.toFixed(2)) }, null, 1),
  )
}

async function soak() {
  const { values } = parseArgs({ options: { hours: { type: 'string' }, minutes: { type: 'string' } } })
  const minutes = values.minutes === undefined ? Number(values.hours ?? 2) * 60 : Number(values.minutes)
  if (!(minutes >= 1)) throw new Unusable('soak takes --hours N or --minutes N')
  const commit = (await capture('git', ['rev-parse', '--short=12', 'HEAD'], { cwd: ROOT })).trim()
  const env = { ...process.env, LARKWAY_TEST_SOAK_MINUTES: String(minutes), LARKWAY_TEST_SOAK_RESULT: RESULT }
  const args = [join(ROOT, 'scripts', 'test.mjs'), 'test/faults/soak.alone.long.test.ts']
  const child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: 'inherit' })
  const code = await new Promise((resolve) => child.on('exit', resolve))
  if (code !== 0) throw new Unusable('the soak has found a fault')
  writeFileSync(
    RESULT,
    `${JSON.stringify({ commit, ...JSON.parse(readFileSync(RESULT, 'utf8')) }, null, 1)}\n`,
  )
  await draw()
}

await main(soak)
