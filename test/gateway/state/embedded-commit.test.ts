import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Begun } from '../../../src/contracts/ledger.ts'
import { type Answer, type Call, createCommit } from '../../../src/gateway/state/embedded/commit.ts'
import { openDatabase } from '../../../src/gateway/state/embedded/database.ts'
import { createOperations } from '../../../src/gateway/state/embedded/operations.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { KEEP, specOf } from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import {
  beginningOf,
  claimOf,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
} from '../../support/state-under-test.ts'
import { storedKey } from '../../support/stored-key.ts'

const WORKSPACE = 'acme'

/** The operations on a file, and what runs groups of them. */
async function open(t: Test) {
  const file = join(await tempFolder(t), 'state.sqlite')
  const db = openDatabase(file, { busyMs: 1_500 })
  t.teardown(() => db.close())
  let nowMs = Date.now()
  const parts = createOperations(db, () => nowMs)
  const run = createCommit(db, parts)
  return {
    file,
    db,
    parts,
    group: (calls: readonly Omit<Call, 'id'>[]) => run(calls.map((call, id) => ({ id, ...call }))).answers,
    pass: (ms: number) => {
      nowMs += ms
    },
  }
}

const begin = (id: string, token = newToken()) =>
  ({
    subject: 'ledger',
    method: 'begin',
    args: [beginningOf(WORKSPACE, { token, slot: claimOf(id) })],
  }) as const
const look = (id: string) => ({ subject: 'ledger', method: 'look', args: [WORKSPACE, id] }) as const
const answered = (answer: Answer | undefined) => (answer && 'value' in answer ? answer.value : answer)
const failureOf = (answer: Answer) => ('failure' in answer ? answer.failure : null)

t.test('what is acknowledged has been flushed: the log is synced at every commit', async (t) => {
  const { db } = await open(t)
  t.same({ ...db.prepare('PRAGMA journal_mode').get() }, { journal_mode: 'wal' })
  t.same({ ...db.prepare('PRAGMA synchronous').get() }, { synchronous: 2 }, 'FULL')
})

t.test('an operation that throws undoes itself and nothing else', async (t) => {
  const { group, parts } = await open(t)
  const ids = [newDigest(), newDigest(), newDigest()] as const
  const { begin: real } = parts.operations.ledger
  let failing = true
  parts.operations.ledger.begin = (beginning): Begun => {
    const begun = real(beginning)
    if (failing && beginning.slot?.id === ids[1]) throw new TypeError('a bug')
    return begun
  }
  const answers = group([begin(ids[0]), begin(ids[1]), begin(ids[2]), look(ids[1])])
  t.same(answered(answers[0]), { state: 'begun' })
  t.same(answers[1], { id: 1, failure: { reason: 'a bug', unavailable: false, blocked: null } })
  t.same(answered(answers[2]), { state: 'begun' })
  t.same(answered(answers[3]), { state: 'free' }, 'undone before the next one ran')
  failing = false
  t.same(answered(group([begin(ids[1])])[0]), { state: 'begun' })
})

t.test('what a call that throws has counted is forgotten with it, and nothing else', async (t) => {
  const { group, parts, db } = await open(t)
  const specs = Array.from({ length: 5 }, () => specOf(WORKSPACE))
  const { submit: real } = parts.operations.jobs
  parts.operations.jobs.submit = (submission) => {
    const submitted = real(submission)
    if (submission.spec.id === specs[2]?.id) throw new TypeError('a bug')
    return submitted
  }
  const submits = specs.map((spec) => ({
    subject: 'jobs' as const,
    method: 'submit',
    args: [{ spec, slot: null }],
  }))
  const waiting = { subject: 'jobs', method: 'waiting', args: [] } as const
  const answers = group([...submits, waiting])
  t.same(answers.map(failureOf).map(Boolean), [false, false, true, false, false, false])
  t.equal(answered(answers[5]), 4, 'counted within the group')
  t.equal(answered(group([waiting])[0]), 4)
  const places = db.prepare('SELECT place FROM jobs ORDER BY number').all()
  t.equal(new Set(places.map(({ place }) => place)).size, 4, 'each has a place of its own')
  const cancelled = (id: string) =>
    ({ subject: 'jobs', method: 'cancel', args: [id, { workspace: WORKSPACE, app: 'web' }, KEEP] }) as const
  group([cancelled(specs[0]!.id), waiting])
  t.equal(answered(group([waiting])[0]), 3)
})

