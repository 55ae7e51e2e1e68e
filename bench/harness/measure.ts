import type { Candidate } from '../candidates.ts'
import type { Quantiles } from '../load/samples.ts'
import { cpuSeconds, peakRssMib, rssMib } from './accounting.ts'
import type { Lab, Served } from './lab.ts'
import type { Running } from './processes.ts'
import { type CpuUnit, isLarkway, median, type Pings, type Row, type Run, type Skipped } from './result.ts'

/** One candidate under one load. */
export interface Trial {
  readonly candidate: Candidate
  readonly load: string
  /** The candidate that it is compared with, run by run. */
  readonly against?: string
  /** Live sessions that are open at once: what each of them takes of memory is told. */
  readonly sessions?: number
  /** Rounds at most, for a peer so slow that all of them would take too long; absent: all. */
  readonly rounds?: number
  /** Rejects unless answers are right to the last byte. Runs once per trial, before anything is measured. */
  verify(session: Session): Promise<void>
  warmUp(session: Session): Promise<void>
  /** The measured part is what it hands to `session.measure`. */
  run(session: Session): Promise<Run>
}

/** A load generator's report of a run. */
export interface Driven {
  readonly requests: number
  readonly bodyBytes: number
  readonly latencyMs: Quantiles
  readonly failures: number
  readonly firstFailure: string | null
}

/** A server that is up, and the lab around it. */
export interface Session {
  readonly lab: Lab
  readonly port: number
  /** Process of the server. */
  readonly pid: number
  /** Accounts for what the processes use while `drive` runs. */
  measure(drive: () => Promise<Driven>): Promise<Run>
}

export interface MeasureOptions {
  /** Runs of each trial. */
  readonly rounds: number
  readonly cpuUnit: CpuUnit
  /** Gets those that could not be measured. */
  readonly skipped: Skipped[]
  readonly progress: (line: string) => void
}

/**
 * Measures every trial in each round, so that whatever changes on the machine meanwhile falls on all of them alike;
 * every other round goes backwards. A peer that does not start or answers wrongly is left out, and `skipped` says so.
 *
 * @throws Error when that happens to Larkway
 */
export async function measureAll(
  lab: Lab,
  trials: readonly Trial[],
  options: MeasureOptions,
): Promise<Row[]> {
  const { rounds, cpuUnit, skipped, progress } = options
  const runs = new Map<Trial, Run[]>(trials.map((trial) => [trial, []]))
  for (let round = 0; round < rounds; round += 1) {
    for (const trial of round % 2 === 0 ? runs.keys() : [...runs.keys()].reverse()) {
      const { candidate, load } = trial
      if (round >= (trial.rounds ?? rounds)) continue
      try {
        const run = await measureOnce(lab, trial, cpuUnit, round === 0)
        runs.get(trial)?.push(run)
        progress(`round ${round + 1}/${rounds}: ${load}, ${candidate.label}: ${summary(run, cpuUnit)}`)
      } catch (error) {
        if (isLarkway(candidate.name)) throw error
        const { message } = error as Error
        progress(message)
        skipped.push({ candidate: `${candidate.name} (${load})`, reason: message })
        runs.delete(trial)
      }
    }
  }
  return [...runs].map(([trial, measured]) => toRow(trial, measured))
}

async function measureOnce(lab: Lab, trial: Trial, cpuUnit: CpuUnit, first: boolean): Promise<Run> {
  const { server, port } = await lab.serve(trial.candidate)
  try {
    const rss = trial.sessions === undefined ? 0 : rssMib(server.pid, { launched: false })
    const session = sessionOf(lab, { server, port }, cpuUnit)
    if (first) {
      await lab.upstream({ verify: true })
      await trial.verify(session)
      await lab.upstream({ verify: false })
    }
    await trial.warmUp(session)
    const run = await trial.run(session)
    if (trial.sessions === undefined) return run
    return { ...run, sessionKib: ((run.peakRssMib - rss) * 1024) / trial.sessions }
  } catch (error) {
    throw new Error(
      `${trial.load}, ${trial.candidate.name}: ${(error as Error).message}\n${server.lastLines()}`,
    )
  } finally {
    await server.stop()
  }
}

