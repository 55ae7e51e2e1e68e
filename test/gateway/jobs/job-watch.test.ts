import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { newId, newJobId } from '../../../src/contracts/ids.ts'
import type { Job, JobSpec } from '../../../src/contracts/jobs.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { createJobSignals, createJobWatch } from '../../../src/gateway/jobs/watch.ts'
import { options } from '../../support/call.ts'
import { memoryState } from '../../support/own-state.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'

const KEEP = { transcriptionMs: 60_000, queueMs: 60_000, deadMs: 60_000 }
const OWNER = { workspace: 'acme', app: 'web' }
const NEVER = new AbortController().signal

/** A real state that counts the looks at it, and that answers them when told. */
async function open(t: Test) {
  const state = memoryState()
  t.teardown(() => state.close())
  const signals = createJobSignals()
  const seam = { looks: 0, before: async () => {}, after: async () => {} }
  const watch = createJobWatch(
    {
      async get(id) {
        seam.looks += 1
        await seam.before()
        const job = await state.jobs.get(id)
        await seam.after()
        return job
      },
    },
    signals,
    systemClock,
  )
  const spec: JobSpec = {
    ...{ id: newJobId('tj', 'acme'), kind: 'transcription', mode: 'priority', endpoint: 'transcription' },
    ...{ ...OWNER, keyId: 'key_web', keyBudgetMicros: null, requestId: newId('req'), traceparent: null },
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
    work: { operation: 'transcription', options: options(), audio: { url: 'https://cdn.example.com/a' } },
    eventId: newId('evt'),
  }
  await state.jobs.submit({ spec, slot: null })
  const job = (await state.jobs.get(spec.id)) as Job
  const cancel = () => state.jobs.cancel(spec.id, OWNER, KEEP)
  return { state, signals, watch, job, cancel, seam }
}

t.test('a word of this process is heard at once, one that falls into a look as well', async (t) => {
  const tookMs: number[] = []
  for (let round = 0; round < 3; round += 1) {
    const { signals, watch, job, cancel, seam } = await open(t)
    const look = Promise.withResolvers<void>()
    // The first look has read the old state, and answers when the new one is there already.
    seam.after = () => look.promise
    const changed = watch.changed(job, 20_000, NEVER)
    signals.changed(job.id)
    await sleep(50)
    t.equal(seam.looks, 1)
    await cancel()
    signals.changed(job.id)
    signals.changed(job.id)
    seam.after = async () => {}
    const startMs = performance.now()
    look.resolve()
    t.match(await changed, { status: 'cancelled' })
    tookMs.push(performance.now() - startMs)
    t.equal(seam.looks, 2)
  }
  // A busy machine may hold one of them up; a pause would hold up each.
  t.ok(Math.min(...tookMs) < 400, `without another pause: ${tookMs} ms`)
})

t.test('a job that is gone, and a state that is', async (t) => {
  const { state, watch, job, cancel, seam } = await open(t)
  const both = [watch.changed(job, 20_000, NEVER), watch.changed(job, 20_000, NEVER)]
  seam.before = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
  for (const one of both) await t.rejects(one, { code: 'DEPENDENCY_UNAVAILABLE' })
  const purged = Promise.withResolvers<void>()
  seam.before = () => purged.promise
  const later = watch.changed(job, 20_000, NEVER)
  await state.jobs.cancel(job.id, OWNER, { ...KEEP, transcriptionMs: 0 })
  t.equal((await state.jobs.takeExpired(10)).length, 1)
  purged.resolve()
  t.equal(await later, null)
  await cancel()
})

t.test('who has left already does not wait, and the last to leave ends the looks', async (t) => {
  const { watch, job, seam, signals } = await open(t)
  await t.rejects(watch.changed(job, 20_000, AbortSignal.abort(new Error('left'))), /left/)
  t.match(await watch.changed(job, 50, NEVER), { status: 'queued' }, 'as it was')
  const leaving = new AbortController()
  const [short, long] = [watch.changed(job, 100, NEVER), watch.changed(job, 20_000, leaving.signal)]
  t.match(await short, { status: 'queued' })
  seam.looks = 0
  signals.changed(job.id)
  t.equal(seam.looks, 1, 'one waits still')
  leaving.abort(new Error('left'))
  await t.rejects(long, /left/)
  await sleep(50)
  seam.looks = 0
  signals.changed(job.id)
  await sleep(700)
  t.equal(seam.looks, 0)
})

t.test(
  'however many jobs are waited for, 200 a second are looked at, and signals are heard at once',
  async (t) => {
    const { job } = await open(t)
    for (const [count, looked] of [
      [1, 20],
      [100, 2_000],
      [1_000, 2_000],
      [4_000, 0],
    ] as const) {
      const [clock, signals] = [new VirtualClock(), createJobSignals()]
      let looks = 0
      const get = async (id: string) => {
        looks += 1
        return { ...job, id, status: id === 'ended' ? ('failed' as const) : job.status }
      }
      const watch = createJobWatch({ get }, signals, clock)
      const left = new AbortController()
      const others = Array.from({ length: count - 1 }, (_, place) =>
        watch.changed({ ...job, id: `tj_${place}` }, 30_000, left.signal).catch(() => null),
      )
      const last = watch.changed({ ...job, id: 'tj_last' }, 30_000, left.signal).catch(() => null)
      await clock.advance(10_000)
      t.ok(Math.abs(looks - looked) <= count, `${looks} looks at ${count} in 10 s`)
      const ended = watch.changed({ ...job, id: 'ended' }, 30_000, NEVER)
      signals.changed('ended')
      t.match(await ended, { status: 'failed' })
      left.abort(new Error('left'))
      await Promise.all([last, ...others])
      t.same(clock.dueInMs, [], 'and no timer is left')
    }
  },
)