t.test('amounts that cannot be kept exactly are refused, and change nothing', async (t) => {
  const { group } = await open(t)
  const add = (id: string, micros: number) =>
    ({ subject: 'accounts', method: 'addCredits', args: [WORKSPACE, { id, micros }] }) as const
  group([add('much', Number.MAX_SAFE_INTEGER)])
  const [more, half] = group([add('more', 1), add('half', 0.5)])
  t.match(more, { failure: { reason: /exactly/ } })
  t.match(half, { failure: { unavailable: false, blocked: null } })
  const show = {
    subject: 'accounts',
    method: 'show',
    args: [WORKSPACE, { grant: null, trial: null, budgetMicros: null }],
  } as const
  const view = answered(group([show])[0])
  t.match(view, { creditsMicros: Number.MAX_SAFE_INTEGER, grants: [{ id: 'much' }] })
})

t.test('on a full disk nothing is kept of what fails', async (t) => {
  const { db, group } = await open(t)
  group([begin(newDigest())])
  const pages = Number(db.prepare('PRAGMA page_count').get()?.page_count)
  db.exec(`PRAGMA max_page_count = ${pages + 3}`)
  const ids = Array.from({ length: 400 }, newDigest)
  const tokens = ids.map(() => newToken())
  const failures = group(ids.map((id, i) => begin(id, tokens[i]))).map(failureOf)
  t.ok(
    failures.some((failure) => failure !== null),
    'the disk was too small',
  )
  const failed = ids.filter((_, i) => failures[i])
  t.ok(failures.every((failure) => failure === null || failure.unavailable))
  t.match(failures.find(Boolean)?.reason, /full/)
  const seen = group(failed.map(look)).map(answered)
  t.ok(
    seen.every((view) => (view as { state: string }).state === 'free'),
    'what failed was not kept',
  )
  db.exec('PRAGMA max_page_count = 1000000')
  const again = group(failed.map((id) => begin(id))).map(answered)
  t.ok(again.every((begun) => (begun as { state: string }).state === 'begun'))
})

t.test('what changes nothing is not flushed', async (t) => {
  const { file, group } = await open(t)
  const terms = { grant: { id: 'initial', micros: 10 }, trial: null, budgetMicros: null }
  const show = { subject: 'accounts', method: 'show', args: [WORKSPACE, terms] } as const
  const refused = {
    subject: 'ledger',
    method: 'begin',
    args: [beginningOf(WORKSPACE, { reservation: reserve(11, { terms }) })],
  } as const
  group([show])
  const before = commitsIn(file)
  for (let i = 0; i < 3; i++)
    t.match(group([show, refused]).map(answered), [
      { creditsMicros: 10 },
      { state: 'refused', why: 'credits' },
    ])
  t.equal(commitsIn(file), before)
})

t.test('a group that cannot be committed fails as a whole', async (t) => {
  const { db, group, parts } = await open(t)
  const run = createCommit(db, {
    ...parts,
    purge: () => {
      throw new Error('gone wrong')
    },
  })
  const id = newDigest()
  const { answers, wrote } = run([
    { id: 7, ...begin(id) },
    { id: 8, ...begin(newDigest()) },
  ])
  const failure = { reason: 'gone wrong', unavailable: false, blocked: null }
  t.same(answers, [
    { id: 7, failure },
    { id: 8, failure },
  ])
  t.equal(wrote, false)
  t.same(answered(group([look(id)])[0]), { state: 'free' })
  t.same(answered(group([begin(id)])[0]), { state: 'begun' })
})

t.test('while another process writes, a group waits, and then fails as a whole; readers go on', async (t) => {
  const { file, group } = await open(t)
  const id = newDigest()
  const other = new DatabaseSync(file)
  other.exec('BEGIN IMMEDIATE')
  const beganMs = performance.now()
  const answers = group([begin(id), look(id)])
  t.ok(performance.now() - beganMs >= 1_490, 'it waited')
  for (const answer of answers) t.match(failureOf(answer), { reason: /locked/, unavailable: true })
  t.same(answered(group([look(id)])[0]), { state: 'free' }, 'what only reads need not wait')
  other.exec('ROLLBACK')
  other.close()
  t.same(answered(group([begin(id)])[0]), { state: 'begun' })
})

