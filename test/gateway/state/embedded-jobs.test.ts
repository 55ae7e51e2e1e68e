import { statSync } from 'node:fs'
import { join } from 'node:path'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { EventClaiming } from '../../../src/contracts/outbox.ts'
import { createCommit } from '../../../src/gateway/state/embedded/commit.ts'
import { openDatabase, StateDatabase } from '../../../src/gateway/state/embedded/database.ts'
import { createOperations } from '../../../src/gateway/state/embedded/operations.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import type { SubjectName, Subjects } from '../../../src/gateway/state/embedded/subjects.ts'
import { claimingOf, FAILURE, KEEP, SUCCESS, slotOf, specOf } from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import { LONG_MS, newWorkspace } from '../../support/state-under-test.ts'

const SENDING: EventClaiming = { limit: 10, leaseMs: LONG_MS, perWorkspace: 10, perAiling: 2 }

type ArgsOf<Method> = Method extends (...args: infer Args) => unknown ? Args : never
type AnswerOf<Method> = Method extends (...args: never) => Promise<infer Answer> ? Answer : never

/** The operations on a file or in memory, each in a transaction of its own, on a clock of the test's. */
function open(t: Test, file = ':memory:') {
  const db = openDatabase(file)
  t.teardown(() => db.close())
  let nowMs = Date.now()
  const parts = createOperations(db, () => nowMs)
  const commit = createCommit(db, parts)
  return {
    db,
    run<Name extends SubjectName, Method extends keyof Subjects[Name] & string>(
      subject: Name,
      method: Method,
      ...args: ArgsOf<Subjects[Name][Method]>
    ) {
      const { answers, wrote } = commit([{ id: 1, subject, method, args }])
      const [answer] = answers
      if (!answer || 'failure' in answer) throw new Error(answer?.failure.reason)
      return { value: answer.value as AnswerOf<Subjects[Name][Method]>, wrote }
    },
    pass(ms: number) {
      nowMs += ms
    },
    count: (sql: string) => Number(db.prepare(`SELECT count(*) AS rows FROM ${sql}`).get()?.rows),
  }
}

/** Writes so many jobs that are ready, spread over workspaces, faster than by submitting them. */
function fill(db: StateDatabase, jobs: number, workspaces: number): void {
  db.exec(`
    BEGIN;
    CREATE TEMP TABLE numbers AS
      WITH RECURSIVE counted(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM counted WHERE n < ${jobs})
      SELECT n FROM counted;
    INSERT INTO jobs (
      id, kind, mode, workspace, app, status, ready, place, marked, created_at_ms,
      cancel_requested, fence, stalled, retries, returns, history
    ) SELECT
      'qj_' || n, 'queue', 'priority', 'ws_' || (n % ${workspaces}), 'web', 'queued', 1, n, 0, 0, 0, 0, 0, 0, 0, '[]'
      FROM numbers;
    INSERT INTO job_specs SELECT number, json_object('id', id, 'workspace', workspace) FROM jobs;
    INSERT INTO job_round_robin SELECT DISTINCT workspace, mode, number, NULL FROM jobs GROUP BY workspace, mode;
    UPDATE job_counters SET place = ${jobs}, waiting = ${jobs};
    DROP TABLE numbers;
    COMMIT;`)
}

/** Milliseconds that the middle one of many calls takes. */
function medianMs(times: number, call: () => unknown): number {
  const taken = Array.from({ length: times }, () => {
    const fromMs = performance.now()
    call()
    return performance.now() - fromMs
  })
  return taken.sort((a, b) => a - b)[times >> 1]!
}

/** Every statement of the state, and a file to explain them on. */
async function allStatements(t: Test) {
  const prepared = new Set<string>()
  class Recording extends StateDatabase {
    override prepare(sql: string) {
      prepared.add(sql)
      return super.prepare(sql)
    }
  }
  const file = join(await tempFolder(t), 'state.sqlite')
  openDatabase(file).close()
  const db = new Recording(file)
  t.teardown(() => db.close())
  createOperations(db, Date.now)
  return { db, prepared: [...prepared] }
}

