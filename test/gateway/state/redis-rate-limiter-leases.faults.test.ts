import { setTimeout as sleep } from 'node:timers/promises'
import type { Redis } from 'ioredis'
import t from 'tap'
import type { RateDecision, RateLimit, RateLimiter } from '../../../src/contracts/rate-limit.ts'
import { systemClock } from '../../../src/contracts/time.ts'
import { keys } from '../../../src/gateway/state/redis/key-names.ts'
import { TokenLeases } from '../../../src/gateway/state/token-leases.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { startProxy } from './lossy-proxy.ts'
import { taking } from './rate-limiter.contract.ts'
import { client, leases, leasingLimiters, QUICK_BEAT_MS, startNode } from './redis-limiters.ts'

/** So slow that nothing comes back while a test runs: what is missing in Redis is what was taken. A lease has 20. */
const FROZEN: RateLimit = { requestsPerMinute: 1, burst: 400 }
const INTERVAL_US = 60_000_000

/** Tokens that are missing in a bucket whose limit is `FROZEN`. */
async function missing(redis: Redis, keyId: string): Promise<number> {
  const fullAtUs = Number(await redis.get(keys.bucket('acme', keyId)))
  const [seconds, microseconds] = await redis.time()
  const nowUs = Number(seconds) * 1_000_000 + Number(microseconds)
  return Math.max(0, Math.ceil((fullAtUs - nowUs) / INTERVAL_US))
}

/** Takes `count` tokens one after the other; how many takes lie between a trip and the next. */
async function runs(limiter: RateLimiter, keyId: string, limit: RateLimit, count: number): Promise<number[]> {
  const lengths: number[] = []
  for (let i = 0; i < count; i += 1) {
    const decision = limiter.take(taking(keyId, limit))
    if (decision instanceof Promise) lengths.push(0)
    else lengths[lengths.length - 1]! += 1
    if (!(await decision).allowed) throw new Error(`take ${i} is refused`)
  }
  return lengths
}

t.test(
  'a lease doubles up to its bound, and the lower half of a bucket is not lent',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const [limiter] = await leasingLimiters(t, url, 1)
    const lengths = await runs(limiter!, 'key_busy', FROZEN, 400)
    t.same(lengths.slice(0, 8), [0, 1, 2, 4, 8, 16, 20, 20], 'the first take has none')
    t.ok(
      lengths.slice(-200).every((run) => run === 0),
      'all of the lower half',
    )
    t.match(await limiter!.take(taking('key_busy', FROZEN)), { allowed: false, remaining: 0 })
  },
)

t.test('what is not used goes back after a second, all of it', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [one, two] = await leasingLimiters(t, url, 2)
  const redis = client(t, url)
  const used = 2 * 22
  await Promise.all([runs(one!, 'key_idle', FROZEN, 22), runs(two!, 'key_idle', FROZEN, 22)])
  const taken = await missing(redis, 'key_idle')
  t.ok(taken > used && taken <= used + 20, `${taken} tokens are taken, ${used} used`)
  t.ok(await waitUntil(async () => (await missing(redis, 'key_idle')) === used, 3_000), 'returned')
  await sleep(1_500)
  t.equal(await missing(redis, 'key_idle'), used, 'once')
})

t.test('returns do not make a bucket fuller than full', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [one, two] = await leasingLimiters(t, url, 2)
  const redis = client(t, url)
  // Full again in 10 ms, long before the leases come back.
  const quick = { requestsPerMinute: 2_400_000, burst: 400 }
  await Promise.all([runs(one!, 'key_full', quick, 30), runs(two!, 'key_full', quick, 30)])
  await sleep(1_500)
  t.equal(await redis.get(keys.bucket('acme', 'key_full')), null, 'a full bucket has no record')
  await runs(one!, 'key_full', FROZEN, 400)
  t.match(await one!.take(taking('key_full', FROZEN)), { allowed: false }, 'the burst and not one more')
})

