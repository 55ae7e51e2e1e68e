import t from 'tap'
import type { Provider } from '../../../src/contracts/provider.ts'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { END_USER_ID_RULE } from '../../../src/gateway/catalog/workspace.ts'
import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'
import { readCatalog } from '../../support/read-catalog.ts'

const KINDS = [...SURROUNDINGS.kinds.keys()].sort().join(', ')

type Bend = (file: BentFile) => void

function faultsAfter(bend: Bend, surroundings = SURROUNDINGS): readonly string[] {
  const file = new BentFile()
  bend(file)
  const reading = buildSnapshot(file.document, surroundings)
  return 'issues' in reading ? reading.issues : []
}

t.test('every issue is reported at once, with its path', async (t) => {
  const issues = faultsAfter((file) =>
    file
      .set('/foo', 1)
      .set('/deadline_seconds', 0)
      .set('/audio_url_domains/-', '10.0.0.1')
      .set('/providers/openai/api_kee', 'x')
      .set('/providers/whisper/kind', 'wisper')
      .set('/providers/no good', {})
      .set('/routes/voice/entries/-', { provider: 'elven', model: 'm' })
      .set('/routes/voice/entries/-', { provider: 'openai' })
      .set('/routes/calls/strategy', 'fastest')
      .set('/workspaces/acme/keys/-', { id: 'web', app: 'web', sha256: 'abc' })
      .set('/workspaces/acme/apps/mobile', { route: 'vioce' })
      .set('/workspaces/acme/plan', 'prro'),
  )
  t.same(
    [...issues].sort(),
    [
      '/foo: is not a known key; remove it or correct its spelling',
      '/deadline_seconds: must be >= 1',
      '/audio_url_domains/2: must be a host name, or "*." and a host name',
      '/providers/openai/api_kee: is not a known key; remove it or correct its spelling',
      '/providers/no good: must be named with 1 to 64 letters, digits, ".", "_" or "-"',
      `/providers/whisper/kind: must be one of ${KINDS}; there is no kind "wisper"`,
      '/routes/voice/entries/2/provider: there is no provider "elven"',
      '/routes/voice/entries/3/model: is missing',
      '/routes/calls/strategy: must be one of priority, weighted, lowest_latency, lowest_cost',
      '/workspaces/acme/keys/1/id: must be "key_" and 1 to 60 letters, digits, "_" or "-"',
      '/workspaces/acme/keys/1/sha256: must be what `larkway key hash` prints',
      '/workspaces/acme/apps/mobile/route: there is no route "vioce"',
      '/workspaces/acme/plan: there is no plan "prro"',
    ].sort(),
  )
})

t.test('names of models, which go into headers', async (t) => {
  const issue =
    '/routes/voice/entries/0/model: must be a name without control characters or white space around it'
  const named = (model: string) => faultsAfter((file) => file.set('/routes/voice/entries/0/model', model))
  for (const model of ['', ' ', 'a\r\nx-lk-model: b', 'a\u0000', ' a', 'a\n', '\u0085'])
    t.same(named(model), [issue], JSON.stringify(model))
  for (const model of ['a', 'Systran/faster-whisper large.v3', 'modèle:7b', '声']) t.same(named(model), [])
})

t.test('more issues than TypeBox counts by itself', async (t) => {
  const issues = faultsAfter((file) => {
    for (let i = 0; i < 40; i++) file.set(`/providers/openai/x${i}`, i)
  })
  t.equal(issues.length, 40)
})

const NO_PRICE = 'is missing: platform access needs it, and the built-in table has none for this model'

const NOT_LIVE = '`realtime` cannot stand here: declare what the model keeps live under `live`'

