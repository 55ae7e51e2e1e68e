import { pino } from 'pino'
import t, { type Test } from 'tap'
import type { Entry } from '../../src/contracts/catalog.ts'
import type { ConsoleState } from '../../src/contracts/console.ts'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { AttemptRecord } from '../../src/contracts/recorder.ts'
import type { Failure } from '../../src/contracts/upstream.ts'
import { CallContext } from '../../src/gateway/call/context/call-context.ts'
import { createCircuitBreakers } from '../../src/gateway/call/select/health.ts'
import { Allowance, Share } from '../../src/gateway/observe/recorder/allowance.ts'
import { BatchingRecorder, type RecorderDependencies } from '../../src/gateway/observe/recorder/recorder.ts'
import { Tallies } from '../../src/gateway/observe/recorder/tally.ts'
import { openEmbeddedState } from '../../src/gateway/state/embedded/state.ts'
import { entry, principal, route } from '../support/catalog.ts'
import { requestFilter } from '../support/console-record.ts'
import { waitUntil } from '../support/wait-until.ts'

const log = pino({ level: 'silent' })

const ENTRY = entry()
const APPS = new Map([['acme', new Map([['web', principal({ route: route([ENTRY, entry()]) })]])]])

const callerOf = (workspace: string, keyId = `key_${workspace}`) => {
  const plain = principal()
  return { ...plain, workspace: { ...plain.workspace, id: workspace }, key: { ...plain.key, id: keyId } }
}

const exchangeOf = (over: object = {}) => ({
  requestId: 'req_1',
  method: 'GET',
  pattern: '/v1/me',
  status: null as number | null,
  elapsedMs: 12.3456,
  firstByteMs: null,
  bodyMs: 2,
  receivedBytes: 10,
  sentBytes: 20,
  ...over,
})

const nobody = () => new CallContext({ requestId: 'req_1', signal: new AbortController().signal })

function trailOf(
  workspace: string,
  over: Partial<CallContext> = {},
  attempts: AttemptRecord[] = [],
): CallContext {
  const context = Object.assign(nobody(), { principal: callerOf(workspace), ...over })
  context.routing.attempts = attempts
  return context
}

/** A request from its answer to its end. */
function pass(recorder: BatchingRecorder, context: CallContext, { id = 'req_1', status = 200 } = {}): void {
  const exchange = exchangeOf({ requestId: id })
  const seen = recorder.answered(exchange, context, status)
  recorder.ended({ ...exchange, status }, context, seen)
}

const FAILURE: Failure = {
  kind: 'server',
  status: 500,
  reason: 'it failed',
  retryAfterMs: null,
  providerMessage: 'a secret',
}

const attempt = (provider: string, milliseconds: number, failed = false): AttemptRecord => ({
  ...{ provider, model: 'm', replica: null, milliseconds, status: failed ? 500 : 200 },
  ...{ reason: failed ? 'it failed' : 'ok', failure: failed ? FAILURE : null },
})

/** @param between wraps the state for the recorder */
async function startRecorder(
  t: Test,
  between = (state: ConsoleState) => state,
  node: Partial<RecorderDependencies['node']> = {},
) {
  const state = await openEmbeddedState({ file: ':memory:', log })
  const health = createCircuitBreakers()
  t.teardown(() => state.close())
  const recorder = new BatchingRecorder({
    state: between(state.console),
    node: {
      name: 'here:1',
      snapshot: () => ({ apps: APPS }),
      health,
      budget: { used: 5, limit: 50 },
      live: () => [],
      shadows: () => [],
      endUsers: () => [],
      ...node,
    },
    log,
    timing: { tickMs: 100, stepMs: 500 },
  })
  t.teardown(() => recorder.close())
  const listed = (workspace: string, over = {}) =>
    state.console.requests.list(requestFilter(workspace, { limit: 5000, ...over }))
  return { state: state.console, recorder, health, listed }
}

t.test('reads of the playground are not recorded, those of a key of its name are', async (t) => {
  const { recorder, listed } = await startRecorder(t)
  const { key, ...caller } = callerOf('acme')
  const callers = [
    { ...key, id: 'key_own', name: 'playground', kind: 'playground' as const },
    { ...key, id: 'key_named', name: 'playground' },
  ]
  for (const one of callers)
    for (const method of ['GET', 'POST']) {
      const context = trailOf('acme', { principal: { ...caller, key: one } })
      const exchange = exchangeOf({ method })
      recorder.ended({ ...exchange, status: 200 }, context, recorder.answered(exchange, context, 200))
    }
  await recorder.close()
  const found = (await listed('acme')).map(({ keyId, method }) => `${keyId} ${method}`)
  t.same(found.sort(), ['key_named GET', 'key_named POST', 'key_own POST'])
})

