import { readFile } from 'node:fs/promises'
import t from 'tap'
import type { ChatCall, ChatDelta, ChatResult } from '../../../../src/contracts/chat.ts'
import type { Failure } from '../../../../src/contracts/upstream.ts'
import { anthropic } from '../../../../src/gateway/providers/anthropic/provider.ts'
import { chatCall } from '../../../support/call.ts'

const streamed = anthropic.chat!.streamed!
const target = {
  model: 'claude-opus-5-5',
  baseUrl: 'https://api.anthropic.com',
  credential: 'sk-ant-secret',
  options: {},
}
const head = { status: 200, headers: { 'content-type': 'text/event-stream; charset=utf-8' } }

const call = (overrides: Partial<ChatCall> = {}) => chatCall({ max_tokens: 100, ...overrides })

const whole = await readFile(new URL('../../../fixtures/anthropic/message.sse', import.meta.url))

interface Read {
  readonly deltas: readonly ChatDelta[]
  readonly ending: ChatResult | Failure
}

/** Reads chunks to their end, as the gateway does: the first failure is the last word. */
function read(chunks: readonly Uint8Array[], given: Partial<ChatCall> = {}): Read {
  const reader = streamed.read(head, call(given), target)
  const deltas: ChatDelta[] = []
  for (const chunk of chunks) {
    const pushed = reader.push(chunk)
    if ('kind' in pushed) return { deltas, ending: pushed }
    deltas.push(...pushed)
  }
  const ended = reader.end()
  return { deltas, ending: 'result' in ended ? ended.result : ended }
}

/** An event as the API writes it. */
const event = (type: string, rest: Record<string, unknown> = {}) =>
  `event: ${type}\ndata: ${JSON.stringify({ type, ...rest })}\n\n`
const start = event('message_start', { message: { type: 'message', usage: { input_tokens: 3 } } })
const text = (words: string, index = 0) =>
  event('content_block_delta', { index, delta: { type: 'text_delta', text: words } })
const stop = (reason = 'end_turn') =>
  event('message_delta', { delta: { stop_reason: reason }, usage: { output_tokens: 2 } }) +
  event('message_stop')

const stream = (...events: string[]) => [Buffer.from(events.join(''))]

const EXPECTED: ChatResult = {
  content: 'Grüezi, ich schaue nach 🏔.',
  tool_calls: [
    { id: 'toolu_01T1x1fJ34qAmk2tNTrN7Up6', name: 'get_weather', arguments: '{"city": "Zürich"}' },
    { id: 'toolu_02', name: 'get_time', arguments: '{}' },
  ],
  finish_reason: 'tool_calls',
  audio: null,
  usage: { input_tokens: 500, output_tokens: 89, cached_input_tokens: 28, cache_write_tokens: 0 },
  warnings: [],
}

/** What a caller who puts the pieces together has. */
function joined(deltas: readonly ChatDelta[]) {
  const calls: { id: string | null; name: string | null; arguments: string }[] = []
  let content = ''
  for (const delta of deltas) {
    if (delta.type === 'text') content += delta.text
    if (delta.type !== 'tool_call') continue
    const known = calls[delta.index]
    if (known === undefined)
      calls[delta.index] = { id: delta.id, name: delta.name, arguments: delta.arguments }
    else known.arguments += delta.arguments
  }
  return { content, tool_calls: calls }
}

t.test('a message in one piece', async (t) => {
  const { deltas, ending } = read([whole])
  t.same(ending, EXPECTED)
  t.same(deltas, [
    { type: 'text', text: 'Grüezi, ich schaue' },
    { type: 'text', text: ' nach 🏔.' },
    { type: 'tool_call', index: 0, id: 'toolu_01T1x1fJ34qAmk2tNTrN7Up6', name: 'get_weather', arguments: '' },
    { type: 'tool_call', index: 0, id: null, name: null, arguments: '{"city":' },
    { type: 'tool_call', index: 0, id: null, name: null, arguments: ' "Zürich"}' },
    { type: 'tool_call', index: 1, id: 'toolu_02', name: 'get_time', arguments: '' },
    { type: 'tool_call', index: 1, id: null, name: null, arguments: '{}' },
  ])
  t.same(joined(deltas), { content: EXPECTED.content, tool_calls: EXPECTED.tool_calls })
})

t.test('the same whatever the chunks are', async (t) => {
  const bytewise = read([...whole].map((byte) => Uint8Array.of(byte)))
  t.same(bytewise, read([whole]))
  const odd: number[] = []
  for (let at = 0; at <= whole.length; at += 1) {
    const { ending, deltas } = read([whole.subarray(0, at), whole.subarray(at)])
    if (JSON.stringify([ending, joined(deltas).content]) !== JSON.stringify([EXPECTED, EXPECTED.content]))
      odd.push(at)
  }
  t.same(odd, [], 'split in two at every byte')
  t.same(read([Buffer.from(whole.toString().replaceAll('\n', '\r\n'))]).ending, EXPECTED)
})

