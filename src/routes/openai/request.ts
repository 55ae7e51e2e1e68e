import { type Static, type TObject, type TSchema, Type } from 'typebox'
import type { Call, Services, Trail } from '../../gateway/gateway.ts'
import type { Exchange } from '../../inbound/exchange.ts'
import type { Principal } from '../../schema/catalog.ts'
import type { Calls, OperationName } from '../../schema/operations.ts'
import type { Selectors } from '../../schema/selectors.ts'
import { type JsonRequest, jsonRequest, optional, receiveJson } from '../json-request.ts'

/** What OpenAI's clients must send. It chooses a purpose at most: the route of the key chooses the model. */
export const MODEL_FIELD = optional(
  Type.String(),
  'label of a purpose that the workspace declares; any other name is ignored',
)

/** A field whose effect the caller would miss: sent with a value it is refused, with why, or what to do instead. */
export function refusedField(why: string) {
  return Type.Optional(Type.Null({ description: why }))
}

/** Fields of OpenAI's that have no place here: they are taken, and the answer says that nothing comes of them. */
export function ignoredFields(names: readonly string[]): Record<string, TSchema> {
  return Object.fromEntries(names.map((name) => [name, optional(Type.Unknown(), IGNORED)]))
}

const IGNORED = 'taken, and not passed on'

/** Lines for `warnings` about fields that were sent and that nothing comes of. */
export function ignoredWarnings(names: readonly string[], sent: Readonly<Record<string, unknown>>): string[] {
  return names.filter((name) => (sent[name] ?? null) !== null).map((name) => `${name}: not passed on`)
}

/** A voice as OpenAI has it: by its name, or as an object with its id. */
export const VOICE_FIELD = optional(
  Type.Union([
    Type.String({ minLength: 1, maxLength: 256 }),
    Type.Object({ id: Type.String({ minLength: 1, maxLength: 256 }) }),
  ]),
  'voice of the provider, or of the `voices` of an entry of the route',
)

export function voiceOf(voice: Static<typeof VOICE_FIELD> | undefined): string | null {
  return typeof voice === 'object' ? (voice?.id ?? null) : (voice ?? null)
}

/** What an endpoint of this door takes as JSON. */
interface OpenAiRequest<K extends OperationName, Body> extends JsonRequest<K> {
  /**
   * Admits the caller, reads the body and makes the call of it.
   *
   * @throws GatewayError as `receiveJson`
   */
  receive(exchange: Exchange, trail: Trail, services: Services): Promise<Received<K, Body>>
}

interface Received<K extends OperationName, Body> {
  readonly call: Call<K>
  /** The caller wants the answer piece by piece. */
  readonly stream: boolean
  readonly body: Body
}

/**
 * Describes an endpoint's request, as `jsonRequest` does.
 *
 * @param schema of OpenAI's fields, `MODEL_FIELD` among them
 * @param ignored names of further ones, which nothing comes of
 */
export function openaiRequest<K extends OperationName, Shape extends TObject>(
  operation: K,
  schema: Shape,
  payload: (body: Static<Shape>, warn: (line: string) => void) => Calls[K],
  ignored: readonly string[] = [],
): OpenAiRequest<K, Static<Shape>> {
  const whole = Type.Object({ ...schema.properties, ...ignoredFields(ignored) })
  const request = jsonRequest(operation, whole, (body, warn) => {
    for (const line of ignoredWarnings(ignored, body)) warn(line)
    return payload(body as Static<Shape>, warn)
  })
  return {
    ...request,
    async receive(exchange, trail, services) {
      const { principal, call, body, stream } = await receiveJson(request, exchange, trail, services)
      const { model } = body as { readonly model?: string | null }
      const selectors = chosenBy(model ?? null, call.selectors, principal)
      return { call: { ...call, selectors }, stream, body: body as Static<Shape> }
    },
  }
}

/** The selectors of a call whose `model` may name a purpose. One that was sent by its own name wins. */
export function chosenBy(model: string | null, selectors: Selectors, { purposes }: Principal): Selectors {
  if (model === null || selectors.purpose !== null) return selectors
  const declared = purposes.some(({ purpose }) => purpose === model)
  return declared ? { ...selectors, purpose: { label: model, source: 'body' } } : selectors
}
