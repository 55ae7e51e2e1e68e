import { type Static, Type } from 'typebox'
import { ProviderShape } from '../../../catalog/file.ts'
import { sealCredential } from '../../../catalog/secret.ts'
import { GatewayError } from '../../../errors.ts'
import { listModels } from '../../../gateway/list-models.ts'
import { invalid } from '../../../inbound/refusals.ts'
import type { EdgeRoute } from '../../../inbound/server.ts'
import type { RecordFields, RecordName } from '../../../schema/catalog-store.ts'
import { optional } from '../../json-request.ts'
import type { ConsoleDesk } from '../desk.ts'
import { consoleEndpoint } from '../endpoint.ts'
import type { KindAnswer, ProviderAnswer, ProviderCheckAnswer, Role } from './answers.ts'
import { changePart, type Editor } from './change-part.ts'
import { faultsFor } from './faults.ts'
import { requireOwnName } from './own-name.ts'
import { type Part, partOf, partsOf } from './parts.ts'

const OWN = '/workspaces/:workspace/providers'
const PLATFORM = '/providers'
/** More than any provider lists, so that a hostile one does not fill the page. */
const MAX_MODELS = 2000

const { kind, access: _a, workspace: _w, api_key: _k, base_url: _b, ...facts } = ProviderShape.properties

const Body = Type.Object({
  kind,
  credential: optional(
    Type.String({ minLength: 1, maxLength: 2048 }),
    "the provider's key, which is kept sealed and never shown; left out, the one that is kept stays",
  ),
  base_url: optional(
    Type.String({ maxLength: 2048 }),
    'for operators: another address than that of the kind',
  ),
  ...facts,
})

/**
 * Providers: those of a workspace, on its own credentials, and for operators those of the platform, which every
 * workspace may use.
 */
export function providerEndpoints(desk: ConsoleDesk): EdgeRoute[] {
  const body = { body: Body }
  const operator = { role: 'operator' } as const
  return [
    consoleEndpoint(desk, 'GET', OWN, {}, (call) => listProviders(call, call.params.workspace)),
    consoleEndpoint(desk, 'PUT', `${OWN}/:name`, body, (call) =>
      putProvider(call, recordOf(call.params), call.body),
    ),
    consoleEndpoint(desk, 'DELETE', `${OWN}/:name`, {}, (call) =>
      deleteProvider(call, recordOf(call.params)),
    ),
    consoleEndpoint(desk, 'POST', `${OWN}/:name/check`, {}, (call) => check(call, recordOf(call.params))),
    consoleEndpoint(desk, 'GET', PLATFORM, operator, (call) => listProviders(call, null)),
    consoleEndpoint(desk, 'PUT', `${PLATFORM}/:name`, { ...body, ...operator }, (call) =>
      putProvider(call, recordOf(call.params), call.body),
    ),
    consoleEndpoint(desk, 'DELETE', `${PLATFORM}/:name`, operator, (call) =>
      deleteProvider(call, recordOf(call.params)),
    ),
    consoleEndpoint(desk, 'POST', `${PLATFORM}/:name/check`, operator, (call) =>
      check(call, recordOf(call.params)),
    ),
  ]
}

type ProviderName = RecordName & { readonly kind: 'provider' }

function recordOf(params: { readonly name: string; readonly workspace?: string }): ProviderName {
  return { kind: 'provider', workspace: params.workspace ?? null, name: params.name }
}

function listProviders(
  { desk, viewer }: Editor,
  workspace: string | null,
): { providers: ProviderAnswer[]; kinds: KindAnswer[] } {
  const parts = partsOf(desk, 'provider', workspace)
  const kinds = [...desk.doors.services.providers.values()].map((protocol) => ({
    kind: protocol.kind,
    needs_credential: protocol.needsCredential,
    base_url: protocol.baseUrl,
  }))
  return { providers: parts.map((part) => providerAnswer(part, viewer.role)), kinds }
}

