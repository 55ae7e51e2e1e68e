import t, { type Test } from 'tap'
import { createCommit } from '../../src/state/embedded/commit.ts'
import { openDatabase } from '../../src/state/embedded/database.ts'
import { createOperations } from '../../src/state/embedded/operations.ts'
import { stateOf } from '../../src/state/embedded/state.ts'
import type { StateUnderTest } from '../support/state-under-test.ts'
import { accountsContract } from './accounts.contract.ts'
import { catalogContract } from './catalog.contract.ts'
import { catalogModelContract } from './catalog-model.contract.ts'
import { jobsContract } from './jobs.contract.ts'
import { jobsModelContract } from './jobs-model.contract.ts'
import { keysContract } from './keys.contract.ts'
import { ledgerContract } from './ledger.contract.ts'
import { ledgerModelContract } from './ledger-model.contract.ts'
import { outboxContract } from './outbox.contract.ts'
import { settingsContract } from './settings.contract.ts'

/** The operations without their thread, on a clock of the test's own. */
async function start(t: Test): Promise<StateUnderTest> {
  let nowMs = Date.now()
  const db = openDatabase(':memory:')
  t.teardown(() => db.close())
  const commit = createCommit(
    db,
    createOperations(db, () => nowMs),
  )
  const state = stateOf({
    async call(name, ...args) {
      const [answer] = commit([{ id: 1, name, args }]).answers
      if (answer && 'value' in answer) return answer.value as never
      throw new Error(answer?.failure.reason)
    },
    close: async () => {},
  })
  return {
    state,
    pass: async (ms) => {
      nowMs += ms
    },
    setClock: (epochMs) => {
      nowMs = epochMs
    },
  }
}

t.test('ledger', async (t) => ledgerContract(t, start))
t.test('accounts', async (t) => accountsContract(t, start))
t.test('keys', async (t) => keysContract(t, start))
t.test('settings', async (t) => settingsContract(t, start))
t.test('jobs', async (t) => jobsContract(t, start))
t.test('outbox', async (t) => outboxContract(t, start))
t.test('catalog', async (t) => catalogContract(t, start))
t.test('model of the ledger', async (t) => ledgerModelContract(t, start, { count: 60, steps: 300 }))
t.test('model of jobs', async (t) => jobsModelContract(t, start, { count: 60, steps: 300 }))
t.test('model of the catalog', async (t) => catalogModelContract(t, start, { count: 15, steps: 150 }))
