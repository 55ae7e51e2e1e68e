import type { ChatDelta, ChatResult } from '../../src/contracts/chat.ts'
import { errorReply, GatewayError } from '../../src/contracts/errors.ts'
import { systemClock } from '../../src/contracts/time.ts'
import { wholeResponse } from '../../src/gateway/api/openai/responses-answer.ts'
import { responseEvents } from '../../src/gateway/api/openai/responses-events.ts'
import type { ResponseFields } from '../../src/gateway/api/openai/responses-request.ts'
import type { Streaming } from '../../src/gateway/call/attempt/stream.ts'
import { chatCall } from '../support/call.ts'
import { ENVELOPE, onWire, outcome } from '../support/openai-door-outcome.ts'
import { type DoorCase, requestTo } from './doors.ts'

const CREATED = 1_795_000_000
const WEATHER = {
  type: 'function' as const,
  name: 'weather',
  description: 'what the weather is like',
  parameters: { type: 'object', properties: { city: { type: 'string' } } },
  strict: true,
}
const SCHEMA = {
  type: 'object',
  properties: { a: { type: 'string' } },
  required: ['a'],
  additionalProperties: false,
}
const CALL = { id: 'call_1', name: 'weather', arguments: '{"city":"Oslo"}' }

const REQUESTS: Readonly<Record<string, ResponseFields>> = {
  'a text': { model: 'gpt-6-luna', input: 'hello' },
  'every option': {
    ...{ model: 'gpt-6-luna', input: 'hello', instructions: 'be short', max_output_tokens: 50 },
    ...{ temperature: 0.5, top_p: 0.9, metadata: { a: 'b' }, store: false, background: false, stream: true },
    ...{ include: ['reasoning.encrypted_content' as const], parallel_tool_calls: true as const },
    ...{
      tools: [WEATHER],
      tool_choice: 'auto' as const,
      text: { verbosity: 'low' },
      top_logprobs: 0 as const,
    },
  },
  'a conversation': {
    model: 'gpt-6-luna',
    input: [
      { role: 'developer', content: [{ type: 'input_text', text: 'be short' }] },
      {
        type: 'message',
        role: 'user',
        content: [
          { type: 'input_text', text: 'what?' },
          { type: 'input_image', image_url: 'https://example.com/a.png', detail: 'low' },
        ],
      },
      { type: 'function_call', call_id: 'call_1', name: 'weather', arguments: '{}' },
      { type: 'function_call_output', call_id: 'call_1', output: 'sun' },
      { role: 'assistant', content: 'sun' },
      { role: 'user', content: 'thanks' },
    ],
    tools: [WEATHER],
    tool_choice: { type: 'function', name: 'weather' },
  },
  'a schema': {
    model: 'gpt-6-luna',
    input: 'hello',
    text: {
      format: { type: 'json_schema', name: 'letters', schema: SCHEMA, strict: true, description: 'a' },
    },
  },
  'any object': { model: 'gpt-6-luna', input: 'hello', text: { format: { type: 'json_object' } } },
}

const ANSWER: ChatResult = {
  ...{ content: 'hello', tool_calls: [], finish_reason: 'stop', audio: null, usage: null, warnings: [] },
}
const RESULTS: Readonly<Record<string, ChatResult>> = {
  'a text': ANSWER,
  nothing: { ...ANSWER, content: '' },
  'a text that is too long': { ...ANSWER, finish_reason: 'length' },
  'a text that was filtered': { ...ANSWER, finish_reason: 'content_filter' },
  'called functions': {
    ...{ ...ANSWER, content: '', finish_reason: 'tool_calls' },
    tool_calls: [CALL, { ...CALL, id: 'call_2' }],
  },
  'a text and a called function': { ...ANSWER, finish_reason: null, tool_calls: [CALL] },
}

/** Requests for responses with every answer, whole and as events, and streams that break off. */
export async function responseCases(): Promise<readonly DoorCase[]> {
  const cases: DoorCase[] = []
  for (const [asked, request] of Object.entries(REQUESTS))
    for (const [answered, result] of Object.entries(RESULTS))
      for (const usage of [ENVELOPE.usage, {}]) {
        const ended = outcome<'chat'>(chatCall(), result, usage)
        const name = `${asked}, answered by ${answered}${usage === ENVELOPE.usage ? '' : ', tokens unknown'}`
        const answer = await onWire(wholeResponse(ended, request, CREATED))
        const { opening, event, done, failed } = responseEvents(streaming(), request, systemClock)
        const written = [...opening, ...deltasOf(result).flatMap((delta) => event(delta)), ...done(ended)]
        const broken = failed(FAILURE)
        const events = await Promise.all([...written, ...broken].map((one) => onWire(one)))
        const sent = requestTo('POST', 'https://api.openai.com/v1/responses', { json: request })
        cases.push({ name, request: sent, answers: [answer], refusal: null, events, wrong: [] })
      }
  return cases
}

const FAILURE = errorReply(new GatewayError('UPSTREAM_ERROR'), 'req_1').body

function deltasOf({ content, tool_calls: calls }: ChatResult): ChatDelta[] {
  const texts = content === '' ? [] : [content.slice(0, 2), content.slice(2)]
  return [
    ...texts.map((text): ChatDelta => ({ type: 'text', text })),
    ...calls.flatMap(({ id, name, arguments: given }, index): ChatDelta[] => [
      { type: 'tool_call', index, id, name, arguments: '' },
      { type: 'tool_call', index, id: null, name: null, arguments: given },
    ]),
  ]
}

function streaming(): Pick<Streaming<'chat'>, 'head'> {
  return { head: ENVELOPE }
}
