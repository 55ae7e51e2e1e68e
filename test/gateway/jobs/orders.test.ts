import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { entryAt } from '../../support/gateway-rig.ts'
import { type JobRig, SOUND, startJobRig } from '../../support/job-rig.ts'
import { startOrderUpstream } from '../../support/upstream/orders.ts'
import { waitUntil } from '../../support/wait-until.ts'

const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))

/** Jobs for one provider that takes an order, and is asked how it stands. */
async function orderingRig(t: Test) {
  const upstream = await startOrderUpstream(t, 'assemblyai')
  const entries = [entryAt(upstream.origin, { kind: 'assemblyai', model: 'universal-2' })]
  return { upstream, rig: await startJobRig(t, { entries }) }
}

async function heard({ objects }: JobRig, job: Awaited<ReturnType<JobRig['ended']>>) {
  const text = job.result === null ? null : await objects.open(job.result)
  return text === null ? null : JSON.parse(text)
}

t.test('whoever is given a job back goes on with what its provider works on', async (t) => {
  const { upstream, rig } = await orderingRig(t)
  const first = rig.run()
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.count('order') === 1))
  await first.stop(0)
  t.match(await rig.job(id), { status: 'queued', fence: 1 })
  upstream.stands = 'done'
  rig.run()
  const job = await rig.ended(id)
  t.match(job, { status: 'succeeded', fence: 2 })
  t.equal(upstream.count('order'), 1)
  t.ok((await heard(rig, job)).content.length > 0)
})

t.test('and so does whoever takes it over from a worker that is not heard of any more', async (t) => {
  const { upstream, rig } = await orderingRig(t)
  let dead = false
  let kept = false
  rig.run({
    timing: { leaseMs: 1_500 },
    jobs: {
      claim: (claiming) => (kept ? Promise.resolve([]) : rig.jobs.claim(claiming)),
      end: away,
      async renew(id, fence, leaseMs, progress) {
        if (dead) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
        const renewed = await rig.jobs.renew(id, fence, leaseMs, progress)
        kept ||= progress?.upstream !== undefined && progress?.upstream !== null
        dead = kept
        return renewed
      },
    },
  })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => kept))
  t.ok(await waitUntil(() => rig.ends().some(({ status }) => status === 'lost')))
  upstream.stands = 'done'
  rig.run()
  t.match(await rig.ended(id), { status: 'succeeded', fence: 2 })
  t.equal(upstream.count('order'), 1)
})

t.test('a job that is cancelled has its provider stop', async (t) => {
  const { upstream, rig } = await orderingRig(t)
  rig.run()
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.count('order') === 1))
  await rig.cancel(id, true)
  t.match(await rig.ended(id), { status: 'cancelled' })
  t.ok(await waitUntil(() => upstream.count('stop') === 1))
})

t.test('an answer whose result could not be kept is asked for again, and not ordered again', async (t) => {
  const { upstream, rig } = await orderingRig(t)
  upstream.stands = 'done'
  let failures = 1
  rig.run({
    objects: { keepResult: (...args) => (failures-- > 0 ? away() : rig.objects.keepResult(...args)) },
  })
  const id = await rig.hear(SOUND)
  const job = await rig.ended(id)
  t.match(job, { status: 'succeeded', returns: 1, fence: 2 })
  t.equal(upstream.count('order'), 1)
})
