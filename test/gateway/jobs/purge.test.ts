import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { JobObjects } from '../../../src/contracts/job-objects.ts'
import type { Job } from '../../../src/contracts/jobs.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { startPurge } from '../../../src/gateway/jobs/retention.ts'
import { hearingRig, patiently, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

const log = createLogger('silent')
const HASTE = { pauseMs: 50 }

t.test('a job whose time is over is seen no more, then its objects go, then its record', async (t) => {
  const { rig, upstream } = await hearingRig(t, { limits: { stt_job_result_ttl_seconds: 1 } })
  upstream.behave('ear', { deltas: ['long '.repeat(20_000)] })
  rig.run()
  const id = await rig.hear(SOUND)
  const job = await rig.ended(id)
  t.equal(job.expiresAtMs, (job.endedAtMs ?? 0) + 1_000)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 1))
  const seen: (Job | null)[] = []
  const removeAll: JobObjects['removeAll'] = async (job) => {
    seen.push(await rig.job(id))
    t.same([...(await rig.jobs.known([id])).keys()], [id])
    await rig.objects.removeAll(job)
  }
  const purge = startPurge({
    state: rig,
    objects: { ...rig.objects, removeAll },
    log,
    clock: systemClock,
    timing: HASTE,
  })
  t.teardown(() => purge.stop())
  t.ok(await waitUntil(async () => (await patiently(() => rig.jobs.known([id]))).size === 0))
  t.same(seen, [null])
  t.same(await rig.keys(), [])
})

/** Jobs whose time is over, handed out as the state does; `forgotten` in the order in which they were. */
function expired(count: number, handedAgainMs = 100) {
  const handedAtMs = new Map(
    Array.from({ length: count }, (_, index) => [`tj_${index}`, Number.NEGATIVE_INFINITY]),
  )
  const forgotten: string[] = []
  let looks = 0
  return {
    forgotten,
    looks: () => looks,
    state: {
      jobs: {
        async takeExpired(limit: number) {
          looks += 1
          const due = [...handedAtMs].filter(([, atMs]) => performance.now() - atMs > handedAgainMs)
          const taken = due.slice(0, limit).map(([id]) => id)
          for (const id of taken) handedAtMs.set(id, performance.now())
          return taken.map((id) => ({ id }) as Job)
        },
        async forget(id: string) {
          handedAtMs.delete(id)
          forgotten.push(id)
        },
      } as never,
    },
  }
}

const objectsWith = (removeAll: (job: Job) => Promise<void>) => ({ removeAll }) as unknown as JobObjects

t.test('many of them are forgotten without a pause', async (t) => {
  const { state, forgotten, looks } = expired(333, 60_000)
  const purge = startPurge({
    state,
    objects: objectsWith(async () => {}),
    log,
    clock: systemClock,
    timing: { pauseMs: 600_000 },
  })
  t.ok(await waitUntil(() => forgotten.length === 333))
  await purge.stop()
  t.equal(looks(), 7)
})

t.test('what a store does not delete is kept, and tried again when it is handed out again', async (t) => {
  const { state, forgotten } = expired(3)
  let isAway = true
  const removeAll = async ({ id }: Job) => {
    if (isAway && id === 'tj_1') throw new GatewayError('DEPENDENCY_UNAVAILABLE')
  }
  const purge = startPurge({ state, objects: objectsWith(removeAll), log, clock: systemClock, timing: HASTE })
  t.ok(await waitUntil(() => forgotten.length === 2))
  await sleep(300)
  t.same([...forgotten].sort(), ['tj_0', 'tj_2'])
  isAway = false
  t.ok(await waitUntil(() => forgotten.length === 3))
  await purge.stop()
})

t.test('a state that is away is asked again', async (t) => {
  const { state, forgotten } = expired(1)
  const { takeExpired } = (state as { jobs: { takeExpired(limit: number): Promise<readonly Job[]> } }).jobs
  let failures = 3
  const jobs = {
    ...(state as { jobs: object }).jobs,
    takeExpired: (limit: number) =>
      failures-- > 0 ? Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE')) : takeExpired(limit),
  }
  const purge = startPurge({
    state: { jobs: jobs as never },
    objects: objectsWith(async () => {}),
    log,
    clock: systemClock,
    timing: HASTE,
  })
  t.ok(await waitUntil(() => forgotten.length === 1))
  await purge.stop()
})

t.test('stopped, it ends with the jobs that it has begun', async (t) => {
  const { state, forgotten } = expired(2)
  const { promise, resolve } = Promise.withResolvers<void>()
  let begun = 0
  const removeAll = () => {
    begun += 1
    return promise
  }
  const purge = startPurge({ state, objects: objectsWith(removeAll), log, clock: systemClock, timing: HASTE })
  t.ok(await waitUntil(() => begun === 2))
  const stopped = purge.stop()
  t.equal(forgotten.length, 0)
  resolve()
  await stopped
  t.equal(forgotten.length, 2)
})
