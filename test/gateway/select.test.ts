import t from 'tap'
import { GatewayError } from '../../src/errors.ts'
import type { Call, OperationName } from '../../src/gateway/gateway.ts'
import { type Selection, select } from '../../src/gateway/select.ts'
import { PROVIDERS } from '../../src/providers/index.ts'
import type { Feature, TranscriptionOptions } from '../../src/schema/calls.ts'
import type { Principal, Purpose, Route } from '../../src/schema/catalog.ts'
import { speechCall, transcriptionCall } from '../support/call.ts'
import { configuredProvider, entry, facts, principal, route } from '../support/catalog.ts'

function pick<K extends OperationName>(
  operation: K,
  who: Principal,
  call: Call<K>,
  random = () => 0.5,
): Selection {
  const latency = { medianMs: ({ model }: { model: string }) => Number(/\d+/.exec(model)?.[0] ?? 0) }
  return select({ operation, principal: who, call, providers: PROVIDERS, random, latency })
}

function models({ candidates }: Selection): string[] {
  return candidates.map(({ entry: { model } }) => model)
}

function refusal(act: () => unknown): GatewayError {
  try {
    act()
  } catch (error) {
    if (error instanceof GatewayError) return error
    throw error
  }
  throw new Error('nothing was refused')
}

const named = (model: string, overrides = {}) => entry({ model, ...overrides })

t.test('the order of a strategy', async (t) => {
  const entries = [named('m30', { weight: 1 }), named('m10', { weight: 3 }), named('m20', { weight: 0.5 })]
  const order = (strategy: Route['strategy'], random?: () => number) =>
    models(
      pick('transcription', principal({ route: route(entries, { strategy }) }), transcriptionCall(), random),
    )

  t.same(order('priority'), ['m30', 'm10', 'm20'])
  t.same(order('lowest_latency'), ['m10', 'm20', 'm30'])

  const first: Record<string, number> = {}
  let seed = 1
  const random = () => {
    seed = (seed * 48_271) % 2_147_483_647
    return seed / 2_147_483_647
  }
  for (let draw = 0; draw < 9_000; draw += 1) {
    const [model = ''] = order('weighted', random)
    first[model] = (first[model] ?? 0) + 1
  }
  t.ok(Math.abs((first.m10 ?? 0) / 9_000 - 3 / 4.5) < 0.03, 'first in proportion to the weight')
  t.ok(Math.abs((first.m20 ?? 0) / 9_000 - 0.5 / 4.5) < 0.03)
})

t.test('lowest_cost takes the cheapest, and an unknown price last', async (t) => {
  const entries = [
    named('unknown', { facts: facts({ price: null }) }),
    named('dear', { facts: facts({ price: { per_hour_usd: 1 } }) }),
    named('cheap', { facts: facts({ price: { per_hour_usd: 0.1 } }) }),
    // Ten seconds of audio are billed as an hour here.
    named('minimum', { facts: facts({ price: { per_hour_usd: 0.5, minimum_seconds: 3600 } }) }),
  ]
  const who = principal({ route: route(entries, { strategy: 'lowest_cost' }) })
  t.same(models(pick('transcription', who, transcriptionCall())), ['cheap', 'dear', 'minimum', 'unknown'])
})

t.test('pinned entries are the only candidates', async (t) => {
  const who = principal({ route: route([named('a'), named('b', { pinned: true })]) })
  t.same(models(pick('transcription', who, transcriptionCall())), ['b'])
})

