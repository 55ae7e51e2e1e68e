import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { fetchFrom, headOf } from '../../support/audio-fetch.ts'
import { hearingRig, SOUND } from '../../support/job-rig.ts'
import { waitUntil } from '../../support/wait-until.ts'

t.test('a job that waits is cancelled and never begun', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  const id = await rig.hear(SOUND)
  t.match(await rig.cancel(id, true), { status: 'cancelled' })
  rig.run()
  await sleep(200)
  t.equal(upstream.received.length, 0)
  t.match(await rig.job(id), { status: 'cancelled', fence: 0 })
})

t.test('while its audio is fetched: the connection ends and the object goes', async (t) => {
  const { fetchAudio, host } = await fetchFrom(t, (socket) => {
    socket.write(headOf(1_000_000))
    socket.write(Buffer.alloc(200_000, 7))
  })
  const { rig, upstream } = await hearingRig(t, { fetchAudio, domains: ['good.example'] })
  rig.run()
  const id = await rig.hear({ url: 'https://good.example/a.mp3' })
  t.ok(await waitUntil(() => host.requests.length === 1))
  t.match(await rig.cancel(id, true), { status: 'processing', cancelRequested: true })
  t.match(await rig.ended(id), { status: 'cancelled', fence: 1, error: null, result: null })
  t.ok(await waitUntil(() => host.connections.open === 0), 'nobody reads any more')
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
  t.equal(upstream.received.length, 0)
})

t.test('while a provider works: the request ends, and is metered at its estimate', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  rig.run()
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  t.match(await rig.cancel(id, true), { status: 'processing', cancelRequested: true })
  t.match(await rig.ended(id), { status: 'cancelled', facts: { policy_version_id: 'pv_0123456789abcdef' } })
  t.ok(await waitUntil(() => upstream.received[0]?.state === 'left'))
  t.ok(await waitUntil(() => rig.ends().length === 1))
  t.match(rig.ends()[0], { status: 'cancelled', estimated: true, cost_usd: 0.0001 })
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})

t.test('asked for by another process: heard of with the next renewal', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => sleep(60_000, undefined, { ref: false }) })
  rig.run()
  const id = await rig.hear(SOUND)
  t.ok(await waitUntil(() => upstream.received.length === 1))
  await rig.cancel(id, false)
  t.match(await rig.ended(id), { status: 'cancelled' })
})

t.test('between answer and result: heard of at the checkpoint, and nothing is kept', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => rig.cancel(id, false), deltas: ['long '.repeat(20_000)] })
  let kept = 0
  const keepResult: typeof rig.objects.keepResult = (...args) => {
    kept += 1
    return rig.objects.keepResult(...args)
  }
  rig.run({ timing: { renewMs: 60_000 }, objects: { keepResult } })
  const id = await rig.hear(SOUND)
  t.match(await rig.ended(id), { status: 'cancelled', result: null })
  t.equal(kept, 0)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
  t.ok(await waitUntil(() => rig.ends().length === 1))
  t.match(rig.ends()[0], { status: 'cancelled', cost_usd: 0.0001, estimated: undefined }, 'it was answered')
  t.ok(await waitUntil(() => rig.memoryUsed() === 0))
})

t.test('between answer and end, where the result takes no object: the end itself hears of it', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { before: () => rig.cancel(id, false) })
  rig.run({ timing: { renewMs: 60_000 } })
  const id = await rig.hear(SOUND)
  t.match(await rig.ended(id), { status: 'cancelled', fence: 1, result: null, error: null })
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
  t.ok(await waitUntil(() => rig.ends().length === 1))
  t.match(rig.ends()[0], { status: 'cancelled', cost_usd: 0.0001, estimated: undefined }, 'it was answered')
})

t.test('while the result is kept: it is deleted again', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { deltas: ['long '.repeat(20_000)] })
  let kept = 0
  rig.run({
    timing: { renewMs: 60_000 },
    objects: {
      async keepResult(json, job, fence) {
        const result = await rig.objects.keepResult(json, job, fence)
        kept += (await rig.keys()).filter((key) => key.startsWith('result/')).length
        await rig.cancel(job.id, false)
        return result
      },
    },
  })
  const id = await rig.hear(SOUND)
  t.match(await rig.ended(id), { status: 'cancelled', result: null })
  t.equal(kept, 1)
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})

t.test('a cancellation that comes behind the end changes nothing', async (t) => {
  const { rig } = await hearingRig(t)
  rig.run()
  const id = await rig.hear(SOUND)
  await rig.ended(id)
  t.match(await rig.cancel(id, true), { status: 'succeeded' })
})

t.test('a job that was to be tried again is cancelled instead', async (t) => {
  const { rig, upstream } = await hearingRig(t)
  upstream.behave('ear', { status: 500 })
  const end: typeof rig.jobs.end = async (id, ...rest) => {
    await rig.cancel(id, false)
    return rig.jobs.end(id, ...rest)
  }
  rig.run({ jobs: { end }, timing: { renewMs: 60_000 } })
  const id = await rig.hear(SOUND)
  t.match(await rig.ended(id), { status: 'cancelled', fence: 1 })
  t.ok(await waitUntil(async () => (await rig.keys()).length === 0))
})
