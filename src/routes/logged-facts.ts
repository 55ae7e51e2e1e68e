import type { Trail } from '../gateway/gateway.ts'

/** What the line of a call in the log says of the call: facts by name, never a text at anybody's disposal. */
export function loggedFacts(trail: Trail) {
  const { principal, policyVersionId, attempts } = trail
  const estimate = trail.usage === null ? (trail.estimate?.metered() ?? null) : null
  const { usage, costUsd } = estimate ?? trail
  return {
    workspace: principal?.workspace.id,
    app: principal?.app.id,
    key_id: principal?.key.id,
    policy_version_id: policyVersionId ?? undefined,
    attempts: attempts.length > 0 ? attempts.map(({ failure: _, ...shown }) => shown) : undefined,
    usage: usage ?? undefined,
    cost_usd: costUsd ?? undefined,
    // Nobody saw the end of an attempt: this is what it is supposed to have come to.
    estimated: estimate === null ? undefined : true,
  }
}
