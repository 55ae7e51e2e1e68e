import type { ApiKeys, Principal, Scope, Snapshot } from '../../contracts/catalog.ts'
import { END_USER_HEADER } from '../../contracts/catalog.ts'
import { GatewayError } from '../../contracts/errors.ts'
import type { JobSpec } from '../../contracts/jobs.ts'
import type { OperationName } from '../../contracts/operations.ts'
import type { RateDecision } from '../../contracts/rate-limit.ts'
import type { Clock } from '../../contracts/time.ts'
import { hashKey, KEY_LENGTH, looksLikeKey } from '../catalog/key.ts'
import type { AdmittedContext, CallContext } from './context/call-context.ts'
import { noteEndUser } from './context/end-users.ts'
import { slotIdOf } from './context/idempotency.ts'
import type { Services } from './context/services.ts'

const BEARER = /^Bearer +([\x21-\x7e]+)$/i

/** Requirements of an endpoint on its callers. */
export interface AdmissionOptions {
  /** Scope that the key needs; absent: `inference`. */
  readonly scope?: Scope
  /** A key with the scope `operator` needs no other. */
  readonly operator?: true | undefined
  /** The caller's idempotency key, where the operation honours one in the ledger of calls. */
  readonly idempotency?: IdempotencyKey | undefined
  /** The rest of the head; absent: it says nothing. */
  readonly head?: CallHead
}

/** The contents of a request's head other than its key. */
export interface CallHead {
  readonly headers: Readonly<Record<string, string>>
  /** Null: none was found. */
  readonly headFault: GatewayError | null
}

export interface IdempotencyKey {
  readonly operation: OperationName
  readonly key: string
}

/**
 * Admits a caller: authenticates it, checks its scope and takes one token of the key's bucket. Done once per request,
 * before anything of its body is stored. At once, unless the token has to be asked for elsewhere.
 *
 * Other errors in the head are reported only to callers who are admitted, so that the call is recorded as theirs and
 * limited like any other.
 *
 * @throws GatewayError, or rejects with it, of `authenticate` and `takeToken`, PERMISSION_DENIED, that of the head
 */
export function admit(
  services: Pick<Services, 'clock' | 'keys' | 'state' | 'endUserHash'>,
  context: CallContext,
  authorization: string | undefined,
  { scope = 'inference', operator, idempotency, head = EMPTY_HEAD }: AdmissionOptions = {},
): AdmittedContext | Promise<AdmittedContext> {
  const admitted = authenticate(services, context, authorization)
  requireScope(admitted.principal, scope, operator)
  const fault = noteHead(services, admitted, head)
  const taken = takeToken(services, admitted, fault === null ? idempotency : undefined)
  if (taken !== undefined) return taken.then(() => soundOf(admitted, fault))
  return soundOf(admitted, fault)
}

const EMPTY_HEAD: CallHead = Object.freeze({ headers: {}, headFault: null })

/**
 * Notes whom the call is for, as its head names it.
 *
 * @returns what is wrong with the head; null: nothing
 */
export function noteHead(
  services: Pick<Services, 'endUserHash'>,
  context: AdmittedContext,
  { headers, headFault }: CallHead,
): GatewayError | null {
  const fault = noteEndUser(services, context, headers[END_USER_HEADER])
  return headFault ?? fault
}

/** The context of a call whose head is sound. @throws GatewayError `fault`, where there is one */
export function soundOf(context: AdmittedContext, fault: GatewayError | null): AdmittedContext {
  if (fault !== null) throw fault
  return context
}

type KeyServices = Pick<Services, 'keys' | 'clock'>

/**
 * Authenticates a caller by its key: one look into memory by its hash; no I/O. The check digits of a key that is found
 * are not computed, which takes as long as the hash. Nothing keeps the key itself. Leaves the principal and the version
 * of the assigned route on the context.
 *
 * @throws GatewayError UNAUTHENTICATED (one answer for every reason), DEPENDENCY_UNAVAILABLE as `ApiKeys.find`
 */
export function authenticate(
  services: KeyServices,
  context: CallContext,
  authorization: string | undefined,
): AdmittedContext {
  context.trace?.begin('admit')
  const key = authorization === undefined ? undefined : BEARER.exec(authorization)?.[1]
  if (key?.length !== KEY_LENGTH) throw unauthenticated()
  try {
    return identify(services, context, hashKey(key))
  } catch (error) {
    // The state is not needed to refuse a key that was mistyped.
    throw looksLikeKey(key) ? error : unauthenticated()
  }
}

/** The key, or what stands for one, in a header of the form `Bearer <key>`. */
export function bearerIn(authorization = ''): string {
  return authorization.replace(/^Bearer +/i, '')
}

/** Authenticates who has a secret that stands for a key, as `authenticate`. @param sha256 of the key; null: none */
export function authenticateGrant(
  services: KeyServices,
  context: CallContext,
  sha256: string | null,
): AdmittedContext {
  context.trace?.begin('admit')
  return identify(services, context, sha256)
}

