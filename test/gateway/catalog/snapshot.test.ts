import { load } from 'js-yaml'
import t from 'tap'
import type { ServedCatalog } from '../../../src/contracts/catalog-service.ts'
import { buildSnapshot, type Reading } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile, EXAMPLE, SURROUNDINGS } from '../../support/catalog-file.ts'
import { readCatalog } from '../../support/read-catalog.ts'

type Bend = (file: BentFile) => void

function good(reading: Reading): ServedCatalog {
  if ('issues' in reading) throw new Error(reading.issues.join('\n'))
  return reading
}

function exampleAfter(bend: Bend, surroundings = SURROUNDINGS): ServedCatalog {
  const file = new BentFile()
  bend(file)
  return good(buildSnapshot(file.document, surroundings))
}

t.test('the documented example becomes a snapshot', async (t) => {
  const { snapshot, routes } = good(readCatalog(EXAMPLE, SURROUNDINGS))
  t.equal(snapshot.deadlineMs, 120_000)
  t.equal(snapshot.limits.max_audio_bytes, 26_214_400)
  t.same(snapshot.audioUrlDomains, ['cdn.example.com', '*.media.example.com'])
  t.same(
    routes.map(({ name }) => name),
    ['voice', 'calls'],
  )

  const principal = snapshot.keys.get('0a'.repeat(32))
  t.match(principal, {
    workspace: { id: 'acme', name: 'acme', plan: 'pro' },
    app: { id: 'web' },
    key: { id: 'key_web', name: 'key_web', scopes: ['inference', 'jobs', 'queue'], expiresAtMs: null },
    route: { name: 'voice', workspace: 'acme', strategy: 'priority', published: true },
  })
  t.same(principal?.key.rateLimit, { requestsPerMinute: 60, burst: 100 }, 'burst is the default')
  t.equal(principal?.capabilityRoutes.get('audio_input')?.name, 'calls')
  t.match(principal?.purposes, [
    { purpose: 'call-center', description: 'Support calls', enabled: true, route: { name: 'calls' } },
    { purpose: 'dictation', description: '', enabled: false, route: null },
  ])

  const [whisper, openai] = principal?.route.entries ?? []
  t.match(whisper, { model: 'large-v3', weight: 1, profile: null, pinned: false, retryEmpty: false })
  t.same(whisper?.provider, {
    name: 'whisper',
    kind: 'openai-compatible',
    baseUrl: 'http://10.0.0.5:8000/v1',
    credential: null,
    access: 'platform',
    workspace: null,
    concurrency: null,
    queueMs: 1_000,
    pool: null,
  })
  t.same(whisper?.facts.price, { per_hour_usd: 0.05 }, 'the price of the file, none being in the table')
  t.ok(whisper?.facts.features.includes('word_timestamps'), 'the rest is from the table')
  t.match(openai?.provider, { credential: 'sk-of-openai', baseUrl: 'https://api.openai.com/v1' })
})

t.test('what a workspace may spend, in micro-USD', async (t) => {
  const termsAfter = (bend: Bend) => {
    const principal = exampleAfter(bend).snapshot.keys.get('0a'.repeat(32))
    return { ...principal?.workspace.terms, key: principal?.key.budgetMicros }
  }
  t.same(
    termsAfter(() => {}),
    { grant: { id: 'initial', micros: 100_000_000 }, trial: null, budgetMicros: null, key: 50_000_000 },
  )
  t.same(
    termsAfter((file) =>
      file
        .set('/workspaces/acme/credits_usd', 8.41)
        .set('/workspaces/acme/trial', { allowance_usd: 1.005, expires_at: '2027-01-31T00:00:00+01:00' })
        .set('/workspaces/acme/budget_usd', { per_month: 0.000001 })
        .set('/workspaces/acme/keys/0/budget_usd', { per_month: 0 }),
    ),
    {
      grant: { id: 'initial', micros: 8_410_000 },
      trial: { allowanceMicros: 1_005_000, expiresAtMs: Date.UTC(2027, 0, 30, 23) },
      budgetMicros: 1,
      key: 0,
    },
  )
  t.same(
    termsAfter((file) =>
      file
        .remove('/workspaces/acme/credits_usd')
        .remove('/workspaces/acme/grant_id')
        .remove('/workspaces/acme/keys/0/budget_usd'),
    ),
    { grant: null, trial: null, budgetMicros: null, key: null },
  )
})

t.test('what end users may spend and ask, and single ones where they differ', async (t) => {
  const endUsersAfter = (end_users: object) =>
    exampleAfter((file) => file.set('/workspaces/acme/end_users', end_users)).snapshot.keys.get(
      '0a'.repeat(32),
    )?.workspace.endUsers
  const unlimited = { budgetMicros: null, rateLimit: null }
  t.same(endUsersAfter({}), { isHashed: false, terms: unlimited, overrides: new Map() })
  const limit = { requestsPerMinute: 30, burst: 5 }
  t.same(
    endUsersAfter({
      budget_usd: { per_month: 2.5 },
      rate_limit: { requests_per_minute: 30, burst: 5 },
      overrides: { vip: { budget_usd: { per_month: 50 } }, bot: { rate_limit: { burst: 1 } }, same: {} },
    }),
    {
      isHashed: false,
      terms: { budgetMicros: 2_500_000, rateLimit: limit },
      overrides: new Map([
        ['vip', { budgetMicros: 50_000_000, rateLimit: limit }],
        ['bot', { budgetMicros: 2_500_000, rateLimit: { requestsPerMinute: 30, burst: 1 } }],
        ['same', { budgetMicros: 2_500_000, rateLimit: limit }],
      ]),
    },
  )
})

