import { setImmediate as nextTurn } from 'node:timers/promises'
import t from 'tap'
import type { AppPrincipal } from '../../../../src/contracts/catalog.ts'
import type { JobFigures } from '../../../../src/contracts/jobs.ts'
import { systemClock } from '../../../../src/contracts/time.ts'
import { createMetrics } from '../../../../src/gateway/observe/metrics/metrics.ts'
import type { NodeDependencies } from '../../../../src/gateway/observe/metrics/node-readings.ts'
import { createScrape } from '../../../../src/gateway/observe/metrics/scrape.ts'
import { principal, route } from '../../../support/catalog.ts'
import { readExposition } from '../../../support/exposition.ts'
import { entryAt } from '../../../support/gateway-rig.ts'

const NONE: JobFigures = { waiting: [], ended: [] }
const ENTRIES = [entryAt('http://127.0.0.1:1'), entryAt('http://127.0.0.1:1')]

/** A node whose two apps have the same route, the one of them twice. */
function nodeParts(): NodeDependencies {
  const { key: _, ...one } = principal({ route: route(ENTRIES) })
  const apps = new Map<string, AppPrincipal>([
    ['one', { ...one, capabilityRoutes: new Map([['text', one.route]]) }],
    ['two', one],
  ])
  return {
    version: '1.2.3',
    clock: systemClock,
    budget: { used: 1, limit: 2, waiting: 3 },
    settlements: { pending: 4 },
    keys: { ageMs: 1_500 },
    rateLimiter: { figures: () => ({ mode: 'leases', decisions: { redis: 1, leases: 2, local: 0 } }) },
    permits: { held: () => 3, waiting: () => 1 },
    replicas: { of: () => null },
    snapshot: () =>
      ({ apps: new Map([['acme', apps]]) }) as unknown as ReturnType<NodeDependencies['snapshot']>,
    healthOf: (entry) => (entry === ENTRIES[0] ? 'half_open' : 'cooling'),
    bodies: () => ({ arriving: 1, uploading: 0, held: 5, stored: 0, demoted: 0, refused: 0, failed: 0 }),
  }
}

t.test('what a node knows is told, each entry of a route once', async (t) => {
  const figures: JobFigures = {
    waiting: [{ kind: 'queue', mode: 'bulk', ready: 7, delayed: 2, oldestMs: 1_500 }],
    ended: [{ kind: 'queue', status: 'failed', jobs: 3 }],
  }
  const scrape = createScrape(createMetrics(), { ...nodeParts(), figures: async () => figures })
  const { value } = readExposition(await scrape())
  t.equal(value('larkway_build_info', { version: '1.2.3', node: process.version }), 1)
  t.equal(value('larkway_breaker_state', { workspace: 'acme', entry: '0' }), 1)
  t.equal(value('larkway_breaker_state', { workspace: 'acme', entry: '1' }), 3)
  t.equal(value('larkway_limiter_mode', { mode: 'leases' }), 1)
  t.equal(value('larkway_limiter_mode'), 1, 'and no other')
  t.equal(value('larkway_queue_jobs', { mode: 'bulk', state: 'ready' }), 7)
  t.equal(value('larkway_queue_jobs', { mode: 'bulk', state: 'delayed' }), 2)
  t.equal(value('larkway_queue_jobs', { kind: 'transcription' }), 0, 'zeros are told, too')
  t.equal(value('larkway_queue_oldest_seconds', { mode: 'bulk' }), 1.5)
  t.equal(value('larkway_jobs_ended_total', { kind: 'queue', status: 'failed' }), 3)
  t.equal(value('larkway_jobs_ended_total', { kind: 'queue', status: 'succeeded' }), 0)
  t.equal(value('larkway_memory_waiting'), 3)
})

t.test('others get their turns between the entries of a large configuration', async (t) => {
  const entries = Array.from({ length: 5_000 }, () => ENTRIES[0]!)
  const { key: _, ...one } = principal({ route: route(entries) })
  const apps = new Map([['acme', new Map<string, AppPrincipal>([['one', one]])]])
  const snapshot = () => ({ apps }) as unknown as ReturnType<NodeDependencies['snapshot']>
  let looks = 0
  let mostInTurn = 0
  let isOver = false
  const healthOf = () => {
    looks += 1
    return 'closed' as const
  }
  const scraped = createScrape(createMetrics(), {
    ...{ ...nodeParts(), snapshot, healthOf },
    figures: async () => NONE,
  })().finally(() => {
    isOver = true
  })
  for (let before = looks; !isOver; before = looks) {
    await nextTurn()
    mostInTurn = Math.max(mostInTurn, looks - before)
  }
  t.equal(looks, entries.length)
  t.ok(mostInTurn < 500, `${mostInTurn} entries in a turn`)
  const { samples } = readExposition(await scraped)
  t.equal(samples.filter(({ name }) => name === 'larkway_breaker_state').length, entries.length)
})

t.test('a state that does not answer is not waited for', async (t) => {
  let looks = 0
  const figures = () => {
    looks += 1
    return new Promise<JobFigures>(() => {})
  }
  const scrape = createScrape(createMetrics(), { ...nodeParts(), figures })
  const startMs = performance.now()
  const [one, other] = await Promise.all([scrape(), scrape()])
  const tookMs = performance.now() - startMs
  t.ok(tookMs > 900 && tookMs < 10_000, `${tookMs} ms`)
  t.equal(one, other, 'all who ask meanwhile get the same')
  t.equal(looks, 1)
  t.equal(readExposition(one).value('larkway_state_up'), 0)
  t.equal(readExposition(one).value('larkway_memory_used_bytes'), 1)
})

t.test('a state that fails is away, and is asked again', async (t) => {
  const answers = [Promise.reject(new Error('away')), Promise.resolve(NONE)]
  const scrape = createScrape(createMetrics(), { ...nodeParts(), figures: () => answers.shift()! })
  t.equal(readExposition(await scrape()).value('larkway_state_up'), 0)
  t.equal(readExposition(await scrape()).value('larkway_state_up'), 1)
})
