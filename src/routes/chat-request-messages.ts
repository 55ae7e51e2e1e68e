import { type Static, Type } from 'typebox'
import type { ChatMessage, ChatPart } from '../schema/chat.ts'
import { ImageUrl, imageFromUrl } from './chat-request-image.ts'
import { optional } from './json-request.ts'

const TextPart = Type.Object({ type: Type.Literal('text'), text: Type.String() })
const ImagePart = Type.Object({
  type: Type.Literal('image_url'),
  image_url: Type.Object({
    url: ImageUrl,
    detail: optional(Type.Enum(['auto', 'low', 'high']), 'how closely the model should look'),
  }),
})
const AudioPart = Type.Object({
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
const Name = optional(Type.String({ maxLength: 256 }), 'of the participant; not passed on')

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

/**
 * @param warn takes a line for `warnings`
 * @throws GatewayError INVALID_REQUEST naming the part whose picture is none
 */
export function readMessages(
  messages: readonly GivenMessage[],
  warn: (line: string) => void,
): readonly ChatMessage[] {
  if (messages.some(({ name }) => (name ?? null) !== null)) {
    warn('messages[].name: names of participants are not passed on')
  }
  return messages.map((message, index) => readMessage(message, `messages[${index}]`))
}

function readMessage(message: GivenMessage, param: string): ChatMessage {
  const parts = readParts(message.content ?? [], `${param}.content`)
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

function readParts(content: string | readonly GivenPart[], param: string): readonly ChatPart[] {
  if (typeof content === 'string') return [{ type: 'text', text: content }]
  return content.map((part, index) => readPart(part, `${param}[${index}]`))
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
