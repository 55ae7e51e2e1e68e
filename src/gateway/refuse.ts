import { ERRORS, GatewayError } from '../errors.ts'
import type { Route } from '../schema/catalog.ts'
import type { Consideration, Left } from './consideration.ts'
import type { Demand } from './eligibility.ts'
import { explainRows } from './explain.ts'

/** So many entries are explained to the caller: a refusal must not grow with the routes of an odd configuration. */
const EXPLAINED_MAX = 100

/**
 * Why nothing of what was considered can serve the call. The entry that came furthest tells: one that is only to be
 * left alone for a while, else one over its limits, else one without the features, else one outside the plan.
 */
export function refuse(considered: readonly Consideration[], assigned: Route, demand: Demand): GatewayError {
  const lefts = considered.flatMap(({ left }) => (left === null ? [] : [left]))
  const shown = considered.filter(({ left }) => left?.why !== 'workspace')
  const details = { policy_version_id: assigned.version, entries: explainRows(shown.slice(0, EXPLAINED_MAX)) }

  const waitsMs = ofKind(lefts, 'cooling').map(({ retryAfterMs }) => retryAfterMs)
  if (waitsMs.length > 0) {
    const soonestMs = Math.min(...waitsMs)
    const seconds = Math.ceil(soonestMs / 1000)
    const message = `${ERRORS.PROVIDERS_COOLING_DOWN.message}; retry after ${seconds} s`
    return new GatewayError('PROVIDERS_COOLING_DOWN', message, {
      details: { ...details, retry_after_ms: soonestMs },
      retryAfterMs: soonestMs,
    })
  }
  const [limit] = ofKind(lefts, 'limits')
  if (limit !== undefined)
    return new GatewayError('INVALID_REQUEST', limit.message, { param: limit.param, details })
  if (ofKind(lefts, 'features').length > 0) {
    const message = `${ERRORS.REQUIRED_FEATURE_UNAVAILABLE.message}: ${demand.features.join(', ')}`
    return new GatewayError('REQUIRED_FEATURE_UNAVAILABLE', message, { details })
  }
  if (ofKind(lefts, 'plan').length > 0) return new GatewayError('PLAN_NOT_ENTITLED', undefined, { details })
  return new GatewayError('NO_HEALTHY_PROVIDER', undefined, {
    details: { ...details, required_capabilities: demand.capabilities },
  })
}

function ofKind<Why extends Left['why']>(lefts: readonly Left[], why: Why) {
  return lefts.filter((left): left is Extract<Left, { readonly why: Why }> => left.why === why)
}
