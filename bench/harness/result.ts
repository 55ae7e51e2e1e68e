import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { ROOT } from '../peers/install.ts'
import type { Machine } from './machine.ts'

/** Unit by which the CPU figure of a scenario is divided. */
export type CpuUnit = 'us/request' | 's/GB'

/** Latencies of GET /healthz at a fixed rate, before the load and beside it. */
export interface Pings {
  readonly idleP50Ms: number
  readonly idleP99Ms: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** How late the pinger itself was. */
  readonly ownLagP99Ms: number
}

/** One measured run of one candidate. */
export interface Run {
  readonly requests: number
  /** Raw bytes of the request bodies. */
  readonly bodyBytes: number
  readonly seconds: number
  /** CPU time of the server's processes, in the scenario's unit; GB = 1e9 bytes of request bodies. */
  readonly cpu: number
  /** CPU seconds per second of the run: of the server, and of all that asked and answered it. */
  readonly serverLoad: number
  readonly clientLoad: number
  /** Since the server's start, warm-up included. */
  readonly peakRssMib: number
  /** Peak over the server's memory before its first session, divided by the sessions. */
  readonly sessionKib?: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly failures: number
  readonly firstFailure: string | null
  /** Pings beside the load, where the scenario has them. */
  readonly pings?: Pings
}

/** A candidate under one load: the medians of its runs. */
export interface Row extends Omit<Run, 'firstFailure'> {
  /** Names the load within the scenario, e.g. `16 connections`. */
  readonly load: string
  readonly candidate: string
  readonly label: string
  /** The candidate that it is compared with, run by run. */
  readonly against?: string
  /** The side that the run waited for; `neither` when both had time to spare. */
  readonly bottleneck: 'server' | 'client' | 'neither'
  readonly runs: readonly Run[]
}

export interface Skipped {
  readonly candidate: string
  readonly reason: string
}

export interface Result {
  readonly name: string
  readonly title: string
  readonly cpuUnit: CpuUnit
  readonly at: string
  readonly commit: string
  readonly quick: boolean
  readonly network: string
  readonly machine: Machine
  /** Versions of all that was measured. */
  readonly versions: Readonly<Record<string, string>>
  readonly rows: readonly Row[]
  readonly skipped: readonly Skipped[]
}

/** Whether a candidate is what this bench is about, in whichever setting. */
export function isLarkway(candidate: string): boolean {
  return candidate.startsWith('larkway')
}

/** The candidate that has nothing between client and provider: what others add is against it. */
export const DIRECT = 'direct'

/** Median latency that a candidate adds to a call; undefined where the direct call was not measured. */
export function addedP50Ms(rows: readonly Row[], { load, candidate, p50Ms }: Row): number | undefined {
  const direct = rows.find((row) => row.load === load && row.candidate === DIRECT)
  return direct === undefined || candidate === DIRECT ? undefined : p50Ms - direct.p50Ms
}

/**
 * CPU per request against the candidate that a row names, as the median of the ratios of its runs to those of the same
 * rounds; undefined without one.
 */
export function againstPair(rows: readonly Row[], { load, against, runs }: Row): number | undefined {
  const pair = rows.find((row) => row.load === load && row.candidate === against)
  if (against === undefined || pair === undefined) return undefined
  return median(runs.map(({ cpu }, round) => cpu / (pair.runs[round]?.cpu ?? Number.NaN)))
}

/** How much later the 99th percentile is than that of the candidate that a row names; undefined without either. */
export function addedP99Ms(rows: readonly Row[], { load, against, p99Ms }: Row): number | undefined {
  const pair = rows.find((row) => row.load === load && row.candidate === against)
  // A load without a percentile, such as sessions that say nothing, has null in a file.
  return pair === undefined || !Number.isFinite(p99Ms) ? undefined : p99Ms - pair.p99Ms
}

export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  if (sorted.length % 2 === 1) return sorted[middle] ?? Number.NaN
  return ((sorted[middle - 1] ?? Number.NaN) + (sorted[middle] ?? Number.NaN)) / 2
}

/** Names of an object store by itself, without a server before it. */
const STORE = 'store-'

/** How many requests per second a candidate takes, as a share of the puts of its store; undefined without those. */
export function ofStore(
  rows: readonly Row[],
  { load, candidate, requests, seconds }: Row,
): number | undefined {
  const store = rows.find((row) => row.load === load && row.candidate.startsWith(STORE))
  if (store === undefined || candidate === store.candidate) return undefined
  return requests / seconds / (store.requests / store.seconds)
}

/** Results for readers are committed; those of `--quick` are noise, and stay in the ignored folder. */
const RESULTS = join(ROOT, 'bench', 'results')
const QUICK_RESULTS = join(ROOT, '.larkway', 'bench-results')

export function writeResult(result: Result): string {
  const path = join(result.quick ? QUICK_RESULTS : RESULTS, `${result.name}.json`)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, `${JSON.stringify(result, roundNumbers, 2)}\n`)
  return path
}

export function readResults(folder = RESULTS): Result[] {
  const files = (existsSync(folder) ? readdirSync(folder) : []).filter((name) => name.endsWith('.json'))
  return files.map((name) => JSON.parse(readFileSync(join(folder, name), 'utf8')) as Result)
}

/** The machine is not as exact as a double. */
function roundNumbers(_name: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value
}
