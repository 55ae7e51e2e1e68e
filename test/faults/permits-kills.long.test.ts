import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t from 'tap'
import { keys } from '../../src/gateway/state/redis/key-names.ts'
import { killNowAndThen } from '../support/fleet.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { callOn, PERMITS, PERMITS_TENANTS, startPermitNodes } from './permit-nodes.ts'

/** As `RedisPermits` leases them, and some time for a busy machine. */
const LEASE_MS = 15_000 + 5_000
const KILLS = 4

t.test(
  'kills of nodes lose no permit for longer than its lease, and give out none twice',
  { skip: withoutServers, timeout: 250_000 },
  async (t) => {
    const nodes = await startPermitNodes(t)
    const { provider, fleet } = nodes
    const redis = new Redis(fleet.redis.url)
    t.teardown(() => redis.disconnect())
    const held = `${keys.permits}:held:calls:slow`
    const running = PERMITS_TENANTS.map((tenant) => callOn(nodes, tenant, 8))
    await sleep(2_000)
    const killed = await killNowAndThen(fleet, (count) => count < KILLS)
    t.equal(killed, KILLS)
    t.equal(provider.most(), PERMITS, 'all of them were used, and no more')
    // What the last of them held is free again, all of it.
    await sleep(LEASE_MS)
    provider.most()
    const isFull = await waitUntil(() => provider.open() === PERMITS)
    t.ok(isFull, 'all of them are used again')
    const ended = await Promise.all(running.map(({ stop }) => stop()))
    t.equal(provider.most(), PERMITS)
    for (const { tookMs, statuses } of ended) {
      t.ok(tookMs.length > 50, `${tookMs.length} calls`)
      t.same(
        [...statuses.keys()].filter((status) => ![0, 200].includes(status)),
        [],
      )
    }
    t.ok(await waitUntil(async () => (await redis.zcard(held)) === 0), 'nothing is held by anybody')
  },
)
