import type { Scope } from '../../contracts/catalog.ts'
import type { ErrorCode } from '../../contracts/errors.ts'
import { type GatewayError, toGatewayError } from '../../contracts/errors.ts'
import { authenticate, noteHead, requireScope, soundOf, takeToken } from '../call/authentication.ts'
import type { CallContext } from '../call/context/call-context.ts'
import { type ClientSocketListener, offeredProtocols, type SocketLimits } from '../edge/client-socket.ts'
import type { Ending, Exchange } from '../edge/exchange.ts'
import type { Admitted, Dependencies, Door, Endpoint, GrantAuthentication } from './endpoint.ts'
import { observedRoute } from './endpoint.ts'
import type { ParameterName } from './openapi/headers.ts'
import { KEY_ERRORS, type Operation } from './openapi/operation.ts'
import type { Json } from './openapi/schema.ts'

/** A handshake whose caller is admitted. */
export interface SocketCall extends Admitted {
  /** Resolves when the key's bucket has given a token, or rejects with RATE_LIMITED; undefined: it has. */
  readonly admitted: Promise<void> | undefined
}

interface SocketDefinition<Path> {
  readonly path: Path
  readonly id: string
  readonly tag: Operation['tag']
  readonly summary: string
  readonly description?: string
  readonly parameters?: readonly (ParameterName | Json)[]
  readonly errors: readonly ErrorCode[]
  readonly scope: Scope
  readonly limits: SocketLimits
  readonly door?: Door
  /** The value of `Authorization`, or its substitute where a browser cannot send one. */
  authorization(exchange: Exchange): string | undefined
  /** Authenticates who sends something else than a key; null, or absent: it is a key. @throws GatewayError */
  readonly authenticate?: GrantAuthentication
  /** The one of the subprotocols offered that is spoken; null: none. */
  protocol(offered: readonly string[]): string | null
  /** @throws GatewayError, which is answered in place of the handshake */
  open(call: SocketCall): ClientSocketListener
  /** Where the caller wants to be refused on the socket, since browsers do not show any other answer. */
  refused(error: GatewayError, exchange: Exchange): ClientSocketListener
}

/**
 * Defines an endpoint that is a WebSocket. The handshake is answered in the turn in which it came, out of memory: what
 * has to be asked for, such as money, is asked once the socket is open, and refused there.
 */
export function socketEndpoint<const Path extends string>(
  definition: SocketDefinition<Path>,
): Endpoint<Dependencies, 'GET', Path> {
  const { path, id, tag, summary, description, scope, parameters = [], errors, door, limits } = definition
  return {
    ...{ method: 'GET', path, kind: 'session', recorded: true, id, tag, summary, scope },
    ...{ limited: true, idempotent: false, parameters },
    ...(description === undefined ? {} : { description }),
    answers: [{ status: 101, description: 'the connection is a WebSocket' }],
    ...(door === undefined ? {} : { door, headers: [door.requestIdHeader] }),
    ...(door?.errorHeader === undefined ? {} : { errorHeaders: [door.errorHeader] }),
    errors: [...KEY_ERRORS, 'OVERLOADED', ...errors],
    route: (needs) => ({
      ...observedRoute(
        needs,
        { method: 'GET', path, recorded: true, door: door && unshaped(door) },
        (exchange, context) => answerSocket(definition, exchange, context, needs),
      ),
      socket: limits,
      refusesHeads: true,
    }),
  }
}

/** A handshake is refused with the envelope alone: clients read the reason of it in a header, if at all. */
function unshaped({ errorShape: _, ...door }: Door): Door {
  return door
}

/** The value of `Authorization` out of a subprotocol, in which browsers can send a key. @param prefix of its name */
export function keyOffered(headers: Exchange['headers'], prefix: string): string | undefined {
  const key = offeredProtocols(headers).find((name) => name.startsWith(prefix))
  return key === undefined ? undefined : `Bearer ${key.slice(prefix.length)}`
}

function answerSocket(
  definition: SocketDefinition<string>,
  exchange: Exchange,
  context: CallContext,
  deps: Dependencies,
): Ending {
  const protocol = definition.protocol(offeredProtocols(exchange.headers))
  try {
    const { services } = deps
    const authorization = definition.authorization(exchange)
    const sender = definition.authenticate?.(authorization, context, deps) ?? null
    const admitted = sender ?? authenticate(services, context, authorization)
    requireScope(admitted.principal, definition.scope)
    // Only the holder of a key may say whom the session is for.
    const fault = sender === null ? noteHead(services, admitted, exchange) : exchange.headFault
    const taken = takeToken(services, admitted)
    // It is waited for once the socket is open, which it may not be.
    taken?.catch(() => {})
    soundOf(admitted, fault)
    const call = { exchange, context: admitted, deps, admitted: taken }
    const listener = definition.open(call)
    const { headers } = listener
    return { status: 101, protocol, listener, ...(headers === undefined ? {} : { headers }) }
  } catch (thrown) {
    if (!exchange.handshake || new URLSearchParams(exchange.query).get('errors') !== 'in_band') throw thrown
    const error = toGatewayError(thrown)
    context.failure = error
    context.trace?.failed(error.code)
    return { status: 101, protocol, listener: definition.refused(error, exchange) }
  }
}