const rows: readonly [string, Bend, readonly string[]][] = [
  [
    "another workspace's credential",
    (file) => file.set('/workspaces/other', {}).set('/providers/openai/workspace', 'other'),
    ['/routes/voice/entries/1/provider: the provider "openai" belongs to another workspace'],
  ],
  [
    "another workspace's routes",
    (file) =>
      file.set('/workspaces/other', {
        purposes: { call: {} },
        apps: {
          web: { route: 'voice', capability_routes: { audio_input: 'calls' }, purposes: { call: 'calls' } },
        },
      }),
    [
      '/workspaces/other/apps/web/route: the route "voice" belongs to another workspace',
      '/workspaces/other/apps/web/capability_routes/audio_input: the route "calls" belongs to another workspace',
      '/workspaces/other/apps/web/purposes/call: the route "calls" belongs to another workspace',
    ],
  ],
  [
    'a key with the id of another, and one with its hash, in another workspace',
    (file) =>
      file
        .set('/workspaces/acme/keys/-', { id: 'key_web', app: 'web', sha256: '0b'.repeat(32) })
        .set('/routes/theirs', { workspace: 'other', entries: [{ provider: 'whisper', model: 'large-v3' }] })
        .set('/workspaces/other', {
          apps: { web: { route: 'theirs' } },
          keys: [{ id: 'key_other', app: 'web', sha256: '0A'.repeat(32) }],
        }),
    [
      '/workspaces/acme/keys/1/id: another key has the id "key_web"',
      '/workspaces/other/keys/0/sha256: another key has the same hash',
    ],
  ],
  [
    'a byok provider without a workspace, a platform one with one',
    (file) => file.remove('/providers/openai/workspace').set('/providers/whisper/workspace', 'acme'),
    [
      '/providers/openai/workspace: is missing: a byok provider belongs to one',
      '/providers/whisper/workspace: must be left out: a platform provider belongs to no workspace',
      '/routes/voice/entries/1/provider: the provider "openai" belongs to another workspace',
    ],
  ],
  [
    'owners that do not exist',
    (file) => file.set('/routes/voice/workspace', 'nobody').set('/providers/openai/workspace', 'nobody'),
    [
      '/providers/openai/workspace: there is no workspace "nobody"',
      '/routes/voice/workspace: there is no workspace "nobody"',
      '/workspaces/acme/apps/web/route: the route "voice" belongs to another workspace',
    ],
  ],
  [
    'platform entries whose price nobody knows',
    (file) => file.remove('/providers/whisper/price'),
    [
      `/routes/voice/entries/0/price/per_hour_usd: ${NO_PRICE}`,
      `/routes/calls/entries/0/price/per_hour_usd: ${NO_PRICE}`,
    ],
  ],
  [
    'live audio at no price, at a wrong one, and as a feature of files',
    (file) =>
      file
        .set('/providers/whisper/live', { features: [], hints: [], limits: {} })
        .set('/routes/voice/entries/0/features', ['word_timestamps', 'realtime'])
        .set('/routes/voice/entries/1/translation_features', ['realtime'])
        .set('/routes/voice/entries/1/live', {
          features: ['realtime'],
          hints: [],
          limits: {},
          price: { per_hour_usd: 1, periods: [{ per_hour_usd: 2 }] },
        }),
    [
      `/routes/voice/entries/0/features: ${NOT_LIVE}`,
      `/routes/voice/entries/0/live/price/per_hour_usd: ${NO_PRICE}`,
      `/routes/voice/entries/1/translation_features: ${NOT_LIVE}`,
      '/routes/voice/entries/1/live/price/periods/0: must have `from`, `until` or both',
      `/routes/calls/entries/0/live/price/per_hour_usd: ${NO_PRICE}`,
    ],
  ],
  [
    'a model of which nothing is known',
    (file) =>
      file
        .set('/providers/openai/access', 'byok')
        .set('/routes/voice/entries/1/model', 'whisper-2')
        .remove('/providers/whisper/price')
        .set('/routes/calls/entries/0/model', 'house-blend'),
    [
      '/routes/voice/entries/1/model: is not in the built-in table: declare its capabilities',
      '/routes/calls/entries/0/model: is not in the built-in table: declare its capabilities',
      `/routes/voice/entries/0/price/per_hour_usd: ${NO_PRICE}`,
    ],
  ],
  [
    'a secret in the file',
    (file) => file.set('/providers/openai/api_key', 'sk-live-secret'),
    [`/providers/openai/api_key: must be \${ENV_NAME} or file:<path>: a secret itself is never written here`],
  ],
  [
    'a secret beside a reference',
    (file) => file.set('/providers/openai/api_key', `sk-\${OPENAI_API_KEY}`),
    [`/providers/openai/api_key: must be \${ENV_NAME} or file:<path>: a secret itself is never written here`],
  ],
  [
    'a variable that is not set',
    (file) => file.set('/providers/openai/api_key', `\${NOT_SET}`),
    ['/providers/openai/api_key: the environment variable NOT_SET is not set'],
  ],
  [
    'a variable that holds no credential',
    (file) => file.set('/providers/openai/api_key', `\${BROKEN}`),
    [
      '/providers/openai/api_key: the environment variable BROKEN must hold a credential of printable ASCII characters',
    ],
  ],
  [
    'a file that is not there',
    (file) => file.set('/providers/openai/api_key', 'file:keys/openai'),
    ['/providers/openai/api_key: the file keys/openai cannot be read (ENOENT)'],
  ],
  [
    'no credential for a kind that needs one, no address for a kind that has none',
    (file) => file.remove('/providers/openai/api_key').remove('/providers/whisper/base_url'),
    [
      '/providers/openai/api_key: is missing: the kind "openai" needs one',
      '/providers/whisper/base_url: is missing: the kind "openai-compatible" has no address of its own',
    ],
  ],
  [
    'addresses that are none',
    (file) =>
      file
        .set('/providers/openai/base_url', 'ftp://example.com')
        .set('/providers/whisper/base_url', 'http://user:sk-secret@10.0.0.5/v1'),
    [
      '/providers/openai/base_url: must be an http or https URL',
      '/providers/whisper/base_url: must hold no credentials; use api_key',
    ],
  ],
  [
    'options that the protocol does not know',
    (file) =>
      file
        .set('/providers/box', {
          kind: 'sandbox',
          base_url: 'http://127.0.0.1:9/v1',
          access: 'byok',
          workspace: 'acme',
        })
        .set('/routes/voice/entries/0/options', { beam: 5 })
        .set('/routes/voice/entries/1/options', { beam: 5 })
        .set('/routes/voice/entries/-', {
          provider: 'box',
          model: 'morse-1',
          options: { delay_ms: -1, dealy: 1 },
        }),
    [
      '/routes/voice/entries/0/options/beam: is not a known key; remove it or correct its spelling',
      '/routes/voice/entries/1/options: must be left out: the kind "openai" takes no options',
      '/routes/voice/entries/2/options/dealy: is not a known key; remove it or correct its spelling',
      '/routes/voice/entries/2/options/delay_ms: must be >= 0',
    ],
  ],
  [
    'labels, plans and grants that are not declared',
    (file) =>
      file
        .set('/routes/voice/entries/0/purposes', ['call-centre'])
        .set('/routes/voice/entries/0/plans', ['gold'])
        .set('/workspaces/acme/apps/web/purposes', { 'call-centre': 'calls' })
        .remove('/workspaces/acme/grant_id'),
    [
      '/routes/voice/entries/0/purposes/0: the workspace declares no purpose "call-centre"',
      '/routes/voice/entries/0/plans/0: there is no plan "gold"',
      '/workspaces/acme/grant_id: must come with credits_usd: it identifies the grant, so that it is credited once',
      '/workspaces/acme/apps/web/purposes/call-centre: the workspace declares no such purpose',
    ],
  ],
  [
    'amounts of more than 6 decimals, which nothing could be charged with',
    (file) =>
      file
        .set('/workspaces/acme/credits_usd', 0.0000001)
        .set('/workspaces/acme/trial', { allowance_usd: 1.1234567, expires_at: '2027-01-31T00:00:00Z' })
        .set('/workspaces/acme/budget_usd', { per_month: 0.1 + 0.2 })
        .set('/workspaces/acme/keys/0/budget_usd', { per_month: 2e-7 }),
    [
      '/workspaces/acme/credits_usd: must be USD with at most 6 decimals',
      '/workspaces/acme/trial/allowance_usd: must be USD with at most 6 decimals',
      '/workspaces/acme/budget_usd/per_month: must be USD with at most 6 decimals',
      '/workspaces/acme/keys/0/budget_usd/per_month: must be USD with at most 6 decimals',
    ],
  ],
  [
    'terms of end users that cannot be',
    (file) =>
      file.set('/workspaces/acme/end_users', {
        hash: true,
        budget_usd: { per_month: 0.1 + 0.2 },
        overrides: { ann: { budget_usd: { per_month: 2e-7 } } },
      }),
    [
      '/workspaces/acme/end_users/budget_usd/per_month: must be USD with at most 6 decimals',
      '/workspaces/acme/end_users/overrides/ann: must be a keyed hash: "eu_" and 32 letters, digits, "_" or "-"',
      '/workspaces/acme/end_users/overrides/ann/budget_usd/per_month: must be USD with at most 6 decimals',
    ],
  ],
  [
    'terms of end users whom no call can name',
    (file) =>
      file.set('/workspaces/acme/end_users', {
        overrides: { ann: {}, ' bob': {}, 'c\nd': {}, '\ufffd': {} },
      }),
    [' bob', 'c\nd', '\ufffd'].map(
      (id) =>
        `/workspaces/acme/end_users/overrides/${id}: is no id that a call can send: it ${END_USER_ID_RULE}`,
    ),
  ],
  [
    'bounds that nothing is within',
    (file) =>
      file
        .set('/routes/voice/accept', { words_per_second: { min: 7, max: 0.2 } })
        .set('/routes/voice/entries/0/accept', { words_per_second: { min: 1, max: 0.5 } })
        .set('/routes/voice/entries/0/limits', { speed: { min: 2, max: 0.5 } }),
    [
      '/routes/voice/accept/words_per_second/min: must not be over max: 0.2',
      '/routes/voice/entries/0/accept/words_per_second/min: must not be over max: 0.5',
      '/routes/voice/entries/0/limits/speed/min: must not be over max: 0.5',
    ],
  ],
  [
    'amounts that are out of range, and none',
    (file) =>
      file
        .set('/workspaces/acme/credits_usd', -1)
        .set('/workspaces/acme/budget_usd', { per_month: 1e10 })
        .set('/workspaces/acme/trial', { allowance_usd: '5', expires_at: 'soon' }),
    [
      '/workspaces/acme/credits_usd: must be >= 0',
      '/workspaces/acme/budget_usd/per_month: must be <= 1000000000',
      '/workspaces/acme/trial/allowance_usd: must be number',
      '/workspaces/acme/trial/expires_at: must be RFC 3339, e.g. 2027-01-31T00:00:00Z',
    ],
  ],
  [
    'dates and apps that are none',
    (file) =>
      file
        .set('/workspaces/acme/keys/0/expires_at', '2027-13-45T00:00:00Z')
        .set('/workspaces/acme/trial', { allowance_usd: 5, expires_at: '2027-02-30T00:00:00Z' })
        .set('/workspaces/acme/keys/0/app', 'constructor'),
    [
      '/workspaces/acme/trial/expires_at: must be a date that exists, such as 2027-01-31T00:00:00Z',
      '/workspaces/acme/keys/0/app: the workspace has no app "constructor"',
      '/workspaces/acme/keys/0/expires_at: must be a date that exists, such as 2027-01-31T00:00:00Z',
    ],
  ],
]

