import fc from 'fast-check'
import { CAPABILITIES } from '../../src/contracts/calls.ts'
import { PROFILES, SCOPES, STRATEGIES } from '../../src/contracts/catalog.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'

// Valid configurations of every shape, with what YAML takes for something else among the names and texts.

/** Letters of names: none of them is in the other, so that owners and names do not meet. */
const NAMES = ['true', 'null', '1e3', '0x1F', 'no', '007', '1.5', 'constructor', 'a.b', 'acme', 'Z-_', '12']

const names = (maxLength: number) =>
  fc.uniqueArray(fc.constantFrom(...NAMES), { minLength: 1, maxLength: Math.min(maxLength, NAMES.length) })

const text = fc.oneof(
  fc.constantFrom(
    ...['', ' ', 'true', '~', '- a', 'a: b', '#', 'line\nline\n', '"'],
    "'",
    '\t',
    '🎙',
    '<<',
    '2027-01-31',
  ),
  fc.string({ unit: 'grapheme', maxLength: 30 }),
)
const usd = fc.integer({ min: 0, max: 1_000_000_000_000 }).map((micros) => micros / 1_000_000)
const instant = fc
  .tuple(
    fc.date({ min: new Date('2026-01-01'), max: new Date('2099-01-01'), noInvalidDate: true }),
    fc.constantFrom('Z', '+01:00'),
  )
  .map(([date, zone]) => date.toISOString().replace('Z', zone))
const rateLimit = fc.record(
  { requests_per_minute: fc.integer({ min: 1, max: 1e8 }), burst: fc.integer({ min: 1, max: 1e5 }) },
  { requiredKeys: [] },
)
const budget = fc.record({ per_month: usd })

const head = fc.record(
  {
    limits: fc.record({ max_audio_bytes: fc.integer({ min: 1, max: 1e9 }) }, { requiredKeys: [] }),
    deadline_seconds: fc.integer({ min: 1, max: 3600 }),
    rate_limit: rateLimit,
    audio_url_domains: fc.uniqueArray(fc.constantFrom('a.example.com', '*.B.example.com', 'ü.example'), {
      maxLength: 3,
    }),
  },
  { requiredKeys: [] },
)

const price = { per_hour_usd: 0.22, per_1k_characters_usd: 0.05 }

function provider(workspace: string | null, credentials: readonly (string | undefined)[]) {
  return fc.record(
    {
      kind: fc.constant('openai-compatible'),
      access: fc.constant(workspace === null ? 'platform' : 'byok'),
      base_url: fc.constantFrom('http://10.0.0.5:8000/v1', 'https://example.com/v1/'),
      capabilities: fc.constant(['audio_input', 'audio_output']),
      price: fc.constant(price),
      api_key: fc.constantFrom(...credentials.filter((one) => one !== undefined)),
      ...(workspace === null ? {} : { workspace: fc.constant(workspace) }),
    },
    {
      requiredKeys: [
        ...['kind', 'access', 'base_url', 'capabilities', 'price'],
        ...(workspace === null ? [] : ['workspace']),
      ] as never[],
    },
  )
}

function entry(providers: readonly string[], purposes: readonly string[], plans: readonly string[]) {
  return fc.record(
    {
      provider: fc.constantFrom(...providers),
      model: fc.constantFrom('large-v3', '1', 'modèle:7b', 'null'),
      weight: fc.double({ min: 1e-6, max: 1e6, noNaN: true }),
      profile: fc.constantFrom(...PROFILES),
      pinned: fc.boolean(),
      retry_empty: fc.boolean(),
      voices: fc.dictionary(fc.constantFrom('alloy', '1', 'true', ' '), fc.constantFrom('nova', 'null')),
      ...(purposes.length === 0 ? {} : { purposes: fc.subarray([...purposes]) }),
      ...(plans.length === 0 ? {} : { plans: fc.subarray([...plans]) }),
    },
    { requiredKeys: ['provider', 'model'] },
  )
}

function key(app: string) {
  return fc.record(
    {
      id: fc.uuid().map((id) => `key_${id}`),
      sha256: fc
        .constant(null)
        .map(() => hashKey(makeKey()))
        .chain((hash) => fc.constantFrom(hash, hash.toUpperCase())),
      app: fc.constant(app),
      name: text,
      scopes: fc.subarray([...SCOPES], { minLength: 1 }),
      expires_at: instant,
      rate_limit: rateLimit,
      budget_usd: budget,
    },
    { requiredKeys: ['id', 'sha256', 'app'] },
  )
}

