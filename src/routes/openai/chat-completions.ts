import { type Static, Type } from 'typebox'
import { isObject } from '../../inbound/json-source.ts'
import { invalidField, MUST } from '../../inbound/refusals.ts'
import type { JsonObject } from '../../schema/json.ts'
import { writeChat } from '../chat-reply.ts'
import { CHAT_FIELDS, readChat } from '../chat-request.ts'
import { Messages } from '../chat-request-messages.ts'
import type { Handle } from '../endpoint.ts'
import { optional } from '../json-request.ts'
import { chatShape } from './chat-shape.ts'
import { MODEL_FIELD, openaiRequest, refusedField, VOICE_FIELD, voiceOf } from './request.ts'
import { STREAM_OPTIONS_FIELD } from './stream-options.ts'

const { response_schema: _ours, ...SHARED_FIELDS } = CHAT_FIELDS

const ResponseFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({
    type: Type.Literal('json_schema'),
    json_schema: Type.Object({
      name: optional(Type.String({ maxLength: 64 }), 'title of the schema, where it has none'),
      schema: Type.Unsafe<JsonObject>(Type.Record(Type.String(), Type.Unknown())),
      strict: optional(Type.Boolean(), 'whether the answer keeps to it to the letter; not unless said'),
      description: optional(Type.String(), 'not passed on'),
    }),
  }),
])

const ChatCompletionBody = Type.Object({
  model: MODEL_FIELD,
  messages: Messages,
  ...SHARED_FIELDS,
  audio: optional(
    Type.Object({
      voice: VOICE_FIELD,
      format: optional(Type.String({ minLength: 1, maxLength: 64 }), 'audio format of the provider'),
    }),
    'how a spoken answer sounds',
  ),
  response_format: optional(ResponseFormat, 'what the answer is'),
  stream_options: STREAM_OPTIONS_FIELD,
  n: optional(Type.Literal(1), 'there is one answer'),
  logprobs: optional(Type.Literal(false), 'probabilities of tokens are not told'),
  top_logprobs: optional(Type.Literal(0), 'the same'),
  parallel_tool_calls: optional(Type.Literal(true), 'that there is only one call at a time cannot be had'),
  logit_bias: refusedField('tokens differ from model to model, and the route chooses the model'),
  functions: refusedField('send tools'),
  function_call: refusedField('send tool_choice'),
  web_search_options: refusedField('nothing is searched for'),
  moderation: refusedField('nothing is moderated'),
})

const IGNORED = [
  ...['frequency_penalty', 'presence_penalty', 'reasoning_effort', 'verbosity', 'prediction'],
  ...['user', 'safety_identifier', 'prompt_cache_key', 'prompt_cache_retention', 'metadata', 'store'],
  'service_tier',
]

const readChatCompletion = (body: Static<typeof ChatCompletionBody>, warn: (line: string) => void) => {
  refuseReferences(body.messages)
  const audio = body.audio ?? null
  const chat = readChat(
    {
      ...body,
      audio: audio === null ? null : { voice: voiceOf(audio.voice), format: audio.format ?? null },
      response_schema: schemaOf(body.response_format ?? null),
    },
    warn,
  )
  const strict = strictnessOf(body.response_format ?? null)
  return strict === null ? chat : { ...chat, response_strict: strict }
}

export const openaiChatRequest = openaiRequest('chat', ChatCompletionBody, readChatCompletion, IGNORED)

/** POST /openai/v1/chat/completions */
export const chatCompletions: Handle = async (exchange, trail, { services }) => {
  const { call, stream, body } = await openaiChatRequest.receive(exchange, trail, services)
  const shape = chatShape(body.stream_options?.include_usage === true)
  return writeChat({ operation: 'chat', call, stream }, shape, exchange, trail, services)
}

/** `json_object` is any object at all. */
function schemaOf(format: Static<typeof ResponseFormat> | null): JsonObject | null {
  if (format === null || format.type === 'text') return null
  if (format.type === 'json_object') return { type: 'object' }
  const { name, schema } = format.json_schema
  return typeof name === 'string' ? { title: name, ...schema } : schema
}

/** As OpenAI has it: not unless it is asked for. Null: there is no schema. */
function strictnessOf(format: Static<typeof ResponseFormat> | null): boolean | null {
  return format?.type === 'json_schema' ? format.json_schema.strict === true : null
}

/**
 * What the assistant said before and is only referred to would be missing from the conversation.
 *
 * @throws GatewayError INVALID_REQUEST
 */
function refuseReferences(messages: readonly unknown[]): void {
  for (const [index, message] of messages.entries()) {
    if (!isObject(message)) continue
    for (const [name, instead] of REFERENCES) {
      if ((message[name] ?? null) === null) continue
      const param = `messages[${index}].${name}`
      throw invalidField(param, MUST.beLeftOut(instead))
    }
  }
}

const REFERENCES = [
  ['audio', 'spoken answers are not kept; send the transcript as content'],
  ['function_call', 'send tool_calls'],
] as const
