import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import type { Job, JobEnding, JobProgress, Jobs, Renewed } from '../../../src/contracts/jobs.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { Interrupted } from '../../../src/gateway/call/facts/call.ts'
import { Cancelled, Claim, TIMING } from '../../../src/gateway/jobs/claim.ts'
import { createJobSignals } from '../../../src/gateway/jobs/watch.ts'

import { audio } from '../../support/call.ts'
import { waitUntil } from '../../support/wait-until.ts'

const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
const HELD: Renewed = { held: true, cancelRequested: false }
const KEEP = { transcriptionMs: 1, queueMs: 1, deadMs: 1 }
const BACK: JobEnding = { state: 'queued', delayMs: 0, counts: 'nothing' }
const NONE: JobProgress = { audio: null, upstream: null }
const TAKEN = { id: 'tj_1', fence: 3, cancelRequested: false } as Job
const ENDED = { ...TAKEN, status: 'queued' } as Job

/** A claim whose state answers as it is told; `renewed` holds what it was sent. */
function claimed(
  t: Test,
  options: {
    readonly job?: Job
    readonly renew?: () => Promise<Renewed>
    readonly end?: () => Promise<Job | null>
    readonly leaseMs?: number
    readonly renewMs?: number
    readonly askedAtMs?: number
  } = {},
) {
  const { job = TAKEN, renew = async () => HELD, end = async () => ENDED } = options
  const renewed: (JobProgress | null)[] = []
  const ends: JobEnding[] = []
  const jobs: Partial<Jobs> = {
    renew(id, fence, _, progress) {
      t.same([id, fence], [job.id, job.fence])
      renewed.push(progress)
      return renew()
    },
    end(_, __, ending) {
      ends.push(ending)
      return end()
    },
  }
  const { leaseMs = 30_000, renewMs = 30_000, askedAtMs = performance.now() } = options
  const timing = { ...TIMING, awayMs: [20, 50] as const, leaseMs, renewMs }
  const signals = createJobSignals()
  const claim = new Claim({ job, progress: NONE }, askedAtMs, {
    jobs: jobs as Jobs,
    signals,
    timing,
    clock: systemClock,
  })
  t.teardown(() => claim.leave())
  return { claim, signals, renewed, ends }
}

t.test('the lease is renewed again and again, and the progress with it when it has changed', async (t) => {
  const { claim, renewed } = claimed(t, { renewMs: 20 })
  t.ok(await waitUntil(() => renewed.length >= 3))
  t.ok(renewed.every((progress) => progress === null))
  const upstream = { entry: 'entry', state: 1 }
  claim.noteUpstream(upstream)
  t.ok(await waitUntil(() => renewed.at(-1) === null && renewed.some((progress) => progress !== null)))
  t.same(
    renewed.filter((progress) => progress !== null),
    [{ audio: null, upstream }],
  )
  t.notOk(claim.signal.aborted)
})

t.test('what is noted during a renewal goes with the next one, the newest of it', async (t) => {
  const { promise, resolve } = Promise.withResolvers<Renewed>()
  const { claim, renewed } = claimed(t, { renew: () => promise })
  for (const state of [1, 2, 3]) claim.noteUpstream({ entry: 'entry', state })
  claim.noteAudio(audio())
  const checked = claim.checkpoint()
  t.same(renewed, [{ audio: null, upstream: { entry: 'entry', state: 1 } }], 'one at a time')
  resolve(HELD)
  await checked
  t.same(renewed[1], { audio: audio(), upstream: { entry: 'entry', state: 3 } })
  t.equal(renewed.length, 2)
})

t.test('progress that the state did not take goes with the next renewal', async (t) => {
  let isAway = true
  const { claim, renewed } = claimed(t, { renew: async () => (isAway ? away() : HELD) })
  claim.noteUpstream({ entry: 'entry', state: 1 })
  await claim.checkpoint()
  isAway = false
  await claim.checkpoint()
  await claim.checkpoint()
  t.equal(renewed.at(-1), null)
  t.equal(renewed.at(-2)?.upstream?.state, 1)
})

t.test('a job that is somebody else’s is let go without a word', async (t) => {
  const { claim, ends } = claimed(t, { renew: async () => ({ held: false, cancelRequested: false }) })
  await t.rejects(claim.checkpoint(), Interrupted)
  t.ok(claim.signal.reason instanceof Interrupted)
  await t.rejects(claim.checkAnswered(), Interrupted)
  t.equal(await claim.end(BACK, KEEP), null)
  t.same(ends, [])
})