t.test('beside a process that writes nearly all the time, a write finds the next gap', async (t) => {
  const { file } = await open(t)
  const { keys, close } = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  const other = openDatabase(file)
  const waits: number[] = []
  while (waits.length < 15) {
    const stored = storedKey()
    let isThere = false
    let turns = 0
    const creating = keys.create(stored).then(() => {
      isThere = true
    })
    while (!isThere && turns < 100) {
      other.exec('BEGIN IMMEDIATE')
      await sleep(30 + 40 * Math.random())
      other.exec('COMMIT')
      await sleep(6)
      turns += 1
    }
    await creating
    waits.push(turns)
  }
  // Five, as SQLite looks by itself.
  const [median = 0] = waits.toSorted((a, b) => a - b).slice(waits.length >> 1)
  t.ok(median < 3, `turns of the other that each write took: ${waits}`)
  other.close()
  await close()
})

t.test('what is of the past is forgotten, a bit at a time', async (t) => {
  const { db, group, pass } = await open(t)
  const count = () => {
    const row = db.prepare(
      'SELECT (SELECT count(*) FROM slots) AS slots, (SELECT count(*) FROM tokens) AS tokens',
    )
    return { ...row.get() } as { slots: number; tokens: number }
  }
  const ended = Array.from({ length: 200 }, () => {
    const [id, token] = [newDigest(), newToken()]
    const end = { state: 'stored', result: resultOf('x'), ttlMs: 1000 } as const
    return [
      begin(id, token),
      {
        subject: 'ledger',
        method: 'settle',
        args: [{ token, workspace: WORKSPACE, slot: { id, end }, charge: null }],
      },
      {
        subject: 'ledger',
        method: 'cancel',
        args: [{ token: newToken(), workspace: WORKSPACE, slotId: null }],
      },
    ] as const
  })
  group(ended.flat())
  t.same(count(), { slots: 200, tokens: 200 })
  pass(900_000)
  group([begin(newDigest())])
  const { slots, tokens } = count()
  t.ok(slots > 100 && slots < 201 && tokens > 100 && tokens < 200, `${slots} slots and ${tokens} tokens`)
  group([begin(newDigest())])
  t.same(count(), { slots: slots + 1, tokens }, 'not with every call')
  for (let i = 0; i < 20; i++) {
    pass(250)
    group([begin(newDigest())])
  }
  t.same(count(), { slots: 22, tokens: 0 }, 'what is alive stays')
})

/** Frames of the write-ahead log that end a transaction (https://sqlite.org/fileformat2.html#walformat). */
function commitsIn(file: string): number {
  const wal = readFileSync(`${file}-wal`)
  const frameBytes = 24 + wal.readUInt32BE(8)
  let commits = 0
  for (let at = 32; at + frameBytes <= wal.length; at += frameBytes) {
    const isOfThisLog = wal.compare(wal, 16, 24, at + 8, at + 16) === 0
    if (isOfThisLog && wal.readUInt32BE(at + 4) !== 0) commits += 1
  }
  return commits
}

t.test('calls that come together are flushed together', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const state = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  // A reader holds the log: it is not begun anew meanwhile, so all of its commits can be counted.
  const reader = new DatabaseSync(file)
  t.teardown(() => reader.close())
  reader.exec('BEGIN; SELECT count(*) FROM slots')
  const workspace = newWorkspace()
  const begin = () => state.ledger.begin(beginningOf(workspace, { slot: claimOf(newDigest()) }))
  const before = commitsIn(file)
  for (let i = 0; i < 20; i++) await begin()
  const single = commitsIn(file)
  t.equal(single - before, 20, 'one by one each has its own')
  await Promise.all(Array.from({ length: 1000 }, begin))
  const together = commitsIn(file) - single
  t.ok(together >= 1 && together <= 60, `1,000 at once had ${together}`)
  reader.exec('COMMIT')
})