t.test('an allowance leaves something for everybody', async (t) => {
  const allowance = new Allowance(100)
  const taken = (share: Share) => {
    let count = 0
    while (allowance.take(share)) count += 1
    return count
  }
  const shares = Array.from({ length: 10 }, () => new Share())
  const counts = shares.map(taken)
  t.same(counts.slice(0, 4), [50, 25, 13, 6])
  t.ok(counts.reduce((sum, count) => sum + count, 0) <= 100)
  t.same(shares.map(taken), Array(10).fill(0))
  allowance.renew()
  t.equal(taken(shares[9]!), 50)
})

t.test('tallies count by workspace, and forget who did nothing for a step', async (t) => {
  const tallies = new Tallies()
  const key = tallies.ofKey(callerOf('acme'))
  t.equal(tallies.ofKey(callerOf('acme')), key, 'found again')
  t.equal(tallies.ofKey(callerOf('acme', 'key_b')).workspace, key.workspace)
  for (let i = 1; i <= 1000; i += 1) key.workspace.attempted([attempt('one', i, i % 4 === 0)])
  tallies.ofWorkspace('other').attempted([attempt('one', 7), attempt('two', 5)])
  key.workspace.requests += 3
  key.workspace.errors += 1
  key.workspace.serverErrors += 1
  key.used = true
  t.same(tallies.usedKeys(), ['key_acme'])
  const [acme, other] = tallies.busiest(5)
  t.match(acme, { workspace: 'acme', requests: 3, errors: 1, addedP50Ms: null })
  t.match(acme?.upstream, [{ provider: 'one', calls: 1000, failed: 250, p50Ms: 914, p95Ms: 991 }])
  t.match(acme?.upstream[0]?.models, [
    { model: 'm', calls: 1000, failed: 250, lastFailure: { status: 500, reason: 'it failed' }, p95Ms: 998 },
  ])
  t.notMatch(JSON.stringify(acme), /secret/, 'no word of the provider')
  t.match(other, { workspace: 'other', requests: 0 })
  const upstream = [
    { provider: 'one', calls: 1001 },
    { provider: 'two', calls: 1 },
  ]
  t.match(tallies.all(), { requests: 3, errors: 1, upstream })
  t.equal(tallies.busiest(1).length, 1)

  tallies.clear()
  t.match(tallies.all(), { requests: 0, errors: 0, upstream: [] })
  t.equal(tallies.ofKey(callerOf('acme')), key, 'it was used in the step before')
  tallies.clear()
  t.equal(key.gone, true)
  t.not(tallies.ofKey(callerOf('acme')), key)
  tallies.clear()
  tallies.clear()
  t.same(tallies.busiest(5), [])
})

t.test('a request that outlasts its tally is counted all the same', async (t) => {
  const { recorder, state, health } = await startRecorder(t)
  for (let i = 0; i < 5; i += 1) health.failed(ENTRY, FAILURE, performance.now())
  const [context, exchange] = [trailOf('acme'), exchangeOf()]
  const seen = recorder.answered(exchange, context, 200)
  recorder.start(() => 3)
  t.ok(await waitUntil(async () => (await state.samples.since(0)).length >= 3))
  recorder.ended({ ...exchange, status: 200 }, context, seen)
  t.ok(await waitUntil(async () => (await state.samples.since(0)).some(({ all }) => all.requests === 1)))
  const samples = await state.samples.since(0)
  const [first] = samples
  t.same(first?.attempts, [])
  t.match(first, { node: 'here:1', inFlight: 3, memoryUsedBytes: 5, memoryLimitBytes: 50 })
  const { provider, model } = ENTRY
  t.match(first?.breakers, [{ provider: provider.name, model, state: 'open' }], 'those that are not closed')
  t.equal(first?.breakers.length, 1)
  // A stalled machine leaves some out.
  const steps = samples.map(({ atMs }) => atMs / 500)
  t.ok(steps.every(Number.isInteger), 'steps end at the same moments everywhere')
  const apart = steps.slice(1).map((step, at) => step - steps[at]!)
  t.ok(Math.min(...apart) === 1, `each one has its sample: ${apart}`)
})

