import { Redis } from 'ioredis'
import t from 'tap'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState, startsEmpty } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { sampleContracts } from './redis.contracts.ts'

t.test('one server keeps a sample of the contracts of the state', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const state = await openRedisState(t, url)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  await sampleContracts(t, startsEmpty(state, [redis]))
})
