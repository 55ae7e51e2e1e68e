import t, { type Test } from 'tap'
import { Value } from 'typebox/value'
import type { ChatCall, ChatPart, ChatResult } from '../../../../src/contracts/chat.ts'
import type { JsonObject } from '../../../../src/contracts/json.ts'
import type { Step, Target } from '../../../../src/contracts/provider.ts'
import { anthropic } from '../../../../src/gateway/providers/anthropic/provider.ts'
import { chatCall, say, user, WEATHER } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'

const chat = anthropic.chat!

function target(overrides: Partial<Target> = {}): Target {
  return {
    model: 'claude-sonnet-5',
    baseUrl: 'https://api.anthropic.com',
    credential: 'sk-ant-secret',
    options: {},
    ...overrides,
  }
}

const OLD = { version: '2023-06-01' }

const call = (overrides: Partial<ChatCall> = {}) => chatCall({ max_tokens: 100, ...overrides })

function sent(overrides: Partial<ChatCall>, at: Target = target()): JsonObject {
  return JSON.parse(bytesOf(requestOf(chat.start(call(overrides), at))).toString())
}

function next(
  body: unknown,
  overrides: Partial<ChatCall> = {},
  at = target(),
  status = 200,
): Step<ChatResult> {
  return chat.next(null, reply(body, status), call(overrides), at)
}

function done(t: Test, step: Step<ChatResult>): ChatResult {
  if (step.kind === 'done') return step.result
  t.fail(`no result: ${JSON.stringify(step)}`)
  throw new Error('no result')
}

const message = (overrides: JsonObject = {}): JsonObject => ({
  type: 'message',
  content: [{ type: 'text', text: 'Hi.' }],
  stop_reason: 'end_turn',
  usage: { input_tokens: 3, output_tokens: 2 },
  ...overrides,
})

const weather = {
  name: 'get_weather',
  description: 'Current weather',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
}

t.test('the request', async (t) => {
  const request = requestOf(chat.start(call(), target()))
  t.equal(request.method, 'POST')
  t.equal(request.url, 'https://api.anthropic.com/v1/messages')
  t.match(request.headers, {
    'x-api-key': 'sk-ant-secret',
    'anthropic-version': '2026-10-21',
    'content-type': 'application/json',
  })
  t.notOk('authorization' in request.headers)
  t.same(sent({}), {
    model: 'claude-sonnet-5',
    max_tokens: 100,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Hello' }] }],
  })
  const old = requestOf(chat.start(call(), target({ options: OLD, credential: null })))
  t.equal(old.headers['anthropic-version'], '2023-06-01')
  t.notOk('x-api-key' in old.headers)
  const streamed = JSON.parse(bytesOf(requestOf(chat.streamed!.start(call(), target()))).toString())
  t.equal(streamed.stream, true)
  t.notOk(chat.takesSeed, 'there is no seed')
})

t.test('fields', async (t) => {
  const schema = { type: 'object', properties: {}, additionalProperties: false }
  const rows: [Partial<ChatCall>, Record<string, unknown>, Target?][] = [
    [{ max_tokens: null }, { max_tokens: 4096 }],
    [{ max_tokens: null }, { max_tokens: 20_000 }, target({ options: { max_tokens: 20_000 } })],
    [{ max_tokens: 7 }, { max_tokens: 7 }, target({ options: { max_tokens: 20_000 } })],
    [{ stop: ['END', '\n\nHuman:'] }, { stop_sequences: ['END', '\n\nHuman:'] }],
    [{ seed: 7 }, { seed: undefined }],
    [
      { temperature: 0.5, top_p: 0.9 },
      { temperature: undefined, top_p: undefined },
    ],
    [{ temperature: 0.5 }, { temperature: 0.5 }, target({ options: OLD })],
    [{ top_p: 0.9 }, { top_p: 0.9 }, target({ options: OLD })],
    [{ temperature: 0, top_p: 0.9 }, { temperature: 0, top_p: undefined }, target({ options: OLD })],
    [{ response_schema: schema }, { output_config: { format: { type: 'json_schema', schema } } }],
    [
      { tools: [weather] },
      {
        tools: [{ name: 'get_weather', description: 'Current weather', input_schema: weather.parameters }],
        tool_choice: undefined,
      },
    ],
    [
      { tools: [{ name: 'now', description: null, parameters: null }] },
      { tools: [{ name: 'now', input_schema: { type: 'object', properties: {} } }] },
    ],
    [
      { tools: [{ name: 'now', description: null, parameters: { properties: { a: {} } } }] },
      { tools: [{ name: 'now', input_schema: { type: 'object', properties: { a: {} } } }] },
    ],
    [{ tools: [weather], tool_choice: 'auto' }, { tool_choice: { type: 'auto' } }],
    [{ tools: [weather], tool_choice: 'none' }, { tool_choice: { type: 'none' } }],
    [{ tools: [weather], tool_choice: 'required' }, { tool_choice: { type: 'any' } }],
    [
      { tools: [weather], tool_choice: { name: 'get_weather' } },
      { tool_choice: { type: 'tool', name: 'get_weather' } },
    ],
    [{ tool_choice: 'auto' }, { tool_choice: undefined, tools: undefined }],
  ]
  for (const [given, expected, at] of rows) {
    const body = sent(given, at)
    for (const [name, value] of Object.entries(expected)) {
      t.same(body[name], value, `${JSON.stringify(given)} → ${name}`)
    }
  }
})