t.test('of a burst a bounded number is looked at, and failures are not crowded out', async (t) => {
  const { recorder, state, listed } = await startRecorder(t)
  for (let i = 0; i < 10_000; i += 1) pass(recorder, trailOf('busy'), { id: `ok_${i}` })
  const served = [attempt('one', 9)]
  for (let i = 0; i < 10; i += 1) pass(recorder, trailOf('calm', {}, served), { id: `calm_${i}` })
  for (let i = 0; i < 20; i += 1) pass(recorder, trailOf('busy'), { id: `bad_${i}`, status: 500 })
  const attempts = [attempt('one', 5, true), attempt('two', 9)]
  for (let i = 0; i < 20; i += 1) pass(recorder, trailOf('busy', {}, attempts), { id: `over_${i}` })
  for (let i = 0; i < 1000; i += 1) pass(recorder, trailOf('busy'), { id: `worse_${i}`, status: 500 })
  await recorder.close()
  const [seen] = await state.samples.since(0)
  t.match(seen?.all, { requests: 11_050, errors: 1020, serverErrors: 1020, failuresDropped: 820 })
  t.match(seen?.workspaces, [
    {
      ...{ workspace: 'busy', requests: 11_040, errors: 1020, recorded: 270, failuresDropped: 820 },
      // An answer without a provider adds nothing to a provider's.
      addedP50Ms: null,
    },
    { workspace: 'calm', requests: 10, errors: 0, recorded: 10, failuresDropped: 0 },
  ])
  t.match(seen?.workspaces[0]?.upstream, [
    { provider: 'one', calls: 20, failed: 20, p50Ms: null, p95Ms: null },
    { provider: 'two', calls: 20, failed: 0, p95Ms: 9 },
  ])
  t.ok(Math.abs((seen?.all.addedP50Ms ?? 0) - 10.3456) < 0.001, 'what the body was waited for is not added')

  const busy = await listed('busy')
  const count = (prefix: string) => busy.filter(({ id }) => id.startsWith(prefix)).length
  t.equal(count('ok_'), 50)
  t.equal(count('bad_'), 20)
  t.equal(count('over_'), 20)
  t.equal(count('worse_'), 180, 'failures have an allowance of their own')
  t.equal((await listed('calm')).length, 10)
  const over = busy.find(({ id }) => id.startsWith('over_'))
  t.match(over, { status: 200, addedMs: 10.35, milliseconds: 12, path: '/v1/me', keyId: 'key_busy' })
  t.notOk(JSON.stringify(over).includes('secret'), 'no word of the provider')
  t.same(Object.keys(await state.keyUses.read(['key_busy', 'key_calm', 'key_x'])), ['key_busy', 'key_calm'])
})

t.test('who left before the answer is recorded when there is one, once', async (t) => {
  const { recorder, state, listed } = await startRecorder(t)
  const [context, exchange] = [trailOf('acme'), exchangeOf({ status: 499 })]
  recorder.ended(exchange, context, null)
  t.equal(recorder.answered(exchange, trailOf('acme', {}, [attempt('one', 5)]), 200), null)
  const unknown = exchangeOf({ status: 401, requestId: 'req_unknown' })
  recorder.ended(unknown, nobody(), recorder.answered(exchangeOf(), nobody(), 401))
  recorder.wentOn(exchange, trailOf('acme', {}, [attempt('one', 5)]))
  await recorder.close()
  t.match(await state.samples.since(0), [{ all: { requests: 1, errors: 1 } }])
  const left = await listed('acme')
  t.match(left[0], { status: 499, error: 'CLIENT_CLOSED', addedMs: null })
  t.match(
    left.map(({ attempts }) => attempts.length).sort(),
    [0, 1],
    'a call that went on has a second record when it has ended',
  )
})

t.test('a run of a job is told by its submission, and asks providers', async (t) => {
  const { recorder, state, listed } = await startRecorder(t)
  const owner = { workspace: 'acme', app: 'web', keyId: 'key_acme' }
  const job = { id: 'tj_1', requestId: 'req_job', ...owner, endpoint: 'transcription', createdAtMs: 0 }
  const ran = { became: 'succeeded', chargedMicros: 0 } as const
  const paid = trailOf('acme', {}, [attempt('one', 30)])
  paid.money.costUsd = 0.5
  recorder.ran(job, paid, { ...ran, milliseconds: 41.7 })
  const failure = new GatewayError('UPSTREAM_ERROR')
  recorder.ran(job, trailOf('acme', { failure }, [attempt('one', 3, true)]), { ...ran, milliseconds: 5 })
  await recorder.close()
  const [seen] = await state.samples.since(0)
  t.match(seen?.workspaces, [{ workspace: 'acme', requests: 0, upstream: [{ calls: 2, failed: 1 }] }])
  t.same(seen?.attempts, [['one', 'm', 2, 1]])
  const runs = await listed('acme', { jobId: 'tj_1' })
  t.match(
    runs.find(({ error }) => error === null),
    { id: 'req_job', path: 'job', status: null, milliseconds: 42, addedMs: null, costUsd: 0.5 },
  )
  t.equal((await listed('acme', { outcome: 'failed' })).length, 1)
})

