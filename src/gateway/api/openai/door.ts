import { type Static, type TObject, Type } from 'typebox'
import type { ChatChoice, ChatDelta, ChatFacts } from '../../../contracts/chat.ts'
import { GatewayError } from '../../../contracts/errors.ts'
import type { WithExtras } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Calls, OperationName } from '../../../contracts/operations.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { Envelope, Outcome } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import { takeEndUserToken } from '../../call/authentication.ts'
import { noteEndUser } from '../../call/context/end-users.ts'
import { END_USER_LENGTH_MAX } from '../../catalog/workspace.ts'
import type { Exchange, WholeReply } from '../../edge/exchange.ts'
import { type DoorOptions, doorSelectors, JsonOptions } from '../door-options.ts'
import type { Admitted, ContinuedBody, Door } from '../endpoint.ts'
import { factHeaders, streamFacts } from '../fact-headers.ts'
import { jsonReply } from '../json-reply.ts'
import { type JsonRequest, jsonRequest, optional, type ReceivedJson } from '../json-request.ts'
import type { ChatShape } from '../native/chat.ts'
import type { HeaderName } from '../openapi/headers.ts'
import type { Answer, Content } from '../openapi/operation.ts'
import type { EventStream } from '../sse.ts'

/** Conventions of OpenAI's client libraries, which are given `/openai/v1` as their base URL and nothing else. */
const DOOR: Door = { name: 'openai', tag: 'OpenAI', requestIdHeader: 'x-request-id', translateError }

/** Part of every endpoint of this door. */
export const OPENAI = { tag: 'OpenAI', scope: 'inference', door: DOOR } as const

/** Documents an answer in OpenAI's shape. */
export function openaiAnswer(contents: readonly Content[], headers: readonly HeaderName[] = []): Answer {
  return { status: 200, description: "OpenAI's answer", contents, headers }
}

/** Documented text of a stream of chunks. */
export const STREAMED = 'With `stream: true`: one chunk per event, in `data:`, ending with `data: [DONE]`.'

/** Names the field at fault as OpenAI's clients do. Only a form calls the audio `file`. */
function translateError(error: GatewayError, { headers }: Pick<Exchange, 'headers'>): GatewayError {
  const { param } = error.extra
  if (param === 'response_schema') {
    const message = error.message.replace(/^response_schema:/, 'response_format:')
    return new GatewayError(error.code, message, { ...error.extra, param: 'response_format' })
  }
  const isForm = /^multipart\//i.test(headers['content-type']?.trim() ?? '')
  if (param !== 'audio' || !isForm) return error
  return new GatewayError(error.code, error.message, { ...error.extra, param: 'file' })
}

/** Field that OpenAI's clients must send. It chooses a purpose at most: the route of the key chooses the model. */
export const MODEL_FIELD = optional(
  Type.String(),
  'label of a purpose that the workspace declares; any other name is ignored',
)

/** Field of chat and text completions. */
export const STREAM_OPTIONS_FIELD = optional(
  Type.Object({ include_usage: optional(Type.Boolean(), 'a last event tells the tokens') }),
  'how a stream is written',
)

/** A voice in OpenAI's form: its name, or an object with its id. */
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

/** A JSON body of OpenAI's that becomes a call. */
interface OpenAiRequest<K extends OperationName, Fields>
  extends Omit<JsonRequest<K>, 'receiveThen'>,
    ContinuedBody<ReceivedJson<K, Fields>> {}

/**
 * Describes the JSON body of an endpoint, as `jsonRequest` does.
 *
 * @param schema  of OpenAI's fields, `MODEL_FIELD` among them
 * @param options beside them, and what becomes of each
 */
export function openaiRequest<K extends OperationName, Shape extends TObject>(
  operation: K,
  schema: Shape,
  payload: (body: Static<Shape>, warn: (line: string) => void) => Calls[K],
  options: JsonOptions<DoorOptions> = NO_OPTIONS,
): OpenAiRequest<K, Static<Shape>> {
  const whole = Type.Object({ ...schema.properties, ...options.members })
  const request = jsonRequest(operation, whole, (body, warn) => {
    options.warn(body, warn)
    const made: Calls[K] & WithExtras = payload(body as Static<Shape>, warn)
    const { extras } = options.extras(withoutIdleOptions(body))
    return extras === undefined ? made : { ...made, extras: [...(made.extras ?? []), ...extras] }
  })
  return {
    ...request,
    receiveThen: (admitted, next) =>
      request.receiveThen(admitted, (received) => {
        const chosen = chosenOf<K, Static<Shape>>(received, admitted)
        return chosen instanceof Promise ? chosen.then(next) : next(chosen)
      }),
  }
}

const NO_OPTIONS = new JsonOptions<DoorOptions>({})

/** Without tools there are no calls that might come one at a time: frameworks ask for it all the same. */
function withoutIdleOptions(body: { readonly tools?: unknown; readonly parallel_tool_calls?: unknown }) {
  const { tools, parallel_tool_calls: parallel } = body
  const isIdle = parallel === false && !(Array.isArray(tools) && tools.length > 0)
  return isIdle ? { ...body, parallel_tool_calls: null } : body
}

/** The request with the route that its `model` chooses, once its end user is counted. */
function chosenOf<K extends OperationName, Fields>(
  received: ReceivedJson<K>,
  admitted: Admitted,
): ReceivedJson<K, Fields> | Promise<ReceivedJson<K, Fields>> {
  const { call, stream } = received
  const fields = received.fields as Fields & BodyFields
  const selectors = doorSelectors(call.selectors, admitted.context.principal, fields.model ?? null)
  const chosen =
    selectors === call.selectors
      ? (received as ReceivedJson<K, Fields>)
      : { call: { ...call, selectors }, stream, fields }
  const counted = countEndUser(fields, admitted)
  return counted === undefined ? chosen : counted.then(() => chosen)
}

