import t from 'tap'
import type { Entry, Principal, Purpose, Selectors } from '../../../src/contracts/catalog.ts'
import type { EntryHealth } from '../../../src/gateway/call/select/health.ts'
import type { SelectionInput } from '../../../src/gateway/call/select/selection.ts'
import { transcriptionCall } from '../../support/call.ts'
import { configuredProvider, facts, principal, route } from '../../support/catalog.ts'
import { models, named, pick, plainCall, refused } from './selection.ts'

const tagged = named('tagged', { purposes: ['calls'] })
const other = named('other')
const mute = named('mute', { facts: facts({ capabilities: ['text'] }) })
const assigned = named('assigned')

function bound(entries: readonly Entry[], overrides: Partial<Purpose> = {}): Principal {
  const calls = {
    purpose: 'calls',
    description: '',
    enabled: true,
    route: route(entries, { name: 'calls' }),
    ...overrides,
  }
  return principal({ route: route([assigned]), purposes: [calls] })
}

function asked(label: string | null, source: 'body' | 'header' = 'body'): Partial<Selectors> {
  return { purpose: label === null ? null : { label, source } }
}

type Row = readonly [
  name: string,
  who: Principal,
  selectors: Partial<Selectors>,
  expected: readonly [models: string, applied: string, otherwise: string, unavailable: string | null],
]

const T = 'transcription'

t.test('every outcome of a purpose', async (t) => {
  // Of the candidates in order: their models, and which of them (1) stand for the purpose.
  const exhausted = 'fallback_purpose_exhausted'
  const unavailable = 'purpose_unavailable'
  const rows: Row[] = [
    ['none sent', bound([tagged]), asked(null), ['assigned', '0', 'none', null]],
    [
      'in the body',
      bound([other, tagged]),
      asked('calls'),
      ['tagged other assigned', '100', exhausted, null],
    ],
    ['in the header', bound([tagged]), asked('calls', 'header'), ['tagged assigned', '10', exhausted, null]],
    ['none tagged', bound([other]), asked('calls'), ['other assigned', '10', exhausted, null]],
    ['not declared', bound([tagged]), asked('cals'), ['assigned', '0', 'purpose_unknown', null]],
    ['other case', bound([tagged]), asked('Calls'), ['assigned', '0', 'purpose_unknown', null]],
    [
      'disabled',
      bound([tagged], { enabled: false }),
      asked('calls'),
      ['assigned', '0', unavailable, 'disabled'],
    ],
    [
      'not bound',
      bound([tagged], { route: null }),
      asked('calls'),
      ['assigned', '0', 'purpose_unknown', null],
    ],
    [
      'unpublished',
      bound([], { route: route([tagged], { published: false }) }),
      asked('calls'),
      ['assigned', '0', unavailable, 'unpublished'],
    ],
    ['without ears', bound([mute]), asked('calls'), ['assigned', '0', unavailable, 'capability']],
    ['without entries', bound([]), asked('calls'), ['assigned', '0', unavailable, 'capability']],
    [
      'the tagged one without ears',
      bound([{ ...mute, purposes: ['calls'] }, other]),
      asked('calls'),
      ['other assigned', '00', exhausted, null],
    ],
    [
      'only the pinned ones count',
      bound([tagged, { ...other, pinned: true }]),
      asked('calls'),
      ['other assigned', '10', exhausted, null],
    ],
    [
      'pinned, and without ears',
      bound([tagged, { ...mute, pinned: true }]),
      asked('calls'),
      ['assigned', '0', unavailable, 'capability'],
    ],
  ]
  for (const [name, who, selectors, expected] of rows) {
    const selection = pick(T, who, transcriptionCall({}, selectors))
    const applied = selection.candidates.map(({ forPurpose }) => Number(forPurpose)).join('')
    const { requested, source, otherwise, unavailable: why } = selection.purpose
    t.same([models(selection).join(' '), applied, otherwise, why], expected, name)
    t.equal(requested, selectors.purpose?.label ?? null, name)
    t.equal(source, selectors.purpose?.source ?? null, name)
  }
})

t.test('a purpose is exhausted by whatever keeps its entries from serving', async (t) => {
  const unwell = (health: EntryHealth): Partial<SelectionInput> => ({
    health: {
      view: (entry) => (entry === assigned ? { state: 'closed', untilMs: null, openedAtMs: null } : health),
    },
  })
  const rows: [string, Partial<Entry>, Partial<SelectionInput>][] = [
    ['an open breaker', {}, unwell({ state: 'open', untilMs: 5_000, openedAtMs: -5_000 })],
    ['Retry-After', {}, unwell({ state: 'cooling', untilMs: 5_000, openedAtMs: null })],
    ['a limit', { facts: facts({ limits: { max_audio_seconds: 5 } }) }, {}],
    ['a feature', { facts: facts({ features: [] }) }, {}],
    ['the plan', { plans: ['pro'] }, {}],
  ]
  for (const [name, overrides, health] of rows) {
    const call = transcriptionCall({ options: { diarization: true } }, asked('calls'))
    const selection = pick(T, bound([{ ...tagged, ...overrides }]), call, health)
    t.same(models(selection), ['assigned'], name)
    t.same(selection.candidates[0]?.forPurpose, false, name)
    t.equal(selection.purpose.otherwise, 'fallback_purpose_exhausted', name)
  }
})

