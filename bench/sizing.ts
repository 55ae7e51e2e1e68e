import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Result } from './harness/result.ts'
import { ROOT } from './peers/install.ts'
import { courseChart } from './plot.ts'

// docs/sizing.md: how many nodes a load takes, out of what the bench has measured.

export const SIZING_PAGE = 'docs/sizing.md'
export const SIZING_CHART = 'docs/charts/sizing.svg'

/** Share of its core that a node is to be busy: above it the slowest calls wait for others. */
const BUSY = 0.6
/** Nodes beside those that the load takes: one restarts, or is lost. */
const SPARE = 1
/** Frames a second of live audio, as clients send them. */
const FRAMES = 50
const MICRO = 1_000_000

interface Cost {
  readonly what: string
  /** Unit of its rate in a load. */
  readonly unit: string
  readonly cpuSeconds: number
  readonly of: Result
}

/** A load, by what comes each second; `live` are sessions at a time. */
interface Load {
  readonly chat: number
  readonly uploadGb: number
  readonly storedGb: number
  readonly live: number
  readonly job: number
}

type Costs = { readonly [Part in keyof Load]: Cost }

/** @throws Error when a result lacks the row */
function rowOf(results: readonly Result[], name: string, candidate: string, load: string) {
  const of = results.find((result) => result.name === name)
  const row = of?.rows.find((one) => one.candidate === candidate && one.load === load)
  if (of === undefined || row === undefined)
    throw new Error(`bench/results lacks ${name}: ${candidate}, ${load}`)
  return { of, cpu: row.cpu }
}

/** CPU of one of each. Where a load is measured at several rates, at a steady one, which costs more. */
function costsOf(results: readonly Result[]): Costs {
  const chat = rowOf(results, 'chat', 'larkway-platform', '5,000 calls/s')
  const memory = rowOf(results, 'multipart', 'larkway-memory', '16 connections')
  const stored = rowOf(results, 'multipart', 'larkway-s3', '16 connections')
  const live = rowOf(results, 'live', 'larkway', '500 sessions')
  const job = rowOf(results, 'jobs', 'larkway-redis-s3', '8 KiB, Redis and S3: succeeded')
  return {
    chat: { what: 'a chat on credits', unit: 'calls/s', cpuSeconds: chat.cpu / MICRO, of: chat.of },
    uploadGb: { what: 'audio held in memory', unit: 'GB/s', cpuSeconds: memory.cpu, of: memory.of },
    storedGb: { what: 'audio streamed into S3', unit: 'GB/s', cpuSeconds: stored.cpu, of: stored.of },
    live: {
      what: `a live session, ${FRAMES} frames a second`,
      unit: 'sessions at a time',
      cpuSeconds: (FRAMES * live.cpu) / MICRO,
      of: live.of,
    },
    job: {
      what: 'a job, from submission to its end',
      unit: 'jobs/s',
      cpuSeconds: job.cpu / MICRO,
      of: job.of,
    },
  }
}

/** Cores that a load keeps busy, and nodes of one core each for it. */
function nodesFor(load: Load, costs: Costs): { readonly cores: number; readonly nodes: number } {
  const parts = Object.keys(costs) as (keyof Load)[]
  const cores = parts.reduce((sum, part) => sum + load[part] * costs[part].cpuSeconds, 0)
  return { cores, nodes: Math.max(1, Math.ceil(cores / BUSY)) + SPARE }
}

/** CPU of Redis, microseconds; see test/faults/redis-share.alone.long.test.ts. */
interface RedisShares {
  readonly commit: string
  readonly shares: readonly {
    readonly nodes: number
    /** One second of a node that takes jobs and has none. */
    readonly idle: number
    readonly chat: number
    readonly keyed: number
    readonly job: number
  }[]
}

const REDIS: RedisShares = JSON.parse(readFileSync(join(ROOT, 'bench', 'redis-shares.json'), 'utf8'))

/** Cores of Redis that nodes and their calls keep busy, by what was measured at the most nodes. */
function redisCores({ chat, job }: Load, nodes: number): number {
  const share = REDIS.shares.at(-1)!
  return (nodes * share.idle + chat * share.chat + job * share.job) / MICRO
}

