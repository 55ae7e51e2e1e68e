import type { ChatCall, ChatDelta, ChatResult, CompleteCall } from '../../contracts/chat.ts'
import type { ExtraName } from '../../contracts/extras.ts'
import type { Operation } from '../../contracts/provider.ts'

type Chat = Operation<ChatCall, ChatResult, ChatDelta>
type Completion = Operation<CompleteCall, ChatResult, ChatDelta>
/** With its answer piece by piece. */
export type Streamable<Op extends Chat | Completion> = Op & Required<Pick<Op, 'streamed'>>

/**
 * A text completion served by a chat model: the prompt is a user's message. For models that have no
 * completion endpoint, which is most of them by now.
 */
export function completionByChat(chat: Streamable<Chat>): Streamable<Completion>
export function completionByChat(chat: Chat): Completion
export function completionByChat(chat: Chat): Completion {
  const { streamed } = chat
  return {
    ...(chat.takesSeed === undefined ? {} : { takesSeed: chat.takesSeed }),
    takesExtra: (extra, target) => !TEXT_ALONE.has(extra.name) && chat.takesExtra?.(extra, target) === true,
    start: (call, target) => chat.start(asChat(call), target),
    next: (state, reply, call, target) => chat.next(state, reply, asChat(call), target),
    ...(streamed === undefined
      ? {}
      : {
          streamed: {
            applies: (call, target) => streamed.applies?.(asChat(call), target) ?? true,
            start: (call, target) => streamed.start(asChat(call), target),
            refused: (reply) => streamed.refused(reply),
            read: (head, call, target) => streamed.read(head, asChat(call), target),
          },
        }),
  }
}

/** Options of text completions that a chat lacks, or has in another form. */
const TEXT_ALONE: ReadonlySet<ExtraName> = new Set(['best_of', 'echo', 'suffix', 'logprobs'])

function asChat({ prompt, ...sampling }: CompleteCall): ChatCall {
  return {
    ...sampling,
    messages: [{ role: 'user', parts: [{ type: 'text', text: prompt }] }],
    tools: [],
    tool_choice: null,
    modalities: ['text'],
    audio: null,
    response_schema: null,
  }
}
