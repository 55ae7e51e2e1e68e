import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import { Type } from 'typebox'
import { hashKey, looksLikeKey } from '../../catalog/key.ts'
import { GatewayError } from '../../errors.ts'
import { holderOf } from '../../gateway/admit.ts'
import type { Trail } from '../../gateway/gateway.ts'
import type { Exchange, Reply } from '../../inbound/exchange.ts'
import type { Principal } from '../../schema/catalog.ts'
import type { Actor } from '../../schema/catalog-store.ts'
import type { ConsoleSession } from '../../schema/console.ts'
import type { RateLimit } from '../../schema/state.ts'
import { readVersion } from '../../version.ts'
import { jsonReply } from '../json-reply.ts'
import { timestamp } from '../timestamp.ts'
import type { Role, SessionAnswer } from './api/answers.ts'
import { sessionCookie, tokenOf } from './cookie.ts'
import type { ConsoleDesk } from './desk.ts'
import type { WrongKeys } from './wrong-keys.ts'

const SESSION_MS = 12 * 60 * 60 * 1000
const TOKEN_BYTES = 32
/** Of one key: each session is kept until it is over, however few are in use. */
const SIGN_INS: RateLimit = { requestsPerMinute: 30, burst: 60 }

export const SignIn = Type.Object({
  key: Type.String({ maxLength: 256, description: 'an API key with the scope operator or admin' }),
})

/** Who looks at the console. Found anew with every request: what the key may not do any more, its session may not. */
export interface Viewer {
  readonly role: Role
  readonly principal: Principal
  /** For the audit list. */
  readonly actor: Actor
  readonly session: ConsoleSession & { readonly expiresAtMs: number }
}

/**
 * Whose session the cookie is.
 *
 * @throws GatewayError UNAUTHENTICATED when there is none, or its key is revoked, expired or no longer one for the
 *         console: the session is over then; DEPENDENCY_UNAVAILABLE
 */
export async function viewerOf(exchange: Exchange, trail: Trail, desk: ConsoleDesk): Promise<Viewer> {
  const { sessions } = desk.state
  const token = tokenOf(exchange)
  const session = token === null ? null : await sessions.find(idOf(token))
  if (session === null) throw signedOut()
  const principal = await newestHolder(session.keySha256, desk)
  const role = principal && roleOf(principal)
  if (principal === null || role === null) {
    await sessions.end(session.id)
    throw signedOut()
  }
  trail.principal = principal
  const { id, name } = principal.key
  return { role, principal, session, actor: { via: 'console', keyId: id, name } }
}

/**
 * A change has to carry what only a page of this origin could read.
 *
 * @throws GatewayError PERMISSION_DENIED
 */
export function requireCsrfToken({ headers }: Exchange, { csrfToken }: ConsoleSession): void {
  const given = Buffer.from(headers['x-lk-csrf'] ?? '')
  const expected = Buffer.from(csrfToken)
  if (given.length === expected.length && timingSafeEqual(given, expected)) return
  throw new GatewayError('PERMISSION_DENIED', 'x-lk-csrf is not the csrf_token of the session')
}

interface SigningIn {
  readonly exchange: Exchange
  readonly trail: Trail
  readonly desk: ConsoleDesk
  readonly wrongKeys: WrongKeys
}

/**
 * Begins a session for the holder of a key.
 *
 * @throws GatewayError UNAUTHENTICATED, PERMISSION_DENIED for a key that is not for the console, RATE_LIMITED,
 *         DEPENDENCY_UNAVAILABLE
 */
export async function signIn(key: string, { exchange, trail, desk, wrongKeys }: SigningIn): Promise<Reply> {
  const keySha256 = hashKey(key)
  const principal = looksLikeKey(key) ? await newestHolder(keySha256, desk) : null
  if (principal === null) {
    wrongKeys.note(exchange)
    throw new GatewayError('UNAUTHENTICATED', 'the API key is malformed, unknown, revoked or expired')
  }
  trail.principal = principal
  await takeToken(desk, principal, principal.key)
  const role = roleOf(principal)
  if (role === null)
    throw new GatewayError(
      'PERMISSION_DENIED',
      'the console needs an API key with the scope operator or admin',
    )
  await takeToken(desk, principal, { id: `console-sign-in/${principal.key.id}`, rateLimit: SIGN_INS })

  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const csrfToken = randomBytes(TOKEN_BYTES).toString('base64url')
  const session = { id: idOf(token), keySha256, csrfToken }
  const nowMs = desk.nowMs()
  const ttlMs = Math.min(SESSION_MS, (principal.key.expiresAtMs ?? Number.POSITIVE_INFINITY) - nowMs)
  await desk.state.sessions.begin(session, ttlMs)
  const actor: Actor = { via: 'console', keyId: principal.key.id, name: principal.key.name }
  const viewer: Viewer = { role, principal, actor, session: { ...session, expiresAtMs: nowMs + ttlMs } }
  return withCookie(
    await jsonReply(await sessionAnswer(viewer)),
    sessionCookie(token, Math.max(1, Math.floor(ttlMs / 1000)), exchange),
  )
}

export async function sessionAnswer({ role, principal, session }: Viewer): Promise<SessionAnswer> {
  const { id, name } = principal.key
  return {
    role,
    workspace: principal.workspace.id,
    key: { id, name },
    csrf_token: session.csrfToken,
    expires_at: timestamp(session.expiresAtMs),
    version: await readVersion(),
  }
}

export async function signOut({ session }: Viewer, exchange: Exchange, desk: ConsoleDesk): Promise<Reply> {
  await desk.state.sessions.end(session.id)
  return withCookie(await jsonReply({ ended: true }), sessionCookie('', 0, exchange))
}

/**
 * Takes one token of a bucket.
 *
 * @param key whose bucket, and how large it is
 * @throws    GatewayError RATE_LIMITED
 */
export async function takeToken(
  { doors }: ConsoleDesk,
  { workspace }: Principal,
  { id, rateLimit }: Pick<Principal['key'], 'id' | 'rateLimit'>,
): Promise<void> {
  const { rateLimiter } = doors.services.state
  const taking = { workspace: workspace.id, keyId: id, limit: rateLimit, slotId: null }
  const { allowed, retryAfterMs } = await rateLimiter.take(taking)
  if (!allowed) throw new GatewayError('RATE_LIMITED', undefined, { retryAfterMs })
}

/** Whose key it is, with one more look when nobody is found: another node may have made it, or its app, just now. */
async function newestHolder(sha256: string, desk: ConsoleDesk): Promise<Principal | null> {
  const find = () => holderOf(desk.doors.services.keys, sha256, desk.nowMs)
  const known = find()
  if (known !== null) return known
  await Promise.all([desk.catalog.refresh(), desk.refreshKeys()])
  return find()
}

/** Null: it is not for the console. */
function roleOf({ key: { scopes } }: Principal): Role | null {
  if (scopes.includes('operator')) return 'operator'
  return scopes.includes('admin') ? 'admin' : null
}

function idOf(token: string): string {
  return hash('sha256', token)
}

function signedOut(): GatewayError {
  return new GatewayError('UNAUTHENTICATED', 'there is no session, or it is over: sign in')
}

function withCookie(reply: Reply, cookie: string): Reply {
  return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } } as Reply
}