t.test('a message that is cut at any byte is no answer', async (t) => {
  const odd: number[] = []
  for (let at = 0; at < whole.length; at += 1) {
    const { ending, deltas } = read([whole.subarray(0, at)])
    const told = 'kind' in ending && ending.kind === 'ambiguous' && ending.status === 200
    if (!told || !EXPECTED.content.startsWith(joined(deltas).content)) odd.push(at)
  }
  // What ends without its empty line is no event, so the very last line feed counts.
  t.same(odd, [])
})

t.test('nothing is read behind message_stop', async (t) => {
  const more = [
    ...stream(start, text('Hi.'), stop()),
    ...stream(text('!'), 'data: nonsense\n\n', event('error')),
  ]
  for (const chunks of [more, [Buffer.concat(more)]]) {
    t.match(read(chunks), { deltas: [{ text: 'Hi.' }], ending: { content: 'Hi.', finish_reason: 'stop' } })
  }
})

t.test('errors in the middle of a stream', async (t) => {
  const rows: [unknown, string][] = [
    [{ type: 'overloaded_error', message: 'Overloaded' }, 'rate'],
    [{ type: 'rate_limit_error', message: 'x' }, 'rate'],
    [{ type: 'api_error', message: 'x' }, 'server'],
    [{ type: 'timeout_error', message: 'x' }, 'server'],
    [{ type: 'authentication_error', message: 'x' }, 'credential'],
    [{ type: 'something_new', message: 'x' }, 'server'],
    [{ type: 'rate_limit_error', details: { error_code: 'contract_spend_limit_reached' } }, 'credential'],
    [null, 'server'],
    ['no', 'server'],
  ]
  for (const [error, kind] of rows) {
    const { deltas, ending } = read([...stream(start, text('Hi')), ...stream(event('error', { error }))])
    t.match(ending, { kind, status: 200 }, JSON.stringify(error))
    t.equal(joined(deltas).content, 'Hi')
  }
  const first = read(stream(event('error', { error: { type: 'overloaded_error', message: 'Overloaded' } })))
  t.match(first.ending, { kind: 'rate', providerMessage: 'Overloaded' })
})

t.test('streams that cannot be read', async (t) => {
  const rows = ['data: {"type":\n\n', 'data: []\n\n', 'data: 7\n\n', 'data: null\n\n']
  for (const bad of rows) {
    t.match(read(stream(start, bad, stop())).ending, { kind: 'server', status: 200 }, bad)
  }
  for (const other of ['', '<html></html>', '{"type":"message","content":[]}', ': comment\n\n']) {
    t.match(read(stream(other)).ending, { kind: 'ambiguous' }, other)
  }
})

t.test('pieces that are not known, or belong to nothing, are passed over', async (t) => {
  const block = (index: unknown, content_block: unknown) =>
    event('content_block_start', { index, content_block })
  const { deltas, ending } = read(
    stream(
      event('ping'),
      text('early '),
      start,
      event('something_new', { text: 'no' }),
      block(0, null),
      block(1, { type: 'server_tool_use', id: 'x', name: 'web_search', input: {} }),
      event('content_block_delta', {
        index: 1,
        delta: { type: 'input_json_delta', partial_json: '{"q":1}' },
      }),
      event('content_block_stop', { index: 1 }),
      block(2, { type: 'tool_use', input: {} }),
      block('x', { type: 'tool_use', name: 'now', input: { ignored: true } }),
      event('content_block_delta', { index: 'x', delta: { type: 'input_json_delta', partial_json: 7 } }),
      event('content_block_delta', { index: 'x', delta: { type: 'input_json_delta', partial_json: '{}' } }),
      event('content_block_delta', { index: 9, delta: { type: 'citations_delta', text: 'no' } }),
      event('content_block_delta', { index: 9 }),
      block(3, { type: 'text', text: 'late' }),
      event('message_delta', { delta: null, usage: 'x' }),
      stop('refusal'),
    ),
  )
  const id = (ending as ChatResult).tool_calls[0]?.id
  t.match(id, /^call_lk[0-9a-f]{16}$/)
  t.same(ending, {
    content: 'early late',
    tool_calls: [{ id, name: 'now', arguments: '{}' }],
    finish_reason: 'content_filter',
    audio: null,
    usage: { input_tokens: 3, output_tokens: 2 },
    warnings: [],
  })
  t.same(joined(deltas), { content: 'early late', tool_calls: (ending as ChatResult).tool_calls })
})

t.test('what was asked for is told or missed as without streaming', async (t) => {
  const cut = stream(start, text('Hi'), stop('max_tokens'))
  t.match(read(cut, { max_tokens: null, temperature: 0.5 }).ending, {
    finish_reason: 'length',
    warnings: [/^temperature: /, /^max_tokens: .* 4096$/],
  })
  const tools = [{ name: 'now', description: null, parameters: null }]
  const plain = stream(start, text('Hi'), stop())
  t.match(read(plain, { tools, tool_choice: 'required' }).ending, { kind: 'server', status: 200 })
  t.match(read(plain, { response_schema: {} }).ending, { kind: 'server' })
  t.match(read(stream(start, text('{}'), stop()), { response_schema: {} }).ending, { content: '{}' })
})
