import type { Static } from 'typebox'
import type { CatalogService } from '../../contracts/catalog-service.ts'
import type { RecordFields, RecordName } from '../../contracts/catalog-store.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { AppShape, ProviderShape, PurposeShape } from '../catalog/file.ts'
import { hasUnseen, isValid } from '../catalog/key.ts'
import { opensTo, sealCredential } from '../catalog/secret.ts'
import { invalidField } from '../edge/refusals.ts'
import { type AdminActor, type AdminContext, requireOperator, requireOwner } from './actor.ts'
import { type ChangeContext, changePart } from './change.ts'
import { issuesError } from './issues.ts'
import { storedKeys } from './keys.ts'
import { catalogParts, type Part, partOf } from './parts.ts'

// Workspaces, apps, purposes and providers; routes have drafts and versions besides, see routes.ts.

const NAME_MAX = 64
const NAME_REST = /^[A-Za-z0-9_-]+$/
/** Routes are named after their workspace, a dot and a name of their own, in at most 64 characters. */
const NEW_WORKSPACE = /^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$/

type KeyedContext = ChangeContext & Pick<AdminContext, 'nowMs'>

/**
 * Makes a workspace, or replaces its fields: those left out are removed. A grant of credits stays, which only a file
 * can hold.
 *
 * @throws GatewayError PERMISSION_DENIED, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function putWorkspace(
  actor: AdminActor,
  { workspace, fields }: { readonly workspace: string; readonly fields: RecordFields },
  context: ChangeContext,
): Promise<void> {
  requireOperator(actor)
  const record = { kind: 'workspace', workspace, name: workspace } as const
  const decide = (catalog: CatalogService) => {
    const part = partOf(catalog, record)
    if (part === null && !NEW_WORKSPACE.test(workspace))
      throw invalidField('workspace', 'must be a name of 1 to 40 letters, digits, ".", "_" or "-"')
    if (typeof fields.name === 'string' && hasUnseen(fields.name))
      throw invalidField('name', 'must have no characters that are invisible or turn the text direction')
    // Settings that are not named stay: otherwise the next name would drop the demands on calls, the agreed prices and
    // limits, as well as records that are to be kept for longer.
    const published = withoutNothing({ ...part?.fields, ...fields })
    const change = { record, fields: published, action: 'workspace.publish', skipsSame: true }
    // One of this name may have gone without them, with the file that it stood in.
    return part === null ? { ...change, first: () => context.state.settings.forget(workspace) } : change
  }
  await changePart(actor, decide, context)
}

/**
 * Removes an empty workspace: whatever it holds has to be removed by name first. Its settings go before it, so
 * that a later workspace of this name does not inherit them.
 *
 * @throws GatewayError PERMISSION_DENIED, NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function removeWorkspace(
  actor: AdminActor,
  { workspace }: { readonly workspace: string },
  context: KeyedContext,
): Promise<void> {
  requireOperator(actor)
  const record = { kind: 'workspace', workspace, name: workspace } as const
  const decide = async (catalog: CatalogService) => {
    const contents = await contentsOf(workspace, catalog, context)
    if (contents.length > 0 && partOf(catalog, record)?.managedBy === 'console') throw issuesError(contents)
    const first = () => context.state.settings.forget(workspace)
    return { record, fields: null, action: 'workspace.remove', first }
  }
  await changePart(actor, decide, context)
}

async function contentsOf(
  workspace: string,
  catalog: CatalogService,
  { state, nowMs }: KeyedContext,
): Promise<string[]> {
  const kinds = ['app', 'route', 'provider', 'purpose'] as const
  const parts = kinds.flatMap((kind) =>
    catalogParts(catalog, kind, workspace).map((part) => `the ${kind} "${part.name}"`),
  )
  const drafts = (await state.catalog.list(workspace)).filter((one) => one.hasDraft && !one.isPublished)
  const now = nowMs()
  const keys = (await storedKeys(state.keys, workspace)).filter((key) => isValid(key, now))
  const names = [
    ...parts,
    ...drafts.map((one) => `the draft of the ${one.kind} "${one.name}"`),
    ...keys.map((key) => `the key "${key.name}" (${key.id})`),
  ]
  return names.map((one) => `the workspace still has ${one}`)
}

/** An app, or a purpose, of a workspace. */
export interface NamedInput {
  readonly workspace: string
  readonly name: string
}

