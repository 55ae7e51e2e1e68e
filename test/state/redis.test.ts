import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { RateDecision, RateLimiter } from '../../src/schema/state.ts'
import { connect } from '../../src/state/redis/connect.ts'
import { keys } from '../../src/state/redis/keys.ts'
import { RedisRateLimiter } from '../../src/state/redis/rate-limiter.ts'
import { createRedisState } from '../../src/state/redis/state.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { rateLimiterContract } from './rate-limiter.contract.ts'

const LIMIT = { requestsPerMinute: 60, burst: 10 }

/** A node's state, and what it logs at info level and above. */
async function node(t: Test, url: string) {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line).msg) })
  const state = await createRedisState({ url, log })
  t.teardown(() => state.close())
  return { state, limiter: state.rateLimiter, lines }
}

/** A limiter that no hiccup of a busy test machine makes decide alone. */
async function patientLimiter(t: Test, url: string): Promise<RateLimiter> {
  const log = pino({ level: 'silent' })
  const redis = connect(url, 'patient', log)
  t.teardown(() => redis.disconnect())
  await once(redis, 'ready')
  return new RedisRateLimiter(redis, log, 1900)
}

/** A plain client, to look at what is stored. */
function client(t: Test, url: string): Redis {
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  return redis
}

async function passReally(ms: number): Promise<void> {
  const endMs = performance.now() + ms
  while (performance.now() < endMs) await sleep(endMs - performance.now())
}

t.test('contract', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  rateLimiterContract(t, async (t) => {
    const limiter = await patientLimiter(t, url)
    return { limiter, pass: passReally, nowMs: () => performance.now() }
  })
})

t.test('nodes share a bucket', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const [one, two] = await Promise.all([patientLimiter(t, url), patientLimiter(t, url)])
  const takes = Array.from({ length: 40 }, (_, i) => (i % 2 ? one : two).take('key_shared', LIMIT))
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
    await limiter.take('key_first', LIMIT)
    await redis.config('RESETSTAT')
    for (let i = 0; i < 3; i++) await limiter.take('key_one', LIMIT)
    const stats = await redis.info('commandstats')
    t.match(stats, /cmdstat_evalsha:calls=3,/)
    t.notMatch(stats, /cmdstat_eval:|cmdstat_multi:/)

    const bucket = keys.bucket('key_one')
    t.same((await redis.keys('*')).sort(), [keys.bucket('key_first'), bucket].sort())
    t.match(await redis.get(bucket), /^\d{16}$/, 'microseconds, all digits kept')
    const ttlMs = await redis.pttl(bucket)
    t.ok(ttlMs > 1000 && ttlMs <= 3000, `${ttlMs} ms until three tokens are back`)
  },
)

t.test('a server that forgot the script is given it again', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const limiter = await patientLimiter(t, url)
  const redis = client(t, url)
  await limiter.take('key_one', LIMIT)
  await redis.script('FLUSH')
  const decisions = await Promise.all([1, 2, 3].map(() => limiter.take('key_one', LIMIT)))
  t.same(decisions.map(({ remaining }) => remaining).sort(), [6, 7, 8], 'each take counted once')
  t.notOk(decisions.some(({ local }) => local))
})

t.test('nonsense in a bucket does not stop the limiter', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const limiter = await patientLimiter(t, url)
  const redis = client(t, url)
  const farAway = `${Date.now()}000000`
  await redis.set(keys.bucket('key_clock'), farAway)
  const decision = await limiter.take('key_clock', LIMIT)
  t.match(decision, { allowed: false, local: false }, 'a bucket of a clock that was set back')
  t.ok(decision.retryAfterMs <= 1000, 'the wait is one interval')
  await redis.lpush(keys.bucket('key_list'), 'x')
  t.match(await limiter.take('key_list', LIMIT), { allowed: true, local: true })
})

interface Load {
  readonly decisions: readonly RateDecision[]
  /** Longest that any take took, milliseconds. */
  readonly slowestMs: number
  /** Takes that took over 20 ms. */
  readonly slow: number
}