t.test('an answer that is lost gives nothing twice', { skip: withoutServers }, async (t) => {
  const redisServer = await startRedis(t)
  const proxy = await startProxy(t, redisServer.port)
  const { limiter } = await startNode(t, proxy.url, { beatMs: QUICK_BEAT_MS })
  const redis = client(t, redisServer.url)
  t.ok(await waitUntil(() => leases(limiter, 'key_warm')))
  await runs(limiter, 'key_other', FROZEN, 16)
  t.ok(await waitUntil(async () => (await missing(redis, 'key_other')) === 16), 'the server knows the script')
  await runs(limiter, 'key_lost', FROZEN, 16)
  const taken = await missing(redis, 'key_lost')
  t.ok(taken > 16, `${taken - 16} tokens are in hand`)
  proxy.loseAnswerOf(keys.bucket('acme', 'key_lost'))
  t.ok(await waitUntil(async () => (await missing(redis, 'key_lost')) === 16, 3_000), 'they are returned')
  proxy.heal()
  t.ok(await waitUntil(() => leases(limiter, 'key_warm')), 'the node found back')
  t.equal(await missing(redis, 'key_lost'), 16, 'and returned nothing again')
})

t.test(
  'a key that is seldom used gets no lease and costs no second command',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const [limiter] = await leasingLimiters(t, url, 1)
    const redis = client(t, url)
    for (let i = 1; i <= 3; i += 1) {
      await limiter!.take(taking('key_seldom', FROZEN))
      t.equal(await missing(redis, 'key_seldom'), i)
      await sleep(1_200)
    }
  },
)

t.test(
  'of takes at once only one fetches a lease, and all are decided',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const [limiter] = await leasingLimiters(t, url, 1)
    const redis = client(t, url)
    await runs(limiter!, 'key_crowd', FROZEN, 1 + 2 + 3 + 5 + 9 + 17)
    const before = await missing(redis, 'key_crowd')
    const decisions = await Promise.all(
      Array.from({ length: 100 }, () => limiter!.take(taking('key_crowd', FROZEN))),
    )
    t.ok(decisions.every(({ allowed, local }) => allowed && !local))
    t.equal((await missing(redis, 'key_crowd')) - before, 100 + 20)
  },
)

t.test('a changed limit drops the lease', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [limiter] = await leasingLimiters(t, url, 1)
  const redis = client(t, url)
  await runs(limiter!, 'key_changed', FROZEN, 16)
  const taken = await missing(redis, 'key_changed')
  t.ok(taken > 16, `${taken - 16} tokens are in hand`)
  t.notOk(
    limiter!.take(taking('key_changed', { ...FROZEN })) instanceof Promise,
    'the same limit, read again',
  )
  const changed = limiter!.take(taking('key_changed', { ...FROZEN, burst: 300 }))
  t.type(changed, Promise)
  t.match(await changed, { allowed: true, limit: 300, remaining: 300 - taken - 1 })
  await sleep(1_500)
  t.equal(await missing(redis, 'key_changed'), taken + 1, 'what was dropped stays taken')
})

t.test(
  'a take with a slot makes its trip, and may use what its node holds',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const [one, two] = await leasingLimiters(t, url, 2)
    const redis = client(t, url)
    const slotId = 'a'.repeat(64)
    await redis.hset(keys.slot('acme', slotId), { state: 'burned' })
    await runs(one!, 'key_slot', FROZEN, 16)
    const held = (await missing(redis, 'key_slot')) - 16
    t.ok(held > 0, `${held} tokens are in hand`)
    const ask = () => one!.take(taking('key_slot', FROZEN, slotId))
    t.match(await ask(), { allowed: true, slotTaken: true, remaining: 400 - 17 })
    t.equal((await missing(redis, 'key_slot')) - 17, held, 'the bucket gave it')

    // As if another node had emptied the bucket.
    await redis.set(keys.bucket('acme', 'key_slot'), `${Date.now() + 2 * 400 * 60_000}000`)
    t.match(await two!.take(taking('key_slot', FROZEN)), { allowed: false })
    const decisions: RateDecision[] = []
    for (let i = 0; i <= held; i += 1) decisions.push(await ask())
    t.equal(decisions.filter(({ allowed }) => allowed).length, held, 'what is in hand, and no more')
    t.ok(decisions.every(({ slotTaken, local }) => slotTaken && !local))
  },
)