for (const [what, bend, expected] of rows) {
  t.test(what, async (t) => {
    const env = { ...SURROUNDINGS.env, BROKEN: 'sk-with\na line break' }
    const issues = faultsAfter(bend, { ...SURROUNDINGS, env })
    t.same([...issues].sort(), [...expected].sort())
    t.notMatch(issues.join('\n'), /sk-/, 'no part of a secret')
  })
}

t.test('an override that the protocol cannot keep', async (t) => {
  const mute: Provider = { kind: 'mute', baseUrl: 'https://example.com', needsCredential: false }
  const surroundings = { ...SURROUNDINGS, kinds: new Map(SURROUNDINGS.kinds).set('mute', mute) }
  const issues = faultsAfter(
    (file) =>
      file
        .set('/providers/mute', { kind: 'mute', access: 'byok', workspace: 'acme' })
        .set('/routes/voice/entries/-', {
          provider: 'mute',
          model: 'm',
          capabilities: ['audio_input', 'audio_output'],
          translates: true,
          live: { features: [], hints: [], limits: {} },
        }),
    surroundings,
  )
  t.same(issues, [
    '/routes/voice/entries/2/capabilities: the kind "mute" has no transcription',
    '/routes/voice/entries/2/capabilities: the kind "mute" has no speech',
    '/routes/voice/entries/2/translates: the kind "mute" has no translation',
    '/routes/voice/entries/2/live: the kind "mute" has no live transcription',
  ])
})

