import type { ChatDelta, ChatResult, CompleteCall } from '../../../contracts/chat.ts'
import type { Operation, Target } from '../../../contracts/provider.ts'
import { readEnding } from '../answer.ts'
import { type AskedOf, settleChat } from '../chat-answer.ts'
import type { Streamable } from '../completion.ts'
import { classify } from '../failure.ts'
import { readChat } from './chat-answer.ts'
import { ChatStreamReader } from './chat-stream.ts'
import { type ExtraHeaders, jsonRequest } from './wire.ts'

/** A text is all that can be asked for, several of them for one. */
function askedOf({ extras }: CompleteCall): AskedOf {
  const asked = extras === undefined ? {} : { extras }
  return { call: { ...TEXT, ...asked }, audioMediaType: '', warnings: [] }
}

const TEXT = { modalities: ['text'], tool_choice: null, response_schema: null } as const

/** `POST /completions`, https://platform.openai.com/docs/api-reference/completions/create */
export function completionOperation(
  extra: ExtraHeaders,
): Streamable<Operation<CompleteCall, ChatResult, ChatDelta>> {
  const startWith = (call: CompleteCall, target: Target, stream: boolean) => {
    const body = {
      model: target.model,
      prompt: call.prompt,
      ...(call.max_tokens === null ? {} : { max_tokens: call.max_tokens }),
      ...(call.temperature === null ? {} : { temperature: call.temperature }),
      ...(call.top_p === null ? {} : { top_p: call.top_p }),
      ...(call.stop.length === 0 ? {} : { stop: call.stop }),
      ...(call.seed === null ? {} : { seed: call.seed }),
      ...(stream ? { stream: true, stream_options: { include_usage: true } } : {}),
      ...Object.fromEntries((call.extras ?? []).map(({ name, value }) => [name, value])),
    }
    return { kind: 'send', request: jsonRequest(target, '/completions', body, extra), state: null } as const
  }
  return {
    takesSeed: true,
    takesExtra: () => true,
    start: (call, target) => startWith(call, target, false),
    next: (_state, reply, call) =>
      readEnding(reply, (body) => settleChat(readChat(body, call), askedOf(call), reply)),
    streamed: {
      start: (call, target) => startWith(call, target, true),
      refused: classify,
      read: (head, call) => new ChatStreamReader(head, askedOf(call)),
    },
  }
}
