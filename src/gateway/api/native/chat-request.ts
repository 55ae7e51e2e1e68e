import { type Static, Type } from 'typebox'
import type {
  ChatCall,
  ChatMessage,
  ChatPart,
  ImageSource,
  Sampling,
  Tool,
  ToolChoice,
} from '../../../contracts/chat.ts'
import type { JsonObject } from '../../../contracts/json.ts'
import { invalidField } from '../../edge/refusals.ts'
import { optional, SEED_FIELD } from '../json-request.ts'

const DATA_URL = /^data:([^,;]*)(?:;[^,;]*)*;base64,/i
/** A data: URL names its type within so many characters; a picture's own URL is no longer than the rest. */
const DATA_PREFIX_LENGTH_MAX = 256
const URL_LENGTH_MAX = 8_192
const IMAGE_TYPE = /^image\/[a-z0-9][a-z0-9.+-]{0,63}$/

/** A picture as OpenAI's `image_url` has it. */
export const ImageUrl = Type.String({
  minLength: 1,
  description: 'an http or https URL, or the picture itself as data:image/…;base64,…',
})

/** A picture as `images` of vision has it. */
export const InlineImage = Type.Object(
  {
    base64: Type.String({ minLength: 1, description: 'the picture' }),
    media_type: Type.String({ minLength: 1, maxLength: 128, description: 'e.g. image/png' }),
  },
  { description: 'the picture itself' },
)

/**
 * Where a picture is, or the picture. Its base64 text is passed on as it came: looking at each character of
 * 20 MB would hold up the event loop for 90 ms, and the provider looks at them anyway.
 *
 * @param param what the 400 names
 */
export function imageFromUrl(url: string, param: string): ImageSource {
  if (/^data:/i.test(url)) return imageFromDataUrl(url, param)
  const parsed = url.length <= URL_LENGTH_MAX ? URL.parse(url) : null
  if (parsed === null || !/^https?:$/.test(parsed.protocol)) {
    throw invalidField(param, `must be an http or https URL of at most ${URL_LENGTH_MAX} characters`)
  }
  if (parsed.username !== '' || parsed.password !== '') {
    throw invalidField(param, 'must not hold a user name or a password')
  }
  return { kind: 'url', url: parsed.href }
}

export function imageFromBase64(
  { base64, media_type }: Static<typeof InlineImage>,
  param: string,
): ImageSource {
  return { kind: 'base64', media_type: imageType(media_type, `${param}.media_type`), base64 }
}

function imageFromDataUrl(url: string, param: string): ImageSource {
  const [prefix, mediaType] = DATA_URL.exec(url.slice(0, DATA_PREFIX_LENGTH_MAX)) ?? []
  if (prefix === undefined || mediaType === undefined) {
    throw invalidField(param, 'must be a data: URL of the form data:image/png;base64,<base64>')
  }
  const base64 = url.slice(prefix.length)
  if (base64 === '') throw invalidField(param, 'must hold a picture that is not empty')
  return { kind: 'base64', media_type: imageType(mediaType, param), base64 }
}

function imageType(text: string, param: string): string {
  const mediaType = text.trim().toLowerCase()
  if (!IMAGE_TYPE.test(mediaType)) throw invalidField(param, 'must have a media type of image/…')
  return mediaType
}

const TextPart = Type.Object({ type: Type.Literal('text'), text: Type.String() })
const ImagePart = Type.Object({
  type: Type.Literal('image_url'),
  image_url: Type.Object({
    url: ImageUrl,
    detail: optional(Type.Enum(['auto', 'low', 'high']), 'how closely the model should look'),
  }),
})
export const AudioPart = Type.Object({
  type: Type.Literal('input_audio'),
  input_audio: Type.Object({
    data: Type.String({ minLength: 1, description: 'base64' }),
    format: Type.Enum(['wav', 'mp3']),
  }),
})

const Text = Type.Union([Type.String(), Type.Array(TextPart, { minItems: 1 })], {
  description: 'text, whole or in parts',
})
const TextImagesAudio = Type.Union(
  [Type.String(), Type.Array(Type.Union([TextPart, ImagePart, AudioPart]), { minItems: 1 })],
  { description: 'text, or parts: text, image_url (requires vision), input_audio' },
)
const Name = optional(Type.String({ maxLength: 256 }), 'of the participant; a hint')

const ToolCall = Type.Object({
  id: Type.String({ minLength: 1, maxLength: 1_024 }),
  type: Type.Literal('function'),
  function: Type.Object({
    name: Type.String({ minLength: 1, maxLength: 256 }),
    arguments: Type.String({ description: 'JSON as the model wrote it' }),
  }),
})

