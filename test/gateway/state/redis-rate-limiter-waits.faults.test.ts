import t from 'tap'
import { withoutServers } from '../../support/servers.ts'
import { assertWaitsSuffice } from './redis-limiters.ts'

t.test('a hundred who wait as told are admitted, whichever node is asked', { skip: withoutServers }, (t) =>
  assertWaitsSuffice(t, { clients: 100, rounds: 2, waits: 50 }),
)
