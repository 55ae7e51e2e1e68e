import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { Cancellation } from '../../../src/contracts/cancellation.ts'
import type { PermitLimit } from '../../../src/contracts/permits.ts'
import { EmbeddedPermits } from '../../../src/gateway/state/embedded/permits.ts'
import { redisConnector } from '../../../src/gateway/state/redis/connect.ts'
import { keys } from '../../../src/gateway/state/redis/key-names.ts'
import { RedisPermits, type RedisPermitsOptions } from '../../../src/gateway/state/redis/permits.ts'
import { nameOfCommand } from '../../support/redis-monitor.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { VirtualClock } from '../../support/virtual-clock.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { leaseOf, newName, permitsContract } from './permits.contract.ts'

const log = pino({ level: 'silent' })
const NEVER = new Cancellation()
/** Calls that wait so long that what they give back may be kept. */
const PATIENT = { workspace: 'acme', waitMs: 10_000, signal: NEVER }
const SHORT = { ...PATIENT, waitMs: 500 }

/** Permits of a node, with a connection that the test may cut. */
async function openPermits(t: Test, url: string, options?: RedisPermitsOptions) {
  const redis = redisConnector(url, log)('test')
  await waitUntil(() => redis.status === 'ready')
  const permits = new RedisPermits(redis, log, options)
  t.teardown(async () => {
    await permits.close()
    redis.disconnect()
  })
  return { permits, redis }
}

/**
 * Notes when Redis is asked whether somebody is served, by its own clock. Whoever waits asks again and again, so that
 * the number of times says whether he got a permit as soon as it was free, however slow this machine is.
 */
async function watchLooks(t: Test, url: string, { name }: PermitLimit) {
  const redis = new Redis(url)
  const monitor = await redis.monitor()
  t.teardown(() => {
    monitor.disconnect()
    redis.disconnect()
  })
  const looksMs: number[] = []
  let marks = 0
  monitor.on('monitor', (seconds: string, words: string[]) => {
    const command = nameOfCommand(words)
    if (command === 'wait_for_permits' && words.includes(name)) looksMs.push(Number(seconds) * 1_000)
    if (command === 'echo' && words.includes(name)) marks += 1
  })
  let asked = 0
  return {
    redis,
    /** How often it was asked before a moment of Redis, and since. */
    async around(momentMs: number) {
      await redis.echo(name)
      asked += 1
      t.ok(await waitUntil(() => marks === asked))
      const before = looksMs.filter((ms) => ms < momentMs).length
      return { before, since: looksMs.length - before }
    },
  }
}

t.test('in a process', async (t) => permitsContract(t, async () => [new EmbeddedPermits()]))

t.test('in Redis, for three nodes', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  permitsContract(t, async (t) => {
    const nodes = await Promise.all([openPermits(t, url), openPermits(t, url), openPermits(t, url)])
    return nodes.map(({ permits }) => permits)
  })
})

