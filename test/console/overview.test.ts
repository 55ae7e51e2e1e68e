import t from 'tap'
import { FRESH_MS, NodeHistory, RECENT_MS } from '../../src/console/server/api/node-history.ts'
import type { ConsoleContext } from '../../src/console/server/context.ts'
import type { CallsSample, NodeSample } from '../../src/contracts/console.ts'
import { sameFor, startConsoleBench, type Told } from '../support/console-bench.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { specOf } from '../support/jobs-under-test.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'

const STEP_MS = 5_000

const NOTHING: CallsSample = { requests: 0, errors: 0, addedP50Ms: null, addedP95Ms: null, upstream: [] }

function sample(node: string, atMs: number, over: Partial<NodeSample> = {}): NodeSample {
  return {
    node,
    atMs,
    stepMs: STEP_MS,
    memoryUsedBytes: 10,
    memoryLimitBytes: 100,
    inFlight: 1,
    breakers: [],
    all: NOTHING,
    workspaces: [],
    ...over,
  }
}

function calls(
  requests: number,
  addedMs: number | null,
  upstream: CallsSample['upstream'] = [],
): CallsSample {
  const addedP95Ms = addedMs === null ? null : 2 * addedMs
  return { requests, errors: 2, serverErrors: 1, addedP50Ms: addedMs, addedP95Ms, upstream }
}

interface Step {
  readonly at_ms: number
  readonly [field: string]: unknown
}
const stepsIn = ({ body }: Told) => body.steps as readonly Step[]