t.test('messages', async (t) => {
  const image: ChatPart = {
    type: 'image',
    source: { kind: 'base64', media_type: 'image/PNG', base64: 'iVBORw0=' },
    detail: null,
  }
  const linked: ChatPart = {
    type: 'image',
    source: { kind: 'url', url: 'https://example.com/a.jpg' },
    detail: null,
  }
  const body = sent(
    {
      messages: [
        { role: 'system', parts: [say('Be brief.'), say('')] },
        user(say('What is this?'), image, linked),
        user(say('And the weather?')),
        {
          role: 'assistant',
          parts: [],
          tool_calls: [
            { id: 'toolu_1', name: 'get_weather', arguments: '{"city":"Chur"}' },
            { id: 'toolu_2', name: 'now', arguments: ' ' },
          ],
        },
        { role: 'tool', tool_call_id: 'toolu_1', parts: [say('12 °C'), image] },
        { role: 'tool', tool_call_id: 'toolu_2', parts: [say(' ')] },
        user(say('So?')),
        { role: 'system', parts: [say('Answer in German.')] },
        { role: 'assistant', parts: [say('Es sind')], tool_calls: [] },
        { role: 'assistant', parts: [say(' 12 Grad.')], tool_calls: [] },
        { role: 'assistant', parts: [say(''), say('\n\n')], tool_calls: [] },
      ],
    },
    target({ model: 'claude-haiku-4-5-20251001' }),
  )
  t.same(body.system, [
    { type: 'text', text: 'Be brief.' },
    { type: 'text', text: 'Answer in German.' },
  ])
  const picture = { type: 'image', source: { type: 'base64', media_type: 'image/png', data: 'iVBORw0=' } }
  t.same(body.messages, [
    {
      role: 'user',
      content: [
        { type: 'text', text: 'What is this?' },
        picture,
        { type: 'image', source: { type: 'url', url: 'https://example.com/a.jpg' } },
        { type: 'text', text: 'And the weather?' },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'tool_use', id: 'toolu_1', name: 'get_weather', input: { city: 'Chur' } },
        { type: 'tool_use', id: 'toolu_2', name: 'now', input: {} },
      ],
    },
    {
      role: 'user',
      content: [
        { type: 'tool_result', tool_use_id: 'toolu_1', content: [{ type: 'text', text: '12 °C' }, picture] },
        { type: 'tool_result', tool_use_id: 'toolu_2' },
        { type: 'text', text: 'So?' },
      ],
    },
    {
      role: 'assistant',
      content: [
        { type: 'text', text: 'Es sind' },
        { type: 'text', text: ' 12 Grad.' },
      ],
    },
  ])
})

t.test('what the provider has no place for is not sent', async (t) => {
  const audio: ChatPart = { type: 'audio', base64: 'UklGRg==', format: 'wav' }
  const tiff: ChatPart = {
    type: 'image',
    source: { kind: 'base64', media_type: 'image/tiff', base64: 'SUkq' },
    detail: null,
  }
  const badCall = { id: 'a', name: 'b', arguments: '[1]' }
  const opus = target({ model: 'claude-opus-5-5' })
  const rows: [Partial<ChatCall>, Target?][] = [
    [{ messages: [user(audio)] }],
    [{ messages: [user(tiff)] }],
    [{ messages: [{ role: 'system', parts: [tiff] }] }],
    [{ messages: [{ role: 'assistant', parts: [tiff], tool_calls: [] }] }],
    [{ messages: [{ role: 'assistant', parts: [], tool_calls: [badCall] }] }],
    [{ messages: [{ role: 'assistant', parts: [], tool_calls: [{ ...badCall, arguments: '{"a":' }] }] }],
    [{ messages: [{ role: 'system', parts: [say('alone')] }] }],
    [{ messages: [user(say(''))] }],
    [{ messages: [user(say('a')), { role: 'assistant', parts: [say('b')], tool_calls: [] }] }],
    [{ modalities: ['text', 'audio'] }],
    [{ stop: ['END', '\n'] }],
    [{ temperature: 1.2 }, target({ options: OLD })],
    [{ tools: [weather], tool_choice: 'required' }, opus],
    [{ tools: [weather], tool_choice: { name: 'get_weather' } }, opus],
    [{ tools: [weather], tool_choice: 'required' }, target({ model: 'claude-fable-5-1' })],
    [{ tools: [weather], tool_choice: 'required' }, target({ model: 'claude-sonnet-5-5' })],
    [{ tool_choice: 'required' }],
    [{ tool_choice: { name: 'get_weather' } }],
  ]
  for (const [given, at = target()] of rows) {
    for (const step of [chat.start(call(given), at), chat.streamed!.start(call(given), at)]) {
      t.match(step, { kind: 'failed', failure: { kind: 'model', status: null } }, JSON.stringify(given))
    }
  }
  t.equal(chat.start(call({ tools: [weather], tool_choice: 'auto' }), opus).kind, 'send')
  t.equal(chat.start(call({ temperature: 1.2 }), target()).kind, 'send', 'it is left out anyway')
})