t.test('every app can have keys elsewhere, and has what those of the file have', async (t) => {
  const { snapshot } = exampleAfter((file) =>
    file
      .set('/workspaces/acme/apps/mobile', { route: 'calls' })
      .set('/workspaces/empty', {})
      .set('/rate_limit', { requests_per_minute: 5 }),
  )
  t.same(snapshot.rateLimit, { requestsPerMinute: 5, burst: 100 })
  t.same(
    [...snapshot.apps].map(([workspace, apps]) => [workspace, [...apps.keys()]]),
    [
      ['acme', ['web', 'mobile']],
      ['empty', []],
    ],
  )
  const { key: _, ...common } = snapshot.keys.get('0a'.repeat(32)) ?? {}
  t.same(snapshot.apps.get('acme')?.get('web'), common)
  t.match(snapshot.apps.get('acme')?.get('mobile'), { app: { id: 'mobile' }, route: { name: 'calls' } })
})

t.test('JSON is taken too, with tabs', async (t) => {
  const json = JSON.stringify(load(EXAMPLE), null, '\t')
  t.same(good(readCatalog(json, SURROUNDINGS)), good(readCatalog(EXAMPLE, SURROUNDINGS)))
})

t.test('defaults of the whole file can be set', async (t) => {
  const { snapshot } = exampleAfter((file) =>
    file
      .set('/limits', { max_audio_bytes: 1_000_000, max_audio_seconds: 60 })
      .set('/deadline_seconds', 30)
      .set('/rate_limit', { burst: 7 })
      .remove('/workspaces/acme/keys/0/rate_limit')
      .remove('/workspaces/acme/keys/0/scopes')
      .set('/workspaces/acme/keys/0/expires_at', '2027-01-31T00:00:00+01:00'),
  )
  t.match(snapshot.limits, {
    max_audio_bytes: 1_000_000,
    max_audio_seconds: 60,
    max_request_body_bytes: 52_428_800,
  })
  t.equal(snapshot.deadlineMs, 30_000)
  const [principal] = snapshot.keys.values()
  t.same(principal?.key.rateLimit, { requestsPerMinute: 600, burst: 7 })
  t.same(principal?.key.scopes, ['inference', 'jobs', 'queue'], 'all but admin')
  t.equal(principal?.key.expiresAtMs, Date.UTC(2027, 0, 30, 23))
})

t.test('an entry says more of its model than its provider, which says more than the table', async (t) => {
  const { routes } = exampleAfter((file) =>
    file
      .set('/providers/whisper/hints', ['language'])
      .set('/providers/whisper/limits', { max_audio_bytes: 10, max_audio_seconds: 5 })
      .set('/routes/voice/entries/0/limits', { max_audio_seconds: 9 })
      .set('/routes/voice/entries/0/features', ['diarization']),
  )
  const facts = routes[0]?.entries[0]?.facts
  t.same(facts?.hints, ['language'])
  t.same(facts?.features, ['diarization'])
  t.same(facts?.limits, { max_audio_bytes: 10, max_audio_seconds: 9 })
})

t.test('a model that the table lacks can do what is declared, or what its price is for', async (t) => {
  const priced = exampleAfter((file) => file.set('/routes/voice/entries/0/model', 'house-blend'))
  t.match(priced.routes[0]?.entries[0]?.facts, {
    capabilities: ['audio_input'],
    features: [],
    translates: false,
  })

  const declared = exampleAfter((file) =>
    file.set('/routes/voice/entries/0', {
      provider: 'whisper',
      model: 'house-blend',
      capabilities: ['audio_output'],
      price: { per_1k_characters_usd: 0 },
    }),
  )
  t.same(declared.routes[0]?.entries[0]?.facts.capabilities, ['audio_output'])
})

t.test('a secret comes from a file, without the line break at its end', async (t) => {
  const read: string[] = []
  const readSecret = (path: string) => {
    read.push(path)
    return 'sk-from-file\n'
  }
  const inFile: Bend = (file) => file.set('/providers/openai/api_key', 'file:keys/openai')
  const { routes } = exampleAfter(inFile, { ...SURROUNDINGS, readSecret })
  t.equal(routes[0]?.entries[1]?.provider.credential, 'sk-from-file')
  t.same(read, ['keys/openai'])
})

t.test('a version follows what the route says, and nothing else', async (t) => {
  const env = { ...SURROUNDINGS.env, ANOTHER: 'sk-another' }
  const versionAfter = (bend: Bend) => exampleAfter(bend, { ...SURROUNDINGS, env }).routes[0]?.version
  const before = versionAfter(() => {})
  t.match(before, /^pv_[0-9a-f]{16}$/)
  const same: readonly Bend[] = [
    (file) => file.set('/routes/voice/entries/0/weight', 1),
    (file) => file.set('/routes/voice/published', true),
    (file) => file.set('/routes/voice/encode', false),
    (file) => file.remove('/routes/voice/strategy').set('/routes/voice/strategy', 'priority'),
    (file) => file.set('/providers/openai/api_key', `\${ANOTHER}`),
  ]
  for (const bend of same) t.equal(versionAfter(bend), before, String(bend))

  const changed: readonly Bend[] = [
    (file) => file.set('/routes/voice/entries', [file.get('/routes/voice/entries/1')]),
    (file) => file.set('/routes/voice/entries/0/weight', 2),
    (file) => file.set('/routes/voice/strategy', 'weighted'),
    (file) => file.set('/routes/voice/published', false),
    (file) => file.set('/routes/voice/encode', true),
    (file) => file.set('/routes/voice/entries/0/limits', { max_audio_seconds: 5 }),
  ]
  const versions = new Set([before, ...changed.map(versionAfter)])
  t.equal(versions.size, changed.length + 1, 'each change makes another version')
})