t.test('a provider of several servers', async (t) => {
  const after = (fields: object) =>
    faultsAfter((file) =>
      file.set('/providers/pool', {
        ...{ kind: 'openai-compatible', access: 'byok', workspace: 'acme' },
        ...fields,
      }),
    ).map((issue) => issue.replace('/providers/pool/', ''))
  const base_urls = ['http://one.test/v1/', 'https://two.test/v1']
  t.same(after({ base_urls, health: { path: '/health', interval_ms: 100 } }), [])
  t.same(after({ base_urls: ['http://one.test/v1'] }), [])
  t.same(after({ base_urls, base_url: 'http://one.test' }), ['base_urls: must be left out beside base_url'])
  t.same(after({ base_urls: ['http://one.test/v1', 'http://one.test/v1/'] }), [
    'base_urls: must not name a server twice',
  ])
  t.same(after({ base_urls: ['ftp://one.test', 'http://a:b@two.test', 'http://three.test/?q'] }), [
    'base_urls/0: must be an http or https URL',
    'base_urls/1: must hold no credentials; use api_key',
    'base_urls/2: must hold no query and no fragment',
  ])
  t.same(after({ base_url: 'http://one.test', health: {} }), ['health: has no effect without base_urls'])
  t.same(after({ kind: 'deepgram', base_urls, api_key: `\${OPENAI_API_KEY}` }), [
    'base_urls: must be left out: the kind "deepgram" has an address of its own',
  ])
  for (const base_urls of [[], Array.from({ length: 65 }, (_, at) => `http://host-${at}.test`)])
    t.equal(after({ base_urls }).length, 1)
  for (const path of ['health', '//evil.test/x', '/\\evil.test', '/a b', '/a#b', ''])
    t.match(after({ base_urls, health: { path } }), [/^health\/path: must be a path/], path)
  for (const health of [
    { interval_ms: 99 },
    { timeout_ms: 0 },
    { unhealthy_after: 0 },
    { healthy_after: 101 },
  ])
    t.equal(after({ base_urls, health }).length, 1, JSON.stringify(health))
})