t.test('no statement is planned anew with each run, as a bare bound limit would have it', async (t) => {
  const { db, prepared } = await allStatements(t)
  for (const sql of prepared) t.notMatch(sql, /\bLIMIT\s+[?:$@]\w*(?!\w)(?!\s*\+)/, sql.trim())
  const medianUs = (limit: string) => {
    const find = db.prepare(`SELECT number FROM jobs WHERE lease_until_ms <= ? LIMIT ${limit}`)
    return medianMs(2_000, () => find.all(1, 10)) * 1000
  }
  const [bare, added] = [medianUs('?'), medianUs('? + 0')]
  t.ok(added < bare, `${added.toFixed(1)} µs with an addition, ${bare.toFixed(1)} µs with a bare limit`)
})

t.test('no statement about jobs reads a table from its beginning to its end', async (t) => {
  const { db, prepared } = await allStatements(t)
  const statements = prepared.filter((sql) => /\b(jobs|job_\w+|events|event_round_robin)\b/.test(sql))
  // One row; what the caller hands over; or the list of events for operators, from the newest on.
  const allowed =
    /^SCAN (job_counters|CONSTANT ROW|json_each|events USING INDEX events_to_list)|FOR LAST TERM OF ORDER BY/
  for (const sql of statements) {
    for (const { detail } of db.prepare(`EXPLAIN QUERY PLAN ${sql}`).all()) {
      const costly = /^SCAN|TEMP B-TREE|AUTOMATIC/.test(String(detail)) && !allowed.test(String(detail))
      if (costly) t.fail(`${detail}: ${sql.trim()}`)
    }
  }
  t.ok(statements.length > 40, `${statements.length} statements`)
})

t.test('a claim out of many jobs costs what it costs out of few', async (t) => {
  const few = open(t)
  const many = open(t)
  fill(few.db, 1_000, 50)
  fill(many.db, 300_000, 3_000)
  const claim = ({ run }: typeof few) => {
    const [claimed] = run('jobs', 'claim', claimingOf({ perWorkspace: 3 })).value
    if (!claimed) throw new Error('there was no job')
    return claimed.job
  }
  for (const queue of [few, many]) medianMs(20, () => claim(queue))
  const [fewMs, manyMs] = [few, many].map((queue) => medianMs(100, () => claim(queue)))
  // What grew with the jobs would be 300 times as much.
  t.ok(manyMs! < 10 * fewMs!, `${manyMs} ms of 300,000, ${fewMs} ms of 1,000`)
  t.equal(many.run('jobs', 'waiting').value, 300_000 - 120)
  const submit = ({ run }: typeof few) => run('jobs', 'submit', { spec: specOf('ws_1'), slot: null })
  const [toFewMs, toManyMs] = [few, many].map((queue) => medianMs(50, () => submit(queue)))
  t.ok(toManyMs! < 10 * toFewMs!, `${toManyMs} ms to 300,000, ${toFewMs} ms to 1,000`)
})

/** Pages that a call writes to the log of the file. */
function pagesOf(db: StateDatabase, file: string, call: () => unknown): number {
  const FRAME_BYTES = 4096 + 24
  db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  call()
  return Math.floor(statSync(`${file}-wal`).size / FRAME_BYTES)
}

t.test(
  'a job of many keys is taken up and submitted with a handful of pages, however many wait',
  async (t) => {
    const PER_KEY = 10
    const TAKEN = 16
    const costs = async (jobs: number) => {
      const file = join(await tempFolder(t), 'state.sqlite')
      const { db, run } = open(t, file)
      fill(db, jobs, jobs / PER_KEY)
      // The planner looks at the tables once, and the first calls purge.
      for (let i = 0; i < 3; i++) run('jobs', 'claim', claimingOf({ limit: TAKEN }))
      const rounds = Array.from({ length: 20 }, () => {
        const claim = pagesOf(db, file, () => {
          t.equal(run('jobs', 'claim', claimingOf({ limit: TAKEN })).value.length, TAKEN)
        })
        const submit = pagesOf(db, file, () =>
          run('jobs', 'submit', { spec: specOf(`ws_${jobs / PER_KEY - 1}`), slot: null }),
        )
        return { claim, submit }
      })
      const sum = (what: 'claim' | 'submit') =>
        rounds.reduce((all, round) => all + round[what], 0) / rounds.length
      return { claim: sum('claim'), submit: sum('submit') }
    }
    const [few, many] = [await costs(20_000), await costs(200_000)]
    const told = JSON.stringify({ few, many })
    // Of each key its page of the list of ready jobs and of the round robin, which few keys share; a dozen for all.
    t.ok(many.claim <= 2 * TAKEN + 12, told)
    t.ok(many.submit <= few.submit + 1, told)
  },
)

