import { GatewayError } from '../../../contracts/errors.ts'
import { endpoint } from '../endpoint.ts'
import { streamFacts } from '../fact-headers.ts'
import { type ChatShape, writeChat } from '../native/chat.ts'
import { TOKEN_FACTS } from '../openapi/headers.ts'
import { OpenAiResponse, OpenAiResponseEvent } from '../openapi/openai-responses.ts'
import { CALL_ERRORS, events, json } from '../openapi/operation.ts'
import { factReply, OPENAI, openaiAnswer, secondsNow } from './door.ts'
import { wholeResponse } from './responses-answer.ts'
import { responseEvents } from './responses-events.ts'
import { type ResponseFields, responseRequest } from './responses-request.ts'

const STREAMED = 'With `stream: true`: events in `event:` and `data:`, the last one with the whole response.'

export const responses = endpoint({
  ...OPENAI,
  method: 'POST',
  path: '/openai/v1/responses',
  kind: 'call',
  id: 'openaiResponse',
  summary: 'Response',
  description:
    'A chat in the newer format. Nothing is stored: the whole conversation is sent with each request.',
  door: { ...OPENAI.door, translateError },
  body: responseRequest,
  answers: [openaiAnswer([json(OpenAiResponse), events(OpenAiResponseEvent, STREAMED)], TOKEN_FACTS)],
  errors: CALL_ERRORS,
  handle: (request) => writeChat(responseShape(request.body.fields), request),
})

/** Fields of the call by the names that they have in a request for a response. */
const NAMES: ReadonlyMap<string, string> = new Map([
  ['response_schema', 'text.format'],
  ['max_tokens', 'max_output_tokens'],
  ['messages', 'input'],
])

/** Names the field at fault as a request for a response has it. */
function translateError(error: GatewayError): GatewayError {
  const { param = null } = error.extra
  const name = param === null ? undefined : NAMES.get(param)
  if (param === null || name === undefined) return error
  const message = error.message.startsWith(param) ? name + error.message.slice(param.length) : error.message
  return new GatewayError(error.code, message, { ...error.extra, param: name })
}

/** @param fields of the request; the answer repeats some of them */
function responseShape(fields: ResponseFields): ChatShape<'chat'> {
  return {
    whole: (outcome, clock) => factReply(outcome.envelope, wholeResponse(outcome, fields, secondsNow(clock))),
    events: (streaming, clock) => ({
      ...responseEvents(streaming, fields, clock),
      terminator: null,
      named: true,
      headers: streamFacts(streaming),
    }),
  }
}