t.test('a lease that was not renewed in time is lost', async (t) => {
  const { claim, ends } = claimed(t, { renew: away, leaseMs: 1_500, renewMs: 50 })
  await claim.checkpoint()
  t.notOk(claim.lost, 'a state that is away for a moment stops nobody')
  t.ok(await waitUntil(() => claim.signal.aborted))
  t.ok(claim.signal.reason instanceof Interrupted)
  t.equal(await claim.end(BACK, KEEP), null)
  t.same(ends, [])
})

t.test(
  'a process that was stopped for longer than the lease finds it lost before it does anything',
  async (t) => {
    // As after SIGCONT: the clock went on, and no timer has fired yet.
    const { claim, ends, renewed } = claimed(t, { leaseMs: 200 })
    const until = performance.now() + 250
    while (performance.now() < until);
    await t.rejects(claim.checkpoint(), Interrupted)
    t.equal(await claim.end(BACK, KEEP), null)
    t.same([ends, renewed], [[], []])
  },
)

t.test('a lease is counted from when the state was asked', async (t) => {
  const { claim } = claimed(t, { leaseMs: 1_000, askedAtMs: performance.now() - 1_001 })
  t.ok(claim.lost)
})

t.test('a cancellation is heard of with a renewal, and at once when this process asked for it', async (t) => {
  let cancelRequested = false
  const { claim, signals } = claimed(t, { renew: async () => ({ held: true, cancelRequested }) })
  signals.changed('tj_1')
  await sleep(50)
  t.notOk(claim.signal.aborted, 'a signal alone cancels nothing')
  cancelRequested = true
  signals.changed('tj_1')
  t.ok(await waitUntil(() => claim.signal.reason instanceof Cancelled))
  await t.rejects(claim.checkpoint(), Cancelled)
  await t.rejects(claim.checkAnswered(), Cancelled)
  t.notOk(claim.lost)
})

t.test('a job that is to be cancelled when it is taken up is not begun', async (t) => {
  const { claim } = claimed(t, { job: { ...TAKEN, cancelRequested: true } })
  t.ok(claim.signal.reason instanceof Cancelled)
})

t.test('what is given back is left at once, but behind the answer of a provider', async (t) => {
  const { claim, ends } = claimed(t)
  claim.giveBack()
  await t.rejects(claim.checkpoint(), Interrupted)
  await claim.checkAnswered()
  t.same(await claim.end(BACK, KEEP), ENDED)
  t.same(ends, [BACK])
})

t.test('progress is kept before a job goes back to the queue', async (t) => {
  const { claim, renewed } = claimed(t)
  claim.noteAudio(audio())
  await claim.end(BACK, KEEP)
  t.same(renewed, [{ audio: audio(), upstream: null }])
})

t.test('progress that the state does not take keeps the job from going back without it', async (t) => {
  let failures = 2
  const { claim, renewed, ends } = claimed(t, { renew: async () => (failures-- > 0 ? away() : HELD) })
  claim.noteUpstream({ entry: 'entry', state: 1 })
  claim.giveBack()
  t.same(await claim.end(BACK, KEEP), ENDED)
  t.equal(renewed.length, 3)
  t.equal(renewed.at(-1)?.upstream?.state, 1)
  t.same(ends, [BACK])
})

t.test('a job that is somebody else’s does not go back', async (t) => {
  const { claim, ends } = claimed(t, { renew: async () => ({ held: false, cancelRequested: false }) })
  claim.noteAudio(audio())
  t.equal(await claim.end(BACK, KEEP), null)
  t.same(ends, [])
})

t.test('an end that the state does not take is told again while the lease may hold', async (t) => {
  let failures = 3
  const { claim, ends } = claimed(t, { end: async () => (failures-- > 0 ? away() : ENDED) })
  t.same(await claim.end(BACK, KEEP), ENDED)
  t.equal(ends.length, 4)
})

t.test('afterwards it is given up: somebody else takes the job over', async (t) => {
  const { claim, ends } = claimed(t, { end: away, leaseMs: 1_500 })
  const startMs = performance.now()
  await t.rejects(claim.end(BACK, KEEP), { code: 'DEPENDENCY_UNAVAILABLE' })
  t.ok(ends.length > 2)
  t.ok(performance.now() - startMs < 10_000)
})

t.test(
  'an end that was taken although its answer was lost is asked for again, and nothing is renewed',
  async (t) => {
    const answers = [away, async () => ENDED]
    const { claim, renewed } = claimed(t, {
      end: () => answers.shift()?.() ?? away(),
      renew: async () => ({ held: false, cancelRequested: false }),
      renewMs: 10,
    })
    t.same(await claim.end({ ...BACK, counts: 'retry' }, KEEP), ENDED)
    await sleep(100)
    t.same(renewed, [])
  },
)
