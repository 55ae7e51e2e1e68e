import { type Static, Type } from 'typebox'
import type { ChatCall, ChatMessage, ChatPart, ToolCall } from '../../../contracts/chat.ts'
import type { WithExtras } from '../../../contracts/extras.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { invalidField } from '../../edge/refusals.ts'
import { JsonOptions } from '../door-options.ts'
import { optional, refusedField } from '../json-request.ts'
import { AudioPart, CHAT_FIELDS, ImageUrl, imageFromUrl, readChatFields } from '../native/chat-request.ts'
import { END_USER_FIELDS, MODEL_FIELD, NAMED_SCHEMA_FIELDS, namedSchema, openaiRequest } from './door.ts'
import { LOGPROBS_INCLUDED, RESPONSE_OPTIONS } from './options.ts'

/**
 * A request for a response in OpenAI's newer format becomes the call that a chat is. Nothing is stored: a conversation
 * is sent whole, and what refers to something stored is refused.
 */

const NOT_STORED = 'nothing is stored; send the item itself'
const NO_FILES = 'no files are kept; send the data itself'

const InputText = Type.Object({ type: Type.Literal('input_text'), text: Type.String() })
const InputImage = Type.Object({
  type: Type.Literal('input_image'),
  image_url: ImageUrl,
  detail: optional(
    Type.Enum(['auto', 'low', 'high', 'original']),
    'how closely the model should look; `original` is left to the model, with a warning',
  ),
  file_id: refusedField(NO_FILES),
})
const OutputText = Type.Object({ type: Type.Literal('output_text'), text: Type.String() })
const Refusal = Type.Object({ type: Type.Literal('refusal'), refusal: Type.String() })

const ItemType = Type.Optional(Type.Literal('message'))
const CallId = Type.String({ minLength: 1, maxLength: 1_024 })

const InputItem = Type.Union(
  [
    Type.Object({
      type: ItemType,
      role: Type.Literal('user'),
      content: Type.Union([Type.String(), Type.Array(Type.Union([InputText, InputImage, AudioPart]))], {
        description: 'text, or parts: input_text, input_image (requires vision), input_audio',
      }),
    }),
    Type.Object({
      type: ItemType,
      role: Type.Enum(['system', 'developer']),
      content: Type.Union([Type.String(), Type.Array(InputText)], { description: 'text, whole or in parts' }),
    }),
    Type.Object({
      type: ItemType,
      role: Type.Literal('assistant'),
      content: Type.Union([Type.String(), Type.Array(Type.Union([OutputText, Refusal, InputText]))], {
        description: 'an earlier answer, as it came or as text',
      }),
    }),
    Type.Object({
      type: Type.Literal('function_call'),
      call_id: CallId,
      name: Type.String({ minLength: 1, maxLength: 256 }),
      arguments: Type.String({ description: 'JSON as the model wrote it' }),
    }),
    Type.Object({
      type: Type.Literal('function_call_output'),
      call_id: CallId,
      output: Type.Union([Type.String(), Type.Array(InputText)], {
        description: 'what the function answered, as text',
      }),
    }),
    Type.Object(
      { type: Type.Literal('reasoning') },
      { description: 'of another model; not passed on, with a warning' },
    ),
    Type.Object({ type: Type.Literal('item_reference'), id: refusedField(NOT_STORED) }),
  ],
  { title: 'OpenAiInputItem' },
)

const FunctionTool = Type.Object({
  type: Type.Literal('function'),
  name: Type.String({ minLength: 1, maxLength: 128 }),
  description: optional(Type.String(), 'what it does'),
  parameters: optional(
    Type.Unsafe<JsonObject>(Type.Record(Type.String(), Type.Unknown())),
    'JSON Schema of the arguments',
  ),
  strict: optional(Type.Boolean(), 'whether the arguments keep to the schema to the letter'),
})

const TextFormat = Type.Union([
  Type.Object({ type: Type.Literal('text') }),
  Type.Object({ type: Type.Literal('json_object') }),
  Type.Object({ type: Type.Literal('json_schema'), ...NAMED_SCHEMA_FIELDS }),
])

