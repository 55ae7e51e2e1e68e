import { ERRORS, type ErrorCode } from './errors.ts'
import type { LoggedAttempt } from './log.ts'
import type { AttemptRecord, EndedCall, EndedRouting } from './recorder.ts'
import type { SpanFacts, TraceEnd } from './tracing.ts'

/**
 * Facts of a call by name, for its log line, its record and its span. Never a header, a body or a text that a caller or
 * a provider has written.
 */
export function callFacts(call: EndedCall) {
  const { principal, money } = call
  const { policyVersionId, route, attempts } = call.routing
  const { estimated } = money
  const { usage, costUsd } = estimated ?? money
  const tried = attempts.length > 0 ? attempts.map(loggedAttempt) : undefined
  return {
    workspace: principal?.workspace.id,
    app: principal?.app.id,
    key_id: principal?.key.id,
    route: route ?? undefined,
    policy_version_id: policyVersionId ?? undefined,
    ...purposeFacts(call.routing),
    attempts: tried,
    upstream_milliseconds: tried?.reduce((sum, { milliseconds }) => sum + milliseconds, 0),
    usage: usage ?? undefined,
    cut_through: call.routing.cutThrough ?? undefined,
    cache: call.answer.cache ?? undefined,
    cost_usd: costUsd ?? undefined,
    // The end of the attempt is unknown: these figures are estimated, not measured.
    estimated: estimated === null ? undefined : true,
    ...liveFacts(call),
  }
}

/** Code that a request ended with when it did not succeed: log, span and metrics agree on it. */
export function failureCode(
  { status }: { readonly status: number | null },
  { failure }: Pick<EndedCall, 'failure'>,
): ErrorCode | undefined {
  return failure?.code ?? (status === ERRORS.CLIENT_CLOSED.status ? 'CLIENT_CLOSED' : undefined)
}

/** End of a request's span. */
export function requestEnd(
  exchange: {
    readonly status: number | null
    readonly receivedBytes: number
    readonly sentBytes: number
  },
  call: EndedCall,
): TraceEnd {
  const { status, receivedBytes, sentBytes } = exchange
  const sizes = { 'http.request.body.size': receivedBytes, 'http.response.body.size': sentBytes }
  return { status, error: failureCode(exchange, call), facts: { ...spanFacts(call), ...sizes } }
}

/**
 * End of the span of one run of a job.
 *
 * @param became status of the job after the run
 */
export function jobEnd(call: EndedCall, became: string): TraceEnd {
  return {
    status: null,
    error: call.failure?.code,
    facts: { ...spanFacts(call), 'larkway.job.status': became },
  }
}

/** Picks name by name, so that what else a record holds, such as the provider's words, stays out. */
export function loggedAttempt({
  provider,
  model,
  replica,
  status,
  milliseconds,
  reason,
}: AttemptRecord): LoggedAttempt {
  const attempt = { provider, model, status, milliseconds, reason }
  return replica === null ? attempt : { ...attempt, replica }
}

/** The seconds of its audio are in `usage`, as of every call. */
function liveFacts({ live }: EndedCall) {
  if (live === null) return {}
  const { switches, replayed_seconds, lost_seconds, ended } = live
  return { session_end: ended ?? undefined, switches, replayed_seconds, lost_seconds }
}

/** An undeclared label is any text of the caller's: only that it is unknown is told. */
function purposeFacts({ purpose, forPurpose }: EndedRouting) {
  if (purpose === null || purpose.requested === null) return {}
  const { requested, otherwise, source } = purpose
  return {
    requested_purpose: otherwise === 'purpose_unknown' ? undefined : requested,
    applied_purpose: forPurpose ? requested : undefined,
    purpose_source: forPurpose && source !== null ? source : otherwise,
  }
}

function spanFacts(call: EndedCall): SpanFacts {
  const { workspace, app, key_id, route, policy_version_id, ...facts } = callFacts(call)
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
    'larkway.live.end': facts.session_end,
    'larkway.live.switches': facts.switches,
    'larkway.live.replayed_seconds': facts.replayed_seconds,
    'larkway.live.lost_seconds': facts.lost_seconds,
    'larkway.cache': facts.cache,
    'larkway.replayed': call.answer.replayed ? true : undefined,
    'larkway.job.id': call.jobId ?? undefined,
  }
}
