import { type Static, Type } from 'typebox'
import { invalidField } from '../inbound/refusals.ts'
import type { ChatCall, Sampling, Tool, ToolChoice } from '../schema/chat.ts'
import type { JsonObject } from '../schema/json.ts'
import { Messages, readMessages } from './chat-request-messages.ts'
import { optional, SEED_FIELD } from './json-request.ts'

type Warn = (line: string) => void

const MaxTokens = Type.Integer({ minimum: 1, maximum: 1_000_000_000 })
const StopText = Type.String({ minLength: 1 })
const JsonSchema = Type.Unsafe<JsonObject>(Type.Record(Type.String(), Type.Unknown()))

/** Fields of every endpoint where a model writes text. */
export const SAMPLING_FIELDS = {
  max_tokens: optional(MaxTokens, 'longest answer, tokens'),
  max_completion_tokens: optional(MaxTokens, 'the same as `max_tokens`'),
  temperature: optional(Type.Number({ minimum: 0, maximum: 2 }), 'randomness; 0 is none'),
  top_p: optional(
    Type.Number({ minimum: 0, maximum: 1 }),
    'share of the likeliest tokens that are drawn from',
  ),
  stop: optional(
    Type.Union([StopText, Type.Array(StopText, { maxItems: 16 })]),
    'texts that end the answer and are not part of it, at most 16',
  ),
  seed: SEED_FIELD,
  stream: optional(Type.Boolean(), 'answer piece by piece, as `text/event-stream`'),
}

const FunctionTool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String({ minLength: 1, maxLength: 128 }),
    description: optional(Type.String(), 'what it does'),
    parameters: optional(JsonSchema, 'JSON Schema of the arguments'),
  }),
})
const ChosenTool = Type.Object({
  type: Type.Literal('function'),
  function: Type.Object({ name: Type.String({ minLength: 1, maxLength: 128 }) }),
})

/** Fields of a chat besides `messages`. */
export const CHAT_FIELDS = {
  ...SAMPLING_FIELDS,
  tools: optional(Type.Array(FunctionTool), 'functions that the model may call; requires function_calling'),
  tool_choice: optional(
    Type.Union([Type.Enum(['auto', 'none', 'required']), ChosenTool]),
    'whether and which function is to be called',
  ),
  modalities: optional(
    Type.Array(Type.Enum(['text', 'audio']), { minItems: 1, uniqueItems: true }),
    'what the answer is made of; `audio` requires audio_output',
  ),
  audio: optional(
    Type.Object({
      voice: optional(Type.String({ minLength: 1, maxLength: 256 }), 'voice of the provider'),
      format: optional(Type.String({ minLength: 1, maxLength: 64 }), 'audio format of the provider'),
    }),
    'how a spoken answer sounds',
  ),
  response_schema: optional(JsonSchema, 'JSON Schema that the answer follows'),
}

const ChatFields = Type.Object(CHAT_FIELDS)
export const ChatBody = Type.Object({ messages: Messages, ...CHAT_FIELDS })

/** @throws GatewayError INVALID_REQUEST naming the field at fault */
export function readChat(body: Static<typeof ChatBody>, warn: Warn): ChatCall {
  return { messages: readMessages(body.messages, warn), ...readChatFields(body, warn) }
}

/** All of a chat but its messages. @throws GatewayError INVALID_REQUEST naming the field at fault */
export function readChatFields(body: Static<typeof ChatFields>, warn: Warn): Omit<ChatCall, 'messages'> {
  const tools = (body.tools ?? []).map(readTool)
  const modalities = body.modalities ?? ['text']
  const audio = body.audio ?? null
  if (audio !== null && !modalities.includes('audio')) {
    warn('audio: ignored, since modalities does not ask for audio')
  }
  return {
    ...readSampling(body),
    tools,
    tool_choice: readToolChoice(body.tool_choice ?? null, tools),
    modalities,
    audio:
      audio !== null && modalities.includes('audio')
        ? { voice: audio.voice ?? null, format: audio.format ?? null }
        : null,
    response_schema: body.response_schema ?? null,
  }
}

/** @throws GatewayError INVALID_REQUEST when both names of the longest answer are used and differ */
export function readSampling(body: Static<Type.TObject<typeof SAMPLING_FIELDS>>): Sampling {
  const longest = body.max_tokens ?? null
  const longestToo = body.max_completion_tokens ?? null
  if (longest !== null && longestToo !== null && longest !== longestToo) {
    throw invalidField('max_completion_tokens', 'must equal `max_tokens` where both are sent')
  }
  const stop = body.stop ?? []
  return {
    max_tokens: longest ?? longestToo,
    temperature: body.temperature ?? null,
    top_p: body.top_p ?? null,
    stop: typeof stop === 'string' ? [stop] : stop,
    seed: body.seed ?? null,
  }
}

function readTool({ function: { name, description, parameters } }: Static<typeof FunctionTool>): Tool {
  return { name, description: description ?? null, parameters: parameters ?? null }
}

function readToolChoice(
  choice: 'auto' | 'none' | 'required' | Static<typeof ChosenTool> | null,
  tools: readonly Tool[],
): ToolChoice | null {
  if (choice === null || choice === 'auto' || choice === 'none') return tools.length > 0 ? choice : null
  if (tools.length === 0)
    throw invalidField('tool_choice', 'must be left out; there are no tools to choose from')
  if (choice === 'required') return choice
  const { name } = choice.function
  if (tools.every((tool) => tool.name !== name)) {
    throw invalidField('tool_choice', 'must name a function that is among `tools`')
  }
  return { name }
}