const ResponseBody = Type.Object({
  model: MODEL_FIELD,
  input: Type.Union([Type.String({ minLength: 1 }), Type.Array(InputItem, { minItems: 1 })], {
    description: 'a text, or the whole conversation, oldest first',
  }),
  instructions: optional(Type.String(), 'a system message in front of `input`'),
  max_output_tokens: CHAT_FIELDS.max_tokens,
  temperature: CHAT_FIELDS.temperature,
  top_p: CHAT_FIELDS.top_p,
  stream: CHAT_FIELDS.stream,
  stream_options: optional(
    Type.Object({ include_obfuscation: optional(Type.Boolean(), 'nothing is added to the events') }),
    'nothing of a stream can be chosen',
  ),
  tools: optional(Type.Array(FunctionTool), 'functions that the model may call; requires function_calling'),
  tool_choice: optional(
    Type.Union([
      Type.Enum(['auto', 'none', 'required']),
      Type.Object({ type: Type.Literal('function'), name: Type.String({ minLength: 1, maxLength: 128 }) }),
    ]),
    'whether and which function is to be called',
  ),
  reasoning: optional(
    Type.Object({ effort: optional(Type.String({ minLength: 1, maxLength: 64 }), 'how long it reasons') }),
    'of which `effort`',
  ),
  text: optional(
    Type.Object({
      format: optional(TextFormat, 'what the answer is'),
      verbosity: optional(Type.String({ minLength: 1, maxLength: 64 }), 'how long the answer is'),
    }),
    '`format` becomes `response_schema`',
  ),
  metadata: optional(
    Type.Unsafe<JsonObject>(Type.Record(Type.String(), Type.Unknown())),
    'at most 16 texts by name, which the answer repeats',
  ),
  ...END_USER_FIELDS,
})

/** Its fields, and those of its options that are more than passed on. */
export interface ResponseFields extends Static<typeof ResponseBody> {
  readonly parallel_tool_calls?: boolean | null
  readonly include?: readonly string[] | null
  readonly top_logprobs?: number | null
}
type Item = Static<typeof InputItem>
type Warn = (line: string) => void

const options = new JsonOptions(RESPONSE_OPTIONS)

export const responseRequest = openaiRequest('chat', ResponseBody, readResponse, options)

/** @throws GatewayError INVALID_REQUEST naming the field at fault */
function readResponse(body: ResponseFields, warn: Warn): ChatCall {
  checkMetadata(body.metadata ?? {})
  const said = new Set<string>()
  const warnOnce = (line: string) => {
    if (!said.has(line)) warn(line)
    said.add(line)
  }
  const format = body.text?.format ?? null
  const choice = body.tool_choice ?? null
  const fields = {
    max_tokens: body.max_output_tokens ?? null,
    temperature: body.temperature ?? null,
    top_p: body.top_p ?? null,
    tools: body.tools?.map(({ type, ...tool }) => ({ type, function: tool })) ?? null,
    tool_choice:
      choice === null || typeof choice === 'string'
        ? choice
        : { type: choice.type, function: { name: choice.name } },
    response_schema: schemaOf(format),
  }
  const messages = [...readInstructions(body.instructions ?? null), ...readInput(body.input, warnOnce)]
  const chat = { ...readChatFields(fields, warn), ...figuresAsked(body, warn), messages }
  return format?.type === 'json_schema' ? { ...chat, response_strict: format.strict === true } : chat
}

/** A chat has no likeliest tokens without the figures of the tokens of the answer. */
function figuresAsked({ include, top_logprobs: top }: ResponseFields, warn: Warn): WithExtras {
  const included = include ?? []
  if (included.some((one) => one !== LOGPROBS_INCLUDED)) warn('include: there are no such items to add to')
  if (included.includes(LOGPROBS_INCLUDED) || (top ?? 0) === 0) return {}
  return { extras: [{ name: 'logprobs', value: true, required: true, param: 'top_logprobs' }] }
}

function schemaOf(format: Static<typeof TextFormat> | null): JsonObject | null {
  if (format === null || format.type === 'text') return null
  if (format.type === 'json_object') return { type: 'object' }
  return namedSchema(format)
}

