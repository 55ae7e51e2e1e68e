import { Redis } from 'ioredis'
import t from 'tap'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { beginningOf, NO_TERMS, newDigest, newToken, reserve } from '../../support/state-under-test.ts'

const DAYS_30_MS = 30 * 86_400_000
const CHARGED = 'lk:{acme}:charged'
const LEASES = 'lk:{acme}:leases'
const COST = { platformMicros: 10, spendMicros: 10 }

// The clock of the server cannot be moved; the moments that it has written down can.
t.test('charges of jobs are remembered for thirty days', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { ledger, accounts } = await openRedisState(t, url)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  await accounts.addCredits('acme', { id: newDigest(), micros: 1000 })
  const begin = (token: string, number: number) =>
    ledger.begin(beginningOf('acme', { token, reservation: reserve(100), claim: { number } }))
  const settle = (token: string, number: number) =>
    ledger.settle({ token, workspace: 'acme', slot: null, charge: COST, claim: { number } })
  const reservedMicros = async () => (await accounts.show('acme', NO_TERMS)).reservedMicros
  const isAbout = (ms: number, expectedMs: number, what: string) =>
    t.ok(ms <= expectedMs && ms > expectedMs - 60_000, `${what}: ${ms} ms`)

  const [settled, lost] = [newToken(), newToken()]
  await begin(settled, 1)
  await settle(settled, 1)
  isAbout(Number(await redis.zscore(CHARGED, settled)) - Date.now(), DAYS_30_MS, 'what was settled')
  isAbout(await redis.pttl(CHARGED), DAYS_30_MS, 'all of them')

  for (const [ended, leftMs] of [
    ['a moment', DAYS_30_MS],
    ['29 days', DAYS_30_MS - 29 * 86_400_000],
  ] as const) {
    const token = newToken()
    await begin(token, 1)
    await redis.zadd(LEASES, Date.now() - (DAYS_30_MS - leftMs), token)
    t.same(await begin(token, 2), { state: 'begun' })
    t.equal(await reservedMicros(), 0, 'nothing is set aside')
    isAbout(
      Number(await redis.zscore(CHARGED, token)) - Date.now(),
      leftMs,
      `its lease was over for ${ended}`,
    )
  }
  await begin(lost, 1)
  await redis.zadd(LEASES, Date.now() - DAYS_30_MS - 1, lost)
  t.equal(await reservedMicros(), 0, 'found by who looks at the account')
  await begin(lost, 2)
  t.equal(await reservedMicros(), 100, 'its time is over, whether it was forgotten or not')
  await settle(lost, 2)

  const old = Array.from({ length: 30 }, newToken)
  await redis.zadd(CHARGED, ...old.flatMap((token, i) => [1 + i, token]))
  const before = await redis.zcard(CHARGED)
  const last = newToken()
  await begin(last, 1)
  await settle(last, 1)
  t.equal(await redis.zcard(CHARGED), before + 1 - 20, 'each new one lets some old ones go')
  t.equal(await redis.zcount(CHARGED, '-inf', 20), 0, 'the oldest first')
})
