// What does it cost to take a token? Counts CPU time and trips per take in the process, over Redis, and over Redis with
// tokens leased. Justifies that a take may answer without a promise.
// Run: node bench/micro/limiter.ts

import { once } from 'node:events'
import { pino } from 'pino'
import type { RateLimit, RateLimiter } from '../../src/contracts/rate-limit.ts'
import { EmbeddedRateLimiter } from '../../src/state/embedded/rate-limiter.ts'
import { redisConnector } from '../../src/state/redis/connect.ts'
import { RedisRateLimiter } from '../../src/state/redis/rate-limiter.ts'
import { startRedis } from '../../test/support/redis-server.ts'

/** Callers that ask at the same time, each with a key of its own, as the connections of a server do. */
const CALLERS = 64
const TAKES = 200_000
const ROUNDS = 5

interface Row {
  readonly way: string
  readonly cpu_us_per_take: number
  readonly trips_per_take: number
  readonly against_process: number
}

const teardowns: (() => unknown)[] = []
const server = await startRedis({ teardown: (run) => void teardowns.push(run) })
const redis = redisConnector(server.url, pino({ level: 'silent' }))('bench')
await once(redis, 'ready')
const shared = new RedisRateLimiter(redis, pino({ level: 'warn' }), { timeoutMs: 1_900, beatMs: 200 })

const WAYS: readonly (readonly [way: string, limiter: RateLimiter, limit: RateLimit, takes: number])[] = [
  ['in the process', new EmbeddedRateLimiter(), perMinute(100_000), TAKES],
  ['Redis', shared, perMinute(19), TAKES / 10],
  ['Redis and leases', shared, perMinute(100_000), TAKES],
]

/** So fast that nobody is refused. */
function perMinute(burst: number): RateLimit {
  return { requestsPerMinute: 100_000_000, burst }
}

async function trips(): Promise<number> {
  return Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1] ?? 0)
}

async function measure(
  limiter: RateLimiter,
  limit: RateLimit,
  takes: number,
): Promise<[us: number, trips: number]> {
  const tripsBefore = await trips()
  const before = process.cpuUsage()
  const caller = async (index: number): Promise<void> => {
    const take = { workspace: 'bench', keyId: `key_${limit.burst}_${index}`, limit, slotId: null }
    for (let i = 0; i < takes / CALLERS; i += 1) {
      const answer = limiter.take(take)
      const decision = answer instanceof Promise ? await answer : answer
      if (!decision.allowed || decision.local) throw new Error('a take was refused, or decided without Redis')
      // Requests come one by one, with other work between them.
      if (i % 16 === 15) await new Promise(setImmediate)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, (_, index) => caller(index)))
  const { user, system } = process.cpuUsage(before)
  return [(user + system) / takes, ((await trips()) - tripsBefore) / takes]
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!
}

await new Promise((done) => setTimeout(done, 2_000)) // until the node knows that it is the only one
const rounds = WAYS.map((): [number, number][] => [])
for (let round = 0; round <= ROUNDS; round += 1)
  for (const [index, [, limiter, limit, takes]] of WAYS.entries()) {
    const measured = await measure(limiter, limit, takes)
    if (round > 0) rounds[index]!.push(measured)
  }
const base = median(rounds[0]!.map(([us]) => us))
const rows = WAYS.map(([way], index): Row => {
  const us = median(rounds[index]!.map(([us]) => us))
  return {
    way,
    cpu_us_per_take: Number(us.toFixed(2)),
    trips_per_take: Number(median(rounds[index]!.map(([, trips]) => trips)).toFixed(4)),
    against_process: Number((us / base).toFixed(2)),
  }
})
console.table(rows)
await shared.close()
redis.disconnect()
for (const teardown of teardowns.reverse()) await teardown()