t.test('what nodes saw is summed up, for those who may see it', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { admin, operator } = visitors
  const { samples } = state.console
  // The server itself writes samples, too: of that time there are none.
  const endMs = (Math.floor(Date.now() / STEP_MS) - 120) * STEP_MS
  const one = [{ provider: 'one', calls: 3, failed: 1, p50Ms: 100, p95Ms: 200 }]
  const two = [
    { provider: 'one', calls: 1, failed: 0, p50Ms: 300, p95Ms: 400 },
    { provider: 'two', calls: 1, failed: 0, p50Ms: 5, p95Ms: 6 },
  ]
  const keepMs = 3_600_000
  await samples.add(
    sample('a', endMs, {
      all: calls(30, 1, one),
      workspaces: [
        { workspace: 'acme', ...calls(3, 2, one) },
        { workspace: 'other', ...calls(27, 9) },
      ],
    }),
    keepMs,
  )
  await samples.add(
    sample('b', endMs - 2_000, {
      all: calls(10, 5, two),
      workspaces: [{ workspace: 'acme', ...calls(1, 6, two) }],
    }),
    keepMs,
  )
  await samples.add(sample('b', endMs - STEP_MS, { all: calls(7, null) }), keepMs)
  await samples.add(sample('gone', endMs - 20 * STEP_MS), keepMs)

  const past = (told: Told) => stepsIn(told).filter(({ at_ms }) => at_ms <= endMs)
  const all = await operator.get('overview')
  t.match(past(all), [
    { at_ms: endMs - 20 * STEP_MS, requests: 0, added_p50_ms: null, upstream: [] },
    {
      at_ms: endMs - STEP_MS,
      requests: 7,
      client_errors: 1,
      server_errors: 1,
      added_p50_ms: null,
      memory_used_bytes: 10,
    },
    {
      at_ms: endMs,
      step_ms: STEP_MS,
      requests: 40,
      client_errors: 2,
      server_errors: 2,
      added_p50_ms: 2,
      added_p95_ms: 4,
      upstream: [
        { provider: 'one', calls: 4, failed: 1, p50_ms: 167, p95_ms: 267 },
        { provider: 'two', calls: 1, failed: 0, p50_ms: 5, p95_ms: 6 },
      ],
      memory_used_bytes: 20,
      memory_limit_bytes: 200,
    },
  ])
  t.match(all.body, { credits_usd: null, queue: { ready: 0, delayed: 0, oldest_seconds: 0 } })

  const acme = {
    at_ms: endMs,
    requests: 4,
    client_errors: 2,
    server_errors: 2,
    added_p50_ms: 3,
    added_p95_ms: 6,
    upstream: [
      { provider: 'one', calls: 4, p50_ms: 167 },
      { provider: 'two', calls: 1 },
    ],
  }
  t.match(past(await operator.get('overview?workspace=acme')).at(-1), { ...acme, memory_used_bytes: 20 })
  for (const path of ['overview', 'overview?workspace=acme']) {
    const own = await admin.get(path)
    t.match(past(own).at(-1), { ...acme, memory_used_bytes: null, memory_limit_bytes: null }, path)
    t.match(own.body, { nodes: null, queue: null, credits_usd: 10, credits_used: false }, path)
    t.notMatch(own.text, /"other"|larkway-/)
  }

  const since = await operator.get(`overview?since=${endMs - STEP_MS}`)
  t.match(past(since), [{ at_ms: endMs, requests: 40 }], 'only steps that ended after it')
  t.same(past(await operator.get(`overview?since=${endMs}`)), [])
  for (const query of ['since=x', 'since=-1', 'since=1.5', 'until=1'])
    t.equal((await operator.get(`overview?${query}`)).status, 400, query)

  // The steps of a minute, put together where all of them are asked for.
  const ends = (query: string) =>
    operator.get(`overview?${query}`).then((told) => past(told).map(({ at_ms }) => at_ms))
  const minuteMs = Math.ceil(endMs / 60_000) * 60_000
  const together = await operator.get(`overview?old_step_ms=60000&since=${minuteMs - 120_000}`)
  const requests = stepsIn(together)
    .filter(({ at_ms: atMs }) => atMs <= minuteMs)
    .reduce((sum, step) => sum + Number(step.requests), 0)
  t.equal(requests, 47, 'nothing is lost or counted twice')
  t.match(
    stepsIn(together).find(({ at_ms: atMs }) => atMs === minuteMs),
    { step_ms: 60_000, memory_used_bytes: 20 },
    'of the newest of each node',
  )
  t.same(await ends(`old_step_ms=60000&since=${minuteMs - 30_000}`), [], 'none of which a part is missing')
  for (const query of ['old_step_ms=7000', 'old_step_ms=1', 'old_step_ms=600000'])
    t.equal((await operator.get(`overview?${query}`)).status, 400, query)

  const nowhere = await admin.get('overview?workspace=nowhere')
  t.match(nowhere, {
    status: 404,
    body: { error: { code: 'NOT_FOUND', message: 'there is no such workspace' } },
  })
  t.equal(sameFor(await admin.get('overview?workspace=other')), sameFor(nowhere))
  t.equal((await operator.get('overview?workspace=nowhere')).status, 404)
  t.equal((await operator.get('overview?workspace=other')).status, 200)
})

