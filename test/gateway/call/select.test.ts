import t from 'tap'
import type { Route } from '../../../src/contracts/catalog.ts'
import { errorReply } from '../../../src/contracts/errors.ts'
import { type CutSelection, partedCall } from '../../../src/gateway/call/attempt/parts.ts'
import { withinCost } from '../../../src/gateway/call/select/cost-cap.ts'
import { createCircuitBreakers, createLatencyTracker } from '../../../src/gateway/call/select/health.ts'
import { select, withUnhealthy } from '../../../src/gateway/call/select/selection.ts'
import { audio, transcriptionCall } from '../../support/call.ts'
import { configuredProvider, facts, principal, route } from '../../support/catalog.ts'
import { models, named, pick, plainCall, refused, selectionInput, withRoute } from './selection.ts'

const hearing = transcriptionCall()

/** Uniform in [0, 1), the same in every run. */
function drawn(): () => number {
  let state = 1
  return () => {
    state = (state * 48_271) % 2_147_483_647
    return state / 2_147_483_647
  }
}

const strategic = (strategy: Route['strategy'], entries: Route['entries']) =>
  principal({ route: route(entries, { strategy }) })

t.test('priority takes the entries as the route lists them', async (t) => {
  const who = strategic('priority', [named('c'), named('a'), named('b')])
  t.same(models(pick('transcription', who, hearing)), ['c', 'a', 'b'])
})

t.test('weighted takes each entry first in proportion to its weight', async (t) => {
  const weights = { heavy: 3, middling: 1, light: 0.5 }
  const entries = Object.entries(weights).map(([model, weight]) => named(model, { weight }))
  const who = strategic('weighted', entries)
  const random = drawn()
  const draws = 20_000
  const first: Record<string, number> = {}
  let lightBeforeMiddling = 0
  for (let draw = 0; draw < draws; draw += 1) {
    const order = models(pick('transcription', who, hearing, { random }))
    if (new Set(order).size !== 3) t.fail(`${order}`)
    first[order[0] ?? ''] = (first[order[0] ?? ''] ?? 0) + 1
    if (order.indexOf('light') < order.indexOf('middling')) lightBeforeMiddling += 1
  }
  for (const [model, weight] of Object.entries(weights))
    t.ok(Math.abs((first[model] ?? 0) / draws - weight / 4.5) < 0.02, `${model}: ${first[model]}`)
  t.ok(Math.abs(lightBeforeMiddling / draws - 0.5 / 1.5) < 0.02, 'the later places too')
})

t.test('lowest_cost takes the cheapest for this very call, and an unknown price last', async (t) => {
  const priced = (
    model: string,
    price: ReturnType<typeof facts>['price'],
    capabilities = facts().capabilities,
  ) => named(model, { facts: facts({ price, capabilities }) })
  const hearers = strategic('lowest_cost', [
    priced('unknown', null),
    priced('dear', { per_hour_usd: 1 }),
    priced('cheap', { per_hour_usd: 0.1 }),
    // Ten seconds of audio are billed as an hour here.
    priced('minimum', { per_hour_usd: 0.5, minimum_seconds: 3600 }),
    priced('unknown too', {}),
  ])
  t.same(models(pick('transcription', hearers, hearing)), [
    'cheap',
    'dear',
    'minimum',
    'unknown',
    'unknown too',
  ])

  const writers = strategic('lowest_cost', [
    priced('wordy', { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 100 }, ['text']),
    priced('terse', { per_1m_input_tokens_usd: 50, per_1m_output_tokens_usd: 10 }, ['text']),
  ])
  t.same(models(pick('chat', writers, plainCall('chat'))), ['terse', 'wordy'])
  const long = plainCall('chat', {
    messages: [{ role: 'user', parts: [{ type: 'text', text: 'lark '.repeat(100_000) }] }],
    max_tokens: 10,
  })
  t.same(models(pick('chat', writers, long)), ['wordy', 'terse'], 'a long prompt and a short answer')

  const tier = { over_input_tokens: 100_000, per_1m_input_tokens_usd: 4 }
  const readers = strategic('lowest_cost', [
    priced('tiered', { per_1m_input_tokens_usd: 2, tiers: [tier] }, ['text']),
    priced('even', { per_1m_input_tokens_usd: 3 }, ['text']),
    priced(
      'over',
      { per_1m_input_tokens_usd: 9, periods: [{ from: '2026-01-01', per_1m_input_tokens_usd: 1 }] },
      ['text'],
    ),
  ])
  t.same(models(pick('chat', readers, plainCall('chat'))), ['over', 'tiered', 'even'])
  t.same(models(pick('chat', readers, long)), ['over', 'even', 'tiered'], 'by the price of its size')

  const flex = { flex: { per_1m_input_tokens_usd: 1 } }
  const patient = strategic('lowest_cost', [
    priced('even', { per_1m_input_tokens_usd: 2 }, ['text']),
    priced('tiered', { per_1m_input_tokens_usd: 3, by_service_tier: flex }, ['text']),
  ])
  const asked = { name: 'service_tier', value: 'flex', required: false } as const
  t.same(models(pick('chat', patient, plainCall('chat'))), ['even', 'tiered'])
  t.same(models(pick('chat', patient, plainCall('chat', { extras: [asked] }))), ['tiered', 'even'])

  const painters = strategic('lowest_cost', [
    priced('p', { per_image_usd: 0.2 }, ['image']),
    priced('q', { per_image_usd: 0.1 }, ['image']),
  ])
  t.same(models(pick('image', painters, plainCall('image'))), ['q', 'p'])

  // A part is 600 s, not the minute that is supposed where nothing is known.
  const limits = { max_audio_seconds: 1_000 }
  const parted = (model: string, price: ReturnType<typeof facts>['price']) =>
    named(model, { facts: facts({ price, limits }) })
  const listeners = strategic('lowest_cost', [
    parted('even', { per_hour_usd: 0.5 }),
    parted('minimum', { per_hour_usd: 0.4, minimum_seconds: 300 }),
    parted('steps', { per_hour_usd: 0.45, billing_increment_seconds: 120 }),
  ])
  const recording = transcriptionCall({ audio: audio({ durationSeconds: 7_200 }) })
  const selection = pick('transcription', listeners, recording)
  t.same([selection.cut?.count, models(selection)], [12, ['minimum', 'even', 'steps']])
  const { payload } = recording
  const capped = { ...payload, options: { ...payload.options, max_cost_usd: 1.05 } }
  const parts = partedCall({ ...recording, payload: capped }, selection as CutSelection)
  t.same(models(withinCost(selection, parts, 0)), ['minimum', 'even'], 'each part is charged by itself')
})

