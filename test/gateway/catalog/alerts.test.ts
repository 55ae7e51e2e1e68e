import t from 'tap'
import { buildSnapshot } from '../../../src/gateway/catalog/snapshot.ts'
import { BentFile, SURROUNDINGS } from '../../support/catalog-file.ts'

const SECRET = `whsec_${Buffer.alloc(32, 5).toString('base64')}`
const REFERENCE = `\${ALERTS}`
const outside = { ...SURROUNDINGS, env: { ...SURROUNDINGS.env, ALERTS: SECRET } }

const RULES = {
  budgets: { budget: {} },
  customers: { end_user_budget: {} },
  errors: { error_share: { share: 0.2 } },
  breakers: { breaker_open: {} },
  dead: { dead_webhooks: {} },
  backlog: { backlog: { jobs: 10 } },
  ends: { model_ends: {} },
}

function issuesOf(alerts: unknown, env: Readonly<Record<string, string>> = outside.env): readonly string[] {
  const reading = buildSnapshot(new BentFile().set('/alerts', alerts).document, { ...outside, env })
  return 'issues' in reading ? reading.issues : []
}

const webhook = { url: 'https://hooks.example/alerts', secret: REFERENCE }

t.test('rules with what they do not say', async (t) => {
  const reading = buildSnapshot(new BentFile().set('/alerts', { webhook, rules: RULES }).document, outside)
  if ('issues' in reading) throw new Error(reading.issues.join())
  t.same(reading.snapshot.alerts, {
    url: 'https://hooks.example/alerts',
    secret: SECRET,
    recoverAfterMs: 300_000,
    rules: [
      { name: 'budgets', kind: 'budget', share: 0.8, workspace: null },
      { name: 'customers', kind: 'end_user_budget', share: 0.8, workspace: null },
      { name: 'errors', kind: 'error_share', share: 0.2, minCalls: 20, windowMs: 300_000, provider: null },
      { name: 'breakers', kind: 'breaker_open', forMs: 300_000, provider: null },
      { name: 'dead', kind: 'dead_webhooks', events: 1, windowMs: 3_600_000, workspace: null },
      { name: 'backlog', kind: 'backlog', jobs: 10, ageMs: null },
      { name: 'ends', kind: 'model_ends', days: 30 },
    ],
  })
})

t.test('nothing is watched, and no tenant is counted, unless it says so', async (t) => {
  const reading = buildSnapshot(new BentFile().document, outside)
  if ('issues' in reading) throw new Error(reading.issues.join())
  t.notOk('alerts' in reading.snapshot)
  t.notOk('tenantLabels' in reading.snapshot)
})

t.test('what is refused, and never with the secret', async (t) => {
  const rows: readonly [alerts: unknown, at: RegExp][] = [
    ['', /^\/alerts: must be object/],
    [{}, /^\/alerts\/(webhook|rules): is missing/],
    [{ webhook: { ...webhook, secret: SECRET }, rules: {} }, /secret: must be a reference, not the secret/],
    [{ webhook: { ...webhook, secret: 'file:relative' }, rules: {} }, /secret: must be a reference/],
    [
      { webhook: { ...webhook, secret: `\${NONE}` }, rules: {} },
      /secret: the environment variable NONE is not set/,
    ],
    [
      { webhook: { ...webhook, secret: 'file:/nowhere/at/all' }, rules: {} },
      /secret: the file .* cannot be read/,
    ],
    ...[
      'http://hooks.example/',
      'ftp://x',
      'https://10.0.0.1/',
      'https://[::1]/',
      'https://user:pw@hooks.example/',
    ].map((url): [unknown, RegExp] => [
      { webhook: { ...webhook, url }, rules: {} },
      /^\/alerts\/webhook\/url: /,
    ]),
    [{ webhook: { ...webhook, url: 'x'.repeat(3000) }, rules: {} }, /^\/alerts\/webhook\/url: /],
    [{ webhook, rules: { '../x': { budget: {} } } }, /must be named with/],
    [{ webhook, rules: { ['__proto__' as string]: 1, constructor: { nothing: {} } } }, /constructor/],
    [
      { webhook, rules: { both: { budget: {}, backlog: { jobs: 1 } } } },
      /both: must have one of budget, end_user_budget, error_share/,
    ],
    [{ webhook, rules: { none: {} } }, /none: must have one of/],
    [{ webhook, rules: { budget: { budget: { share: 0 } } } }, /share: must be > 0/],
    [{ webhook, rules: { budget: { budget: { share: 1.01 } } } }, /share: must be <= 1/],
    [{ webhook, rules: { budget: { budget: { share: '0.8' } } } }, /share: must be number/],
    [{ webhook, rules: { budget: { budget: { workspace: 'nobody' } } } }, /there is no workspace "nobody"/],
    [{ webhook, rules: { e: { error_share: {} } } }, /error_share\/share: is missing/],
    [
      { webhook, rules: { e: { error_share: { share: 1, provider: 'nobody' } } } },
      /there is no provider "nobody"/,
    ],
    [
      { webhook, rules: { e: { error_share: { share: 1, window_seconds: 86_400 } } } },
      /window_seconds: must be <= 3000/,
    ],
    [{ webhook, rules: { b: { backlog: {} } } }, /must have `jobs`, `seconds` or both/],
    [{ webhook, rules: { m: { model_ends: { days: 1e9 } } } }, /days: must be <= 365/],
    [
      {
        webhook,
        rules: Object.fromEntries(Array.from({ length: 101 }, (_, at) => [`r${at}`, { budget: {} }])),
      },
      /^\/alerts\/rules: /,
    ],
    [{ webhook, rules: {}, recover_after_seconds: -1 }, /recover_after_seconds: must be >= 0/],
    [{ webhook, rules: {}, more: true }, /more: is not a known key/],
  ]
  for (const [alerts, at] of rows) {
    const issues = issuesOf(alerts)
    t.ok(
      issues.some((line) => at.test(line)),
      `${at}: ${issues.join(' | ')}`,
    )
    t.notOk(issues.join().includes(SECRET.slice(6)))
  }
})

t.test('a secret that is none', async (t) => {
  for (const secret of [
    'hunter2',
    'whsec_',
    'whsec_AAAA',
    `whsec_${Buffer.alloc(65).toString('base64')}`,
    `${SECRET}é`,
  ]) {
    const issues = issuesOf({ webhook, rules: {} }, { ...outside.env, ALERTS: secret })
    t.equal(issues.length, 1)
    t.match(issues[0], /^\/alerts\/webhook\/secret: /)
    t.notOk(secret.length > 6 && issues.join().includes(secret))
  }
})

t.test('labels of tenants', async (t) => {
  const labelsOf = (metrics: unknown) =>
    buildSnapshot(new BentFile().set('/metrics', metrics).document, outside)
  t.match(labelsOf({ tenant_labels: ['workspace'] }), {
    snapshot: { tenantLabels: { labels: ['workspace'], most: 100 } },
  })
  for (const bad of [
    { tenant_labels: [] },
    { tenant_labels: ['key'] },
    { tenant_labels: ['app', 'app'] },
    { tenant_labels: ['app'], max_tenants: 1_000_000 },
  ])
    t.ok('issues' in labelsOf(bad), JSON.stringify(bad))
})