t.test('a whole answer', async (t) => {
  const result = done(t, next(await fixture('anthropic/message.json')))
  t.same(result, {
    content: 'Let me look up the weather in Chur.',
    tool_calls: [
      {
        id: 'toolu_01A09q90qw90lq917835lq9',
        name: 'get_weather',
        arguments: '{"city":"Chur","unit":"celsius"}',
      },
      { id: 'toolu_01B', name: 'get_time', arguments: '{}' },
    ],
    finish_reason: 'tool_calls',
    audio: null,
    usage: {
      ...{ input_tokens: 472 + 248 + 1000, output_tokens: 89 },
      ...{ cached_input_tokens: 1000, cache_write_tokens: 248, service_tier: 'standard' },
    },
    warnings: [],
  })
})

t.test('why the model stopped', async (t) => {
  const rows: [unknown, ChatResult['finish_reason']][] = [
    ['end_turn', 'stop'],
    ['stop_sequence', 'stop'],
    ['max_tokens', 'length'],
    ['model_context_window_exceeded', 'length'],
    ['pause_turn', 'length'],
    ['tool_use', 'tool_calls'],
    ['refusal', 'content_filter'],
    ['something_new', null],
    [null, null],
    [{}, null],
  ]
  for (const [reason, expected] of rows) {
    t.equal(done(t, next(message({ stop_reason: reason }))).finish_reason, expected, String(reason))
  }
  const refusal = message({ content: [], stop_reason: 'refusal' })
  t.match(done(t, next(refusal, { response_schema: {} })), { content: '', finish_reason: 'content_filter' })
})

t.test('usage', async (t) => {
  const rows: [unknown, ChatResult['usage']][] = [
    [
      { input_tokens: 3, output_tokens: 2 },
      { input_tokens: 3, output_tokens: 2 },
    ],
    [
      { input_tokens: 3, output_tokens: 2, cache_read_input_tokens: null },
      { input_tokens: 3, output_tokens: 2 },
    ],
    [{ output_tokens: 2 }, { input_tokens: null, output_tokens: 2 }],
    [{ input_tokens: -1, output_tokens: 1.5 }, null],
    [{ input_tokens: '3' }, null],
    [[], null],
    [undefined, null],
  ]
  for (const [usage, expected] of rows) {
    t.same(done(t, next(message({ usage }))).usage, expected, JSON.stringify(usage))
  }
})

t.test('what was left out is told', async (t) => {
  const at = (given: Partial<ChatCall>, options = {}, body = message()) =>
    done(t, next(body, given, target({ options }))).warnings
  t.same(at({ temperature: 0.5, top_p: 0.9 }), [
    'temperature: claude-sonnet-5 does not take it; it was left out',
    'top_p: claude-sonnet-5 does not take it; it was left out',
  ])
  t.same(at({ temperature: 0.5 }, OLD), [])
  t.same(at({ temperature: 0.5, top_p: 0.9 }, OLD), [
    'top_p: claude-sonnet-5 does not take it; it was left out',
  ])
  const full = message({ stop_reason: 'max_tokens' })
  t.same(at({ max_tokens: null }, {}, full), [
    'max_tokens: none was given, and the provider needs one; it was 4096',
  ])
  t.same(at({ max_tokens: 100 }, {}, full), [], 'the caller knows its own limit')
  t.same(at({ max_tokens: null }), [])
  const source = { kind: 'url', url: 'https://example.com/a.jpg' } as const
  t.same(at({ messages: [user({ type: 'image', source, detail: 'high' })] }), [
    'detail: claude-sonnet-5 does not take it; it was left out',
  ])
  t.same(at({ messages: [user({ type: 'image', source, detail: 'auto' })] }), [])
  const strictly = (strict: boolean) => at({ tools: [{ ...WEATHER, strict }] })
  t.same(strictly(true), ['tools: the provider does not take `strict`; it was left out'])
  t.same(strictly(false), [])
})