t.test('lowest_latency takes the quickest, and one without an answer first', async (t) => {
  const entries = [named('slow'), named('quick'), named('new')]
  const [slow, quick] = entries
  const latency = createLatencyTracker()
  for (const milliseconds of [900, 1000, 5]) latency.note(slow!, milliseconds, 0)
  for (const milliseconds of [100, 90, 3000]) latency.note(quick!, milliseconds, 200_000)
  const who = strategic('lowest_latency', entries)
  const order = (nowMs: number) => models(pick('transcription', who, hearing, { latency, nowMs }))
  t.same(order(200_000), ['new', 'quick', 'slow'], 'by the median')
  t.same(order(300_000), ['slow', 'new', 'quick'], 'what is five minutes old is forgotten')
})

t.test('pinned entries are the only candidates', async (t) => {
  const who = withRoute([named('a'), named('b', { pinned: true }), named('c', { pinned: true })])
  const { candidates, considered } = pick('transcription', who, hearing)
  t.same(
    candidates.map(({ entry }) => entry.model),
    ['b', 'c'],
  )
  t.same(
    considered.map(({ exclusion: left }) => left?.why ?? null),
    ['not_pinned', null, null],
  )
  const deaf = named('deaf', { pinned: true, facts: facts({ capabilities: ['text'] }) })
  t.equal(refused('transcription', withRoute([named('a'), deaf]), hearing).code, 'NO_HEALTHY_PROVIDER')
})

t.test('refusals, told by the entry that came furthest', async (t) => {
  const deaf = named('deaf', { facts: facts({ capabilities: ['audio_output'] }) })
  const paid = named('paid', { plans: ['pro'] })
  const plain = named('plain', { facts: facts({ features: [] }) })
  const small = named('small', { facts: facts({ limits: { max_audio_bytes: 10 } }) })
  const tired = named('tired')
  const health = coolingDown(new Map([['tired', 2_100]]))
  const words = transcriptionCall({ options: { timestamps: 'word' } })

  const rows = [
    ['nothing hears', [deaf], 'NO_HEALTHY_PROVIDER', null],
    ['not in the plan', [deaf, paid], 'PLAN_NOT_ENTITLED', null],
    ['no word times', [plain, deaf, paid], 'REQUIRED_FEATURE_UNAVAILABLE', null],
    ['too much for the provider', [deaf, small, paid, plain], 'INVALID_REQUEST', null],
    ['to be left alone', [deaf, tired, paid, plain, small], 'PROVIDERS_COOLING_DOWN', 2_100],
  ] as const
  for (const [name, entries, code, retryAfterMs] of rows) {
    for (const order of [entries, [...entries].reverse()]) {
      const error = refused('transcription', withRoute(order), words, { health })
      t.equal(error.code, code, name)
      t.equal(error.extra.retryAfterMs ?? null, retryAfterMs)
      const { details } = error.extra
      t.equal(details?.policy_version_id, 'pv_0123456789abcdef')
      t.same(
        ((details?.entries ?? []) as { model: string }[]).map(({ model }) => model),
        order.map(({ model }) => model),
      )
    }
  }
  t.equal(refused('transcription', withRoute([]), words).code, 'NO_HEALTHY_PROVIDER', 'an empty route')
  const unpublished = principal({ route: route([named('a')], { published: false }) })
  t.equal(refused('transcription', unpublished, words).code, 'NO_HEALTHY_PROVIDER')
})