t.test('the present state of things', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { admin, operator } = visitors
  const nowMs = Date.now()
  const entry = { workspace: 'acme', route: 'acme', provider: 'acme', model: 'm' }
  const theirs = { ...entry, workspace: 'other', route: 'other', state: 'cooling' } as const
  const { samples } = state.console
  const half = [{ ...entry, state: 'half_open' } as const, theirs]
  await samples.add(sample('x', nowMs - 500, { breakers: half, inFlight: 7 }), 3_600_000)
  const lastFailure = { atMs: nowMs - 2_000, status: 503, reason: 'it is overloaded' }
  const worst = { ...entry, state: 'open' as const, sinceMs: nowMs - 1_500, lastFailure }
  await samples.add(sample('y', nowMs - 400, { breakers: [worst] }), 3_600_000)
  const older = { breakers: [{ ...entry, model: 'past', state: 'open' as const }], inFlight: 9 }
  await samples.add(sample('x', nowMs - 1_000, older), 3_600_000)
  await samples.add(sample('z', nowMs - 60_000, older), 3_600_000)
  await state.jobs.submit({ spec: specOf('acme'), slot: null })
  await state.jobs.submit({ spec: specOf('other'), slot: null })

  const all = (await operator.get('overview')).body
  const nodes = (all.nodes as { node: string }[]).filter(({ node }) => 'xyz'.includes(node))
  t.match(nodes, [
    { node: 'x', in_flight: 7, memory_used_bytes: 10, memory_limit_bytes: 100 },
    { node: 'y', in_flight: 1, at: new Date(nowMs - 400).toISOString() },
  ])
  t.equal(nodes.length, 2, 'a node that is silent is gone')
  const told = {
    ...{ ...entry, state: 'open', since: new Date(nowMs - 1_500).toISOString() },
    last_error: { at: new Date(nowMs - 2_000).toISOString(), status: 503, reason: 'it is overloaded' },
  }
  t.same(all.breakers, [told, { ...theirs, since: null, last_error: null }], 'each once, where it is worst')
  t.match(all.queue, { ready: 2, delayed: 0 })
  const steps = all.steps as readonly Step[]
  const toldMs = Date.parse(String(all.now))
  t.ok(
    steps.every(({ at_ms }) => at_ms < toldMs),
    'a step is told of when it is over',
  )
  t.same((await admin.get('overview')).body.breakers, [told])

  // The reading before may be told for a second.
  const again = async () => (await operator.get(`overview?since=${Date.now() - 1}`)).body
  await samples.add(sample('late', Date.now()), 3_600_000)
  const names = async () => ((await again()).nodes as { node: string }[]).map(({ node }) => node)
  const beganMs = performance.now()
  while (!(await names()).includes('late') && performance.now() - beganMs < 10_000);
  t.ok((await names()).includes('late'))
})

t.test('health is of five minutes, by provider and model', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { admin, operator } = visitors
  const nowMs = Date.now()
  const failure = (agoMs: number, reason: string) => ({ atMs: nowMs - agoMs, status: 500, reason })
  const upstream = (agoMs: number, failed: number) => [
    {
      ...{ provider: 'one', calls: 10, failed, p50Ms: null, p95Ms: 100 + failed },
      models: [
        {
          ...{ model: 'm', calls: 6, failed, p95Ms: 50 },
          lastFailure: failed === 0 ? null : failure(agoMs, `${agoMs} ago`),
        },
        // A node of an earlier version has not said how long it took.
        { model: 'n', calls: 4, failed: 0, lastFailure: null },
      ],
    },
  ]
  const add = (agoMs: number, failed: number) =>
    state.console.samples.add(
      sample(`x${agoMs}`, nowMs - agoMs, {
        all: calls(1, null, upstream(agoMs, failed + 1)),
        workspaces: [{ workspace: 'acme', ...calls(1, null, upstream(agoMs, failed)) }],
      }),
      3_600_000,
    )
  await add(400_000, 5)
  await add(200_000, 3)
  await add(100_000, 2)
  await add(1_000, 0)
  const last = { at: new Date(nowMs - 100_000).toISOString(), status: 500, reason: '100000 ago' }
  const models = [
    { model: 'm', calls: 18, failed: 5, p95_ms: 50, last_error: last, is_down: false },
    { model: 'n', calls: 12, failed: 0, p95_ms: null, last_error: null, is_down: false },
  ]
  const own = (await admin.get('health')).body
  t.match(own, { window_ms: 300_000, breakers: [] })
  const one = { provider: 'one', calls: 30, failed: 5, last_error: last, is_down: false, models }
  t.same(own.providers, [{ ...one, p95_ms: 101 }], 'weighted by the calls that were answered')
  t.match((await operator.get('health')).body.providers, [{ provider: 'one', calls: 30, failed: 8 }])
  t.equal((await admin.get('health?workspace=other')).status, 404)
})

/** The history of a node whose state has these samples, and how often it was read. */
function historyOf(clock: VirtualClock, samples: readonly NodeSample[]) {
  const seen = { reads: 0 }
  const since = async (fromMs: number) => {
    seen.reads += 1
    return samples.filter(({ atMs }) => atMs >= fromMs)
  }
  const context = { clock, state: { samples: { since } } } as unknown as ConsoleContext
  return { history: new NodeHistory(context), seen }
}