t.test('workspaces that have enough running cost nothing', async (t) => {
  const { db, run } = open(t)
  const workspaces = 5_000
  fill(db, 3 * workspaces, workspaces)
  const one = { limit: workspaces, perWorkspace: 1 }
  t.equal(run('jobs', 'claim', claimingOf(one)).value.length, workspaces)
  // The first to find that they have enough puts them aside.
  t.same(run('jobs', 'claim', claimingOf(one)), { value: [], wrote: true })
  t.same(run('jobs', 'claim', claimingOf(one)), { value: [], wrote: false })
  const idleMs = medianMs(50, () => run('jobs', 'claim', claimingOf(one)))
  const empty = open(t)
  const emptyMs = medianMs(50, () => empty.run('jobs', 'claim', claimingOf(one)))
  t.ok(idleMs < 10 * emptyMs, `${idleMs} ms, and ${emptyMs} ms where there is no workspace`)
  run('jobs', 'end', 'qj_7', 1, SUCCESS, KEEP)
  t.match(run('jobs', 'claim', claimingOf(one)).value, [{ job: { id: 'qj_5007' } }])
  t.equal(run('jobs', 'claim', claimingOf({ ...one, perWorkspace: 2 })).value.length, workspaces)
})

t.test('whoever finds nothing to do writes nothing', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const { run, pass } = open(t, file)
  const idle = () => {
    const size = statSync(`${file}-wal`).size
    for (let i = 0; i < 3; i++) {
      t.same(run('jobs', 'claim', claimingOf({ limit: 10 })), { value: [], wrote: false })
      t.same(run('outbox', 'claim', SENDING), { value: [], wrote: false })
      t.same(run('jobs', 'takeExpired', 10), { value: [], wrote: false })
      pass(1)
    }
    t.equal(statSync(`${file}-wal`).size, size)
  }
  idle()
  const delayed = specOf('acme', { kind: 'transcription' })
  const done = specOf('acme', { kind: 'transcription' })
  for (const spec of [delayed, done]) run('jobs', 'submit', { spec, slot: slotOf() })
  run('jobs', 'claim', claimingOf({ limit: 2 }))
  idle()
  run('jobs', 'end', delayed.id, 1, { state: 'queued', delayMs: LONG_MS, counts: 'retry' }, KEEP)
  run('jobs', 'end', done.id, 1, FAILURE, KEEP)
  t.equal(run('outbox', 'claim', SENDING).value.length, 1)
  idle()
  const event = { jobId: done.id, attempts: 1 }
  run('outbox', 'end', event, { state: 'given_up', reason: 'status 410', keepMs: LONG_MS })
  idle()
  t.equal(run('jobs', 'renew', done.id, 1, LONG_MS, null).wrote, false)
  t.equal(run('jobs', 'end', done.id, 1, FAILURE, KEEP).wrote, false)
  t.equal(run('jobs', 'cancel', done.id, { workspace: 'acme', app: 'web' }, KEEP).wrote, false)
  t.equal(run('outbox', 'end', event, { state: 'delivered' }).wrote, false)
})