/** @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE */
export async function putApp(
  actor: AdminActor,
  { workspace, name, fields }: NamedInput & { readonly fields: Static<typeof AppShape> },
  context: ChangeContext,
): Promise<void> {
  const record = { kind: 'app', workspace, name } as const
  await changePart(actor, () => ({ record, fields, action: 'app.publish', skipsSame: true }), context)
}

/**
 * Removes an app that has no valid keys: they would be orphaned, and valid again for the next app of this name.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function removeApp(
  actor: AdminActor,
  { workspace, name }: NamedInput,
  context: KeyedContext,
): Promise<void> {
  requireOwner(actor, workspace)
  const record = { kind: 'app', workspace, name } as const
  const decide = async (catalog: CatalogService) => {
    const now = context.nowMs()
    const keys = await storedKeys(context.state.keys, workspace)
    const issues = keys
      .filter((key) => key.app === name && isValid(key, now))
      .map((key) => `the key "${key.name}" (${key.id}) belongs to it: revoke it first`)
    if (issues.length > 0 && partOf(catalog, record)?.managedBy === 'console') throw issuesError(issues)
    return { record, fields: null, action: 'app.remove' }
  }
  await changePart(actor, decide, context)
}

/**
 * Defines a purpose, a label that apps may bind to routes.
 *
 * @throws GatewayError NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function putPurpose(
  actor: AdminActor,
  { workspace, name, fields }: NamedInput & { readonly fields: Static<typeof PurposeShape> },
  context: ChangeContext,
): Promise<void> {
  const record = { kind: 'purpose', workspace, name } as const
  await changePart(actor, () => ({ record, fields, action: 'purpose.publish', skipsSame: true }), context)
}

/** @throws GatewayError NOT_FOUND, INVALID_REQUEST while an app or route names it, CONFLICT, DEPENDENCY_UNAVAILABLE */
export async function removePurpose(
  actor: AdminActor,
  { workspace, name }: NamedInput,
  context: ChangeContext,
): Promise<void> {
  const record = { kind: 'purpose', workspace, name } as const
  await changePart(actor, () => ({ record, fields: null, action: 'purpose.remove' }), context)
}

/** A provider of a workspace, or with null of the platform. */
export interface ProviderName {
  readonly workspace: string | null
  readonly name: string
}

/** Fields of a provider with its credential in plain text; null or absent: it stays, and so does the address. */
export type ProviderInput = Omit<
  Static<typeof ProviderShape>,
  'access' | 'workspace' | 'api_key' | 'base_url'
> & {
  readonly credential?: string | null
  readonly base_url?: string | null
}

/** Where the calls of a provider go. */
const ADDRESS_FIELDS = ['base_url', 'base_urls', 'health'] as const

/**
 * Makes a provider or replaces its fields. Only an operator may give an address, or change the platform's providers.
 *
 * @throws GatewayError PERMISSION_DENIED, NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE
 */
