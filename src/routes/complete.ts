import { Type } from 'typebox'
import { answerChat } from './chat-reply.ts'
import { readSampling, SAMPLING_FIELDS } from './chat-request.ts'
import type { Handle } from './endpoint.ts'
import { jsonRequest } from './json-request.ts'

const CompleteBody = Type.Object({
  prompt: Type.String({ minLength: 1, description: 'text to go on from' }),
  ...SAMPLING_FIELDS,
})

export const completeRequest = jsonRequest('complete', CompleteBody, (body) => ({
  prompt: body.prompt,
  ...readSampling(body),
}))

/** POST /v1/complete */
export const complete: Handle = (exchange, trail, { services }) =>
  answerChat(completeRequest, exchange, trail, services)
