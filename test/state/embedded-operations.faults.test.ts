import t from 'tap'
import { startBareOperations } from '../support/bare-operations.ts'
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

t.test('ledger', async (t) => ledgerContract(t, startBareOperations))
t.test('accounts', async (t) => accountsContract(t, startBareOperations))
t.test('keys', async (t) => keysContract(t, startBareOperations))
t.test('settings', async (t) => settingsContract(t, startBareOperations))
t.test('jobs', async (t) => jobsContract(t, startBareOperations))
t.test('outbox', async (t) => outboxContract(t, startBareOperations))
t.test('catalog', async (t) => catalogContract(t, startBareOperations))
t.test('model of the ledger', async (t) =>
  ledgerModelContract(t, startBareOperations, { count: 60, steps: 300 }),
)
t.test('model of jobs', async (t) => jobsModelContract(t, startBareOperations, { count: 60, steps: 300 }))
t.test('model of the catalog', async (t) =>
  catalogModelContract(t, startBareOperations, { count: 15, steps: 150 }),
)
