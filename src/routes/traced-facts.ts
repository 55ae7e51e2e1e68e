import type { Trail } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import type { SpanFacts, TraceEnd } from '../schema/tracing.ts'
import { errorOf, loggedFacts } from './logged-facts.ts'

/** What the span of a request says in the end. What is not in here is in no span. */
export function requestEnd(exchange: Exchange, trail: Trail): TraceEnd {
  const { status, receivedBytes, sentBytes } = exchange
  const sizes = { 'http.request.body.size': receivedBytes, 'http.response.body.size': sentBytes }
  return { status, error: errorOf(exchange, trail), facts: { ...callFacts(trail), ...sizes } }
}

/**
 * The same of one run of a job.
 *
 * @param became its status after that
 */
export function jobEnd(trail: Trail, became: string): TraceEnd {
  return {
    status: null,
    error: trail.failure?.code,
    facts: { ...callFacts(trail), 'larkway.job.status': became },
  }
}

function callFacts(trail: Trail): SpanFacts {
  const { workspace, app, key_id, route, policy_version_id, ...facts } = loggedFacts(trail)
  return {
    'larkway.workspace': workspace,
    'larkway.app': app,
    'larkway.key_id': key_id,
    'larkway.route': route,
    'larkway.policy_version_id': policy_version_id,
    'larkway.purpose': facts.applied_purpose,
    'larkway.attempts': facts.attempts?.length,
    'larkway.cost_usd': facts.cost_usd,
    'larkway.estimated': facts.estimated,
    'larkway.replayed': trail.replayed ? true : undefined,
    'larkway.job.id': trail.jobId ?? undefined,
  }
}
