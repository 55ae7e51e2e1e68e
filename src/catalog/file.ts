import { type Static, type TSchema, Type } from 'typebox'
import { CAPABILITIES } from '../schema/calls.ts'
import { PROFILES, SCOPES, STRATEGIES } from '../schema/catalog.ts'
import { FACT_SHAPES } from '../schema/facts.ts'
import { INSTANT } from './instant.ts'

/** What names workspaces, apps, routes, providers, plans and purposes. Names become parts of object keys and logs. */
const NAME = '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$'
/** Models are named in headers of answers, too: no control characters, and no white space around. */
const MODEL = '^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$'

/** An object that takes no other keys: a misspelled one is a fault, not a setting without effect. */
function strict<Properties extends Record<string, TSchema>>(properties: Properties, description?: string) {
  return Type.Object(properties, {
    additionalProperties: false,
    ...(description === undefined ? {} : { description }),
  })
}

function partial<Properties extends Record<string, TSchema>>(properties: Properties) {
  const optional = Object.entries(properties).map(([name, shape]) => [name, Type.Optional(shape)])
  return Object.fromEntries(optional) as { [Name in keyof Properties]: Type.TOptional<Properties[Name]> }
}

function named<Value extends TSchema>(value: Value, description: string) {
  return Type.Record(Type.String({ pattern: NAME }), value, { additionalProperties: false, description })
}

const Name = Type.String({ pattern: NAME, description: 'a name of 1 to 64 letters, digits, ".", "_" or "-"' })
const Usd = Type.Number({ minimum: 0, maximum: 1_000_000_000 })
const Bytes = Type.Integer({ minimum: 1, maximum: 5 * 1024 ** 3 })
const Seconds = Type.Integer({ minimum: 1, maximum: 31_536_000 })
const Instant = Type.String({ pattern: INSTANT, description: 'RFC 3339, e.g. 2027-01-31T00:00:00Z' })
const Text = Type.String({ maxLength: 1024 })

const RateLimitShape = strict(
  {
    requests_per_minute: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000_000 })),
    burst: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
  },
  'token bucket of a key: how fast it fills, and how many requests a rested key may make at once',
)

const BudgetShape = strict({ per_month: Usd }, 'cap per calendar month in UTC, USD')

const LimitsShape = strict(
  {
    max_request_body_bytes: Type.Optional(Bytes),
    max_audio_bytes: Type.Optional(Bytes),
    max_audio_url_bytes: Type.Optional(Bytes),
    max_audio_seconds: Type.Optional(Seconds),
    queue_max_payload_bytes: Type.Optional(Bytes),
    sync_idempotency_ttl_seconds: Type.Optional(Seconds),
    stt_job_result_ttl_seconds: Type.Optional(Seconds),
  },
  'limits of the interface that differ from the defaults; GET /v1/me returns the ones in force',
)

/** Facts of a model that the built-in table lacks or that differ here. On an entry they win over its provider's. */
const facts = partial(FACT_SHAPES)

export const ProviderShape = strict({
  kind: Type.String({ minLength: 1, maxLength: 64, description: 'protocol, e.g. openai-compatible' }),
  access: Type.Enum(['byok', 'platform'], {
    description: 'byok: the credential of one workspace, billed by the provider; platform: usable by all',
  }),
  workspace: Type.Optional(Name),
  api_key: Type.Optional(
    Type.String({ maxLength: 1024, description: `\${ENV_NAME} or file:<path>; never the secret itself` }),
  ),
  base_url: Type.Optional(Type.String({ maxLength: 2048 })),
  ...facts,
})

export const EntryShape = strict({
  provider: Name,
  model: Type.String({
    maxLength: 256,
    pattern: MODEL,
    description: 'a name without control characters or white space around it',
  }),
  weight: Type.Optional(Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 })),
  profile: Type.Optional(Type.Enum([...PROFILES])),
  purposes: Type.Optional(Type.Array(Name, { uniqueItems: true })),
  plans: Type.Optional(Type.Array(Name, { uniqueItems: true })),
  pinned: Type.Optional(Type.Boolean()),
  voices: Type.Optional(
    Type.Record(
      Type.String({ minLength: 1, maxLength: 256 }),
      Type.String({ minLength: 1, maxLength: 256 }),
      {
        description: "the caller's voice names → this provider's",
      },
    ),
  ),
  retry_empty: Type.Optional(Type.Boolean()),
  options: Type.Optional(
    Type.Record(Type.String(), Type.Unknown(), { description: 'settings of the provider’s own' }),
  ),
  ...facts,
})

