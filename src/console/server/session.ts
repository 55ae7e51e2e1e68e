import { hash } from 'node:crypto'
import type { AdminActor, Role } from '../../admin/actor.ts'
import type { Principal } from '../../contracts/catalog.ts'
import type { ConsoleSession } from '../../contracts/console.ts'
import { GatewayError } from '../../errors.ts'
import { holderOf } from '../../gateway/authentication.ts'
import type { CallContext } from '../../gateway/call-context.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import type { ConsoleContext } from './context.ts'
import { sessionToken } from './security.ts'

/** The person at the console. Looked up with every request: a session ends with the permissions of its key. */
export interface Viewer {
  readonly role: Role
  readonly principal: Principal
  /** For commands, and through them the audit list. */
  readonly actor: AdminActor
  readonly session: ConsoleSession & { readonly expiresAtMs: number }
}

export function viewerWith(principal: Principal, role: Role, session: Viewer['session']): Viewer {
  const { workspace, key } = principal
  const author = { via: 'console', keyId: key.id, name: key.name } as const
  return { role, principal, session, actor: { role, workspace: workspace.id, author } }
}

/**
 * The viewer whose session the cookie names.
 *
 * @throws GatewayError UNAUTHENTICATED when there is none, or its key is revoked, expired or no longer for the console,
 *         which ends the session; DEPENDENCY_UNAVAILABLE
 */
export async function viewerOf(
  exchange: Exchange,
  call: CallContext,
  context: ConsoleContext,
): Promise<Viewer> {
  const { sessions } = context.state
  const token = sessionToken(exchange)
  const session = token === null ? null : await sessions.find(sessionId(token))
  if (session === null) throw signedOut()
  const principal = await newestHolder(session.keySha256, context)
  const role = principal && roleOf(principal)
  if (principal === null || role === null) {
    await sessions.end(session.id)
    throw signedOut()
  }
  call.principal = principal
  return viewerWith(principal, role, session)
}

/**
 * Takes one token of a bucket.
 *
 * @param key names the bucket, and how large it is
 * @throws GatewayError RATE_LIMITED
 */
export async function takeToken(
  { dependencies }: ConsoleContext,
  { workspace }: Principal,
  { id, rateLimit }: Pick<Principal['key'], 'id' | 'rateLimit'>,
): Promise<void> {
  const { rateLimiter } = dependencies.services.state
  const taking = { workspace: workspace.id, keyId: id, limit: rateLimit, slotId: null }
  const { allowed, retryAfterMs } = await rateLimiter.take(taking)
  if (!allowed) throw new GatewayError('RATE_LIMITED', undefined, { retryAfterMs })
}

/** The holder of a key; looks twice, since another node may have made the key, or its app, just now. */
export async function newestHolder(sha256: string, context: ConsoleContext): Promise<Principal | null> {
  const find = () => holderOf(context.dependencies.services.keys, sha256, context.nowMs)
  const known = find()
  if (known !== null) return known
  await Promise.all([context.catalog.refresh(), context.admin.refreshKeys()])
  return find()
}

/** Null: the key is not for the console. */
export function roleOf({ key: { scopes } }: Principal): Role | null {
  if (scopes.includes('operator')) return 'operator'
  return scopes.includes('admin') ? 'admin' : null
}

export function sessionId(token: string): string {
  return hash('sha256', token)
}

function signedOut(): GatewayError {
  return new GatewayError('UNAUTHENTICATED', 'there is no session, or it has ended: sign in')
}
