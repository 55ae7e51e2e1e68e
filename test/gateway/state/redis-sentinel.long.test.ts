import { Redis } from 'ioredis'
import t from 'tap'
import { startWatchedRedis } from '../../support/redis-sentinel.ts'
import { openRedisState, startsEmpty } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { stateContracts } from './redis.contracts.ts'

t.test('a server that Sentinels watch', { skip: withoutServers }, async (t) => {
  const { url, primary, replica, sentinels } = await startWatchedRedis(t)
  const state = await openRedisState(t, url)
  const client = new Redis(primary.url)
  t.teardown(() => client.disconnect())
  client.on('error', () => {})
  let grants = 0
  const book = () => state.accounts.addCredits('acme', { id: `grant ${grants++}`, micros: 1 })
  const isBack = () =>
    book().then(
      () => true,
      () => false,
    )

  await t.test('keeps the contracts of the state', async (t) => {
    await stateContracts(t, startsEmpty(state, [client]))
  })

  await t.test('writes go to the new primary when the Sentinels change it', async (t) => {
    await book()
    await client.wait(1, 2000)
    await sentinels[0]!.call('SENTINEL', 'FAILOVER', 'larkway')
    const to = new Redis(replica.url)
    t.teardown(() => to.disconnect())
    const isPrimary = async () => (await to.info('replication')).includes('role:master')
    t.ok(await waitUntil(isPrimary, 20_000), 'the replica was promoted')
    // The old primary still takes writes for a moment, which nobody can keep.
    const arrives = async () =>
      (await isBack()) && (await to.hexists('lk:{acme}:grants', `grant ${grants - 1}`)) === 1
    t.ok(await waitUntil(arrives, 20_000), 'and is the one that is written to')
  })

  await t.test('writes go on when the primary dies', async (t) => {
    const settled = async () => (await client.info('replication')).includes('master_link_status:up')
    t.ok(await waitUntil(settled, 20_000), 'the old primary copies the new one')
    const knows = async () => {
      const replicas = await Promise.all(
        sentinels.map((sentinel) => sentinel.call('SENTINEL', 'REPLICAS', 'larkway') as Promise<unknown[]>),
      )
      return replicas.every((list) => JSON.stringify(list).includes(`"${primary.port}"`))
    }
    t.ok(await waitUntil(knows, 20_000))
    const startMs = performance.now()
    await replica.kill()
    await t.rejects(book(), { code: 'DEPENDENCY_UNAVAILABLE' })
    t.ok(performance.now() - startMs < 3000, 'nobody waits for it')
    t.ok(await waitUntil(isBack, 25_000), 'the first primary serves again')
    t.match(await client.info('replication'), /role:master/)
  })
})

t.test('servers and Sentinels that want a password', { skip: withoutServers }, async (t) => {
  const { url } = await startWatchedRedis(t, 'p@ss:w/ord%20')
  const state = await openRedisState(t, url)
  t.match(await state.accounts.addCredits('acme', { id: 'one', micros: 5 }), { booked: true })
  t.equal(await state.healthy(), true)
})
