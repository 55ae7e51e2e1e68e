import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { exactBudgets } from './end-user-budgets.ts'

t.test('budgets of 500 end users are exact', { skip: withoutServers, timeout: 240_000 }, (t) =>
  exactBudgets(t, 500),
)