export async function putProvider(
  actor: AdminActor,
  { workspace, name, fields }: ProviderName & { readonly fields: ProviderInput },
  context: ChangeContext & Pick<AdminContext, 'webhooks'>,
): Promise<void> {
  if (workspace === null) requireOperator(actor)
  const address = ADDRESS_FIELDS.find((field) => fields[field] != null)
  if (actor.role !== 'operator' && address !== undefined)
    throw new GatewayError('PERMISSION_DENIED', `only an operator may set \`${address}\``, { param: address })
  const credential = fields.credential == null ? null : checkedCredential(fields.credential)
  const record = { kind: 'provider', workspace, name } as const
  const decide = (catalog: CatalogService) => {
    const part = partOf(catalog, record)
    if (part === null) requireOwnName(record, 'name')
    const sealed = (kept: unknown) =>
      credential === null ? kept : sealedAs(context.webhooks.secretKeys, name, credential, kept)
    const published = providerFields(record, fields, sealed, part)
    return { record, fields: published, action: 'provider.publish', skipsSame: true }
  }
  await changePart(actor, decide, context)
}

/** @throws GatewayError PERMISSION_DENIED, NOT_FOUND, INVALID_REQUEST, CONFLICT, DEPENDENCY_UNAVAILABLE */
export async function removeProvider(
  actor: AdminActor,
  { workspace, name }: ProviderName,
  context: ChangeContext,
): Promise<void> {
  if (workspace === null) requireOperator(actor)
  const record = { kind: 'provider', workspace, name } as const
  await changePart(actor, () => ({ record, fields: null, action: 'provider.remove' }), context)
}

/** Credential and address stay when they are not given, except with another kind, to which they do not belong. */
function providerFields(
  { workspace }: ProviderName,
  { credential: _, base_url, base_urls, health, ...declared }: ProviderInput,
  sealed: (kept: unknown) => unknown,
  part: Part | null,
): RecordFields {
  const kept = part?.fields.kind === declared.kind ? part.fields : {}
  const apiKey = sealed(kept.api_key)
  const stays = base_url === undefined && base_urls === undefined
  const given = stays ? { ...kept, health: health ?? kept.health } : { base_url, base_urls, health }
  const addresses = ADDRESS_FIELDS.map((field) => [field, given[field] ?? undefined] as const)
  return {
    ...declared,
    ...(workspace === null ? { access: 'platform' } : { access: 'byok', workspace }),
    ...(apiKey === undefined ? {} : { api_key: apiKey }),
    ...Object.fromEntries(addresses.filter(([, value]) => value !== undefined)),
  }
}

/** A sealed credential; as it is kept where that is the same, since each sealing makes another text. */
function sealedAs(keys: readonly Buffer[], provider: string, plain: string, kept: unknown): string {
  if (typeof kept === 'string' && opensTo(keys, provider, kept, plain)) return kept
  return sealCredential(keys, provider, plain)
}

/** @throws GatewayError INVALID_REQUEST, which never repeats any of it */
function checkedCredential(credential: string): string {
  const plain = credential.trim()
  if (/^(\$\{|file:|sealed:)/.test(plain))
    throw invalidField(
      'credential',
      'must be the credential itself: references are for the configuration file',
    )
  if (/^[\x21-\x7e]+$/.test(plain)) return plain
  throw invalidField('credential', 'must be printable ASCII without spaces')
}

/**
 * Names of what a workspace makes begin with its own, so that workspaces never meet over a name, nor learn of one
 * another by it. Names of the platform have no dot.
 *
 * @param param names the part of the path
 * @throws GatewayError INVALID_REQUEST
 */
export function requireOwnName(
  { workspace, name }: Pick<RecordName, 'workspace' | 'name'>,
  param: string,
): void {
  const prefix = workspace === null ? '' : `${workspace}.`
  const rest = name.startsWith(prefix) ? name.slice(prefix.length) : ''
  const begins = prefix !== '' || /^[A-Za-z0-9]/.test(rest)
  if (NAME_REST.test(rest) && begins && name.length <= NAME_MAX) return
  const before = prefix === '' ? '' : `"${prefix}" and `
  throw invalidField(
    param,
    `must be ${before}letters, digits, "_" or "-", at most ${NAME_MAX} characters in all`,
  )
}

/** Without fields that are null or undefined, which a file would not have. */
function withoutNothing(fields: RecordFields): RecordFields {
  return Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== null && value !== undefined),
  )
}