t.test('refusals, in their order', async (t) => {
  const deaf = named('deaf', { facts: facts({ capabilities: ['audio_output'] }) })
  const paid = named('paid', { plans: ['pro'] })
  const plain = named('plain', { facts: facts({ features: [] }) })
  const small = named('small', { facts: facts({ limits: { max_audio_bytes: 10 } }) })
  const words = transcriptionCall({ options: { timestamps: 'word' } })

  const rows = [
    ['nothing hears', [deaf], words, 'NO_HEALTHY_PROVIDER'],
    ['not in the plan', [deaf, paid], words, 'PLAN_NOT_ENTITLED'],
    ['no word times', [deaf, paid, plain], words, 'REQUIRED_FEATURE_UNAVAILABLE'],
    ['too much for the provider', [deaf, paid, plain, small], words, 'INVALID_REQUEST'],
  ] as const
  for (const [name, entries, call, code] of rows) {
    const error = refusal(() => pick('transcription', principal({ route: route(entries) }), call))
    t.equal(error.code, code, name)
    t.equal(error.extra.details?.policy_version_id, 'pv_0123456789abcdef', 'the version is in the details')
  }

  const unpublished = principal({ route: route([named('a')], { published: false }) })
  t.equal(refusal(() => pick('transcription', unpublished, words)).code, 'NO_HEALTHY_PROVIDER')
  const untranslated = principal({ route: route([named('a', { facts: facts({ translates: false }) })]) })
  t.equal(refusal(() => pick('translation', untranslated, words)).code, 'NO_HEALTHY_PROVIDER')
})

t.test('each required feature is kept by the entry that serves, or the call is refused', async (t) => {
  const rows: [Partial<TranscriptionOptions>, Feature][] = [
    [{ timestamps: 'word' }, 'word_timestamps'],
    [{ timestamps: 'segment' }, 'segment_timestamps'],
    [{ timestamps: 'both' }, 'word_timestamps'],
    [{ timestamps: 'both' }, 'segment_timestamps'],
    [{ response_format: 'srt' }, 'segment_timestamps'],
    [{ response_format: 'vtt' }, 'segment_timestamps'],
    [{ response_format: 'verbose_json' }, 'segment_timestamps'],
    [{ response_format: 'diarized_json' }, 'diarization'],
    [{ diarization: true }, 'diarization'],
    [{ redaction: ['pii'] }, 'redaction'],
    [{ keyterms: ['Larkway'] }, 'keyterms'],
    [{ multichannel: true }, 'multichannel'],
    [{ mode: 'realtime' }, 'realtime'],
  ]
  for (const [options, feature] of rows) {
    const all = facts({ features: ['realtime', ...facts().features] })
    const lacking = named('lacking', {
      facts: { ...all, features: all.features.filter((other) => other !== feature) },
    })
    const keeping = named('keeping', { facts: all })
    const call = transcriptionCall({ options })
    const chain = principal({ route: route([lacking, keeping]) })
    t.same(
      models(pick('transcription', chain, call)),
      ['keeping'],
      `${JSON.stringify(options)} needs ${feature}`,
    )
    const error = refusal(() => pick('transcription', principal({ route: route([lacking]) }), call))
    t.equal(error.code, 'REQUIRED_FEATURE_UNAVAILABLE')
    t.same(error.extra.details?.entries, [
      { provider: 'first', model: 'lacking', refused: 'features', missing: [feature] },
    ])
  }
})

t.test('limits of an entry name the field only when no capable entry takes the call', async (t) => {
  const strict = named('strict', {
    facts: facts({
      limits: {
        max_audio_bytes: 999,
        speech_formats: ['wav'],
        max_input_characters: 3,
        speed: { min: 0.5, max: 2 },
        voices: ['alloy'],
      },
    }),
    voices: { house: 'alloy' },
  })
  const rows = [
    [speechCall({ input: 'hey', response_format: 'mp3' }), 'response_format'],
    [speechCall({ input: 'four' }), 'input'],
    [speechCall({ input: '👋👋👋', speed: 4 }), 'speed'],
    [speechCall({ input: 'hey', voice: 'echo' }), 'voice'],
  ] as const
  for (const [call, param] of rows) {
    const error = refusal(() => pick('speech', principal({ route: route([strict]) }), call))
    t.equal(error.code, 'INVALID_REQUEST')
    t.equal(error.extra.param, param)
    t.same(models(pick('speech', principal({ route: route([strict, named('lax')]) }), call)), ['lax'])
  }
  const mapped = speechCall({ input: 'hey', voice: 'house' })
  t.same(models(pick('speech', principal({ route: route([strict]) }), mapped)), ['strict'], 'a mapped voice')
  const over = refusal(() =>
    pick('transcription', principal({ route: route([strict]) }), transcriptionCall()),
  )
  t.equal(over.extra.param, 'audio')
})

