import { answerChat } from './chat-reply.ts'
import { ChatBody, readChat } from './chat-request.ts'
import type { Handle } from './endpoint.ts'
import { jsonRequest } from './json-request.ts'

export const chatRequest = jsonRequest('chat', ChatBody, readChat)

/** POST /v1/chat: pictures, tools and spoken answers ask for more of the model than text. */
export const chat: Handle = (exchange, trail, { services }) =>
  answerChat(chatRequest, exchange, trail, services)
