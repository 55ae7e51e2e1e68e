import { GatewayError } from '../../contracts/errors.ts'
import type { Exchange, Reply } from '../edge/exchange.ts'
import { type Door, idFor, refusal } from './endpoint.ts'
import { ENDPOINTS } from './table.ts'

const DOORS: ReadonlyMap<string, Door> = new Map(
  ENDPOINTS.flatMap(({ door }) => (door === undefined ? [] : [[door.name, door] as const])),
)

/** Writes a refusal of an unknown path, or method, of a door as its clients read it; null: it is of no door. */
export function doorRefusal({ path, requestId }: Exchange, error: GatewayError): Reply | null {
  const [, name = '', rest = ''] = /^\/([^/]+)\/(.*)/.exec(path) ?? []
  const door = DOORS.get(name)
  if (door === undefined) return null
  const reply = refusal(door, explained(door, rest, error), requestId)
  return { ...reply, headers: { ...reply.headers, [door.requestIdHeader]: idFor(door, requestId) } }
}

/** Names what to use instead of a path that the door does not serve. */
function explained({ unserved = {} }: Door, path: string, error: GatewayError): GatewayError {
  const found = Object.entries(unserved).find(([prefix]) => path.startsWith(prefix))
  return found === undefined ? error : new GatewayError('NOT_FOUND', found[1])
}
