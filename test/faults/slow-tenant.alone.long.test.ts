import t from 'tap'
import { withoutServers } from '../support/servers.ts'
import { SLOW_KINDS } from './slow-kinds.ts'
import { assertUnhindered } from './slow-tenant.ts'

t.setTimeout(180_000)
t.test('two large bodies that trickle in hold up nobody else', (t) =>
  assertUnhindered(t, { kinds: ['json'], connections: 2, store: 'folder' }),
)
t.test('300 slow connections of every kind hold up nobody else', (t) =>
  assertUnhindered(t, { kinds: SLOW_KINDS, connections: 300, store: 'folder' }),
)
t.test('300 slow connections of every kind hold up nobody else, S3', { skip: withoutServers }, (t) =>
  assertUnhindered(t, { kinds: SLOW_KINDS, connections: 300, store: 'S3' }),
)
