import { ERRORS, type ErrorCode } from '../errors.ts'
import type { AttemptRecord, Trail } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import type { LoggedAttempt } from '../log.ts'

/** What the line of a call in the log says of the call: facts by name, never a text at anybody's disposal. */
export function loggedFacts(trail: Trail) {
  const { principal, policyVersionId, route, attempts } = trail
  const estimate = trail.usage === null ? (trail.estimate?.metered() ?? null) : null
  const { usage, costUsd } = estimate ?? trail
  const tried = attempts.length > 0 ? attempts.map(loggedAttempt) : undefined
  return {
    workspace: principal?.workspace.id,
    app: principal?.app.id,
    key_id: principal?.key.id,
    route: route ?? undefined,
    policy_version_id: policyVersionId ?? undefined,
    ...purposeFacts(trail),
    attempts: tried,
    upstream_milliseconds: tried?.reduce((sum, { milliseconds }) => sum + milliseconds, 0),
    usage: usage ?? undefined,
    cost_usd: costUsd ?? undefined,
    // Nobody saw the end of an attempt: this is what it is supposed to have come to.
    estimated: estimate === null ? undefined : true,
  }
}

/** What a request ended with when it did not succeed: its log, its span and the metrics say the same. */
export function errorOf({ status }: Pick<Exchange, 'status'>, { failure }: Trail): ErrorCode | undefined {
  return failure?.code ?? (status === ERRORS.CLIENT_CLOSED.status ? 'CLIENT_CLOSED' : undefined)
}

/** Name by name, so that what else a record holds, the words of the provider for one, stays out. */
function loggedAttempt({ provider, model, status, milliseconds, reason }: AttemptRecord): LoggedAttempt {
  return { provider, model, status, milliseconds, reason }
}

/** A label that nobody has declared is any text of the caller's: the log says no more than that. */
function purposeFacts({ purpose, forPurpose }: Trail) {
  if (purpose === null || purpose.requested === null) return {}
  const { requested, otherwise, source } = purpose
  return {
    requested_purpose: otherwise === 'purpose_unknown' ? undefined : requested,
    applied_purpose: forPurpose ? requested : undefined,
    purpose_source: forPurpose && source !== null ? source : otherwise,
  }
}
