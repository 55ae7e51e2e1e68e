import { type Static, type TSchema, Type } from 'typebox'
import { SCOPES } from '../../contracts/catalog.ts'
import type { BreakerView } from '../../contracts/console.ts'
import { RequireShape } from '../../contracts/requirements.ts'
import { USAGE_COLUMNS, type UsageColumn } from '../../contracts/usage-record.ts'
import { amount, count, moment, nullable, shape, text } from '../../gateway/api/openapi/schema.ts'
import type { ExplainRow } from '../../gateway/call/select/verdict.ts'
import type { AppFields, EndUserFields, ProviderFields, RouteFields } from '../../gateway/catalog/file.ts'
import { AppShape } from '../../gateway/catalog/file.ts'
import type { RequestAnswer } from './answers/requests.ts'

// Answers of the management API, for its reference and, by `answers/`, for the server and the page: in wire names, with
// times in RFC 3339. A test holds the answers of a node to them.

/** An object of which the reference says no more than its description. */
const open = <Value = object>(description: string) =>
  Type.Unsafe<Value>(Type.Object({}, { additionalProperties: true, description }))
const list = <Item extends TSchema>(item: Item, says: { readonly description?: string } = {}) =>
  Type.Unsafe<readonly Static<Item>[]>(Type.Array(item, says))
const lines = (description: string) => list(Type.String(), { description })
const optional = <Value extends TSchema>(value: Value) => Type.Optional(value)
const flag = (description: string) => Type.Boolean({ description })
const among = <const Value extends string>(values: readonly Value[], description: string) =>
  Type.Unsafe<Value>(Type.Enum([...values], { description }))

const ManagedBy = among(
  ['file', 'console'],
  '`file`: defined in the configuration file, and cannot be changed here',
)
const Issues = optional(lines('why it is not in force; absent: it is'))
const total = { total: count('matches on all pages'), all: count('of the workspace') }
const by = {
  published_at: nullable(moment('when'), 'null: never, or managed by file'),
  published_by: nullable(text('who'), 'the same'),
}

/** An answer that is a list in a member. */
export function listShape(
  title: string,
  name: string,
  item: TSchema,
  more: Record<string, TSchema> = {},
): TSchema {
  return shape(title, { [name]: Type.Array(item), ...more })
}

export const Deleted = shape('ManagedDeleted', { deleted: Type.Literal(true) })

const BOOK = {
  since: Type.Union([Type.String(), Type.Null()], {
    description: 'a full hour, from which both are counted; null: nothing was charged yet',
  }),
  booked_usd: Type.Number({ description: 'charged for good' }),
  recorded_usd: Type.Number({ description: 'cost of the records' }),
  difference_usd: Type.Number({ description: 'charged minus recorded' }),
  reserved_usd: Type.Number({ description: 'set aside for calls under way, and not booked yet' }),
}

export const Books = shape('ManagedBooks', {
  complete_until: text('records of calls that ended later may be missing'),
  data: list(Type.Object({ workspace: Type.String(), ...BOOK })),
  total: Type.Object(BOOK),
})

export const App = shape('ManagedApp', {
  id: text('its name'),
  fields: Type.Unsafe<AppFields>(
    Type.Object(AppShape.properties, { description: 'as in a configuration file' }),
  ),
  managed_by: ManagedBy,
  issues: Issues,
})

export const Apps = listShape('ManagedApps', 'apps', App, total)

export const WorkspaceSummary = shape('ManagedWorkspaceSummary', {
  id: text('its name in paths'),
  name: text('for people'),
  plan: nullable(text('its plan'), 'null: everything is included'),
  managed_by: ManagedBy,
  apps: count('how many'),
  routes: count('how many'),
})

export const WorkspaceSummaries = listShape('ManagedWorkspaces', 'workspaces', WorkspaceSummary)

const UNIT_RATES = {
  tokens_per_minute: Type.Optional(count('tokens of its calls')),
  audio_seconds_per_minute: Type.Optional(count('seconds of audio of its transcriptions')),
}

