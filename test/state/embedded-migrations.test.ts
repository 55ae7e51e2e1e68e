import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import t from 'tap'
import { MIGRATIONS } from '../../src/state/embedded/migrations.ts'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
import { claimingOf, specOf } from '../support/jobs-under-test.ts'
import { tempFolder } from '../support/scratch.ts'
import { beginningOf, figuresOf, LONG_MS, NO_TERMS, newToken, reserve } from '../support/state-under-test.ts'

t.test('what calls hold in a file of the first format they hold in every later one', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const [first = ''] = MIGRATIONS
  const [token, cancelled, batch] = [newToken(), newToken(), newToken()]
  const untilMs = Date.now() + LONG_MS
  const old = new DatabaseSync(file)
  old.exec(`${first}; PRAGMA user_version = 1`)
  const month = new Date().toISOString().slice(0, 7)
  old.prepare('INSERT INTO accounts VALUES (?, 900, 0, 0, 0, 0, ?, 100)').run('acme', month)
  old
    .prepare('INSERT INTO reservations VALUES (?, ?, ?, ?, 100, 100, ?, ?)')
    .run('acme', token, 'key_one', 'credits', month, untilMs)
  const remember = old.prepare('INSERT INTO tokens VALUES (?, ?, ?, ?)')
  remember.run('acme', cancelled, 'cancelled', untilMs)
  remember.run('acme', batch, 'usage', untilMs)
  old.close()

  const { ledger, accounts, close } = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(close)
  t.same(await ledger.begin(beginningOf('acme', { token: cancelled, reservation: reserve(1) })), {
    state: 'refused',
    why: 'voided',
  })
  await accounts.addUsage({ token: batch, workspace: 'acme', spentMicros: { key_one: 5 } })
  const figures = async () => figuresOf(await accounts.show('acme', NO_TERMS))
  t.match(await figures(), { creditsMicros: 900, reservedMicros: 100, spentMicros: 100 })
  const charge = { platformMicros: 30, spendMicros: 30 }
  await ledger.settle({ token, workspace: 'acme', slot: null, charge })
  t.match(await figures(), { creditsMicros: 970, reservedMicros: 0, spentMicros: 30 })

  const job = newToken()
  const claim = { number: 1 }
  await ledger.begin(beginningOf('acme', { token: job, reservation: reserve(40), claim }))
  await ledger.settle({ token: job, workspace: 'acme', slot: null, charge, claim })
  t.same(await ledger.begin(beginningOf('acme', { token: job, reservation: reserve(40), claim })), {
    state: 'begun',
  })
  t.match(await figures(), { creditsMicros: 940, reservedMicros: 0 })
})

t.test('jobs and events of a file of the last release wait in the same order in this one', async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const old = new DatabaseSync(file)
  const released = MIGRATIONS.slice(0, 7)
  old.exec(`${released.join(';')}; PRAGMA user_version = ${released.length}`)
  const specs = ['acme', 'zoo', 'busy'].map((workspace) => specOf(workspace))
  const putJob = old.prepare(`
    INSERT INTO jobs (
      id, kind, mode, workspace, app, status, ready, place, marked, created_at_ms, cancel_requested, fence, strays,
      retries, returns, history, waits_from_ms
    ) VALUES (?, ?, ?, ?, ?, 'queued', 1, ?, 0, 1, 0, 2, 1, 0, 0, '[{"atMs":1,"status":"queued","fence":0}]', 1)`)
  const putSpec = old.prepare('INSERT INTO job_specs VALUES (?, ?)')
  const putTurn = old.prepare('INSERT INTO job_turns VALUES (?, ?, ?, ?)')
  for (const [at, spec] of specs.entries()) {
    const { lastInsertRowid } = putJob.run(spec.id, spec.kind, spec.mode, spec.workspace, spec.app, at + 1)
    putSpec.run(lastInsertRowid, JSON.stringify(spec))
    putTurn.run(spec.workspace, spec.mode, 9 - at, spec.workspace === 'busy' ? 1 : null)
  }
  old.exec('UPDATE job_counters SET place = 3, waiting = 3')
  const putEvent = old.prepare("INSERT INTO events VALUES (?, ?, ?, 'failed', 1, 0, 1, 0, 0, NULL, NULL)")
  const putEventTurn = old.prepare('INSERT INTO event_turns VALUES (?, 1, ?, ?)')
  for (const [at, workspace] of ['ailing', 'late', 'soon'].entries()) {
    putEvent.run(`tj_${workspace}`, `evt_${workspace}`, workspace)
    putEventTurn.run(workspace, 9 - at, Number(workspace === 'ailing'))
  }
  old.close()

  const { jobs, outbox, close } = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(close)
  const claim = () => jobs.claim(claimingOf({ limit: 9, perWorkspace: 1 }))
  const claimed = (await claim()).map(({ job: { workspace, stalled, fence } }) => ({
    workspace,
    stalled,
    fence,
  }))
  t.same(claimed, [
    { workspace: 'zoo', stalled: 1, fence: 3 },
    { workspace: 'acme', stalled: 1, fence: 3 },
  ])
  const [freed] = await jobs.claim(claimingOf({ limit: 9, perWorkspace: 2 }))
  t.equal(freed?.job.id, specs[2]?.id, 'a workspace that was throttled is served when it may have more')
  const sent = await outbox.claim({ limit: 9, leaseMs: LONG_MS, perWorkspace: 1, perAiling: 1 })
  t.same(
    sent.map(({ workspace }) => workspace),
    ['soon', 'late', 'ailing'],
  )
})

t.test("the playground's keys of a file without marks are marked, and no others", async (t) => {
  const file = join(await tempFolder(t), 'state.sqlite')
  const before = MIGRATIONS.slice(
    0,
    MIGRATIONS.findIndex((step) => step.includes('ADD COLUMN kind')),
  )
  const old = new DatabaseSync(file)
  old.exec(`${before.join(';')}; PRAGMA user_version = ${before.length}`)
  const put = old.prepare(`
    INSERT INTO stored_keys (id, sha256, prefix, workspace, app, name, scopes, created_at_ms, expires_at_ms)
    VALUES (?, ?, 'lk_live_', 'acme', 'web', ?, '[]', ?, ?)`)
  put.run('key_own', 'a', 'playground', 1, 3_600_001)
  put.run('key_longer', 'b', 'playground', 2, 3_600_003)
  put.run('key_other', 'c', 'mine', 3, 3_600_003)
  old.close()

  const { keys, close } = await openEmbeddedState({ file, log: pino({ level: 'silent' }) })
  t.teardown(close)
  t.same(
    (await keys.list()).map(({ id, kind }) => [id, kind]),
    [
      ['key_own', 'playground'],
      ['key_longer', undefined],
      ['key_other', undefined],
    ],
  )
})
