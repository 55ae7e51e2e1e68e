import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import type { RateDecision, RateLimiter } from '../../../src/contracts/rate-limit.ts'
import { type RedisServer, startRedis } from '../../support/redis-server.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { taking } from './rate-limiter.contract.ts'
import { leases, type Node, QUICK_BEAT_MS, startNode } from './redis-limiters.ts'

/** An outage of Redis, as a test makes it. */
export interface Outage {
  readonly begin: (redis: RedisServer) => void | Promise<void>
  readonly end: (redis: RedisServer) => void | Promise<void>
}

export const KILLED: Outage = { begin: (redis) => redis.kill(), end: (redis) => redis.restart() }
/** Connections stay open, and nobody answers. */
export const FROZEN: Outage = { begin: (redis) => redis.freeze(), end: (redis) => redis.thaw() }

const AWAY = 'Redis does not answer: this node keeps the rate limits alone'
const BACK = 'Redis answers again: the nodes share the rate limits'
const CALLERS = 10
const SLOT_ID = 'a'.repeat(64)
const LIMIT = { requestsPerMinute: 60, burst: 10 }

interface Load {
  readonly decisions: readonly RateDecision[]
  /** Of the takes by `ms`, in ascending order. */
  readonly times: readonly number[]
}

/** Ten callers, each asking every 5 ms or so, half of them with a slot to look at. Rejects when a take does. */
async function load(limiter: RateLimiter, durationMs: number): Promise<Load> {
  const decisions: RateDecision[] = []
  const times: number[] = []
  const endMs = performance.now() + durationMs
  const call = async (caller: number) => {
    const limit = { requestsPerMinute: 600_000, burst: 10_000 }
    const take = taking('key_load', limit, caller % 2 === 0 ? null : SLOT_ID)
    while (performance.now() < endMs) {
      const startMs = performance.now()
      decisions.push(await limiter.take(take))
      times.push(performance.now() - startMs)
      await sleep(5)
    }
  }
  await Promise.all(Array.from({ length: CALLERS }, (_, caller) => call(caller)))
  return { decisions, times: times.sort((one, other) => one - other) }
}

/** Two nodes live through an outage under load: alone, with bounded waits; and afterwards they share again. */
export async function survives(t: Test, outage: Outage, outageMs: number): Promise<void> {
  const redis = await startRedis(t)
  const options = { beatMs: QUICK_BEAT_MS }
  const nodes = await Promise.all([startNode(t, redis.url, options), startNode(t, redis.url, options)])
  t.ok(await allLease(nodes), 'both nodes lease')
  const [{ limiter, lines }] = nodes as [Node, Node]
  // A machine that is busy with other tests may have had an outage of its own, which this one would only prolong.
  t.ok(await waitUntil(() => lines.at(-1) !== AWAY, 15_000), 'no outage is under way')
  const linesBefore = lines.length
  const during = load(limiter, outageMs + 600)
  await sleep(300)
  await outage.begin(redis)
  const { decisions, times } = await during

  const alone = decisions.filter(({ local }) => local).length
  t.ok(alone > decisions.length / 2, `${alone} of ${decisions.length} takes are decided alone`)
  t.ok(
    decisions.every(({ allowed }) => allowed),
    'nobody is refused for it',
  )
  const p99Ms = times[Math.floor(times.length * 0.99)]!
  t.ok(p99Ms < 250, `99 of 100 takes take less than ${p99Ms.toFixed(1)} ms`)
  t.ok(times.at(-1)! < 1_500, `the slowest takes ${times.at(-1)!.toFixed()} ms`)
  const slow = times.filter((ms) => ms > 40).length
  // One trial in 250 ms, and who was waiting when it began.
  t.ok(slow < 2 * CALLERS + 3 * (outageMs / 250), `${slow} takes waited`)
  logsOutages(t, lines.slice(linesBefore), AWAY)
  await holdsAlone(t, limiter)

  await outage.end(redis)
  t.ok(await waitUntil(async () => (await sharing(nodes)) === LIMIT.burst, 15_000), 'the nodes share again')
  // An outage is over once nothing has failed for some seconds.
  await waitUntil(() => lines.at(-1) === BACK, 15_000)
  logsOutages(t, lines.slice(linesBefore), BACK)
  t.ok(await allLease(nodes), 'and lease again')
}

async function allLease(nodes: readonly Node[]): Promise<boolean> {
  const leasing = nodes.map(({ limiter }, index) => waitUntil(() => leases(limiter, `key_warm_${index}`)))
  return (await Promise.all(leasing)).every(Boolean)
}

/** One line when an outage begins and one when it ends, whatever the load. The last one says how things stand. */
function logsOutages(t: Test, lines: readonly string[], last: string): void {
  const expected = lines.map((_, index) => (index % 2 === 0 ? AWAY : BACK))
  t.same(lines, expected, 'one line for a whole outage')
  t.equal(lines.at(-1), last)
}

async function holdsAlone(t: Test, limiter: RateLimiter): Promise<void> {
  const take = taking('key_alone', { requestsPerMinute: 60, burst: 3 })
  const alone = await Promise.all(Array.from({ length: 6 }, () => limiter.take(take)))
  const admitted = alone.map(({ allowed, local }) => allowed && local)
  t.same(admitted, [true, true, true, false, false, false], 'the full limit holds in this node')
}

let probes = 0

/** How many requests of a fresh key all nodes together admit, when each of them is asked for the whole burst. */
async function sharing(nodes: readonly Node[]): Promise<number> {
  const take = taking(`key_probe_${probes++}`, LIMIT)
  let admitted = 0
  for (let i = 0; i < LIMIT.burst; i += 1) {
    for (const { limiter } of nodes) {
      const { allowed, local } = await limiter.take(take)
      if (local) return 0
      if (allowed) admitted += 1
    }
  }
  return admitted
}
