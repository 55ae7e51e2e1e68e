import { type TObject, type TSchema, Type } from 'typebox'
import type { ErrorCode } from '../../contracts/errors.ts'
import type { ParameterName } from '../../gateway/api/openapi/headers.ts'
import { BODY_ERRORS, CSV, json, KEY_ERRORS, type Operation } from '../../gateway/api/openapi/operation.ts'
import { type Json, PlainSchemas } from '../../gateway/api/openapi/schema.ts'
import type { EdgeRoute } from '../../gateway/edge/server.ts'
import * as shapes from './answer-shapes.ts'
import type { ConsoleRoute } from './endpoint.ts'

/** An endpoint's entry in the reference. */
interface Described {
  readonly id: string
  readonly summary: string
  readonly description?: string
  readonly answer: TSchema
  /** The answer that `format=json` asks for. */
  readonly exported?: TSchema
  readonly errors?: readonly ErrorCode[]
}

const IDEMPOTENT = 'Sent again it changes nothing more'

const WORKSPACES = {
  'GET /workspaces': { id: 'listWorkspaces', summary: 'List workspaces', answer: shapes.WorkspaceSummaries },
  'GET /workspaces/:workspace': { id: 'getWorkspace', summary: 'Get a workspace', answer: shapes.Workspace },
  'PUT /workspaces/:workspace': {
    id: 'putWorkspace',
    summary: 'Create or replace a workspace',
    description: IDEMPOTENT,
    answer: shapes.Workspace,
  },
  'DELETE /workspaces/:workspace': {
    id: 'deleteWorkspace',
    summary: 'Remove a workspace',
    description:
      'Its settings go first. Credits, jobs and records stay under its name, also for one made again',
    answer: shapes.Deleted,
  },
  'POST /workspaces/:workspace/credits': {
    id: 'addCredits',
    summary: 'Add credits',
    description: 'Booked once per `grant_id`',
    answer: shapes.Workspace,
  },
  'PUT /workspaces/:workspace/content': {
    id: 'putContentShown',
    summary: 'Say whether the console shows audio and transcripts',
    answer: shapes.Workspace,
  },
  'PUT /workspaces/:workspace/purposes/:purpose': {
    id: 'putPurpose',
    summary: 'Create or replace a purpose',
    description: `${IDEMPOTENT}. The workspace lists its purposes`,
    answer: shapes.Workspace,
  },
  'DELETE /workspaces/:workspace/purposes/:purpose': {
    id: 'deletePurpose',
    summary: 'Remove a purpose',
    answer: shapes.Workspace,
  },
  'GET /workspaces/:workspace/apps': { id: 'listApps', summary: 'List apps', answer: shapes.Apps },
  'PUT /workspaces/:workspace/apps/:app': {
    id: 'putApp',
    summary: 'Create or replace an app',
    description: IDEMPOTENT,
    answer: shapes.Workspace,
  },
  'DELETE /workspaces/:workspace/apps/:app': {
    id: 'deleteApp',
    summary: 'Remove an app',
    answer: shapes.Workspace,
  },
} as const satisfies Record<string, Described>

const ROUTE = '/workspaces/:workspace/routes/:route'

