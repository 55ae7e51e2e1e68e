import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { RateLimiter } from '../../../src/contracts/rate-limit.ts'
import { redisConnector } from '../../../src/gateway/state/redis/connect.ts'
import type { RedisRateLimiterOptions } from '../../../src/gateway/state/redis/rate-limiter.ts'
import { RedisRateLimiter } from '../../../src/gateway/state/redis/rate-limiter.ts'
import { startRedis } from '../../support/redis-server.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { taking } from './rate-limiter.contract.ts'

/** No hiccup of a busy test machine makes such a limiter decide alone. */
const PATIENT_MS = 1_900
/** Nodes that count themselves this often lease a second and a half after they came. */
export const QUICK_BEAT_MS = 200

export interface Node {
  readonly limiter: RedisRateLimiter
  /** What it logs at info level and above. */
  readonly lines: readonly string[]
}

/** A node's limiter, over a connection like the product's. */
export async function startNode(t: Test, url: string, options: RedisRateLimiterOptions = {}): Promise<Node> {
  const lines: string[] = []
  const log = pino({ level: 'info' }, { write: (line) => lines.push(JSON.parse(line).msg) })
  const redis = redisConnector(url, pino({ level: 'silent' }))('limiter')
  const ready = once(redis, 'ready')
  const limiter = new RedisRateLimiter(redis, log, options)
  t.teardown(async () => {
    await limiter.close()
    redis.disconnect()
  })
  await ready
  return { limiter, lines }
}

/** A limiter that no hiccup makes decide alone. It leases nothing for longer than most tests take. */
export async function patientLimiter(t: Test, url: string): Promise<RedisRateLimiter> {
  return (await startNode(t, url, { timeoutMs: PATIENT_MS })).limiter
}

/** As many patient limiters, all of which lease tokens by now. */
export async function leasingLimiters(t: Test, url: string, count: number): Promise<RedisRateLimiter[]> {
  const options = { timeoutMs: PATIENT_MS, beatMs: QUICK_BEAT_MS }
  const nodes = await Promise.all(Array.from({ length: count }, () => startNode(t, url, options)))
  const limiters = nodes.map(({ limiter }) => limiter)
  for (const [index, limiter] of limiters.entries()) {
    if (!(await waitUntil(() => leases(limiter, `key_warm_${index}`))))
      throw new Error('no node leases anything')
  }
  return limiters
}

/** Whether the node decides for this key without a trip, by now. */
export async function leases(limiter: RateLimiter, keyId: string): Promise<boolean> {
  const take = taking(keyId, { requestsPerMinute: 600_000, burst: 100_000 })
  await limiter.take(take)
  await limiter.take(take)
  const decision = limiter.take(take)
  return !(decision instanceof Promise) && !decision.local
}

/** A plain client, to look at what is stored. */
export function client(t: Test, url: string): Redis {
  const redis = new Redis(url)
  t.teardown(() => redis.disconnect())
  return redis
}

export async function passReally(ms: number): Promise<void> {
  const endMs = performance.now() + ms
  while (performance.now() < endMs) await sleep(endMs - performance.now())
}

export interface Waits {
  /** At a time, each with a key of its own. */
  readonly clients: number
  /** Buckets that each uses up. */
  readonly rounds: number
  /** Tokens that each waits for in a round. */
  readonly waits: number
}

/** Proves that whoever waits as told is admitted, whichever of two nodes is asked. */
export async function assertWaitsSuffice(t: Test, { clients, rounds, waits }: Waits): Promise<void> {
  const { url } = await startRedis(t)
  const nodes = await leasingLimiters(t, url, 2)
  // A token every 20 ms; each node may hold 5.
  const limit = { requestsPerMinute: 3000, burst: 200 }
  let leased = 0
  let admitted = 0

  /** The only client of its key: uses up its bucket, then waits as told and asks once, over and over. */
  const call = async (index: number) => {
    const ofNode = (turn: number) => nodes[index % 2 ? turn % nodes.length : 0]!
    for (let round = 0; round < rounds; round += 1) {
      let turn = 0
      let waitMs = 0
      while (waitMs === 0) {
        const decision = ofNode(turn++).take(taking(`key_${index}`, limit))
        if (!(decision instanceof Promise)) leased += 1
        waitMs = (await decision).retryAfterMs
      }
      for (let wait = 0; wait < waits; wait += 1) {
        await passReally(waitMs)
        const { allowed, local } = await ofNode(turn++).take(taking(`key_${index}`, limit))
        if (allowed && !local) admitted += 1
        // Tokens may have come back while this process was busy with something else.
        do waitMs = (await ofNode(turn++).take(taking(`key_${index}`, limit))).retryAfterMs
        while (waitMs === 0)
      }
      if (round + 1 < rounds) await passReally(3_000)
    }
  }
  await Promise.all(Array.from({ length: clients }, (_, index) => call(index)))
  t.equal(admitted, clients * rounds * waits, 'every wait was enough')
  t.ok(leased > clients * rounds * 10, `${leased} tokens were leased meanwhile`)
}
