import { type Static, type TSchema, Type } from 'typebox'
import { CAPABILITIES } from '../../contracts/calls.ts'
import { LIVE_FALLBACKS, PROFILES, SCOPES, STRATEGIES } from '../../contracts/catalog.ts'
import { Day, FACT_SHAPES, PriceShape } from '../../contracts/facts.ts'
import { INSTANT } from '../../contracts/instants.ts'
import { TRANSCRIPTION_TASKS } from '../../contracts/operations.ts'
import { RequireShape } from '../../contracts/requirements.ts'
import { formed, NAME, Name, namedField, optional, optionalFlag, optionalInteger, strict } from './field.ts'
import { BURST_MAX, REQUESTS_PER_MINUTE_MAX, UNITS_PER_MINUTE_MAX } from './key.ts'

/** Models are named in headers of answers, too: no control characters, and no white space around. */
const MODEL = '^[^\\s\\x00-\\x1f\\x7f-\\x9f]([^\\x00-\\x1f\\x7f-\\x9f]*[^\\s\\x00-\\x1f\\x7f-\\x9f])?$'

function partial<Properties extends Record<string, TSchema>>(properties: Properties) {
  const optional = Object.entries(properties).map(([name, shape]) => [name, Type.Optional(shape)])
  return Object.fromEntries(optional) as { [Name in keyof Properties]: Type.TOptional<Properties[Name]> }
}

const Usd = Type.Number({ minimum: 0, maximum: 1_000_000_000 })
const Bytes = Type.Integer({ minimum: 1, maximum: 5 * 1024 ** 3 })
const Seconds = Type.Integer({ minimum: 1, maximum: 31_536_000 })
const Instant = formed(INSTANT, 'RFC 3339, e.g. 2027-01-31T00:00:00Z')
const Text = Type.String({ maxLength: 1024 })

const UNIT_RATES = {
  tokens_per_minute: optionalInteger(
    [0, UNITS_PER_MINUTE_MAX],
    'tokens of its calls, those of the input and of the answer; default: no limit, as 0',
  ),
  audio_seconds_per_minute: optionalInteger(
    [0, UNITS_PER_MINUTE_MAX],
    'seconds of audio of its transcriptions; default: no limit, as 0',
  ),
}
const UnitRatesShape = strict(UNIT_RATES)

const REQUEST_RATES = {
  requests_per_minute: optionalInteger(
    [1, REQUESTS_PER_MINUTE_MAX],
    'how fast the bucket fills; default: 600',
  ),
  burst: optionalInteger([1, BURST_MAX], 'how many requests a rested key may make at once; default: 100'),
}

const RequestRatesShape = strict(REQUEST_RATES, 'token bucket of an end user')
const RateLimitShape = strict({ ...REQUEST_RATES, ...UNIT_RATES }, 'token bucket of a key')

const BudgetShape = strict(
  { per_month: Type.With(Usd, { description: 'USD per calendar month in UTC' }) },
  'cap on what calls may come to',
)

/** Limits on what end users may spend and ask, in all or one of them. */
const END_USER_TERMS = {
  budget_usd: optional(BudgetShape, 'cap of each; default: none'),
  rate_limit: optional(RequestRatesShape, 'token bucket of each, beside that of the key; default: none'),
}

const EndUsersShape = strict({
  hash: optionalFlag('keeps a keyed hash in place of the id that callers send, everywhere; default: false'),
  ...END_USER_TERMS,
  overrides: optional(
    Type.Record(Type.String({ minLength: 1, maxLength: 128 }), strict(END_USER_TERMS)),
    'terms of single ones in place of these, by their ids; with hash: by `eu_…`, as the usage ledger has them',
  ),
})

/** Settings for the workspaces that say nothing else, or for one. */
const UsageShape = (otherwise: string) =>
  strict(
    {
      retention_days: optionalInteger(
        [1, 36_500],
        `how long records of usage are kept behind the day on which they ended; default: ${otherwise}`,
      ),
    },
    'the usage ledger',
  )

