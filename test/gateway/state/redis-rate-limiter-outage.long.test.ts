import t from 'tap'
import { withoutServers } from '../../support/servers.ts'
import { FROZEN, KILLED, survives } from './limiter-outage.ts'

const OUTAGE_MS = 30_000

t.test('Redis is away for half a minute', { skip: withoutServers }, async (t) => {
  t.test('killed', (t) => survives(t, KILLED, OUTAGE_MS))
  t.test('frozen', (t) => survives(t, FROZEN, OUTAGE_MS))
})