export const Workspace = shape('ManagedWorkspace', {
  id: text('its name in paths'),
  name: text('for people'),
  plan: nullable(text('its plan'), 'null: everything is included'),
  plans: lines('plans that there are, for operators'),
  managed_by: ManagedBy,
  budget_usd_per_month: nullable(amount('cap for all its keys together'), 'null: none'),
  trial: optional(
    nullable(
      shape('ManagedTrial', {
        allowance_usd: amount('what calls may come to'),
        expires_at: text('until when'),
      }),
      'null: none',
    ),
  ),
  rate_limit: nullable(Type.Object(UNIT_RATES), 'of all its keys together; null: none'),
  end_users: nullable(open<EndUserFields>('as in a configuration file'), 'null: nothing is said of them'),
  account: nullable(
    shape('ManagedAccount', {
      credits_usd: Type.Number({ description: 'left to spend' }),
      reserved_usd: amount('by calls under way'),
      spent_usd: amount('this month'),
      month: text('`2026-11`, in UTC'),
      trial_spent_usd: amount('of the trial'),
      trial_allowance_usd: nullable(amount('of the trial'), 'null: there is none'),
    }),
    'null: the state does not answer',
  ),
  content_shown: flag('whether the console may show audio and transcripts'),
  purposes: list(
    shape('ManagedPurpose', {
      purpose: text('the label'),
      description: text('shown in GET /v1/me'),
      enabled: flag('false falls back to the routing of the app'),
      require: optional(
        Type.With(RequireShape, { description: 'what its calls demand of the entries; absent: nothing' }),
      ),
      managed_by: ManagedBy,
    }),
  ),
  apps: list(App),
})

const Fields = open<RouteFields>('as in a configuration file')

export const RouteSummary = shape('ManagedRouteSummary', {
  name: text('its name'),
  managed_by: ManagedBy,
  version: nullable(text('`pv_…` that serves'), 'null: never published'),
  number: nullable(count('of the published version'), 'null: never published, or managed by file'),
  in_service: flag('false: taken out of service, or never published'),
  strategy: text('how candidates are ordered'),
  entries: lines('`provider/model` of what serves, else of the draft'),
  has_draft: flag('a draft is not published yet'),
  apps: lines('that lead to it'),
  ...by,
  issues: Issues,
})

export const Routes = listShape('ManagedRoutes', 'routes', RouteSummary, total)

export const Route = shape('ManagedRoute', {
  name: text('its name'),
  workspace: text('its owner'),
  managed_by: ManagedBy,
  apps: lines('that lead to it'),
  published: nullable(
    shape('ManagedPublication', {
      number: nullable(count('of the version'), 'null: managed by file'),
      version: text('`pv_…`'),
      fields: Fields,
      ...by,
      note: nullable(text('why'), 'null: nothing was said'),
    }),
    'null: never published',
  ),
  draft: nullable(
    shape('ManagedDraft', {
      revision: count('which to name when it is replaced or published'),
      fields: Fields,
      version: nullable(text('`pv_…` that it would have'), 'null: it has issues'),
      saved_at: moment('when'),
      saved_by: text('who'),
      issues: lines('why it cannot be published'),
      changes: lines('against what is published'),
    }),
    'null: there is none',
  ),
  issues: Issues,
})

export const Version = shape('ManagedVersion', {
  number: count('from 1'),
  version: nullable(text('`pv_…`'), 'null: it could not be served now'),
  hash: text('of its fields, SHA-256'),
  published_at: moment('when'),
  published_by: text('who'),
  note: nullable(text('why'), 'null: nothing was said'),
  fields: Fields,
  current: flag('it is the one in force'),
})

export const Versions = listShape('ManagedVersions', 'versions', Version)

/** `breaker`: how it fares on the node that answers; absent: as usual. */
type ExplainedEntry = ExplainRow & { readonly breaker?: BreakerView['state'] }

export const Explanation = shape('ManagedExplanation', {
  refusal: nullable(
    shape('ManagedRefusal', { code: text('of the error'), message: text('in words') }),
    'why nothing would serve; null: the entry of rank 1 would',
  ),
  entries: list(
    open<ExplainedEntry>('an entry with `route`, `provider`, `model`, `rank`, and why it is left out'),
  ),
  issues: lines('why the fields that were sent are no route'),
})