/** Health in which these models cool down for so many milliseconds. */
function coolingDown(waits: ReadonlyMap<string, number>) {
  return {
    view({ model }: { model: string }, nowMs: number) {
      const wait = waits.get(model)
      if (wait === undefined) return { state: 'closed' as const, untilMs: null, openedAtMs: null }
      return { state: 'cooling' as const, untilMs: nowMs + wait, openedAtMs: null }
    },
  }
}

t.test('entries that were asked to be left alone are never tried', async (t) => {
  const who = withRoute([named('a'), named('b'), named('c')])
  const some = coolingDown(new Map([['a', 500]]))
  t.same(models(pick('transcription', who, hearing, { health: some })), ['b', 'c'])
  const all = coolingDown(
    new Map([
      ['a', 90_000],
      ['b', 12_345.2],
      ['c', 20_000],
    ]),
  )
  const error = refused('transcription', who, hearing, { health: all })
  t.equal(errorReply(error, 'req_1').headers['retry-after'], '13', 'the soonest, in whole seconds')
  t.equal(error.extra.details?.retry_after_ms, 12_346)
})

t.test('an open breaker leaves an entry out while another can be tried', async (t) => {
  const states = new Map<string, { openedAtMs: number; untilMs: number; state: 'open' | 'half_open' }>()
  const health = {
    view: ({ model }: { model: string }) =>
      states.get(model) ?? ({ state: 'closed', untilMs: null, openedAtMs: null } as const),
  }
  const who = withRoute([named('a'), named('b'), named('c')])
  const nowMs = 20_000
  const look = () => pick('transcription', who, hearing, { health, nowMs })

  states.set('a', { state: 'open', openedAtMs: 15_000, untilMs: 25_000 })
  t.same(models(look()), ['b', 'c'])
  states.set('b', { state: 'half_open', openedAtMs: 5_000, untilMs: 15_000 })
  t.same(models(look()), ['b', 'c'], 'a half-open one whose trial is free keeps its place')
  states.set('b', { state: 'half_open', openedAtMs: 5_000, untilMs: 600_000 })
  t.same(models(look()), ['c'], 'one that somebody is trying is left out')

  states.set('c', { state: 'open', openedAtMs: 12_000, untilMs: 22_000 })
  const last = look()
  t.same(models(last), ['b'], 'when all are open, the one that opened first is tried')
  t.equal(last.candidates[0]?.lastResort, true)
  t.same(
    last.considered.map(({ exclusion: left, rank, lastResort }) => [left?.why ?? null, rank, lastResort]),
    [
      ['breaker', null, false],
      [null, 1, true],
      ['breaker', null, false],
    ],
  )
  const cooling = coolingDown(
    new Map([
      ['a', 1_000],
      ['b', 1_000],
    ]),
  )
  const mixed = {
    view: (entry: { model: string }) => (entry.model === 'c' ? health : cooling).view(entry, nowMs),
  }
  t.same(
    models(pick('transcription', who, hearing, { health: mixed, nowMs })),
    ['c'],
    'but none that cools down',
  )

  const short = named('short', { facts: facts({ limits: { max_audio_seconds: 100 } }) })
  const recording = transcriptionCall({ audio: audio({ durationSeconds: 500 }) })
  const whole = pick('transcription', withRoute([named('a'), short]), recording, { nowMs })
  t.same([models(whole), whole.cut], [['a'], undefined])
  const parts = pick('transcription', withRoute([named('a'), short]), recording, { health, nowMs })
  t.same([models(parts), parts.cut?.count], [['short'], 6], 'and one that takes parts is tried before')
  states.set('short', { state: 'open', openedAtMs: 16_000, untilMs: 26_000 })
  const none = pick('transcription', withRoute([named('a'), short]), recording, { health, nowMs })
  t.same([models(none), none.cut], [['a'], undefined])
})

