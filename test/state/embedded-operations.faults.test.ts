import t from 'tap'
import { startBareOperations } from '../support/bare-operations.ts'
import { catalogModelContract } from './catalog-model.contract.ts'
import { jobsModelContract } from './jobs-model.contract.ts'
import { ledgerModelContract } from './ledger-model.contract.ts'

// The models at length; the first tier walks fewer and shorter ways.
t.test('model of the ledger', async (t) =>
  ledgerModelContract(t, startBareOperations, { count: 60, steps: 300 }),
)
t.test('model of jobs', async (t) => jobsModelContract(t, startBareOperations, { count: 60, steps: 300 }))
t.test('model of the catalog', async (t) =>
  catalogModelContract(t, startBareOperations, { count: 15, steps: 150 }),
)
