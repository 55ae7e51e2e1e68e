import type { Outcome } from '../../gateway/settle.ts'
import type { Streaming } from '../../gateway/stream.ts'
import type { ChatDelta } from '../../schema/chat.ts'
import type { ChatShape } from '../chat-reply.ts'
import { streamFacts } from '../fact-headers.ts'
import type { EventStream } from '../sse.ts'
import { factReply, secondsNow } from './fact-reply.ts'

type CompletionName = 'chat' | 'complete'

/** The events of a stream that are an endpoint's own. `done` is given the whole. */
interface Chunks<K extends CompletionName> extends Pick<EventStream<ChatDelta>, 'opening' | 'event'> {
  done(outcome: Outcome<K>): readonly object[]
}

/** What chat and text completions have in common: the facts are in headers, and a stream ends with `[DONE]`. */
export function completionShape<K extends CompletionName>(
  whole: (outcome: Outcome<K>, created: number) => object,
  chunks: (streaming: Streaming<K>, created: number) => Chunks<K>,
): ChatShape<K> {
  return {
    whole: (outcome) => factReply(outcome.envelope, whole(outcome, secondsNow())),
    events: (streaming, call) => ({
      ...chunks(streaming, secondsNow()),
      terminator: '[DONE]',
      headers: streamFacts(streaming, call),
    }),
  }
}
