import { hash, randomBytes } from 'node:crypto'
import type { Principal } from '../../contracts/catalog.ts'
import type { ConsoleSession, KeptSession, SessionPerson } from '../../contracts/console.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import { type AdminActor, keyActor, type Role, roleOf } from '../../gateway/admin/actor.ts'
import { authenticate, holderOf, requireScope } from '../../gateway/call/authentication.ts'
import type { CallContext } from '../../gateway/call/context/call-context.ts'
import type { Exchange } from '../../gateway/edge/exchange.ts'
import type { ConsoleContext } from './context.ts'
import { type Reach, reachOf } from './oidc/roles.ts'
import { callerAddress, sessionToken } from './security.ts'

const TOKEN_BYTES = 32
/** How old the note of the last request may get, so that not every request is a write. */
const TOUCH_MS = 60_000

/**
 * A person at the console, or the holder of a key sent without a session. Looked up with every request: a session ends
 * with the permissions that it was begun on.
 */
export interface Viewer {
  readonly role: Role
  /** Holder of the key that signed in, or came; null: a person did, at the OpenID provider. */
  readonly principal: Principal | null
  /** An admin's, at least one; empty for operators, who see all. */
  readonly workspaces: readonly string[]
  /** For commands, and through them the audit list. An admin acts in the first, unless `viewerIn` says in which. */
  readonly actor: AdminActor
  /** Null: a key came by itself, at the management API. */
  readonly session: KeptSession | null
}

export function keyViewer(principal: Principal, role: Role, session: KeptSession | null): Viewer {
  const workspaces = role === 'operator' ? [] : [principal.workspace.id]
  const actor = keyActor(principal, role, session === null ? 'api' : 'console')
  return { role, principal, workspaces, session, actor }
}

/** Null: no role is theirs any more. */
export function personViewer(
  person: SessionPerson,
  session: KeptSession,
  { catalog }: ConsoleContext,
): Viewer | null {
  const { oidc } = catalog.good().signIn
  const isTheirs = oidc !== null && oidc.issuer === person.issuer && oidc.clientId === person.clientId
  const reach = isTheirs ? reachOf(person, oidc.grants, (id) => catalog.current().apps.has(id)) : null
  if (reach === null) return null
  return { ...reach, principal: null, session, actor: personActor(person, reach) }
}

export function personActor({ name, subject }: SessionPerson, { role, workspaces }: Reach): AdminActor {
  const author = { via: 'console', keyId: null, name, subject } as const
  return { role, workspace: workspaces[0] ?? null, author }
}

/** How the audit list calls a session: enough of its id to tell it from others. */
export function sessionTarget(id: string): string {
  return `session/${id.slice(0, 12)}`
}

/** The same viewer where a call is about one of their workspaces: there they are its admin. */
export function viewerIn(viewer: Viewer, workspace: string): Viewer {
  if (!viewer.workspaces.includes(workspace)) return viewer
  return { ...viewer, actor: { ...viewer.actor, workspace } }
}

/**
 * The session of a viewer who came by one.
 *
 * @throws GatewayError UNAUTHENTICATED
 */
export function sessionOf({ session }: Pick<Viewer, 'session'>): KeptSession {
  if (session === null) throw signedOut()
  return session
}

/**
 * The viewer whose key is in the header, without a session.
 *
 * @throws GatewayError UNAUTHENTICATED; PERMISSION_DENIED for a key that manages nothing
 */
export function callerByKey(exchange: Exchange, call: CallContext, { deps }: ConsoleContext): Viewer {
  const { principal } = authenticate(deps.services, call, exchange.headers.authorization)
  call.trace?.end()
  const role = roleOf(principal)
  if (role === null) requireScope(principal, 'admin')
  return keyViewer(principal, role ?? 'admin', null)
}

/**
 * The viewer whose session the cookie names.
 *
 * @throws GatewayError UNAUTHENTICATED when there is none, or whoever began it may not sign in any more, which ends the
 *         session; DEPENDENCY_UNAVAILABLE
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
  const viewer = await viewerWith(session, context)
  if (viewer === null) {
    await sessions.end(session.id)
    throw signedOut()
  }
  const { idleMs, seenAtMs } = session
  if (idleMs !== null && context.clock.wallNow() - seenAtMs > Math.min(TOUCH_MS, idleMs / 4))
    await sessions.touch(session.id)
  call.principal = viewer.principal
  return viewer
}

/** The viewer who began a session, with their present rights; null: they may not sign in any more. */
export async function viewerWith(session: KeptSession, context: ConsoleContext): Promise<Viewer | null> {
  const { keySha256, person } = session
  if (person !== null) return personViewer(person, session, context)
  if (keySha256 === null || !context.catalog.good().signIn.keys) return null
  const principal = await newestHolder(keySha256, context)
  const role = principal && roleOf(principal)
  return principal === null || role === null ? null : keyViewer(principal, role, session)
}

/** Starter of a session, in the terms of `ConsoleSession`. */
type Beginner = Pick<ConsoleSession, 'keySha256' | 'person' | 'holder'>

/**
 * Begins a session.
 *
 * @param ttlMs its length at most; the configuration may say less
 * @param exchange that begins it: its address and browser are kept with the session
 * @returns it, and the token for the cookie, which is kept nowhere
 * @throws GatewayError DEPENDENCY_UNAVAILABLE
 */