t.test('a purpose never satisfies a capability', async (t) => {
  const text = route([named('text', { facts: facts({ capabilities: ['text'] }) })])
  const ears = route([named('ears')], { name: 'ears' })
  const purposes = [{ purpose: 'calls', description: '', enabled: true, route: text }]
  const call = transcriptionCall({}, asked('calls'))
  t.equal(refused(T, principal({ route: text, purposes }), call).code, 'NO_HEALTHY_PROVIDER')

  const overridden = principal({ route: text, purposes, capabilityRoutes: new Map([['audio_input', ears]]) })
  const selection = pick(T, overridden, call)
  t.same(models(selection), ['ears'], 'the override stands behind a purpose that cannot hear')
  t.equal(selection.purpose.otherwise, 'purpose_unavailable')
  const spoken = pick('chat', overridden, plainCall('chat', {}, asked('calls')))
  t.same(models(spoken), ['text'], 'and the same purpose works where it can')
  t.equal(spoken.candidates[0]?.forPurpose, true)
})

t.test('a purpose bound to the assigned route only changes the order', async (t) => {
  const shared = route([other, tagged])
  const purposes = [{ purpose: 'calls', description: '', enabled: true, route: shared }]
  const selection = pick(T, principal({ route: shared, purposes }), transcriptionCall({}, asked('calls')))
  t.same(models(selection), ['tagged', 'other'])
  t.same(
    selection.considered.map(({ entry, group, exclusion: left }) => [entry.model, group, left?.why ?? null]),
    [
      ['tagged', 'purpose', null],
      ['other', 'purpose_route', null],
      ['other', 'assigned_route', 'duplicate'],
      ['tagged', 'assigned_route', 'duplicate'],
    ],
  )
})

t.test('what the purpose has tried is not tried again by way of the assigned route', async (t) => {
  const both = (first: Partial<Entry>, second: Partial<Entry>) => {
    const calls = { purpose: 'calls', description: '', enabled: true }
    return principal({
      route: route([named('same', second), named('last')]),
      purposes: [{ ...calls, route: route([named('same', first)], { name: 'calls' }) }],
    })
  }
  const elsewhere = configuredProvider({ kind: 'able', name: 'second' })
  const rows: [name: string, first: Partial<Entry>, second: Partial<Entry>, expected: string][] = [
    ['alike', {}, {}, 'same last'],
    ['however it is chosen', { weight: 2, retryEmpty: true, purposes: ['calls'] }, {}, 'same last'],
    ['with other options', { options: { region: 'eu' } }, {}, 'same same last'],
    ['with other names for voices', {}, { voices: { house: 'alloy' } }, 'same same last'],
    ['at another provider', {}, { provider: elsewhere }, 'same same last'],
    ['when only the second can serve', { plans: ['pro'] }, {}, 'same last'],
  ]
  for (const [name, first, second, expected] of rows)
    t.equal(
      models(pick(T, both(first, second), transcriptionCall({}, asked('calls')))).join(' '),
      expected,
      name,
    )

  const tired: EntryHealth = { state: 'cooling', untilMs: 1_000, openedAtMs: null }
  const view = (one: Entry): EntryHealth =>
    one.weight === 2 ? tired : { state: 'closed', untilMs: null, openedAtMs: null }
  const who = both({ weight: 2 }, {})
  const selection = pick(T, who, transcriptionCall({}, asked('calls')), { health: { view } })
  t.same(models(selection), ['last'], 'nor what is to be left alone there')
  const twice = principal({ route: route([named('same'), named('same')]) })
  t.same(
    models(pick(T, twice, transcriptionCall())),
    ['same', 'same'],
    'a route that lists it twice means it',
  )
})

t.test('the strategy of each route orders within its groups', async (t) => {
  const priced = (model: string, usd: number, overrides: Partial<Entry> = {}) =>
    named(model, { facts: facts({ price: { per_hour_usd: usd } }), ...overrides })
  const calls = route(
    [
      priced('others-dear', 9),
      priced('tagged-dear', 3, { purposes: ['calls'] }),
      priced('others-cheap', 1),
      priced('tagged-cheap', 2, { purposes: ['calls'] }),
    ],
    { strategy: 'lowest_cost', name: 'calls' },
  )
  const who = principal({
    route: route([priced('first', 8), priced('second', 0)]),
    purposes: [{ purpose: 'calls', description: '', enabled: true, route: calls }],
  })
  t.same(models(pick(T, who, transcriptionCall({}, asked('calls')))), [
    'tagged-cheap',
    'tagged-dear',
    'others-cheap',
    'others-dear',
    'first',
    'second',
  ])
})

t.test(
  'purpose and profile compose: the purpose picks the route, the profile among its entries',
  async (t) => {
    const quick = named('quick', { profile: 'fast', purposes: ['calls'] })
    const deep = named('deep', { profile: 'thinking', purposes: ['calls'] })
    const quickOther = named('quick-other', { profile: 'fast' })
    const selectors = (responseProfile: Selectors['responseProfile']) => ({
      ...asked('calls'),
      responseProfile,
    })

    const both = pick(T, bound([deep, quick, quickOther]), transcriptionCall({}, selectors('fast')))
    t.same(models(both), ['quick', 'quick-other'])
    t.same(both.warnings, [])

    const neither = pick(T, bound([deep, quickOther]), transcriptionCall({}, selectors('fast')))
    t.same(models(neither), ['deep', 'quick-other', 'assigned'], 'the profile does not outweigh the purpose')
    t.equal(neither.candidates[0]?.forPurpose, true)
    t.match(neither.warnings, [/^response_profile: /])
  },
)
