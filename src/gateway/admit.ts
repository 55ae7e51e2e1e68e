import { hashKey, looksLikeKey } from '../catalog/key.ts'
import { GatewayError } from '../errors.ts'
import type { KeyBook, Principal, Route, Scope } from '../schema/catalog.ts'
import type { OperationName } from '../schema/operations.ts'
import type { RateDecision } from '../schema/state.ts'
import { slotIdOf } from './fingerprint.ts'
import type { Services, Trail } from './gateway.ts'

const BEARER = /^Bearer +([\x21-\x7e]+)$/i

/** Who asks, as far as that is known before the key is looked at. */
export interface Asking {
  readonly authorization: string | undefined
  readonly trail: Trail
  /** The caller's idempotency key, where the operation honours one in the ledger of calls. */
  readonly idempotency?: { readonly operation: OperationName; readonly key: string } | undefined
  /** What the key has to be for; absent: `inference`. */
  readonly scope?: Scope
}

/**
 * Who asks, by the key alone: shape and check sum first, then one look into memory; no I/O. Leaves the principal and
 * the version of the assigned route on the trail.
 *
 * @throws GatewayError UNAUTHENTICATED (one answer for every reason), DEPENDENCY_UNAVAILABLE as `KeyBook.find`
 */
export function authenticate(keys: KeyBook, { authorization, trail }: Asking): Principal {
  trail.trace?.begin('admit')
  const key = BEARER.exec(authorization ?? '')?.[1]
  if (key === undefined || !looksLikeKey(key)) throw unauthenticated()
  const principal = holderOf(keys, hashKey(key))
  if (principal === null) throw unauthenticated()
  trail.principal = principal
  noteRoute(trail, principal.route)
  return principal
}

/**
 * Whose key has that hash; null: nobody's, or it has expired.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE as `KeyBook.find`
 */
export function holderOf(keys: KeyBook, sha256: string, nowMs = Date.now): Principal | null {
  const principal = keys.find(sha256)
  if (principal === undefined) return null
  const { expiresAtMs } = principal.key
  return expiresAtMs !== null && expiresAtMs <= nowMs() ? null : principal
}

/** @throws GatewayError PERMISSION_DENIED */
export function requireScope({ key: { scopes } }: Principal, scope: Scope): void {
  if (scopes.includes(scope)) return
  throw new GatewayError('PERMISSION_DENIED', `the API key lacks the scope ${scope}`, { details: { scope } })
}

function unauthenticated(): GatewayError {
  return new GatewayError('UNAUTHENTICATED', undefined, { headers: { 'www-authenticate': 'Bearer' } })
}

/**
 * Authenticates a caller of the runtime endpoints and takes one token of the key's bucket, before anything of the body
 * is stored. A door that has a body to read admits the caller itself before it does: a trail is admitted only once.
 *
 * @throws GatewayError of `authenticate` and `takeToken`, PERMISSION_DENIED
 */
export async function admit(services: Services, asking: Asking): Promise<Principal> {
  const { trail } = asking
  if (trail.principal !== null) return trail.principal
  const principal = authenticate(services.keys, asking)
  requireScope(principal, asking.scope ?? 'inference')
  const taken = takeToken(services, principal, asking)
  if (taken !== undefined) await taken
  return principal
}

/**
 * Takes one token of the key's bucket and, in the same trip, looks at the slot of the idempotency key. Leaves the
 * rate-limit headers and the slot on the trail.
 *
 * @returns nothing when that was decided at once
 * @throws  GatewayError RATE_LIMITED
 */
export function takeToken(
  { state }: Pick<Services, 'state'>,
  principal: Principal,
  { trail, idempotency }: Asking,
): undefined | Promise<void> {
  const { workspace, key } = principal
  const slotId =
    idempotency === undefined ? null : slotIdOf(principal, idempotency.operation, idempotency.key)
  const taking = { workspace: workspace.id, keyId: key.id, limit: key.rateLimit, slotId }
  const note = (decision: RateDecision): undefined => {
    Object.assign(trail.headers, rateLimitHeaders(decision))
    if (!decision.allowed)
      throw new GatewayError('RATE_LIMITED', undefined, { retryAfterMs: decision.retryAfterMs })
    if (slotId !== null) trail.slot = { id: slotId, taken: decision.slotTaken }
    trail.trace?.end()
  }
  const decision = state.rateLimiter.take(taking)
  return decision instanceof Promise ? decision.then(note) : note(decision)
}

/** Leaves on the trail which route serves the call, or would have. */
export function noteRoute(trail: Trail, { name, version }: Route): void {
  trail.route = name
  notePolicyVersion(trail, version)
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