t.test(
  'a session keeps the entries that only their health excludes, within the profile of its call',
  async (t) => {
    const who = withRoute([
      named('slow', { profile: 'thinking' }),
      named('ill', { profile: 'fast' }),
      named('waiting', { profile: 'fast' }),
      named('quick', { profile: 'fast' }),
      named('ill and slow', { profile: 'thinking' }),
    ])
    const view = ({ model }: { model: string }) =>
      model.startsWith('ill')
        ? ({ state: 'open', untilMs: 25_000, openedAtMs: 15_000 } as const)
        : model === 'waiting'
          ? ({ state: 'cooling', untilMs: 25_000, openedAtMs: null } as const)
          : ({ state: 'closed', untilMs: null, openedAtMs: null } as const)
    const look = (responseProfile: 'fast' | null) => {
      const call = transcriptionCall({}, { responseProfile })
      return withUnhealthy(
        pick('transcription', who, call, { health: { view }, nowMs: 20_000 }),
        responseProfile,
      )
    }
    t.same(models(look('fast')), ['quick', 'ill', 'waiting'])
    t.same(models(look(null)), ['slow', 'quick', 'ill', 'waiting', 'ill and slow'])
  },
)

t.test('a profile narrows to the entries that have it, when there are any', async (t) => {
  const who = withRoute([
    named('slow', { profile: 'thinking' }),
    named('quick', { profile: 'fast' }),
    named('any'),
  ])
  const fast = pick('transcription', who, transcriptionCall({}, { responseProfile: 'fast' }))
  t.same([models(fast), fast.warnings], [['quick'], []])
  t.same(
    fast.considered.map(({ exclusion: left }) => left?.why ?? null),
    ['profile', null, 'profile'],
  )
  const balanced = pick('transcription', who, transcriptionCall({}, { responseProfile: 'balanced' }))
  t.same(models(balanced), ['slow', 'quick', 'any'])
  t.match(balanced.warnings, [/^response_profile: /])

  // An entry that cannot serve the call makes no profile available.
  const health = coolingDown(new Map([['quick', 1000]]))
  const without = pick('transcription', who, transcriptionCall({}, { responseProfile: 'fast' }), { health })
  t.same(models(without), ['slow', 'any'])
  t.match(without.warnings, [/^response_profile: /])
})

t.test('nothing of another workspace is ever taken', async (t) => {
  const foreign = configuredProvider({ kind: 'able', access: 'byok', workspace: 'umbrella', name: 'theirs' })
  const own = configuredProvider({ kind: 'able', access: 'byok', workspace: 'acme' })
  const entries = [named('a', { provider: foreign }), named('b', { provider: own }), named('c')]
  t.same(models(pick('transcription', withRoute(entries), hearing)), ['b', 'c'])

  const theirs = principal({ route: route([named('c')], { workspace: 'umbrella' }) })
  const { refusal, considered } = select(selectionInput('transcription', theirs, hearing))
  t.equal(refusal?.code, 'NO_HEALTHY_PROVIDER')
  t.same(refusal?.extra.details?.entries, [], 'nor named to the caller')
  t.equal(considered[0]?.exclusion?.why, 'workspace')
})

t.test('a selection stands for the calls to come, until one of them or an entry is different', async (t) => {
  const entries = ['a', 'b'].map((model) =>
    named(model, { facts: facts({ limits: { max_audio_bytes: model === 'a' ? 1_000 : 9_000 } }) }),
  )
  const who = withRoute([...entries, named('c', { facts: facts({ capabilities: [] }) })])
  const health = createCircuitBreakers()
  const small = transcriptionCall({ audio: { decodedBytes: 10 } })
  const selected = (call = small, nowMs = 0) =>
    select(selectionInput('transcription', who, call, { health, nowMs }))
  const first = selected()
  t.same(models(first.selection!), ['a', 'b'])
  t.equal(selected().selection, first.selection, 'the very same')

  const large = selected(transcriptionCall({ audio: { decodedBytes: 5_000 } }))
  t.same(models(large.selection!), ['b'], 'the content of a call')
  t.match(large.considered[0]?.exclusion, { why: 'limits' })
  t.throws(() => pick('transcription', who, transcriptionCall({ audio: { decodedBytes: 50_000 } })))

  const failure = {
    kind: 'rate',
    status: 429,
    reason: '',
    retryAfterMs: 5_000,
    providerMessage: null,
  } as const
  health.failed(entries[0]!, failure, 0)
  const cooling = selected()
  t.same(models(cooling.selection!), ['b'], 'the health of an entry')
  t.match(cooling.considered[0]?.exclusion, { why: 'cooling' })
  t.equal(first.considered[0]?.exclusion, null, 'and what was told before stays as it was')
  t.equal(selected(small, 6_000).selection, first.selection, 'it is healthy again')

  const planned = { ...who, workspace: { ...who.workspace, includes: new Set<never>() } }
  t.match(
    select(selectionInput('transcription', planned, small)).refusal,
    { code: 'PLAN_NOT_ENTITLED' },
    'the plan of the workspace',
  )
  const profiled = select(
    selectionInput('transcription', who, {
      ...small,
      selectors: { ...small.selectors, responseProfile: 'fast' },
    }),
  )
  t.not(profiled.selection, first.selection, 'a profile')
})
