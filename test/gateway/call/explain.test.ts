import t from 'tap'
import { createCircuitBreakers } from '../../../src/gateway/call/select/health.ts'
import { select } from '../../../src/gateway/call/select/selection.ts'
import type { Exclusion, ExplainRow, Verdict } from '../../../src/gateway/call/select/verdict.ts'
import { explainRows } from '../../../src/gateway/call/select/verdict.ts'

import { transcriptionCall } from '../../support/call.ts'
import { configuredProvider, facts, principal, route } from '../../support/catalog.ts'
import { named, plainCall, refused, selectionInput, withRoute } from './selection.ts'

function rowOf(left: Exclusion | null, overrides: Partial<Verdict> = {}): ExplainRow {
  const entry = named('model')
  const considered = {
    route: route([entry]),
    entry,
    group: 'assigned_route',
    rank: null,
    exclusion: left,
    lastResort: false,
  }
  const [row] = explainRows([{ ...considered, ...overrides } as Verdict])
  return row!
}

t.test('every reason, in words and for programs', async (t) => {
  const features = { why: 'features', missing: [], language: null, redactions: [], conflict: [] } as const
  const rows: [Exclusion, string, Partial<ExplainRow>][] = [
    [{ why: 'workspace' }, 'it belongs to another workspace', {}],
    [{ why: 'unpublished' }, 'its route is not published', {}],
    [{ why: 'not_pinned' }, 'other entries of its route are pinned', {}],
    [{ why: 'duplicate' }, 'an earlier entry sends the same to this model', {}],
    [
      { why: 'capability', missing: ['vision', 'text'] },
      'the model lacks vision, text',
      { missing: ['vision', 'text'] },
    ],
    [{ why: 'operation' }, 'the model is for other operations, or its provider lacks this one', {}],
    [{ why: 'plan', missing: ['vision'] }, 'the plan does not include vision', { missing: ['vision'] }],
    [{ why: 'plan', missing: [] }, 'it is for other plans', {}],
    [
      { ...features, missing: ['redaction', 'diarization'] },
      'the model lacks redaction, diarization',
      { missing: ['redaction', 'diarization'] },
    ],
    [
      { ...features, missing: ['redaction'], language: 'fr' },
      'the model lacks redaction in the language fr',
      { missing: ['redaction'] },
    ],
    [
      { ...features, missing: ['redaction', 'keyterms'], redactions: ['phi', 'numbers'] },
      'the model lacks redaction of phi and numbers, keyterms',
      { missing: ['redaction', 'keyterms'] },
    ],
    [
      { ...features, conflict: ['diarization', 'keyterms'] },
      'the model cannot combine diarization and keyterms',
      { conflict: ['diarization', 'keyterms'] },
    ],
    [{ why: 'limits', param: 'speed', message: 'too quick' }, 'too quick', { param: 'speed' }],
    [
      { why: 'cooling', retryAfterMs: 1_001 },
      'the provider is rate limited for another 2 s',
      { retry_after_ms: 1_001 },
    ],
    [
      { why: 'breaker', retryAfterMs: 9_000, openedAtMs: 5 },
      'its breaker is open for another 9 s',
      { retry_after_ms: 9_000 },
    ],
    [
      { why: 'breaker', retryAfterMs: null, openedAtMs: 5 },
      'its breaker is half-open, and another call is trying it',
      {},
    ],
    [{ why: 'profile' }, 'other entries have the response_profile', {}],
  ]
  const common = {
    route: 'voice',
    provider: 'first',
    model: 'model',
    group: 'assigned_route',
    rank: null,
  } as const
  for (const [left, detail, more] of rows)
    t.strictSame(rowOf(left), { ...common, left: left.why, detail, ...more }, JSON.stringify(left))
})

t.test('an entry that is taken has a rank, and a reason only as the last resort', async (t) => {
  t.match(rowOf(null, { rank: 2, group: 'purpose' }), { rank: 2, group: 'purpose', left: null, detail: null })
  t.match(rowOf(null, { rank: 1, lastResort: true }), {
    rank: 1,
    left: null,
    detail: /breaker/,
    last_resort: true,
  })
})

