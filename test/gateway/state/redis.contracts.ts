import type { Test } from 'tap'
import type { StateUnderTest } from '../../support/state-under-test.ts'
import { accountsContract } from './accounts.contract.ts'
import { alertsContract } from './alerts.contract.ts'
import { catalogContract } from './catalog.contract.ts'
import { catalogModelContract } from './catalog-model.contract.ts'
import { consoleContract } from './console.contract.ts'
import { jobsContract } from './jobs.contract.ts'
import { jobsModelContract } from './jobs-model.contract.ts'
import { keysContract } from './keys.contract.ts'
import { ledgerContract } from './ledger.contract.ts'
import { ledgerModelContract } from './ledger-model.contract.ts'
import { outboxContract } from './outbox.contract.ts'
import { settingsContract } from './settings.contract.ts'

/** A sample of them: what has no time in it, and one random history for each model. */
export async function sampleContracts(t: Test, start: () => Promise<StateUnderTest>): Promise<void> {
  await t.test('ledger, against a model', async (t) =>
    ledgerModelContract(t, start, { count: 1, steps: 100 }),
  )
  await t.test('accounts', async (t) => accountsContract(t, start))
  await t.test('keys', async (t) => keysContract(t, start))
  await t.test('settings', async (t) => settingsContract(t, start))
  await t.test('jobs, against a model', async (t) => jobsModelContract(t, start, { count: 1, steps: 100 }))
  await t.test('outbox', async (t) => outboxContract(t, start))
  await t.test('catalog, against a model', async (t) =>
    catalogModelContract(t, start, { count: 1, steps: 50 }),
  )
}

/**
 * All contracts of the state but that of the rate limiter, one after the other.
 *
 * @param histories how many random ones the models of the ledger, of jobs and of the catalog are held to
 */
export async function stateContracts(
  t: Test,
  start: () => Promise<StateUnderTest>,
  histories: readonly [number, number, number] = [10, 5, 3],
): Promise<void> {
  const [ledgers, queues, catalogs] = histories
  await t.test('ledger', async (t) => ledgerContract(t, start))
  await t.test('ledger, against a model', async (t) =>
    ledgerModelContract(t, start, { count: ledgers, steps: 150 }),
  )
  await t.test('accounts', async (t) => accountsContract(t, start))
  await t.test('keys', async (t) => keysContract(t, start))
  await t.test('settings', async (t) => settingsContract(t, start))
  await t.test('console', async (t) => consoleContract(t, start))
  await t.test('jobs', async (t) => jobsContract(t, start))
  await t.test('jobs, against a model', async (t) =>
    jobsModelContract(t, start, { count: queues, steps: 200 }),
  )
  await t.test('outbox', async (t) => outboxContract(t, start))
  await t.test('alerts', async (t) => alertsContract(t, start))
  await t.test('catalog', async (t) => catalogContract(t, start))
  await t.test('catalog, against a model', async (t) =>
    catalogModelContract(t, start, { count: catalogs, steps: 100 }),
  )
}
