import { keyPrefix } from '../catalog/key.ts'
import { authenticate, notePolicyVersion } from '../gateway/admit.ts'
import type { Limits } from '../limits.ts'
import type { Principal, Route } from '../schema/catalog.ts'
import type { Handle } from './endpoint.ts'

/** GET /v1/me: whom the key stands for, what its route can do, and the limits in force. */
export const me: Handle = (exchange, trail, { services }) => {
  const snapshot = services.snapshot()
  const { authorization } = exchange.headers
  const principal = authenticate(snapshot, authorization, 'inference', Date.now())
  trail.principal = principal
  notePolicyVersion(trail, principal.route.version)
  let body = bodies.get(principal)
  if (body === undefined) {
    body = JSON.stringify(describe(principal, bearerOf(authorization), snapshot.limits))
    bodies.set(principal, body)
  }
  return { status: 200, body }
}

/** A principal belongs to one snapshot, and so does all that is said of it. */
const bodies = new WeakMap<Principal, string>()

function describe(principal: Principal, bearer: string, limits: Limits) {
  const { workspace, app, key, route } = principal
  return {
    workspace,
    app,
    key: { id: key.id, name: key.name, prefix: keyPrefix(bearer), scopes: key.scopes },
    route: { name: route.name, policy_version_id: route.version, capabilities: capabilitiesOf(route) },
    purposes: principal.purposes.map(({ purpose, description, enabled }) => ({
      purpose,
      description,
      is_enabled: enabled,
    })),
    routing_contexts: contextsOf(principal),
    limits,
    billing: { credits_usd: null, budget_usd: null, spent_usd: null },
  }
}

function bearerOf(authorization = ''): string {
  return authorization.slice(authorization.lastIndexOf(' ') + 1)
}

function capabilitiesOf({ entries }: Route): string[] {
  return [...new Set(entries.flatMap(({ facts }) => facts.capabilities))].sort()
}

/** The default routing, and each capability that an override routes elsewhere. */
function contextsOf({ route, capabilityRoutes, purposes }: Principal) {
  const contexts: [string, Route][] = [['default', route], ...capabilityRoutes]
  return contexts.map(([context, { name, version }]) => ({
    context,
    route: name,
    policy_version_id: version,
    purposes: purposes
      .filter(({ enabled, route }) => enabled && route !== null)
      .map(({ purpose }) => purpose),
  }))
}
