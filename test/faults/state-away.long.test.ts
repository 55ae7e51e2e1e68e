import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startFleet } from '../support/fleet.ts'
import { JOB_TIMING, jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { ask, countsOf, keyedUpload, nameOf } from '../support/keyed-call.ts'
import type { LarkwayProcess } from '../support/larkway.ts'
import { cpuMsOf } from '../support/process-load.ts'
import { startRedisCluster } from '../support/redis-cluster.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { nameOfPaid, race } from './race.ts'
import { stallAt } from './stalled-calls.ts'

const FACTS = {
  model: 'm',
  capabilities: ['audio_input', 'audio_output'],
  price: { per_1k_characters_usd: 0.13, per_hour_usd: 36 },
}

/** Longest that a node serves calls out of leases of money, and a moment more. */
const LEASED_MS = 1_700

async function startRig(t: Test, nodes: number) {
  const upstream = await startUpstream(t)
  const fleet = await startFleet(t, {
    ...{ nodes, redis: { durable: true } },
    providers: { platform: { kind: 'openai-compatible', access: 'platform', base_url: upstream.url } },
    workspaces: {
      acme: {
        entries: [{ provider: 'platform', ...FACTS }],
        terms: { credits_usd: 1_000, grant_id: 'initial' },
      },
    },
  })
  return { ...fleet, upstream, authorization: fleet.authorizationOf('acme') }
}

t.test(
  'calls that are refused while Redis is away',
  { skip: withoutServers, timeout: 120_000 },
  async (t) => {
    const { redis, authorization, node } = await startRig(t, 1)
    const gateway = node()
    const call = { path: '/v1/speech', body: { input: 'seven c' }, authorization }
    t.same(countsOf((await race([gateway], call, 10)).map(nameOfPaid)), { 200: 10 })
    await redis.kill()
    // What the node has leased is not handed out any more.
    await sleep(LEASED_MS)
    const refused = await race([gateway], call, 5_000)
    t.same(countsOf(refused.map(nameOfPaid)), { '503 DEPENDENCY_UNAVAILABLE': 5_000 })

    // Each of them may have begun, and is withdrawn behind its back: all of that together is no load.
    const [beforeMs, startedMs] = [await cpuMsOf(gateway.pid), performance.now()]
    let answeredMs = beforeMs
    let mostMs = 0
    while (performance.now() - startedMs < 4_000) {
      await sleep(20)
      await fetch(`${gateway.url}/healthz`)
      const nowMs = await cpuMsOf(gateway.pid)
      mostMs = Math.max(mostMs, nowMs - answeredMs)
      answeredMs = nowMs
    }
    const cpuMs = (await cpuMsOf(gateway.pid)) - beforeMs
    t.ok(cpuMs < 1_000, `${cpuMs} ms of processor time in 4 s`)
    t.ok(mostMs < 500, `from one answer of a node at rest to the next at most ${mostMs} ms of it`)

    await redis.restart()
    const works = async () => (await race([gateway], call, 1)).every(({ status }) => status === 200)
    t.ok(await waitUntil(works), 'it serves again')
    t.equal(await gateway.signal('SIGTERM'), 0, 'and stops when all is withdrawn')
    t.same(
      gateway.log.filter(({ level }) => level === 'error'),
      [],
      'nothing was given up',
    )
  },
)

t.test('told to stop while Redis is away', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const { redis, upstream, authorization, node } = await startRig(t, 2)
  const [gateway, other] = [node(), node(1)]
  const keys = ['one', 'two', 'three']
  const clients = await stallAt({ port: gateway.port, authorization, keys, upstream }, 'whole')
  for (const client of clients) client.destroy()
  await redis.kill()
  const ended = gateway.signal('SIGTERM')
  upstream.letGo()
  upstream.holdAt(null)
  t.equal(await Promise.race([ended, sleep(3_000, 'going on')]), 'going on', 'it still has answers to keep')
  await redis.restart()
  t.equal(await ended, 0, 'it ends when Redis has taken them')
  const replays = () =>
    Promise.all(keys.map(async (key) => nameOf(await ask(other.port, keyedUpload(key, authorization)))))
  let answers: string[] = []
  await waitUntil(async () => {
    answers = await replays()
    return !answers.includes('503 DEPENDENCY_UNAVAILABLE')
  })
  t.same(countsOf(answers), { '200 replayed': keys.length }, 'callers who had left find their answers')
  t.same(countsOf(keys.map((key) => upstream.executions(key))), { 1: keys.length })
})

t.test('what processes write while Redis is away', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream(t)
  const { redis, node, ...fleet } = await startFleet(t, {
    ...jobTenants({ upstreamUrl: upstream.url }),
    ...{ workers: 1, redis: { durable: true }, s3: 'shared', timing: JOB_TIMING },
  })
  const processes = [node(), ...fleet.workers, await fleet.startNode({ env: { LARKWAY_JOBS: '4' } })]
  const saying = ({ log }: LarkwayProcess, words: string) => log.filter(({ msg }) => msg === words)
  const authorization = fleet.authorizationOf('ws_0')
  for (const outage of [1, 2]) {
    // Commands are under way when it breaks.
    const submissions = Array.from({ length: 8 }, () => submitJob(() => node().url, authorization))
    await redis.kill()
    const isAway = () => processes.every((one) => saying(one, 'Redis is away').length >= outage)
    t.ok(await waitUntil(isAway), `every process knows of outage ${outage}`)
    await sleep(2_500)
    await redis.restart()
    await Promise.all(submissions)
    const isBack = () => processes.every((one) => saying(one, 'Redis is back').length >= outage)
    t.ok(await waitUntil(isBack, 10_000), `every process is back from outage ${outage}`)
    await sleep(1_500)
    for (const one of processes) {
      const [began, ended] = [saying(one, 'Redis is away'), saying(one, 'Redis is back')]
      t.equal(began.length, outage, 'one line when it begins')
      t.match(began.at(-1), { level: 'warn', connection: /^larkway-/, reason: /./ })
      t.equal(ended.length, outage, 'and one when it ends')
      t.ok(Number(ended.at(-1)?.milliseconds) >= 2_000, `after ${ended.at(-1)?.milliseconds} ms`)
    }
  }
  const raw = processes.flatMap(({ output }) => output).filter((line) => !isJson(line))
  t.same(raw, [], 'and nothing but lines of JSON')
})

t.test('and while a cluster is away', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const cluster = await startRedisCluster(t)
  const tenants = jobTenants({ upstreamUrl: 'http://127.0.0.1:1' })
  const node = (await startFleet(t, { ...tenants, redis: cluster })).node()
  const saying = (words: string) => node.log.filter(({ msg }) => msg === words).length
  for (const primary of cluster.primaries) primary.freeze()
  t.ok(await waitUntil(() => saying('Redis is away') > 0, 20_000))
  await sleep(4_000)
  for (const primary of cluster.primaries) primary.thaw()
  t.ok(await waitUntil(() => saying('Redis is back') > 0, 30_000))
  await sleep(1_500)
  t.same([saying('Redis is away'), saying('Redis is back')], [1, 1])
  t.same(
    node.output.filter((line) => !isJson(line)),
    [],
  )
})

function isJson(line: string): boolean {
  try {
    return typeof JSON.parse(line) === 'object'
  } catch {
    return false
  }
}