const ROUTES = {
  'GET /workspaces/:workspace/routes': { id: 'listRoutes', summary: 'List routes', answer: shapes.Routes },
  [`GET ${ROUTE}`]: {
    id: 'getRoute',
    summary: 'Get a route, what is published and its draft',
    answer: shapes.Route,
  },
  [`PUT ${ROUTE}`]: {
    id: 'putRoute',
    summary: 'Create or replace a route, and publish it',
    description:
      `${IDEMPOTENT}, and makes no version. Checked as a draft that is published. 409 where the published version is ` +
      'not `number`, or a draft of other fields is open and `force` is not sent',
    answer: shapes.Route,
  },
  [`DELETE ${ROUTE}`]: { id: 'deleteRoute', summary: 'Remove a route', answer: shapes.Deleted },
  [`PUT ${ROUTE}/draft`]: {
    id: 'putDraft',
    summary: 'Save the draft of a route',
    description: 'Serves nothing yet. `revision` is that of the draft which it replaces; another one is 409',
    answer: shapes.Route,
  },
  [`DELETE ${ROUTE}/draft`]: {
    id: 'deleteDraft',
    summary: 'Drop the draft of a route',
    answer: shapes.Route,
  },
  [`POST ${ROUTE}/publish`]: {
    id: 'publishRoute',
    summary: 'Publish the draft of a route',
    description:
      'Checked against all that is served; what would make anything invalid is 400 with `details.issues`. 409 where ' +
      'the draft is not `revision`, or the published version not `number`, as after a roll-back',
    answer: shapes.Route,
  },
  [`GET ${ROUTE}/versions`]: {
    id: 'listVersions',
    summary: 'List the versions of a route',
    answer: shapes.Versions,
  },
  [`POST ${ROUTE}/rollback`]: {
    id: 'rollBackRoute',
    summary: 'Publish an earlier version of a route',
    description: '409 where the published version is not `replaces`',
    answer: shapes.Route,
  },
  [`GET ${ROUTE}/traffic`]: {
    id: 'getTraffic',
    summary: 'Tell which entries served the recorded requests of the last hour',
    answer: shapes.Traffic,
  },
  [`POST ${ROUTE}/impact`]: {
    id: 'previewImpact',
    summary: 'Preview the impact of a draft on recent requests',
    description:
      'Up to 1,000 recorded requests of the route, judged by the published version and by the draft, or by the ' +
      '`fields` of a route as if they were. Nothing is sent to a provider',
    answer: shapes.Impact,
  },
  'POST /workspaces/:workspace/explain': {
    id: 'explainRoute',
    summary: 'Explain which entries would serve a request',
    description:
      'With what is in force, or with the `fields` of a route as if they were. Nothing is sent to a provider',
    answer: shapes.Explanation,
  },
} as const satisfies Record<string, Described>

const OWN = '/workspaces/:workspace/providers'
const KEYS = '/workspaces/:workspace/keys'
const WEBHOOK = '/workspaces/:workspace/webhook'
const JOBS = '/workspaces/:workspace/jobs'

const PROVIDERS = {
  [`GET ${OWN}`]: {
    id: 'listProviders',
    summary: 'List the providers of a workspace',
    answer: shapes.Providers,
  },
  [`PUT ${OWN}/:name`]: {
    id: 'putProvider',
    summary: 'Create or replace a provider of a workspace',
    description:
      'The stored `credential` and the address stay when they are left out; the credential is never shown',
    answer: shapes.Provider,
  },
  [`GET ${OWN}/:name`]: {
    id: 'getProvider',
    summary: 'Get a provider of a workspace, or of the platform, and what uses it',
    answer: shapes.ProviderDetail,
  },
  [`DELETE ${OWN}/:name`]: {
    id: 'deleteProvider',
    summary: 'Remove a provider of a workspace',
    answer: shapes.Deleted,
  },
  [`POST ${OWN}/:name/check`]: {
    id: 'checkProvider',
    summary: 'Ask a provider for its models, with its credential',
    answer: shapes.ProviderCheck,
  },
  'GET /providers': {
    id: 'listPlatformProviders',
    summary: 'List platform providers',
    answer: shapes.Providers,
  },
  'PUT /providers/:name': {
    id: 'putPlatformProvider',
    summary: 'Create or replace a platform provider',
    answer: shapes.Provider,
  },
  'GET /providers/:name': {
    id: 'getAnyProvider',
    summary: 'Get a provider, whoever owns it, and what uses it',
    answer: shapes.ProviderDetail,
  },
  'DELETE /providers/:name': {
    id: 'deletePlatformProvider',
    summary: 'Remove a platform provider',
    answer: shapes.Deleted,
  },
  'POST /providers/:name/check': {
    id: 'checkPlatformProvider',
    summary: 'Ask a platform provider for its models',
    answer: shapes.ProviderCheck,
  },
} as const satisfies Record<string, Described>

