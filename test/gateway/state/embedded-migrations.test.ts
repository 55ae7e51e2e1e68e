import { once } from 'node:events'
import { mkdir, readdir, rmdir, stat, utimes } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Worker } from 'node:worker_threads'
import { pino } from 'pino'
import t from 'tap'
import { MIGRATIONS, READABLE_SINCE } from '../../../src/gateway/state/embedded/migrations.ts'
import { openEmbeddedState } from '../../../src/gateway/state/embedded/state.ts'
import { claimingOf, specOf } from '../../support/jobs-under-test.ts'
import { tempFolder } from '../../support/scratch.ts'
import {
  beginningOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newToken,
  reserve,
} from '../../support/state-under-test.ts'

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

t.test('a file is copied before it is migrated, and the copy is the way back', async (t) => {
  const folder = await tempFolder(t)
  const file = join(folder, 'state.sqlite')
  const format = MIGRATIONS.length - 1
  const old = new DatabaseSync(file)
  old.exec(
    `PRAGMA journal_mode = WAL; ${MIGRATIONS.slice(0, format).join(';')}; PRAGMA user_version = ${format}`,
  )
  old.prepare("INSERT INTO tokens VALUES ('acme', 'before', 'usage', 1)").run()
  const lines: Record<string, unknown>[] = []
  const log = pino({ base: null }, { write: (line: string) => void lines.push(JSON.parse(line)) })
  const copy = `${file}.format-${format}`

  await mkdir(`${copy}.draft`)
  const open = () => openEmbeddedState({ file, log })
  await t.rejects(open(), { message: /cannot be opened: it cannot be copied before it is migrated/ })
  t.same(old.prepare('PRAGMA user_version').get(), { user_version: format }, 'nothing was changed')
  await rmdir(`${copy}.draft`)
  // What is in the log of the file alone is in the copy, too.
  const { close } = await open()
  await close()
  old.close()
  t.match(lines.at(-1), { path: copy, msg: /a copy from before it is kept/ })
  t.equal((await stat(copy)).mode & 0o077, 0, 'nobody else reads it')

  const kept = new DatabaseSync(copy, { readOnly: true })
  t.same(kept.prepare('PRAGMA user_version').get(), { user_version: format })
  t.equal(kept.prepare("SELECT token FROM tokens WHERE token = 'before'").get()?.token, 'before')
  t.same(kept.prepare('PRAGMA integrity_check').get(), { integrity_check: 'ok' })
  kept.close()
  const names = async () => (await readdir(folder)).filter((name) => name.includes('format'))
  await (await open()).close()
  t.equal((await names()).length, 1, 'it stays')
  await utimes(copy, 0, Date.now() / 1_000 - 8 * 86_400)
  await (await open()).close()
  t.same(await names(), [], 'for a week')
})

t.test('a version before goes on with a file that says that it can, and with no other', async (t) => {
  const log = pino({ level: 'silent' })
  const format = MIGRATIONS.length
  t.ok(READABLE_SINCE <= format && READABLE_SINCE > 0)
  /** A file of the next format, as a version that we do not know would leave it. */
  async function newer(readableSince: number): Promise<string> {
    const file = join(await tempFolder(t), 'state.sqlite')
    const state = await openEmbeddedState({ file, log })
    await state.settings.putAudioUrlDomains('acme', ['a.example'])
    await state.close()
    const db = new DatabaseSync(file)
    db.exec(`ALTER TABLE tokens ADD COLUMN of_later TEXT; PRAGMA user_version = ${format + 1};
      PRAGMA application_id = ${readableSince}`)
    db.close()
    return file
  }
  const pragma = (file: string, name: string) => {
    const db = new DatabaseSync(file, { readOnly: true })
    const value = Object.values(db.prepare(`PRAGMA ${name}`).get() ?? {})[0]
    db.close()
    return value
  }
  const file = await newer(format)
  const state = await openEmbeddedState({ file, log })
  t.same(await state.settings.audioUrlDomains('acme'), ['a.example'])
  await state.accounts.addUsage({ token: newToken(), workspace: 'acme', spentMicros: { key_one: 5 } })
  await state.close()
  t.equal(pragma(file, 'user_version'), format + 1, 'it stays what it is, for the newer one')
  t.equal(pragma(file, 'application_id'), format)
  for (const since of [format + 1, 0])
    await t.rejects(openEmbeddedState({ file: await newer(since), log }), {
      message: /a newer version of Larkway/,
    })

  const unmarked = join(await tempFolder(t), 'state.sqlite')
  await (await openEmbeddedState({ file: unmarked, log })).close()
  const db = new DatabaseSync(unmarked)
  t.equal(pragma(unmarked, 'application_id'), READABLE_SINCE)
  db.exec('PRAGMA application_id = 0')
  db.close()
  await (await openEmbeddedState({ file: unmarked, log })).close()
  t.equal(pragma(unmarked, 'application_id'), READABLE_SINCE, 'also of a file that was there before')
})

t.test('all who make a new file at the same moment open it', async (t) => {
  const arrivals = new Int32Array(new SharedArrayBuffer(4))
  const workerData = { folder: await tempFolder(t), files: 40, threads: 2, arrivals }
  const open = () => once(new Worker(new URL('./opener.ts', import.meta.url), { workerData }), 'message')
  t.same(await Promise.all([open(), open()]), [[[]], [[]]], 'none failed')
})
