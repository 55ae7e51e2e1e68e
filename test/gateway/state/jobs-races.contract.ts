import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { Job, JobEnding } from '../../../src/contracts/jobs.ts'
import { Dice } from '../../support/dice.ts'
import { CANCELLATION, FAILURE, jobsOf, RETURN, SUCCESS, storyOf } from '../../support/jobs-under-test.ts'
import type { StateUnderTest } from '../../support/state-under-test.ts'

const ENDINGS: readonly JobEnding[] = [SUCCESS, FAILURE, CANCELLATION, RETURN]
const JOBS = 120

/** What steps that race with each other come to. */
export function jobsRacesContract(t: Test, start: (t: Test) => Promise<StateUnderTest>): void {
  const seed = Math.floor(Math.random() * 1_000_000)

  t.test(`cancelling races with claiming and ending, from seed ${seed}`, async (t) => {
    const { jobs, accept, claim, end, cancel, announced } = await jobsOf(t, start)
    const dice = new Dice(seed)
    const pause = () => (dice.chance(0.5) ? Promise.resolve() : sleep(dice.below(8)))
    const submitted = await Promise.all(Array.from({ length: JOBS }, () => accept({ kind: 'transcription' })))
    const said = new Map<string, Job[]>(submitted.map(({ id }) => [id, []]))
    const note = (job: Job | null) => job && said.get(job.id)?.push(job)

    const cancelling = submitted.map(async ({ id }) => {
      await pause()
      await pause()
      const job = await cancel(id)
      if (!job) t.fail(`${id} could not be cancelled`)
      note(job)
    })
    const work = async () => {
      for (let idle = 0; idle < 2; ) {
        const claimed = await claim({ limit: 1 + dice.below(4) })
        idle = claimed.length === 0 ? idle + 1 : 0
        await Promise.all(
          claimed.map(async ({ job }) => {
            note(job)
            await pause()
            // Each end twice at once, as a command that is sent again: both answers are of one end.
            const ending = dice.one(ENDINGS)
            const answers = await Promise.all([end(job, ending), end(job, ending)])
            for (const answer of answers) note(answer)
          }),
        )
        if (idle > 0) await Promise.all(cancelling)
      }
    }
    await Promise.all([work(), work(), work(), work()])

    const final = await Promise.all(submitted.map(async ({ id }) => (await jobs.get(id))!))
    t.same(
      final.filter(({ endedAtMs }) => endedAtMs === null),
      [],
      'all have ended',
    )
    for (const job of final) {
      const line = storyOf(job).join(', ')
      if (!isSound(storyOf(job))) t.fail(`no sound history: ${line}`)
      const last = said.get(job.id)!.filter(({ endedAtMs }) => endedAtMs !== null)
      t.same(new Set(last.map((view) => JSON.stringify(view.history))).size, 1, 'told one end only')
      t.same(last[0], job, 'which is the one that stays')
    }
    const events = await announced()
    t.equal(events.length, JOBS)
    const expected = final.map(({ id, status }) => `${id} ${status}`).sort()
    t.same(events.map(({ jobId, status }) => `${jobId} ${status}`).sort(), expected, 'each announced once')
    t.equal(await jobs.waiting(), 0)
  })

  t.test('many workers take each job once', async (t) => {
    const { accept, claim, end, jobs } = await jobsOf(t, start)
    const submitted = await Promise.all(Array.from({ length: 200 }, () => accept()))
    const taken: string[] = []
    const work = async () => {
      for (;;) {
        const claimed = await claim({ limit: 7 })
        if (claimed.length === 0) return
        taken.push(...claimed.map(({ job }) => job.id))
        await Promise.all(claimed.map(({ job }) => end(job, SUCCESS)))
      }
    }
    await Promise.all(Array.from({ length: 10 }, work))
    t.same([...taken].sort(), submitted.map(({ id }) => id).sort())
    const filter = { workspace: null, kind: null, status: 'succeeded', limit: 1000 } as const
    t.equal((await jobs.list(filter)).length, 200)
  })
}

/** Whether a job may have gone this way: claimed with growing numbers, ended once. */
export function isSound(story: readonly string[]): boolean {
  let expected = /^queued 0$/
  let fence = 0
  for (const line of story) {
    if (!expected.test(line)) return false
    const [status, number] = line.split(' ')
    fence = Number(number)
    if (status === 'queued') expected = new RegExp(`^(processing ${fence + 1}|cancelled ${fence})$`)
    else if (status === 'processing') expected = new RegExp(`^(queued|succeeded|failed|cancelled) ${fence}$`)
    else expected = /^$/
  }
  return true
}