const REST = {
  [`GET ${KEYS}`]: { id: 'listKeys', summary: 'List API keys', answer: shapes.Keys },
  [`POST ${KEYS}`]: {
    id: 'createKey',
    summary: 'Create an API key',
    description: 'The only answer that shows the key',
    answer: shapes.NewKey,
  },
  [`PUT ${KEYS}/:id`]: {
    id: 'putKey',
    summary: 'Replace the settings of an API key',
    description: `${IDEMPOTENT}. What is left out is the default from then on`,
    answer: shapes.Key,
  },
  [`POST ${KEYS}/:id/rotation`]: {
    id: 'rotateKey',
    summary: 'Replace an API key by a new one with the same settings',
    description: 'The former one is taken for a while beside it. The only answer that shows the key',
    answer: shapes.NewKey,
  },
  [`DELETE ${KEYS}/:id`]: {
    id: 'revokeKey',
    summary: 'Revoke an API key',
    description: IDEMPOTENT,
    answer: shapes.Key,
  },
  'GET /workspaces/:workspace/audio-url-domains': {
    id: 'getDomains',
    summary: 'List allowed audio domains',
    answer: shapes.Domains,
  },
  'PUT /workspaces/:workspace/audio-url-domains': {
    id: 'putDomains',
    summary: 'Replace allowed audio domains',
    description: IDEMPOTENT,
    answer: shapes.Domains,
  },
  [`GET ${WEBHOOK}`]: { id: 'getWebhook', summary: 'Get the webhook of jobs', answer: shapes.ManagedWebhook },
  [`PUT ${WEBHOOK}`]: {
    id: 'putWebhook',
    summary: 'Set the webhook of jobs',
    description: 'Makes a new secret each time; the one before signs for another day',
    answer: shapes.ManagedWebhook,
  },
  [`DELETE ${WEBHOOK}`]: {
    id: 'deleteWebhook',
    summary: 'Remove the webhook of jobs',
    answer: shapes.ManagedWebhook,
  },
  [`POST ${WEBHOOK}/test`]: { id: 'testWebhook', summary: 'Send a test event', answer: shapes.WebhookTest },
  [`GET ${WEBHOOK}/deliveries`]: {
    id: 'listDeliveries',
    summary: 'List deliveries that wait or were given up',
    answer: shapes.WebhookDeliveries,
  },
  [`POST ${WEBHOOK}/deliveries/:job/redeliver`]: {
    id: 'redeliver',
    summary: 'Announce the end of a job again',
    answer: shapes.Redelivered,
    errors: ['JOB_NOT_FOUND'],
  },
  [`GET ${JOBS}`]: { id: 'listJobs', summary: 'List jobs, newest first', answer: shapes.JobList },
  [`GET ${JOBS}/:job`]: {
    id: 'getJob',
    summary: 'Get a job',
    description: 'Without its result, which is for keys of its app',
    answer: shapes.JobDetail,
    errors: ['JOB_NOT_FOUND'],
  },
  [`POST ${JOBS}/:job/cancel`]: {
    id: 'cancelAnyJob',
    summary: 'Cancel a job',
    answer: shapes.JobDetail,
    errors: ['JOB_NOT_FOUND'],
  },
  [`POST ${JOBS}/:job/retry`]: {
    id: 'retryJob',
    summary: 'Queue a failed job of the queue again',
    answer: shapes.JobDetail,
    errors: ['JOB_NOT_FOUND'],
  },
  'GET /books': {
    id: 'compareBooks',
    summary: 'Compare what accounts were charged with what the records of usage cost',
    description:
      'Of the workspace; for operators of all, or of one. `difference_usd` is 0 when nothing was called since ' +
      '`complete_until`',
    answer: shapes.Books,
    errors: ['OVERLOADED'],
  },
  'GET /log': {
    id: 'listLog',
    summary: 'List records of the usage ledger, newest first',
    description:
      'Of the workspace; for operators of all, or of one. A page ends early when it has read 256 MiB or for 8 s: ' +
      '`searched` says how far it came, and `next` is `after` of the next page. `format` sends all, at most 100,000',
    answer: shapes.Log,
    exported: shapes.LogExport,
    errors: ['OVERLOADED'],
  },
  'GET /log/:record': {
    id: 'getLogRecord',
    summary: 'Get a record of the usage ledger, and which are next to it',
    description: 'Those next to it pass the filters; the record itself need not',
    answer: shapes.OneLogRecord,
    errors: ['OVERLOADED'],
  },
  'GET /audit': {
    id: 'listAudit',
    summary: 'List the audit lines, newest first',
    description:
      'Of the workspace; for operators of all, or of one. `actor` and `target` are looked for in names and ids, ' +
      '`from` and `to` are dates, times in RFC 3339, or epoch milliseconds, both inclusive. `format` sends all of ' +
      'them, at most 100,000',
    answer: shapes.Audit,
    exported: shapes.AuditExport,
  },
} as const satisfies Record<string, Described>

