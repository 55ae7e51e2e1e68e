import { randomBytes } from 'node:crypto'
import { Type } from 'typebox'
import { observedRoute } from '../../api/endpoint.ts'
import { jsonReply, timestamp } from '../../api/json-reply.ts'
import { hashKey, looksLikeKey } from '../../catalog/key.ts'
import type { RateLimit } from '../../contracts/rate-limit.ts'
import { GatewayError } from '../../errors.ts'
import type { CallContext } from '../../gateway/call-context.ts'
import type { Exchange, Reply } from '../../inbound/exchange.ts'
import type { EdgeRoute } from '../../inbound/server.ts'
import { readVersion } from '../../version.ts'
import type { SessionAnswer } from './api/answers.ts'
import type { ConsoleContext } from './context.ts'
import { consoleEndpoint, readStrict, WrittenReply } from './endpoint.ts'
import { requireSameOrigin, SignInThrottle, sessionCookie } from './security.ts'
import { newestHolder, roleOf, sessionId, takeToken, type Viewer, viewerWith } from './session.ts'

const PATH = '/session'
const SESSION_MS = 12 * 60 * 60 * 1000
const TOKEN_BYTES = 32
/** Sign-ins with one key: each session is kept until it is over, however few are in use. */
const SIGN_INS: RateLimit = { requestsPerMinute: 30, burst: 60 }

const SignIn = Type.Object({
  key: Type.String({ maxLength: 256, description: 'an API key with the scope operator or admin' }),
})

/** POST, GET and DELETE of the session: sign in with an API key, ask who is signed in, and sign out. */
export function consoleSession(context: ConsoleContext): EdgeRoute[] {
  const throttle = new SignInThrottle(context.nowMs)
  return [
    observedRoute(
      context.dependencies,
      { method: 'POST', path: `/console/api${PATH}` },
      async (exchange, call) => {
        call.headers['cache-control'] = 'no-store'
        requireSameOrigin(exchange)
        throttle.refuseTooMany(exchange)
        const { key } = await readStrict(SignIn, exchange, context)
        return signIn(key, { exchange, call, context, throttle })
      },
    ),
    consoleEndpoint(context, 'GET', PATH, {}, ({ viewer }) => sessionAnswer(viewer)),
    consoleEndpoint(context, 'DELETE', PATH, {}, async ({ viewer, exchange }) => {
      await context.state.sessions.end(viewer.session.id)
      return new WrittenReply(withCookie(await jsonReply({ ended: true }), sessionCookie('', 0, exchange)))
    }),
  ]
}

interface SigningIn {
  readonly exchange: Exchange
  readonly call: CallContext
  readonly context: ConsoleContext
  readonly throttle: SignInThrottle
}

/**
 * Begins a session for the holder of a key.
 *
 * @throws GatewayError UNAUTHENTICATED, PERMISSION_DENIED for a key that is not for the console, RATE_LIMITED,
 *         DEPENDENCY_UNAVAILABLE
 */
async function signIn(key: string, { exchange, call, context, throttle }: SigningIn): Promise<Reply> {
  const keySha256 = hashKey(key)
  const principal = looksLikeKey(key) ? await newestHolder(keySha256, context) : null
  if (principal === null) {
    throttle.note(exchange)
    throw new GatewayError('UNAUTHENTICATED', 'the API key is malformed, unknown, revoked or expired')
  }
  call.principal = principal
  await takeToken(context, principal, principal.key)
  const role = roleOf(principal)
  if (role === null)
    throw new GatewayError(
      'PERMISSION_DENIED',
      'the console needs an API key with the scope operator or admin',
    )
  await takeToken(context, principal, { id: `console-sign-in/${principal.key.id}`, rateLimit: SIGN_INS })

  const token = randomBytes(TOKEN_BYTES).toString('base64url')
  const csrfToken = randomBytes(TOKEN_BYTES).toString('base64url')
  const session = { id: sessionId(token), keySha256, csrfToken }
  const nowMs = context.nowMs()
  const ttlMs = Math.min(SESSION_MS, (principal.key.expiresAtMs ?? Number.POSITIVE_INFINITY) - nowMs)
  await context.state.sessions.begin(session, ttlMs)
  const viewer = viewerWith(principal, role, { ...session, expiresAtMs: nowMs + ttlMs })
  return withCookie(
    await jsonReply(await sessionAnswer(viewer)),
    sessionCookie(token, Math.max(1, Math.floor(ttlMs / 1000)), exchange),
  )
}

async function sessionAnswer({ role, principal, session }: Viewer): Promise<SessionAnswer> {
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

function withCookie(reply: Reply, cookie: string): Reply {
  return { ...reply, headers: { ...reply.headers, 'set-cookie': cookie } } as Reply
}