const METADATA_MAX = 16
const METADATA_NAME_MAX = 64
const METADATA_TEXT_MAX = 512

function checkMetadata(metadata: JsonObject): void {
  const entries = Object.entries(metadata)
  const isGood = entries.every(
    ([name, value]) =>
      name.length <= METADATA_NAME_MAX && typeof value === 'string' && value.length <= METADATA_TEXT_MAX,
  )
  if (isGood && entries.length <= METADATA_MAX) return
  const rule = `must be at most ${METADATA_MAX} texts of ${METADATA_TEXT_MAX} characters`
  throw invalidField('metadata', `${rule}, their names of ${METADATA_NAME_MAX}`)
}

function readInstructions(instructions: string | null): ChatMessage[] {
  return instructions === null ? [] : [{ role: 'system', parts: [{ type: 'text', text: instructions }] }]
}

/** Text and calls of the assistant in one turn. */
interface Turn {
  readonly role: 'assistant'
  readonly parts: ChatPart[]
  readonly tool_calls: ToolCall[]
}

/**
 * The messages of a conversation. What the assistant said and called in one turn is several items here and one message
 * of a chat.
 */
function readInput(input: ResponseFields['input'], warn: Warn): ChatMessage[] {
  if (typeof input === 'string') return [{ role: 'user', parts: [{ type: 'text', text: input }] }]
  const messages: ChatMessage[] = []
  let turn: Turn | null = null
  for (const [index, item] of input.entries()) {
    const message = readItem(item, `input[${index}]`, warn)
    if (message === null) continue
    if (message.role !== 'assistant') {
      turn = null
      messages.push(message)
    } else if (turn !== null && turn.tool_calls.length + message.tool_calls.length > 0) {
      for (const part of message.parts) turn.parts.push(part)
      for (const call of message.tool_calls) turn.tool_calls.push(call)
    } else {
      turn = message
      messages.push(message)
    }
  }
  if (messages.length === 0) throw invalidField('input', 'must hold a message')
  return messages
}

/** @returns null for what is left out */
function readItem(
  item: Item,
  param: string,
  warn: Warn,
): Exclude<ChatMessage, { role: 'assistant' }> | Turn | null {
  if ('role' in item) {
    const parts = readParts(item.content, `${param}.content`, warn)
    if (item.role === 'assistant') return { role: 'assistant', parts, tool_calls: [] }
    return { role: item.role === 'user' ? 'user' : 'system', parts }
  }
  switch (item.type) {
    case 'function_call': {
      const { call_id: id, name, arguments: given } = item
      const call: ToolCall = { id, name, arguments: given }
      return { role: 'assistant', parts: [], tool_calls: [call] }
    }
    case 'function_call_output':
      return {
        role: 'tool',
        tool_call_id: item.call_id,
        parts: readParts(item.output, `${param}.output`, warn),
      }
    case 'reasoning':
      warn('input[].reasoning: not passed on')
      return null
    case 'item_reference':
      throw invalidField(param, 'must be the item itself; nothing is stored')
  }
}

type Part =
  | Static<typeof InputText>
  | Static<typeof InputImage>
  | Static<typeof AudioPart>
  | Static<typeof OutputText>
  | Static<typeof Refusal>

function readParts(content: string | readonly Part[], param: string, warn: Warn): ChatPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return content.map((part, index) => readPart(part, `${param}[${index}]`, warn))
}

function readPart(part: Part, param: string, warn: Warn): ChatPart {
  switch (part.type) {
    case 'input_text':
    case 'output_text':
      return { type: 'text', text: part.text }
    case 'refusal':
      return { type: 'text', text: part.refusal }
    case 'input_audio':
      return { type: 'audio', base64: part.input_audio.data, format: part.input_audio.format }
    case 'input_image': {
      const { detail = null, image_url: url } = part
      if (detail === 'original') warn('input[].content[].detail: `original` is not passed on')
      const closeness = detail === 'original' ? null : detail
      return { type: 'image', source: imageFromUrl(url, `${param}.image_url`), detail: closeness }
    }
  }
}
