import { hashKey, looksLikeKey } from '../catalog/key.ts'
import { GatewayError } from '../errors.ts'
import type { Principal, Scope, Snapshot } from '../schema/catalog.ts'
import type { RateDecision } from '../schema/state.ts'
import type { Services, Trail } from './gateway.ts'

const BEARER = /^Bearer +([\x21-\x7e]+)$/i

/** Who asks, as far as that is known before the key is looked at. */
interface Asking {
  readonly authorization: string | undefined
  readonly trail: Trail
}

/**
 * Who asks, by the key alone: shape and check sum first, then one look into the snapshot; no I/O. Leaves the principal
 * and the version of the assigned route on the trail, also for a key that lacks the scope.
 *
 * @throws GatewayError UNAUTHENTICATED (one answer for every reason), PERMISSION_DENIED without the scope
 */
export function authenticate(snapshot: Snapshot, { authorization, trail }: Asking, scope: Scope): Principal {
  const key = BEARER.exec(authorization ?? '')?.[1]
  if (key === undefined || !looksLikeKey(key)) throw unauthenticated()
  const principal = snapshot.keys.get(hashKey(key))
  if (principal === undefined) throw unauthenticated()
  const { expiresAtMs, scopes } = principal.key
  if (expiresAtMs !== null && expiresAtMs <= Date.now()) throw unauthenticated()
  trail.principal = principal
  notePolicyVersion(trail, principal.route.version)
  if (!scopes.includes(scope)) {
    throw new GatewayError('PERMISSION_DENIED', `the API key lacks the scope ${scope}`, {
      details: { scope },
    })
  }
  return principal
}

function unauthenticated(): GatewayError {
  return new GatewayError('UNAUTHENTICATED', undefined, { headers: { 'www-authenticate': 'Bearer' } })
}

/**
 * Authenticates and takes one token of the key's bucket, before anything of the body is stored. Leaves the
 * rate-limit headers on the trail, too. A door that has a body to read admits the caller itself before it
 * does: a trail is admitted only once.
 *
 * @throws GatewayError UNAUTHENTICATED, PERMISSION_DENIED, RATE_LIMITED
 */
export async function admit(services: Services, snapshot: Snapshot, asking: Asking): Promise<Principal> {
  const { trail } = asking
  if (trail.principal !== null) return trail.principal
  const principal = authenticate(snapshot, asking, 'inference')
  const decision = await services.state.rateLimiter.take(principal.key.id, principal.key.rateLimit)
  Object.assign(trail.headers, rateLimitHeaders(decision))
  if (decision.allowed) return principal
  throw new GatewayError('RATE_LIMITED', undefined, { retryAfterMs: decision.retryAfterMs })
}

/** Every authenticated answer names the version of the route that served it, or would have. */
export function notePolicyVersion(trail: Trail, version: string): void {
  trail.policyVersionId = version
  trail.headers['x-lk-policy-version-id'] = version
}

function rateLimitHeaders(decision: RateDecision): Record<string, string> {
  return {
    'x-ratelimit-limit-requests': String(decision.limit),
    'x-ratelimit-remaining-requests': String(decision.remaining),
    'x-ratelimit-reset-requests': formatDuration(decision.resetMs),
  }
}

/** Milliseconds in the form of OpenAI's headers: `120ms`, `1s`, `6m0s`, `1h0m0s`. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < 1000) return `${Math.ceil(milliseconds)}ms`
  const seconds = Math.ceil(milliseconds / 1000)
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor((seconds % 3600) / 60)]
  if (hours > 0) return `${hours}h${minutes}m${seconds % 60}s`
  return minutes > 0 ? `${minutes}m${seconds % 60}s` : `${seconds}s`
}
