import t from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import { ENDPOINTS } from '../../src/gateway/api/table.ts'
import { explainRows } from '../../src/gateway/call/select/verdict.ts'
import { invalid, invalidField, MUST } from '../../src/gateway/edge/refusals.ts'
import { FIELD_NAMES, FIELD_RULES, recordedFailure } from '../../src/gateway/observe/recorder/record.ts'
import { entry, route } from '../support/catalog.ts'

const SECRET = 'my mother is ill'
const NOTHING = {
  ...{ param: null, rule: null, reason: null, missing: [], limit: null },
  ...{ entries: [], moreEntries: 0 },
}

/** Names of properties, at any depth of a schema. */
function namesIn(schema: unknown, names = new Set<string>()): Set<string> {
  if (Array.isArray(schema)) for (const one of schema) namesIn(one, names)
  else if (typeof schema === 'object' && schema !== null) {
    const { properties } = schema as { readonly properties?: object }
    for (const name of Object.keys(properties ?? {})) names.add(name)
    for (const member of Object.values(schema)) namesIn(member, names)
  }
  return names
}

t.test('every field of a request can be named', async (t) => {
  const bodies = ENDPOINTS.flatMap(({ body = [] }) => body.map(({ schema }) => schema))
  const unlisted = [...namesIn(bodies)].filter((name) => !FIELD_NAMES.has(name))
  t.same(unlisted, [], 'add them to FIELD_NAMES')
})

t.test(
  'the field at fault and the rule that it breaks are recorded, and nothing else of the message',
  async (t) => {
    const failures: readonly (readonly [GatewayError, object])[] = [
      [
        invalidField('timestamps', MUST.beOneOf(['word', 'segment'])),
        { param: 'timestamps', rule: 'must be one of' },
      ],
      [invalidField('n', MUST.beAtMost(10)), { param: 'n', rule: 'must be at most' }],
      [invalidField('input', MUST.haveCharacters(4)), { param: 'input', rule: 'must have at most' }],
      [invalidField('stop', MUST.haveItems(4)), { param: 'stop', rule: 'must have at most' }],
      [invalidField('input', MUST.notBeEmpty), { param: 'input', rule: 'must not be empty' }],
      [invalidField('speed', MUST.beGreaterThan(0)), { param: 'speed', rule: 'must be greater than' }],
      [invalidField('n', MUST.beAtLeast(1)), { param: 'n', rule: 'must be at least' }],
      [invalidField('echo', MUST.beLeftOut('why')), { param: 'echo', rule: 'must be left out' }],
      [
        invalidField('messages[2].content', MUST.beGiven),
        { param: 'messages[2].content', rule: 'must be given' },
      ],
      [
        invalidField('timestamp_granularities[]', 'must be sent once'),
        { param: 'timestamp_granularities[]', rule: 'must be sent once' },
      ],
      [invalidField('voice', `there is no "${SECRET}"`), { param: 'voice', rule: null }],
      [invalid('the body is not valid JSON'), {}],
      [invalidField(SECRET, MUST.beGiven), { rule: 'must be given' }],
      [invalid('`x` must be a string', `messages.${SECRET}`), {}],
      [invalid('x', 'model.'.repeat(30)), {}],
    ]
    for (const [failure, over] of failures) {
      const recorded = recordedFailure(failure)
      t.same(recorded, { ...NOTHING, ...over })
      t.notMatch(JSON.stringify(recorded), SECRET)
      t.ok(recorded.rule === null || FIELD_RULES.some((rule) => rule === recorded.rule))
    }
  },
)

t.test('limits, scopes, budgets and reasons are named', async (t) => {
  const limit = { limit: 'max_audio_bytes', limit_bytes: 10, received_bytes: 12, declared_bytes: 99 }
  const failure = (details: object) =>
    recordedFailure(new GatewayError('INVALID_REQUEST', SECRET, { details: { ...details } }))
  t.same(failure(limit).limit, { name: 'max_audio_bytes', max: 10, actual: 99 })
  const seconds = { limit: 'max_audio_seconds', limit_seconds: 60, audio_seconds: 61.5 }
  t.same(failure(seconds).limit, { name: 'max_audio_seconds', max: 60, actual: 61.5 })
  t.same(failure({ scope: 'jobs' }).missing, ['jobs'])
  t.same(failure({ budget: 'key' }).missing, ['key'])
  t.same(failure({ required_capabilities: ['vision', SECRET] }).missing, ['vision'])
  t.equal(failure({ reason: 'bad_audio' }).reason, 'bad_audio')
  for (const details of [{ reason: SECRET }, { limit: SECRET }, { scope: SECRET }, { entries: SECRET }])
    t.same(failure(details), NOTHING)
})

t.test('the verdict of each entry is recorded by its kind, without what it quotes', async (t) => {
  const considered = [
    {
      why: 'features',
      missing: ['diarization'],
      language: SECRET,
      redactions: [],
      conflict: ['word_timestamps'],
    } as const,
    { why: 'limits', param: 'voice', message: `there is no voice ${SECRET}` } as const,
    { why: 'limits', param: SECRET, message: SECRET } as const,
    { why: 'breaker', retryAfterMs: 4_000, openedAtMs: 1 } as const,
    null,
  ].map((exclusion) => {
    return {
      route: route([]),
      entry: entry(),
      group: 'assigned_route',
      rank: null,
      exclusion,
      lastResort: false,
    } as const
  })
  const details = { entries: explainRows(considered) }
  const { entries, moreEntries } = recordedFailure(
    new GatewayError('NO_HEALTHY_PROVIDER', SECRET, { details }),
  )
  t.match(entries, [
    { left: 'features', missing: ['diarization'], conflict: ['word_timestamps'], param: null },
    { left: 'limits', param: 'voice', missing: [] },
    { left: 'limits', param: null },
    { left: 'breaker', retryAfterMs: 4_000 },
    { left: null },
  ])
  t.equal(entries[0]?.provider, entry().provider.name)
  t.equal(moreEntries, 0)
  t.notMatch(JSON.stringify(entries), SECRET)
  const many = { entries: Array.from({ length: 100 }, () => details.entries[0]) }
  const bounded = recordedFailure(new GatewayError('NO_HEALTHY_PROVIDER', undefined, { details: many }))
  t.equal(bounded.entries.length, 20)
  t.equal(bounded.moreEntries, 80)
})
