import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { jobPartition } from '../../../src/contracts/ids.ts'
import { QUEUE_MODES, type QueueMode } from '../../../src/contracts/jobs.ts'
import type { State } from '../../../src/contracts/state.ts'
import {
  claimingOf,
  FAILURE,
  KEEP,
  neighbours,
  SUCCESS,
  slotOf,
  specOf,
} from '../../support/jobs-under-test.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { LONG_MS, newWorkspace } from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { costsTheSame } from './jobs-cost.ts'

const UNAVAILABLE = { code: 'DEPENDENCY_UNAVAILABLE', cause: Error }
const SENDING = { limit: 10, leaseMs: LONG_MS, perWorkspace: 4, perAiling: 1 }

async function startJobs(t: Test) {
  const { url } = await startRedis(t)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const state = await openRedisState(t, url)
  const submit = async (count: number, workspace: string, mode: QueueMode = 'priority') => {
    const specs = Array.from({ length: count }, () => specOf(workspace, { mode }))
    for (let i = 0; i < count; i += 500)
      await Promise.all(specs.slice(i, i + 500).map((spec) => state.jobs.submit({ spec, slot: null })))
  }
  return { url, redis, submit, ...state }
}

async function contentOf(redis: Redis, key: string): Promise<unknown> {
  switch (await redis.type(key)) {
    case 'hash':
      return Object.entries(await redis.hgetall(key)).sort()
    case 'zset':
      return redis.zrangebyscore(key, '-inf', '+inf', 'WITHSCORES')
    case 'set':
      return (await redis.smembers(key)).sort()
    default:
      return redis.get(key)
  }
}

t.test('all keys of a job are in its partition, and go with it', { skip: withoutServers }, async (t) => {
  const { redis, jobs, outbox } = await startJobs(t)
  const spec = specOf('acme', { kind: 'transcription' })
  const partition = `lk:{jobs:${jobPartition(spec.id)}}`
  const keys = async () => (await redis.keys('*')).filter((key) => key !== 'lk:nodes').sort()
  await jobs.submit({ spec, slot: slotOf({ keepMs: LONG_MS }) })
  const [claimed] = await jobs.claim(claimingOf({ leaseMs: 500 }))
  const fence = claimed!.job.fence
  await jobs.renew(spec.id, fence, 500, { audio: null, upstream: { entry: 'one', state: 1 } })
  await jobs.end(spec.id, fence, { state: 'queued', delayMs: 1, counts: 'retry' }, KEEP)
  t.ok(await waitUntil(async () => (await jobs.claim(claimingOf())).length === 1))
  await jobs.end(spec.id, fence + 1, SUCCESS, { ...KEEP, transcriptionMs: 1 })
  t.same(
    (await keys()).filter((key) => !key.startsWith(partition)),
    [],
  )
  const [event] = await outbox.claim(SENDING)
  await outbox.end(event!, { state: 'retry', delayMs: 1, reason: 'status 500' })
  t.ok(await waitUntil(async () => (await outbox.claim(SENDING)).length === 1))
  await outbox.end({ jobId: spec.id, attempts: 2 }, { state: 'delivered' })
  t.ok(await waitUntil(async () => (await jobs.takeExpired(1)).length === 1))
  await jobs.forget(spec.id)

  const left = await keys()
  const [slot] = left.filter((key) => key.startsWith(`${partition}:slot:acme:`))
  const claims = left.filter((key) => key.startsWith(`${partition}:claim:`))
  t.same(left, [partition, ...claims, slot].sort(), 'what stays is the partition, and what has its own end')
  for (const key of [...claims, slot!]) {
    const lifeMs = await redis.pttl(key)
    t.ok(lifeMs > 0 && lifeMs <= LONG_MS, `${lifeMs} ms`)
  }
})

t.test('looking for work writes nothing', { skip: withoutServers }, async (t) => {
  const { redis, jobs, outbox } = await startJobs(t)
  const writes = async () => Number(/^master_repl_offset:(\d+)/m.exec(await redis.info('replication'))?.[1])
  const changes = async () =>
    Number(/^rdb_changes_since_last_save:(\d+)/m.exec(await redis.info('persistence'))?.[1])
  // The limiter counts the nodes from time to time.
  const quiet = async () => {
    const before = [await writes(), await changes()]
    for (const limit of [0, 1, 100]) {
      t.same(await jobs.claim(claimingOf({ limit })), [])
      t.same(await jobs.takeExpired(limit), [])
      t.same(await outbox.claim({ ...SENDING, limit }), [])
    }
    return JSON.stringify([await writes(), await changes()]) === JSON.stringify(before)
  }
  t.ok(await waitUntil(quiet))
})

t.test('modes are served 6 : 3 : 1, to the job', { skip: withoutServers }, async (t) => {
  const { jobs, submit } = await startJobs(t)
  const workspace = newWorkspace()
  for (const mode of QUEUE_MODES) await submit(1000, workspace, mode)
  const taken: QueueMode[] = []
  while (taken.length < 1000) {
    const claimed = await jobs.claim(
      claimingOf({ limit: Math.min(7, 1000 - taken.length), perWorkspace: 1e6 }),
    )
    taken.push(...claimed.map(({ job }) => job.mode))
  }
  t.same(
    QUEUE_MODES.map((mode) => taken.filter((each) => each === mode).length),
    [600, 300, 100],
  )
  const tens = Array.from({ length: 100 }, (_, i) =>
    taken
      .slice(10 * i, 10 * i + 10)
      .sort()
      .join(),
  )
  t.equal(new Set(tens).size, 1, 'in each ten of them')
})

