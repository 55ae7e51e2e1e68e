import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { createLogger } from '../../../src/log.ts'
import { startPurge } from '../../../src/routes/jobs/purge.ts'
import { createJobSignals } from '../../../src/routes/jobs/signals.ts'
import { RICH } from '../../support/catalog.ts'
import { hearingRig, patiently, SOUND } from '../../support/job-rig.ts'
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
  t.match(await rig.cancel(cancelled, false), {
    status: 'processing',
    cancelRequested: true,
  })
  t.match(await rig.ended(cancelled), { status: 'cancelled' })
  await first.stop(0)
  upstream.behave('ear', {})
  other()
  t.match(await rig.ended(id), { status: 'succeeded', fence: 2, strays: 0 })
  const { reservedMicros } = await patiently(() => rig.services.state.accounts.show('acme', RICH))
  t.equal(reservedMicros, 0)
})

t.test('providers that fail, large results, and the purge', async (t) => {
  const { rig, upstream, one } = await onRedis(t, { stt_job_result_ttl_seconds: 1 })
  one()
  upstream.behave('ear', { status: 500 })
  t.match(await rig.ended(await rig.hear(SOUND)), { status: 'failed', retries: 2, fence: 3 })
  upstream.behave('ear', { pieces: ['long '.repeat(20_000)] })
  const id = await rig.hear(SOUND)
  const job = await rig.ended(id)
  t.ok(job.result !== null && 'object' in job.result)
  const log = createLogger('silent')
  const purge = startPurge({ state: rig, objects: rig.objects, log, timing: { pauseMs: 50 } })
  t.teardown(() => purge.stop())
  t.ok(await waitUntil(async () => (await patiently(() => rig.jobs.known([id]))).size === 0))
  t.equal(await rig.job(id), null)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})