t.test('audio that a provider is to fetch', async (t) => {
  const pulling = (kind: string, env: Record<string, string>) =>
    faultsAfter(
      (file) => {
        const owner = { access: 'byok', workspace: 'acme', api_key: `\${OPENAI_API_KEY}` }
        file
          .set('/providers/ear', { kind, ...owner })
          .set('/routes/voice/entries/-', { provider: 'ear', model: 'whisper-large-v3', pull: true })
      },
      { ...SURROUNDINGS, env: { ...SURROUNDINGS.env, ...env } },
    ).filter((issue) => issue.includes('/pull'))
  const bucket = { S3_BUCKET: 'b', S3_PUBLIC_ENDPOINT: 'https://s3.example' }
  const unopened =
    '/routes/voice/entries/2/pull: needs a bucket whose public endpoint is set: S3_BUCKET and S3_PUBLIC_ENDPOINT'
  t.same(pulling('groq', bucket), [])
  t.same(pulling('groq', {}), [unopened])
  t.same(pulling('groq', { S3_BUCKET: 'b' }), [unopened])
  t.same(pulling('openai', bucket), [
    '/routes/voice/entries/2/pull: must be left out: the kind "openai" takes no URL of audio',
  ])
})

t.test('audio that is sent on while it comes', async (t) => {
  const cutting = (kind: string, more: object = {}) =>
    faultsAfter((file) => {
      const owner = { access: 'byok', workspace: 'acme', api_key: `\${OPENAI_API_KEY}` }
      const entry = { provider: 'ear', model: 'whisper-large-v3', cut_through: true, ...more }
      file.set('/providers/ear', { kind, ...owner }).set('/routes/voice/entries/-', entry)
    }).filter((issue) => issue.includes('/cut_through'))
  t.same(cutting('groq'), [])
  t.same(cutting('assemblyai'), [
    '/routes/voice/entries/2/cut_through: must be left out: the kind "assemblyai" may bill an upload that breaks off',
  ])
  t.same(cutting('groq', { pull: true }), [
    '/routes/voice/entries/2/cut_through: must be left out beside pull: the audio is either sent or fetched',
  ])
})