t.test('a workspace with many jobs keeps nobody waiting', { skip: withoutServers }, async (t) => {
  const { jobs, submit } = await startJobs(t)
  const [busy, ...quiet] = neighbours(10)
  await submit(1000, busy!)
  for (const workspace of quiet) await submit(10, workspace)
  const left = new Map(quiet.map((workspace) => [workspace, 10]))
  let rounds = 0
  for (; [...left.values()].some((count) => count > 0) && rounds < 50; rounds++)
    for (const { job } of await jobs.claim(claimingOf({ limit: 10, perWorkspace: 1e6 })))
      left.set(job.workspace, (left.get(job.workspace) ?? 0) - 1)
  t.equal(rounds, 10, 'ten workspaces of ten jobs: ten rounds of ten')
})

t.test('nodes that claim at the same time never have the same job', { skip: withoutServers }, async (t) => {
  const { url, jobs, submit } = await startJobs(t)
  const nodes = await Promise.all(Array.from({ length: 4 }, () => openRedisState(t, url)))
  const workspaces = Array.from({ length: 12 }, newWorkspace)
  await Promise.all(workspaces.map((workspace, i) => submit(100, workspace, QUEUE_MODES[i % 3])))
  const taken: string[] = []
  const running = new Map<string, number>()
  let most = 0
  const work = async ({ jobs }: State, limit: number) => {
    for (;;) {
      const claimed = await jobs.claim(claimingOf({ limit, perWorkspace: 5 }))
      taken.push(...claimed.map(({ job }) => job.id))
      for (const { job } of claimed) {
        running.set(job.workspace, (running.get(job.workspace) ?? 0) + 1)
        most = Math.max(most, running.get(job.workspace)!)
      }
      for (const { job } of claimed) {
        // Counted before the server does: it never sees more than are counted here.
        running.set(job.workspace, running.get(job.workspace)! - 1)
        await jobs.end(job.id, job.fence, SUCCESS, KEEP)
      }
      if (claimed.length === 0 && (await jobs.waiting()) === 0) return
    }
  }
  await Promise.all(nodes.flatMap((node) => [work(node, 1), work(node, 3), work(node, 20)]))
  t.equal(taken.length, 1200)
  t.equal(new Set(taken).size, 1200)
  t.ok(most <= 5, `${most} of one workspace at a time`)
  t.equal(await jobs.waiting(), 0)
})

t.test('ten thousand jobs make none dearer', { skip: withoutServers }, (t) => costsTheSame(t, 1000, 10_000))

t.test('nor do those of a thousand keys', { skip: withoutServers }, (t) => costsTheSame(t, 1000, 10_000, 10))

t.test('a server that is full has done nothing by half', { skip: withoutServers }, async (t) => {
  const { redis, jobs, outbox } = await startJobs(t)
  const kind = 'transcription'
  const waits = specOf('acme', { kind })
  const specs = Array.from({ length: 4 }, () => specOf('acme', { kind }))
  for (const spec of specs) await jobs.submit({ spec, slot: null })
  const claimed = await jobs.claim(claimingOf({ limit: 3 }))
  const [ended, running, stalled] = claimed.map(({ job }) => job)
  await jobs.end(ended!.id, 1, SUCCESS, { ...KEEP, transcriptionMs: 1 })
  await jobs.renew(stalled!.id, 1, 1, null)
  const dead = specOf('acme')
  await jobs.submit({ spec: dead, slot: null })
  const [queued] = specs.filter(({ id }) => !claimed.some(({ job }) => job.id === id))
  await jobs.cancel(queued!.id, { workspace: 'acme', app: 'web' }, KEEP)
  const [failed] = await jobs.claim(claimingOf({ limit: 1, stalledMax: 9 }))
  await jobs.end(failed!.job.id, failed!.job.fence, FAILURE, KEEP)
  const [event] = await outbox.claim({ ...SENDING, limit: 1 })
  await jobs.submit({ spec: waits, slot: null })

  const dump = async () => {
    const names = (await redis.keys('lk:{jobs:*')).sort()
    return Promise.all(names.map(async (name) => [name, await contentOf(redis, name)]))
  }
  const before = await dump()
  await redis.config('SET', 'maxmemory', '1')
  const writes: Record<string, () => Promise<unknown>> = {
    submit: () => jobs.submit({ spec: specOf('acme'), slot: slotOf() }),
    claim: () => jobs.claim(claimingOf({ limit: 16 })),
    end: () => jobs.end(running!.id, 1, SUCCESS, KEEP),
    'put back': () => jobs.end(running!.id, 1, { state: 'queued', delayMs: 0, counts: 'retry' }, KEEP),
    'put off': () => jobs.end(running!.id, 1, { state: 'queued', delayMs: 9, counts: 'retry' }, KEEP),
    cancel: () => jobs.cancel(waits.id, { workspace: 'acme', app: 'web' }, KEEP),
    erase: () => jobs.erase(waits, KEEP),
    'take expired': () => jobs.takeExpired(16),
    send: () => outbox.claim({ ...SENDING, limit: 16 }),
    'try later': () => outbox.end(event!, { state: 'retry', delayMs: 1, reason: '' }),
    'give up': () => outbox.end(event!, { state: 'given_up', keepMs: 1, reason: '' }),
    redeliver: () => outbox.redeliver(queued!.id),
  }
  for (const [name, write] of Object.entries(writes)) await t.rejects(write(), UNAVAILABLE, name)
  await redis.config('SET', 'maxmemory', '0')
  t.same(await dump(), before)
})
