import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { jobPartition } from '../../src/contracts/ids.ts'
import { keys } from '../../src/gateway/state/redis/key-names.ts'
import { startFleet } from '../support/fleet.ts'
import { hearing, JOB_TIMING, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { serveHttp } from '../support/http-server.ts'
import { withoutServers } from '../support/servers.ts'
import { type Order, startOrderUpstream } from '../support/upstream/orders.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.setTimeout(600_000)

const JOBS = 20
const WORKERS = 4
/** How often the workers of every job are killed; the third time the job would be given up. */
const ROUNDS = process.env.LARKWAY_TEST_LONG === '1' ? 2 : 1
/** The kills come at any moment between two looks at the provider, which are 3 s apart in the end. */
const KILLED_WITHIN_MS = 3_000
/** A lease of 10 s, and the looks at the queue and at the provider. */
const TAKEN_OVER_MS = 60_000
const ENV = {
  LARKWAY_JOBS: `${JOBS / WORKERS}`,
  LARKWAY_JOBS_PER_WORKSPACE: '1000',
  PROVIDER_KEY: 'key_of_the_provider',
}

/** Whether each job was left by its worker with the provider's own id of its order. */
async function areNoted(redis: Redis, ids: readonly string[], orders: readonly Order[]): Promise<boolean> {
  const left = await Promise.all(
    ids.map((id) => redis.hget(`${keys.jobs(jobPartition(id) ?? 0)}:job:${id}`, 'progress')),
  )
  return left.every((progress) => orders.some(({ id }) => progress?.includes(`"${id}"`)))
}

t.test('what killed workers have ordered is not ordered again', { skip: withoutServers }, async (t) => {
  const provider = await startOrderUpstream(t, 'assemblyai')
  const fleet = await startFleet(t, {
    ...jobTenants({
      upstreamUrl: provider.origin,
      provider: { kind: 'assemblyai', api_key: `\${PROVIDER_KEY}` },
      entry: { model: 'universal-2' },
    }),
    ...{ workers: 0, redis: { durable: true }, s3: 'shared', env: ENV, timing: JOB_TIMING },
  })
  const state = await fleet.openState()
  const redis = new Redis(fleet.redis.url)
  t.teardown(() => redis.disconnect())
  const authorization = fleet.authorizationOf('ws_0')
  const jobs = new Map<string, string>()
  for (let at = 0; at < JOBS; at += 1) {
    const wav = filledWav(8_044 + 320 * at, at)
    const id = await submitJob(() => fleet.node().url, authorization, hearing(wav))
    jobs.set(id, createHash('sha256').update(wav).digest('hex'))
  }
  const ids = [...jobs.keys()]

  await Promise.all(Array.from({ length: WORKERS }, () => fleet.startWorker()))
  for (let round = 1; round <= ROUNDS; round += 1) {
    const before = provider.orders.map(({ looks }) => looks)
    const areAllLookedAt = async () => {
      const looked = provider.orders.every(({ looks }, at) => looks > (before[at] ?? 0))
      return looked && (await areNoted(redis, ids, provider.orders))
    }
    t.ok(await waitUntil(areAllLookedAt, TAKEN_OVER_MS), `round ${round}: the orders of all jobs are noted`)
    await Promise.all(
      fleet.workers.map(async (worker) => {
        await sleep(Math.random() * KILLED_WITHIN_MS)
        await worker.signal('SIGKILL')
      }),
    )
    if (round === ROUNDS) provider.stands = 'done'
    await Promise.all(fleet.workers.map((_, at) => fleet.restartWorker(at)))
  }

  const all = () => Promise.all(ids.map((id) => state.jobs.get(id)))
  const ended = await waitUntil(async () => {
    await sleep(250)
    return (await all()).every((job) => job?.endedAtMs !== null)
  }, TAKEN_OVER_MS)
  t.ok(ended, 'all jobs have ended')
  for (const job of await all()) {
    t.match(job, { status: 'succeeded', fence: ROUNDS + 1, stalled: ROUNDS }, `${job?.id}`)
  }
  const ordered = provider.orders.map(({ sha256 }) => sha256)
  t.same(ordered.sort(), [...jobs.values()].sort(), 'and each was ordered once')
})

/** A provider in OpenAI's format that does once what is sent again under the same key, where one is sent. */
async function startKeyedTranscriber(t: Pick<Test, 'teardown'>) {
  const executions: string[] = []
  const underWay = new Map<string, Promise<void>>()
  const done = Promise.withResolvers<void>()
  const url = await serveHttp(t, async (request, response) => {
    request.resume()
    await once(request, 'end')
    const key = String(request.headers['idempotency-key'] ?? `none-${executions.length}`)
    const isFirst = !underWay.has(key)
    if (isFirst) {
      executions.push(key)
      underWay.set(key, done.promise)
    }
    const isDone = await Promise.race([
      done.promise.then(() => true),
      sleep(isFirst ? 600_000 : 0, false, { ref: false }),
    ])
    response.setHeader('content-type', 'application/json')
    response.statusCode = isDone ? 200 : 409
    response.end(JSON.stringify(isDone ? { text: 'the lark' } : { error: { message: 'under way' } }))
  })
  return { url: `${url}/v1`, executions, finish: () => done.resolve() }
}

for (const [header, executed] of [
  ['Idempotency-Key', 1],
  [undefined, 2],
] as const)
  t.test(
    `a worker is killed in the middle of a call ${header === undefined ? 'without a key' : 'with a key'}`,
    { skip: withoutServers },
    async (t) => {
      const provider = await startKeyedTranscriber(t)
      const entry = header === undefined ? {} : { options: { idempotency_header: header } }
      const fleet = await startFleet(t, {
        ...jobTenants({ upstreamUrl: provider.url, entry }),
        ...{ workers: 1, redis: { durable: true }, s3: 'shared', timing: JOB_TIMING },
      })
      const { jobs } = await fleet.openState()
      const id = await submitJob(() => fleet.node().url, fleet.authorizationOf('ws_0'))
      t.ok(await waitUntil(() => provider.executions.length === 1, TAKEN_OVER_MS))
      await fleet.restartWorker(0)
      const isTakenOver = async () => ((await jobs.get(id))?.fence ?? 0) > 1
      t.ok(await waitUntil(isTakenOver, TAKEN_OVER_MS), 'another worker takes it over')
      // It is told that the call is under way, and comes again.
      await sleep(1_000)
      provider.finish()
      t.ok(await waitUntil(async () => (await jobs.get(id))?.endedAtMs !== null, TAKEN_OVER_MS))
      t.match(await jobs.get(id), { status: 'succeeded', fence: 2, retries: 0 })
      t.equal(provider.executions.length, executed, `${executed} executions`)
    },
  )