t.test('what is no configuration at all', async (t) => {
  const issues = (text: string) => {
    const reading = readCatalog(text, SURROUNDINGS)
    return 'issues' in reading ? reading.issues : []
  }
  t.same(issues(''), ['/: expected a document, but the input is empty'])
  t.same(issues('[1]'), ['/: must be object'])
  t.same(issues('{}'), ['/providers: is missing', '/routes: is missing', '/workspaces: is missing'])
  t.same(issues('providers: 1\nroutes: []\nworkspaces: x'), [
    '/providers: must be object',
    '/routes: must be object',
    '/workspaces: must be object',
  ])
  t.same(issues('a: 1\na: sk-secret\n'), ['line 2, column 1: duplicated mapping key'])
  t.match(issues('key: !secret sk-secret'), [/^line 1, column \d+: /])
  t.match(issues('a: *nowhere'), [/alias/])
  t.match(issues('providers: &all {all: *all}'), [/alias/], 'what holds itself')
  t.match(issues('providers: {sk-secret'), [/^line 1, column \d+: /])
  t.notMatch(issues('providers: {sk-secret').join(), /sk-secret/, 'a line at issue is not quoted')
})

t.test('periods and tiers of a price that cannot be meant', async (t) => {
  const price = {
    per_hour_usd: 1,
    tiers: [{ over_input_tokens: 5 }, { over_input_tokens: 5 }],
    periods: [
      { per_hour_usd: 1 },
      { from: '2027-02-01', until: '2027-01-31' },
      {
        from: '2027-01-01',
        until: '2027-01-01',
        tiers: [{ over_input_tokens: 2 }, { over_input_tokens: 1 }],
      },
    ],
  }
  const at = '/providers/whisper/price'
  const order = 'over_input_tokens: must be greater than in the tier before'
  const found = faultsAfter((file) => file.set(at, price))
  // A provider's price is looked at with each entry that has it.
  t.same(
    [...new Set(found.map((line) => line.replace(/^.*\/price\//, '')))],
    [
      `tiers/1/${order}`,
      'periods/0: must have `from`, `until` or both',
      'periods/1: must end after it begins: 2027-01-31',
      `periods/2/tiers/1/${order}`,
    ],
  )
})
