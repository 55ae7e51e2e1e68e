import { type Static, type TObject, type TSchema, Type } from 'typebox'
import { Compile } from 'typebox/compile'
import { admit } from '../gateway/admit.ts'
import type { Call, Services, Trail } from '../gateway/gateway.ts'
import type { Exchange } from '../inbound/exchange.ts'
import { FieldReader } from '../inbound/form.ts'
import { readJson } from '../inbound/json-body.ts'
import { isObject } from '../inbound/json-source.ts'
import type { Principal } from '../schema/catalog.ts'
import type { Calls, OperationName } from '../schema/operations.ts'
import { faultOf } from './json-fault.ts'
import { ROUTE_CONTROL, readSelectors, SELECTOR_FIELDS } from './selectors.ts'
import { unknownFields } from './unknown-fields.ts'

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
  readonly principal: Principal
  readonly call: Call<K>
  /** The body that it was made of, which has the shape of the request's schema. */
  readonly body: unknown
  /** The caller wants the answer piece by piece. */
  readonly stream: boolean
}

/** A field that may be left out; null counts as left out. */
export function optional<Value extends TSchema>(value: Value, description: string) {
  return Type.Optional(Type.Union([value, Type.Null()], { description }))
}

/** A field that many endpoints share. Beyond the safe integers JSON does not carry the number that was meant. */
export const SEED_FIELD = optional(
  Type.Integer({ minimum: Number.MIN_SAFE_INTEGER, maximum: Number.MAX_SAFE_INTEGER }),
  'reproducibility value; `determinism.seed_honored` tells whether it counted',
)

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
      const warnings = unknownFields(namesBeside(whole, body), Object.keys(whole.properties))
      const warn = (line: string) => void warnings.push(line)
      const fields = new FieldReader({ kind: 'json', value: { ...body } })
      return { payload: payload(body, warn), selectors: readSelectors(exchange, fields), warnings }
    },
  }
}

/** What would choose a provider is ignored without a word: the route of the key does that. */
function namesBeside({ properties }: TObject, body: object): string[] {
  return Object.keys(body).filter((name) => !Object.hasOwn(properties, name) && !ROUTE_CONTROL.has(name))
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
  const { limits } = services.snapshot()
  const { authorization } = exchange.headers
  const principal = await admit(services, { authorization, trail })
  trail.trace?.begin('body')
  const { value, release } = await readJson(exchange, {
    budget: services.budget,
    maxBytes: limits.max_request_body_bytes,
    workspace: principal.workspace.id,
  })
  trail.trace?.end()
  exchange.onFinished(release)
  const call = request.read(value, exchange)
  return { principal, call, body: value, stream: isObject(value) && value.stream === true }
}
