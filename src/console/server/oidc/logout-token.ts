import { constants, createPublicKey, type JsonWebKey, type KeyObject, verify } from 'node:crypto'

/** An issuer's order to end sessions: all of a person, or the one that began with a session at the issuer. */
export interface LogoutOrder {
  /** The order's own name: it is carried out once. */
  readonly id: string
  readonly subject: string | null
  readonly issuerSession: string | null
}

interface Expected {
  readonly issuer: string
  readonly clientId: string
  readonly nowMs: number
}

/** How old an order may be, and how far the clock of the issuer ahead. */
export const ORDER_MS = 300_000
const AHEAD_MS = 30_000
const EVENT = 'http://schemas.openid.net/event/backchannel-logout'

/** Signatures that are taken, each with a key of its kind. Never `none`, and no secret that both sides know. */
const ALGORITHMS: Readonly<Record<string, (data: Buffer, key: KeyObject, signature: Buffer) => boolean>> = {
  RS256: (data, key, signature) => isKind(key, 'rsa') && verify('sha256', data, key, signature),
  PS256: (data, key, signature) =>
    isKind(key, 'rsa') &&
    verify('sha256', data, { key, padding: constants.RSA_PKCS1_PSS_PADDING, saltLength: 32 }, signature),
  ES256: (data, key, signature) =>
    isKind(key, 'ec') && verify('sha256', data, { key, dsaEncoding: 'ieee-p1363' }, signature),
  EdDSA: (data, key, signature) => isKind(key, 'ed25519') && verify(null, data, key, signature),
}

function isKind(key: KeyObject, kind: string): boolean {
  return key.asymmetricKeyType === kind
}

/**
 * Tells by its unverified claims whether a token can be an order of the issuer: anything else is
 * refused without the keys of the issuer, and without looking at a signature.
 *
 * @param issuer as the configuration has it, which may differ from its own name by a slash at the end
 */
export function looksLikeLogoutToken(token: string, issuer: string): boolean {
  const parts = tokenParts(token)
  if (parts === null) return false
  const { header, claims } = parts
  if (typeof header.alg !== 'string' || !Object.hasOwn(ALGORITHMS, header.alg)) return false
  return typeof claims.iss === 'string' && URL.parse(claims.iss)?.href === URL.parse(issuer)?.href
}

/** Header and claims of a token, unverified; null: it is none. */
function tokenParts(token: string) {
  const [head = '', payload = '', signature = '', ...more] = token.split('.')
  const [header, claims] = [partJson(head), partJson(payload)]
  if (more.length > 0 || header === null || claims === null || header.crit !== undefined) return null
  return {
    header,
    claims,
    data: Buffer.from(`${head}.${payload}`),
    signature: Buffer.from(signature, 'base64url'),
  }
}

/**
 * Reads a logout token and verifies it (OpenID Connect Back-Channel Logout 1.0, section 2.6).
 *
 * @param keys of the issuer, as it publishes them
 * @returns null: it is none, or is not in order
 */
export function readLogoutToken(
  token: string,
  keys: readonly JsonWebKey[],
  { issuer, clientId, nowMs }: Expected,
): LogoutOrder | null {
  const parts = tokenParts(token)
  if (parts === null) return null
  const { header, claims, data, signature } = parts
  if (!keys.some((key) => isSigned(data, signature, header, key))) return null

  const { iss, aud, iat, exp, jti, sub, sid, events, nonce } = claims
  const isForUs = aud === clientId || (Array.isArray(aud) && aud.includes(clientId))
  const isOrder = typeof events === 'object' && events !== null && Object.hasOwn(events, EVENT)
  // An ID token has a nonce, and could be taken for one of these otherwise.
  if (iss !== issuer || !isForUs || !isOrder || nonce !== undefined) return null
  if (typeof jti !== 'string' || typeof iat !== 'number') return null
  if (iat * 1000 > nowMs + AHEAD_MS || iat * 1000 < nowMs - ORDER_MS) return null
  if (exp !== undefined && (typeof exp !== 'number' || exp * 1000 <= nowMs - AHEAD_MS)) return null
  const subject = typeof sub === 'string' ? sub : null
  const issuerSession = typeof sid === 'string' ? sid : null
  return subject === null && issuerSession === null ? null : { id: jti, subject, issuerSession }
}

function isSigned(data: Buffer, signature: Buffer, header: Json, jwk: JsonWebKey): boolean {
  const { alg, kid } = header
  if (typeof alg !== 'string' || !Object.hasOwn(ALGORITHMS, alg)) return false
  if (kid !== undefined && kid !== jwk.kid) return false
  if ((jwk.alg !== undefined && jwk.alg !== alg) || (jwk.use !== undefined && jwk.use !== 'sig')) return false
  try {
    return ALGORITHMS[alg]!(data, createPublicKey({ key: jwk, format: 'jwk' }), signature)
  } catch {
    // A key that Node does not know.
    return false
  }
}

type Json = Readonly<Record<string, unknown>>

function partJson(part: string): Json | null {
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString())
    return typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Json) : null
  } catch {
    return null
  }
}
