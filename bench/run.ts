import { type Base, findBase, provideBase } from './base.ts'
import { checkGates } from './gates.ts'
import { Lab } from './harness/lab.ts'
import { commit, machine, whyNotPublished } from './harness/machine.ts'
import { type MeasureOptions, measureAll, type Trial } from './harness/measure.ts'
import { cappedNetwork, systemNetwork } from './harness/network.ts'
import { isLarkway, type Result, type Row, writeResult } from './harness/result.ts'
import { measureTogether } from './harness/together.ts'
import { type BenchOptions, helpFor, readOptions } from './options.ts'
import { appendEntry, entryOf, HISTORY, readHistory } from './quick/history.ts'
import { gateQuick, measureQuick, QUICK_FIGURES } from './quick/quick.ts'
import { writeReport } from './report.ts'
import { type S3Store, s3FromEnvironment, startS3Server } from './s3.ts'
import { base64 } from './scenarios/base64.ts'
import { cache } from './scenarios/cache.ts'
import { chat } from './scenarios/chat.ts'
import { consoleScenario } from './scenarios/console.ts'
import { jobs } from './scenarios/jobs.ts'
import { limiter } from './scenarios/limiter.ts'
import { live } from './scenarios/live.ts'
import { multipart } from './scenarios/multipart.ts'
import { observability } from './scenarios/observability.ts'
import { processes } from './scenarios/processes.ts'
import type { Scenario } from './scenarios/scenario.ts'
import { slowProvider } from './scenarios/slow-provider.ts'
import { small } from './scenarios/small.ts'
import { idle, start } from './scenarios/start.ts'
import { usage } from './scenarios/usage.ts'
import { textTable } from './table.ts'

// `npm run bench`: measures Larkway beside its peers and writes bench/results.

const SCENARIOS: readonly Scenario[] = [
  small,
  limiter,
  observability,
  consoleScenario,
  usage,
  cache,
  chat,
  multipart,
  base64,
  slowProvider,
  jobs,
  processes,
  live,
  start,
  idle,
]

for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => process.exit(1)) // ends what was started
process.exitCode = await main(process.argv.slice(2)).catch((error: Error) => {
  console.error(error.stack)
  return 1
})

async function main(args: readonly string[]): Promise<number> {
  const names = SCENARIOS.map(({ name }) => name)
  let options: BenchOptions
  try {
    options = readOptions(args, names)
  } catch (error) {
    console.error((error as Error).message)
    return 2
  }
  if (options.help) {
    console.log(helpFor(names))
    return 0
  }
  if (process.platform !== 'linux') {
    console.error('bench: CPU and memory are read from /proc; this runs on Linux only')
    return 2
  }

  const reason = options.publish ? await whyNotPublished() : null
  if (reason !== null) {
    console.error(`bench: nothing is published: ${reason}`)
    return 2
  }
  const everything = options.only.length === 0 && options.servers.length === 0
  if (options.quick && everything) return await runQuick(options)
  const scenarios = await runScenarios(options)
  const record = options.record || (everything && !options.quick)
  return record ? Math.max(scenarios, await runQuick({ ...options, record })) : scenarios
}

async function runScenarios(options: BenchOptions): Promise<number> {
  const server = options.s3 ? await startS3Server() : null
  try {
    const results: Result[] = []
    for (const scenario of SCENARIOS) {
      if (options.only.length > 0 && !options.only.includes(scenario.name)) continue
      const result = await measureScenario(scenario, options, server?.store ?? s3FromEnvironment())
      console.log(`\n${textTable(result)}`)
      console.log(`written to ${writeResult(result)}\n`)
      results.push(result)
    }
    if (options.report) writeReport()
    return options.gate ? checkGates(results) : 0
  } finally {
    await server?.stop()
  }
}

/** @returns exit status: 0, or 1 when a gate was not passed; without `--gate` nothing is held */
async function runQuick(options: BenchOptions): Promise<number> {
  const say = (line: string) => console.error(`bench: quick: ${line}`)
  const startedMs = performance.now()
  const last = readHistory().at(-1)
  const found = findBase(options.base, last?.commit)
  const base: Base | null = 'commit' in found ? await provideBase(found.commit) : null
  say('reason' in found ? `without a base: ${found.reason}` : `against ${found.commit}`)
  const report = await measureQuick(base, say)
  const verdicts = await gateQuick(report, base, { base: base?.commit ?? null, last }, say)
  for (const { ok, line } of verdicts) console.log(`${ok ? 'ok    ' : 'FAILED'}  ${line}`)
  if (options.record) {
    appendEntry(entryOf(report.figures, QUICK_FIGURES))
    say(`recorded in ${HISTORY}`)
  }
  say(`took ${Math.round((performance.now() - startedMs) / 1000)} s`)
  const failed = verdicts.filter(({ ok }) => !ok).length
  console.log(`${verdicts.length - failed} passed, ${failed} failed`)
  return options.gate && failed > 0 ? 1 : 0
}

async function measureScenario(
  scenario: Scenario,
  options: BenchOptions,
  s3: S3Store | null,
): Promise<Result> {
  const started = performance.now()
  const say = (line: string) => console.error(`bench: ${scenario.name}: ${line}`)
  const network = (options.network ?? scenario.network) === 'capped' ? await cappedNetwork() : systemNetwork()
  say(network.description)
  try {
    const plan = await scenario.plan({ quick: options.quick, s3 })
    const { servers } = options
    const trials = plan.trials.filter(
      ({ candidate }) => servers.length === 0 || servers.includes(candidate.name),
    )
    const skipped = [...plan.skipped]
    for (const { candidate, reason } of skipped) say(`without ${candidate}: ${reason}`)
    const lab = await Lab.open(network, scenario.upstream)
    try {
      const rounds = options.rounds ?? (options.quick ? 1 : scenario.rounds)
      const rows = await measure(scenario, lab, trials, {
        rounds,
        cpuUnit: scenario.cpuUnit,
        progress: say,
        skipped,
      })
      say(`took ${Math.round((performance.now() - started) / 1000)} s`)
      return {
        name: scenario.name,
        title: scenario.title,
        cpuUnit: scenario.cpuUnit,
        at: new Date().toISOString(),
        commit: commit(),
        quick: options.quick || servers.length > 0,
        network: network.description,
        machine: machine(),
        versions: Object.assign({}, ...trials.map(({ candidate }) => candidate.versions)) as Record<
          string,
          string
        >,
        rows,
        skipped,
      }
    } finally {
      await lab.close()
    }
  } finally {
    network.close()
  }
}

/** @throws Error when a server of Larkway's cannot be measured */
async function measure(
  { generations, turns = 'all' }: Scenario,
  lab: Lab,
  trials: readonly Trial[],
  options: MeasureOptions,
): Promise<Row[]> {
  if (generations === undefined) return measureAll(lab, trials, options)
  const rows = await measureTogether(lab, trials, { ...options, generations, turns })
  const missing = trials.filter(
    ({ candidate, load }) =>
      isLarkway(candidate.name) && !rows.some((row) => row.candidate === candidate.name && row.load === load),
  )
  if (missing.length > 0) throw new Error(options.skipped.map(({ reason }) => reason).join('\n'))
  return rows
}
