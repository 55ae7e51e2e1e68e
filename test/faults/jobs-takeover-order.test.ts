import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { jobPartition } from '../../src/ids.ts'
import { keys } from '../../src/state/redis/keys.ts'
import { startTranscriber } from '../support/fleet-orders.ts'
import { hearing, type JobFleet, startJobFleet, submitJob } from '../support/job-fleet.ts'
import type { LarkwayProcess } from '../support/larkway.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(600_000)

const JOBS = 20
const WORKERS = 4
/** How often the workers of every job are killed; the third time the job would be given up. */
const ROUNDS = process.env.LARKWAY_TEST_LONG === '1' ? 2 : 1
/** The kills come at any moment between two looks at the provider, which are 3 s apart in the end. */
const KILLED_WITHIN_MS = 3_000
/** A lease of 30 s, and the looks at the queue and at the provider. */
const TAKEN_OVER_MS = 60_000
const ENV = {
  LARKWAY_JOBS: `${JOBS / WORKERS}`,
  LARKWAY_JOBS_PER_WORKSPACE: '1000',
  PROVIDER_KEY: 'key_of_the_provider',
}

/** How each job was left by its worker: the provider's own number is in it. */
async function notedOrders(redis: Redis, ids: readonly string[]): Promise<readonly (string | null)[]> {
  return Promise.all(
    ids.map(async (id) => {
      const progress = await redis.hget(`${keys.jobs(jobPartition(id) ?? 0)}:job:${id}`, 'progress')
      return /order-\d+/.exec(progress ?? '')?.[0] ?? null
    }),
  )
}

function startWorkers(fleet: JobFleet): Promise<LarkwayProcess[]> {
  return Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()))
}

t.test('what killed workers have ordered is not ordered again', { skip: withoutServers }, async (t) => {
  const provider = await startTranscriber(t)
  const fleet = await startJobFleet(t, {
    upstreamUrl: provider.url,
    workspaces: 1,
    provider: { kind: 'assemblyai', api_key: `\${PROVIDER_KEY}` },
    entry: { model: 'universal-2' },
    env: ENV,
  })
  const redis = new Redis(fleet.redis.url)
  t.teardown(() => redis.disconnect())
  const authorization = fleet.authorizationOf('ws_0')
  const jobs = new Map<string, string>()
  for (let at = 0; at < JOBS; at += 1) {
    const wav = filledWav(8_044 + 320 * at, at)
    const id = await submitJob(() => fleet.server.url, authorization, hearing(wav))
    jobs.set(id, createHash('sha256').update(wav).digest('hex'))
  }
  const ids = [...jobs.keys()]

  let workers = await startWorkers(fleet)
  for (let round = 1; round <= ROUNDS; round += 1) {
    const before = provider.orders.map(({ looks }) => looks)
    const areAllLookedAt = async () => {
      const looked = provider.orders.every(({ looks }, at) => looks > (before[at] ?? 0))
      return looked && (await notedOrders(redis, ids)).every((order) => order !== null)
    }
    t.ok(await waitUntil(areAllLookedAt, TAKEN_OVER_MS), `round ${round}: the orders of all jobs are noted`)
    await Promise.all(
      workers.map(async (worker) => {
        await sleep(Math.random() * KILLED_WITHIN_MS)
        await worker.signal('SIGKILL')
      }),
    )
    if (round === ROUNDS) provider.isDone = true
    workers = await startWorkers(fleet)
  }

  const all = () => Promise.all(ids.map((id) => fleet.state.jobs.get(id)))
  const ended = await waitUntil(async () => {
    await sleep(250)
    return (await all()).every((job) => job?.endedAtMs !== null)
  }, TAKEN_OVER_MS)
  t.ok(ended, 'all jobs have ended')
  for (const job of await all()) {
    t.match(job, { status: 'succeeded', fence: ROUNDS + 1, strays: ROUNDS }, `${job?.id}`)
  }
  const ordered = provider.orders.map(({ sha256 }) => sha256)
  t.same(ordered.sort(), [...jobs.values()].sort(), 'and each was ordered once')
})
