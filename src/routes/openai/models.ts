import { GatewayError } from '../../errors.ts'
import { authenticate, requireScope } from '../../gateway/admit.ts'
import { entitledEntries } from '../../gateway/eligibility.ts'
import type { Services, Trail } from '../../gateway/gateway.ts'
import { isUsable } from '../../gateway/purpose.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import type { Principal } from '../../schema/catalog.ts'
import type { Handle } from '../endpoint.ts'

interface Model {
  readonly id: string
  readonly object: 'model'
  /** Unix seconds. Nobody knows when a model was made, or a purpose declared. */
  readonly created: 0
  readonly owned_by: string
}

/** GET /openai/v1/models */
export const models: Handle = (exchange, trail, { services }) => {
  const data = modelsOf(authorized(exchange, trail, services))
  return { status: 200, body: JSON.stringify({ object: 'list', data }) }
}

/** GET /openai/v1/models/{model} */
export const model: Handle = (exchange, trail, { services }) => {
  const [wanted] = exchange.params
  const found = modelsOf(authorized(exchange, trail, services)).find(({ id }) => id === wanted)
  if (found === undefined) {
    throw new GatewayError('NOT_FOUND', 'the route of the key offers no such model', { param: 'model' })
  }
  return { status: 200, body: JSON.stringify(found) }
}

function authorized(exchange: Exchange, trail: Trail, { keys }: Services): Principal {
  const { authorization } = exchange.headers
  const principal = authenticate(keys, { authorization, trail })
  requireScope(principal, 'inference')
  return principal
}

/**
 * What a key can be served by: first the purposes, which are what `model` chooses, then the models of its routes, which
 * the routes choose among. Of a provider no more is told than its name, as every answer tells it.
 */
function modelsOf(principal: Principal): readonly Model[] {
  const { route, capabilityRoutes, purposes, workspace } = principal
  const usable = purposes.filter((purpose) => isUsable(purpose, workspace))
  const routes = [route, ...capabilityRoutes.values(), ...usable.flatMap((purpose) => purpose.route ?? [])]
  const offered = [
    ...usable.map(({ purpose }) => modelOf(purpose, workspace.id)),
    ...routes
      .flatMap((each) => entitledEntries(each, workspace))
      .map((entry) => modelOf(entry.model, entry.provider.name)),
  ]
  return [...new Map(offered.toReversed().map((each) => [each.id, each])).values()].toReversed()
}

function modelOf(id: string, owner: string): Model {
  return { id, object: 'model', created: 0, owned_by: owner }
}