const Sessions = Type.Integer({ minimum: 0, maximum: 1_000_000 })

/** The limits that a plan, a workspace and an app may have of their own. @param text of each, with its default */
const sizes = (text: (what: string, standard: string) => string) => ({
  max_request_body_bytes: optional(Bytes, text('of the raw body', '52428800')),
  max_audio_bytes: optional(Bytes, text('of the audio after decoding', '26214400')),
  max_audio_url_bytes: optional(Bytes, text('of audio fetched by URL', '26214400')),
  max_audio_seconds: optional(Seconds, text('longest audio', 'no limit')),
})

const sizeLimits = (standard: string) =>
  optional(strict(sizes((what) => what)), `how large its requests may be; default of each: ${standard}`)

const LimitsShape = strict(
  {
    ...sizes((what, standard) => `${what}; default: ${standard}`),
    max_upload_bytes_per_workspace: optionalInteger(
      [0, Number.MAX_SAFE_INTEGER],
      'of all resumable uploads of a workspace together; default: 10737418240',
    ),
    queue_max_payload_bytes: optional(Bytes, 'of the payload of a queued call; default: 2097152'),
    sync_idempotency_ttl_seconds: optional(
      Seconds,
      'how long an idempotency key is remembered; default: 86400',
    ),
    stt_job_result_ttl_seconds: optional(Seconds, 'how long a job is kept after its end; default: 259200'),
    live_max_session_seconds: optional(Seconds, 'longest live session; default: 14400'),
    live_idle_seconds: optional(Seconds, 'how long a live session goes on without audio; default: 60'),
    live_buffer_seconds: optionalInteger(
      [1, 300],
      'audio that a live session keeps until it is settled; default: 30',
    ),
    live_max_message_bytes: optionalInteger(
      [1_024, 262_144],
      'of a message of a live session; default: 262144',
    ),
    live_max_waiting_characters: optionalInteger(
      [1_000, 1_000_000],
      'text of a live session that is not spoken yet; default: 20000',
    ),
    live_max_sessions_per_key: optional(Sessions, 'live sessions of a key at once; default: 1000'),
    live_max_sessions_per_workspace: optional(
      Sessions,
      'live sessions of a workspace at once; default: 5000',
    ),
  },
  'limits of the interface; GET /v1/me returns the ones in force',
)

/** Facts of a model that the built-in table lacks or that differ here. On an entry they win over its provider's. */
const facts = partial(FACT_SHAPES)

const Model = Type.String({ minLength: 1, maxLength: 256 })

/** Prices of a contract: each replaces the whole built-in price of its model. */
const PricesShape = Type.Record(
  Model,
  strict({ ...PriceShape.properties, live: optional(PriceShape, 'what is agreed for live audio') }),
)

const HealthShape = strict({
  path: optional(
    formed('^/(?![/\\\\])[^\\s\\\\#]*$', 'a path from the root of the server, such as /health', {
      maxLength: 1024,
    }),
    'path from the root of the server, such as /health; default: the list of models below the base URL',
  ),
  interval_ms: optionalInteger(
    [100, 600_000],
    'from one probe of a server to the next, give or take a fifth; default: 5000',
  ),
  timeout_ms: optionalInteger([50, 60_000], 'how long a probe waits for its answer; default: 2000'),
  unhealthy_after: optionalInteger(
    [1, 100],
    'probes in a row that fail until a server gets no calls; default: 3',
  ),
  healthy_after: optionalInteger(
    [1, 100],
    'probes in a row that succeed until it gets calls again; default: 1',
  ),
})

