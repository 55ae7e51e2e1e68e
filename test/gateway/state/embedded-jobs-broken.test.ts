import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { State } from '../../../src/contracts/state.ts'
import { createClaimTokens } from '../../../src/gateway/state/claim-tokens.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import {
  claimingOf,
  jobsOf,
  KEEP,
  OVER_MS,
  POISON,
  SHORT_MS,
  SUCCESS,
  specOf,
} from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import { LONG_MS, newWorkspace } from '../../support/state-under-test.ts'

const SENDING = { limit: 16, leaseMs: LONG_MS, perWorkspace: 4, perAiling: 4 }
const ALL = { workspace: null, kind: null, status: null, limit: 100 }
const AT_ONCE = { transcriptionMs: SHORT_MS, queueMs: SHORT_MS, deadMs: SHORT_MS }
const UNAVAILABLE = { code: 'DEPENDENCY_UNAVAILABLE' }

/** A state in a file, and the same file by another hand. */
async function fileOf(t: Test) {
  const file = join(await tempFolder(t), 'state.sqlite')
  let state: State | undefined
  const under = await jobsOf(t, async (t) => {
    state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
    t.teardown(() => state?.close())
    const pass = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
    return { state, pass, setClock: null }
  })
  const db = new DatabaseSync(file)
  t.teardown(() => db.close())
  return { ...under, db }
}

const BREAKS = {
  'whose specification is gone':
    'DELETE FROM job_specs WHERE number = (SELECT number FROM jobs WHERE id = ?)',
  'whose specification cannot be read': `
    UPDATE job_specs SET spec = '{' WHERE number = (SELECT number FROM jobs WHERE id = ?)`,
  'whose history cannot be read': `UPDATE jobs SET history = '[' WHERE id = ?`,
  'whose progress cannot be read': `UPDATE jobs SET progress = '{' WHERE id = ?`,
}

// What was broken in the file concerns the one job that it was of.
for (const [what, sql] of Object.entries(BREAKS))
  t.test(`a job ${what} keeps no other waiting`, async (t) => {
    const { db, jobs, outbox, accept, claim, idsOf, pass } = await fileOf(t)
    const kind = 'transcription'
    const workspace = newWorkspace()
    const [bad, next, other] = [await accept({ kind }), await accept(), await accept({ workspace })]
    db.prepare(sql).run(bad.id)
    const handedOut = idsOf(await claim({ limit: 16, leaseMs: SHORT_MS, keep: AT_ONCE }))
    t.same(
      handedOut.filter((id) => id !== bad.id).sort(),
      [next.id, other.id].sort(),
      'the others are handed out',
    )
    db.prepare(sql).run(bad.id)
    t.ok((await jobs.list(ALL)).length >= 2, 'those that can be read are listed')
    await pass(OVER_MS)
    const again = idsOf(await claim({ limit: 16, stalledMax: 1, keep: AT_ONCE }))
    t.same(
      again.filter((id) => id !== bad.id),
      [],
      'and given up when their time has come',
    )
    const statusOf = (id: string) => db.prepare('SELECT status, error FROM jobs WHERE id = ?').get(id)
    t.match(statusOf(next.id), { status: 'failed' })
    t.same({ ...statusOf(bad.id) }, { status: 'failed', error: JSON.stringify(POISON) }, 'as it is itself')
    t.match(await outbox.claim(SENDING), [{ jobId: bad.id, status: 'failed' }], 'and its end is announced')
    await pass(OVER_MS)
    const expired = (await jobs.takeExpired(16)).map(({ id }) => id)
    t.same(expired.filter((id) => id !== bad.id).sort(), [next.id, other.id].sort())
  })

t.test('what a claim took whose answer was lost is handed out by the next', async (t) => {
  const { db, jobs, accept, claim, take, end } = await fileOf(t)
  const submitted = [await accept(), await accept(), await accept()]
  const lost = async (limit: number) => {
    db.exec('BEGIN IMMEDIATE')
    // The first fails because the file is locked; what comes behind it is answered too late, and done.
    const locked = t.rejects(jobs.submit({ spec: specOf('acme'), slot: null }), UNAVAILABLE)
    await new Promise((resolve) => setTimeout(resolve, 100))
    await Promise.all([locked, t.rejects(claim({ limit }), UNAVAILABLE)])
    db.exec('ROLLBACK')
    await jobs.waiting()
  }
  await lost(3)
  t.equal(await jobs.waiting(), 0, 'it has taken them')
  const again = await claim({ limit: 2 })
  t.same(
    again.map(({ job: { id, fence, stalled, status } }) => ({ id, fence, stalled, status })),
    submitted.slice(0, 2).map(({ id }) => ({ id, fence: 1, stalled: 0, status: 'processing' })),
    'as many as there are places for',
  )
  t.equal(await jobs.waiting(), 1, 'and the last was put back')
  for (const { job } of again) t.ok(await end(job, SUCCESS))
  t.match(await take(), { id: submitted[2]?.id, fence: 2, stalled: 0 })
  t.same(await jobs.claim(claimingOf({ limit: 3, keep: KEEP })), [], 'once')
})

t.test('a claim that may arrive after the next asks for no less than that', async (t) => {
  const withToken = createClaimTokens()
  const asked: { readonly token: string; readonly limit: number }[] = []
  const claim = (limit: number, isAnswered: boolean) =>
    withToken(limit, async (token, most) => {
      asked.push({ token, limit: most })
      if (!isAnswered) throw new Error('no answer')
    })
  await t.rejects(claim(2, false), /no answer/)
  await t.rejects(claim(5, false), /no answer/)
  await claim(1, true)
  await claim(5, true)
  const [first, second, third, fourth] = asked
  t.same([second, third], [first, { ...first, limit: 1 }], 'it is known by the token of the first')
  t.equal(fourth?.limit, 5)
  t.not(fourth?.token, first?.token)
})
