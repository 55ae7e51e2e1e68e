// Does it cost more to submit jobs, and to take them up, when more of them wait? Does both with a short queue and a
// long one in turns, on both states. Justifies that a worker asks for jobs as often as it likes, however far behind the
// queue is, and that a queue needs no limit of its own.
// Run: node bench/micro/claim.ts [jobs in the long queue, default 1,000,000] [SQLite | Redis]
// Status 1 when the long queue costs over a tenth more.

import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import { newId, newJobId } from '../../src/contracts/ids.ts'
import type { Claimed, Claiming, JobSpec, Jobs, Retention } from '../../src/contracts/jobs.ts'
import type { State } from '../../src/contracts/state.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { createRedisState } from '../../src/gateway/state/redis/state.ts'
import { startRedis } from '../../test/support/redis-server.ts'
import { tempFolder } from '../../test/support/scratch.ts'
import { cpuSeconds } from '../harness/accounting.ts'

const SHORT = 1_000
const LONG = 1_000_000
const long = Number(process.argv[2] ?? LONG)
const only = process.argv[3]
/** Jobs of a key, each of which is a workspace's only one: so many lists take turns as there are keys. */
const PER_KEY = 10
/** One as a worker with one free place asks, and all the places of a worker that has just started. */
const AT_A_TIME = [1, 16]
const CLAIMED = 320
const ROUNDS = 15
/** Submissions and ends under way, so that the states can commit many together. */
const UNDER_WAY = 256
/** How much more CPU the long queue may cost; the time beside it also says what else the machine did. */
const MOST = 1.1
const RESULTS = new URL('../results/micro/', import.meta.url)

const KEEP: Retention = { transcriptionMs: 3_600_000, queueMs: 3_600_000, deadMs: 3_600_000 }
const CLAIMING: Omit<Claiming, 'limit'> = {
  perWorkspace: 1_000,
  leaseMs: 600_000,
  stalledMax: 3,
  poison: { code: 'INTERNAL', message: 'poison', param: null, details: {} },
  keep: KEEP,
}

interface Opened {
  readonly state: State
  /** CPU that all its processes and this one have used, in seconds. */
  readonly cpu: () => number
}

interface Queue extends Opened {
  readonly length: number
  readonly jobs: Jobs
}

/** Steps of a job and what is counted of them, µs per job. */
type Costs = Record<'submit_cpu' | 'submit_wall' | 'claim_cpu' | 'claim_wall', number>

interface Row {
  readonly state: string
  readonly at_a_time: number
  readonly keys: number
  readonly waiting: number
  readonly us_per_job: Costs
  /** The same per job of the short queue in the same round, of which these are the medians. */
  readonly against_short: Costs
}

const log = pino({ level: 'silent' })
const teardowns: (() => unknown)[] = []
const t = { teardown: (undo: () => unknown) => void teardowns.push(undo) }

async function openRedis(): Promise<Opened> {
  // A write forced to the disk costs the same however long the queue is, and would hide the other costs.
  const server = await startRedis(t)
  const state = await createRedisState({ url: server.url, log })
  return { state, cpu: () => cpuSeconds(process.pid) + cpuSeconds(server.pid) }
}

async function openEmbedded(): Promise<Opened> {
  const state = await openEmbeddedState({ file: join(await tempFolder(t), 'state.sqlite'), log })
  return { state, cpu: () => cpuSeconds(process.pid) }
}

const STATES = [
  ['SQLite', openEmbedded],
  ['Redis', openRedis],
] as const

function specOf(workspace: string): JobSpec {
  return {
    id: newJobId('qj', workspace),
    kind: 'queue',
    mode: 'priority',
    endpoint: 'transcription',
    workspace,
    app: 'app',
    keyId: `key_${workspace}`,
    keyBudgetMicros: null,
    requestId: newId('req'),
    traceparent: null,
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
    work: { operation: 'chat', payload: { text: '{"messages":[{"role":"user","content":"Hello."}]}' } },
    eventId: null,
  }
}

async function inTurns(count: number, act: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0
  const line = async () => {
    while (next < count) await act(next++)
  }
  await Promise.all(Array.from({ length: UNDER_WAY }, line))
}

function submit(jobs: Jobs, workspaces: readonly string[]): Promise<void> {
  return inTurns(workspaces.length, (i) => jobs.submit({ spec: specOf(workspaces[i]!), slot: null }))
}

