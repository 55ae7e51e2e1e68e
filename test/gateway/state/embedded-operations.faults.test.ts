import t from 'tap'
import { startBareOperations } from '../../support/bare-operations.ts'
import { catalogModelContract } from './catalog-model.contract.ts'
import { jobsModelContract } from './jobs-model.contract.ts'
import { ledgerModelContract } from './ledger-model.contract.ts'

/** How many ways each model walks; the steps of one are as many in long runs. */
const [MANY, FEW] = process.env.LARKWAY_TEST_LONG === '1' ? [60, 15] : [24, 6]

// The models at length; the first tier walks fewer and shorter ways.
t.test('model of the ledger', async (t) =>
  ledgerModelContract(t, startBareOperations, { count: MANY, steps: 300 }),
)
t.test('model of jobs', async (t) => jobsModelContract(t, startBareOperations, { count: MANY, steps: 300 }))
t.test('model of the catalog', async (t) =>
  catalogModelContract(t, startBareOperations, { count: FEW, steps: 150 }),
)
