import t from 'tap'
import { startMeteredNode } from '../../../support/metered-node.ts'
import { startRedis } from '../../../support/redis-server.ts'
import { withoutServers } from '../../../support/servers.ts'
import { waitUntil } from '../../../support/wait-until.ts'

/** The state has a second; the rest is for machines that are busy. */
const SCRAPE_MS_MAX = 5_000

t.test('metrics are told while Redis is away', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const redis = await startRedis(t, { durable: true })
  const node = await startMeteredNode(t, { REDIS_URL: redis.url })
  let spoken = 0
  /** Never the same twice: speech that is kept is free, and needs no state. */
  const speak = async () => (await node.ask('POST', '/v1/speech', { input: `a ${spoken++}` })).status

  /** Redis decides within 50 ms, or the node does: on a busy machine not the first time. */
  const isShared = async () => {
    await speak()
    const { value } = await node.scrape()
    const decided = value('larkway_limiter_decisions_total', { by: 'redis' }) ?? 0
    return decided > 0 && value('larkway_limiter_mode', { mode: 'local' }) === 0
  }
  t.ok(await waitUntil(isShared, 30_000))
  const well = await node.scrape()
  t.equal(well.value('larkway_state_up'), 1)
  t.equal(well.value('larkway_limiter_mode', { mode: 'process' }), 0)
  t.equal(well.value('larkway_queue_jobs', { kind: 'transcription' }), 0)

  for (const [how, leave, comeBack] of [
    ['frozen', () => redis.freeze(), () => redis.thaw()],
    ['dead', () => redis.kill(), () => redis.restart()],
  ] as const) {
    await leave()
    // Money that the node has set aside is handed out for a moment longer.
    t.ok(await waitUntil(async () => (await speak()) === 503), `${how}: credits cannot be asked for`)
    const startMs = performance.now()
    const away = await node.scrape()
    const tookMs = performance.now() - startMs
    t.ok(tookMs < SCRAPE_MS_MAX, `${how}: told within ${Math.round(tookMs)} ms`)
    t.equal(away.value('larkway_state_up'), 0)
    t.equal(away.value('larkway_queue_jobs'), undefined, `${how}: what is not known is not told`)
    t.equal(away.value('larkway_limiter_mode', { mode: 'local' }), 1)
    t.ok((away.value('larkway_limiter_decisions_total', { by: 'local' }) ?? 0) > 0)
    t.ok((away.value('larkway_requests_total') ?? 0) > 0)
    t.ok((away.value('process_cpu_seconds_total') ?? 0) > 0)

    await comeBack()
    const isBack = async () => (await isShared()) && (await node.scrape()).value('larkway_state_up') === 1
    t.ok(await waitUntil(isBack, 30_000), `${how}: and when it is back`)
  }
})
