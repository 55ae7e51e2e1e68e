import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import t, { type Test } from 'tap'
import { startRedis } from '../../support/redis-server.ts'
import { withoutServers } from '../../support/servers.ts'
import { type Admission, latenessUs } from './entitlement.ts'
import type { KeyKind, KeyReport, LimiterOrder } from './limiter-process.ts'
import { client } from './redis-limiters.ts'

const PROGRAM = fileURLToPath(new URL('./limiter-process.ts', import.meta.url))
const HOUR_MS = 3_600_000
const PROCESSES = 8
const DURATION_MS = 12_000
/** So that nodes lease in less than two seconds. */
const BEAT_MS = 250

/** A thousand keys in all. */
const KINDS: readonly KeyKind[] = [
  // Too small for any lease.
  { name: 'small', count: 960, limit: perMinute(30, 5), takesPerSecond: 120, eager: true },
  // Once its burst is used up, which it is with leases at first, each take goes to Redis.
  { name: 'eager', count: 20, limit: perMinute(1_800, 1_600), takesPerSecond: 500, eager: true },
  // Below their limit: when they are all asked for as much as they have, buckets are full and leases too.
  { name: 'busy', count: 20, limit: perMinute(12_000, 1_600), takesPerSecond: 320, eager: false },
]

function perMinute(requestsPerMinute: number, burst: number) {
  return { requestsPerMinute, burst }
}

async function start(t: Test, order: LimiterOrder): Promise<ChildProcess> {
  const child = fork(PROGRAM, [JSON.stringify(order)], { stdio: 'inherit' })
  t.teardown(() => child.kill('SIGKILL'))
  await once(child, 'message')
  return child
}

/** What all nodes together saw of a key. */
function together(reports: readonly KeyReport[]) {
  const admissions: Admission[] = []
  for (const { admittedUs } of reports)
    for (let i = 0; i < admittedUs.length; i += 2)
      admissions.push({ fromUs: admittedUs[i]!, toUs: admittedUs[i + 1]! })
  return {
    admissions,
    leased: reports.reduce((sum, { leased }) => sum + leased, 0),
    local: reports.reduce((sum, { local }) => sum + local, 0),
    watchedUs:
      Math.max(...reports.map(({ lastRefusalUs }) => lastRefusalUs)) -
      Math.min(...reports.map(({ firstUs }) => firstUs)),
  }
}

t.test('eight processes keep the limits of a thousand keys', { skip: withoutServers }, async (t) => {
  const { url } = await startRedis(t)
  const redis = client(t, url)
  const order = { url, beatMs: BEAT_MS, durationMs: DURATION_MS, kinds: KINDS }
  const clocks = [0, HOUR_MS, -HOUR_MS]
  const children = await Promise.all(
    Array.from({ length: PROCESSES }, (_, i) => start(t, { ...order, clockOffMs: clocks[i] ?? 0 })),
  )
  await redis.config('RESETSTAT')
  const reports = await Promise.all(
    children.map(async (child) => {
      child.send('go')
      const [report] = (await once(child, 'message')) as [KeyReport[]]
      return report
    }),
  )
  const commands = Number(/cmdstat_evalsha:calls=(\d+)/.exec(await redis.info('commandstats'))?.[1])

  const totals = { admitted: 0, leased: 0 }
  t.ok(
    reports.every(({ length }) => length === 1_000),
    'every process reports of all keys',
  )
  let at = 0
  for (const { name, count, limit, takesPerSecond, eager } of KINDS) {
    const all = Array.from({ length: count }, (_, i) => together(reports.map((report) => report[at + i]!)))
    at += count
    const sum = (of: (key: ReturnType<typeof together>) => number) =>
      all.reduce((sum, key) => sum + of(key), 0)
    const admitted = sum(({ admissions }) => admissions.length)
    const leased = sum((key) => key.leased)
    totals.admitted += admitted
    totals.leased += leased

    t.equal(
      sum(({ local }) => local),
      0,
      `${name}: Redis decided everything`,
    )
    const extra = Math.floor(limit.burst / 20)
    const late = all.map(({ admissions }) => latenessUs(admissions, limit, extra)).filter((us) => us > 0)
    t.same(
      late,
      [],
      `${name}: no window of any key has more than burst, rate × window and what may be leased`,
    )
    if (extra < PROCESSES) t.equal(leased, 0, `${name}: a lease has no room`)
    else t.ok(leased > admitted / 5, `${name}: ${leased} of ${admitted} made no trip`)
    if (!eager) {
      t.ok(
        admitted > (0.5 * PROCESSES * takesPerSecond * DURATION_MS) / 1000,
        `${name}: ${admitted} admitted`,
      )
      continue
    }
    const entitled = sum(({ watchedUs }) =>
      Math.floor(limit.burst + (watchedUs / 60_000_000) * limit.requestsPerMinute),
    )
    t.ok(admitted >= entitled * 0.99, `${name}: ${admitted} admitted of ${entitled}`)
  }
  t.ok(commands < totals.admitted, `${commands} commands for ${totals.admitted} admissions`)
})