export const RouteShape = strict({
  workspace: Name,
  strategy: Type.Optional(Type.Enum([...STRATEGIES])),
  published: Type.Optional(Type.Boolean()),
  entries: Type.Array(EntryShape, { minItems: 1 }),
})

export const AppShape = strict({
  route: Name,
  capability_routes: Type.Optional(
    strict(Object.fromEntries(CAPABILITIES.map((name) => [name, Type.Optional(Name)]))),
  ),
  purposes: Type.Optional(named(Name, 'purpose → route')),
})

export const KeyShape = strict({
  id: Type.String({
    pattern: '^key_[A-Za-z0-9_-]{1,60}$',
    description: '"key_" and 1 to 60 letters, digits, "_" or "-"',
  }),
  name: Type.Optional(Text),
  app: Name,
  sha256: Type.String({ pattern: '^[0-9a-fA-F]{64}$', description: 'what `larkway key hash` prints' }),
  scopes: Type.Optional(Type.Array(Type.Enum([...SCOPES]), { minItems: 1, uniqueItems: true })),
  expires_at: Type.Optional(Instant),
  rate_limit: Type.Optional(RateLimitShape),
  budget_usd: Type.Optional(BudgetShape),
})

const PurposeShape = strict({
  description: Type.Optional(Text),
  enabled: Type.Optional(Type.Boolean()),
})

export const WorkspaceShape = strict({
  name: Type.Optional(Text),
  plan: Type.Optional(Name),
  credits_usd: Type.Optional(Usd),
  grant_id: Type.Optional(Type.String({ minLength: 1, maxLength: 64 })),
  trial: Type.Optional(strict({ allowance_usd: Usd, expires_at: Instant })),
  budget_usd: Type.Optional(BudgetShape),
  purposes: Type.Optional(named(PurposeShape, 'labels that the apps may bind to routes')),
  apps: Type.Optional(named(AppShape, 'apps')),
  keys: Type.Optional(Type.Array(KeyShape)),
})

export const PlanShape = strict({
  includes: Type.Array(Type.Enum([...CAPABILITIES]), { uniqueItems: true }),
})

const head = {
  limits: Type.Optional(LimitsShape),
  deadline_seconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 3600,
      description: 'from the end of the body to the answer; default 120',
    }),
  ),
  video_deadline_seconds: Type.Optional(
    Type.Integer({ minimum: 1, maximum: 3600, description: 'the same for a video; default 300' }),
  ),
  rate_limit: Type.Optional(RateLimitShape),
  audio_url_domains: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
      description: 'hosts that every workspace may fetch audio from; *.example.com stands for its subdomains',
    }),
  ),
}

/** The parts of the file outside its named lists, which are looked at one by one. */
export const CatalogHead = strict(head)

/** `larkway.yaml`. The published JSON Schema for editors is this object. */
export const CatalogFile = strict({
  ...head,
  plans: Type.Optional(named(PlanShape, 'what a plan includes')),
  providers: named(ProviderShape, 'upstream accounts'),
  routes: named(RouteShape, 'ordered candidates for a call'),
  workspaces: named(WorkspaceShape, 'tenants'),
})

export type ProviderFields = Static<typeof ProviderShape>
export type EntryFields = Static<typeof EntryShape>
export type RouteFields = Static<typeof RouteShape>
export type AppFields = Static<typeof AppShape>
export type KeyFields = Static<typeof KeyShape>
export type WorkspaceFields = Static<typeof WorkspaceShape>
export type RateLimitFields = Static<typeof RateLimitShape>
export type BudgetFields = Static<typeof BudgetShape>
