import { Redis } from 'ioredis'
import t from 'tap'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState, startsEmpty } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { stateContracts } from './redis.contracts.ts'

t.test('one server keeps the contracts of the state', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const state = await openRedisState(t, url)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  // The cluster and the sentinels, in the third tier, are held to more of them.
  await stateContracts(t, startsEmpty(state, [redis]), [4, 2, 2])
})
