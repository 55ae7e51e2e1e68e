import t from 'tap'
import type { ChatCall, ChatResult } from '../../../../src/contracts/chat.ts'
import { groq } from '../../../../src/gateway/providers/groq.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { chatCall, WEATHER } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { reply } from '../../../support/replies.ts'
import { sse, streamFixture, streamOf } from '../../../support/stream-of.ts'

const TARGET = { model: 'gpt-4.1', baseUrl: 'https://api.openai.com/v1', credential: 'sk', options: {} }
const HEAD = { status: 200, headers: { 'content-type': 'text/event-stream' } }

function read(body: string, call: Partial<ChatCall> = {}, size?: number) {
  return streamOf(openai.chat!.streamed!.read(HEAD, chatCall(call), TARGET), body, size)
}

const chunk = (delta: unknown, finishReason: string | null = null, index = 0) => ({
  choices: [{ index, delta, finish_reason: finishReason }],
})

t.test('the request', async (t) => {
  for (const provider of [openai, groq, openaiCompatible]) {
    const body = JSON.parse(bytesOf(requestOf(provider.chat!.streamed!.start(chatCall(), TARGET))).toString())
    t.match(body, { stream: true, stream_options: { include_usage: true } }, provider.kind)
  }
  t.match(openai.chat!.streamed!.start(chatCall({ stop: ['a', 'b', 'c', 'd', 'e'] }), TARGET), {
    kind: 'failed',
  })
})

t.test('text, however its bytes are cut', async (t) => {
  const body = await streamFixture('openai/chat.stream.txt')
  for (const size of [1, 2, 3, 7, 64, 1000, 100_000]) {
    const { deltas, result } = read(body, {}, size)
    t.same(deltas, [
      { type: 'text', text: 'Grüße' },
      { type: 'text', text: ' aus' },
      { type: 'text', text: ' Zürich 🏔' },
    ])
    t.same(result, {
      content: 'Grüße aus Zürich 🏔',
      tool_calls: [],
      finish_reason: 'stop',
      audio: null,
      facts: { system_fingerprint: 'fp_44709d6fcb', service_tier: 'default' },
      usage: { input_tokens: 11, output_tokens: 7, service_tier: 'default' },
      warnings: [],
    })
  }
})

t.test('tool calls, piece by piece', async (t) => {
  const { deltas, result } = read(await streamFixture('openai/chat.tool_calls.stream.txt'), {
    tools: [WEATHER],
  })
  t.same(deltas, [
    { type: 'tool_call', index: 0, id: 'call_a', name: 'get_weather', arguments: '' },
    { type: 'tool_call', index: 0, id: null, name: null, arguments: '{"city":' },
    { type: 'tool_call', index: 0, id: null, name: null, arguments: '"Bern"}' },
    { type: 'tool_call', index: 1, id: 'call_b', name: 'get_weather', arguments: '' },
    { type: 'tool_call', index: 1, id: null, name: null, arguments: '{"city":"Basel"}' },
  ])
  t.match(result, {
    content: '',
    finish_reason: 'tool_calls',
    tool_calls: [
      { id: 'call_a', name: 'get_weather', arguments: '{"city":"Bern"}' },
      { id: 'call_b', name: 'get_weather', arguments: '{"city":"Basel"}' },
    ],
  })
})

t.test('whole tool calls that all have index 0, or none, are told apart', async (t) => {
  const whole = (id: string, index?: number) => ({
    tool_calls: [
      { ...(index === undefined ? {} : { index }), id, function: { name: 'f', arguments: `"${id}"` } },
    ],
  })
  for (const index of [0, undefined]) {
    const body = sse(chunk(whole('a', index)), chunk(whole('b', index)), chunk({}, 'tool_calls'), '[DONE]')
    const { result } = read(body, { tools: [WEATHER] })
    t.match(result, {
      tool_calls: [
        { id: 'a', arguments: '"a"' },
        { id: 'b', arguments: '"b"' },
      ],
    })
  }
  const unnamed = (input: string) => ({
    tool_calls: [{ index: 0, id: '', function: { name: 'f', arguments: input } }],
  })
  const unnamedCalls = sse(
    ...['{"a":1}', '{', '"b":2}'].map((input) => chunk(unnamed(input))),
    chunk({ tool_calls: [{ function: { name: 'g', arguments: '' } }] }, 'tool_calls'),
  )
  const made = (read(unnamedCalls, { tools: [WEATHER] }).result as ChatResult).tool_calls
  t.match(made, [{ arguments: '{"a":1}' }, { arguments: '{"b":2}' }, { name: 'g', arguments: '' }])
  t.equal(new Set(made.map(({ id }) => id)).size, 3, 'each has an id of its own')
  const randomIds = ['{"a"', ':1}'].map((input, at) => ({
    tool_calls: [
      { index: 0, id: `random-${at}`, function: { ...(at === 0 ? { name: 'f' } : {}), arguments: input } },
    ],
  }))
  t.match(
    read(sse(...randomIds.map((one) => chunk(one)), chunk({}, 'tool_calls')), { tools: [WEATHER] }).result,
    { tool_calls: [{ id: 'random-0', name: 'f', arguments: '{"a":1}' }] },
  )
  const repeated = sse(
    chunk({ tool_calls: [{ index: 3, id: 'a', function: { name: 'f', arguments: '1' } }] }),
    chunk({ tool_calls: [{ index: 3, id: 'a', function: { name: 'f', arguments: '2' } }] }),
    chunk({ tool_calls: [{ index: 9, function: { arguments: 'lost' } }] }),
    chunk({}, 'stop'),
  )
  t.match(read(repeated, { tools: [WEATHER] }), {
    deltas: [
      { index: 0, id: 'a' },
      { index: 0, id: null, arguments: '2' },
    ],
    result: { tool_calls: [{ id: 'a', name: 'f', arguments: '12' }], finish_reason: 'tool_calls' },
  })
})