export const ProviderShape = strict({
  kind: Type.String({ minLength: 1, maxLength: 64, description: 'protocol, e.g. openai-compatible' }),
  access: Type.Enum(['byok', 'platform'], {
    description: 'byok: the credential of one workspace, billed by the provider; platform: usable by all',
  }),
  workspace: optional(Name, 'owner of a byok provider'),
  api_key: optional(
    Type.String({ maxLength: 4096 }),
    `the credential: \${ENV_NAME}, file:<path>, or as export writes it sealed:<text>; never the secret itself`,
  ),
  base_url: optional(
    Type.String({ maxLength: 2048 }),
    'address, where the kind has none of its own or another is meant',
  ),
  base_urls: optional(
    Type.Array(Type.String({ maxLength: 2048 }), { minItems: 1, maxItems: 64, uniqueItems: true }),
    'in place of base_url: the addresses of servers that answer alike, of which the least loaded gets a call',
  ),
  health: optional(HealthShape, 'how the servers of base_urls are asked whether they are well'),
  concurrency: optionalInteger([1, 1_000_000], 'calls at once, over all nodes; no limit unless set'),
  queue_ms: optionalInteger(
    [0, 600_000],
    'how long a call waits for one of these before the next entry is tried; default: 1000',
  ),
  rate_limit: optional(
    UnitRatesShape,
    'what the account takes a minute, from all nodes; the next entry is tried beyond that',
  ),
  prices: optional(PricesShape, 'model → what the contract with the provider says; wins over `price`'),
  ...facts,
})

const AcceptShape = strict({
  repeats: optionalInteger([2, 1000], 'most times that the same words may follow one another'),
  compression_ratio: optional(
    Type.Number({ exclusiveMinimum: 1, maximum: 100 }),
    'largest ratio of 600 characters of text to the same compressed; Whisper itself takes 2.4',
  ),
  silence: optionalFlag(
    'refuses more words than the speech in the audio can hold; of WAV whose level can be measured',
  ),
  language: optionalFlag('refuses another language, or its script, than the hint says'),
  words_per_second: optional(
    strict({
      min: optional(Type.Number({ minimum: 0, maximum: 100 }), 'least, of audio of 3 s or more'),
      max: optional(Type.Number({ exclusiveMinimum: 0, maximum: 100 }), 'most'),
    }),
    'words per second of the audio',
  ),
  confidence: optional(Type.Number({ minimum: 0, maximum: 1 }), 'least mean confidence, where one is said'),
  shadow: optionalFlag('counts what breaks a rule, and refuses nothing'),
  last_resort: optionalFlag(
    'gives what the last entry answers with a warning; else the call fails when every entry is refused',
  ),
})

export const EntryShape = strict({
  provider: Type.With(Name, { description: 'a provider of this file' }),
  model: formed(MODEL, 'a name without control characters or white space around it', {
    maxLength: 256,
    description: 'as the provider calls it',
  }),
  weight: optional(
    Type.Number({ exclusiveMinimum: 0, maximum: 1_000_000 }),
    'share of the calls under the strategy weighted; default: 1',
  ),
  profile: optional(Type.Enum([...PROFILES]), 'what response_profile picks by'),
  purposes: optional(Type.Array(Name, { uniqueItems: true }), 'labels that it is for'),
  plans: optional(Type.Array(Name, { uniqueItems: true }), 'plans that may use it; default: all'),
  pinned: optionalFlag('entries of the route that are not pinned are no candidates'),
  voices: optional(
    Type.Record(Type.String({ minLength: 1, maxLength: 256 }), Type.String({ minLength: 1, maxLength: 256 })),
    "the caller's voice names → this provider's",
  ),
  retry_empty: optionalFlag('tries the next entry when 3 s or more of audio came back without a word'),
  accept: optional(AcceptShape, 'what its transcripts have to be like; wins over that of the route'),
  pull: optionalFlag(
    'hands the provider a signed URL of stored audio instead of its bytes; needs S3_PUBLIC_ENDPOINT',
  ),
  cut_through: optionalFlag(
    'sends the provider the first bytes of an upload while the last are still coming; not of JSON',
  ),
  options: optional(Type.Record(Type.String(), Type.Unknown()), 'settings of the kind of provider'),
  ends_on: optional(
    Day,
    'announced last day of the model, where the built-in table lacks it; alerts warn of it',
  ),
  ...facts,
})