const requests = count('requests')
const entryName = { provider: text('as the configuration names it'), model: text('its name') }
const ImpactEntry = shape('ManagedImpactEntry', {
  ...entryName,
  published: count('requests that the published version tries it for first'),
  draft: count('the same of the draft'),
})
const ImpactMove = shape('ManagedImpactMove', {
  from: shape('ManagedEntryName', entryName),
  to: shape('ManagedEntryName', entryName),
  requests,
})

export const Traffic = shape('ManagedTraffic', {
  window_ms: count('how far back'),
  requests: count('recorded requests that an entry served'),
  entries: list(shape('ManagedTrafficEntry', { ...entryName, requests })),
})

export const Impact = shape('ManagedImpact', {
  issues: lines('why the draft is no route; then nothing is judged'),
  requests: count('requests that were judged'),
  from: nullable(moment('when the oldest of them ended'), 'null: there is none'),
  to: nullable(moment('when the newest of them ended'), 'null: there is none'),
  coverage: nullable(
    shape('ManagedCoverage', {
      requests: count('of the workspace in the last hour'),
      recorded: count('of them'),
      failures_dropped: count('failed requests that are not recorded'),
    }),
    'null: nothing was counted',
  ),
  left_out: shape('ManagedImpactLeftOut', {
    not_recorded: count('failed before entries were selected, or recorded by an earlier version'),
    app_gone: count('of apps that are gone'),
    answered_without_provider: count('from the cache, or under an idempotency key'),
  }),
  entries: list(ImpactEntry),
  moves: list(ImpactMove),
  refused: shape('ManagedImpactRefusals', {
    published: count('refused by the published version'),
    draft: count('refused by the draft'),
    newly: count('refused by the draft alone'),
    reasons: list(
      shape('ManagedImpactReason', { code: text('of the error'), message: text('in words'), requests }),
    ),
  }),
  cost: shape('ManagedImpactCost', {
    requests: count('served by both versions at a known cost'),
    unknown: count('served by both, at a cost that is not known'),
    published_usd: amount('at the prices of the entries that the published version tries first'),
    draft_usd: amount('the same of the draft'),
  }),
  uncertain: count('requests of which something is not recorded that selection looks at'),
  unrecorded: list(
    shape('ManagedImpactUnrecorded', { field: text('of the call'), requests: count('that have it') }),
  ),
})

type DeclaredFields = Omit<
  ProviderFields,
  'kind' | 'access' | 'workspace' | 'api_key' | 'base_url' | 'base_urls' | 'health'
>

/** A server of a provider, as the node that answers sees it. */
interface Replica {
  /** It gets calls. */
  readonly up: boolean
  /** Calls and live sessions that are under way. */
  readonly calls: number
  /** How often it was passed over since a call at it had failed. */
  readonly ejections: number
  /** Why its probes fail, in our words; null: they do not. */
  readonly trouble: string | null
}

export const Provider = shape('ManagedProvider', {
  name: text('its name'),
  kind: text('its protocol'),
  access: among(['byok', 'platform'], 'whose account it is'),
  workspace: nullable(text('its owner'), 'null: of the platform'),
  base_url: nullable(text('its address'), 'null: that of the kind, or for operators only'),
  credential: among(
    ['stored', 'reference', 'none'],
    '`reference`: of the environment or a file; never shown',
  ),
  managed_by: ManagedBy,
  facts: open<DeclaredFields>('other declared fields: prices, capabilities, limits'),
  base_urls: optional(lines('its servers, for operators')),
  health: optional(open<NonNullable<ProviderFields['health']>>('how they are probed, for operators')),
  replicas: optional(list(open<Replica>('a server: `up`, `calls`, `ejections`, `trouble`'))),
  issues: Issues,
})

export const Kind = shape('ManagedKind', {
  kind: text('its name'),
  needs_credential: flag('it takes a key'),
  base_url: nullable(text('its address'), 'null: it has to be given'),
})

export const Facts = shape('ManagedFacts', {
  issued_at: text('when the facts and prices were issued by which models are known'),
  stale: lines('models of routes that have ended, end soon or are deprecated, and an old document'),
})

export const Providers = listShape('ManagedProviders', 'providers', Provider, {
  kinds: list(Kind),
  facts: Facts,
})

