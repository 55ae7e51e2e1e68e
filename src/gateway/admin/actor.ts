import type { Principal } from '../../contracts/catalog.ts'
import type { CatalogService } from '../../contracts/catalog-service.ts'
import type { Actor } from '../../contracts/catalog-store.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { JobObjects } from '../../contracts/job-objects.ts'
import type { State } from '../../contracts/state.ts'
import type { JobSignals } from '../jobs/watch.ts'
import type { Sending } from '../webhooks/send.ts'

/** Operators may change everything, admins what belongs to their workspace. */
export type Role = 'operator' | 'admin'

/** Someone who gives commands, by whichever door. */
export interface AdminActor {
  readonly role: Role
  /** The workspace of an admin; operators are not bound to theirs. */
  readonly workspace: string | null
  /** How the audit list names them. */
  readonly author: Actor
}

/** Stores and services that commands work on. Each command takes the part that it needs. */
export interface AdminContext {
  readonly state: Pick<State, 'accounts' | 'catalog' | 'jobs' | 'keys' | 'outbox' | 'settings'>
  /** The catalog that is served. A door that has to read it first does so when a command asks for it. */
  readonly catalog: () => CatalogService | Promise<CatalogService>
  readonly webhooks: WebhookOptions
  /** For test deliveries, which pass the same address guard as all others. */
  readonly sending: Sending
  readonly objects: Pick<JobObjects, 'removeInput'>
  readonly signals: Pick<JobSignals, 'queued' | 'changed' | 'ended'>
  /** Makes this process know at once which keys the state has. */
  readonly refreshKeys: () => Promise<void>
  /** Epoch milliseconds. */
  readonly nowMs: () => number
}

/** How webhooks and credentials are kept. */
export interface WebhookOptions {
  /** The first one seals; see `readSecretKeys`. */
  readonly secretKeys: readonly Buffer[]
  /** For development: also takes `http://127.0.0.1` and `http://localhost`. */
  readonly insecure: boolean
}

/** The role that a key gives; null: it manages nothing. */
export function roleOf({ key: { scopes } }: Principal): Role | null {
  if (scopes.includes('operator')) return 'operator'
  return scopes.includes('admin') ? 'admin' : null
}

/** The actor who gives a command by a key. */
export function keyActor(
  { workspace, key }: Principal,
  role: Role,
  via: 'api' | 'console' = 'api',
): AdminActor {
  return { role, workspace: workspace.id, author: { via, keyId: key.id, name: key.name } }
}

/** The admin that a key of the scope `admin` stands for at the workspace API. */
export function workspaceAdmin(principal: Principal): AdminActor {
  return keyActor(principal, 'admin')
}

/**
 * Refuses an admin another workspace as one that does not exist, and everyone one that does not.
 *
 * @param catalog tells operators which workspaces there are
 * @throws GatewayError NOT_FOUND
 */
export function requireWorkspace(
  { role, workspace }: Pick<AdminActor, 'role' | 'workspace'>,
  id: string,
  catalog: Pick<CatalogService, 'current'>,
): void {
  const exists = role === 'operator' ? catalog.current().apps.has(id) : id === workspace
  if (!exists) throw noWorkspace()
}

/**
 * The same where the command works on a record that names its workspace, so that the catalog does not matter.
 *
 * @throws GatewayError NOT_FOUND
 */
export function requireOwner({ role, workspace }: AdminActor, id: string | null): void {
  if (role !== 'operator' && (id === null || id !== workspace)) throw noWorkspace()
}

/** @throws GatewayError PERMISSION_DENIED */
export function requireOperator({ role }: Pick<AdminActor, 'role'>): void {
  if (role === 'operator') return
  throw new GatewayError('PERMISSION_DENIED', 'only an operator may do this', {
    details: { scope: 'operator' },
  })
}

function noWorkspace(): GatewayError {
  return new GatewayError('NOT_FOUND', 'there is no such workspace')
}