/** Ten callers, each asking every 5 ms or so. Rejects when a take does. */
async function load(limiter: RateLimiter, durationMs: number): Promise<Load> {
  const decisions: RateDecision[] = []
  const times: number[] = []
  const endMs = performance.now() + durationMs
  const call = async () => {
    while (performance.now() < endMs) {
      const startMs = performance.now()
      decisions.push(await limiter.take('key_load', { requestsPerMinute: 600_000, burst: 10_000 }))
      times.push(performance.now() - startMs)
      await sleep(5)
    }
  }
  await Promise.all(Array.from({ length: 10 }, call))
  return { decisions, slowestMs: Math.max(...times), slow: times.filter((ms) => ms > 20).length }
}

/** Waits until Redis decides again. */
async function recovered(limiter: RateLimiter): Promise<boolean> {
  const endMs = performance.now() + 15_000
  while (performance.now() < endMs) {
    const { local } = await limiter.take('key_probe', LIMIT)
    if (!local) return true
    await sleep(20)
  }
  return false
}

const AWAY = 'Redis does not answer: this node keeps the rate limits alone'
const BACK = 'Redis answers again: the nodes share the rate limits'

/** One line when an outage begins and one when it ends, whatever the load. The last one says how things stand. */
function logsOutages(t: Test, lines: readonly string[], last: string): void {
  const expected = lines.map((_, index) => (index % 2 === 0 ? AWAY : BACK))
  t.same(lines, expected, 'one line for a whole outage')
  t.equal(lines.at(-1), last)
}

t.test(
  'Redis is killed under load: each node decides alone until it is back',
  { skip: withoutServers },
  async (t) => {
    const redis = await startRedis(t)
    const { state, limiter, lines } = await node(t, redis.url)
    const before = await load(limiter, 300)
    t.notOk(before.decisions.some(({ local }) => local))

    const during = load(limiter, 1500)
    await sleep(300)
    await redis.kill()
    const { decisions, slowestMs } = await during
    t.ok(decisions.filter(({ local }) => local).length > 500, 'the takes go on')
    t.ok(
      decisions.every(({ allowed }) => allowed),
      'nobody is refused for it',
    )
    t.ok(slowestMs < 300, `the slowest take took ${slowestMs} ms`)
    t.equal(await state.healthy(), false)
    logsOutages(t, lines, AWAY)

    const limit = { requestsPerMinute: 60, burst: 3 }
    const alone = await Promise.all(Array.from({ length: 6 }, () => limiter.take('key_alone', limit)))
    t.same(
      alone.map(({ allowed, local }) => allowed && local),
      [true, true, true, false, false, false],
      'the full limit holds in this node',
    )

    await redis.restart()
    t.ok(await recovered(limiter), 'found again without a restart of the node')
    t.equal(await state.healthy(), true)
    logsOutages(t, lines, BACK)
  },
)

t.test('Redis hangs: few callers wait, and none for long', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  const { state, limiter, lines } = await node(t, redis.url)
  await load(limiter, 200)
  const during = load(limiter, 3000)
  await sleep(200)
  redis.freeze()
  const { decisions, slowestMs, slow } = await during
  t.ok(decisions.every(({ allowed }) => allowed))
  t.ok(slowestMs < 300, `the slowest take took ${slowestMs} ms`)
  t.ok(slow < 60, `${slow} of ${decisions.length} takes waited: the first ones, and a trial now and then`)
  t.equal(await state.healthy(), false)
  logsOutages(t, lines, AWAY)

  redis.thaw()
  t.ok(await recovered(limiter))
  logsOutages(t, lines, BACK)
})

t.test('a node starts without Redis, and finds it when it comes', { skip: withoutServers }, async (t) => {
  const redis = await startRedis(t)
  await redis.kill()
  const startMs = performance.now()
  const { state, limiter } = await node(t, redis.url)
  t.ok(performance.now() - startMs < 3000, 'the start does not wait for it')
  t.equal(await state.healthy(), false)
  t.match(await limiter.take('key_one', LIMIT), { allowed: true, local: true })
  await redis.restart()
  t.ok(await recovered(limiter))
  t.equal(await state.healthy(), true)
})