const Message = Type.Union(
  [
    Type.Object({ role: Type.Enum(['system', 'developer']), content: Text, name: Name }),
    Type.Object({ role: Type.Literal('user'), content: TextImagesAudio, name: Name }),
    Type.Object({
      role: Type.Literal('assistant'),
      content: Type.Optional(Type.Union([Text, Type.Null()])),
      tool_calls: optional(Type.Array(ToolCall), 'calls that the model asked for'),
      name: Name,
    }),
    Type.Object({
      role: Type.Literal('tool'),
      content: Text,
      tool_call_id: Type.String({ minLength: 1, maxLength: 1_024, description: 'the call that it answers' }),
      name: Name,
    }),
  ],
  { title: 'ChatMessage' },
)

/** The conversation, in the shapes of OpenAI's chat completions. */
export const Messages = Type.Array(Message, {
  minItems: 1,
  description: 'the conversation so far, oldest first',
})

type GivenMessage = Static<typeof Message>
type GivenPart = Static<typeof TextPart> | Static<typeof ImagePart> | Static<typeof AudioPart>

/** @throws GatewayError INVALID_REQUEST naming the part whose picture is none */
export function readMessages(messages: readonly GivenMessage[]): Pick<ChatCall, 'messages' | 'extras'> {
  const read = messages.map(readGivenMessage)
  if (messages.every(({ name }) => (name ?? null) === null)) return { messages: read }
  const names = messages.map(({ name }) => name ?? null)
  return { messages: read, extras: [{ name: 'messages[].name', value: names, required: false }] }
}

function readGivenMessage(message: GivenMessage, index: number): ChatMessage {
  const parts = readParts(message.content ?? [], index)
  switch (message.role) {
    case 'system':
    case 'developer':
      return { role: 'system', parts }
    case 'user':
      return { role: 'user', parts }
    case 'assistant':
      return { role: 'assistant', parts, tool_calls: (message.tool_calls ?? []).map(readToolCall) }
    case 'tool':
      return { role: 'tool', tool_call_id: message.tool_call_id, parts }
  }
}

function readToolCall({ id, function: { name, arguments: json } }: Static<typeof ToolCall>) {
  return { id, name, arguments: json }
}

/** @param index of the message that they make up */
function readParts(content: string | readonly GivenPart[], index: number): readonly ChatPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return content.map((part, place) => readPart(part, `messages[${index}].content[${place}]`))
}

function readPart(part: GivenPart, param: string): ChatPart {
  switch (part.type) {
    case 'text':
      return part
    case 'image_url': {
      const { url, detail } = part.image_url
      return { type: 'image', source: imageFromUrl(url, `${param}.image_url.url`), detail: detail ?? null }
    }
    case 'input_audio':
      return { type: 'audio', base64: part.input_audio.data, format: part.input_audio.format }
  }
}

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
    strict: optional(
      Type.Boolean(),
      'whether the arguments keep to it to the letter, where the provider can do that; otherwise with a warning',
    ),
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
    Type.Array(Type.Enum(['text', 'audio']), { minItems: 1, maxItems: 2, uniqueItems: true }),
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
  return { ...readChatFields(body, warn), ...readMessages(body.messages) }
}

const NONE: readonly never[] = []
const TEXT_ALONE: ChatCall['modalities'] = ['text']

/** All of a chat but its messages. @throws GatewayError INVALID_REQUEST naming the field at fault */
export function readChatFields(body: Static<typeof ChatFields>, warn: Warn): Omit<ChatCall, 'messages'> {
  const { max_tokens, temperature, top_p, stop, seed } = readSampling(body)
  const tools = body.tools?.map(readTool) ?? NONE
  const modalities = body.modalities ?? TEXT_ALONE
  const audio = body.audio ?? null
  if (audio !== null && !modalities.includes('audio')) {
    warn('audio: ignored, since modalities does not ask for audio')
  }
  return {
    max_tokens,
    temperature,
    top_p,
    stop,
    seed,
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
  const stop = body.stop ?? NONE
  return {
    max_tokens: longest ?? longestToo,
    temperature: body.temperature ?? null,
    top_p: body.top_p ?? null,
    stop: typeof stop === 'string' ? [stop] : stop,
    seed: body.seed ?? null,
  }
}

function readTool({
  function: { name, description, parameters, strict },
}: Static<typeof FunctionTool>): Tool {
  const tool = { name, description: description ?? null, parameters: parameters ?? null }
  return typeof strict === 'boolean' ? { ...tool, strict } : tool
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