t.test('a provider whose breaker lets nothing through is down at once, whatever was before', async (t) => {
  const openedAgoMs = 7_000
  const standing = async (
    state: 'open' | 'half_open',
    agoMs: number,
    failedAgoMs: number,
    latest: number[],
  ) => {
    const clock = new VirtualClock()
    const nowMs = clock.wallNow()
    const upstream = (calls: number, failed: number) => [
      {
        ...{ provider: 'one', calls, failed, p50Ms: null, p95Ms: null },
        models: [{ model: 'm', calls, failed, p95Ms: null, lastFailure: null }],
      },
    ]
    const breaker = {
      ...{ workspace: 'acme', route: 'voice', provider: 'one', model: 'm', state, sinceMs: nowMs - agoMs },
      lastFailure: { atMs: nowMs - failedAgoMs, status: 503, reason: 'overloaded' },
    }
    const [calls = 0, failed = 0] = latest
    const { history } = historyOf(clock, [
      sample('a', nowMs - 60_000, { all: { ...NOTHING, upstream: upstream(100, 5) } }),
      sample('a', nowMs - 500, {
        all: { ...NOTHING, upstream: upstream(calls, failed) },
        breakers: [breaker],
      }),
    ])
    const [provider] = (await history.health(null)).providers
    t.equal(provider?.is_down, provider?.models[0]?.is_down)
    return provider?.is_down
  }
  t.equal(await standing('open', openedAgoMs, openedAgoMs, [0, 0]), true, 'nothing is sent')
  t.equal(await standing('open', openedAgoMs, openedAgoMs, [3, 3]), true, 'all fails')
  t.equal(await standing('open', 1_000, 1_000, [8, 3]), true, 'what succeeded was before')
  t.equal(await standing('half_open', 500, 10_500, [0, 0]), true, 'a trial failed before')
  t.equal(await standing('open', openedAgoMs, openedAgoMs, [3, 1]), false, 'others get through')
  t.equal(await standing('half_open', 200_000, 210_000, [0, 0]), false, 'it was not tried')
})

t.test('many open pages cost the state one reading a second', async (t) => {
  const clock = new VirtualClock()
  const { history, seen } = historyOf(clock, [sample('a', clock.wallNow() - 500)])
  const open = () => Promise.all(Array.from({ length: 40 }, () => history.samples(RECENT_MS)))
  const [first, ...others] = await open()
  t.ok(others.every((one) => one === first))
  await clock.advance(FRESH_MS - 1)
  await open()
  t.equal(seen.reads, 1)
  await clock.advance(1)
  await open()
  t.equal(seen.reads, 2)
})

t.test('what alerts have told of is shown to those whom it is about', async (t) => {
  const node = await startConsoleNode(t, {
    env: { ALERTS: `whsec_${Buffer.alloc(32).toString('base64')}` },
    config: (config) => ({
      ...config,
      alerts: {
        webhook: { url: 'https://hooks.example/alerts', secret: `\${ALERTS}` },
        rules: { ends: { model_ends: {} } },
      },
      routes: {
        ...Object(config.routes),
        voice: {
          workspace: 'acme',
          entries: [{ provider: 'acme-own', model: 'morse-1', ends_on: '2020-01-31' }],
        },
      },
    }),
  })
  const operator = await node.signIn(node.keys.operator)
  const incidents = async () => (await operator.get('/overview')).body.incidents as readonly object[]
  t.ok(await waitUntil(async () => (await incidents()).length > 0, 20_000))
  t.match(await incidents(), [
    {
      ...{ id: /^inc_/, rule: 'ends', threshold: 30 },
      subject: { workspace: 'acme', provider: 'acme-own', model: 'morse-1' },
    },
  ])
  const admin = await node.signIn(node.keys.admin)
  t.same((await admin.get('/overview')).body.incidents, await incidents(), 'the workspace has said it itself')
  t.same((await operator.get('/overview?workspace=other')).body.incidents, [], 'it is about no other')
})