t.test('every outcome of a purpose', async (t) => {
  const tagged = named('tagged', { purposes: ['calls'], provider: configuredProvider({ name: 'one' }) })
  const other = named('other')
  const mute = named('mute', { facts: facts({ capabilities: ['text'] }) })
  const assigned = named('assigned')
  const bound = (entries: readonly ReturnType<typeof entry>[], overrides: Partial<Purpose> = {}): Principal =>
    principal({
      route: route([assigned]),
      purposes: [
        {
          purpose: 'calls',
          description: '',
          enabled: true,
          route: route(entries, { name: 'calls' }),
          ...overrides,
        },
      ],
    })
  const asked = (label: string | null, source: 'body' | 'header' = 'body') =>
    transcriptionCall({}, { purpose: label === null ? null : { label, source } })

  const rows = [
    ['none sent', bound([tagged]), asked(null), ['assigned'], [false], 'none'],
    [
      'tagged first',
      bound([other, tagged]),
      asked('calls'),
      ['tagged', 'other', 'assigned'],
      [true, false, false],
      'fallback_purpose_exhausted',
    ],
    [
      'none tagged',
      bound([other]),
      asked('calls', 'header'),
      ['other', 'assigned'],
      [true, false],
      'fallback_purpose_exhausted',
    ],
    ['not declared', bound([tagged]), asked('cals'), ['assigned'], [false], 'purpose_unknown'],
    [
      'disabled',
      bound([tagged], { enabled: false }),
      asked('calls'),
      ['assigned'],
      [false],
      'purpose_unavailable',
    ],
    [
      'not bound',
      bound([tagged], { route: null }),
      asked('calls'),
      ['assigned'],
      [false],
      'purpose_unavailable',
    ],
    [
      'unpublished',
      bound([], { route: route([tagged], { published: false }) }),
      asked('calls'),
      ['assigned'],
      [false],
      'purpose_unavailable',
    ],
    ['without the capability', bound([mute]), asked('calls'), ['assigned'], [false], 'purpose_unavailable'],
  ] as const
  for (const [name, who, call, expected, forPurpose, otherwise] of rows) {
    const selection = pick('transcription', who, call)
    t.same(models(selection), expected, name)
    t.same(
      selection.candidates.map((candidate) => candidate.forPurpose),
      forPurpose,
      name,
    )
    t.equal(selection.purpose.otherwise, otherwise, name)
  }
  t.equal(pick('transcription', bound([tagged]), asked('calls', 'header')).purpose.source, 'header')
})

t.test('a capability override stands behind a purpose that cannot hear', async (t) => {
  const text = route([named('text', { facts: facts({ capabilities: ['text'] }) })])
  const ears = route([named('ears')], { name: 'ears' })
  const call = transcriptionCall({}, { purpose: { label: 'calls', source: 'body' } })
  const purposes = [{ purpose: 'calls', description: '', enabled: true, route: text }]
  t.equal(
    refusal(() => pick('transcription', principal({ route: text, purposes }), call)).code,
    'NO_HEALTHY_PROVIDER',
  )
  const overridden = principal({ route: text, purposes, capabilityRoutes: new Map([['audio_input', ears]]) })
  t.same(models(pick('transcription', overridden, call)), ['ears'])
})

t.test('a profile narrows to its entries when there are any', async (t) => {
  const who = principal({
    route: route([named('slow', { profile: 'thinking' }), named('quick', { profile: 'fast' })]),
  })
  const fast = pick('transcription', who, transcriptionCall({}, { responseProfile: 'fast' }))
  t.same([models(fast), fast.warnings], [['quick'], []])
  const balanced = pick('transcription', who, transcriptionCall({}, { responseProfile: 'balanced' }))
  t.same(models(balanced), ['slow', 'quick'])
  t.match(balanced.warnings, [/^response_profile: /])
})