const EXAMPLE: Load = { chat: 4_000, uploadGb: 0.5, storedGb: 0.1, live: 800, job: 50 }
/** The example so many times. */
const TIMES = [1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24]

export function sizingChart(results: readonly Result[]): string {
  const costs = costsOf(results)
  const loads = TIMES.map((times) => multiplied(EXAMPLE, times))
  const nodes = loads.map((load) => nodesFor(load, costs).nodes)
  const shares = loads.map((load, at) => Math.round(100 * redisCores(load, nodes[at]!)))
  return courseChart({
    title: `Nodes for the example, 1 to ${TIMES.at(-1)} times`,
    courses: [
      { label: 'nodes', values: nodes, text: `${nodes.at(-1)}` },
      { label: "of Redis' core", values: shares, text: `${shares.at(-1)} %` },
    ],
  })
}

function multiplied(load: Load, times: number): Load {
  return Object.fromEntries(
    Object.entries(load).map(([part, rate]) => [part, rate * times]),
  ) as unknown as Load
}

function redisPart(): string {
  const { idle, chat, keyed, job, nodes } = REDIS.shares.at(-1)!
  const most = (share: number) => Math.round((BUSY * MICRO) / share).toLocaleString('en')
  return [
    `- **Redis** has one core, too. At ${nodes} nodes (commit \`${REDIS.commit}\`, every write synced)`,
    `a node that takes jobs keeps it busy for ${Math.round(idle)} µs a second when nothing happens,`,
    `a chat of a busy key for ${chat} µs, since money and rate limits are leased,`,
    `a call under an idempotency key for ${keyed} µs, and a job for ${job} µs.`,
    `So one Redis is good for some ${most(keyed)} keyed calls or ${most(job)} jobs a second; more take a cluster.`,
    'The second line of the chart is that share for the example: more nodes than three are computed, not measured.',
  ].join(' ')
}

export function sizingPage(results: readonly Result[]): string {
  const costs = costsOf(results)
  const { cores, nodes } = nodesFor(EXAMPLE, costs)
  const rows = (Object.entries(costs) as [keyof Load, Cost][]).map(
    ([part, { what, unit, cpuSeconds, of }]) => {
      const share = (EXAMPLE[part] * cpuSeconds).toFixed(2)
      const one = unit === 'GB/s' ? `${cpuSeconds.toFixed(2)} s/GB` : `${Math.round(cpuSeconds * MICRO)} µs`
      return `| ${what} | ${one} | \`${of.commit}\` | ${EXAMPLE[part].toLocaleString('en')} ${unit} | ${share} |`
    },
  )
  return `${[
    '# Sizing',
    '<!-- Written by `node bench/report.ts` out of bench/results. -->',
    'A node has one core for its event loop, so that the question is how many cores a load keeps busy. Each kind of ' +
      'call has a cost that was measured on one machine at the commit beside it ([benchmarks](benchmarks.md)); yours ' +
      'may be faster or slower, so measure one node with your own calls before you order many.',
    `**nodes = cores ÷ ${BUSY} + ${SPARE}**, with the sum of rate × cost as the cores: a node that is busy for more ` +
      `than ${BUSY * 100} % of the time lets the slowest calls wait, and one node more covers a restart.`,
    ['| Call | CPU | Measured at | Example | Cores |', '|---|---:|---|---:|---:|', ...rows].join('\n'),
    `The example takes ${cores.toFixed(2)} cores, and so ${nodes} nodes of two cores and 1 GiB each: the second core ` +
      'is for threads that decode, sign and hash, and for the ledger.',
    `![Nodes for the example and multiples of it](charts/sizing.svg)`,
    [
      '- **Memory:** 250 MiB for a node, 200 for the process of its [usage ledger](usage.md), and ' +
        '`LARKWAY_MEMORY_MIB` for bodies. In memory a body takes what its provider has not taken yet; what does ' +
        'not fit is streamed into the store, which costs twice the CPU. A live session takes some 100 KiB.',
      '- **Jobs** can have processes of their own (`larkway worker`), with the same cost: they wait for providers ' +
        'and for the store.',
      redisPart(),
      '- **The network:** uploads count twice, in and out, three times through S3.',
    ].join('\n'),
  ].join('\n\n')}\n`
}