t.test('speech is streamed as pcm and in no other format', async (t) => {
  const body = await streamFixture('openai/chat.audio.stream.txt')
  const { deltas, result } = read(body, { modalities: ['text', 'audio'] })
  t.same(deltas, [
    { type: 'text', text: 'Hel' },
    { type: 'text', text: 'lo.' },
    { type: 'audio', base64: 'AAECAw==' },
    { type: 'audio', base64: 'BAUGBwg=' },
  ])
  const joined = Buffer.from([0, 1, 2, 3, 4, 5, 6, 7, 8]).toString('base64')
  t.match(result, { content: 'Hello.', audio: { base64: joined, media_type: 'audio/pcm' } })

  t.match(
    read(body),
    { deltas: [{ type: 'text' }, { type: 'text' }], result: { audio: null } },
    'nor unasked',
  )
  t.equal(read(body).deltas.length, 2)

  const streamed = openai.chat!.streamed!
  const speaking = (format: string | null) =>
    chatCall({ modalities: ['audio'], audio: { voice: null, format } })
  for (const format of [null, 'pcm', 'pcm16']) {
    t.equal(streamed.applies?.(speaking(format), TARGET), true)
    const request = JSON.parse(bytesOf(requestOf(streamed.start(speaking(format), TARGET))).toString())
    t.equal(request.audio.format, 'pcm16')
  }
  t.equal(streamed.applies?.(speaking('mp3'), TARGET), false, 'it is made whole')
  t.equal(streamed.applies?.(chatCall({ audio: { voice: null, format: 'mp3' } }), TARGET), true)
})

t.test('Groq’s usage, reasoning, and other choices', async (t) => {
  const body = await streamFixture('groq/chat.stream.txt')
  const { deltas, result } = streamOf(groq.chat!.streamed!.read(HEAD, chatCall(), TARGET), body)
  t.same(deltas, [{ type: 'text', text: 'Fast' }])
  t.match(result, { content: 'Fast', usage: { input_tokens: 18, output_tokens: 4 } })
  t.match(read(sse(chunk({ content: 'a' }), chunk({ content: 'b' }, null, 1), chunk({}, 'stop'))), {
    result: { content: 'a', usage: null },
  })
})

t.test('a refusal is streamed as what the model says, and marked', async (t) => {
  const { deltas, result } = read(
    sse(chunk({ refusal: 'I ' }), chunk({ refusal: 'cannot.' }), chunk({}, 'stop')),
  )
  t.same(deltas, [
    { type: 'text', text: 'I ' },
    { type: 'text', text: 'cannot.' },
  ])
  t.match(result, { content: 'I cannot.', finish_reason: 'content_filter' })
})

t.test('where a stream is whole, and where it was cut', async (t) => {
  const text = chunk({ content: 'a' })
  const cut = { result: null, failure: { kind: 'ambiguous', status: 200 } }
  t.match(read(sse(text, chunk({}, 'stop'))), { result: { content: 'a' } }, 'a finish reason is an end')
  t.match(read(sse(text, '[DONE]')), { result: { content: 'a', finish_reason: null } }, 'so is [DONE]')
  t.match(read(sse(text)), cut)
  t.match(read(sse(text, chunk({}, 'stop')).slice(0, -1)), cut, 'an event without its end is none')
  t.match(read(''), cut)
  t.match(read(sse('[DONE]')), { failure: { kind: 'server', reason: /no chat completion/ } })
  t.match(read(sse(text, '[DONE]', 'not looked at')), { result: { content: 'a' } })
})

t.test('an error in the middle of a good answer', async (t) => {
  const text = chunk({ content: 'a' })
  const rows: [unknown, object][] = [
    [
      { error: { message: 'The server had an error', type: 'server_error' } },
      { kind: 'server', status: 200 },
    ],
    [{ error: { message: 'slow down', code: 'rate_limit_exceeded' } }, { kind: 'rate' }],
    [{ error: { message: 'over', code: 429 }, choices: [] }, { kind: 'rate' }],
    ['{"half', { kind: 'server', reason: /cannot be read/ }],
    ['null', { kind: 'server', reason: /cannot be read/ }],
  ]
  for (const [event, failure] of rows) {
    t.match(read(sse(text, event, '[DONE]'), {}, 100_000), { deltas: [], failure }, JSON.stringify(event))
    t.match(read(sse(text, event, '[DONE]'), {}, 1), { deltas: [{ text: 'a' }], failure })
  }
  t.match(
    read(`: ping\n\ndata:\n\n${sse(text, chunk({}, 'stop'))}`),
    { result: { content: 'a' } },
    'keep-alives',
  )
})

t.test('what was required and did not come is a failure here too', async (t) => {
  const body = sse(chunk({ content: 'Sure!' }), chunk({}, 'stop'), '[DONE]')
  t.match(read(body, { response_schema: { type: 'object' } }), {
    failure: { kind: 'server', reason: /JSON/ },
  })
  t.match(read(body, { tools: [WEATHER], tool_choice: 'required' }), { failure: { reason: /tool call/ } })
})

t.test('an answer other than 2xx is classified', async (t) => {
  const refusal = reply({ error: { message: 'no', code: 'insufficient_quota' } }, 429)
  t.match(openai.chat!.streamed!.refused(refusal), { kind: 'credential', status: 429 })
})
