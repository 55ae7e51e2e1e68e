import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { keys } from '../../../src/gateway/state/redis/key-names.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import {
  beginningOf,
  figuresOf,
  LONG_MS,
  NO_TERMS,
  newToken,
  newWorkspace,
  reserve,
} from '../../support/state-under-test.ts'

// Nodes from before there were bookings, of commit 0dcbc5d8, share a Redis with those of today during an upgrade.

const both = (micros: number) => ({ platformMicros: micros, spendMicros: micros })

/** An account with 100,000 micro-USD, of which such a node has 1,000 for a call and 1,000 in a lease that is over. */
async function leftByOlderNode(t: Test, url: string) {
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const state = await openRedisState(t, url)
  const [workspace, call, lease] = [newWorkspace(), newToken(), newToken()]
  const [seconds = 0] = await redis.time()
  const nowMs = seconds * 1000
  const month = new Date(nowMs).toISOString().slice(0, 7)
  const record = `0 credits 1000 1000 ${month} key_one`
  await redis.hset(keys.account(workspace), { credits: 98_000, reserved: 2_000 })
  await redis.hset(keys.spent(workspace), { month, total: 2_000, 'key:key_one': 2_000 })
  await redis.hset(keys.reservations(workspace), { [call]: record, [lease]: record })
  await redis.zadd(keys.leases(workspace), nowMs + LONG_MS, call, nowMs - 1, lease)
  const { ledger, accounts } = state
  const show = () => accounts.show(workspace, NO_TERMS)
  return { redis, ledger, accounts, workspace, call, lease, show }
}

t.test('nodes of an older version', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)

  t.test('leave money that is settled, charged and corrected to the micro-USD', async (t) => {
    const { ledger, accounts, workspace, call, lease, show } = await leftByOlderNode(t, url)
    await ledger.settle({ token: call, workspace, slot: null, charge: both(700) })
    t.match(await show(), { creditsMicros: 98_300, reservedMicros: 0, spentMicros: 1_700 }, 'the lease whole')
    t.match(await accounts.lost(workspace), [{ token: lease, spendMicros: 1_000 }])
    const charge = { ...both(120), overageMicros: 0 }
    t.ok(await ledger.recover({ token: lease, workspace, charge, estimate: both(30) }))
    t.match(await show(), { creditsMicros: 99_150, reservedMicros: 0, spentMicros: 850, overageMicros: 0 })
  })

  t.test('leave nothing that is booked before bookings begin', async (t) => {
    const { ledger, workspace, call, lease, show } = await leftByOlderNode(t, url)
    await ledger.settle({ token: call, workspace, slot: null, charge: both(700) })
    t.equal(figuresOf(await show()).bookedMicros, 0, 'neither the call nor the lease')
    await ledger.begin(beginningOf(workspace, { reservation: reserve(10) }))
    await ledger.recover({
      token: lease,
      workspace,
      charge: { ...both(120), overageMicros: 0 },
      estimate: both(0),
    })
    const view = await show()
    t.equal(figuresOf(view).bookedMicros, 0, 'nor the correction')
    t.equal(view.booked.sinceMs % LONG_MS, 0)
    t.ok(view.booked.sinceMs > 0, 'they begin with the next hour')
  })

  t.test('read the leases of a node of today as reservations', async (t) => {
    const { redis, ledger, workspace, show } = await leftByOlderNode(t, url)
    await show()
    const [token, credits] = [newToken(), 980]
    const terms = { from: null, held: reserve(0), used: both(30), more: both(1_000), useMs: LONG_MS }
    t.match(await ledger.lease({ token, workspace, ...terms }), { more: both(credits) })
    const record = await redis.hget(keys.reservations(workspace), token)
    const read = (pattern: string) =>
      redis.eval('return { string.match(ARGV[1], ARGV[2]) }', 0, `${record}`, pattern)
    // The patterns of its scripts: of what is past its lease, of a renewal, and of a call that ends.
    t.same(await read('^(%d+) %S+ (%d+)'), ['0', `${credits}`])
    t.match(await read('^0 (%S+) (%d+) (%d+) (%S+) '), ['credits', `${credits}`, `${credits}`])
    t.match(await read('^(%d+) (%S+) (%d+) (%d+) (%S+) (%S+) ?(%S*)$'), { 5: 'key_one', 6: '=30=30' })
  })
})