t.test('both outcomes are explained, entry by entry', async (t) => {
  const entries = [named('plain', { facts: facts({ features: [] }) }), named('tired'), named('good')]
  const health = createCircuitBreakers()
  const rate = { kind: 'rate', status: 429, reason: '', retryAfterMs: 5_000, providerMessage: null } as const
  health.failed(entries[1]!, rate, 0)
  const call = transcriptionCall({ options: { diarization: true } })

  const taken = select(selectionInput('transcription', withRoute(entries), call, { health }))
  t.equal(taken.refusal, null)
  t.same(
    explainRows(taken.considered).map(({ model, rank, left }) => [model, rank, left]),
    [
      ['plain', null, 'features'],
      ['tired', null, 'cooling'],
      ['good', 1, null],
    ],
  )

  const none = select(selectionInput('transcription', withRoute(entries.slice(0, 2)), call, { health }))
  t.equal(none.selection, null)
  t.equal(none.refusal?.code, 'PROVIDERS_COOLING_DOWN')
  t.same(none.refusal?.extra.details?.entries, explainRows(none.considered), 'the refusal says the same')
})

t.test('every refusal explains itself, and tells no secret', async (t) => {
  const provider = configuredProvider({
    kind: 'able',
    name: 'house',
    credential: 'sk-very-secret',
    baseUrl: 'http://10.1.2.3:8000/v1',
  })
  const secretive = (overrides = {}) =>
    named('model', { provider, options: { token: 'sk-in-options' }, ...overrides })
  const call = transcriptionCall({ options: { diarization: true } })
  const rows = [
    ['NO_HEALTHY_PROVIDER', secretive({ facts: facts({ capabilities: ['text'] }) })],
    ['PLAN_NOT_ENTITLED', secretive({ plans: ['pro'] })],
    ['REQUIRED_FEATURE_UNAVAILABLE', secretive({ facts: facts({ features: [] }) })],
    ['INVALID_REQUEST', secretive({ facts: facts({ limits: { max_audio_seconds: 1 } }) })],
  ] as const
  for (const [code, entry] of rows) {
    const error = refused('transcription', withRoute([entry]), call)
    t.equal(error.code, code)
    t.match(error.extra.details, {
      entries: [{ provider: 'house', model: 'model', rank: null, detail: String }],
    })
    t.notMatch(JSON.stringify([error.message, error.extra]), /secret|sk-|10\.1\.2\.3/)
  }
})

t.test('what is left of a purpose is explained too', async (t) => {
  const calls = route([named('tagged', { purposes: ['calls'] }), named('other')], {
    name: 'calls',
    published: false,
  })
  const who = principal({
    route: route([named('assigned', { pinned: true }), named('loose')]),
    purposes: [{ purpose: 'calls', description: '', enabled: true, route: calls }],
  })
  const call = plainCall('transcription', {}, { purpose: { label: 'calls', source: 'body' } })
  const { considered } = select(selectionInput('transcription', who, call))
  t.same(
    explainRows(considered).map(({ route, group, model, rank, left }) => [route, group, model, rank, left]),
    [
      ['calls', 'purpose', 'tagged', null, 'unpublished'],
      ['calls', 'purpose_route', 'other', null, 'unpublished'],
      ['voice', 'assigned_route', 'assigned', 1, null],
      ['voice', 'assigned_route', 'loose', null, 'not_pinned'],
    ],
  )
})

t.test('a refusal does not grow with the route', async (t) => {
  const deaf = facts({ capabilities: ['text'] })
  const many = Array.from({ length: 500 }, (_, index) => named(`deaf-${index}`, { facts: deaf }))
  const { considered, refusal } = select(
    selectionInput('transcription', withRoute(many), transcriptionCall()),
  )
  t.equal(explainRows(considered).length, 500)
  t.equal((refusal?.extra.details?.entries as unknown[] | undefined)?.length, 100)
})
