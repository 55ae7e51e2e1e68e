// Does taking a job up cost more when more of them wait? Claims from a short queue and a long one in turns, on both
// states. Justifies that a worker asks for jobs as often as it likes, however far behind the queue is.
// Run: node bench/micro/claim.ts [jobs in the long queue, default 1,000,000]

import { mkdirSync, writeFileSync } from 'node:fs'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { pino } from 'pino'
import type { Claiming, JobSpec, Jobs, Retention } from '../../src/contracts/jobs.ts'
import type { State } from '../../src/contracts/state.ts'
import { newId, newJobId } from '../../src/ids.ts'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
import { createRedisState } from '../../src/state/redis/state.ts'
import { startRedis } from '../../test/support/redis-server.ts'
import { tempFolder } from '../../test/support/scratch.ts'

const SHORT = 1_000
const LONG = 1_000_000
const long = Number(process.argv[2] ?? LONG)
const WORKSPACES = Array.from({ length: 100 }, (_, i) => `workspace-${i}`)
/** One as a worker with one free place asks, and all the places of a worker that has just started. */
const AT_A_TIME = [1, 16]
const CLAIMED = 320
const ROUNDS = 15
/** Submissions and ends under way, so that the states can commit many together. */
const UNDER_WAY = 256
/** How much more the long queue may cost. */
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

interface Queue {
  readonly length: number
  readonly jobs: Jobs
  /** µs per job, of each round. */
  readonly rounds: number[]
}

interface Row {
  readonly state: string
  readonly at_a_time: number
  readonly waiting: number
  readonly us_per_job: number
  readonly against_short: number
}

const log = pino({ level: 'silent' })
const teardowns: (() => unknown)[] = []
const t = { teardown: (undo: () => unknown) => void teardowns.push(undo) }

async function openRedis(): Promise<State> {
  // What is forced to the disk costs the same however long the queue is, and would hide what does not.
  const server = await startRedis(t)
  return await createRedisState({ url: server.url, log })
}

async function openEmbedded(): Promise<State> {
  return await openEmbeddedState({ file: join(await tempFolder(t), 'state.sqlite'), log })
}

function specOf(workspace: string): JobSpec {
  return {
    id: newJobId('qj', workspace),
    kind: 'queue',
    mode: 'priority',
    endpoint: 'transcription',
    workspace,
    app: 'app',
    keyId: 'key_bench',
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

function submit(jobs: Jobs, count: number): Promise<void> {
  return inTurns(count, (i) => jobs.submit({ spec: specOf(WORKSPACES[i % WORKSPACES.length]!), slot: null }))
}

/** Takes `CLAIMED` jobs up, and puts as many others in their place once the clock has stopped. */
async function measure({ jobs }: Queue, limit: number): Promise<number> {
  const taken: { id: string; fence: number }[] = []
  const startMs = performance.now()
  while (taken.length < CLAIMED) {
    const claimed = await jobs.claim({ ...CLAIMING, limit })
    if (claimed.length === 0) throw new Error('nothing was claimed of a queue that has jobs')
    for (const { job } of claimed) taken.push(job)
  }
  const us = ((performance.now() - startMs) * 1000) / taken.length
  const facts = { policy_version_id: null, lk_applied_purpose: null, lk_purpose_source: null }
  await inTurns(taken.length, async (i) => {
    const { id, fence } = taken[i]!
    const ended = await jobs.end(id, fence, { state: 'succeeded', result: null, facts }, KEEP)
    if (ended === null) throw new Error('a claim was lost meanwhile')
  })
  await submit(jobs, taken.length)
  return us
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

async function compare(name: string, open: () => Promise<State>): Promise<Row[]> {
  const states = [await open(), await open()]
  const queues = states.map(({ jobs }, i): Queue => ({ jobs, length: i === 0 ? SHORT : long, rounds: [] }))
  for (const { jobs, length } of queues) await submit(jobs, length)
  const rows: Row[] = []
  for (const limit of AT_A_TIME) {
    for (let round = 0; round <= ROUNDS; round += 1)
      for (const queue of round % 2 === 0 ? queues : queues.toReversed()) {
        const us = await measure(queue, limit)
        if (round > 0) queue.rounds.push(us)
      }
    const rounds = queues.map(({ rounds }) => rounds.splice(0))
    for (const [i, { length }] of queues.entries()) {
      // Round by round: what the machine did meanwhile fell on both.
      const ratios = rounds[i]!.map((us, round) => us / rounds[0]![round]!)
      rows.push({
        state: name,
        at_a_time: limit,
        waiting: length,
        us_per_job: Number(median(rounds[i]!).toFixed(1)),
        against_short: Number(median(ratios).toFixed(3)),
      })
    }
  }
  for (const { jobs, length } of queues)
    if ((await jobs.waiting()) !== length) throw new Error('the queue is not as long as it was')
  for (const state of states) await state.close()
  return rows
}

try {
  const rows = [...(await compare('SQLite', openEmbedded)), ...(await compare('Redis', openRedis))]
  console.table(rows)
  const result = { bench: 'claim', node: process.version, cpu: cpus()[0]?.model, rounds: ROUNDS, rows }
  console.log(JSON.stringify(result))
  // What a shorter queue shows is no result.
  if (long === LONG) {
    mkdirSync(RESULTS, { recursive: true })
    writeFileSync(new URL('claim.json', RESULTS), `${JSON.stringify(result, null, 2)}\n`)
  }
  process.exitCode = rows.every(({ against_short: ratio }) => ratio <= MOST) ? 0 : 1
} finally {
  for (const teardown of teardowns.reverse()) await teardown()
}
