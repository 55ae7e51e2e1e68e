import { once } from 'node:events'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { redisConnector } from '../../../src/gateway/state/redis/connect.ts'
import { RedisUnitLimiter } from '../../../src/gateway/state/redis/unit-limiter.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { slowBucket, unitLimiterContract } from './unit-limiter.contract.ts'

const log = pino({ level: 'silent' })

async function node(t: Test, url: string) {
  const redis = redisConnector(url, log)('limiter')
  t.teardown(() => redis.disconnect())
  await once(redis, 'ready')
  return { redis, limiter: new RedisUnitLimiter(redis, log, { timeoutMs: 1_900 }) }
}

t.test('contract', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  unitLimiterContract(t, async (t) => (await node(t, url)).limiter)
})

t.test('nodes share a bucket, to the unit', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const nodes = await Promise.all([node(t, url), node(t, url), node(t, url)])
  const bucket = slowBucket('shared', 100)
  const takes = Array.from({ length: 90 }, (_, index) => nodes[index % 3]!.limiter.take([bucket], 3))
  const decisions = await Promise.all(takes)
  t.equal(decisions.filter(({ retryAfterMs }) => retryAfterMs === 0).length, 33)
})

t.test('a node without Redis limits alone', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const { redis, limiter } = await node(t, url)
  redis.disconnect()
  const bucket = slowBucket('alone')
  const taken = []
  for (let count = 0; count < 8; count += 1) taken.push((await limiter.take([bucket], 2)).retryAfterMs === 0)
  t.same(taken, [true, true, true, true, true, false, false, false])
})
