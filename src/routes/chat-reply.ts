import type { Services, Trail } from '../gateway/gateway.ts'
import { run } from '../gateway/run.ts'
import type { Outcome } from '../gateway/settle.ts'
import { runStreamed } from '../gateway/stream.ts'
import type { Exchange, Reply } from '../inbound/exchange.ts'
import type { ChatDelta, ToolCall } from '../schema/chat.ts'
import { callerOf } from './endpoint.ts'
import { jsonReply, largeText } from './json-reply.ts'
import { type JsonRequest, receiveJson } from './json-request.ts'
import { eventStreamReply } from './sse.ts'

type ChatName = 'chat' | 'complete' | 'vision'

/** Answers a request to which a model writes text: whole, or as events when the caller asks for a stream. */
export async function answerChat<K extends ChatName>(
  request: JsonRequest<K>,
  exchange: Exchange,
  trail: Trail,
  services: Services,
): Promise<Reply> {
  const { call, stream } = await receiveJson(request, exchange, trail, services)
  const asked = { ...callerOf(exchange), operation: request.operation, trail, call }
  if (!stream) {
    const outcome = await run(services, asked)
    exchange.onFinished(outcome.release)
    return jsonReply(envelopeOf(outcome))
  }
  const { deltas, outcome } = await runStreamed(services, asked)
  const done = () => {
    const ended = outcome()
    exchange.onFinished(ended.release)
    return { type: 'done', ...envelopeOf(ended) }
  }
  return eventStreamReply({ deltas, event: eventOf, done, terminator: '[DONE]' }, exchange, trail)
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