function providerAnswer({ name, fields, managedBy, faults }: Part, role: Role): ProviderAnswer {
  const { kind, access, workspace, api_key, base_url, ...rest } = fields as unknown as ProviderFieldsAsKept
  const answer = {
    name,
    kind,
    access,
    workspace: workspace ?? null,
    base_url: role === 'operator' ? (base_url ?? null) : null,
    credential: api_key === undefined ? 'none' : api_key.startsWith('sealed:') ? 'stored' : 'reference',
    managed_by: managedBy,
    facts: rest,
  } as const
  return faults.length === 0 ? answer : { ...answer, faults: faultsFor(role, faults) }
}

type ProviderFieldsAsKept = Static<typeof ProviderShape>

async function putProvider(
  call: Editor,
  record: ProviderName,
  body: Static<typeof Body>,
): Promise<ProviderAnswer> {
  const { desk, viewer } = call
  if (viewer.role !== 'operator' && typeof body.base_url === 'string')
    throw new GatewayError('PERMISSION_DENIED', 'only an operator may set base_url', { param: 'base_url' })
  const sealed =
    body.credential == null
      ? null
      : sealCredential(desk.webhooks.secretKeys, record.name, plainOf(body.credential))
  await changePart(call, () => {
    const part = partOf(desk, record)
    if (part === null) requireOwnName(record.workspace, record.name, 'name')
    const fields = fieldsOf(record, body, sealed, part, viewer.role)
    return { record, fields, action: 'provider.publish' }
  })
  const part = partOf(desk, record)
  if (part === null) throw notFound()
  return providerAnswer(part, viewer.role)
}

/** Credential and address stay when they are not given, except with another kind, whose they are not. */
function fieldsOf(
  { workspace }: ProviderName,
  { credential: _, base_url, ...declared }: Static<typeof Body>,
  sealed: string | null,
  part: Part | null,
  role: Role,
): RecordFields {
  const kept = part?.fields.kind === declared.kind ? part.fields : {}
  const apiKey = sealed ?? kept.api_key
  const address = role === 'operator' ? (base_url ?? undefined) : kept.base_url
  return {
    ...declared,
    ...(workspace === null ? { access: 'platform' } : { access: 'byok', workspace }),
    ...(apiKey === undefined ? {} : { api_key: apiKey }),
    ...(address === undefined ? {} : { base_url: address }),
  }
}

/** @throws GatewayError INVALID_REQUEST; never with a part of what was sent */
function plainOf(credential: string): string {
  const plain = credential.trim()
  if (/^(\$\{|file:|sealed:)/.test(plain))
    throw invalid(
      'credential: must be the credential itself: references are for the configuration file',
      'credential',
    )
  if (/^[\x21-\x7e]+$/.test(plain)) return plain
  throw invalid('credential: must be printable ASCII without spaces', 'credential')
}

async function deleteProvider(call: Editor, record: ProviderName): Promise<{ deleted: true }> {
  await changePart(call, () => ({ record, fields: null, action: 'provider.remove' }))
  return { deleted: true }
}

/** Asks the provider for its models, with the credential that is in force. */
async function check({ desk, viewer }: Editor, record: ProviderName): Promise<ProviderCheckAnswer> {
  const part = partOf(desk, record)
  if (part === null) throw notFound()
  const provider = desk.catalog.good().providers.find(({ name }) => name === record.name)
  if (provider === undefined || part.faults.length > 0)
    return {
      ok: false,
      models: [],
      trouble: `it is not in force: ${faultsFor(viewer.role, part.faults).join('; ')}`,
    }
  const { providers, send } = desk.doors.services
  const { listed, trouble } = await listModels(provider, providers, send)
  return { ok: trouble === null, models: listed.slice(0, MAX_MODELS), trouble }
}

function notFound(): GatewayError {
  return new GatewayError('NOT_FOUND', 'there is no such provider')
}
