import t from 'tap'
import { withoutServers } from '../../support/servers.ts'
import { costsTheSame } from './jobs-cost.ts'

t.test('a hundred thousand jobs make none dearer', { skip: withoutServers }, (t) =>
  costsTheSame(t, 1000, 100_000),
)

t.test('nor do those of ten thousand keys', { skip: withoutServers }, (t) =>
  costsTheSame(t, 1000, 100_000, 10),
)
