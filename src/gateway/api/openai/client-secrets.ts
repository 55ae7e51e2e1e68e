import { randomBytes } from 'node:crypto'
import { Type } from 'typebox'
import type { Selectors } from '../../../contracts/catalog.ts'
import { newId } from '../../../contracts/ids.ts'
import { seal, unseal } from '../../../contracts/sealing.ts'
import { bearerIn } from '../../call/authentication.ts'
import { hashKey } from '../../catalog/key.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import type { LiveGrant } from '../../live/session-counts.ts'
import { checkedBody } from '../checked-body.ts'
import { endpoint } from '../endpoint.ts'
import { jsonReply } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { OpenAiClientSecret } from '../openapi/openai-answers.ts'
import { json } from '../openapi/operation.ts'
import { OPENAI, openaiAnswer, secondsNow } from './door.ts'
import {
  configured,
  DEFAULT_CONFIG,
  effectiveSession,
  liveCallOf,
  type RealtimeConfig,
  RealtimeSession,
} from './realtime-config.ts'

const SECONDS_LEAST = 10
const SECONDS_MOST = 7_200
const SECONDS_DEFAULT = 600
/** A page that reconnects has two for the moment in which the node has not found the first one to be gone. */
const SESSIONS_DEFAULT = 4
const SESSIONS_MOST = 1_000
const SESSION_SECONDS_MOST = 14_400
const MAX_BODY_BYTES = 64 * 1024
/** The secret travels in a header, of which proxies take 8 KiB in all. */
const CONFIG_BYTES_MAX = 2_048
/** OpenAI's library takes no other key in a browser. */
const PREFIX = 'ek_'
/** Much longer than any that is made: nothing longer is looked into. */
const SECRET_LENGTH_MAX = 6_000
const SEALED_FOR = { purpose: 'realtime client secret', workspace: '' }

const Body = Type.Object({
  expires_after: optional(
    Type.Object({
      anchor: optional(Type.Literal('created_at'), 'from when the seconds count'),
      seconds: optional(
        Type.Integer({ minimum: SECONDS_LEAST, maximum: SECONDS_MOST }),
        `for how long it opens sessions; default: ${SECONDS_DEFAULT}`,
      ),
    }),
    'when it expires; a session that is open by then continues',
  ),
  session: RealtimeSession,
  max_sessions: optional(
    Type.Integer({ minimum: 1, maximum: SESSIONS_MOST }),
    `sessions that may be open at once, over all nodes; default: ${SESSIONS_DEFAULT}`,
  ),
  max_session_seconds: optional(
    Type.Integer({ minimum: 1, maximum: SESSION_SECONDS_MOST }),
    'how long a session may last; default: `limits.live_max_session_seconds`',
  ),
})

/** Terms of a client secret, sealed in the secret itself, so that every node can read them. */
export interface ClientSecret extends LiveGrant {
  /** SHA-256 of the key for which it stands, which has to be in force. */
  readonly keySha256: string
  /** Unix seconds. */
  readonly expiresAt: number
  readonly config: RealtimeConfig
  /** Chosen by whoever had the key: the secret's holder has no other route. */
  readonly selectors: Selectors
  /** End user for whom it was made, by the id as it is kept; absent: none was named. */
  readonly endUser?: string
}

function sealSecret(secretKeys: readonly Buffer[], secret: ClientSecret): string {
  return PREFIX + seal(secretKeys, JSON.stringify(secret), SEALED_FOR)
}

/** Goes by its form alone; `openSecret` tells whether it is in force. */
export function looksLikeSecret(text: string): boolean {
  return text.startsWith(PREFIX)
}

/** Terms of a client secret; null: it was not made here, or has expired. @param nowSeconds Unix seconds */
export function openSecret(
  secretKeys: readonly Buffer[],
  text: string,
  nowSeconds: number,
): ClientSecret | null {
  if (!looksLikeSecret(text) || text.length > SECRET_LENGTH_MAX) return null
  const plain = unseal(secretKeys, text.slice(PREFIX.length), SEALED_FOR)
  if (plain === null) return null
  const secret = JSON.parse(plain) as ClientSecret
  return secret.expiresAt > nowSeconds ? secret : null
}

export const clientSecrets = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/realtime/client_secrets',
  kind: 'none',
  id: 'openaiClientSecrets',
  summary: 'Make a client secret',
  description:
    'Opens live transcription sessions in a browser in place of the key, and nothing else. It ends with the key.',
  body: checkedBody(Body, MAX_BODY_BYTES),
  answers: [openaiAnswer([json(OpenAiClientSecret)])],
  errors: [
    'ROUTE_CONTROL_NOT_ALLOWED',
    'REQUIRED_FEATURE_UNAVAILABLE',
    'NO_HEALTHY_PROVIDER',
    'PLAN_NOT_ENTITLED',
  ],
  async handle({ exchange, context, deps, body: sent }) {
    const { session, expires_after: expiry, max_sessions: sessions, max_session_seconds: most } = sent
    const config = configured(DEFAULT_CONFIG, session)
    if (Buffer.byteLength(JSON.stringify(config)) > CONFIG_BYTES_MAX)
      throw invalidField('session', `${MUST.beAtMost(CONFIG_BYTES_MAX)} bytes; the client can send the rest`)
    // A session that could never be opened is refused here, where someone reads the refusal.
    const call = liveCallOf(exchange, context.principal, config)
    deps.live.select(context, call)
    const expiresAt = secondsNow(deps.services.clock) + (expiry?.seconds ?? SECONDS_DEFAULT)
    const secret: ClientSecret = {
      id: randomBytes(9).toString('base64url'),
      keySha256: hashKey(bearerIn(exchange.headers.authorization)),
      expiresAt,
      maxSessions: sessions ?? SESSIONS_DEFAULT,
      maxSeconds: most ?? null,
      config,
      selectors: call.selectors,
      ...(context.endUser === null ? {} : { endUser: context.endUser.id }),
    }
    return jsonReply({
      value: sealSecret(deps.secretKeys, secret),
      expires_at: expiresAt,
      session: effectiveSession(newId('sess'), config),
      max_sessions: secret.maxSessions,
      max_session_seconds: secret.maxSeconds,
    })
  },
})