function workspace(id: string, plans: readonly string[], platform: readonly string[], secrets: Secrets) {
  return fc
    .record({
      purposes: fc.subarray(NAMES.slice(0, 5)),
      own: fc.boolean(),
      apps: names(3),
      granted: fc.boolean(),
    })
    .chain(({ purposes, own, apps, granted }) => {
      const ownProvider = `${id}.own`
      const providers = own || platform.length === 0 ? [...platform, ownProvider] : platform
      const route = `${id}.voice`
      return fc.record({
        id: fc.constant(id),
        providers: fc.record(
          providers.includes(ownProvider)
            ? {
                [ownProvider]: provider(id, [
                  `\${SECRET}`,
                  `file:${secrets.file}`,
                  secrets.sealed(ownProvider),
                ]),
              }
            : {},
        ),
        routes: fc.record({
          [route]: fc.record(
            {
              workspace: fc.constant(id),
              entries: fc.array(entry(providers, purposes, plans), { minLength: 1, maxLength: 4 }),
              strategy: fc.constantFrom(...STRATEGIES),
              published: fc.boolean(),
            },
            { requiredKeys: ['workspace', 'entries'] },
          ),
        }),
        fields: fc.record(
          {
            apps: fc.record(Object.fromEntries(apps.map((app) => [app, appOf(route, purposes)]))),
            name: text,
            budget_usd: budget,
            trial: fc.record({ allowance_usd: usd, expires_at: instant }),
            ...(granted ? { credits_usd: usd, grant_id: fc.constantFrom('initial', '1', 'null') } : {}),
            ...(plans.length === 0 ? {} : { plan: fc.constantFrom(...plans) }),
            purposes: fc.record(Object.fromEntries(purposes.map((purpose) => [purpose, purposeShape]))),
            keys: fc.array(
              fc.constantFrom(...apps).chain((app) => key(app)),
              { maxLength: 3 },
            ),
          },
          { requiredKeys: ['apps', 'purposes', ...(granted ? ['credits_usd', 'grant_id'] : [])] as never[] },
        ),
      })
    })
}

const purposeShape = fc.record({ description: text, enabled: fc.boolean() }, { requiredKeys: [] })

function appOf(route: string, purposes: readonly string[]) {
  return fc.record(
    {
      route: fc.constant(route),
      capability_routes: fc.record(
        Object.fromEntries(CAPABILITIES.map((name) => [name, fc.constant(route)])),
        { requiredKeys: [] },
      ),
      purposes: fc
        .subarray([...purposes])
        .map((bound) => Object.fromEntries(bound.map((purpose) => [purpose, route]))),
    },
    { requiredKeys: ['route'] },
  )
}

interface Secrets {
  /** Absolute path of a file with a credential. */
  readonly file: string
  /** A credential that was sealed for the provider of that name. */
  readonly sealed: (provider: string) => string
}

/** A document that `buildSnapshot` takes where the variable SECRET is set, too. */
export function catalogs(secrets: Secrets): fc.Arbitrary<object> {
  return fc
    .record({
      head,
      plans: fc.subarray(NAMES.slice(0, 4)),
      workspaces: names(3),
      platform: fc.subarray(NAMES),
    })
    .chain(({ head, plans, workspaces, platform }) =>
      fc.record({
        head: fc.constant(head),
        plans: fc.record(
          Object.fromEntries(
            plans.map((plan) => [plan, fc.record({ includes: fc.subarray([...CAPABILITIES]) })]),
          ),
        ),
        providers: fc.record(
          Object.fromEntries(
            platform.map((name) => [name, provider(null, [`\${SECRET}`, secrets.sealed(name)])]),
          ),
        ),
        workspaces: fc.tuple(...workspaces.map((id) => workspace(id, plans, platform, secrets))),
      }),
    )
    .map(({ head, plans, providers, workspaces }) => ({
      ...head,
      plans,
      providers: Object.assign({}, providers, ...workspaces.map((one) => one.providers)),
      routes: Object.assign({}, ...workspaces.map((one) => one.routes)),
      workspaces: Object.fromEntries(workspaces.map(({ id, fields }) => [id, fields])),
    }))
}
