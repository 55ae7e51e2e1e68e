import { keyPrefix } from '../catalog/key.ts'
import { authenticate } from '../gateway/admit.ts'
import { capabilitiesOf } from '../gateway/capabilities.ts'
import type { Limits } from '../limits.ts'
import type { Capability } from '../schema/calls.ts'
import type { Principal, Purpose, Route } from '../schema/catalog.ts'
import type { Handle } from './endpoint.ts'

/** GET /v1/me: whom the key stands for, what its route can do, and the limits in force. */
export const me: Handle = (exchange, trail, { services }) => {
  const snapshot = services.snapshot()
  const { authorization } = exchange.headers
  const principal = authenticate(snapshot, { authorization, trail }, 'inference')
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
  const { app, key, route } = principal
  const { id, name, plan } = principal.workspace
  return {
    workspace: { id, name, plan },
    app,
    key: { id: key.id, name: key.name, prefix: keyPrefix(bearer), scopes: key.scopes },
    route: {
      name: route.name,
      policy_version_id: route.version,
      capabilities: [...capabilitiesOf(route)].sort(),
    },
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

/**
 * The default routing, and each capability that an override routes elsewhere; with the purposes that would replace that
 * route: in the context of a capability those whose own route has it.
 */
function contextsOf({ route, capabilityRoutes, purposes }: Principal) {
  const overrides = [...capabilityRoutes].map(([capability, override]) => {
    return contextOf(capability, override, usable(purposes, capability))
  })
  return [contextOf('default', route, usable(purposes, null)), ...overrides]
}

function contextOf(context: string, { name, version }: Route, purposes: readonly string[]) {
  return { context, route: name, policy_version_id: version, purposes }
}

function usable(purposes: readonly Purpose[], capability: Capability | null): string[] {
  const isUsable = ({ enabled, route }: Purpose): boolean => {
    if (!enabled || route === null || !route.published) return false
    return capability === null || capabilitiesOf(route).has(capability)
  }
  return purposes.filter(isUsable).map(({ purpose }) => purpose)
}