t.test('what is of the past is forgotten', async (t) => {
  const { run, pass, count } = open(t)
  const retention = { transcriptionMs: 1000, queueMs: 1000, deadMs: 1000 }
  const ids: string[] = []
  for (let i = 0; i < 100; i++) {
    const spec = specOf(newWorkspace(), { kind: 'transcription' })
    ids.push(spec.id)
    run('jobs', 'submit', { spec, slot: slotOf({ keepMs: 1000 }) })
    run('jobs', 'claim', claimingOf())
    run('jobs', 'end', spec.id, 1, SUCCESS, retention)
    const [event] = run('outbox', 'claim', SENDING).value
    run('outbox', 'end', event!, { state: 'given_up', reason: 'status 410', keepMs: 1000 })
  }
  pass(2000)
  t.equal(run('outbox', 'list', null, 1000).value.length, 0, 'out of sight at once')
  for (let i = 0; i < 10; i++) run('jobs', 'claim', claimingOf())
  for (let i = 0; i < 10; i++) run('outbox', 'claim', SENDING)
  t.equal(count('events'), 0)
  t.equal(count('job_slots'), 100, 'keys are kept as long as the records')
  t.equal(run('jobs', 'takeExpired', 1000).value.length, 100)
  for (const id of ids) run('jobs', 'forget', id)
  for (let i = 0; i < 10; i++) run('jobs', 'claim', claimingOf())
  for (const table of ['jobs', 'job_specs', 'job_slots', 'job_round_robin', 'events'])
    t.equal(count(table), 0, table)
  // That a workspace ails is remembered, by one row.
  t.equal(count('event_round_robin'), 100)
})

t.test('an event that nobody has taken cannot be ended', async (t) => {
  const { run } = open(t)
  const spec = specOf('acme', { kind: 'transcription' })
  run('jobs', 'submit', { spec, slot: null })
  run('jobs', 'cancel', spec.id, { workspace: 'acme', app: 'web' }, KEEP)
  for (const ending of [
    { state: 'delivered' },
    { state: 'retry', delayMs: LONG_MS, reason: 'status 500' },
    { state: 'given_up', keepMs: LONG_MS, reason: 'status 410' },
  ] as const)
    t.equal(run('outbox', 'end', { jobId: spec.id, attempts: 0 }, ending).value, false, ending.state)
  t.match(run('outbox', 'claim', SENDING).value, [{ jobId: spec.id, attempts: 1 }])
})

t.test('a workspace that waits for its turn keeps it when more events come', async (t) => {
  const { run, pass } = open(t)
  const announce = (workspace: string) => {
    const spec = specOf(workspace, { kind: 'transcription' })
    run('jobs', 'submit', { spec, slot: null })
    run('jobs', 'cancel', spec.id, { workspace, app: 'web' }, KEEP)
    pass(1)
  }
  for (const workspace of ['first', 'second', 'first', 'first']) announce(workspace)
  const served: string[] = []
  for (let i = 0; i < 4; i++) {
    served.push(...run('outbox', 'claim', { ...SENDING, limit: 1 }).value.map(({ workspace }) => workspace))
    pass(1)
  }
  t.same(served, ['first', 'second', 'first', 'first'])
})

t.test('lists are bounded, whatever is asked for', async (t) => {
  const { db, run } = open(t)
  fill(db, 3_000, 10)
  const filter = { workspace: null, kind: null, status: null, limit: 1_000_000 }
  t.equal(run('jobs', 'list', filter).value.length, 1000)
  const newest = run('jobs', 'list', { ...filter, workspace: 'ws_3', limit: 2 }).value
  t.same(
    newest.map(({ id }) => id),
    ['qj_2993', 'qj_2983'],
  )
})

t.test('two processes take each job once', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const log = pino({ level: 'silent' })
  const states = await Promise.all([1, 2].map(() => openEmbeddedState({ file, log })))
  t.teardown(() => Promise.all(states.map((state) => state.close())))
  const [first] = states
  const submitted = Array.from({ length: 200 }, () => specOf(newWorkspace()))
  await Promise.all(submitted.map((spec) => first!.jobs.submit({ spec, slot: null })))
  const taken: string[] = []
  await Promise.all(
    states.map(async ({ jobs }) => {
      for (;;) {
        const claimed = await jobs.claim(claimingOf({ limit: 5 }))
        if (claimed.length === 0) return
        for (const { job } of claimed) taken.push(job.id)
        await Promise.all(claimed.map(({ job }) => jobs.end(job.id, job.fence, SUCCESS, KEEP)))
      }
    }),
  )
  t.same(taken.sort(), submitted.map(({ id }) => id).sort())
})