/** Runs it, and returns what it cost per job. */
async function costOf<What extends string>(
  what: What,
  { cpu }: Queue,
  act: () => Promise<unknown>,
): Promise<Record<`${What}_cpu` | `${What}_wall`, number>> {
  const [fromMs, fromSeconds] = [performance.now(), cpu()]
  await act()
  const per = (us: number) => us / CLAIMED
  return {
    [`${what}_wall`]: per((performance.now() - fromMs) * 1e3),
    [`${what}_cpu`]: per((cpu() - fromSeconds) * 1e6),
  } as Record<`${What}_cpu` | `${What}_wall`, number>
}

/** Takes `CLAIMED` jobs up, ends them unseen, and submits as many others in their place. */
async function measure(queue: Queue, limit: number): Promise<Costs> {
  const { jobs } = queue
  const taken: Claimed['job'][] = []
  const claiming = await costOf('claim', queue, async () => {
    while (taken.length < CLAIMED) {
      const claimed = await jobs.claim({ ...CLAIMING, limit })
      if (claimed.length === 0) throw new Error('nothing was claimed of a queue that has jobs')
      for (const { job } of claimed) taken.push(job)
    }
  })
  const facts = { policy_version_id: null, lk_applied_purpose: null, lk_purpose_source: null }
  await inTurns(taken.length, async (i) => {
    const { id, fence } = taken[i]!
    const ended = await jobs.end(id, fence, { state: 'succeeded', result: null, facts }, KEEP)
    if (ended === null) throw new Error('a claim was lost meanwhile')
  })
  const workspaces = taken.map(({ workspace }) => workspace)
  return { ...claiming, ...(await costOf('submit', queue, () => submit(jobs, workspaces))) }
}

/** The median of each cost over several rounds. */
function medians(rounds: readonly Costs[], digits: number): Costs {
  const names = Object.keys(rounds[0]!) as (keyof Costs)[]
  const middle = (values: readonly number[]) => values.toSorted((a, b) => a - b)[values.length >> 1]!
  return Object.fromEntries(
    names.map((name) => [name, Number(middle(rounds.map((round) => round[name])).toFixed(digits))]),
  ) as Costs
}

/** Round by round: what the machine did meanwhile fell on both. */
function ratios(rounds: readonly Costs[], others: readonly Costs[]): Costs[] {
  return rounds.map((round, i) => {
    const names = Object.keys(round) as (keyof Costs)[]
    return Object.fromEntries(names.map((name) => [name, round[name] / others[i]![name]])) as Costs
  })
}

async function compare(name: string, open: () => Promise<Opened>): Promise<Row[]> {
  const queues: Queue[] = []
  for (const length of [SHORT, long]) {
    const opened = await open()
    const queue = { ...opened, length, jobs: opened.state.jobs }
    queues.push(queue)
    const keys = length / PER_KEY
    await submit(
      queue.jobs,
      Array.from({ length }, (_, i) => `workspace-${i % keys}`),
    )
    console.error(`${name}: ${length} jobs of ${keys} keys wait`)
  }
  const rows: Row[] = []
  for (const limit of AT_A_TIME) {
    const rounds = new Map<Queue, Costs[]>(queues.map((queue) => [queue, []]))
    for (let round = 0; round <= ROUNDS; round += 1)
      for (const queue of round % 2 === 0 ? queues : queues.toReversed()) {
        const costs = await measure(queue, limit)
        if (round > 0) rounds.get(queue)!.push(costs)
      }
    for (const [{ length }, costs] of rounds)
      rows.push({
        state: name,
        at_a_time: limit,
        keys: length / PER_KEY,
        waiting: length,
        us_per_job: medians(costs, 1),
        against_short: medians(ratios(costs, rounds.get(queues[0]!)!), 3),
      })
  }
  for (const { jobs, length } of queues)
    if ((await jobs.waiting()) !== length) throw new Error('the queue is not as long as it was')
  for (const { state } of queues) await state.close()
  return rows
}

try {
  const rows: Row[] = []
  for (const [name, open] of STATES) if (!only || only === name) rows.push(...(await compare(name, open)))
  for (const { us_per_job, against_short, ...row } of rows)
    console.table([{ ...row }, us_per_job, against_short])
  const result = { bench: 'claim', node: process.version, cpu: cpus()[0]?.model, rounds: ROUNDS, rows }
  console.log(JSON.stringify(result))
  // A shorter queue is no result, nor is one state alone.
  if (long === LONG && !only) {
    mkdirSync(RESULTS, { recursive: true })
    writeFileSync(new URL('claim.json', RESULTS), `${JSON.stringify(result, null, 2)}\n`)
  }
  const isFlat = ({ against_short: { submit_cpu, claim_cpu } }: Row) =>
    Math.max(submit_cpu, claim_cpu) <= MOST
  process.exitCode = rows.every(isFlat) ? 0 : 1
} finally {
  for (const teardown of teardowns.reverse()) await teardown()
}
