import { type Static, Type } from 'typebox'
import type { ChatCall, ChatDelta, ChatMessage, ChatPart, ToolCall } from '../../../contracts/chat.ts'
import type { Clock } from '../../../contracts/time.ts'
import type { Envelope, Outcome } from '../../call/attempt/outcome.ts'
import type { Streaming } from '../../call/attempt/stream.ts'
import { run } from '../../call/pipeline.ts'
import type { Reply } from '../../edge/exchange.ts'
import { invalidField, MUST } from '../../edge/refusals.ts'
import { type EndpointCall, endpoint } from '../endpoint.ts'
import { jsonReply, largeText } from '../json-reply.ts'
import { jsonRequest, optional, type ReceivedJson } from '../json-request.ts'
import { Chat, ChatEvent } from '../openapi/answers.ts'
import { type Answer, CALL_ERRORS, events, json } from '../openapi/operation.ts'
import { type EventStream, eventStreamReply } from '../sse.ts'
import {
  CHAT_FIELDS,
  ChatBody,
  ImageUrl,
  InlineImage,
  imageFromBase64,
  imageFromUrl,
  Messages,
  readChat,
  readChatFields,
  readMessages,
  readSampling,
  SAMPLING_FIELDS,
} from './chat-request.ts'

type ChatName = 'chat' | 'complete' | 'vision'

/** Shape of answers that a model writes. Its functions are pure but for the moment that some answers tell. */
export interface ChatShape<K extends ChatName> {
  whole(outcome: Outcome<K>, clock: Clock): Reply | Promise<Reply>
  /** Events of a stream, all but their source. `done` is given the whole. */
  events(
    streaming: Streaming<K>,
    clock: Clock,
  ): Omit<EventStream<ChatDelta>, 'deltas' | 'done'> & { done(outcome: Outcome<K>): readonly object[] }
}

const OWN_SHAPE: ChatShape<ChatName> = {
  whole: (outcome) => jsonReply(envelopeOf(outcome)),
  events: () => ({
    event: eventOf,
    done: (outcome) => [{ type: 'done', ...envelopeOf(outcome) }],
    terminator: '[DONE]',
  }),
}

const STREAMED =
  'One object per event, in `data:`; the last is followed by `data: [DONE]`. A failure after the first ' +
  'chunk is sent as an `error` event with the error envelope, and nothing follows it.'

const WRITTEN: Answer = {
  status: 200,
  description: 'the answer; with `stream: true` its chunks, then the complete answer',
  contents: [json(Chat), events(ChatEvent, STREAMED)],
}

type ChatEndpointCall<K extends ChatName> = EndpointCall<Pick<ReceivedJson<K>, 'call' | 'stream'>>

function answerChat<K extends ChatName>(request: ChatEndpointCall<K>): Promise<Reply> {
  return writeChat<K>(OWN_SHAPE, request)
}

/** Answers whole, or as events when the caller asks for a stream. */
export function writeChat<K extends ChatName>(
  shape: ChatShape<K>,
  request: ChatEndpointCall<K>,
): Promise<Reply> {
  const { exchange, context, deps, body } = request
  if (body.stream) return streamChat(shape, request)
  return run(deps.services, context, { mode: 'whole', call: body.call }).then((outcome) => {
    exchange.onFinished(outcome.release)
    return shape.whole(outcome, deps.services.clock)
  })
}

async function streamChat<K extends ChatName>(
  shape: ChatShape<K>,
  { exchange, context, deps: { services }, body: { call } }: ChatEndpointCall<K>,
): Promise<Reply> {
  const streaming = await run(services, context, { mode: 'streamed', call })
  const events = shape.events(streaming, services.clock)
  const done = () => {
    const ended = streaming.outcome()
    exchange.onFinished(ended.release)
    return events.done(ended)
  }
  return eventStreamReply({ ...events, deltas: streaming.deltas, done }, exchange, context)
}

type ChatMember = keyof Envelope | 'tool_calls' | 'finish_reason'

