import t from 'tap'
import { keys } from '../../../src/gateway/state/redis/key-names.ts'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { rateLimiterContract, taking } from './rate-limiter.contract.ts'
import { assertWaitsSuffice, client, leasingLimiters, passReally, patientLimiter } from './redis-limiters.ts'

const LIMIT = { requestsPerMinute: 60, burst: 10 }

t.test('contract', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  rateLimiterContract(t, async (t) => {
    const limiter = await patientLimiter(t, url)
    return { limiter, pass: passReally, nowMs: () => performance.now() }
  })
})

t.test('contract, with tokens leased', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [limiter] = await leasingLimiters(t, url, 1)
  rateLimiterContract(t, async () => ({
    limiter: limiter!,
    pass: passReally,
    nowMs: () => performance.now(),
  }))
})

t.test('nodes share a bucket', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [one, two] = await Promise.all([patientLimiter(t, url), patientLimiter(t, url)])
  const takes = Array.from({ length: 40 }, (_, i) => (i % 2 ? one : two).take(taking('key_shared', LIMIT)))
  const decisions = await Promise.all(takes)
  t.equal(decisions.filter(({ allowed }) => allowed).length, LIMIT.burst)
  t.notOk(decisions.some(({ local }) => local))
})

t.test(
  'a bucket is one number that goes when it is full, and a take is one command',
  { skip: withoutServers },
  async (t) => {
    const { url } = await startRedis(t)
    const limiter = await patientLimiter(t, url)
    const redis = client(t, url)
    await limiter.take(taking('key_first', LIMIT))
    await redis.config('RESETSTAT')
    for (let i = 0; i < 3; i++) await limiter.take(taking('key_one', LIMIT, 'a'.repeat(64)))
    const stats = await redis.info('commandstats')
    t.match(stats, /cmdstat_evalsha:calls=[34],/, 'three takes, and at most one beat of the node')
    t.notMatch(stats, /cmdstat_eval:|cmdstat_multi:/)

    const bucket = keys.bucket('acme', 'key_one')
    t.same((await redis.keys('*')).sort(), [keys.nodes, keys.bucket('acme', 'key_first'), bucket].sort())
    t.match(await redis.get(bucket), /^\d{16}$/, 'microseconds, all digits kept')
    const ttlMs = await redis.pttl(bucket)
    t.ok(ttlMs > 1000 && ttlMs <= 3000, `${ttlMs} ms until three tokens are back`)
  },
)

t.test('a take looks at the slot in the same trip', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const limiter = await patientLimiter(t, url)
  const redis = client(t, url)
  const slotId = 'a'.repeat(64)
  const slot = keys.slot('acme', slotId)
  const look = async (slotId: string | null) =>
    (await limiter.take(taking('key_slot', LIMIT, slotId))).slotTaken

  t.equal(await look(slotId), false, 'a slot that nobody took')
  for (const state of ['running', 'stored', 'burned']) {
    await redis.hset(slot, { state, lease_until_ms: Date.now() + 60_000 })
    t.equal(await look(slotId), true, state)
  }
  await redis.hset(slot, { state: 'running', lease_until_ms: 1 })
  t.equal(await look(slotId), true, 'one whose holder died is not free')
  t.equal(await look('b'.repeat(64)), false, 'another one')
  t.equal(await look(null), false, 'none')
  const elsewhere = await limiter.take({ ...taking('key_slot', LIMIT, slotId), workspace: 'other' })
  t.match(elsewhere, { allowed: true, slotTaken: false }, 'another workspace')
  while ((await limiter.take(taking('key_slot', LIMIT))).allowed);
  t.match(await limiter.take(taking('key_slot', LIMIT, slotId)), { allowed: false, slotTaken: true })
})

t.test('a server that forgot the script is given it again', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const limiter = await patientLimiter(t, url)
  const redis = client(t, url)
  await limiter.take(taking('key_one', LIMIT))
  await redis.script('FLUSH')
  const decisions = await Promise.all([1, 2, 3].map(() => limiter.take(taking('key_one', LIMIT))))
  t.same(decisions.map(({ remaining }) => remaining).sort(), [6, 7, 8], 'each take counted once')
  t.notOk(decisions.some(({ local }) => local))
})

t.test('nonsense in a bucket does not stop the limiter', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const limiter = await patientLimiter(t, url)
  const redis = client(t, url)
  const farAway = `${Date.now()}000000`
  await redis.set(keys.bucket('acme', 'key_clock'), farAway)
  const decision = await limiter.take(taking('key_clock', LIMIT))
  t.match(decision, { allowed: false, local: false }, 'a bucket of a clock that was set back')
  t.ok(decision.retryAfterMs <= 1000, 'the wait is one interval')
  await redis.lpush(keys.bucket('acme', 'key_list'), 'x')
  t.match(await limiter.take(taking('key_list', LIMIT)), { allowed: true, local: true })
})

t.test('whoever waits as told is admitted, whichever node is asked', { skip: withoutServers }, (t) =>
  assertWaitsSuffice(t, { clients: 10, rounds: 2, waits: 15 }),
)
