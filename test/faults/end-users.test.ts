import t from 'tap'
import { exactBudgets } from '../support/end-user-budgets.ts'
import { withoutServers } from '../support/servers.ts'

t.test('budgets of 500 end users are exact', { skip: withoutServers, timeout: 240_000 }, (t) =>
  exactBudgets(t, 500),
)