function identify(
  { keys, clock }: KeyServices,
  context: CallContext,
  sha256: string | null,
): AdmittedContext {
  const principal = sha256 === null ? null : holderOf(keys, sha256, clock.wallNow)
  if (principal === null) throw unauthenticated()
  context.routing.noteRoute(principal.route)
  return context.identify(principal)
}

/**
 * The holder of the key with that hash; null: there is none, or the key has expired.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE as `ApiKeys.find`
 */
export function holderOf(keys: ApiKeys, sha256: string, nowMs: Clock['wallNow']): Principal | null {
  const principal = keys.find(sha256)
  if (principal === undefined) return null
  const { expiresAtMs } = principal.key
  return expiresAtMs !== null && expiresAtMs <= nowMs() ? null : principal
}

/** @param operator the scope `operator` is enough, too. @throws GatewayError PERMISSION_DENIED */
export function requireScope({ key: { scopes } }: Principal, scope: Scope, operator?: true): void {
  if (scopes.includes(scope) || (operator === true && scopes.includes('operator'))) return
  throw new GatewayError('PERMISSION_DENIED', `the API key lacks the scope ${scope}`, { details: { scope } })
}

function unauthenticated(): GatewayError {
  return new GatewayError('UNAUTHENTICATED', undefined, { headers: { 'www-authenticate': 'Bearer' } })
}

/**
 * Takes one token of the key's bucket and, in the same trip, looks at the slot of the idempotency key; then one of the
 * end user's bucket, where it has one. Leaves the rate-limit headers and the slot on the context.
 *
 * @returns undefined when that was decided at once
 * @throws  GatewayError RATE_LIMITED
 */
export function takeToken(
  { state }: Pick<Services, 'state'>,
  context: AdmittedContext,
  idempotency?: IdempotencyKey,
): undefined | Promise<void> {
  const { workspace, key } = context.principal
  const slotId =
    idempotency === undefined ? null : slotIdOf(context.principal, idempotency.operation, idempotency.key)
  const decision = state.rateLimiter.take({
    workspace: workspace.id,
    keyId: key.id,
    limit: key.rateLimit,
    slotId,
  })
  if (decision instanceof Promise)
    return decision.then((later) => {
      noteDecision(context, later, slotId)
      return takeEndUserToken({ state }, context)
    })
  noteDecision(context, decision, slotId)
  return takeEndUserToken({ state }, context)
}

/**
 * Takes one token of the bucket of the end user whom the call is for, where its workspace gives it one.
 *
 * @returns undefined when that was decided at once
 * @throws  GatewayError RATE_LIMITED
 */
export function takeEndUserToken(
  { state }: Pick<Services, 'state'>,
  { endUser, principal: { workspace } }: AdmittedContext,
): undefined | Promise<void> {
  const limit = endUser?.terms.rateLimit ?? null
  if (endUser === null || limit === null) return undefined
  const keyId = `end-user:${workspace.id}:${endUser.account}`
  const decision = state.rateLimiter.take({ workspace: workspace.id, keyId, limit, slotId: null })
  if (decision instanceof Promise) return decision.then(requireEndUserToken)
  requireEndUserToken(decision)
}

/** The headers tell of the key alone: a client that sees its end users' figures there would slow down for all. */
function requireEndUserToken({ allowed, retryAfterMs }: RateDecision): void {
  if (allowed) return
  const details = { rate_limit: 'end_user' }
  throw new GatewayError('RATE_LIMITED', 'too many requests for this end user', { retryAfterMs, details })
}

/** @throws GatewayError RATE_LIMITED */
function noteDecision(context: AdmittedContext, decision: RateDecision, slotId: string | null): void {
  context.answer.bucket = decision
  if (!decision.allowed)
    throw new GatewayError('RATE_LIMITED', undefined, { retryAfterMs: decision.retryAfterMs })
  if (slotId !== null) context.slot = { id: slotId, taken: decision.slotTaken }
  context.trace?.end()
}

/**
 * The principal that a job runs for, by the configuration in force: its app's routes and its workspace's terms, and of
 * its key what was recorded when the job was accepted, since revoking a key does not stop accepted jobs.
 *
 * @returns null when the app is not configured any more
 */
export function jobPrincipal(job: JobSpec, { apps, rateLimit }: Snapshot): Principal | null {
  const app = apps.get(job.workspace)?.get(job.app)
  if (app === undefined) return null
  const { keyId: id, keyBudgetMicros: budgetMicros, keyRates } = job
  const { requestsPerMinute, burst } = rateLimit
  const own = { requestsPerMinute, burst, ...keyRates }
  return { ...app, key: { id, name: '', scopes: [], rateLimit: own, expiresAtMs: null, budgetMicros } }
}
