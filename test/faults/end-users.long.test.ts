import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { exactBudgets } from './end-user-budgets.ts'

t.test('budgets of 100,000 end users are exact', { skip: withoutServers, timeout: 1_700_000 }, (t) =>
  exactBudgets(t, 100_000),
)
