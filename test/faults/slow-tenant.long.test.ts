import t from 'tap'
import { inCappedNetwork } from '../support/capped-network.ts'
import { locate, withoutServers } from '../support/servers.ts'
import { SLOW_KINDS } from '../support/slow-kinds.ts'
import { assertUnhindered } from '../support/slow-tenant.ts'

const CONNECTIONS = 2_000
/** 2,000 connections are made, and have sent what they begin with, within this time. */
const SETTLE_MS = 10_000

t.setTimeout(1_700_000)
if (!withoutServers) await locate('s3')
await inCappedNetwork(t, import.meta.url, () => {
  for (const store of ['folder', 'S3'] as const) {
    const skip = store === 'S3' && withoutServers
    for (const kinds of [SLOW_KINDS, ...SLOW_KINDS.map((kind) => [kind])]) {
      t.test(`${CONNECTIONS} slow ${kinds.join(', ')}; ${store}`, { skip }, (t) =>
        assertUnhindered(t, { kinds, connections: CONNECTIONS, store, settleMs: SETTLE_MS }),
      )
    }
  }
})
