import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Job, JobEnding, JobPageFilter, JobSpec } from '../../../src/contracts/jobs.ts'
import {
  FAILURE,
  jobsOf,
  KEEP,
  OVER_MS,
  RETURN,
  SHORT_MS,
  SUCCESS,
  slotOf,
  specOf,
  storyOf,
  takeExpired,
} from '../../support/jobs-under-test.ts'
import { newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'

type Start = (t: Test) => Promise<StateUnderTest>

const SECRET = 'https://host.example/secret.wav?token=1'
const AT_ONCE = { transcriptionMs: SHORT_MS, queueMs: SHORT_MS, deadMs: SHORT_MS }

/** What is left of a job's specification. */
function leftOf({ id, kind, mode, endpoint, workspace, app, keyId, eventId, ...rest }: JobSpec): JobSpec {
  const { keyBudgetMicros, requestId, traceparent, selectors } = rest
  const named = { id, kind, mode, endpoint, workspace, app, keyId, eventId, keyBudgetMicros, requestId }
  const work = { operation: 'chat', payload: { text: '' } } as const
  return { ...named, traceparent, selectors, warnings: [], work, door: { audioUrl: 'gone', models: [] } }
}

const GIVEN = { kind: 'transcription', door: { audioUrl: SECRET, models: ['one'] } } as const

/** Jobs that their owner deletes, and the pages that list jobs to their owner. */
export function jobsErasureContract(t: Test, start: Start): void {
  erasing(t, start)
  pages(t, start)
}

function erasing(t: Test, start: Start): void {
  t.test('a job that has ended loses what was sent and heard at once, and nothing else', async (t) => {
    const { jobs, taken, end, announced } = await jobsOf(t, start)
    const ends: readonly [JobEnding, object][] = [
      [SUCCESS, { status: 'succeeded' }],
      [FAILURE, { status: 'failed', error: 'error' in FAILURE && FAILURE.error }],
    ]
    for (const [ending, shown] of ends) {
      const ended = await end(await taken(GIVEN), ending)
      t.equal(ended?.erased, false)
      const left = leftOf(ended!)
      const erased = await jobs.erase(left, KEEP)
      t.same(erased, { ...ended, ...left, ...shown, result: null, erased: true })
      t.same(await jobs.get(left.id), erased)
      t.same(await jobs.erase(left, KEEP), erased, 'once')
      t.equal((await jobs.known([left.id])).get(left.id)?.result, null, 'its objects are needed no more')
      t.same(await jobs.erase(left, AT_ONCE), erased, 'its record is kept as long as it was to be')
    }
    t.equal((await announced()).length, 2, 'announced once each')
  })

  t.test('a job that waits is cancelled by it', async (t) => {
    const { jobs, accept, claim, taken, end, announced } = await jobsOf(t, start)
    const [ready, delayed] = [await taken(GIVEN), await accept(GIVEN)]
    await end(ready, { state: 'queued', delayMs: 60_000, counts: 'retry' })
    for (const { id } of [ready, delayed]) {
      const left = leftOf((await jobs.get(id))!)
      const erased = await jobs.erase(left, KEEP)
      t.match(erased, { ...left, status: 'cancelled', erased: true, result: null })
      t.equal(erased?.expiresAtMs, Number(erased?.endedAtMs) + KEEP.transcriptionMs)
      t.same(await jobs.get(id), erased)
    }
    t.same(await claim({ limit: 9 }), [])
    t.equal(await jobs.waiting(), 0)
    t.equal((await announced()).length, 2)
  })

  for (const ending of [SUCCESS, FAILURE, RETURN])
    t.test(`a job that is processing, and then ends ${ending.state}, keeps nothing`, async (t) => {
      const { jobs, taken, end, claim, announced } = await jobsOf(t, start)
      const job = await taken(GIVEN)
      const left = leftOf(job)
      const asked = await jobs.erase(left, KEEP)
      t.same(asked, { ...job, cancelRequested: true, erased: true }, 'its worker still needs what was sent')
      t.match(await jobs.renew(job.id, 1, 60_000, null), { held: true, cancelRequested: true })
      const ended = await end(job, ending)
      const status = ending.state === 'failed' ? 'failed' : 'cancelled'
      t.match(ended, { ...left, status, erased: true, result: null })
      t.same(await jobs.get(job.id), ended)
      t.notMatch(JSON.stringify(ended), /secret/)
      t.same(await end(job, ending), ended, 'told the same again')
      t.same(storyOf(ended), ['queued 0', 'processing 1', `${status} 1`])
      t.same(await claim(), [])
      t.same(await announced(), [{ jobId: job.id, status }])
    })

  t.test('a job whose worker dies keeps nothing either', async (t) => {
    const { jobs, taken, claim, pass } = await jobsOf(t, start)
    const job = await taken(GIVEN, { leaseMs: SHORT_MS })
    await jobs.erase(leftOf(job), KEEP)
    await pass(OVER_MS)
    t.same(await claim(), [])
    t.match(await jobs.get(job.id), { ...leftOf(job), status: 'cancelled', erased: true, stalled: 1 })
  })

  t.test('only its owner erases a job, and only one that transcribes', async (t) => {
    const { jobs, workspace, accept, taken, pass } = await jobsOf(t, start)
    const job = await accept(GIVEN)
    t.equal(await jobs.erase({ ...leftOf(job), app: 'other' }, KEEP), null)
    t.equal(await jobs.erase({ ...leftOf(job), workspace: newWorkspace() }, KEEP), null)
    t.equal(await jobs.erase(specOf(workspace, GIVEN), KEEP), null)
    t.equal(await jobs.erase({ ...leftOf(job), id: 'no id' }, KEEP), null)
    t.same(await jobs.get(job.id), job)
    const over = await taken()
    t.same(over.id, job.id)
    await jobs.end(job.id, 1, SUCCESS, AT_ONCE)
    await pass(OVER_MS)
    t.equal(await jobs.erase(leftOf(job), KEEP), null, 'one whose time is over')
    const other = await accept()
    t.equal(await jobs.erase(leftOf(other), KEEP), null, 'one of the queue')
    t.same(await jobs.get(other.id), other)
  })

  t.test('an erased job is purged like any other, and its key goes on meaning it', async (t) => {
    const { jobs, workspace, taken, pass } = await jobsOf(t, start)
    const spec = specOf(workspace, GIVEN)
    const slot = slotOf()
    await jobs.submit({ spec, slot })
    const job = await taken()
    const ended = await jobs.end(spec.id, job.fence, SUCCESS, AT_ONCE)
    const again = { spec: specOf(workspace, GIVEN), slot }
    t.match(await jobs.submit(again), { replayed: true, id: spec.id })
    if (ended !== null) await jobs.erase(leftOf(spec), KEEP)
    await pass(OVER_MS)
    t.match(await takeExpired(jobs, 1, 10), [{ id: spec.id, result: null, erased: true }])
    await jobs.forget(spec.id)
    t.equal((await jobs.known([spec.id])).size, 0)
  })
}

function pages(t: Test, start: Start): void {
  const ids = ({ jobs }: { jobs: readonly Pick<Job, 'id'>[] }) => jobs.map(({ id }) => id)

  t.test('pages go over the jobs of an app, either way, and show no others', async (t) => {
    const { jobs, workspace, owner, accept } = await jobsOf(t, start)
    const page = (over: Partial<JobPageFilter>) =>
      jobs.page({ owner, statuses: null, after: null, before: null, from: 'newest', limit: 3, ...over })
    t.same(await page({}), { jobs: [], next: null })
    const made: Job[] = []
    for (let at = 0; at < 7; at += 1) made.push(await accept(GIVEN))
    await accept({ ...GIVEN, app: 'other' })
    await accept({ ...GIVEN, workspace: newWorkspace() })
    await accept()
    const newest = made.map(({ id }) => id).sort((a, b) => (a < b ? 1 : -1))
    const first = await page({})
    t.same(ids(first), newest.slice(0, 3))
    t.equal(first.next, newest[2])
    const { id, status, endedAtMs, error, erased, work, door } = (await jobs.get(newest[0]!))!
    t.same(first.jobs[0], { id, status, endedAtMs, error, erased, work, door })
    const second = await page({ before: first.next })
    t.same([ids(second), second.next], [newest.slice(3, 6), newest[5]])
    const last = await page({ before: second.next })
    t.same([ids(last), last.next], [newest.slice(6), null])
    t.equal((await page({ limit: 7 })).next, null, 'as many as there are')
    const up = await page({ from: 'oldest', after: newest[6]! })
    t.same([ids(up), up.next], [newest.slice(3, 6).reverse(), newest[3]])
    t.same(ids(await page({ after: newest[5]!, before: newest[1]!, limit: 9 })), newest.slice(2, 5))
    t.same(
      ids(await page({ after: 'tj_', before: 'tj_~', limit: 1 })),
      newest.slice(0, 1),
      'bounds of no job',
    )
    const others = await page({ owner: { workspace, app: 'nobody' } })
    t.same(others, { jobs: [], next: null })
  })

  t.test('a page of some statuses shows these', async (t) => {
    const { jobs, owner, accept, end, claim, cancel, pass } = await jobsOf(t, start)
    const made: Job[] = []
    for (let at = 0; at < 6; at += 1) made.push(await accept(GIVEN))
    const [one, two, three, four, five] = (await claim({ limit: 5 })).map(({ job }) => job)
    await end(one!, SUCCESS)
    await end(two!, FAILURE)
    await end(three!, SUCCESS)
    await jobs.end(four!.id, 1, SUCCESS, AT_ONCE)
    await cancel(five!.id)
    await end(five!, SUCCESS)
    await jobs.erase(leftOf(three!), KEEP)
    await pass(OVER_MS)
    const page = async (statuses: JobPageFilter['statuses'], limit = 9) =>
      jobs.page({ owner, statuses, after: null, before: null, from: 'newest', limit })
    const sorted = (jobs: readonly (Job | undefined)[]) => jobs.map((job) => job!.id).sort()
    t.same(ids(await page(['succeeded'])).sort(), sorted([one, three]))
    t.same(ids(await page(['failed', 'cancelled'])).sort(), sorted([two, five]))
    t.same(ids(await page(['processing'])), [])
    t.equal((await page(null)).jobs.length, 5, 'not the one whose time is over')
    const erased = (await page(['succeeded'])).jobs.find(({ id }) => id === three!.id)
    t.match(erased, { erased: true, door: { audioUrl: 'gone' } })
    const few = await page(['failed', 'cancelled'], 1)
    t.equal(few.jobs.length, 1)
    for (const { id } of await takeExpired(jobs, 1, 9)) await jobs.forget(id)
    t.equal((await page(null)).jobs.length, 5, 'nor once it is forgotten')
  })

  t.test('a page that looks for what is rare says where it stopped', async (t) => {
    const { jobs, workspace, owner, accept, cancel } = await jobsOf(t, start)
    const rare = await accept(GIVEN)
    await cancel(rare.id)
    // Ids of one millisecond have no order.
    await sleep(5)
    const specs = Array.from({ length: 1_200 }, () => specOf(workspace, GIVEN))
    for (const spec of specs) await jobs.submit({ spec, slot: null })
    const look = (before: string | null) =>
      jobs.page({ owner, statuses: ['cancelled'], after: null, before, from: 'newest', limit: 1 })
    const first = await look(null)
    t.same(ids(first), [], 'it has looked at as many as it may')
    const second = await look(first.next)
    t.same([ids(second), second.next === null || second.next === rare.id], [[rare.id], true])
  })
}
