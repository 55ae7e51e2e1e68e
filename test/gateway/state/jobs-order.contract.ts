import type { Test } from 'tap'
import type { Job, JobSpec } from '../../../src/contracts/jobs.ts'
import {
  jobsOf,
  KEEP,
  neighbours,
  OVER_MS,
  RETURN,
  SHORT_MS,
  SOON_MS,
  SOON_OVER_MS,
  SUCCESS,
} from '../../support/jobs-under-test.ts'
import { newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'

type Start = (t: Test) => Promise<StateUnderTest>

/** In which order jobs are taken up. */
export function jobsOrderContract(t: Test, start: Start): void {
  turns(t, start)
  modes(t, start)
  caps(t, start)
}

/** The workspaces of so many jobs, taken one by one. */
async function takeMany(take: () => Promise<Job>, count: number): Promise<Job[]> {
  const taken: Job[] = []
  for (let i = 0; i < count; i++) taken.push(await take())
  return taken
}

function countBy<Key>(jobs: readonly Job[], keyOf: (job: Job) => Key): Map<Key, number> {
  const counts = new Map<Key, number>()
  for (const job of jobs) counts.set(keyOf(job), (counts.get(keyOf(job)) ?? 0) + 1)
  return counts
}

function turns(t: Test, start: Start): void {
  t.test('jobs of a workspace are taken in the order in which they came', async (t) => {
    const { accept, claim, idsOf } = await jobsOf(t, start)
    const ids: string[] = []
    for (let i = 0; i < 25; i++) ids.push((await accept()).id)
    const taken: string[] = []
    for (const limit of [1, 10, 1, 20]) taken.push(...idsOf(await claim({ limit })))
    t.same(taken, ids)
  })

  t.test('a job that comes back from its delay is taken behind those that wait', async (t) => {
    const { accept, take, end, claim, idsOf, pass } = await jobsOf(t, start)
    const first = await accept()
    await end(await take(), { state: 'queued', delayMs: SOON_MS, counts: 'retry' })
    const others = [await accept(), await accept(), await accept()].map(({ id }) => id)
    await pass(SOON_OVER_MS)
    t.same(idsOf(await claim({ limit: 10 })), [...others, first.id])
  })

  t.test('workspaces are served in turn, however many jobs each of them has', async (t) => {
    const { accept, take, claim } = await jobsOf(t, start)
    const [many, few, other] = neighbours(3)
    for (let i = 0; i < 40; i++) await accept({ workspace: many! })
    for (let i = 0; i < 5; i++) {
      await accept({ workspace: few! })
      await accept({ workspace: other! })
    }
    const taken = await takeMany(take, 15)
    for (let i = 0; i < 15; i += 3) {
      const round = new Set(taken.slice(i, i + 3).map(({ workspace }) => workspace))
      t.equal(round.size, 3, `each of them once, round ${i / 3}`)
    }
    t.equal((await claim({ limit: 100 })).length, 35, 'then the rest')
  })

  t.test('also when many jobs are taken at once, and workspaces are anywhere', async (t) => {
    const { accept, claim } = await jobsOf(t, start)
    const workspaces = Array.from({ length: 6 }, newWorkspace)
    await Promise.all(Array.from({ length: 60 }, () => accept({ workspace: workspaces[0]! })))
    await Promise.all(
      workspaces.slice(1).flatMap((workspace) => [accept({ workspace }), accept({ workspace })]),
    )
    const claimed = await claim({ limit: 40 })
    t.equal(claimed.length, 40)
    const counts = countBy(
      claimed.map(({ job }) => job),
      ({ workspace }) => workspace,
    )
    for (const workspace of workspaces.slice(1)) t.equal(counts.get(workspace), 2)
  })
}

function modes(t: Test, start: Start): void {
  const MODES = ['priority', 'standard', 'bulk'] as const

  const fill = async (
    accept: (over: Partial<JobSpec>) => Promise<Job>,
    modes: readonly JobSpec['mode'][],
    each: number,
  ) => {
    for (const mode of modes) await Promise.all(Array.from({ length: each }, () => accept({ mode })))
  }

  t.test('modes are served 6 : 3 : 1', async (t) => {
    const { accept, take } = await jobsOf(t, start)
    await fill(accept, MODES, 20)
    const taken = await takeMany(take, 30)
    for (const from of [0, 10, 20]) {
      const counts = countBy(taken.slice(from, from + 10), ({ mode }) => mode)
      t.same([counts.get('priority'), counts.get('standard'), counts.get('bulk')], [6, 3, 1])
    }
  })

  t.test('a mode that has no jobs leaves its place to the others', async (t) => {
    const { accept, take, claim } = await jobsOf(t, start)
    await fill(accept, ['standard', 'bulk'], 15)
    const counts = countBy(await takeMany(take, 20), ({ mode }) => mode)
    t.same([counts.get('standard'), counts.get('bulk')], [15, 5], 'who keep their proportion')
    t.equal((await claim({ limit: 100 })).length, 10)
    for (const mode of MODES) {
      await fill(accept, [mode], 12)
      t.equal((await claim({ limit: 100 })).length, 12, `${mode} alone`)
    }
  })

  t.test('a job keeps its mode when it comes back', async (t) => {
    const { accept, taken, end, take, claim } = await jobsOf(t, start)
    const job = await taken({ mode: 'bulk' })
    await end(job, RETURN)
    await fill(accept, ['priority'], 12)
    const first = await takeMany(take, 10)
    t.ok(first.filter(({ mode }) => mode === 'bulk').length <= 1)
    const rest = await claim({ limit: 10 })
    t.equal([...first, ...rest.map(({ job }) => job)].filter(({ id }) => id === job.id).length, 1)
  })
}

function caps(t: Test, start: Start): void {
  t.test('no more jobs of a workspace run than it may have, over all modes', async (t) => {
    const { accept, claim, end } = await jobsOf(t, start)
    const [many, few] = neighbours(2)
    for (const mode of ['priority', 'standard', 'bulk'] as const)
      for (let i = 0; i < 4; i++) await accept({ workspace: many!, mode })
    for (let i = 0; i < 2; i++) await accept({ workspace: few! })
    const claimCapped = async (perWorkspace = 3) =>
      (await claim({ limit: 100, perWorkspace })).map(({ job }) => job)
    const first = await claimCapped()
    const counts = countBy(first, ({ workspace }) => workspace)
    t.same([counts.get(many!), counts.get(few!)], [3, 2])
    t.same(await claimCapped(), [])
    t.same(await claimCapped(), [])
    const running = first.filter(({ workspace }) => workspace === many)

    await end(running[0]!, SUCCESS)
    const second = await claimCapped()
    t.match(second, [{ workspace: many }], 'one ended, one more')
    t.equal(second.length, 1)
    await end(second[0]!, { state: 'queued', delayMs: 3_600_000, counts: 'retry' })
    t.equal((await claimCapped()).length, 1, 'one was put back')
    t.same(await claimCapped(), [])
    t.equal((await claimCapped(5)).length, 2, 'more are allowed')
    t.same(await claimCapped(3), [], 'fewer are allowed')
    t.same(await claimCapped(5), [])
  })

  t.test('a worker that dies gives its place in the workspace back', async (t) => {
    const { jobs, accept, claim, pass, owner } = await jobsOf(t, start)
    for (let i = 0; i < 4; i++) await accept()
    const claimTwo = (leaseMs: number) => claim({ limit: 10, perWorkspace: 2, leaseMs })
    t.equal((await claimTwo(SHORT_MS)).length, 2)
    await pass(OVER_MS)
    const second = await claimTwo(SHORT_MS)
    t.equal(second.length, 2)
    for (const { job } of second) await jobs.cancel(job.id, owner, KEEP)
    t.same(await claim({ limit: 0, perWorkspace: 2 }), [])
    await pass(OVER_MS)
    t.equal((await claimTwo(3_600_000)).length, 2)
    t.same(await claimTwo(3_600_000), [])
  })

  t.test('jobs that come while their workspace has enough running wait until it has less', async (t) => {
    const { accept, claim, end } = await jobsOf(t, start)
    const first = await accept()
    const one = { limit: 10, perWorkspace: 1 }
    t.equal((await claim(one)).length, 1)
    await accept()
    await accept({ mode: 'standard' })
    t.same(await claim(one), [])
    const elsewhere = await accept({ workspace: newWorkspace() })
    t.match(await claim(one), [{ job: { id: elsewhere.id } }], 'others are not held up')
    await end({ id: first.id, fence: 1 }, SUCCESS)
    t.equal((await claim(one)).length, 1)
    t.same(await claim(one), [])
  })
}