const CacheShape = strict({
  ttl_seconds: optional(Seconds, 'how long it may be given again; default: 86400'),
  max_bytes: optional(
    Bytes,
    'most that the workspace keeps, where the oldest goes first; default: 1073741824, 1 GiB',
  ),
})

const ShadowShape = strict({
  entry: Type.With(EntryShape, {
    description: 'asked beside the entry that answers; as an entry of the route',
  }),
  share: Type.Number({
    minimum: 0,
    maximum: 1,
    description: 'of the answered calls that are meant: 0.05 is one in twenty',
  }),
  operations: optional(
    Type.Array(Type.Enum([...TRANSCRIPTION_TASKS]), { minItems: 1, uniqueItems: true }),
    'calls that are meant; default: transcription and translation',
  ),
  purposes: optional(
    Type.Array(Name, { uniqueItems: true }),
    'labels of the calls that are meant; default: all',
  ),
  references: optional(
    strict({ ttl_seconds: optional(Seconds, 'how long a reference is waited for; default: 604800, a week') }),
    'keeps both texts, encrypted, to be compared with a reference that the caller brings; default: off',
  ),
})

export const RouteShape = strict({
  workspace: Type.With(Name, { description: 'its owner' }),
  strategy: optional(
    Type.Enum([...STRATEGIES]),
    'how candidates are ordered; default: priority, the order of the entries',
  ),
  published: optionalFlag('false takes it out of service'),
  live_fallback: optional(
    Type.Enum([...LIVE_FALLBACKS]),
    'where no entry for live audio is left, batch sends a session to entries for files; default: none',
  ),
  accept: optional(AcceptShape, 'what transcripts have to be like, at entries that do not say'),
  cache: optional(
    CacheShape,
    'keeps speech, for callers of the same workspace who ask for the same; default: off',
  ),
  skip_silence: optionalFlag(
    'leaves out long silence before a provider is asked, unless the call says otherwise',
  ),
  transcode: optionalFlag(
    'makes audio in formats that no entry takes into one that they take, by `ffmpeg`; default: off',
  ),
  encode: optionalFlag('makes speech in formats that a provider lacks out of its wav or pcm; default: off'),
  shadow: optional(
    ShadowShape,
    'sends a part of the answered calls to another entry too, to compare them; nothing is charged for it',
  ),
  entries: Type.Array(EntryShape, { minItems: 1, maxItems: 200, description: 'candidates of a call' }),
})

export const AppShape = strict({
  route: Type.With(Name, { description: 'its default route' }),
  capability_routes: optional(
    strict(Object.fromEntries(CAPABILITIES.map((name) => [name, optional(Name, 'the route')]))),
    'capability → the route that serves it instead',
  ),
  purposes: Type.Optional(namedField(Name, 'purpose → route')),
  limits: sizeLimits('that of the workspace, which it cannot exceed'),
})

export const KeyShape = strict({
  id: formed('^key_[A-Za-z0-9_-]{1,60}$', '"key_" and 1 to 60 letters, digits, "_" or "-"', {
    description: 'what logs call it',
  }),
  name: optional(Text, 'shown in GET /v1/me; default: its id'),
  app: Type.With(Name, { description: 'whom it stands for, an app of this workspace' }),
  sha256: formed('^[0-9a-fA-F]{64}$', 'what `larkway key hash` prints', {
    description: 'hash of the key: the key itself is never written here',
  }),
  scopes: optional(
    Type.Array(Type.Enum([...SCOPES]), { minItems: 1, uniqueItems: true }),
    'what it may do; default: all but admin and operator',
  ),
  expires_at: optional(Instant, 'when it ends, RFC 3339; default: never'),
  rate_limit: optional(RateLimitShape, 'its own token bucket'),
  budget_usd: optional(BudgetShape, 'its own cap'),
})

