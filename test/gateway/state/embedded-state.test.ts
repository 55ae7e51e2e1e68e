import { mkdir, rmdir, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Begun } from '../../../src/contracts/ledger.ts'
import { openEmbeddedState, stateOf } from '../../../src/gateway/state/embedded/state.ts'
import { StateThread } from '../../../src/gateway/state/embedded/thread.ts'
import { startBareOperations } from '../../support/bare-operations.ts'
import { tempFolder } from '../../support/scratch.ts'
import { emptyStateIn } from '../../support/state-file.ts'
import {
  beginningOf,
  claimOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newDigest,
  newToken,
  newWorkspace,
  reserve,
  resultOf,
  type StateUnderTest,
} from '../../support/state-under-test.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { accountsContract } from './accounts.contract.ts'
import { alertsContract } from './alerts.contract.ts'
import { catalogContract } from './catalog.contract.ts'
import { catalogModelContract } from './catalog-model.contract.ts'
import { jobsContract } from './jobs.contract.ts'
import { jobsModelContract } from './jobs-model.contract.ts'
import { keysContract } from './keys.contract.ts'
import { ledgerContract } from './ledger.contract.ts'
import { ledgerModelContract } from './ledger-model.contract.ts'
import { outboxContract } from './outbox.contract.ts'
import { settingsContract } from './settings.contract.ts'

const log = pino({ level: 'silent' })

type Start = (t: Test) => Promise<StateUnderTest>

async function start(t: Test, file: string): Promise<StateUnderTest> {
  const state = await openEmbeddedState({ file, log })
  t.teardown(() => state.close())
  return { state, pass: (ms) => sleep(ms), setClock: null }
}

const newFile = async (t: Test) => join(await tempFolder(t), 'state.sqlite')

/** Those that wait until something is over need a clock that a busy machine cannot outrun; these do not wait. */
const TIMELESS = { accounts: accountsContract, keys: keysContract, catalog: catalogContract }
const CONTRACTS = {
  ...TIMELESS,
  ledger: ledgerContract,
  settings: settingsContract,
  jobs: jobsContract,
  outbox: outboxContract,
  alerts: alertsContract,
  'model of the ledger': (t: Test, start: Start) => ledgerModelContract(t, start, { count: 6, steps: 150 }),
  'model of jobs': (t: Test, start: Start) => jobsModelContract(t, start, { count: 6, steps: 150 }),
  'model of the catalog': (t: Test, start: Start) => catalogModelContract(t, start, { count: 3, steps: 60 }),
}

for (const [name, contract] of Object.entries(CONTRACTS)) {
  t.test(name, async (t) => contract(t, startBareOperations))
}
for (const [name, contract] of Object.entries(TIMELESS)) {
  t.test(`${name}, in a file and on its thread`, async (t) =>
    contract(t, async (t) => start(t, await emptyStateIn(await tempFolder(t)))),
  )
}

t.test('4,000 calls on credits for 400 of them, 2,000 at once', async (t) => {
  const { state } = await start(t, await newFile(t))
  const workspace = newWorkspace()
  await state.accounts.addCredits(workspace, { id: 'initial', micros: 28_000 })
  const begin = () => state.ledger.begin(beginningOf(workspace, { reservation: reserve(70) }))
  const begun: Begun[] = []
  // Each is answered within 2 s, or not at all: on cores that others share, all of them are too many at once.
  for (let group = 0; group < 2; group += 1) {
    begun.push(...(await Promise.all(Array.from({ length: 2_000 }, begin))))
  }
  t.equal(begun.filter(({ state }) => state === 'begun').length, 400)
  const refused = begun.filter((one) => one.state === 'refused' && one.why === 'credits')
  t.equal(refused.length, 3600)
  const view = await state.accounts.show(workspace, NO_TERMS)
  t.match(view, { creditsMicros: 0, reservedMicros: 28_000, spentMicros: 28_000, overageMicros: 0 })
})

t.test('everything is there after a restart', async (t) => {
  const file = await newFile(t)
  const workspace = newWorkspace()
  const [stored, running, token, lost, batch] = [newDigest(), newDigest(), newToken(), newToken(), newToken()]
  const key = {
    id: 'key_1',
    sha256: newDigest(),
    prefix: 'lk_live_1',
    workspace,
    app: 'web',
    name: 'one',
    scopes: ['jobs'],
    rateLimit: { requestsPerMinute: 60, burst: 2 },
    budgetMicros: 5,
    expiresAtMs: null,
    createdAtMs: 1,
    revokedAtMs: null,
  } as const
  const hook = { url: 'https://hooks.example.com/', secret: 'encrypted', createdAtMs: 1 }
  const end = { state: 'stored', result: resultOf('kept'), ttlMs: LONG_MS } as const
  const settlement = {
    token,
    workspace,
    slot: { id: stored, end },
    charge: { platformMicros: 5, spendMicros: 5 },
  }
  const usage = { token: batch, workspace, spentMicros: { key_2: 7 } }

  const first = await openEmbeddedState({ file, log })
  await first.accounts.addCredits(workspace, { id: 'initial', micros: 1000 })
  await first.ledger.begin(beginningOf(workspace, { token, slot: claimOf(stored), reservation: reserve(10) }))
  await first.ledger.begin(
    beginningOf(workspace, { token: lost, slot: claimOf(running), reservation: reserve(20) }),
  )
  await first.ledger.settle(settlement)
  await first.accounts.addUsage(usage)
  await first.keys.create(key)
  await first.settings.putAudioUrlDomains(workspace, ['a.example'])
  await first.settings.putWebhook(workspace, hook, LONG_MS)
  const version = await first.keys.version()
  const view = await first.accounts.show(workspace, NO_TERMS)
  await first.close()

  const { state: second } = await start(t, file)
  t.same(await second.accounts.show(workspace, NO_TERMS), view)
  t.match(figuresOf(view), { creditsMicros: 975, reservedMicros: 20, spentByKey: { key_one: 25, key_2: 7 } })
  t.match(await second.ledger.look(workspace, stored), {
    state: 'stored',
    result: { body: { text: 'kept' } },
  })
  t.same(await second.ledger.look(workspace, running), { state: 'running' })
  t.same(await second.keys.list(), [key])
  t.equal(await second.keys.version(), version)
  t.same(await second.settings.audioUrlDomains(workspace), ['a.example'])
  t.same(await second.settings.webhook(workspace), { ...hook, previous: null })

  await second.accounts.addUsage(usage)
  t.match(await second.ledger.settle(settlement), { slotHeld: true })
  t.same(await second.accounts.show(workspace, NO_TERMS), view, 'tokens are remembered too')
  await second.ledger.cancel({ token: lost, workspace, slotId: running })
  t.match(await second.accounts.show(workspace, NO_TERMS), { creditsMicros: 995, reservedMicros: 0 })
})