export const ProviderDetail = shape('ManagedProviderDetail', {
  name: text('its name'),
  kind: text('its protocol'),
  access: among(['byok', 'platform'], 'whose account it is'),
  workspace: nullable(text('its owner'), 'null: of the platform'),
  credential: nullable(
    among(['stored', 'reference', 'none'], '`reference`: of the environment or a file; never shown'),
    'null: for operators only',
  ),
  managed_by: nullable(ManagedBy, 'null: for operators only'),
  issues: Issues,
  used_by: list(
    shape('ManagedProviderUse', {
      workspace: text('owner of the route'),
      route: text('a published route with an entry of the provider'),
      models: lines('of the provider'),
      others: count('entries of other providers'),
      apps: lines('that lead to the route'),
    }),
    { description: 'at most 200' },
  ),
  used_by_total: count('how many there are'),
})

export const ProviderCheck = shape('ManagedProviderCheck', {
  ok: flag('it took the credential'),
  models: lines('that it lists'),
  trouble: nullable(text('in our words'), 'null: it answered well'),
})

const keyMembers = {
  id: text('`key_…`'),
  name: text('for people'),
  prefix: nullable(text('the first characters'), 'null: the file has only the hash'),
  app: text('the app that calls with it'),
  scopes: list(Type.Enum([...SCOPES])),
  rate_limit: Type.Object({
    requests_per_minute: count('how fast its bucket fills'),
    burst: count('how many requests at once'),
    ...UNIT_RATES,
  }),
  rate_limit_is_default: flag('it has none of its own'),
  budget_usd_per_month: nullable(amount('cap of its own'), 'null: none'),
  spent_usd: nullable(amount('this month'), 'null: the state does not answer'),
  created_at: nullable(moment('when'), 'null: of the file'),
  expires_at: nullable(moment('when'), 'null: never'),
  revoked_at: nullable(moment('when'), 'null: it is not'),
  last_used_at: nullable(moment('to a few seconds'), 'null: never'),
  former: nullable(
    shape('FormerKey', { prefix: text('the first characters'), until: moment('until when it is taken') }),
    'what it was before it was rotated; null: that is not taken any more',
  ),
  managed_by: ManagedBy,
}

export const Key = shape('ManagedKey', keyMembers)
export const NewKey = shape('NewManagedKey', { ...keyMembers, key: text('the key, shown this once') })
export const Keys = listShape('ManagedKeys', 'keys', Key, total)

export const Domains = shape('ManagedDomains', {
  domains: lines('hosts that audio may be fetched from'),
  max_domains: count('how many there may be'),
  platform_domains: lines('those of the configuration'),
})

export const ManagedWebhook = shape('ManagedWebhook', {
  webhook: nullable(
    shape('ManagedWebhookTarget', { url: text('what is called'), created_at: moment('when it was set') }),
    'null: there is none',
  ),
  signing_secret: optional(text('`whsec_…`, shown when it is set')),
})

export const WebhookTest = shape('ManagedWebhookTest', {
  ok: flag('answered with 2xx'),
  status: nullable(count('HTTP status'), 'null: no answer'),
  milliseconds: count('until then'),
  reason: nullable(text('in our words'), 'null: it was taken'),
})

const JOB_STATUS = ['queued', 'processing', 'succeeded', 'failed', 'cancelled'] as const

export const Delivery = shape('ManagedDelivery', {
  id: text('`evt_…`'),
  job_id: text('whose end it tells'),
  status: among(JOB_STATUS, 'of the job'),
  occurred_at: moment('when the job ended'),
  attempts: count('so far'),
  next_attempt_at: nullable(moment('when'), 'null: it was given up'),
  reason: nullable(text('why the last attempt failed'), 'null: none was made'),
})

export const WebhookDeliveries = listShape('ManagedDeliveries', 'deliveries', Delivery)

export const Redelivered = shape('ManagedRedelivery', { redelivered: Type.Literal(true) })