/** Access of trials to a server that is up. */
export function sessionOf(
  lab: Lab,
  { server, port }: Pick<Served, 'server' | 'port'>,
  cpuUnit: CpuUnit,
): Session {
  return { lab, port, pid: server.pid, measure: (drive) => account(lab, server, cpuUnit, drive) }
}

/** Accounts for what a server and its clients use while `drive` runs. */
async function account(
  lab: Lab,
  server: Running,
  cpuUnit: CpuUnit,
  drive: () => Promise<Driven>,
): Promise<Run> {
  const clientSeconds = () => lab.clientPids.reduce((sum, pid) => sum + cpuSeconds(pid), 0)
  const before = { server: cpuSeconds(server.pid), client: clientSeconds(), at: performance.now() }
  const driven = await drive()
  const seconds = (performance.now() - before.at) / 1000
  const cpu = cpuSeconds(server.pid) - before.server
  const { requests, bodyBytes, latencyMs, failures, firstFailure } = driven
  if (requests === 0) throw new Error(`not one request was answered: ${firstFailure}`)
  return {
    requests,
    bodyBytes,
    seconds,
    cpu: cpuUnit === 's/GB' ? cpu / (bodyBytes / 1e9) : (cpu * 1e6) / requests,
    serverLoad: cpu / seconds,
    clientLoad: (clientSeconds() - before.client) / seconds,
    peakRssMib: peakRssMib(server.pid),
    p50Ms: latencyMs.p50,
    p99Ms: latencyMs.p99,
    failures,
    firstFailure,
  }
}

/** Load from which a side counts as the one that is waited for. */
const SATURATED = 0.85

/** The medians of a trial's runs. */
export function toRow({ candidate, load, against }: Trial, runs: readonly Run[]): Row {
  const of = (field: (run: Run) => number) => median(runs.map(field))
  const serverLoad = of((run) => run.serverLoad)
  const clientLoad = of((run) => run.clientLoad)
  const busier = serverLoad >= clientLoad ? 'server' : 'client'
  return {
    load,
    candidate: candidate.name,
    label: candidate.label,
    ...(against === undefined ? {} : { against }),
    requests: of((run) => run.requests),
    bodyBytes: of((run) => run.bodyBytes),
    seconds: of((run) => run.seconds),
    cpu: of((run) => run.cpu),
    serverLoad,
    clientLoad,
    bottleneck: Math.max(serverLoad, clientLoad) >= SATURATED ? busier : 'neither',
    peakRssMib: of((run) => run.peakRssMib),
    ...(runs.some(({ sessionKib }) => sessionKib) ? { sessionKib: of((run) => run.sessionKib ?? 0) } : {}),
    p50Ms: of((run) => run.p50Ms),
    p99Ms: of((run) => run.p99Ms),
    failures: runs.reduce((sum, run) => sum + run.failures, 0),
    ...medianPings(runs.flatMap(({ pings }) => pings ?? [])),
    runs,
  }
}

function medianPings(pings: readonly Pings[]): { pings?: Pings } {
  if (pings.length === 0) return {}
  const of = (field: keyof Pings) => median(pings.map((one) => one[field]))
  return {
    pings: {
      idleP50Ms: of('idleP50Ms'),
      idleP99Ms: of('idleP99Ms'),
      p50Ms: of('p50Ms'),
      p99Ms: of('p99Ms'),
      ownLagP99Ms: of('ownLagP99Ms'),
    },
  }
}

/** A run as a line of progress. */
export function summary(run: Run, cpuUnit: CpuUnit): string {
  const cpu = cpuUnit === 's/GB' ? `${run.cpu.toFixed(2)} s/GB` : `${run.cpu.toFixed(1)} µs/request`
  const failures = run.failures > 0 ? `, ${run.failures} FAILED: ${run.firstFailure}` : ''
  const load = `server ${Math.round(run.serverLoad * 100)} %, client ${Math.round(run.clientLoad * 100)} %`
  const pings = run.pings
    ? `, ping p99 ${run.pings.idleP99Ms.toFixed(2)} → ${run.pings.p99Ms.toFixed(2)} ms`
    : ''
  return `${cpu}, ${load}, ${Math.round(run.peakRssMib)} MiB${pings}${failures}`
}
