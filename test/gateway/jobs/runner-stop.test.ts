import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { hearingRig, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.test('stopped, it takes up no more and lets those be done that run', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const { promise: slow, resolve: letGo } = Promise.withResolvers<void>()
  upstream.behave('ear', { before: () => slow })
  const runner = rig.run({ places: 1 })
  const id = await rig.hear(SOUND)
  const waiting = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  const stopped = runner.stop(30_000)
  await sleep(100)
  letGo()
  await stopped
  t.match(await rig.job(id), { status: 'succeeded' })
  t.equal(runner.running, 0)
  await sleep(200)
  t.match(await rig.job(waiting), { status: 'queued', fence: 0 })
})

t.test('what is not done in time is given back, at the front and counted as nothing', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const runner = rig.run({ places: 1 })
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  const startMs = performance.now()
  await runner.stop(300)
  t.ok(performance.now() - startMs >= 290)
  t.match(await rig.job(id), { status: 'queued', fence: 1, stalled: 0, retries: 0, returns: 0 })
  t.ok(await waitUntil(() => upstream.received[0]?.state === 'left'))
  t.match(rig.ends().at(-1), { msg: 'job', job_id: id, status: 'queued', fence: 1 })
  upstream.behave('ear', {})
  rig.run()
  t.match(await rig.ended(id), { status: 'succeeded', fence: 2 })
})

t.test('a job whose provider has answered is finished, whatever the hurry', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  let stopped = Promise.resolve()
  const runner = rig.run({
    objects: {
      async keepResult(...args) {
        stopped = runner.stop(0)
        await sleep(100)
        return rig.objects.keepResult(...args)
      },
    },
  })
  const id = await rig.hear(SOUND)
  t.match(await rig.ended(id), { status: 'succeeded', fence: 1 })
  await stopped
  t.equal(upstream.received.length, 1)
})

t.test('a job that was being taken up when it was stopped is given back, too', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  const { promise: slow, resolve: letGo } = Promise.withResolvers<void>()
  const runner = rig.run({
    jobs: {
      async claim(claiming) {
        const taken = await rig.jobs.claim(claiming)
        if (taken.length > 0) await slow
        return taken
      },
    },
  })
  const id = await rig.hear(SOUND)
  await rig.reached(id, ({ status }) => status === 'processing')
  const stopped = runner.stop(0)
  letGo()
  await stopped
  t.match(await rig.job(id), { status: 'queued', fence: 1, stalled: 0 })
})
