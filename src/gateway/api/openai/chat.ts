import { type Static, Type } from 'typebox'
import type { ChatChoice, ChatDelta, FinishReason } from '../../../contracts/chat.ts'
import { choicesAsked } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import type { Logprobs } from '../../../contracts/logprobs.ts'
import type { Outcome } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import { isObject } from '../../edge/json-body.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import { JsonOptions } from '../door-options.ts'
import { endpoint } from '../endpoint.ts'
import { largeText } from '../json-reply.ts'
import { optional } from '../json-request.ts'
import { type ChatShape, writeChat } from '../native/chat.ts'
import { CHAT_FIELDS, Messages, readChat } from '../native/chat-request.ts'
import { TOKEN_FACTS } from '../openapi/headers.ts'
import { OpenAiChat, OpenAiChatEvent } from '../openapi/openai-answers.ts'
import { CALL_ERRORS, events, json } from '../openapi/operation.ts'
import {
  answerFacts,
  choicesOf,
  completionShape,
  completionUsage,
  END_USER_FIELDS,
  MODEL_FIELD,
  NAMED_SCHEMA_FIELDS,
  namedSchema,
  OPENAI,
  openaiAnswer,
  openaiRequest,
  STREAM_OPTIONS_FIELD,
  STREAMED,
  VOICE_FIELD,
  voiceOf,
} from './door.ts'
import { CHAT_OPTIONS } from './options.ts'

const { response_schema: _ours, ...SHARED_FIELDS } = CHAT_FIELDS

const ResponseFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({ type: Type.Literal('json_schema'), json_schema: Type.Object(NAMED_SCHEMA_FIELDS) }),
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
  ...END_USER_FIELDS,
  stream_options: STREAM_OPTIONS_FIELD,
})

const options = new JsonOptions(CHAT_OPTIONS)

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

const openaiChatRequest = openaiRequest('chat', ChatCompletionBody, readChatCompletion, options)

export const chatCompletions = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/chat/completions',
  kind: 'call',
  id: 'openaiChat',
  summary: 'Chat',
  body: openaiChatRequest,
  answers: [openaiAnswer([json(OpenAiChat), events(OpenAiChatEvent, STREAMED)], TOKEN_FACTS)],
  errors: CALL_ERRORS,
  handle(request) {
    const includeUsage = request.body.fields.stream_options?.include_usage === true
    return writeChat(chatShape(includeUsage), request)
  },
})

/** `json_object` is any object at all. */
function schemaOf(format: Static<typeof ResponseFormat> | null): JsonObject | null {
  if (format === null || format.type === 'text') return null
  if (format.type === 'json_object') return { type: 'object' }
  return namedSchema(format.json_schema)
}

/** As OpenAI has it: not unless it is asked for. Null: there is no schema. */
function strictnessOf(format: Static<typeof ResponseFormat> | null): boolean | null {
  return format?.type === 'json_schema' ? format.json_schema.strict === true : null
}

/**
 * Refuses references to earlier audio of the assistant: it would be missing from the conversation.
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

/**
 * A chat as OpenAI answers it, whole or in chunks.
 *
 * @param includeUsage whether a stream ends with a chunk that tells the tokens
 */
function chatShape(includeUsage: boolean): ChatShape<'chat'> {
  return completionShape(chatCompletion, (streaming, created) => chatChunks(streaming, includeUsage, created))
}

/** @param created Unix seconds */
export function chatCompletion(outcome: Outcome<'chat'>, created: number) {
  const { envelope, result } = outcome
  const { id, model } = envelope
  const usage = completionUsage(outcome)
  const choices = choicesOf(result).map((choice, index) => ({
    index,
    message: choiceMessage(id, index, choice, created),
    finish_reason: finishReasonOf(choice),
    logprobs: logprobsOf(choice),
  }))
  const completion = { id, object: 'chat.completion' as const, created, model, choices }
  return { ...completion, ...(usage === null ? {} : { usage }), ...answerFacts(outcome) }
}

/** The client has the figures of chats alone here. */
function logprobsOf({ logprobs = null }: { readonly logprobs?: Logprobs | null }) {
  return logprobs !== null && 'content' in logprobs ? logprobs : null
}

