import { type Static, Type } from 'typebox'
import { GatewayError } from '../../../contracts/errors.ts'
import type { Role } from '../../../gateway/admin/actor.ts'
import { type ProviderName, putProvider, removeProvider } from '../../../gateway/admin/catalog.ts'
import { issuesFor } from '../../../gateway/admin/issues.ts'
import { catalogParts, type Part, partOf } from '../../../gateway/admin/parts.ts'
import { optional } from '../../../gateway/api/json-request.ts'
import { listModels } from '../../../gateway/call/select/list-models.ts'
import { ProviderShape } from '../../../gateway/catalog/file.ts'
import { isSealed } from '../../../gateway/catalog/secret.ts'
import { documentAge, endedModels, fadingModels } from '../../../gateway/providers/facts.ts'
import type {
  FactsAnswer,
  KindAnswer,
  ProviderAnswer,
  ProviderCheckAnswer,
  ReplicaAnswer,
} from '../answers/providers.ts'
import type { ConsoleContext } from '../context.ts'
import { type ConsoleRoute, consoleEndpoint } from '../endpoint.ts'
import type { Viewing } from './workspaces.ts'

const OWN = '/workspaces/:workspace/providers'
const PLATFORM = '/providers'
/** More than any provider lists: a hostile one must not fill the page. */
const MODELS_MAX = 2000

const { kind, access: _a, workspace: _w, api_key: _k, base_url: _b, ...facts } = ProviderShape.properties

const Body = Type.Object({
  kind,
  credential: optional(
    Type.String({ minLength: 1, maxLength: 2048 }),
    "the provider's key, which is kept sealed and never shown; the stored one stays when it is left out",
  ),
  base_url: optional(
    Type.String({ maxLength: 2048 }),
    "for operators: an address other than the kind's own, which null brings back; stays when it is left out",
  ),
  ...facts,
})

/** Providers of a workspace, with its own credentials, and for operators those of the platform, for every workspace. */
export function providerEndpoints(context: ConsoleContext): ConsoleRoute[] {
  const body = { body: Body }
  const operator = { role: 'operator' } as const
  return [
    consoleEndpoint(context, 'GET', OWN, {}, (call) => listProviders(call, call.params.workspace)),
    consoleEndpoint(context, 'PUT', `${OWN}/:name`, body, (call) =>
      replaceProvider(call, providerName(call.params), call.body),
    ),
    consoleEndpoint(context, 'DELETE', `${OWN}/:name`, {}, (call) =>
      deleteProvider(call, providerName(call.params)),
    ),
    consoleEndpoint(context, 'POST', `${OWN}/:name/check`, {}, (call) =>
      checkProvider(call, providerName(call.params)),
    ),
    consoleEndpoint(context, 'GET', PLATFORM, operator, (call) => listProviders(call, null)),
    consoleEndpoint(context, 'PUT', `${PLATFORM}/:name`, { ...body, ...operator }, (call) =>
      replaceProvider(call, providerName(call.params), call.body),
    ),
    consoleEndpoint(context, 'DELETE', `${PLATFORM}/:name`, operator, (call) =>
      deleteProvider(call, providerName(call.params)),
    ),
    consoleEndpoint(context, 'POST', `${PLATFORM}/:name/check`, operator, (call) =>
      checkProvider(call, providerName(call.params)),
    ),
  ]
}

function providerName(params: { readonly name: string; readonly workspace?: string }): ProviderName {
  return { workspace: params.workspace ?? null, name: params.name }
}

function listProviders(
  { context, viewer }: Viewing,
  workspace: string | null,
): { providers: ProviderAnswer[]; kinds: KindAnswer[]; facts: FactsAnswer } {
  const parts = catalogParts(context.catalog, 'provider', workspace)
  const kinds = [...context.deps.services.providers.values()].map((protocol) => ({
    kind: protocol.kind,
    needs_credential: protocol.needsCredential,
    base_url: protocol.baseUrl,
  }))
  const facts = factsAnswer(context, workspace)
  return { providers: parts.map((part) => providerAnswer(part, viewer.role, context)), kinds, facts }
}

