import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { pino } from 'pino'
import t from 'tap'
import { MIGRATIONS } from '../../src/state/embedded/migrations.ts'
import { openEmbeddedState } from '../../src/state/embedded/state.ts'
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