/** Written out, since most answers are such: `warnings` stand last, and an object without them is slow to make. */
function envelopeOf({ envelope, result }: Outcome<ChatName>): Record<ChatMember, unknown> {
  const { id, provider, model, policy_version_id, usage, cost_usd, determinism, warnings } = envelope
  const { lk_requested_purpose, lk_applied_purpose, lk_purpose_source } = envelope
  const { tool_calls, finish_reason, audio } = result
  const spoken = audio === null ? [] : [{ type: 'output_audio', ...audio, base64: largeText(audio.base64) }]
  return {
    id,
    provider,
    model,
    policy_version_id,
    content: largeText(result.content),
    content_blocks: spoken,
    usage,
    cost_usd,
    determinism,
    lk_requested_purpose,
    lk_applied_purpose,
    lk_purpose_source,
    tool_calls: tool_calls.map(toolCallOf),
    finish_reason,
    warnings,
  }
}

function toolCallOf({ id, name, arguments: json }: ToolCall) {
  return { id, type: 'function', function: { name, arguments: json } }
}

function eventOf(delta: ChatDelta): object {
  switch (delta.type) {
    case 'text':
      return { type: 'delta', content: delta.text }
    case 'tool_call':
      return { ...delta, type: 'tool_call_delta' }
    case 'audio':
      return { type: 'audio_delta', base64: delta.base64 }
  }
}

export const chatRequest = jsonRequest('chat', ChatBody, readChat)

export const chat = endpoint({
  method: 'POST',
  path: '/v1/chat',
  kind: 'call',
  id: 'chat',
  tag: 'Generation',
  summary: 'Chat',
  description:
    "Messages in OpenAI's shape. Pictures, tools, recordings and spoken answers ask for more of the " +
    'model than text: `vision`, `function_calling`, `audio_input`, `audio_output`.',
  scope: 'inference',
  body: chatRequest,
  answers: [WRITTEN],
  errors: CALL_ERRORS,
  handle: answerChat,
})

const CompleteBody = Type.Object({
  prompt: Type.String({ minLength: 1, description: 'text to go on from' }),
  ...SAMPLING_FIELDS,
})

export const completeRequest = jsonRequest('complete', CompleteBody, (body) => ({
  prompt: body.prompt,
  ...readSampling(body),
}))

export const complete = endpoint({
  method: 'POST',
  path: '/v1/complete',
  kind: 'call',
  id: 'complete',
  tag: 'Generation',
  summary: 'Text completion',
  scope: 'inference',
  body: completeRequest,
  answers: [WRITTEN],
  errors: CALL_ERRORS,
  handle: answerChat,
})

const VisionBody = Type.Object({
  messages: optional(Messages, 'as for chat, with at least one picture; or send `prompt` and `images`'),
  prompt: optional(Type.String({ minLength: 1 }), 'what to do with `images`'),
  images: optional(Type.Array(Type.Union([ImageUrl, InlineImage]), { minItems: 1 }), 'pictures to look at'),
  ...CHAT_FIELDS,
})

export const visionRequest = jsonRequest('vision', VisionBody, (body, warn) => ({
  ...readConversation(body),
  ...readChatFields(body, warn),
}))

export const vision = endpoint({
  method: 'POST',
  path: '/v1/vision',
  kind: 'call',
  id: 'vision',
  tag: 'Generation',
  summary: 'Vision',
  description: 'A chat with at least one image, or `prompt` and `images`.',
  scope: 'inference',
  body: visionRequest,
  answers: [WRITTEN],
  errors: CALL_ERRORS,
  handle: answerChat,
})

function readConversation(body: Static<typeof VisionBody>): Pick<ChatCall, 'messages' | 'extras'> {
  const { messages = null, prompt = null, images = null } = body
  if (messages === null) return { messages: [readPrompt(prompt, images)] }
  if (prompt !== null)
    throw invalidField('prompt', MUST.beLeftOut('send either `messages`, or `prompt` and `images`'))
  if (images !== null)
    throw invalidField('images', MUST.beLeftOut('send either `messages`, or `prompt` and `images`'))
  const conversation = readMessages(messages)
  if (conversation.messages.some(({ parts }) => parts.some(({ type }) => type === 'image')))
    return conversation
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