t.test(
  'nodes that come and go never hold more than a twentieth together',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const [one] = await leasingLimiters(t, url, 1)
    const redis = client(t, url)
    const BIG = { requestsPerMinute: 1, burst: 4_000 }
    let used = 0
    let most = 0
    const use = async (limiters: readonly RateLimiter[], durationMs: number) => {
      const endMs = performance.now() + durationMs
      most = 0
      while (performance.now() < endMs) {
        for (const limiter of limiters) {
          await limiter.take(taking('key_many', BIG))
          used += 1
        }
        if (used % 7 === 0) most = Math.max(most, (await missing(redis, 'key_many')) - used)
        await sleep(used < 300 ? 0 : 8)
      }
      return most
    }
    t.ok((await use([one!], 600)) > 100, `one node holds ${most}, more than half of what all may`)
    t.ok(most <= 200, `and no more than all of it`)

    const { limiter: two } = await startNode(t, url, { timeoutMs: 1_900, beatMs: QUICK_BEAT_MS })
    t.ok(await waitUntil(async () => (await redis.zcard(keys.nodes)) === 2), 'another node is counted')
    t.ok((await use([one!, two], 3_000)) <= 200, `both together hold ${most} at most`)
    t.ok(most > 100, 'and both do hold some')

    await two.close()
    t.equal(await redis.zcard(keys.nodes), 1, 'a node that ends leaves')
    t.ok(await waitUntil(async () => (await missing(redis, 'key_many')) - used <= 200, 2_000))

    await redis.zadd(keys.nodes, Date.now() + 5 * QUICK_BEAT_MS, 'one that was killed')
    t.equal(await redis.zcard(keys.nodes), 2)
    t.ok(await waitUntil(async () => (await redis.zcard(keys.nodes)) === 1, 5_000), 'a dead node drops out')
  },
)

t.test('keys that rest take no memory, and the book counts by its own clock', async (t) => {
  let nowMs = 0
  const returned: string[] = []
  const book = new TokenLeases(({ keyId }, tokens) => returned.push(`${keyId} ${tokens}`), {
    ...systemClock,
    now: () => nowMs,
  })
  const take = (keyId: string) => book.use(keyId, FROZEN, false)
  for (let i = 0; i < 50_000; i += 1) {
    book.begin(taking(`key_${i}`, FROZEN), 20)
    nowMs += 1
  }
  t.ok(book.size <= 1_001, `${book.size} keys are kept of 50,000`)

  const lease = book.begin(taking('key_49999', FROZEN), 20)
  t.equal(lease?.wanted, 1)
  t.equal(book.begin(taking('key_49999', FROZEN), 20), null, 'a trip is under way')
  book.fill(lease!, 1, INTERVAL_US * 2)
  t.match(take('key_49999'), { allowed: true, remaining: 398 })
  t.equal(take('key_49999'), null)
  book.fill(book.begin(taking('key_49999', FROZEN), 20)!, 2, INTERVAL_US * 5)
  t.match(take('key_49999'), { remaining: 396 })
  nowMs += 1_000
  t.equal(take('key_49999'), null, 'a lease that is over is not used')
  const next = book.begin(taking('key_49999', FROZEN), 20)
  t.same(returned, ['key_49999 1'])
  t.equal(next?.wanted, 1, 'as many as were used')
  nowMs += 1_000
  book.fill(next!, 1, INTERVAL_US)
  t.equal(take('key_49999'), null, 'tokens that came too late are given up')
  book.begin(taking('key_other', FROZEN), 20)
  t.equal(book.size, 1)
  t.same(returned, ['key_49999 1'])
  book.close()
})
