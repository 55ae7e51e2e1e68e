import { keyPrefix } from '../catalog/key.ts'
import { authenticate, notePolicyVersion } from '../gateway/admit.ts'
import type { Principal, Route } from '../schema/catalog.ts'
import type { Handle } from './endpoint.ts'

/** GET /v1/me: whom the key stands for, what its route can do, and the limits in force. */
export const me: Handle = async (exchange, trail, { services }) => {
  const snapshot = services.snapshot()
  const { authorization } = exchange.headers
  const principal = authenticate(snapshot, authorization, 'inference', Date.now())
  trail.principal = principal
  notePolicyVersion(trail, principal.route.version)
  const { workspace, app, key, route } = principal
  const body = {
    workspace,
    app,
    key: { id: key.id, name: key.name, prefix: keyPrefix(bearerOf(authorization)), scopes: key.scopes },
    route: { name: route.name, policy_version_id: route.version, capabilities: capabilitiesOf(route) },
    purposes: principal.purposes.map(({ purpose, description, enabled }) => ({
      purpose,
      description,
      is_enabled: enabled,
    })),
    routing_contexts: contextsOf(principal),
    limits: snapshot.limits,
    billing: { credits_usd: null, budget_usd: null, spent_usd: null },
  }
  return { status: 200, body: JSON.stringify(body) }
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