export const PurposeShape = strict({
  description: optional(Text, 'shown in GET /v1/me'),
  enabled: optionalFlag("false falls back to the app's own routing"),
  require: optional(RequireShape, 'what its calls demand of the entries'),
})

export const WorkspaceShape = strict({
  name: optional(Text, 'shown in GET /v1/me; default: its id'),
  plan: optional(Name, 'a plan of this file; default: everything is included'),
  require: optional(RequireShape, 'what all of its calls demand of the entries'),
  credits_usd: optional(Usd, 'a grant, booked once by its grant_id'),
  grant_id: optional(Type.String({ minLength: 1, maxLength: 64 }), 'names the grant of credits_usd'),
  trial: optional(
    strict({
      allowance_usd: Type.With(Usd, { description: 'what calls may come to, USD' }),
      expires_at: Type.With(Instant, { description: 'until when, RFC 3339' }),
    }),
    'what platform calls may come to before credits are asked',
  ),
  budget_usd: optional(BudgetShape, 'cap for all its keys together'),
  rate_limit: optional(UnitRatesShape, 'what all its keys together may send, beside the limits of each'),
  prices: optional(
    namedField(PricesShape, 'provider → model → price'),
    'what the workspace pays for models, by a contract of its own; wins over what the provider has',
  ),
  end_users: optional(EndUsersShape, 'customers of its own, whom calls name by `X-LK-End-User` or `user`'),
  usage: Type.Optional(UsageShape('as the file says for all')),
  limits: sizeLimits('that of the plan, else of the file'),
  purposes: Type.Optional(namedField(PurposeShape, 'labels that the apps may bind to routes')),
  apps: Type.Optional(namedField(AppShape, 'applications, each with its default route')),
  keys: optional(Type.Array(KeyShape), 'API keys, by their hashes'),
})

export const PlanShape = strict({
  includes: Type.Array(Type.Enum([...CAPABILITIES]), {
    uniqueItems: true,
    description: 'capabilities that its workspaces may use',
  }),
  limits: sizeLimits('that of the file'),
})

const Share = Type.Number({ exclusiveMinimum: 0, maximum: 1 })
/** Measurements of nodes are kept for an hour. */
const Window = Type.Integer({ minimum: 5, maximum: 3_000 })
const Many = Type.Integer({ minimum: 1, maximum: 1_000_000_000 })
const OfProvider = optional(Name, 'only of this provider; default: all')
const OfWorkspace = optional(Name, 'only of this workspace; default: all')

const AlertRuleShape = strict({
  budget: optional(
    strict({ share: optional(Share, 'of the budget; default: 0.8'), workspace: OfWorkspace }),
    'spending of the month, of workspaces and keys that have a budget',
  ),
  end_user_budget: optional(
    strict({ share: optional(Share, 'of the budget; default: 0.8'), workspace: OfWorkspace }),
    'spending of the month, of end users that have a budget',
  ),
  error_share: optional(
    strict({
      share: Type.With(Share, { description: 'of the attempts: 0.5 is one in two' }),
      window_seconds: optional(Window, 'the last so many seconds count; default: 300'),
      min_calls: optional(Many, 'fewer attempts than that say nothing; default: 20'),
      provider: OfProvider,
    }),
    "attempts at a provider's model that failed",
  ),
  breaker_open: optional(
    strict({ seconds: optional(Window, 'without a pause; default: 300'), provider: OfProvider }),
    "an entry's breaker that does not close, on any node",
  ),
  dead_webhooks: optional(
    strict({
      events: optional(Many, 'how many; default: 1'),
      window_seconds: optionalInteger([5, 604_800], 'given up in the last so many seconds; default: 3600'),
      workspace: OfWorkspace,
    }),
    'webhook deliveries of a workspace that were given up',
  ),
  backlog: optional(
    strict({
      jobs: optional(Many, 'how many are ready to be taken up'),
      seconds: optional(Seconds, 'for how long the first of them has been ready'),
    }),
    'jobs that wait for a worker: of `jobs` and `seconds` either is enough',
  ),
  model_ends: optional(
    strict({ days: optionalInteger([1, 365], 'before its last day; default: 30') }),
    'models of entries whose provider has announced their end',
  ),
  state_lost: optional(strict({}), 'Redis has lost what it held'),
})

