import { type Static, type TObject, type TSchema, Type } from 'typebox'
import { limitsOf, type Principal, type Selectors } from '../../contracts/catalog.ts'
import { CAPABILITY_OF, type Calls, type OperationName } from '../../contracts/operations.ts'
import { shapeCheck } from '../../contracts/shape.ts'
import type { Clock, Timer } from '../../contracts/time.ts'
import type { Call } from '../call/facts/call.ts'
import type { Exchange } from '../edge/exchange.ts'
import { FieldReader } from '../edge/form.ts'
import { isObject, type JsonReader, parseJson, readJsonBytes } from '../edge/json-body.ts'
import type { Admitted, ContinuedBody } from './endpoint.ts'
import { ROUTE_CONTROL, readSelectors, SELECTOR_FIELDS, unknownFields } from './fields.ts'
import { faultOf } from './json-fault.ts'
import { json } from './openapi/operation.ts'

export interface JsonRequest<K extends OperationName = OperationName> extends ContinuedBody<ReceivedJson<K>> {
  readonly operation: K
  readonly schema: TObject
  /**
   * The call that a parsed body asks for. Its warnings name fields that were sent and are left out.
   *
   * @param exchange whose header may name the purpose
   * @param bytes    of the body, where it may be a large one
   * @throws GatewayError INVALID_REQUEST naming the field at fault
   */
  read(body: unknown, exchange: Pick<Exchange, 'headers'>, bytes?: number): Call<K>
}

/** A call read from a JSON body, which is held in memory until its exchange is finished. */
export interface ReceivedJson<K extends OperationName, Fields = unknown> {
  readonly call: Call<K>
  /** The body, checked against the schema of the request. */
  readonly fields: Fields
  readonly stream: boolean
}

/** A shape is compiled at once for a body of this size: without, a call of 60,000 messages took six times as long. */
const LARGE_BYTES = 64 * 1024

/** A field that may be left out; null counts as left out. */
export function optional<Value extends TSchema>(value: Value, description: string) {
  return Type.Optional(Type.Union([value, Type.Null()], { description }))
}

/** A field whose effect the caller would miss: with a value it is refused, with the reason or what to do instead. */
export function refusedField(why: string) {
  return Type.Optional(Type.Null({ description: why }))
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
  const names = Object.keys(whole.properties)
  const ignored: ReadonlySet<string> = new Set([...names, ...ROUTE_CONTROL])
  const hasShape = shapeCheck(schema)
  const known = operation === 'speech' ? new KnownBodies<ReceivedJson<K>>() : null
  const read: JsonRequest<K>['read'] = (body, exchange, bytes = 0) => {
    const isLarge = bytes >= LARGE_BYTES
    if (!hasShape(body, isLarge)) throw faultOf(schema, body, isLarge)
    const warnings = unknownFields(namesBeside(ignored, body), names)
    const warn = (line: string) => void warnings.push(line)
    const made = payload(body, warn)
    const call = { operation, payload: made, selectors: selectorsOf(body, exchange), warnings }
    // Other answers are not kept.
    if (operation !== 'speech') return call
    return { ...call, again: { payload: made, accepted: null, place: null, usage: null } }
  }
  return {
    operation,
    schema: whole,
    contents: [json(whole)],
    parameters: ['Purpose', 'Require'],
    read,
    receiveThen: (request, next) => receiveJson(read, known, request, next),
  }
}

/** Lists unknown fields. Those that would choose a provider are ignored without a word: the key's route does that. */
function namesBeside(ignored: ReadonlySet<string>, body: object): readonly string[] {
  const beside: string[] = []
  for (const name in body) if (!ignored.has(name)) beside.push(name)
  return beside
}

/** Reads the selectors; most bodies have none. */
function selectorsOf(body: object, exchange: Pick<Exchange, 'headers'>): Selectors {
  const has = (name: keyof typeof SELECTOR_FIELDS) => Object.hasOwn(body, name)
  const given = has('purpose') || has('response_profile') || has('require')
  return readSelectors(exchange, given ? new FieldReader({ kind: 'json', value: { ...body } }) : null)
}