export async function beginSession(
  beginner: Beginner,
  ttlMs: number,
  exchange: Exchange,
  { state, catalog, clock }: ConsoleContext,
): Promise<{ readonly token: string; readonly session: KeptSession }> {
  const { sessionMs, idleMs } = catalog.good().signIn
  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const csrfToken = randomBytes(TOKEN_BYTES).toString('base64url')
  const from = { address: callerAddress(exchange), browser: browserName(exchange.headers['user-agent']) }
  const session = { ...beginner, ...from, id: sessionId(token), csrfToken, idleMs }
  const length = Math.min(ttlMs, sessionMs)
  await state.sessions.begin(session, length)
  const beganAtMs = clock.wallNow()
  return { token, session: { ...session, beganAtMs, seenAtMs: beganAtMs, expiresAtMs: beganAtMs + length } }
}

/** The signed-in key or person, as in answers. */
export function holderAnswer({ principal, session }: Pick<Viewer, 'principal' | 'session'>) {
  const person = session?.person ?? null
  return {
    key: principal && { id: principal.key.id, name: principal.key.name },
    person: person && { name: person.name, subject: person.subject },
  }
}

/** As `ConsoleSession.holder`. */
export function keyHolder(sha256: string): string {
  return `key:${sha256}`
}

/** As `ConsoleSession.holder`. */
export function personHolder({ issuer, subject }: Pick<SessionPerson, 'issuer' | 'subject'>): string {
  return `person:${hash('sha256', JSON.stringify([issuer, subject]))}`
}

/** A token bucket: the workspace that it is kept with, its id and its size. */
interface Bucket {
  readonly workspace: string
  readonly id: string
  readonly rateLimit: RateLimit
}

/**
 * Takes one token of a bucket.
 *
 * @throws GatewayError RATE_LIMITED
 */
export async function takeToken(
  { deps }: ConsoleContext,
  { workspace, id, rateLimit }: Bucket,
): Promise<void> {
  const { rateLimiter } = deps.services.state
  const { allowed, retryAfterMs } = await rateLimiter.take({
    workspace,
    keyId: id,
    limit: rateLimit,
    slotId: null,
  })
  if (!allowed) throw new GatewayError('RATE_LIMITED', undefined, { retryAfterMs })
}

/** Where buckets of people are kept, who belong to no workspace. No workspace has a name like this one. */
const NO_WORKSPACE = '~console'

/** Names the bucket of a viewer's own requests: that of their key, or of the person. */
export function bucketOf({ principal, session }: Viewer): Pick<Bucket, 'workspace' | 'id'> {
  if (principal === null) return { workspace: NO_WORKSPACE, id: sessionOf({ session }).holder }
  return { workspace: principal.workspace.id, id: principal.key.id }
}

/** The holder of a key; looks twice, since another node may have made the key, or its app, just now. */
export async function newestHolder(sha256: string, context: ConsoleContext): Promise<Principal | null> {
  const find = () => holderOf(context.deps.services.keys, sha256, context.clock.wallNow)
  const known = find()
  if (known !== null) return known
  await Promise.all([context.catalog.refresh(), context.admin.refreshKeys()])
  return find()
}

export function sessionId(token: string): string {
  return hash('sha256', token)
}

function signedOut(): GatewayError {
  return new GatewayError('UNAUTHENTICATED', 'there is no session, or it has ended: sign in')
}

/** Characters of a user agent that are read. */
const READ_MAX = 512

/** Names by how a browser says its version; those that also pretend to be another come first. */
const BROWSERS = [
  ['Edge', /\bEdg(?:A|iOS)?\/(\d{1,4})/],
  ['Opera', /\bOPR\/(\d{1,4})/],
  ['Samsung Internet', /\bSamsungBrowser\/(\d{1,4})/],
  ['Firefox', /\b(?:Firefox|FxiOS)\/(\d{1,4})/],
  ['Chrome', /\b(?:HeadlessChrome|Chrome|CriOS)\/(\d{1,4})/],
  ['Safari', /\bVersion\/(\d{1,4})(?:\.\d+){0,4}(?: Mobile\/\w{1,16})? Safari\//],
  ['curl', /^curl\/(\d{1,4})/],
] as const

const SYSTEMS = [
  ['iOS', /\b(?:iPhone|iPad|iPod)\b/],
  ['Android', /\bAndroid\b/],
  ['Windows', /\bWindows\b/],
  ['macOS', /\bMacintosh\b/],
  ['ChromeOS', /\bCrOS\b/],
  ['Linux', /\bLinux\b/],
] as const

/**
 * Browser and system out of a user agent, such as `Firefox 145 on Linux`. Nothing of its text but a version gets into
 * the name. Null: it names none that is known.
 */
export function browserName(userAgent: string | undefined): string | null {
  const text = (userAgent ?? '').slice(0, READ_MAX)
  const browser = BROWSERS.map(([name, pattern]) => [name, pattern.exec(text)?.[1]] as const).find(
    ([, version]) => version !== undefined,
  )
  const system = SYSTEMS.find(([, pattern]) => pattern.test(text))?.[0]
  const named = browser?.join(' ')
  return named !== undefined && system !== undefined ? `${named} on ${system}` : (named ?? system ?? null)
}
