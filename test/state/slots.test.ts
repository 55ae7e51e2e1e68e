import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Cancellation } from '../../src/cancellation.ts'
import { EmbeddedSlots } from '../../src/state/embedded/slots.ts'
import { redisConnector } from '../../src/state/redis/connect.ts'
import { keys } from '../../src/state/redis/key-names.ts'
import { RedisSlots, type RedisSlotsOptions } from '../../src/state/redis/slots.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { leaseOf, newName, slotsContract } from './slots.contract.ts'

const log = pino({ level: 'silent' })
const NEVER = new Cancellation()

/** Slots of a node, with a connection that the test may cut. */
async function openSlots(t: Test, url: string, options?: RedisSlotsOptions) {
  const redis = redisConnector(url, log)('test')
  await waitUntil(() => redis.status === 'ready')
  const slots = new RedisSlots(redis, log, options)
  t.teardown(async () => {
    await slots.close()
    redis.disconnect()
  })
  return { slots, redis }
}

t.test('in a process', async (t) => slotsContract(t, async () => [new EmbeddedSlots()]))

t.test('in Redis, for three nodes', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  slotsContract(t, async (t) => {
    const nodes = await Promise.all([openSlots(t, url), openSlots(t, url), openSlots(t, url)])
    return nodes.map(({ slots }) => slots)
  })
})

t.test('in Redis', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)

  t.test('a node that is gone loses its slots with its lease, one that lives keeps them', async (t) => {
    const limit = { name: newName(), most: 2 }
    const leaseMs = 400
    const [dies, lives] = await Promise.all([openSlots(t, url, { leaseMs }), openSlots(t, url, { leaseMs })])
    leaseOf(await dies.slots.take([limit]))
    leaseOf(await lives.slots.take([limit]))
    dies.redis.disconnect()
    const goneMs = performance.now()
    t.same(await lives.slots.take([limit]), { full: limit })
    const waits = lives.slots.wait(limit, { workspace: 'acme', waitMs: 10_000, signal: NEVER })
    t.ok(await waits)
    const passedMs = performance.now() - goneMs
    t.ok(passedMs < leaseMs + 1_000, `free after ${Math.round(passedMs)} ms`)
    await sleep(2 * leaseMs)
    t.same(await lives.slots.take([limit]), { full: limit }, 'both were renewed')
  })

  t.test('those who wait on a node that is gone keep nobody waiting', async (t) => {
    const limit = { name: newName(), most: 1 }
    const seenMs = 300
    const [dies, lives] = await Promise.all([openSlots(t, url, { seenMs }), openSlots(t, url, { seenMs })])
    const first = leaseOf(await lives.slots.take([limit]))
    for (let i = 0; i < 3; i += 1)
      void dies.slots.wait(limit, { workspace: 'acme', waitMs: 200, signal: NEVER })
    await sleep(50)
    dies.redis.disconnect()
    const waits = lives.slots.wait(limit, { workspace: 'acme', waitMs: 10_000, signal: NEVER })
    await sleep(seenMs + 100)
    first.release()
    const releasedMs = performance.now()
    t.ok(await waits)
    t.ok(performance.now() - releasedMs < 1_000)
  })

  t.test('what Redis forgets counts again once it is renewed', async (t) => {
    const limit = { name: newName(), most: 1 }
    const { slots, redis } = await openSlots(t, url, { leaseMs: 300 })
    leaseOf(await slots.take([limit]))
    await redis.del(`${keys.slots}:held:${limit.name}`)
    await sleep(200)
    t.same(await slots.take([limit]), { full: limit })
  })

  t.test('a take of several names is one command, and nothing stays behind', async (t) => {
    const { slots } = await openSlots(t, url, { leaseMs: 300 })
    const redis = new Redis(url)
    t.teardown(() => redis.disconnect())
    const limits = [newName(), newName(), newName()].map((name) => ({ name, most: 2 }))
    leaseOf(await slots.take(limits)).release()
    await redis.config('RESETSTAT')
    const lease = leaseOf(await slots.take(limits))
    t.match(await redis.info('commandstats'), /cmdstat_evalsha:calls=1,/)
    const waits = slots.wait({ ...limits[0]!, most: 1 }, { workspace: 'acme', waitMs: 5_000, signal: NEVER })
    await sleep(50)
    lease.release()
    ;(await waits)?.release()
    await sleep(20)
    // That nodes wait is remembered for some seconds.
    const left = async () => {
      const found = await Promise.all(limits.map(({ name }) => redis.keys(`${keys.slots}:*:${name}*`)))
      return found.flat().filter((key) => !key.includes(':seen:'))
    }
    t.same(await left(), [])
  })
})

t.test('while Redis is away, each node counts alone', { skip: withoutServers }, async (t) => {
  const server = await startRedis(t)
  const { slots, redis } = await openSlots(t, server.url, { leaseMs: 600, timeoutMs: 300 })
  const limit = { name: newName(), most: 2 }
  const first = leaseOf(await slots.take([limit]))
  const waitsFor = { workspace: 'acme', waitMs: 20_000, signal: NEVER }
  await server.stop()
  leaseOf(await slots.take([limit]))
  t.same(await slots.take([limit]), { full: limit }, 'what it held before counts')
  const waits = slots.wait(limit, waitsFor)
  t.equal(slots.waiting(limit.name), 1)
  first.release()
  t.ok(await waits, 'who waits gets what this node gives back')
  await server.restart()
  t.ok(await waitUntil(() => redis.status === 'ready'))
  const other = await openSlots(t, server.url)
  const isFull = async () => {
    const taken = await other.slots.take([limit])
    if ('lease' in taken) taken.lease.release()
    return 'full' in taken
  }
  t.ok(await waitUntil(isFull), 'what it took meanwhile counts for all nodes')
})