/** Reads a JSON body, makes the call of it and continues with that. */
function receiveJson<K extends OperationName, Next>(
  read: JsonRequest<K>['read'],
  known: KnownBodies<ReceivedJson<K>> | null,
  request: Admitted,
  next: (received: ReceivedJson<K>) => Next | Promise<Next>,
): Promise<Next> {
  const { exchange, context, deps } = request
  const { services } = deps
  const options = {
    budget: services.budget,
    maxBytes: limitsOf(context.principal, services.snapshot()).max_request_body_bytes,
    workspace: context.principal.workspace.id,
  }
  return readJsonBytes(exchange, options, new CallReader(read, known, request, next)) as Promise<Next>
}

/** Makes the call of one body, or finds the one that was made of it before. */
class CallReader<K extends OperationName, Next> implements JsonReader<Next | Promise<Next>> {
  readonly #read: JsonRequest<K>['read']
  readonly #known: KnownBodies<ReceivedJson<K>> | null
  readonly #request: Admitted
  readonly #next: (received: ReceivedJson<K>) => Next | Promise<Next>
  #text: string | null = null

  constructor(
    read: JsonRequest<K>['read'],
    known: KnownBodies<ReceivedJson<K>> | null,
    request: Admitted,
    next: (received: ReceivedJson<K>) => Next | Promise<Next>,
  ) {
    this.#read = read
    this.#known = known
    this.#request = request
    this.#next = next
  }

  recall(bytes: Buffer): Next | Promise<Next> | undefined {
    const known = this.#known
    if (known === null) return undefined
    const { exchange, context } = this.#request
    const text = repeatedText(bytes, exchange, context.principal)
    if (text === null) return undefined
    this.#text = text
    const found = known.find(context.principal.workspace.id, text)
    return found === undefined ? undefined : this.#next(found)
  }

  read(bytes: Buffer): Next | Promise<Next> {
    const { exchange } = this.#request
    const fields = parseJson(bytes)
    const stream = isObject(fields) && fields.stream === true
    const received = { call: this.#read(fields, exchange, bytes.length), fields, stream }
    if (this.#text !== null) this.#remember(this.#text, received)
    return this.#next(received)
  }

  /** Once it is known that the answer is one that is kept. */
  #remember(text: string, received: ReceivedJson<K>): void {
    const { exchange, context, deps } = this.#request
    exchange.onFinished(() => {
      if (context.answer.cache !== 'hit') return
      this.#known?.add(context.principal.workspace.id, text, received, deps.services.clock)
    })
  }
}

/** Larger bodies are read each time. */
const KNOWN_BYTES_MAX = 1_024
const KNOWN_MAX = 512
/** How long any is known at most: what was said is not to be in memory for long. */
const KNOWN_MS = 30_000

/**
 * The bytes of a body as a text, where they and its workspace decide what it is read as: no header has a say in that.
 *
 * @returns null: it is read each time
 */
function repeatedText(
  bytes: Buffer,
  { headers }: Pick<Exchange, 'headers'>,
  { route, capabilityRoutes }: Principal,
): string | null {
  const { cache } = capabilityRoutes.get(CAPABILITY_OF.speech) ?? route
  if (cache === undefined || bytes.length > KNOWN_BYTES_MAX) return null
  if (headers['x-lk-purpose'] !== undefined || headers['x-lk-require'] !== undefined) return null
  return bytes.toString('latin1')
}

/**
 * Calls of bodies whose answer was kept from another call, since they come again: to parse and check such a body, and
 * to find the place of its speech, was a third of what its call cost beside `GET /v1/me`. Nothing else of the
 * call is known by it: its caller is admitted, its entries are selected and its answer is looked for each time. A body
 * of which nothing may be kept is not in here, since its answer was not kept either.
 */
class KnownBodies<Received> {
  /** By workspace and text. */
  readonly #received = new Map<string, Map<string, Received>>()
  #size = 0
  #forgetting: Timer | undefined

  find(workspace: string, text: string): Received | undefined {
    return this.#received.get(workspace)?.get(text)
  }

  add(workspace: string, text: string, received: Received, clock: Clock): void {
    if (this.#size === KNOWN_MAX) this.#clear()
    let known = this.#received.get(workspace)
    if (known === undefined) {
      known = new Map()
      this.#received.set(workspace, known)
    }
    if (!known.has(text)) this.#size += 1
    known.set(text, received)
    this.#forgetting ??= clock.after(KNOWN_MS, this.#forget).unref()
  }

  #clear(): void {
    this.#received.clear()
    this.#size = 0
  }

  readonly #forget = (): void => {
    this.#clear()
    this.#forgetting = undefined
  }
}
