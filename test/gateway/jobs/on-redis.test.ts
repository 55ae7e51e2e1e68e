import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { createLogger } from '../../../src/contracts/log.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { type JobTiming, TIMING } from '../../../src/gateway/jobs/claim.ts'
import { startPurge } from '../../../src/gateway/jobs/retention.ts'
import { createJobSignals } from '../../../src/gateway/jobs/watch.ts'
import { RICH } from '../../support/catalog.ts'
import { hearingRig, patiently, SOUND } from '../../support/job-rig.ts'
import { startRedisMonitor } from '../../support/redis-monitor.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { waitUntil } from '../../support/wait-until.ts'

/** Two workers with connections of their own, and whoever submits. */
async function onRedis(t: Parameters<typeof hearingRig>[0], limits = {}) {
  const { url } = await startRedis(t)
  const [state, one, other] = await Promise.all([1, 2, 3].map(() => openRedisState(t, url)))
  if (!(state && one && other)) throw new Error('there are three')
  const { rig, upstream } = await hearingRig(t, { state, limits })
  const worker = (state: typeof one) => rig.run({ state, signals: createJobSignals() })
  return { rig, upstream, one: () => worker(one), other: () => worker(other) }
}

/** Looks, and renews, so rarely that what is done at once is done because somebody was told. */
const TOLD = { pollMs: [600_000, 600_000], renewMs: 600_000, leaseMs: 1_200_000 } as const

/** A worker in a process of its own, and whoever submits. */
async function toldWorker(t: Parameters<typeof hearingRig>[0], timing: Partial<JobTiming> = TOLD) {
  const redis = await startRedis(t)
  const [state, own] = await Promise.all([1, 2].map(() => openRedisState(t, redis.url)))
  if (!(state && own)) throw new Error('there are two')
  const { rig, upstream } = await hearingRig(t, { state })
  const signals = createJobSignals()
  own.listen({ ...signals, settings() {} })
  const plain = new Redis(redis.url)
  t.teardown(() => plain.disconnect())
  const subscribers = async () => Number((await plain.pubsub('NUMSUB', 'lk:jobs'))[1])
  t.ok(await waitUntil(async () => (await subscribers()) === 1))
  const runner = rig.run({ state: own, signals, timing })
  // The first look has found nothing.
  await sleep(200)
  return { redis, plain, rig, upstream, runner, subscribers }
}

t.test('a worker is told of what another process queues, and takes it up at once', async (t) => {
  const { rig, redis } = await toldWorker(t)
  const waits: number[] = []
  for (let count = 0; count < 50; count++) {
    const { createdAtMs, startedAtMs } = await rig.ended(await rig.hear(SOUND))
    waits.push(Number(startedAtMs) - createdAtMs)
  }
  const [median = 0, longest = 0] = [waits.sort((a, b) => a - b)[25], waits.at(-1)]
  t.ok(median < TIMING.pollMs[0], `median ${median} ms, longest ${longest} ms, by the clock of Redis`)

  const monitor = await startRedisMonitor(t, redis)
  const counts = await monitor.during(() => sleep(3_000))
  const { note_node, ...others } = counts
  t.same(others, {}, 'and it asks nothing meanwhile')
})

t.test('a worker is told of a cancellation, and gives the provider up at once', async (t) => {
  const { rig, upstream } = await toldWorker(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  t.match(await rig.cancel(id, false), { status: 'processing' })
  t.ok(await waitUntil(() => upstream.received[0]?.state === 'left'), 'the call is broken off')
  t.match(await rig.ended(id), { status: 'cancelled' })
})

t.test('who waits for a job of another process is told of its end', async (t) => {
  const { rig, redis } = await toldWorker(t)
  const state = await openRedisState(t, redis.url)
  const signals = createJobSignals()
  state.listen({ ...signals, settings() {} })
  await sleep(200)
  const changed = new Set<string>()
  const id = await rig.hear(SOUND)
  signals.onChanged(id, () => changed.add(id))
  await rig.ended(id)
  t.ok(await waitUntil(() => changed.has(id)))
})

t.test('nothing depends on what is told', async (t) => {
  const { rig, plain, subscribers } = await toldWorker(t, { renewMs: 100, pollMs: [100, 100] })
  for (let count = 0; count < 10; count++) {
    await plain.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
    t.match(await rig.ended(await rig.hear(SOUND)), { status: 'succeeded' }, 'its connection breaks')
  }
  t.ok(await waitUntil(async () => (await subscribers()) === 1), 'and is made anew')
  await plain.call('ACL', 'SETUSER', 'default', 'resetchannels')
  t.match(await rig.ended(await rig.hear(SOUND)), { status: 'succeeded' }, 'nothing may be published')
  await plain.call('CLIENT', 'KILL', 'TYPE', 'pubsub')
  t.match(await rig.ended(await rig.hear(SOUND)), { status: 'succeeded' }, 'and nobody may listen')
})

t.test('two workers share the jobs, each of which is done and paid for once', async (t) => {
  const { rig, upstream, one, other } = await onRedis(t)
  one()
  other()
  const ids = await Promise.all(Array.from({ length: 40 }, () => rig.hear(SOUND)))
  for (const id of ids) t.match(await rig.ended(id), { status: 'succeeded', fence: 1 })
  t.equal(upstream.received.length, 40)
  t.ok(await waitUntil(() => rig.ends().length === 40))
  const { creditsMicros, reservedMicros } = await patiently(() =>
    rig.services.state.accounts.show('acme', RICH),
  )
  t.same([creditsMicros, reservedMicros], [1_000_000_000_000 - 4_000, 0])
})

t.test('what one gives back the other one does; what is cancelled ends', async (t) => {
  const { rig, upstream, one, other } = await onRedis(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const first = one()
  const id = await rig.hear(SOUND)
  const cancelled = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 2))
  t.match(await rig.cancel(cancelled, false), { status: 'processing', cancelRequested: true })
  t.match(await rig.ended(cancelled), { status: 'cancelled' })
  await first.stop(0)
  upstream.behave('ear', {})
  other()
  t.match(await rig.ended(id), { status: 'succeeded', fence: 2, stalled: 0 })
  const { reservedMicros } = await patiently(() => rig.services.state.accounts.show('acme', RICH))
  t.equal(reservedMicros, 0)
})

t.test('providers that fail, large results, and the purge', async (t) => {
  const { rig, upstream, one } = await onRedis(t, { stt_job_result_ttl_seconds: 1 })
  one()
  upstream.behave('ear', { status: 500 })
  t.match(await rig.ended(await rig.hear(SOUND)), { status: 'failed', retries: 2, fence: 3 })
  upstream.behave('ear', { deltas: ['long '.repeat(20_000)] })
  const id = await rig.hear(SOUND)
  const job = await rig.ended(id)
  t.ok(job.result !== null && 'object' in job.result)
  const log = createLogger('silent')
  const purge = startPurge({
    state: rig,
    objects: rig.objects,
    log,
    clock: systemClock,
    timing: { pauseMs: 50 },
  })
  t.teardown(() => purge.stop())
  t.ok(await waitUntil(async () => (await patiently(() => rig.jobs.known([id]))).size === 0))
  t.equal(await rig.job(id), null)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})
