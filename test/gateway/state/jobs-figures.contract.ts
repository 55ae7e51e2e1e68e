import type { Test } from 'tap'
import type { JobFigures } from '../../../src/contracts/jobs.ts'
import {
  CANCELLATION,
  claimingOf,
  FAILURE,
  jobsOf,
  KEEP,
  OVER_MS,
  RETURN,
  SHORT_MS,
  SUCCESS,
  specOf,
} from '../../support/jobs-under-test.ts'
import { LONG_MS, newWorkspace, type StateUnderTest } from '../../support/state-under-test.ts'

const shown = ({ waiting, ended }: JobFigures) => ({
  waiting: waiting.map(({ kind, mode, ready, delayed }) => `${kind} ${mode} ${ready}+${delayed}`).sort(),
  ended: ended.map(({ kind, status, jobs }) => `${kind} ${status} ${jobs}`).sort(),
})

/** What monitoring is told of jobs, step by step. */
export function jobsFiguresContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  t.test('figures: what waits is counted, and for how long the first of it has', async (t) => {
    const { jobs, workspace, pass } = await jobsOf(t, start)
    const owner = { workspace, app: 'web' }
    t.same(await jobs.figures(), { waiting: [], ended: [] })

    const heard = specOf(workspace, { kind: 'transcription' })
    await jobs.submit({ spec: heard, slot: null })
    await jobs.submit({ spec: heard, slot: null })
    await pass(OVER_MS)
    const first = await jobs.figures()
    t.same(shown(first), { waiting: ['transcription priority 1+0'], ended: [] })
    const { oldestMs } = first.waiting[0]!
    t.ok(oldestMs >= OVER_MS && oldestMs < 60_000, `${oldestMs} ms old`)

    const [taken] = await jobs.claim(claimingOf())
    t.equal(taken?.job.id, heard.id)
    t.same(shown(await jobs.figures()).waiting, [])
    for (const place of [workspace, newWorkspace()])
      await jobs.submit({ spec: specOf(place, { mode: 'bulk' }), slot: null })
    t.same(shown(await jobs.figures()).waiting, ['queue bulk 2+0'])
    await jobs.end(heard.id, 1, { state: 'queued', delayMs: LONG_MS, counts: 'retry' }, KEEP)
    const delayed = await jobs.figures()
    t.same(shown(delayed).waiting, ['queue bulk 2+0', 'transcription priority 0+1'])
    t.equal(delayed.waiting.find(({ kind }) => kind === 'transcription')?.oldestMs, 0, 'none is ready')

    await jobs.cancel(heard.id, owner, KEEP)
    await jobs.cancel(heard.id, owner, KEEP)
    t.same(shown(await jobs.figures()), { waiting: ['queue bulk 2+0'], ended: ['transcription cancelled 1'] })
  })

  t.test('figures: every way to an end is counted once', async (t) => {
    const { jobs, workspace, pass } = await jobsOf(t, start)
    const specs = Array.from({ length: 4 }, () => specOf(workspace))
    for (const spec of specs) await jobs.submit({ spec, slot: null })
    const claimed = await jobs.claim(claimingOf({ limit: 4, leaseMs: LONG_MS }))
    const endings = [SUCCESS, FAILURE, CANCELLATION, RETURN]
    for (const [at, { job }] of claimed.entries()) {
      await jobs.end(job.id, 1, endings[at]!, KEEP)
      await jobs.end(job.id, 1, endings[at]!, KEEP)
    }
    const ended = ['queue cancelled 1', 'queue failed 1', 'queue succeeded 1']
    t.same(shown(await jobs.figures()), { waiting: ['queue priority 1+0'], ended })

    const [again] = await jobs.claim(claimingOf({ leaseMs: SHORT_MS }))
    await pass(OVER_MS)
    t.same(await jobs.claim(claimingOf({ stalledMax: 1 })), [], 'the job has killed its worker')
    t.equal((await jobs.get(again!.job.id))?.status, 'failed')
    t.same(shown(await jobs.figures()), {
      waiting: [],
      ended: ['queue cancelled 1', 'queue failed 2', 'queue succeeded 1'],
    })

    await jobs.retry(again!.job.id)
    t.same(shown(await jobs.figures()).waiting, ['queue priority 1+0'], 'an operator had it tried again')
  })
}