const AlertsShape = strict(
  {
    webhook: strict(
      {
        url: Type.String({ minLength: 1, maxLength: 2048, description: 'https, and a public host' }),
        secret: formed(
          '^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|file:/.{1,4000})$',
          `a reference, not the secret: \${ENV_NAME} or file:/<path>`,
          {
            description: `\${ENV_NAME} or file:/<path>, of whsec_ and base64 of 24 to 64 bytes; signs what is sent`,
          },
        ),
      },
      'who is told',
    ),
    recover_after_seconds: optionalInteger(
      [0, 86_400],
      'how long the cause has to be gone until an incident is over; default: 300',
    ),
    rules: Type.Record(Type.String({ pattern: NAME }), AlertRuleShape, {
      additionalProperties: false,
      maxProperties: 100,
      description: 'rule → the one thing that it watches',
    }),
  },
  'what is told to a webhook when it goes wrong, and when it is well again',
)

const RoleGrantShape = strict({
  group: optional(
    Type.String({ minLength: 1, maxLength: 256 }),
    'its members have the role; a value of groups_claim',
  ),
  email: optional(
    Type.String({ minLength: 3, maxLength: 254 }),
    'in place of group: who has this address, verified by the issuer, has the role',
  ),
  role: Type.Enum(['operator', 'admin'], {
    description:
      'operator: all workspaces; admin: those named here. Of several the highest wins, or all workspaces',
  }),
  workspaces: optional(Type.Array(Name, { minItems: 1, uniqueItems: true }), 'what an admin administers'),
})

const OidcShape = strict(
  {
    name: optional(
      Type.String({ minLength: 1, maxLength: 40 }),
      'what the button of the sign-in page calls it: "Sign in with …"; default: single sign-on',
    ),
    issuer: Type.String({ maxLength: 2048, description: 'its URL, exactly as its ID tokens have it' }),
    client_id: Type.String({ minLength: 1, maxLength: 256, description: 'of Larkway at the issuer' }),
    client_secret: optional(
      formed('^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|file:.+)$', `a reference: \${ENV_NAME} or file:<path>`, {
        maxLength: 4096,
      }),
      `a reference, \${ENV_NAME} or file:<path>, never the secret itself; without it the client is a public one`,
    ),
    scopes: optional(
      Type.Array(formed('^[\\x21\\x23-\\x5b\\x5d-\\x7e]+$', 'a scope', { maxLength: 256 }), {
        minItems: 1,
        maxItems: 32,
        uniqueItems: true,
      }),
      'what is asked of the issuer; default: openid, profile and email',
    ),
    groups_claim: optional(
      Type.String({ minLength: 1, maxLength: 256 }),
      'claim with the groups, a text or a list of texts; a.b is b within a; default: groups',
    ),
    name_claim: optional(
      Type.String({ minLength: 1, maxLength: 256 }),
      'claim by which the audit list calls people; default: email, and sub where there is none',
    ),
    session_seconds: optionalInteger(
      [60, 2_592_000],
      'longest session of a person, and so how long the groups that it began with count; default: as for keys',
    ),
    roles: Type.Array(RoleGrantShape, {
      minItems: 1,
      maxItems: 1000,
      description: 'who may sign in, and as what; nobody else may',
    }),
    issuer_logout: optionalFlag(
      'signing out also ends the session at the issuer, where that can be done; default: true',
    ),
  },
  'single sign-on by OpenID Connect',
)