/** @param workspace whose routes are looked at; null: all */
function factsAnswer({ catalog, clock }: ConsoleContext, workspace: string | null): FactsAnswer {
  const table = catalog.models()
  const nowMs = clock.wallNow()
  const routes = catalog.good().routes.filter((route) => workspace === null || route.workspace === workspace)
  const remarks = [...endedModels(routes, table, nowMs), ...fadingModels(routes, table, nowMs)]
  const age = documentAge(table, nowMs)
  return {
    issued_at: table.issuedAt,
    stale: [...remarks.map(({ name, remark }) => `${name} ${remark}`), ...(age === null ? [] : [age])],
  }
}

function providerAnswer(
  { name, fields, managedBy, issues }: Part,
  role: Role,
  context: ConsoleContext,
): ProviderAnswer {
  const kept = fields as unknown as ProviderFieldsAsKept
  const { kind, access, workspace, api_key: _, base_url, base_urls, health, ...rest } = kept
  const addresses = base_urls === undefined ? {} : { base_urls, health: health ?? {} }
  const replicas = replicasOf(name, context)
  const answer = {
    name,
    kind,
    access,
    workspace: workspace ?? null,
    base_url: role === 'operator' ? (base_url ?? null) : null,
    credential: credentialOf({ fields }),
    managed_by: managedBy,
    facts: rest,
    ...(role === 'operator' ? addresses : {}),
    ...(replicas === null ? {} : { replicas }),
  } as const
  return issues.length === 0 ? answer : { ...answer, issues: issuesFor(role, issues) }
}

/** Where the credential of a provider is kept. */
export function credentialOf({ fields }: Pick<Part, 'fields'>): ProviderAnswer['credential'] {
  const { api_key: key } = fields as unknown as ProviderFieldsAsKept
  return key === undefined ? 'none' : isSealed(key) ? 'stored' : 'reference'
}

/** The servers of a provider in force, as this node sees them; null: it has one. */
function replicasOf(name: string, { catalog, deps, clock }: ConsoleContext): ReplicaAnswer[] | null {
  const provider = catalog.good().providers.find((one) => one.name === name)
  const pool = provider === undefined ? null : deps.services.replicas.of(provider)
  if (pool === null) return null
  const nowMs = clock.now()
  return pool.replicas.map((replica) => ({
    up: replica.isUp(nowMs),
    calls: replica.underWay,
    ejections: replica.ejections,
    trouble: replica.isDown ? replica.trouble : null,
  }))
}

type ProviderFieldsAsKept = Static<typeof ProviderShape>

async function replaceProvider(
  call: Viewing,
  name: ProviderName,
  fields: Static<typeof Body>,
): Promise<ProviderAnswer> {
  const { context, viewer } = call
  await putProvider(viewer.actor, { ...name, fields }, context.admin)
  const part = partOf(context.catalog, { kind: 'provider', ...name })
  if (part === null) throw notFound()
  return providerAnswer(part, viewer.role, context)
}

async function deleteProvider({ context, viewer }: Viewing, name: ProviderName): Promise<{ deleted: true }> {
  await removeProvider(viewer.actor, name, context.admin)
  return { deleted: true }
}

/** Asks the provider for its models, with the credential that is in force. */
async function checkProvider(
  { context, viewer }: Viewing,
  record: ProviderName,
): Promise<ProviderCheckAnswer> {
  const part = partOf(context.catalog, { kind: 'provider', ...record })
  if (part === null) throw notFound()
  const provider = context.catalog.good().providers.find(({ name }) => name === record.name)
  if (provider === undefined || part.issues.length > 0)
    return {
      ok: false,
      models: [],
      trouble: `the provider is not in force: ${issuesFor(viewer.role, part.issues).join('; ')}`,
    }
  const { providers, send } = context.deps.services
  const { listed, trouble } = await listModels(provider, providers, send)
  return { ok: trouble === null, models: listed.slice(0, MODELS_MAX), trouble }
}

function notFound(): GatewayError {
  return new GatewayError('NOT_FOUND', 'there is no such provider')
}