/** Fields that are more than a part of the call. */
interface BodyFields {
  readonly model?: string | null
  readonly user?: string | null
  readonly safety_identifier?: string | null
}

const END_USER = optional(
  Type.String({ maxLength: END_USER_LENGTH_MAX }),
  'your end user, never sent to a provider; the header `X-LK-End-User` wins',
)

/** Field of text completions and embeddings. */
export const USER_FIELD = { user: END_USER }

/** Fields of chats, responses and pictures; of both the newer one counts. */
export const END_USER_FIELDS = { ...USER_FIELD, safety_identifier: END_USER }

/**
 * Notes the end user of a body where the header names none, and takes a token of its bucket.
 *
 * @returns undefined when that was decided at once
 * @throws  GatewayError INVALID_REQUEST, RATE_LIMITED
 */
function countEndUser(
  fields: BodyFields,
  { context, deps: { services } }: Admitted,
): undefined | Promise<void> {
  // Empty is none, as OpenAI has it.
  const param = fields.safety_identifier ? 'safety_identifier' : 'user'
  const sent = fields[param]
  if (!sent || context.endUser !== null) return undefined
  const fault = noteEndUser(services, context, sent, param)
  if (fault !== null) throw fault
  return takeEndUserToken(services, context)
}

/** A schema as OpenAI's formats name and describe it: what is said beside it goes into it, where it says nothing. */
export const NAMED_SCHEMA_FIELDS = {
  name: optional(Type.String({ maxLength: 64 }), 'title of the schema, where it has none'),
  schema: Type.Unsafe<JsonObject>(Type.Record(Type.String(), Type.Unknown())),
  strict: optional(Type.Boolean(), 'whether the answer keeps to it to the letter; default: no'),
  description: optional(Type.String(), 'of the schema, where it has none'),
}

export function namedSchema({ name, description, schema }: Static<typeof NamedSchema>): JsonObject {
  const title = typeof name === 'string' ? { title: name } : {}
  return { ...title, ...(typeof description === 'string' ? { description } : {}), ...schema }
}

const NamedSchema = Type.Object(NAMED_SCHEMA_FIELDS)

type CompletionName = 'chat' | 'complete'

/** Events of a stream. `done` is given the whole. */
interface Chunks<K extends CompletionName> extends Pick<EventStream<ChatDelta>, 'opening' | 'event'> {
  done(outcome: Outcome<K>): readonly object[]
}

/** Shape of chat and text completions: facts are in headers, and a stream ends with `[DONE]`. */
export function completionShape<K extends CompletionName>(
  whole: (outcome: Outcome<K>, created: number) => object,
  chunks: (streaming: Streaming<K>, created: number) => Chunks<K>,
): ChatShape<K> {
  return {
    whole: (outcome, clock) => factReply(outcome.envelope, whole(outcome, secondsNow(clock))),
    events: (streaming, clock) => ({
      ...chunks(streaming, secondsNow(clock)),
      terminator: '[DONE]',
      headers: streamFacts(streaming),
    }),
  }
}

/** Answers in OpenAI's shape, which has no place for the envelope: its facts are in headers. */
export async function factReply(envelope: Envelope, value: object): Promise<WholeReply> {
  const { headers, ...reply } = await jsonReply(value)
  return { ...reply, headers: { ...headers, ...factHeaders(envelope) } }
}

/** Moment of an answer for `created`, Unix seconds. */
export function secondsNow(clock: Clock): number {
  return Math.floor(clock.wallNow() / 1000)
}

interface CompletionUsage extends Pick<ChatFacts, 'prompt_tokens_details' | 'completion_tokens_details'> {
  readonly prompt_tokens: number
  readonly completion_tokens: number
  readonly total_tokens: number
}

/** Token usage under OpenAI's names; null when the provider does not report all of it. */
export function completionUsage({
  envelope: { usage },
  result: { facts = {} },
}: Outcome<CompletionName>): CompletionUsage | null {
  const { input_tokens: prompt = null, output_tokens: completion = null, total_tokens: total = null } = usage
  if (prompt === null || completion === null || total === null) return null
  const { system_fingerprint: _fingerprint, service_tier: _tier, ...shown } = facts
  const { cached_input_tokens: cached_tokens = null } = usage
  // Other formats tell of this part alone.
  const details = cached_tokens === null ? shown : { prompt_tokens_details: { cached_tokens }, ...shown }
  return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: total, ...details }
}

/** All choices of an answer, in order. */
export function choicesOf(result: Outcome<CompletionName>['result']): readonly ChatChoice[] {
  return result.others === undefined ? [result] : [result, ...result.others]
}

/** Facts of an answer under OpenAI's names, and warnings: its clients hand on members that they do not know. */
export function answerFacts({ envelope: { warnings }, result: { facts = {} } }: Outcome<CompletionName>) {
  const { prompt_tokens_details: _prompt, completion_tokens_details: _completion, ...shown } = facts
  return { ...shown, ...warningsIn(warnings) }
}

/** Member of a body that has room for warnings; none without any. */
export function warningsIn(warnings: readonly string[]): { readonly warnings?: readonly string[] } {
  return warnings.length === 0 ? {} : { warnings }
}