const ConsoleShape = strict(
  {
    public_url: optional(
      formed('^https?://[^/?#]+$', 'an origin: scheme, host and port'),
      'origin under which browsers reach the console, for oidc; default: LARKWAY_PUBLIC_URL',
    ),
    key_sign_in: optionalFlag(
      'whether API keys sign in; false needs an operator in oidc.roles; default: true',
    ),
    session_seconds: optionalInteger([60, 2_592_000], 'longest session; default: 43200, 12 hours'),
    session_idle_seconds: optionalInteger(
      [60, 2_592_000],
      'how long a session lasts without a request; default: 7200, 2 hours',
    ),
    content_switch: optional(
      Type.Enum(['admin', 'operator']),
      'who may have the console show audio and transcripts of a workspace; default: admin',
    ),
    trace_url: optional(
      Type.String({ minLength: 1, maxLength: 2048 }),
      'where a trace is looked at, with {trace_id} in its path, query or fragment; requests link to it',
    ),
    oidc: Type.Optional(OidcShape),
  },
  'how people come into the console, and where it leads them',
)

const MetricsShape = strict(
  {
    tenant_labels: optional(
      Type.Array(Type.Enum(['workspace', 'app']), { minItems: 1, uniqueItems: true }),
      'counts requests and spending by these as well; default: false',
    ),
    max_tenants: optionalInteger(
      [1, 1_000],
      'how many are told apart, first come; the others are counted as `other`; default: 100',
    ),
  },
  'metrics for Prometheus',
)

const head = {
  console: Type.Optional(ConsoleShape),
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
  rate_limit: optional(RateLimitShape, 'of keys that have none of their own'),
  keys_stale_after_seconds: optionalInteger(
    [10, 86_400],
    'refuses keys of the state once the list of them could not be read for so long; default: never',
  ),
  alerts: Type.Optional(AlertsShape),
  metrics: Type.Optional(MetricsShape),
  usage: Type.Optional(UsageShape('400')),
  audio_url_domains: Type.Optional(
    Type.Array(Type.String({ minLength: 1, maxLength: 255 }), {
      description: 'hosts that every workspace may fetch audio from; *.example.com stands for its subdomains',
    }),
  ),
}

/** The parts of the file outside its named lists, which are looked at one by one. */
export const CatalogHead = strict(head)

/** `larkway.yaml`. The JSON Schema for editors is made of this. */
export const CatalogFile = strict({
  ...head,
  plans: Type.Optional(namedField(PlanShape, 'what a plan includes')),
  providers: namedField(ProviderShape, 'upstream accounts'),
  routes: namedField(RouteShape, 'ordered candidates for a call'),
  workspaces: namedField(WorkspaceShape, 'tenants'),
})

export type AlertFields = Static<typeof AlertsShape>
export type AlertRuleFields = Static<typeof AlertRuleShape>
export type ConsoleFields = Static<typeof ConsoleShape>
export type MetricFields = Static<typeof MetricsShape>
export type ProviderFields = Static<typeof ProviderShape>
export type EntryFields = Static<typeof EntryShape>
export type RouteFields = Static<typeof RouteShape>
export type AppFields = Static<typeof AppShape>
export type PurposeFields = Static<typeof PurposeShape>
export type KeyFields = Static<typeof KeyShape>
export type WorkspaceFields = Static<typeof WorkspaceShape>
export type SizeLimitFields = NonNullable<WorkspaceFields['limits']>
export type RateLimitFields = Static<typeof RateLimitShape>
export type UnitRatesFields = Static<typeof UnitRatesShape>
export type EndUserFields = Static<typeof EndUsersShape>
export type BudgetFields = Static<typeof BudgetShape>
