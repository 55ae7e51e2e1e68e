import type { Test } from 'tap'
import type { Job, JobEnding, JobStatus, Retention } from '../../../src/contracts/jobs.ts'
import {
  CANCELLATION,
  claimingOf,
  FACTS,
  FAILURE,
  jobsOf,
  KEEP,
  OVER_MS,
  POISON,
  RETURN,
  SHORT_MS,
  SOON_MS,
  SOON_OVER_MS,
  SUCCESS,
  slotOf,
  specOf,
  storyOf,
  takeExpired,
} from '../../support/jobs-under-test.ts'
import { LONG_MS, newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'
import { jobsErasureContract } from './jobs-erasure.contract.ts'
import { jobsFiguresContract } from './jobs-figures.contract.ts'
import { jobsOrderContract } from './jobs-order.contract.ts'
import { jobsRacesContract } from './jobs-races.contract.ts'

type Start = (t: Test) => Promise<StateUnderTest>

const RETRY: JobEnding = { state: 'queued', delayMs: LONG_MS, counts: 'retry' }
const RETURN_LATER: JobEnding = { state: 'queued', delayMs: LONG_MS, counts: 'return' }
const AT_ONCE: Retention = { transcriptionMs: SHORT_MS, queueMs: SHORT_MS, deadMs: SHORT_MS }

/** What every queue of jobs keeps, wherever it is written. */
export function jobsContract(t: Test, start: Start): void {
  steps(t, start)
  refusals(t, start)
  requeueing(t, start)
  leases(t, start)
  poison(t, start)
  cancelling(t, start)
  submitting(t, start)
  purging(t, start)
  abandoning(t, start)
  operators(t, start)
  jobsErasureContract(t, start)
  jobsFiguresContract(t, start)
  jobsOrderContract(t, start)
  jobsRacesContract(t, start)
}

function steps(t: Test, start: Start): void {
  t.test('a job is queued as it was submitted, and can be read', async (t) => {
    const { jobs, workspace } = await jobsOf(t, start)
    const spec = specOf(workspace, {
      kind: 'transcription',
      keyBudgetMicros: 9_007_199_254_740_991,
      traceparent: '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01',
      selectors: { purpose: { label: 'Grüße "\\\u2028', source: 'body' }, responseProfile: 'fast' },
      warnings: ['one', 'another'],
      work: { operation: 'chat', payload: { text: `{"text":"\\u0000${'x'.repeat(20_000)}"}` } },
    })
    const answer = await jobs.submit({ spec, slot: null })
    const job = await jobs.get(spec.id)
    t.same(answer, { state: 'accepted', replayed: false, job, id: spec.id })
    const createdAtMs = Number(job?.createdAtMs)
    t.ok(createdAtMs > 1_700_000_000_000)
    t.same(job, {
      ...spec,
      status: 'queued',
      createdAtMs,
      startedAtMs: null,
      endedAtMs: null,
      expiresAtMs: null,
      cancelRequested: false,
      erased: false,
      fence: 0,
      stalled: 0,
      retries: 0,
      returns: 0,
      result: null,
      error: null,
      facts: null,
      history: [{ atMs: createdAtMs, status: 'queued', fence: 0 }],
    })
    t.equal(await jobs.get(specOf(workspace).id), null, 'no other')
    for (const id of ['', 'tj_', 'null', '../tj', `${spec.id}x`, spec.id.toUpperCase()])
      t.equal(await jobs.get(id), null, `no job: ${id}`)
  })

  t.test('a job is taken up by one worker', async (t) => {
    const { jobs, accept, claim } = await jobsOf(t, start)
    const submitted = await accept()
    const [claimed, ...others] = await claim({ limit: 10 })
    t.same(others, [])
    t.same(claimed?.progress, { audio: null, upstream: null })
    const job = claimed?.job
    const startedAtMs = Number(job?.startedAtMs)
    t.ok(startedAtMs >= submitted.createdAtMs)
    t.same(job, {
      ...submitted,
      status: 'processing',
      startedAtMs,
      fence: 1,
      history: [...submitted.history, { atMs: startedAtMs, status: 'processing', fence: 1 }],
    })
    t.same(await jobs.get(submitted.id), job)
    t.same(await claim({ limit: 10 }), [], 'and by nobody else')
  })

  const ends = [
    ['transcription', SUCCESS, { result: { text: '{"content":"Grüße"}' }, facts: FACTS }, LONG_MS],
    ['transcription', FAILURE, { error: 'error' in FAILURE && FAILURE.error, facts: FACTS }, LONG_MS],
    ['transcription', CANCELLATION, {}, LONG_MS],
    ['queue', { ...SUCCESS, result: null }, { facts: FACTS }, 2 * LONG_MS],
    ['queue', { ...CANCELLATION, facts: FACTS }, { facts: FACTS }, 2 * LONG_MS],
    ['queue', FAILURE, { error: 'error' in FAILURE && FAILURE.error, facts: FACTS }, 3 * LONG_MS],
  ] as const
  for (const [kind, ending, fields, keptMs] of ends)
    t.test(`a ${kind} job ends ${ending.state}`, async (t) => {
      const { jobs, workspace, taken, end, outbox } = await jobsOf(t, start)
      const before = await taken({ kind })
      const job = await end(before, ending as JobEnding)
      const endedAtMs = Number(job?.endedAtMs)
      t.ok(endedAtMs >= Number(before.startedAtMs))
      t.same(job, {
        ...before,
        ...fields,
        status: ending.state,
        endedAtMs,
        expiresAtMs: endedAtMs + keptMs,
        history: [...before.history, { atMs: endedAtMs, status: ending.state, fence: 1 }],
      })
      t.same(await jobs.get(before.id), job)
      const { id: jobId, eventId: id } = before
      const event = { id, jobId, workspace, status: ending.state, occurredAtMs: endedAtMs }
      const [view, ...others] = await outbox.list(null, 10)
      t.match(view, kind === 'queue' ? undefined : { ...event, attempts: 0, reason: null })
      t.same(others, [])
    })
}

function refusals(t: Test, start: Start): void {
  const endings = [SUCCESS, FAILURE, CANCELLATION, RETURN, RETRY, RETURN_LATER]

  t.test('a job that nobody has cannot be ended or kept', async (t) => {
    const { jobs, accept, end } = await jobsOf(t, start)
    const job = await accept()
    for (const fence of [0, 1])
      for (const ending of endings) t.equal(await end({ id: job.id, fence }, ending), null)
    t.same(await jobs.renew(job.id, 0, LONG_MS, null), { held: false, cancelRequested: false })
    t.same(await jobs.get(job.id), job)
    const unknown = specOf(job.workspace).id
    t.equal(await end({ id: unknown, fence: 0 }, SUCCESS), null)
    t.same(await jobs.renew(unknown, 0, LONG_MS, null), { held: false, cancelRequested: false })
  })

  t.test('only the claim that is in force ends a job or keeps it', async (t) => {
    const { jobs, taken, end } = await jobsOf(t, start)
    const job = await taken({ kind: 'transcription' })
    for (const fence of [0, 2]) {
      for (const ending of endings) t.equal(await end({ id: job.id, fence }, ending), null)
      t.match(await jobs.renew(job.id, fence, LONG_MS, null), { held: false })
    }
    t.same(await jobs.get(job.id), job)
  })

  for (const last of [SUCCESS, FAILURE, CANCELLATION])
    t.test(`a job that has ended ${last.state} stays so`, async (t) => {
      const { jobs, cancel, taken, end, claim, announced } = await jobsOf(t, start)
      const job = await taken({ kind: 'transcription' })
      const ended = await end(job, last)
      for (const ending of endings) {
        const expected = ending.state === last.state ? ended : null
        t.same(await end(job, ending), expected, `${ending.state}: once more is told the same, else refused`)
        t.equal(await end({ id: job.id, fence: 2 }, ending), null)
      }
      t.same(await cancel(job.id), ended)
      t.equal(await jobs.retry(job.id), false)
      t.same(await jobs.renew(job.id, job.fence, LONG_MS, null), { held: false, cancelRequested: false })
      t.same(await claim({ limit: 10 }), [])
      t.same(await jobs.get(job.id), ended)
      t.same(await announced(), [{ jobId: job.id, status: last.state }], 'one event')
    })
}

function requeueing(t: Test, start: Start): void {
  const ways = [
    ['retry', { retries: 1, returns: 0 }],
    ['return', { retries: 0, returns: 1 }],
  ] as const
  for (const [counts, numbers] of ways)
    t.test(`a job that is put back by a ${counts} waits for its delay`, async (t) => {
      const { jobs, taken, end, take, claim, pass } = await jobsOf(t, start)
      const first = await taken()
      const queued = await end(first, { state: 'queued', delayMs: LONG_MS, counts })
      t.match(queued, { status: 'queued', ...numbers, fence: 1, startedAtMs: first.startedAtMs })
      t.same(await claim(), [], 'not before')
      t.equal(await jobs.waiting(), 1)

      const other = await taken()
      await end(other, { state: 'queued', delayMs: SHORT_MS, counts })
      await pass(OVER_MS)
      const second = await take()
      t.match(second, { id: other.id, fence: 2, ...numbers, startedAtMs: other.startedAtMs })
      t.same(storyOf(second), ['queued 0', 'processing 1', 'queued 1', 'processing 2'])
      t.same(await claim(), [])
    })

  t.test('a job that was given back waits at the front, and counts nothing', async (t) => {
    const { accept, take, end, claim, idsOf } = await jobsOf(t, start)
    const [first, second] = [await accept(), await accept()]
    const job = await take()
    const back = await end(job, RETURN)
    t.match(back, { id: first.id, status: 'queued', retries: 0, returns: 0, stalled: 0, fence: 1 })
    t.same(idsOf(await claim({ limit: 10 })), [first.id, second.id])
  })

  t.test('what was put back is told so again, until the next claim', async (t) => {
    const { jobs, taken, end, take } = await jobsOf(t, start)
    const job = await taken()
    const retry: JobEnding = { state: 'queued', delayMs: 0, counts: 'retry' }
    const back = await end(job, retry)
    t.same(await end(job, retry), back)
    t.equal(await end(job, SUCCESS), null, 'but no other end')
    t.match(await jobs.renew(job.id, job.fence, LONG_MS, null), { held: false })
    const second = await take()
    t.equal(await end(job, retry), null)
    t.same(await jobs.get(job.id), second)
    t.match(second, { retries: 1, fence: 2 })
  })

  t.test('a history that grows without end keeps its newest lines', async (t) => {
    const { taken, end, take } = await jobsOf(t, start)
    let job = await taken()
    for (let i = 0; i < 50; i++) {
      await end(job, RETURN)
      job = await take()
    }
    t.equal(job.fence, 51)
    t.ok(job.history.length >= 50 && job.history.length <= 80, `${job.history.length} lines`)
    t.same(storyOf(job).slice(-4), ['queued 49', 'processing 50', 'queued 50', 'processing 51'])
  })
}

function leases(t: Test, start: Start): void {
  t.test('a job whose worker falls silent is taken over, and its worker refused', async (t) => {
    const { jobs, taken, take, end, pass } = await jobsOf(t, start)
    const first = await taken({ kind: 'transcription' }, { leaseMs: SHORT_MS })
    await pass(OVER_MS)
    const second = await take()
    t.match(second, { id: first.id, fence: 2, stalled: 1, retries: 0, startedAtMs: first.startedAtMs })
    t.same(storyOf(second), ['queued 0', 'processing 1', 'queued 1', 'processing 2'])
    for (const ending of [SUCCESS, FAILURE, CANCELLATION, RETURN]) t.equal(await end(first, ending), null)
    t.match(await jobs.renew(first.id, 1, LONG_MS, { audio: null, upstream: null }), { held: false })
    t.same(await jobs.get(first.id), second)
    t.match(await end(second, SUCCESS), { status: 'succeeded', fence: 2 })
    t.equal(await end(first, SUCCESS), null, 'not even the same')
  })

  t.test('a claim that was lost is refused before the next one', async (t) => {
    const { jobs, taken, take, claim, end, pass } = await jobsOf(t, start)
    await end(await taken(), RETURN)
    const job = await take({ leaseMs: SHORT_MS })
    await pass(OVER_MS)
    t.same(await claim({ limit: 0 }), [], 'put back, and not taken')
    t.match(await jobs.get(job.id), { status: 'queued', stalled: 1 })
    for (const ending of [SUCCESS, FAILURE, CANCELLATION, RETURN]) t.equal(await end(job, ending), null)
    t.match(await jobs.renew(job.id, 2, LONG_MS, null), { held: false })
  })

  t.test('a claim that is renewed is kept', async (t) => {
    const { jobs, taken, claim, end, pass } = await jobsOf(t, start)
    const job = await taken({}, { leaseMs: SOON_MS })
    t.same(await jobs.renew(job.id, 1, LONG_MS, null), { held: true, cancelRequested: false })
    await pass(SOON_OVER_MS)
    t.same(await claim(), [])
    t.match(await end(job, SUCCESS), { status: 'succeeded' })
  })

  t.test('what a worker left behind goes to the next', async (t) => {
    const { jobs, accept, claim, end, pass } = await jobsOf(t, start)
    const { id } = await accept()
    await claim()
    const upstream = { entry: 'gemini/flash', state: { id: 'op_1', n: [1, 2.5, null], text: 'Grüße \\ "' } }
    await jobs.renew(id, 1, LONG_MS, { audio: null, upstream })
    await jobs.renew(id, 1, SHORT_MS, null)
    await pass(OVER_MS)
    const [second] = await claim()
    t.same(second?.progress, { audio: null, upstream }, 'after a silence')
    await end({ id, fence: 2 }, RETURN)
    const [third] = await claim()
    t.same(third?.progress, { audio: null, upstream }, 'after a return')
    await jobs.renew(id, 3, LONG_MS, { audio: null, upstream: null })
    await end({ id, fence: 3 }, RETURN)
    const [fourth] = await claim()
    t.same(fourth?.progress, { audio: null, upstream: null }, 'as it was left last')
  })
}

function poison(t: Test, start: Start): void {
  t.test('a job whose workers die in a row fails', async (t) => {
    const { jobs, accept, take, claim, pass, announced } = await jobsOf(t, start)
    const { id } = await accept({ kind: 'transcription' })
    for (const fence of [1, 2, 3]) {
      t.match(await take({ leaseMs: SHORT_MS }), { fence, stalled: fence - 1 })
      await pass(OVER_MS)
    }
    t.same(await claim(), [])
    const job = await jobs.get(id)
    t.match(job, { status: 'failed', stalled: 3, error: POISON, result: null })
    t.equal(job?.expiresAtMs, Number(job?.endedAtMs) + KEEP.transcriptionMs)
    t.same(storyOf(job).slice(-3), ['queued 2', 'processing 3', 'failed 3'])
    t.same(await announced(), [{ jobId: id, status: 'failed' }])
  })

  t.test('workers that die now and then, or give back, do not make a job fail', async (t) => {
    const { accept, take, end, pass } = await jobsOf(t, start)
    await accept()
    const again: JobEnding = { state: 'queued', delayMs: 0, counts: 'retry' }
    for (const ending of [RETURN, again]) {
      for (const stalled of [0, 1]) {
        t.match(await take({ leaseMs: SHORT_MS }), { stalled })
        await pass(OVER_MS)
      }
      t.match(await end(await take(), ending), { status: 'queued', stalled: 0 })
    }
    for (let i = 0; i < 5; i++) await end(await take(), RETURN)
    t.match(await take(), { status: 'processing', stalled: 0, fence: 12, retries: 1 })
  })
}

function cancelling(t: Test, start: Start): void {
  t.test('a job that is queued is cancelled at once', async (t) => {
    const { jobs, cancel, accept, claim, announced } = await jobsOf(t, start)
    const { id } = await accept({ kind: 'transcription' })
    const job = await cancel(id)
    t.match(job, { status: 'cancelled', cancelRequested: false, startedAtMs: null, facts: null })
    t.equal(job?.expiresAtMs, Number(job?.endedAtMs) + KEEP.transcriptionMs)
    t.same(storyOf(job), ['queued 0', 'cancelled 0'])
    t.same(await jobs.get(id), job)
    t.same(await claim(), [])
    t.same(await cancel(id), job, 'once')
    t.same(await announced(), [{ jobId: id, status: 'cancelled' }])
    t.equal(await jobs.waiting(), 0)
  })

  t.test('a job that waits for its delay is cancelled at once', async (t) => {
    const { cancel, taken, end, claim, pass, announced } = await jobsOf(t, start)
    const first = await taken({ kind: 'transcription' })
    await end(first, { state: 'queued', delayMs: SHORT_MS, counts: 'retry' })
    const job = await cancel(first.id)
    t.match(job, { status: 'cancelled', fence: 1, retries: 1 })
    t.same(storyOf(job), ['queued 0', 'processing 1', 'queued 1', 'cancelled 1'])
    await pass(OVER_MS)
    t.same(await claim(), [])
    t.same(await announced(), [{ jobId: first.id, status: 'cancelled' }])
  })

  t.test('a job that is processing is asked for it', async (t) => {
    const { jobs, cancel, taken } = await jobsOf(t, start)
    const job = await taken()
    const asked = { ...job, cancelRequested: true }
    t.same(await cancel(job.id), asked)
    t.same(await cancel(job.id), asked, 'once')
    t.same(await jobs.renew(job.id, 1, LONG_MS, null), { held: true, cancelRequested: true })
  })

  const outcomes: readonly (readonly [JobEnding, JobStatus])[] = [
    [SUCCESS, 'cancelled'],
    [FAILURE, 'failed'],
    [CANCELLATION, 'cancelled'],
    [RETURN, 'cancelled'],
    [RETRY, 'cancelled'],
    [RETURN_LATER, 'cancelled'],
  ]
  for (const [index, [ending, status]] of outcomes.entries())
    t.test(`a job that was asked for it and ends ${ending.state} is ${status} (${index})`, async (t) => {
      const { cancel, taken, end, claim, announced } = await jobsOf(t, start)
      const job = await taken({ kind: 'transcription' })
      await cancel(job.id)
      const ended = await end(job, ending)
      t.match(ended, { status, cancelRequested: true, result: null })
      t.ok(ended?.endedAtMs)
      t.same(await end(job, ending), ended, 'told the same again')
      t.same(storyOf(ended), ['queued 0', 'processing 1', `${status} 1`])
      t.same(await claim(), [])
      t.same(await announced(), [{ jobId: job.id, status }])
    })

  t.test('a job that was asked for it and whose worker dies is cancelled', async (t) => {
    const { jobs, cancel, taken, claim, pass, announced } = await jobsOf(t, start)
    const job = await taken({ kind: 'transcription' }, { leaseMs: SHORT_MS })
    await cancel(job.id)
    await pass(OVER_MS)
    t.same(await claim(), [])
    t.match(await jobs.get(job.id), { status: 'cancelled', stalled: 1, error: null })
    t.same(await announced(), [{ jobId: job.id, status: 'cancelled' }])
  })

  t.test('only its owner cancels a job', async (t) => {
    const { jobs, workspace, owner, accept } = await jobsOf(t, start)
    const job = await accept()
    t.equal(await jobs.cancel(job.id, { workspace, app: 'other' }, KEEP), null)
    t.equal(await jobs.cancel(job.id, { workspace: newWorkspace(), app: 'web' }, KEEP), null)
    t.equal(await jobs.cancel(specOf(workspace).id, owner, KEEP), null)
    t.equal(await jobs.cancel('no id', owner, KEEP), null)
    t.same(await jobs.get(job.id), job)
  })
}

function submitting(t: Test, start: Start): void {
  t.test('a submission that comes again makes no second job', async (t) => {
    const { jobs, workspace, take, claim } = await jobsOf(t, start)
    for (const slot of [null, slotOf()]) {
      const submission = { spec: specOf(workspace), slot }
      const first = await jobs.submit(submission)
      t.match(first, { state: 'accepted', replayed: false, job: { status: 'queued' } })
      t.same(await jobs.submit(submission), first)
      const job = await take()
      t.same(await jobs.submit(submission), { ...first, job }, 'the job as it is by now')
      t.same(await claim(), [])
    }
  })

  t.test('a key that was used is answered with the first job', async (t) => {
    const { jobs, workspace, take, claim } = await jobsOf(t, start)
    const slot = slotOf()
    const spec = specOf(workspace)
    await jobs.submit({ spec, slot })
    const job = await take()
    const again = { spec: specOf(workspace), slot: { ...slot, keepMs: 2 * LONG_MS } }
    const replay = { state: 'accepted', replayed: true, job, id: spec.id }
    for (let i = 0; i < 2; i++) t.same(await jobs.submit(again), replay)
    t.equal(await jobs.get(again.spec.id), null, 'no second one')
    const other = { spec: specOf(workspace), slot: { ...slot, fingerprint: 'f2' } }
    t.same(await jobs.submit(other), { state: 'reused' })
    t.equal(await jobs.get(other.spec.id), null)
    t.same(await claim(), [])
    t.same((await jobs.submit({ spec, slot })).state, 'accepted', 'the first one is no replay of itself')
    t.match(await jobs.submit({ spec, slot }), { replayed: false })
    const elsewhere = newWorkspace()
    t.match(await jobs.submit({ spec: specOf(elsewhere), slot }), { state: 'accepted', replayed: false })
  })

  t.test('of many submissions with a key at once one makes a job', async (t) => {
    const { jobs, workspace, claim } = await jobsOf(t, start)
    const slot = slotOf()
    const submit = () => jobs.submit({ spec: specOf(workspace), slot })
    const answers = await Promise.all(Array.from({ length: 50 }, submit))
    const accepted = answers.flatMap((answer) => (answer.state === 'accepted' ? [answer] : []))
    t.equal(accepted.length, 50)
    t.equal(accepted.filter(({ replayed }) => !replayed).length, 1)
    t.equal(new Set(accepted.map(({ id }) => id)).size, 1)
    t.equal((await claim({ limit: 100 })).length, 1)
  })

  t.test('a key is kept as long as the record of its job, and as long as was said', async (t) => {
    const { jobs, workspace, pass, ...words } = await jobsOf(t, start)
    const finish = async (keepMs: number) => {
      const submission = { spec: specOf(workspace), slot: slotOf({ keepMs }) }
      await jobs.submit(submission)
      const job = await words.take()
      await jobs.end(job.id, job.fence, SUCCESS, AT_ONCE)
      return submission
    }
    const [brief, long] = [await finish(SHORT_MS), await finish(LONG_MS)]
    await pass(OVER_MS)
    const again = ({ slot }: typeof brief) => jobs.submit({ spec: specOf(workspace), slot })
    for (const marked of [0, 2]) {
      t.equal((await takeExpired(jobs, marked)).length, marked)
      for (const before of [brief, long])
        t.same(await again(before), { state: 'accepted', replayed: true, id: before.spec.id, job: null })
    }
    for (const { spec } of [brief, long]) await jobs.forget(spec.id)
    const replay = { state: 'accepted', replayed: true, id: long.spec.id, job: null }
    t.same(await again(long), replay, 'the job is purged')
    const other = { spec: specOf(workspace), slot: { ...long.slot, fingerprint: 'f2' } }
    t.same(await jobs.submit(other), { state: 'reused' })
    t.match(await again(brief), { state: 'accepted', replayed: false, job: { status: 'queued' } })
  })
}

function purging(t: Test, start: Start): void {
  t.test('a job whose time is over is handed out, seen no more, and forgotten', async (t) => {
    const { jobs, cancel, taken, pass, outbox } = await jobsOf(t, start)
    const job = await taken({ kind: 'transcription' })
    const kept = await taken()
    await jobs.end(kept.id, 1, SUCCESS, KEEP)
    t.same(await jobs.takeExpired(10), [])
    const ended = await jobs.end(job.id, 1, SUCCESS, AT_ONCE)
    await pass(OVER_MS)
    const all = { workspace: null, kind: null, status: null, limit: 10 }
    const assertGone = async (when: string) => {
      t.equal(await jobs.get(job.id), null, when)
      t.equal(await cancel(job.id), null)
      t.equal(await jobs.end(job.id, 1, SUCCESS, KEEP), null)
      t.equal(await outbox.redeliver(job.id), false)
      t.same(
        (await jobs.list(all)).map(({ id }) => id),
        [kept.id],
      )
      t.same([...(await jobs.known([job.id, kept.id, specOf('other').id])).keys()], [job.id, kept.id])
    }
    await assertGone('at once, before anybody has looked for jobs to purge')
    await jobs.forget(job.id)
    t.same(await takeExpired(jobs, 1, 10), [ended], 'one that is not marked is not forgotten')
    t.same(await jobs.takeExpired(10), [], 'once')
    await assertGone('marked')
    await jobs.forget(job.id)
    await jobs.forget(job.id)
    await jobs.forget(kept.id)
    await jobs.forget(specOf('other').id)
    t.same([...(await jobs.known([job.id, kept.id, 'no id'])).keys()], [kept.id])
    t.equal((await jobs.known([])).size, 0)
    t.same((await jobs.get(kept.id))?.status, 'succeeded')
  })

  t.test('a failed job of the queue is gone at the same moment, and not tried again', async (t) => {
    const { jobs, taken, pass } = await jobsOf(t, start)
    const job = await taken()
    await jobs.end(job.id, 1, FAILURE, AT_ONCE)
    await pass(OVER_MS)
    t.equal(await jobs.retry(job.id), false)
    t.equal(await jobs.get(job.id), null)
  })

  t.test('a record says what it needs of what is kept for the job', async (t) => {
    const { jobs, accept, taken, end } = await jobsOf(t, start)
    const known = async ({ id }: Pick<Job, 'id'>) => (await jobs.known([id])).get(id)
    const none = { fence: 1, result: null, work: null }
    const result = { object: 'result/acme/tj/1-a', bytes: 7 }
    const done = await taken({ kind: 'transcription' })
    t.same(await known(done), { ...none, status: 'processing', kind: 'transcription' })
    await end(done, { state: 'succeeded', result, facts: FACTS })
    t.same(await known(done), { ...none, status: 'succeeded', kind: 'transcription', result })
    const dead = await taken()
    await end(dead, FAILURE)
    t.same(await known(dead), { ...none, status: 'failed', kind: 'queue', work: dead.work })
    t.same(await known(await accept()), { ...none, status: 'queued', kind: 'queue', fence: 0 })
  })

  t.test('no more are handed out than are asked for', async (t) => {
    const { jobs, accept, claim, pass } = await jobsOf(t, start)
    const ids = await Promise.all(Array.from({ length: 7 }, async () => (await accept()).id))
    for (const { job } of await claim({ limit: 7 })) await jobs.end(job.id, 1, SUCCESS, AT_ONCE)
    await pass(OVER_MS)
    const taken: Job[] = []
    for (const size of [3, 3, 1]) {
      const some = await takeExpired(jobs, size, 3)
      t.equal(some.length, size)
      taken.push(...some)
    }
    t.same(taken.map(({ id }) => id).sort(), ids.sort())
    t.same(await jobs.takeExpired(3), [])
  })

  t.test('a job that nobody purged is handed out again', async (t) => {
    const { jobs, taken, pass, setClock } = await jobsOf(t, start)
    if (!setClock) return t.pass('the clock cannot be moved')
    const job = await taken()
    await jobs.end(job.id, 1, SUCCESS, AT_ONCE)
    await pass(OVER_MS)
    t.equal((await jobs.takeExpired(10)).length, 1)
    await pass(15 * 60_000)
    t.match(await jobs.takeExpired(10), [{ id: job.id }])
    t.equal(await jobs.get(job.id), null, 'still out of sight')
  })
}

function abandoning(t: Test, start: Start): void {
  t.test('jobs that no worker has ended are handed out until they are recorded', async (t) => {
    const { jobs, workspace, accept, taken, cancel, end, claim, pass, setClock } = await jobsOf(t, start)
    const abandoned = async () => {
      const found = await jobs.takeAbandoned(1_000)
      const own = found.filter(({ job }) => job.workspace === workspace)
      return new Map(own.map(({ job, chargedMicros }) => [job.id, { status: job.status, chargedMicros }]))
    }
    const queued = await accept()
    await cancel(queued.id)
    const charged = await taken({ kind: 'transcription' })
    await jobs.renew(charged.id, 1, LONG_MS, { audio: null, upstream: null, chargedMicros: 700 })
    await end(charged, RETRY)
    await cancel(charged.id)
    const erased = await accept({ kind: 'transcription' })
    await jobs.erase(erased, KEEP)
    const asked = await taken({}, { leaseMs: SHORT_MS })
    await cancel(asked.id)
    const worked = await taken()
    await end(worked, SUCCESS)
    await end(await taken(), CANCELLATION)
    await pass(OVER_MS)
    t.same(await claim(), [])
    const poisoned = await accept()
    for (const _ of [1, 2, 3]) {
      await claim({ leaseMs: SHORT_MS })
      await pass(OVER_MS)
    }
    t.same(await claim(), [])
    const expected = new Map([
      [queued.id, { status: 'cancelled', chargedMicros: 0 }],
      [charged.id, { status: 'cancelled', chargedMicros: 700 }],
      [erased.id, { status: 'cancelled', chargedMicros: 0 }],
      [asked.id, { status: 'cancelled', chargedMicros: 0 }],
      [poisoned.id, { status: 'failed', chargedMicros: 0 }],
    ])
    t.same(await abandoned(), expected)
    t.equal((await abandoned()).size, 0, 'somebody has them')
    for (const id of expected.keys()) if (id !== charged.id && id !== poisoned.id) await jobs.recorded(id)
    await jobs.recorded('no id')
    t.ok(await jobs.retry(poisoned.id), 'who retries one has a record of its next end')
    if (!setClock) return
    await pass(2 * 60_000)
    t.same(await abandoned(), new Map([[charged.id, expected.get(charged.id)]]))
  })
}

function operators(t: Test, start: Start): void {
  t.test('jobs are listed by workspace, kind and status, the newest first', async (t) => {
    const { jobs, workspace, accept, taken, end, pass } = await jobsOf(t, start)
    const all = { workspace: null, kind: null, status: null, limit: 100 }
    t.same(await jobs.list(all), [])
    const dead = await end(await taken(), FAILURE)
    await pass(5)
    const done = await end(await taken({ kind: 'transcription' }), SUCCESS)
    await pass(5)
    const elsewhere = await accept({ workspace: newWorkspace(), mode: 'bulk' })
    await pass(5)
    const open = await accept({ kind: 'transcription' })
    t.same(await jobs.list(all), [open, elsewhere, done, dead])
    t.same(await jobs.list({ ...all, limit: 2 }), [open, elsewhere])
    t.same(await jobs.list({ ...all, workspace }), [open, done, dead])
    t.same(await jobs.list({ ...all, workspace: newWorkspace() }), [])
    t.same(await jobs.list({ ...all, kind: 'queue' }), [elsewhere, dead])
    t.same(await jobs.list({ ...all, status: 'queued' }), [open, elsewhere])
    t.same(await jobs.list({ workspace, kind: 'queue', status: 'failed', limit: 5 }), [dead])
    t.same(await jobs.list({ workspace, kind: 'queue', status: 'succeeded', limit: 5 }), [])
  })

  t.test('a job of the queue that failed is queued again', async (t) => {
    const { jobs, accept, taken, end, claim, take, pass } = await jobsOf(t, start)
    let job = await taken({}, { leaseMs: SHORT_MS })
    await pass(OVER_MS)
    await end(await take(), { state: 'queued', delayMs: 0, counts: 'return' })
    await end(await take(), { state: 'queued', delayMs: 0, counts: 'retry' })
    job = await take()
    await jobs.renew(job.id, 4, LONG_MS, { audio: null, upstream: { entry: 'a/b', state: 1 } })
    const failed = await end(job, FAILURE)
    const waiting = await accept()
    t.equal(await jobs.retry(job.id), true)
    const counts = { stalled: 0, retries: 0, returns: 0 }
    const none = { endedAtMs: null, expiresAtMs: null, result: null, error: null, facts: null }
    const again = await jobs.get(job.id)
    t.same(again, { ...failed, ...counts, ...none, status: 'queued', history: again?.history })
    t.same(storyOf(again).slice(-2), ['failed 4', 'queued 4'])
    t.equal(await jobs.retry(job.id), false, 'once')
    t.equal(await end(job, FAILURE), null, 'its end is of the past')
    const claimed = await claim({ limit: 10 })
    t.same(new Set(claimed.map(({ job }) => job.id)), new Set([waiting.id, job.id]))
    t.same(claimed.find((one) => one.job.id === job.id)?.progress, { audio: null, upstream: null })
    t.match(await end({ id: job.id, fence: 5 }, SUCCESS), { status: 'succeeded', fence: 5 })
  })

  t.test('nothing else is queued again', async (t) => {
    const { jobs, accept, taken, end, pass } = await jobsOf(t, start)
    const failed = await end(await taken({ kind: 'transcription' }), FAILURE)
    const done = await end(await taken(), SUCCESS)
    const gone = await taken()
    await jobs.end(gone.id, 1, FAILURE, AT_ONCE)
    await pass(OVER_MS)
    await jobs.takeExpired(1)
    const queued = await accept()
    for (const id of [failed?.id, done?.id, gone.id, queued.id, specOf('other').id, 'no id'])
      t.equal(await jobs.retry(String(id)), false)
    t.same(await jobs.get(queued.id), queued)
  })

  t.test('a retried job lives by its next end', async (t) => {
    const { jobs, taken, take, end, pass } = await jobsOf(t, start)
    const job = await taken()
    await jobs.end(job.id, 1, FAILURE, { ...AT_ONCE, deadMs: SOON_MS })
    t.equal(await jobs.retry(job.id), true)
    await pass(SOON_OVER_MS)
    t.same(await jobs.takeExpired(10), [], 'it does not expire while it waits')
    t.match(await end(await take(), SUCCESS), { status: 'succeeded' })
    t.same(await jobs.takeExpired(10), [])
  })

  t.test('jobs that wait are counted, delayed ones too', async (t) => {
    const { jobs, accept, take, end, claim } = await jobsOf(t, start)
    t.equal(await jobs.waiting(), 0)
    for (const mode of ['priority', 'standard', 'bulk'] as const) {
      await accept({ mode })
      await accept({ mode, workspace: newWorkspace() })
    }
    t.equal(await jobs.waiting(), 6)
    const job = await take()
    t.equal(await jobs.waiting(), 5)
    await end(job, RETRY)
    t.equal(await jobs.waiting(), 6)
    await jobs.cancel(job.id, { workspace: job.workspace, app: job.app }, KEEP)
    t.equal(await jobs.waiting(), 5)
    await jobs.claim(claimingOf({ limit: 10 }))
    t.equal(await jobs.waiting(), 0)
    t.same(await claim(), [])
  })
}