t.test('answers that are no message, or lack what was required', async (t) => {
  const rows: [unknown, Partial<ChatCall>?][] = [
    ['hello'],
    [''],
    ['{"type":"message","content":['],
    ['[]'],
    [{ content: [] }],
    [{ type: 'message' }],
    [{ type: 'message', content: 'Hi.' }],
    [message(), { tools: [weather], tool_choice: 'required' }],
    [message(), { response_schema: { type: 'object' } }],
  ]
  for (const [body, given] of rows) {
    const step = next(body, given)
    t.match(step, { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify(body))
  }
  const overloaded = { type: 'error', error: { type: 'overloaded_error', message: 'Overloaded' } }
  t.match(next(overloaded), { failure: { kind: 'rate', status: 200 } }, 'an error under a good status')
  const cut = message({ content: [{ type: 'text', text: '{"a":' }], stop_reason: 'max_tokens' })
  t.equal(next(cut, { response_schema: {} }).kind, 'done', 'an answer that was cut says so')
})

t.test('malformed parts of a good answer are passed over', async (t) => {
  const content = [
    null,
    7,
    { type: 'text' },
    { type: 'text', text: 'ok' },
    { type: 'tool_use', id: 'x', input: {} },
    { type: 'tool_use', name: 'now', input: 'x' },
    { type: 'server_tool_use', id: 'y', name: 'web_search', input: {} },
    { type: 'something_new', text: 'no' },
  ]
  t.match(done(t, next(message({ content }))), {
    content: 'ok',
    tool_calls: [{ id: /^call_lk[0-9a-f]{16}$/, name: 'now', arguments: '{}' }],
  })
})

t.test('refusals', async (t) => {
  const error = (type: string, code?: string) => ({
    type: 'error',
    error: { type, message: 'no', ...(code === undefined ? {} : { details: { error_code: code } }) },
    request_id: 'req_011CSHoEeqs5C35K2UUqR7Fy',
  })
  const rows: [number, unknown, string][] = [
    [400, error('invalid_request_error'), 'caller'],
    [400, error('invalid_request_error', 'organization_on_hold'), 'credential'],
    [401, error('authentication_error'), 'credential'],
    [402, error('billing_error'), 'credential'],
    [403, error('permission_error'), 'credential'],
    [404, error('not_found_error'), 'model'],
    [413, error('request_too_large'), 'limit'],
    [429, error('rate_limit_error'), 'rate'],
    [429, error('rate_limit_error', 'ramp_limit_exceeded'), 'rate'],
    [429, error('rate_limit_error', 'enforced_spend_limit_reached'), 'credential'],
    [500, error('api_error'), 'server'],
    [504, error('timeout_error'), 'server'],
    [529, error('overloaded_error'), 'rate'],
    [502, '<html>', 'server'],
  ]
  for (const [status, body, kind] of rows) {
    const expected = { kind, status }
    const step = next(body, {}, target(), status)
    t.match(step, { kind: 'failed', failure: expected }, JSON.stringify(body))
    t.match(chat.streamed!.refused(reply(body, status)), expected)
  }
})

t.test('a completion is a chat of one message', async (t) => {
  const asked = { prompt: 'Once', max_tokens: null, temperature: null, top_p: null, stop: [], seed: null }
  const body = JSON.parse(bytesOf(requestOf(anthropic.complete!.start(asked, target()))).toString())
  t.same(body, {
    model: 'claude-sonnet-5',
    max_tokens: 4096,
    messages: [{ role: 'user', content: [{ type: 'text', text: 'Once' }] }],
  })
  const step = anthropic.complete!.next(null, reply(message()), asked, target())
  t.match(step, { kind: 'done', result: { content: 'Hi.' } })
})

t.test('options of an entry', async (t) => {
  const schema = anthropic.optionsSchema!
  for (const options of [{}, { version: '2023-06-01' }, { version: '2026-10-21', max_tokens: 128_000 }]) {
    t.ok(Value.Check(schema, options), JSON.stringify(options))
  }
  for (const options of [{ version: '2024-01-01' }, { max_tokens: 0 }, { max_tokens: 1.5 }, { other: 1 }]) {
    t.notOk(Value.Check(schema, options), JSON.stringify(options))
  }
})