function choiceMessage(
  id: string,
  index: number,
  { content, tool_calls: calls, audio }: ChatChoice,
  created: number,
) {
  const called = calls.map((call) => ({
    id: call.id,
    type: 'function' as const,
    function: { name: call.name, arguments: call.arguments },
  }))
  // It is not kept, so that it cannot be referred to from the moment it is here.
  const spoken =
    audio === null
      ? {}
      : {
          audio: {
            id: audioId(id, index),
            data: largeText(audio.base64),
            expires_at: created,
            transcript: content,
          },
        }
  return {
    role: 'assistant' as const,
    content: audio !== null || (content === '' && calls.length > 0) ? null : largeText(content),
    refusal: null,
    ...(called.length === 0 ? {} : { tool_calls: called }),
    ...spoken,
  }
}

/** OpenAI always gives a reason. */
function finishReasonOf({ finish_reason: reason, tool_calls: calls }: ChatChoice): FinishReason {
  return reason ?? (calls.length > 0 ? 'tool_calls' : 'stop')
}

/** The chunks of a streamed chat. @param created Unix seconds */
export function chatChunks({ head, payload }: Streaming<'chat'>, includeUsage: boolean, created: number) {
  const { id, model } = head
  const common = { id, object: 'chat.completion.chunk' as const, created, model }
  const chunk = (index: number, delta: ChunkDelta, reason: FinishReason | null = null) => ({
    ...common,
    choices: [{ index, delta, logprobs: null as ReturnType<typeof logprobsOf>, finish_reason: reason }],
    ...(includeUsage ? { usage: null } : {}),
  })
  const isSpoken = payload.modalities.includes('audio')
  const spoken = Array.from({ length: choicesAsked(payload) }, (_, at) =>
    isSpoken ? spokenPieces(audioId(id, at)) : null,
  )
  return {
    opening: spoken.map((pieces, index) =>
      chunk(index, { role: 'assistant', content: pieces === null ? '' : null, refusal: null }),
    ),
    event(delta: ChatDelta) {
      const { choice = 0 } = delta
      const made = chunk(choice, deltaOf(delta, spoken[choice] ?? null))
      const logprobs = delta.type === 'text' ? logprobsOf(delta) : null
      return logprobs === null ? made : { ...made, choices: [{ ...made.choices[0]!, logprobs }] }
    },
    done(outcome: Outcome<'chat'>) {
      const ends = choicesOf(outcome.result).flatMap((choice, index) => [
        ...(choice.audio === null ? [] : [chunk(index, { audio: { expires_at: created } })]),
        chunk(index, {}, finishReasonOf(choice)),
      ])
      const facts = answerFacts(outcome)
      const last = ends.map((end, at) => (at === ends.length - 1 ? { ...end, ...facts } : end))
      return includeUsage ? [...last, { ...common, choices: [], usage: completionUsage(outcome) }] : last
    },
  }
}

interface ChunkDelta {
  readonly role?: 'assistant'
  readonly content?: string | null
  readonly refusal?: null
  readonly tool_calls?: {
    index: number
    id?: string
    type?: 'function'
    function: { name?: string; arguments: string }
  }[]
  readonly audio?: SpokenPiece & { readonly id?: string }
}

type SpokenPiece =
  | { readonly data: string }
  | { readonly transcript: string }
  | { readonly expires_at: number }

/** Clients string together what comes more than once: the id of the recording is in its first piece alone. */
function spokenPieces(id: string): (piece: SpokenPiece) => ChunkDelta {
  let named = false
  return (piece) => {
    const audio = named ? piece : { id, ...piece }
    named = true
    return { audio }
  }
}

/** @param spoken makes pieces of the recording, to which all text belongs; null: the answer is written */
function deltaOf(delta: ChatDelta, spoken: ((piece: SpokenPiece) => ChunkDelta) | null): ChunkDelta {
  switch (delta.type) {
    case 'text':
      return spoken === null ? { content: delta.text } : spoken({ transcript: delta.text })
    case 'audio':
      return spoken === null ? {} : spoken({ data: delta.base64 })
    case 'tool_call': {
      const { index, id, name, arguments: json } = delta
      const first = id === null ? {} : { id, type: 'function' as const }
      const called = { ...(name === null ? {} : { name }), arguments: json }
      return { tool_calls: [{ index, ...first, function: called }] }
    }
  }
}

function audioId(id: string, index: number): string {
  return index === 0 ? `audio_${id}` : `audio_${id}_${index}`
}
