import type { Completion } from 'openai/resources/completions'
import t from 'tap'
import type { FinishReason } from '../../../../src/contracts/chat.ts'
import { textCompletion } from '../../../../src/gateway/api/openai/completions.ts'
import { completeCall } from '../../../support/call.ts'
import { onWire, outcome } from '../../../support/openai-door-outcome.ts'

const CREATED = 1_795_000_000

function resultOf(finish_reason: FinishReason | null) {
  return { content: 'hello', tool_calls: [], finish_reason, audio: null, usage: null, warnings: [] }
}

t.test('a text is of the type that the client has for it', async (t) => {
  const reasons: [FinishReason | null, string][] = [
    ['stop', 'stop'],
    ['length', 'length'],
    ['content_filter', 'content_filter'],
    ['tool_calls', 'stop'],
    [null, 'stop'],
  ]
  for (const [given, reason] of reasons) {
    // The client's type has no null among figures, which the first token of an echo has.
    const text = (await onWire(
      textCompletion(outcome(completeCall(), resultOf(given)), CREATED),
    )) as Completion
    t.same(text, {
      id: 'req_1',
      object: 'text_completion',
      created: CREATED,
      model: 'morse-1',
      choices: [{ index: 0, text: 'hello', finish_reason: reason, logprobs: null }],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    })
  }
  const untold = textCompletion(outcome(completeCall(), resultOf('stop'), { total_tokens: null }), CREATED)
  t.notOk('usage' in untold)
})