const jobMembers = {
  id: text('`tj_…` or `qj_…`'),
  kind: among(['transcription', 'queue'], 'how it was submitted'),
  endpoint: text('what it calls'),
  mode: text('how urgent it is'),
  app: text('whose it is'),
  key_id: text('that submitted it'),
  status: among(JOB_STATUS, 'now'),
  cancel_requested: flag('it is to end'),
  created_at: moment('when'),
  started_at: nullable(moment('when'), 'null: not yet'),
  completed_at: nullable(moment('when'), 'null: not yet'),
  expires_at: nullable(moment('when its record goes'), 'null: not yet known'),
  attempts: count('times that it was taken up'),
  parts: nullable(
    shape('ManagedJobParts', { done: count('parts that were heard'), total: count('parts') }),
    'null: its audio is not heard in parts now',
  ),
  error: nullable(
    shape('ManagedJobError', { code: text('of the error'), message: text('in words') }),
    'null: none',
  ),
  policy_version_id: nullable(text('`pv_…`'), 'null: not run'),
  can_retry: flag('it failed in the queue'),
  has_result: flag('it has one; results are read by the key of the app'),
}

export const Job = shape('ManagedJob', jobMembers)
export const JobList = listShape('ManagedJobs', 'jobs', Job)
export const JobDetail = shape('ManagedJobDetail', {
  ...jobMembers,
  key_name: nullable(text('of the key'), 'null: the key is not known any more'),
  request_id: text('of its submission'),
  history: list(
    shape('ManagedJobStep', {
      at: moment('when'),
      status: among(JOB_STATUS, 'from then on'),
      claim: count('of workers'),
    }),
  ),
  runs: list(open<RequestAnswer>('a run, with what was tried: as a line of the request log')),
})

const LOG_KINDS: Readonly<Record<UsageColumn['kind'], (says: string) => TSchema>> = {
  id: text,
  word: text,
  time: moment,
  flag,
  seconds: amount,
  money: (says) => Type.Number({ description: says }),
  count,
  milliseconds: count,
}

const LogRecord = shape('LogRecord', {
  ...Object.fromEntries(
    USAGE_COLUMNS.map(({ name, kind, isNullable, says }) => {
      const value = LOG_KINDS[kind](says)
      return [name, isNullable ? nullable(value, 'null: there is none, or it is not known') : value]
    }),
  ),
  key_name: nullable(text('of the key'), 'null: the key is not known any more'),
  error_message: nullable(text('the general sentence of its error'), 'null: there is none'),
  trace_url: nullable(text('where its trace is looked at'), 'null: the configuration does not say where'),
  tries: list(
    shape('LogTry', {
      provider: text('its name'),
      model: text('its name'),
      reason: text('`ok`, or why it failed'),
    }),
    { description: '`attempt_reasons`, taken apart' },
  ),
})

export const Log = listShape('Log', 'records', LogRecord, {
  is_recorded: flag('this node keeps records; false: there may be some of others, or of earlier'),
  next: nullable(text('`after` of the next page'), 'null: there are no more'),
  searched: Type.Object({
    from: moment('all that ended from then on'),
    to: moment('until then was looked at'),
  }),
  total: nullable(count('how many there are'), 'null: that is not known'),
})

const TRUNCATED = { truncated: flag('there are more than the file has') }

export const LogExport = listShape('LogExport', 'records', LogRecord, TRUNCATED)

export const OneLogRecord = shape('OneLogRecord', {
  record: LogRecord,
  newer: nullable(text('id of the record that ended after it'), 'null: there is none'),
  older: nullable(text('id of the record that ended before it'), 'null: there is none'),
})

export const AuditLine = shape('ManagedAuditLine', {
  number: count('of the line'),
  at: moment('when'),
  by: Type.Object({
    via: among(['console', 'api', 'cli'], 'by which way'),
    key_id: nullable(text('the key'), 'null: of the machine'),
    name: text('of the key, the person or the command'),
    subject: optional(text('how their OpenID provider names a person')),
  }),
  action: text('`route.publish` …'),
  workspace: nullable(text('whose'), 'null: of the platform'),
  target: text('what was changed'),
  before: nullable(text('hash of it before'), 'null: there was none'),
  after: nullable(text('hash of it after'), 'null: there is none'),
  detail: nullable(text('more'), 'null: nothing more'),
})

export const Audit = listShape('ManagedAudit', 'lines', AuditLine, {
  next: nullable(count('`below` of the next page'), 'null: there is none'),
})

export const AuditExport = listShape('ManagedAuditExport', 'lines', AuditLine, TRUNCATED)