/** Every operation of the management API, by method and path as the console's API has them. */
const MANAGED: ReadonlyMap<string, Described> = new Map<string, Described>(
  Object.entries({ ...WORKSPACES, ...ROUTES, ...PROVIDERS, ...REST }),
)

const describedOf = ({ method, name }: ConsoleRoute) => MANAGED.get(`${method} ${name}`)

/** The endpoints that are served to keys. The others are for the page: what is only looked at, and content. */
export function managementRoutes(endpoints: readonly ConsoleRoute[]): EdgeRoute[] {
  return endpoints.filter((one) => describedOf(one) !== undefined).map(({ byKey }) => byKey)
}

/** @throws Error when one is described that there is not */
export function operationsOf(endpoints: readonly ConsoleRoute[]): Operation[] {
  const operations = endpoints.flatMap((one) => {
    const described = describedOf(one)
    return described === undefined ? [] : [operationOf(one, described)]
  })
  if (operations.length !== MANAGED.size)
    throw new Error('the management API describes an endpoint that there is not')
  return operations
}

function operationOf({ method, byKey, options }: ConsoleRoute, described: Described): Operation {
  const { id, summary, description, answer, exported, errors = [] } = described
  const { body, query, role, status = 200 } = options
  const contents = exported === undefined ? [json(answer)] : [json(Type.Union([answer, exported])), CSV]
  const headers = exported === undefined ? [] : (['Content-Disposition'] as const)
  return {
    method,
    path: byKey.path,
    // Other operations of the same subject are at other doors.
    id: `admin${id[0]?.toUpperCase()}${id.slice(1)}`,
    tag: 'Management',
    summary,
    ...(description === undefined ? {} : { description }),
    scope: role ?? 'admin',
    limited: false,
    idempotent: false,
    parameters: query === undefined ? [] : parametersOf(query),
    ...(body === undefined ? {} : { body: [json({ ...body, additionalProperties: false })] }),
    answers: [{ status, description: 'as it is now', contents, headers }],
    errors: [
      ...KEY_ERRORS,
      ...(body === undefined ? [] : BODY_ERRORS),
      'NOT_FOUND',
      ...(method === 'GET' ? [] : ['CONFLICT' as const]),
      ...errors,
    ],
  }
}

function parametersOf(query: TObject): (ParameterName | Json)[] {
  const required = new Set(query.required ?? [])
  return Object.entries(query.properties).map(([name, schema]) => ({
    name,
    in: 'query',
    ...(required.has(name) ? { required: true } : {}),
    schema: new PlainSchemas().of(schema),
  }))
}

/** The operations as a table in Markdown. */
export function managementTable(operations: readonly Operation[]): string {
  const rows = operations.map(({ method, path, summary, description, scope }) => {
    const does = description === undefined ? summary : `${summary}. ${description}`
    return `| \`${method} ${path.replaceAll(/:(\w+)/g, '{$1}')}\` | ${does} | \`${scope}\` |`
  })
  return ['| Endpoint | What it does | Scope |', '|---|---|---|', ...rows].join('\n')
}
