import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Jobs } from '../../../src/contracts/jobs.ts'
import { RICH } from '../../support/catalog.ts'
import { hearingRig, type JobRig, patiently, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
/** A worker that the state hears nothing of any more. */
const DUMB = { renew: away, end: away }
const SHORT = { leaseMs: 1_000, renewMs: 100 }

/** Takes jobs up once. */
function once({ jobs }: JobRig): Pick<Jobs, 'claim'> {
  let claims = 0
  return {
    async claim(claiming) {
      if (claims > 0) return []
      const claimed = await jobs.claim(claiming)
      claims += claimed.length
      return claimed
    },
  }
}

/** What the workspace has paid so far, and what is set aside, micro-USD. */
async function paid({ services }: JobRig) {
  const { creditsMicros, reservedMicros, expired } = await patiently(() =>
    services.state.accounts.show('acme', RICH),
  )
  return { micros: 1_000_000_000_000 - creditsMicros, reservedMicros, expired: expired.count }
}

t.test('a job whose worker is not heard of any more is taken over, and paid for once', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  rig.run({ jobs: { ...DUMB, ...once(rig) }, timing: SHORT })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  t.ok(await waitUntil(() => upstream.received[0]?.state === 'left'), 'the first one stops by itself')
  upstream.behave('ear', {})
  rig.run({ places: 1 })
  const job = await rig.ended(id)
  t.match(job, { status: 'succeeded', retries: 0, returns: 0, fence: 2 })
  t.ok(await waitUntil(() => rig.ends().some(({ status }) => status === 'lost')))
  t.same(await paid(rig), { micros: 100, reservedMicros: 0, expired: 0 })
})

t.test('a worker whose result comes too late changes nothing, and deletes what it kept', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const { promise: late, resolve: letGo } = Promise.withResolvers<void>()
  upstream.behave('ear', { deltas: ['first '.repeat(10_000)] })
  const first = rig.run({
    timing: SHORT,
    jobs: { ...DUMB, ...once(rig) },
    objects: {
      async keepResult(...args) {
        const result = await rig.objects.keepResult(...args)
        await late
        return result
      },
    },
  })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(async () => (await rig.keys()).some((key) => key.startsWith('result/'))))
  const stopped = first.stop(60_000)
  upstream.behave('ear', { deltas: ['second '.repeat(10_000)] })
  rig.run({ places: 1 })
  const job = await rig.ended(id)
  letGo()
  await stopped
  t.match(rig.ends().at(-1), { status: 'lost', fence: 1 })
  t.same(await rig.job(id), job)
  t.match(job.result === null ? null : await rig.objects.open(job.result), /second/)
  t.equal((await rig.keys()).length, 1, 'the other result is gone')
  t.equal(upstream.received.length, 2)
  t.same(await paid(rig), { micros: 100, reservedMicros: 0, expired: 0 }, 'the customer pays for one')
})

t.test('a job that its worker could not end is done again, and paid for once', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const first = rig.run({ timing: SHORT, jobs: { end: away, ...once(rig) } })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => rig.ends().some(({ status }) => status === 'unknown')))
  await first.stop(0)
  rig.run({ places: 1 })
  t.match(await rig.ended(id), { status: 'succeeded', fence: 2 })
  t.equal(upstream.received.length, 2)
  t.same(await paid(rig), { micros: 100, reservedMicros: 0, expired: 0 })
})

t.test('a job given back is paid for once', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const first = rig.run()
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  await first.stop(0)
  upstream.behave('ear', {})
  rig.run()
  await rig.ended(id)
  t.same(await paid(rig), { micros: 100, reservedMicros: 0, expired: 0 })
})

t.test('a job that ends none of its workers’ claims fails, and the others are done', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const bad = rig.run({ places: 1, timing: { leaseMs: 300, renewMs: 100 }, jobs: DUMB })
  const id = await rig.hear(SOUND)
  const job = await rig.ended(id)
  t.match(job, {
    status: 'failed',
    stalled: 3,
    fence: 3,
    error: { code: 'INTERNAL', message: 'the job was given up: its workers ended without an answer' },
  })
  await bad.stop(0)
  upstream.behave('ear', {})
  rig.run()
  t.match(await rig.ended(await rig.hear(SOUND)), { status: 'succeeded' })
})