t.test('what the state refuses is tried again under the same token, then given up', async (t) => {
  const tokens: string[] = []
  let refuse: 'before' | 'after' | null = null
  const { recorder, listed } = await startRecorder(t, (state) => ({
    ...state,
    requests: {
      ...state.requests,
      async add(token, records) {
        tokens.push(token)
        // As it is now: what the test says meanwhile is for the next one.
        const refusal = refuse
        if (refusal !== 'before') await state.requests.add(token, records)
        if (refusal !== null) throw new GatewayError('DEPENDENCY_UNAVAILABLE')
      },
    },
  }))
  recorder.start(() => 0)
  refuse = 'after'
  pass(recorder, trailOf('acme'), { id: 'kept' })
  t.ok(await waitUntil(() => tokens.length >= 2))
  refuse = null
  const taken = tokens.length
  t.ok(await waitUntil(() => tokens.length > taken))
  t.equal(new Set(tokens).size, 1)
  t.match(await listed('acme'), [{ id: 'kept' }], 'kept once')

  refuse = 'before'
  tokens.length = 0
  pass(recorder, trailOf('acme'), { id: 'lost' })
  t.ok(await waitUntil(() => tokens.length === 5))
  refuse = null
  pass(recorder, trailOf('acme'), { id: 'later' })
  t.ok(await waitUntil(async () => (await listed('acme')).length > 1))
  t.equal(tokens.length, 6, 'five times, and no more')
  t.same((await listed('acme')).map(({ id }) => id).sort(), ['kept', 'later'])
})

type Unwell = 'half_open' | 'open' | 'cooling'

/** A node's report of entries that are not closed. */
async function sampleOfUnwell(
  t: Test,
  workspaces: Readonly<
    Record<string, readonly { count: number; model: string; state: Unwell; minutes: number }[]>
  >,
) {
  const conditions = new Map<Entry, { state: Unwell; sinceMs: number; lastFailure: null }>()
  const apps = new Map(
    Object.entries(workspaces).map(([workspace, groups]) => {
      const entries = groups.flatMap(({ count, model, state, minutes }) =>
        Array.from({ length: count }, () => {
          const one = entry({ model })
          const sinceMs = performance.now() - minutes * 60_000
          conditions.set(one, { state, sinceMs, lastFailure: null })
          return one
        }),
      )
      return [workspace, new Map([['web', principal({ route: route(entries, { workspace }) })]])] as const
    }),
  )
  const health = { condition: (one: Entry) => conditions.get(one)! }
  const { recorder, state } = await startRecorder(t, undefined, { snapshot: () => ({ apps }), health })
  await recorder.close()
  const [sample] = await state.samples.since(0)
  return { breakers: sample?.breakers ?? [], models: (sample?.unwell ?? []).map(([, model]) => model) }
}

t.test('entries that are not tried leave room in the list of breakers for others', async (t) => {
  const MAX = 100
  const { breakers, models } = await sampleOfUnwell(t, {
    acme: [
      { count: 2 * MAX, model: 'untried', state: 'half_open', minutes: 60 },
      { count: 1, model: 'trial', state: 'half_open', minutes: 1 },
      { count: 1, model: 'cooling', state: 'cooling', minutes: 30 },
      { count: 1, model: 'open', state: 'open', minutes: 0 },
    ],
    evil: [{ count: 3 * MAX, model: 'evil', state: 'open', minutes: 0 }],
    late: [{ count: 2, model: 'late', state: 'open', minutes: 0 }],
  })
  t.equal(breakers.length, MAX)
  const counts = new Map(
    [...Map.groupBy(breakers, ({ model }) => model)].map(([model, all]) => [model, all.length]),
  )
  t.same(
    counts,
    new Map([
      ['open', 1],
      ['evil', MAX - 5],
      ['late', 2],
      ['cooling', 1],
      ['trial', 1],
    ]),
  )
  t.same(
    breakers.filter(({ workspace }) => workspace === 'acme').map(({ model }) => model),
    ['open', 'cooling', 'trial'],
  )
  t.same(models, ['cooling', 'evil', 'late', 'open', 'trial'], 'alerts are told of each once')
})

t.test(
  'alerts are told of a model that has long been unwell beside a provider that fails in all routes',
  async (t) => {
    const { breakers, models } = await sampleOfUnwell(t, {
      acme: [
        { count: 1, model: 'long-unwell', state: 'cooling', minutes: 60 },
        { count: 110, model: 'in-all-routes', state: 'open', minutes: 0 },
      ],
    })
    t.same(
      new Set(breakers.map(({ model }) => model)),
      new Set(['in-all-routes']),
      'there is no room to show it',
    )
    t.same(models, ['in-all-routes', 'long-unwell'])
  },
)
