import { Type } from 'typebox'
import { GatewayError } from '../../contracts/errors.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import { readVersion } from '../../contracts/version.ts'
import { roleOf } from '../../gateway/admin/actor.ts'
import { observedRoute } from '../../gateway/api/endpoint.ts'
import { jsonReply, timestamp } from '../../gateway/api/json-reply.ts'
import { holderOf } from '../../gateway/call/authentication.ts'
import type { CallContext } from '../../gateway/call/context/call-context.ts'
import { hashKey, looksLikeKey } from '../../gateway/catalog/key.ts'
import type { Exchange, Reply } from '../../gateway/edge/exchange.ts'
import type { EdgeRoute } from '../../gateway/edge/server.ts'
import type { SessionAnswer, SignInAnswer, SignOutAnswer } from './answers/access.ts'
import type { ConsoleContext } from './context.ts'
import { type ConsoleCall, consoleEndpoint, readStrict, WrittenReply } from './endpoint.ts'
import { type SingleSignOn, START_PATH } from './oidc/endpoints.ts'
import { requireSameOrigin, SignInThrottle, sessionCookie } from './security.ts'
import {
  beginSession,
  holderAnswer,
  keyHolder,
  keyViewer,
  newestHolder,
  sessionOf,
  takeToken,
  type Viewer,
} from './session.ts'

const PATH = '/session'
/** Sign-ins with one key: each session is kept until it is over, however few are in use. */
const SIGN_INS: RateLimit = { requestsPerMinute: 30, burst: 60 }

const SignIn = Type.Object({
  key: Type.String({ maxLength: 256, description: 'an API key with the scope operator or admin' }),
})

/**
 * The ways in, for whoever asks; POST, GET and DELETE of the session: sign in with an API key, ask who is signed in,
 * and sign out.
 */
export function consoleSession(context: ConsoleContext, singleSignOn: SingleSignOn): EdgeRoute[] {
  const throttle = new SignInThrottle(context.clock)
  return [
    observedRoute(context.deps, { method: 'GET', path: '/console/api/sign-in' }, async (_exchange, call) => {
      call.answer.headers['cache-control'] = 'no-store'
      return jsonReply(waysIn(context))
    }),
    observedRoute(context.deps, { method: 'POST', path: `/console/api${PATH}` }, async (exchange, call) => {
      call.answer.headers['cache-control'] = 'no-store'
      requireSameOrigin(exchange)
      const { key } = await readStrict(SignIn, exchange, context)
      return signIn(key, { exchange, call, context, throttle })
    }),
    consoleEndpoint(context, 'GET', PATH, {}, ({ viewer }) => sessionAnswer(viewer, context)),
    consoleEndpoint(context, 'DELETE', PATH, {}, (call) => signOut(call, singleSignOn)),
  ]
}

function waysIn({ catalog }: ConsoleContext): SignInAnswer {
  const { keys, oidc } = catalog.good().signIn
  // At another origin than the public one the browser would come back without its cookie.
  return { keys, oidc: oidc && { name: oidc.name, url: oidc.publicUrl + START_PATH } }
}

interface SigningIn {
  readonly exchange: Exchange
  readonly call: CallContext
  readonly context: ConsoleContext
  readonly throttle: SignInThrottle
}

/**
 * Begins a session for the holder of a key. Wrong keys are slowed down, a right one that this node knows never is:
 * strangers whose wrong keys come through the same proxy lock its holder out of nothing.
 *
 * @throws GatewayError UNAUTHENTICATED, PERMISSION_DENIED for a key that is not for the console, or where keys do not
 *         sign in, RATE_LIMITED, DEPENDENCY_UNAVAILABLE
 */
async function signIn(key: string, { exchange, call, context, throttle }: SigningIn): Promise<Reply> {
  if (!context.catalog.good().signIn.keys)
    throw new GatewayError('PERMISSION_DENIED', 'API keys do not sign in here: use single sign-on')
  const keySha256 = hashKey(key)
  const retryAfterMs = throttle.waitMs(exchange)
  const principal = looksLikeKey(key) ? await holderFor(keySha256, retryAfterMs, context) : null
  if (principal === null) {
    if (retryAfterMs !== null)
      throw new GatewayError('RATE_LIMITED', 'too many wrong keys came this way; try again in a minute', {
        retryAfterMs,
      })
    throttle.note(exchange)
    throw new GatewayError('UNAUTHENTICATED', 'the API key is malformed, unknown, revoked or expired')
  }
  call.principal = principal
  const { id, rateLimit, expiresAtMs } = principal.key
  const workspace = principal.workspace.id
  await takeToken(context, { workspace, id, rateLimit })
  const role = roleOf(principal)
  if (role === null)
    throw new GatewayError(
      'PERMISSION_DENIED',
      'the console needs an API key with the scope operator or admin',
    )
  await takeToken(context, { workspace, id: `console-sign-in/${id}`, rateLimit: SIGN_INS })

  const ttlMs = (expiresAtMs ?? Number.POSITIVE_INFINITY) - context.clock.wallNow()
  const beginner = { keySha256, person: null, holder: keyHolder(keySha256) }
  const { token, session } = await beginSession(beginner, ttlMs, exchange, context)
  const seconds = Math.max(1, Math.floor((session.expiresAtMs - session.beganAtMs) / 1000))
  return withCookie(
    await jsonReply(await sessionAnswer(keyViewer(principal, role, session), context)),
    sessionCookie(token, seconds, exchange),
  )
}

/** The holder of a key. While the caller is slowed down the state is not asked. */
function holderFor(sha256: string, retryAfterMs: number | null, context: ConsoleContext) {
  if (retryAfterMs === null) return newestHolder(sha256, context)
  return holderOf(context.deps.services.keys, sha256, context.clock.wallNow)
}

/** Ends the session here, and says where the one at the issuer can be ended. */
async function signOut(
  { viewer, exchange, context }: ConsoleCall<typeof PATH, unknown, unknown>,
  singleSignOn: SingleSignOn,
): Promise<WrittenReply> {
  const { id, person } = sessionOf(viewer)
  await context.state.sessions.end(id)
  const url = person === null ? null : await singleSignOn.logoutUrl(person)
  const answer: SignOutAnswer = { ended: true, ...(url === null ? {} : { logout_url: url }) }
  return new WrittenReply(withCookie(await jsonReply(answer), sessionCookie('', 0, exchange)))
}

async function sessionAnswer(viewer: Viewer, { catalog }: ConsoleContext): Promise<SessionAnswer> {
  const { role, principal, workspaces } = viewer
  const session = sessionOf(viewer)
  // An operator who belongs to no workspace begins at any.
  const [first = null] = role === 'admin' ? workspaces : catalog.current().apps.keys()
  return {
    role,
    workspace: principal?.workspace.id ?? first,
    workspaces,
    ...holderAnswer(viewer),
    csrf_token: session.csrfToken,
    expires_at: timestamp(session.expiresAtMs),
    version: await readVersion(),
  }
}

function withCookie(reply: Reply, cookie: string): Reply {
  return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } } as Reply
}
