import { Redis } from 'ioredis'
import t from 'tap'
import { consoleSession, nodeSample, requestFilter, requestRecord } from '../../support/console-record.ts'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { newToken } from '../../support/state-under-test.ts'

const DAY_MS = 86_400_000

t.test('what the console keeps, on one server', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const state = await openRedisState(t, url)
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  const { requests } = state.console
  const dayKey = (back: number) => `lk:{acme}:requests:${Math.floor(Date.now() / DAY_MS) - back}`
  const put = async (back: number, ids: readonly string[]) => {
    for (const id of ids) {
      const record = requestRecord('acme', { id, recordId: `rec ${id}`, atMs: Date.now() - back * DAY_MS })
      const facts = JSON.stringify({ id, recordId: record.recordId, atMs: record.atMs })
      await redis.xadd(dayKey(back), '*', 'facts', facts, 'record', JSON.stringify(record))
    }
  }
  const listed = async () => (await requests.list(requestFilter('acme', { limit: 5000 }))).map(({ id }) => id)

  await t.test('requests of the last seven days are shown, and go with their day', async (t) => {
    await redis.flushall()
    await requests.add(newToken(), [requestRecord('acme', { id: 'today', atMs: Date.now() })])
    await put(6, ['six days ago'])
    t.same(await listed(), ['today', 'six days ago'])
    t.match(await requests.get('acme', 'rec six days ago'), { id: 'six days ago' })
    const [key = ''] = await redis.keys('lk:{acme}:requests:*').then((keys) => keys.sort().slice(-1))
    const leftMs = (await redis.pexpiretime(key)) - Date.now()
    t.ok(leftMs > 6 * DAY_MS && leftMs <= 7 * DAY_MS, 'a week after its beginning, whatever is added later')
  })

  await t.test('the thousand that are kept may be of several days', async (t) => {
    await redis.flushall()
    const ids = (name: string, count: number) => Array.from({ length: count }, (_, i) => `${name} ${i}`)
    await put(3, ids('three', 400))
    await put(1, ids('one', 700))
    await requests.add(
      newToken(),
      ids('today', 100).map((id) => requestRecord('acme', { id, recordId: `rec ${id}`, atMs: Date.now() })),
    )
    const left = await listed()
    t.equal(left.length, 1000)
    t.equal(await redis.xlen(dayKey(3)), 200)
    t.notOk(left.includes('three 199'))
    t.ok(left.includes('three 200') && left.includes('one 0'))
  })

  await t.test('batches and sessions leave nothing behind', async (t) => {
    await redis.flushall()
    await requests.add('token', [requestRecord('acme')])
    await state.console.sessions.begin(consoleSession({ id: 'f'.repeat(64) }), 60_000)
    await state.console.samples.add(nodeSample('n', Date.now()), 60_000)
    for (const key of await redis.keys('*')) t.ok((await redis.pttl(key)) > 0, key)
  })
})