t.test('the limiter looks at the slot in the same step', async (t) => {
  const state = await openEmbeddedState({ file: ':memory:', log })
  t.teardown(() => state.close())
  const [workspace, slotId] = [newWorkspace(), newDigest()]
  const take = (slotId: string | null, burst = 5) =>
    state.rateLimiter.take({
      workspace,
      keyId: `key_${burst}`,
      limit: { requestsPerMinute: 1, burst },
      slotId,
    })
  t.match(take(null), { allowed: true, remaining: 4, slotTaken: false }, 'at once when there is none')
  t.match(await take(slotId), { allowed: true, remaining: 3, slotTaken: false })
  await state.ledger.begin(beginningOf(workspace, { slot: claimOf(slotId) }))
  t.match(await take(slotId), { allowed: true, remaining: 2, slotTaken: true })
  t.match(await take(newDigest()), { allowed: true, remaining: 1, slotTaken: false })
  await take(slotId, 1)
  t.match(await take(slotId, 1), { allowed: false, slotTaken: false }, 'a refusal looks at nothing')
  await state.close()
  t.match(await take(slotId), { allowed: true, slotTaken: false }, 'a look that fails limits nobody')
})

t.test('a state that is closed says so', async (t) => {
  const state = await openEmbeddedState({ file: ':memory:', log })
  t.equal(await state.healthy(), true)
  await state.close()
  await state.close()
  t.equal(await state.healthy(), false)
  await t.rejects(state.keys.list(), { code: 'DEPENDENCY_UNAVAILABLE' })
})

t.test('closing waits for what was called before', async (t) => {
  const file = await newFile(t)
  const state = await openEmbeddedState({ file, log })
  const [workspace, ids] = [newWorkspace(), Array.from({ length: 300 }, newDigest)]
  const begun = ids.map((id) => state.ledger.begin(beginningOf(workspace, { slot: claimOf(id) })))
  await state.close()
  t.ok((await Promise.all(begun)).every(({ state }) => state === 'begun'))
  const { state: after } = await start(t, file)
  const views = await Promise.all(ids.map((id) => after.ledger.look(workspace, id)))
  t.ok(views.every(({ state }) => state === 'running'))
  await stateOf(new StateThread({ file, log })).close()
})

t.test('files that cannot be opened are named, with the reason', async (t) => {
  const folder = await tempFolder(t)
  const path = (name: string) => join(folder, name)
  const opens = (file: string, reason: RegExp) =>
    t.rejects(openEmbeddedState({ file, log }), {
      message: new RegExp(`^the state in ${file} cannot be opened: .*${reason.source}`),
    })
  await writeFile(path('text'), 'this is no database, whatever its name says. '.repeat(100))
  await opens(path('text'), /it is not a SQLite database/)

  await mkdir(path('folder'))
  await opens(path('folder'), /EISDIR/)
  await opens(join(path('text'), 'state.sqlite'), /(ENOTDIR|EEXIST)/)

  const newer = new DatabaseSync(path('newer'))
  newer.exec('PRAGMA user_version = 999')
  newer.close()
  await opens(path('newer'), /a newer version of Larkway wrote it \(format 999, this one knows up to \d+\)/)
})

t.test('a state whose file cannot be opened fails each call, and opens when it can', async (t) => {
  const folder = await tempFolder(t)
  const file = join(folder, 'state.sqlite')
  await mkdir(file)
  const lines: string[] = []
  const thread = new StateThread({
    file,
    log: pino({ level: 'info' }, { write: (line: string) => void lines.push(line) }),
  })
  const state = stateOf(thread)
  t.teardown(() => state.close())
  for (let i = 0; i < 3; i++) {
    t.equal(await state.healthy(), false)
    const cause = { message: /cannot be opened: .*EISDIR/ }
    await t.rejects(state.keys.list(), { code: 'DEPENDENCY_UNAVAILABLE', cause })
  }
  t.equal(lines.length, 1, 'it is not tried for every call')
  t.match(lines[0], /cannot be opened/)
  await rmdir(file)
  t.ok(await waitUntil(() => state.healthy()), 'it is tried again')
})

t.test('the file is for nobody else to read', async (t) => {
  const file = await newFile(t)
  const { state } = await start(t, file)
  await state.keys.version()
  for (const name of [file, `${file}-wal`]) t.equal((await stat(name)).mode & 0o077, 0, name)
})
