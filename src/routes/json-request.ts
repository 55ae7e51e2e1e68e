import { type Static, type TObject, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { admit } from '../gateway/admit.ts'
import type { Call, Services, Trail } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { FieldReader } from '../inbound/form.ts'
import { readJson } from '../inbound/json-body.ts'
import { isObject } from '../inbound/json-source.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import { faultOf } from './json-fault.ts'
import { ROUTE_CONTROL, readSelectors, SELECTOR_FIELDS } from './selectors.ts'

/** Unknown fields that are named to the caller, and how much of a name. */
const UNKNOWN_NAMED = 20
const NAME_LENGTH_SHOWN = 64

/** What an endpoint takes as JSON: the shape of its body, and how that becomes a call. */
export interface JsonRequest<K extends OperationName = OperationName> {
  readonly operation: K
  /** Shape of the body, for whoever documents it. */
  readonly schema: TObject
  /**
   * The call that a parsed body stands for. Its warnings name what was sent and is left out.
   *
   * @param exchange whose header may name the purpose
   * @throws GatewayError INVALID_REQUEST naming the field at fault
   */
  read(body: unknown, exchange: Pick<Exchange, 'headers'>): Call<K>
}

/** A call out of a JSON body, admitted and held in memory until its exchange is finished. */
export interface ReceivedJson<K extends OperationName> {
  readonly call: Call<K>
  /** The caller wants the answer piece by piece. */
  readonly stream: boolean
}

/** A field that may be left out; null counts as left out. */
export function optional<Value extends TSchema>(value: Value, description: string) {
  return Type.Optional(Type.Union([value, Type.Null()], { description }))
}

/**
 * Describes an endpoint's request.
 *
 * @param schema  every field but those that select a route
 * @param payload makes the call out of a body of that shape; throws GatewayError INVALID_REQUEST for what the
 *                shape cannot say
 */
export function jsonRequest<K extends OperationName, Shape extends TObject>(
  operation: K,
  schema: Shape,
  payload: (body: Static<Shape>, warn: (line: string) => void) => Calls[K],
): JsonRequest<K> {
  const whole = Type.Object({ ...schema.properties, ...SELECTOR_FIELDS })
  const compiled = Compile(schema)
  return {
    operation,
    schema: whole,
    read(body, exchange) {
      if (!compiled.Check(body)) throw faultOf(schema, body)
      const warnings: string[] = []
      const warn = (line: string) => void warnings.push(line)
      warnOfUnknown(body, whole, warn)
      const fields = new FieldReader({ kind: 'json', value: { ...body } })
      return { payload: payload(body, warn), selectors: readSelectors(exchange, fields), warnings }
    },
  }
}

/** What would choose a provider is ignored without a word: the route of the key does that. */
function warnOfUnknown(body: object, { properties }: TObject, warn: (line: string) => void): void {
  const unknown = Object.keys(body).filter(
    (name) => !Object.hasOwn(properties, name) && !ROUTE_CONTROL.has(name),
  )
  for (const name of unknown.slice(0, UNKNOWN_NAMED)) {
    warn(`${name.slice(0, NAME_LENGTH_SHOWN).toWellFormed()}: unknown field, ignored`)
  }
  if (unknown.length > UNKNOWN_NAMED)
    warn(`${unknown.length - UNKNOWN_NAMED} further unknown fields, ignored`)
}

/**
 * Admits the caller, reads the body and makes the call of it. The body's memory is given back when the
 * exchange is finished.
 *
 * @throws GatewayError of `admit` and `readJson`, INVALID_REQUEST naming the field at fault
 */
export async function receiveJson<K extends OperationName>(
  request: JsonRequest<K>,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<ReceivedJson<K>> {
  const snapshot = services.snapshot()
  const { authorization } = exchange.headers
  const principal = await admit(services, snapshot, { authorization, trail })
  const { value, release } = await readJson(exchange, {
    budget: services.budget,
    maxBytes: snapshot.limits.max_request_body_bytes,
    app: principal.app.id,
  })
  exchange.onFinished(release)
  const call = request.read(value, exchange)
  return { call, stream: isObject(value) && value.stream === true }
}
