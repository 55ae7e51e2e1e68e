import type { Call, Services, Trail } from '../gateway/gateway.ts'
import { run } from '../gateway/run.ts'
import type { Outcome } from '../gateway/settle.ts'
import { runStreamed, type Streaming } from '../gateway/stream.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { ChatDelta, ToolCall } from '../schema/chat.ts'
import { callerOf } from './endpoint.ts'
import { jsonReply, largeText } from './json-reply.ts'
import { type JsonRequest, receiveJson } from './json-request.ts'
import { type EventStream, eventStreamReply } from './sse.ts'

type ChatName = 'chat' | 'complete' | 'vision'

/** In whose shape an answer that a model writes goes out. */
export interface ChatShape<K extends ChatName> {
  whole(outcome: Outcome<K>): Promise<Reply>
  /** What becomes of a stream: all of it but where its pieces come from. `done` is given the whole. */
  events(
    streaming: Streaming<K>,
    call: Call<K>,
  ): Omit<EventStream<ChatDelta>, 'deltas' | 'done'> & {
    done(outcome: Outcome<K>): readonly object[]
  }
}

const OWN_SHAPE: ChatShape<ChatName> = {
  whole: (outcome) => jsonReply(envelopeOf(outcome)),
  events: () => ({
    event: eventOf,
    done: (outcome) => [{ type: 'done', ...envelopeOf(outcome) }],
    terminator: '[DONE]',
  }),
}

/** A call to which a model writes text. */
interface AskedChat<K extends ChatName> {
  readonly operation: K
  readonly call: Call<K>
  /** The caller wants the answer piece by piece. */
  readonly stream: boolean
}

/** Answers a request to which a model writes text: whole, or as events when the caller asks for a stream. */
export async function answerChat<K extends ChatName>(
  request: JsonRequest<K>,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<Reply> {
  const { call, stream } = await receiveJson(request, exchange, trail, services)
  return writeChat({ operation: request.operation, call, stream }, OWN_SHAPE, exchange, trail, services)
}

/** The same for a call that is read already, in any shape. */
export async function writeChat<K extends ChatName>(
  { operation, call, stream }: AskedChat<K>,
  shape: ChatShape<K>,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<Reply> {
  const asked = { ...callerOf(exchange), operation, trail, call }
  if (!stream) {
    const outcome = await run(services, asked)
    exchange.onFinished(outcome.release)
    return shape.whole(outcome)
  }
  const streaming = await runStreamed(services, asked)
  const events = shape.events(streaming, call)
  const done = () => {
    const ended = streaming.outcome()
    exchange.onFinished(ended.release)
    return events.done(ended)
  }
  return eventStreamReply({ ...events, deltas: streaming.deltas, done }, exchange, trail)
}

function envelopeOf({ envelope, result }: Outcome<ChatName>): object {
  const { warnings, ...common } = envelope
  const { content, tool_calls, finish_reason, audio } = result
  const spoken = audio === null ? [] : [{ type: 'output_audio', ...audio, base64: largeText(audio.base64) }]
  return {
    ...common,
    content: largeText(content),
    content_blocks: spoken,
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