t.test('in Redis', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)

  t.test('a node that is gone loses its permits with its lease, one that lives keeps them', async (t) => {
    const limit = { name: newName(), most: 2 }
    const leaseMs = 2_000
    const [dies, lives] = await Promise.all([
      openPermits(t, url, { leaseMs }),
      openPermits(t, url, { leaseMs }),
    ])
    const { redis, around } = await watchLooks(t, url, limit)
    const held = `${keys.permits}:held:${limit.name}`
    leaseOf(await dies.permits.take([limit]))
    const [token] = await redis.zrange(held, '0', '-1')
    leaseOf(await lives.permits.take([limit]))
    dies.redis.disconnect()
    const endMs = Number(await redis.zscore(held, `${token}`))
    t.same(await lives.permits.take([limit]), { full: limit })
    const waits = lives.permits.wait(limit, { workspace: 'acme', waitMs: 10_000, signal: NEVER })
    t.ok(await waits)
    const { before, since } = await around(endMs)
    t.ok(before >= 5 && since <= 2, `free after ${before} looks, and ${since} since the lease was over`)
    await sleep(leaseMs + 500)
    t.same(await lives.permits.take([limit]), { full: limit }, 'both were renewed')
  })

  t.test('those who wait on a node that is gone keep nobody waiting', async (t) => {
    const limit = { name: newName(), most: 1 }
    const seenMs = 2_000
    const [dies, lives] = await Promise.all([
      openPermits(t, url, { seenMs }),
      openPermits(t, url, { seenMs }),
    ])
    const first = leaseOf(await lives.permits.take([limit]))
    for (let i = 0; i < 3; i += 1)
      void dies.permits.wait(limit, { workspace: 'acme', waitMs: 1_000, signal: NEVER })
    const { redis, around } = await watchLooks(t, url, limit)
    t.ok(await waitUntil(async () => (await redis.zcard(`${keys.permits}:waiting:${limit.name}`)) === 3))
    dies.redis.disconnect()
    const waits = lives.permits.wait(limit, { workspace: 'acme', waitMs: 10_000, signal: NEVER })
    await sleep(seenMs + 100)
    const [seconds = 0, micros = 0] = await redis.time()
    first.release()
    t.ok(await waits)
    const { since } = await around(Number(seconds) * 1_000 + Number(micros) / 1_000)
    t.ok(since <= 2, `${since} looks`)
  })

  t.test('what Redis forgets counts again once it is renewed', async (t) => {
    const limit = { name: newName(), most: 1 }
    const { permits, redis } = await openPermits(t, url, { leaseMs: 300 })
    leaseOf(await permits.take([limit]))
    await redis.del(`${keys.permits}:held:${limit.name}`)
    await sleep(200)
    t.same(await permits.take([limit]), { full: limit })
  })

  t.test('a first renewal does not take again what is given back right after it', async (t) => {
    const clock = new VirtualClock()
    let release = () => {}
    const every: VirtualClock['every'] = (ms, run) =>
      clock.every(ms, () => {
        run()
        release()
      })
    const leaseMs = 15_000
    const { permits, redis } = await openPermits(t, url, { leaseMs, clock: { ...clock, every } })
    const limit = { name: newName(), most: 1 }
    const held = `${keys.permits}:held:${limit.name}`
    await redis.script('FLUSH')
    leaseOf(await permits.take([limit])).release()
    t.ok(
      await waitUntil(async () => (await redis.zcard(held)) === 0),
      'the server knows how permits are given back',
    )
    release = leaseOf(await permits.take([limit])).release
    await clock.advance(leaseMs / 3)
    // A command that was sent twice for want of its script has been executed by then.
    for (let turn = 0; turn < 3; turn += 1) await redis.ping()
    t.equal(await redis.zcard(held), 0)
  })

  t.test('calls of a node one after the other need few commands, and keep no permit for long', async (t) => {
    const { permits } = await openPermits(t, url)
    const redis = new Redis(url)
    t.teardown(() => redis.disconnect())
    const limit = { name: newName(), most: 8 }
    await redis.config('RESETSTAT')
    const calls = 500
    for (let n = 0; n < calls; n += 1) {
      const lease = await permits.wait(limit, PATIENT)
      t.equal(permits.held(limit.name), 1)
      lease?.release()
      lease?.release()
      t.equal(permits.held(limit.name), 0)
    }
    const [, commands] = /cmdstat_evalsha:calls=(\d+),/.exec(await redis.info('commandstats')) ?? []
    t.ok(Number(commands) < calls / 2, `${commands} commands for ${calls} calls`)
    const held = () => redis.zcard(`${keys.permits}:held:${limit.name}`)
    t.ok(await waitUntil(async () => (await held()) === 0))
  })

  t.test('a permit that a node keeps counts until its lease ends, when the node is gone', async (t) => {
    const limit = { name: newName(), most: 4 }
    const leaseMs = 2_000
    const [dies, lives] = await Promise.all([
      openPermits(t, url, { leaseMs }),
      openPermits(t, url, { leaseMs }),
    ])
    const { redis, around } = await watchLooks(t, url, limit)
    const leases = await Promise.all([1, 2, 3].map(() => dies.permits.wait(limit, PATIENT)))
    for (const lease of leases) lease?.release()
    dies.redis.disconnect()
    const scores = await redis.zrange(`${keys.permits}:held:${limit.name}`, '0', '-1', 'WITHSCORES')
    const endMs = Math.max(...scores.filter((_, at) => at % 2 === 1).map(Number))
    t.equal(dies.permits.held(limit.name), 0)
    leaseOf(await lives.permits.take([limit]))
    t.same(await lives.permits.take([limit]), { full: limit }, 'three are kept')
    const rest = await Promise.all([1, 2, 3].map(() => lives.permits.wait(limit, PATIENT)))
    t.ok(rest.every((lease) => lease !== null))
    const { before, since } = await around(endMs)
    t.ok(before >= 5 && since <= 2, `free after ${before} looks, and ${since} since the lease was over`)
    t.same(await lives.permits.take([limit]), { full: limit })
  })

  t.test('who waits on another node gets permits that a busy node would keep', async (t) => {
    const limit = { name: newName(), most: 8 }
    const [busy, other] = await Promise.all([openPermits(t, url), openPermits(t, url)])
    let [inUse, most, isOver, busyCalls] = [0, 0, false, 0]
    const use = () => {
      inUse += 1
      most = Math.max(most, inUse)
    }
    const call = async () => {
      while (!isOver) {
        const lease = await busy.permits.wait(limit, PATIENT)
        use()
        await sleep(1)
        busyCalls += 1
        inUse -= 1
        lease?.release()
      }
    }
    const calls = Promise.all([1, 2, 3, 4, 5, 6].map(call))
    t.ok(await waitUntil(() => busyCalls > 50))
    const leases = await Promise.all(
      [1, 2, 3, 4].map(async () => {
        const lease = await other.permits.wait(limit, { ...PATIENT, workspace: 'zeta' })
        use()
        return lease
      }),
    )
    t.ok(
      leases.every((lease) => lease !== null),
      'while the other node goes on',
    )
    const before = busyCalls
    t.ok(await waitUntil(() => busyCalls > before + 20))
    t.equal(most, 8, 'all of them were used, and no more')
    isOver = true
    await calls
    for (const lease of leases) lease?.release()
  })

  t.test('what a node keeps is free when it stops', async (t) => {
    const limit = { name: newName(), most: 4 }
    const [stops, other] = await Promise.all([openPermits(t, url), openPermits(t, url)])
    const leases = await Promise.all([1, 2, 3].map(() => stops.permits.wait(limit, PATIENT)))
    for (const lease of leases) lease?.release()
    await stops.permits.close()
    for (let n = 0; n < 4; n += 1) leaseOf(await other.permits.take([limit]))
  })

  t.test('a limit that is lowered holds for permits that are kept', async (t) => {
    const name = newName()
    const { permits } = await openPermits(t, url)
    const leases = await Promise.all(
      Array.from({ length: 6 }, () => permits.wait({ name, most: 8 }, PATIENT)),
    )
    for (const lease of leases.slice(0, 4)) lease?.release()
    const lower = await Promise.all(Array.from({ length: 6 }, () => permits.wait({ name, most: 4 }, SHORT)))
    t.equal(lower.filter((lease) => lease !== null).length, 2)
  })

  t.test('a take of several names is one command, and nothing stays behind', async (t) => {
    // Renewed long after the test.
    const { permits } = await openPermits(t, url)
    const redis = new Redis(url)
    t.teardown(() => redis.disconnect())
    const limits = [newName(), newName(), newName()].map((name) => ({ name, most: 2 }))
    // That nodes wait is remembered for some seconds.
    const left = async () => {
      const found = await Promise.all(limits.map(({ name }) => redis.keys(`${keys.permits}:*:${name}*`)))
      return found.flat().filter((key) => !key.includes(':seen:'))
    }
    const isGivenBack = () => waitUntil(async () => (await left()).length === 0)
    leaseOf(await permits.take(limits)).release()
    t.ok(await isGivenBack())
    await redis.config('RESETSTAT')
    const lease = leaseOf(await permits.take(limits))
    t.match(await redis.info('commandstats'), /cmdstat_evalsha:calls=1,/)
    const waits = permits.wait(
      { ...limits[0]!, most: 1 },
      { workspace: 'acme', waitMs: 5_000, signal: NEVER },
    )
    await sleep(50)
    lease.release()
    ;(await waits)?.release()
    t.ok(await isGivenBack())
  })
})

t.test('while Redis is away, each node counts alone', { skip: withoutServers }, async (t) => {
  const server = await startRedis(t)
  const { permits, redis } = await openPermits(t, server.url, { leaseMs: 600, timeoutMs: 300 })
  const limit = { name: newName(), most: 2 }
  const first = leaseOf(await permits.take([limit]))
  const waitsFor = { workspace: 'acme', waitMs: 20_000, signal: NEVER }
  await server.stop()
  leaseOf(await permits.take([limit]))
  t.same(await permits.take([limit]), { full: limit }, 'what it held before counts')
  const waits = permits.wait(limit, waitsFor)
  t.equal(permits.waiting(limit.name), 1)
  first.release()
  t.ok(await waits, 'who waits gets what this node gives back')
  await server.restart()
  t.ok(await waitUntil(() => redis.status === 'ready'))
  const other = await openPermits(t, server.url)
  const isFull = async () => {
    const taken = await other.permits.take([limit])
    if ('lease' in taken) taken.lease.release()
    return 'full' in taken
  }
  t.ok(await waitUntil(isFull), 'what it took meanwhile counts for all nodes')
})
