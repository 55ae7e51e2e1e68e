import { type Static, Type } from 'typebox'
import { invalidField, MUST } from '../inbound/refusals.ts'
import type { ChatMessage, ChatPart } from '../schema/chat.ts'
import { answerChat } from './chat-reply.ts'
import { CHAT_FIELDS, readChatFields } from './chat-request.ts'
import { ImageUrl, InlineImage, imageFromBase64, imageFromUrl } from './chat-request-image.ts'
import { Messages, readMessages } from './chat-request-messages.ts'
import type { Handle } from './endpoint.ts'
import { jsonRequest, optional } from './json-request.ts'

const VisionBody = Type.Object({
  messages: optional(Messages, 'as for chat, with at least one picture; or send `prompt` and `images`'),
  prompt: optional(Type.String({ minLength: 1 }), 'what to do with `images`'),
  images: optional(Type.Array(Type.Union([ImageUrl, InlineImage]), { minItems: 1 }), 'pictures to look at'),
  ...CHAT_FIELDS,
})

export const visionRequest = jsonRequest('vision', VisionBody, (body, warn) => ({
  messages: readConversation(body, warn),
  ...readChatFields(body, warn),
}))

/** POST /v1/vision: a chat about pictures, or one prompt with its pictures. */
export const vision: Handle = (exchange, trail, { services }) =>
  answerChat(visionRequest, exchange, trail, services)

function readConversation(
  body: Static<typeof VisionBody>,
  warn: (line: string) => void,
): readonly ChatMessage[] {
  const { messages = null, prompt = null, images = null } = body
  if (messages === null) return [readPrompt(prompt, images)]
  if (prompt !== null)
    throw invalidField('prompt', MUST.beLeftOut('send either `messages`, or `prompt` and `images`'))
  if (images !== null)
    throw invalidField('images', MUST.beLeftOut('send either `messages`, or `prompt` and `images`'))
  const conversation = readMessages(messages, warn)
  if (conversation.some(({ parts }) => parts.some(({ type }) => type === 'image'))) return conversation
  throw invalidField('messages', 'must hold a picture')
}

function readPrompt(
  prompt: string | null,
  images: NonNullable<Static<typeof VisionBody>['images']> | null,
): ChatMessage {
  if (prompt === null && images === null) {
    throw invalidField('messages', `${MUST.beGiven} with a picture, or \`prompt\` and \`images\``)
  }
  if (prompt === null) throw invalidField('prompt', MUST.beGiven)
  if (images === null) throw invalidField('images', MUST.beGiven)
  const parts = images.map((image, index): ChatPart => {
    const param = `images[${index}]`
    const source = typeof image === 'string' ? imageFromUrl(image, param) : imageFromBase64(image, param)
    return { type: 'image', source, detail: null }
  })
  return { role: 'user', parts: [{ type: 'text', text: prompt }, ...parts] }
}
