import type { Static, TObject } from 'typebox'
import { Value } from 'typebox/value'
import { GatewayError } from '../errors.ts'
import { authenticate, requireScope, takeToken } from '../gateway/admit.ts'
import type { Services, Trail } from '../gateway/gateway.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import { readJson } from '../inbound/json-body.ts'
import type { EdgeRoute } from '../inbound/server.ts'
import type { Principal } from '../schema/catalog.ts'
import { type Doors, endpoint } from './endpoint.ts'
import { faultOf } from './json-fault.ts'

/** Settings are small; a body over this is refused whatever `max_request_body_bytes` says. */
const MAX_BODY_BYTES = 64 * 1024

/** What a call of the workspace API is handled with, once its caller is known as an admin of the workspace. */
export interface WorkspaceCall {
  readonly exchange: Exchange
  readonly services: Services
  readonly principal: Principal
  /** The id of the workspace. */
  readonly workspace: string
}

/**
 * Binds an endpoint below `/workspace/:tenant_id` to the edge. Only a key of that very workspace with the scope `admin`
 * gets through. For any other key the workspace is not there, be it one or not, and whatever the key may do.
 *
 * @param path what follows the workspace's id
 */
export function workspaceEndpoint(
  doors: Doors,
  method: EdgeRoute['method'],
  path: string,
  handle: (call: WorkspaceCall) => Promise<Reply>,
): EdgeRoute {
  return endpoint(doors, method, `/workspace/:tenant_id${path}`, async (exchange, trail, { services }) => {
    const principal = await admitAdmin(exchange, trail, services)
    return handle({ exchange, services, principal, workspace: principal.workspace.id })
  })
}

/**
 * The token is taken before the workspace is looked at, so that guessing is limited, too.
 *
 * @throws GatewayError UNAUTHENTICATED, RATE_LIMITED, NOT_FOUND, PERMISSION_DENIED, in this order
 */
async function admitAdmin(exchange: Exchange, trail: Trail, services: Services): Promise<Principal> {
  const asking = { authorization: exchange.headers.authorization, trail }
  const principal = authenticate(services.keys, asking)
  await takeToken(services, principal, asking)
  if (exchange.params[0] !== principal.workspace.id) {
    throw new GatewayError('NOT_FOUND', 'there is no such workspace')
  }
  requireScope(principal, 'admin')
  return principal
}

/**
 * Reads the JSON body of a call. Members that the schema does not name are ignored.
 *
 * @throws GatewayError of `readJson`, INVALID_REQUEST naming the field at fault
 */
export async function readSettings<Shape extends TObject>(
  schema: Shape,
  { exchange, services, principal }: WorkspaceCall,
): Promise<Static<Shape>> {
  const maxBytes = Math.min(MAX_BODY_BYTES, services.snapshot().limits.max_request_body_bytes)
  const options = { budget: services.budget, maxBytes, workspace: principal.workspace.id }
  const { value, release } = await readJson(exchange, options).catch((error: unknown) => {
    throw tooLarge(error, maxBytes) ?? error
  })
  exchange.onFinished(release)
  if (!Value.Check(schema, value)) throw faultOf(schema, value)
  return value
}

/** The refusal of a large body would name the limit of all bodies, which this one is far from. */
function tooLarge(error: unknown, maxBytes: number): GatewayError | null {
  if (!(error instanceof GatewayError) || error.code !== 'REQUEST_TOO_LARGE') return null
  const { limit: _, ...details } = error.extra.details ?? {}
  return new GatewayError('REQUEST_TOO_LARGE', `the body is over ${maxBytes} bytes`, { details })
}
