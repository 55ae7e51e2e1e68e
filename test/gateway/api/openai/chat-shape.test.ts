import { ChatCompletionStream } from 'openai/lib/ChatCompletionStream'
import type { ChatCompletion, ChatCompletionChunk } from 'openai/resources/chat/completions'
import t from 'tap'
import type { ChatCall, ChatDelta, ChatResult } from '../../../../src/contracts/chat.ts'
import { chatChunks, chatCompletion } from '../../../../src/gateway/api/openai/chat.ts'
import type { Streaming } from '../../../../src/gateway/call/attempt/stream.ts'
import { chatCall } from '../../../support/call.ts'
import { ENVELOPE, onWire, outcome } from '../../../support/openai-door-outcome.ts'

const CREATED = 1_795_000_000
const CALL = { id: 'call_1', name: 'weather', arguments: '{"city":"Oslo"}' }
const TOOL_CALL = {
  id: 'call_1',
  type: 'function',
  function: { name: 'weather', arguments: '{"city":"Oslo"}' },
}
const USAGE = { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 }

function resultOf(overrides: Partial<ChatResult> = {}): ChatResult {
  const nothing = { tool_calls: [], finish_reason: 'stop', audio: null, usage: null, warnings: [] } as const
  return { content: 'hello', ...nothing, ...overrides }
}

function streamingOf(call: Partial<ChatCall> = {}): Streaming<'chat'> {
  const { usage: _usage, cost_usd: _cost, ...head } = ENVELOPE
  const never = () => {
    throw new Error('it is not read')
  }
  const expected = { usage: {}, cost_usd: null }
  async function* none(): AsyncGenerator<ChatDelta, void, void> {}
  return { head, expected, warnings: [], payload: chatCall(call), deltas: none(), outcome: never }
}

t.test('a chat is of the type that the client has for it', async (t) => {
  const completion: ChatCompletion = await onWire(chatCompletion(outcome(chatCall(), resultOf()), CREATED))
  t.same(completion, {
    id: 'req_1',
    object: 'chat.completion',
    created: CREATED,
    model: 'morse-1',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'hello', refusal: null },
        finish_reason: 'stop',
        logprobs: null,
      },
    ],
    usage: USAGE,
  })
})

t.test('what a chat may hold', async (t) => {
  const audio = { base64: 'AAAA', media_type: 'audio/wav' }
  const spoken = { id: 'audio_req_1', data: 'AAAA', expires_at: CREATED, transcript: 'hello' }
  const long = 'ü"'.repeat(50_000)
  const rows: [result: Partial<ChatResult>, message: object, reason: string][] = [
    [{ content: '' }, { content: '' }, 'stop'],
    [{ content: long }, { content: long }, 'stop'],
    [{ finish_reason: null }, { content: 'hello' }, 'stop'],
    [{ finish_reason: 'length' }, { content: 'hello' }, 'length'],
    [{ finish_reason: 'content_filter' }, { content: 'hello' }, 'content_filter'],
    [
      { content: '', tool_calls: [CALL], finish_reason: 'tool_calls' },
      { content: null, tool_calls: [TOOL_CALL] },
      'tool_calls',
    ],
    [
      { tool_calls: [CALL], finish_reason: null },
      { content: 'hello', tool_calls: [TOOL_CALL] },
      'tool_calls',
    ],
    [{ audio }, { content: null, audio: spoken }, 'stop'],
  ]
  for (const [result, message, reason] of rows) {
    const { choices } = await onWire(chatCompletion(outcome(chatCall(), resultOf(result)), CREATED))
    const whole = { role: 'assistant', refusal: null, ...message }
    t.same(choices, [{ index: 0, message: whole, finish_reason: reason, logprobs: null }])
  }
  const unknown = { input_tokens: 3, output_tokens: null, total_tokens: null }
  t.notOk(
    'usage' in chatCompletion(outcome(chatCall(), resultOf(), unknown), CREATED),
    'no figure is made up',
  )
})

t.test('chunks are of the type that the client has for them', async (t) => {
  const deltas: [delta: ChatDelta, expected: object][] = [
    [{ type: 'text', text: 'a' }, { content: 'a' }],
    [
      { type: 'tool_call', index: 1, id: 'call_1', name: 'weather', arguments: '' },
      {
        tool_calls: [
          { index: 1, id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } },
        ],
      },
    ],
    [
      { type: 'tool_call', index: 1, id: null, name: null, arguments: '{}' },
      { tool_calls: [{ index: 1, function: { arguments: '{}' } }] },
    ],
  ]
  for (const includeUsage of [false, true]) {
    const none = includeUsage ? { usage: null } : {}
    const head = { id: 'req_1', object: 'chat.completion.chunk', created: CREATED, model: 'morse-1' }
    const chunkOf = (delta: object, reason: string | null = null) => ({
      ...head,
      choices: [{ index: 0, delta, logprobs: null, finish_reason: reason }],
      ...none,
    })
    const { opening, event, done } = chatChunks(streamingOf(), includeUsage, CREATED)
    const first: ChatCompletionChunk[] = await onWire(opening)
    t.same(first, [chunkOf({ role: 'assistant', content: '', refusal: null })])
    for (const [delta, expected] of deltas) {
      const chunk: ChatCompletionChunk = await onWire(event(delta))
      t.same(chunk, chunkOf(expected))
    }
    const last: ChatCompletionChunk[] = await onWire(done(outcome(chatCall(), resultOf())))
    t.same(last, [chunkOf({}, 'stop'), ...(includeUsage ? [{ ...head, choices: [], usage: USAGE }] : [])])
    const unknown = outcome<'chat'>(chatCall(), resultOf(), { total_tokens: null })
    if (includeUsage) t.match(done(unknown).at(-1), { choices: [], usage: null })
  }
})

t.test('text and sound of a spoken answer belong together', async (t) => {
  const streaming = streamingOf({ modalities: ['text', 'audio'] })
  const { opening, event, done } = chatChunks(streaming, false, CREATED)
  const audio = { base64: 'AAAABBBB', media_type: 'audio/pcm' }
  const chunks: ChatCompletionChunk[] = await onWire([
    ...opening,
    event({ type: 'text', text: 'the ' }),
    event({ type: 'audio', base64: 'AAAA' }),
    event({ type: 'text', text: 'lark' }),
    event({ type: 'audio', base64: 'BBBB' }),
    ...done(outcome(chatCall(), resultOf({ audio }))),
  ])
  // A client that strings together what comes twice has the id but once.
  t.same(
    chunks.map(({ choices: [choice] }) => choice?.delta),
    [
      { role: 'assistant', content: null, refusal: null },
      { audio: { id: 'audio_req_1', transcript: 'the ' } },
      { audio: { data: 'AAAA' } },
      { audio: { transcript: 'lark' } },
      { audio: { data: 'BBBB' } },
      { audio: { expires_at: CREATED } },
      {},
    ],
  )
  const lines = chunks.map((chunk) => new TextEncoder().encode(`${JSON.stringify(chunk)}\n`))
  const read = ChatCompletionStream.fromReadableStream(ReadableStream.from(lines))
  const spoken = { id: 'audio_req_1', data: 'AAAABBBB', transcript: 'the lark', expires_at: CREATED }
  t.match((await read.finalChatCompletion()).choices, [{ message: { audio: spoken, content: null } }])

  const silent = chatChunks(streaming, false, CREATED).done(outcome(chatCall(), resultOf()))
  t.match(
    silent,
    [{ choices: [{ delta: {}, finish_reason: 'stop' }] }],
    'what did not speak has no recording',
  )
  t.equal(silent.length, 1)
})
