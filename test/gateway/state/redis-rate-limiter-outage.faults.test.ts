import { pino } from 'pino'
import t from 'tap'
import { createRedisState } from '../../../src/gateway/state/redis/state.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { FROZEN, KILLED, survives } from './limiter-outage.ts'
import { taking } from './rate-limiter.contract.ts'
import { leases, leasingLimiters } from './redis-limiters.ts'

const OUTAGE_MS = 6_000
const LIMIT = { requestsPerMinute: 1, burst: 400 }

t.test(
  'Redis is killed under load: each node decides alone until it is back',
  { skip: withoutServers },
  (t) => survives(t, KILLED, OUTAGE_MS),
)

t.test('Redis hangs: few callers wait, and none for long', { skip: withoutServers }, (t) =>
  survives(t, FROZEN, OUTAGE_MS),
)

t.test('what is in hand when Redis goes away is used up', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  const [limiter] = await leasingLimiters(t, redis.url, 1)
  for (let i = 0; i < 13; i += 1) await limiter!.take(taking('key_held', LIMIT))
  await redis.kill()
  const held = limiter!.take(taking('key_held', LIMIT))
  t.notOk(held instanceof Promise)
  t.match(held, { allowed: true, local: false, remaining: 386 })
})

t.test('a node starts without Redis, and finds it when it comes', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  await redis.kill()
  const startMs = performance.now()
  const state = await createRedisState({ url: redis.url, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  t.ok(performance.now() - startMs < 10_000, 'the start does not wait for it')
  t.equal(await state.healthy(), false)
  const { rateLimiter } = state
  t.match(await rateLimiter.take(taking('key_one', LIMIT)), { allowed: true, local: true })
  await redis.restart()
  t.ok(await waitUntil(async () => !(await rateLimiter.take(taking('key_one', LIMIT))).local, 15_000))
  t.ok(await waitUntil(() => state.healthy()))
  t.ok(await waitUntil(() => leases(rateLimiter, 'key_warm'), 15_000), 'and leases once all have counted it')
})
