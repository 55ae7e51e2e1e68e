import t, { type Test } from 'tap'
import type { ChatCall, ChatMessage, ChatResult } from '../../../../src/contracts/chat.ts'
import type { JsonObject } from '../../../../src/contracts/json.ts'
import type { Provider, Step, Target } from '../../../../src/contracts/provider.ts'
import { groq } from '../../../../src/gateway/providers/groq.ts'
import { openai } from '../../../../src/gateway/providers/openai/provider.ts'
import { openaiCompatible } from '../../../../src/gateway/providers/openai-compatible.ts'
import { chatCall, say, user, WEATHER } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'

function target(model = 'gpt-4.1', overrides: Partial<Target> = {}): Target {
  return { model, baseUrl: 'https://api.openai.com/v1', credential: 'sk-secret', options: {}, ...overrides }
}

function sent(overrides: Partial<ChatCall>, provider: Provider = openai, at = target()): JsonObject {
  return JSON.parse(bytesOf(requestOf(provider.chat!.start(chatCall(overrides), at))).toString())
}

function next(body: unknown, overrides: Partial<ChatCall> = {}, at = target()): Step<ChatResult> {
  return openai.chat!.next(null, reply(body), chatCall(overrides), at)
}

function done(t: Test, step: Step<ChatResult>): ChatResult {
  if (step.kind === 'done') return step.result
  t.fail(`no result: ${JSON.stringify(step)}`)
  throw new Error('no result')
}

/** A completion with this message. */
function completion(message: JsonObject, finishReason: string | null = 'stop'): JsonObject {
  return { choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finishReason }] }
}

t.test('the request', async (t) => {
  const request = requestOf(openai.chat!.start(chatCall(), target()))
  t.equal(request.method, 'POST')
  t.equal(request.url, 'https://api.openai.com/v1/chat/completions')
  t.match(request.headers, { authorization: 'Bearer sk-secret', 'content-type': 'application/json' })
  t.same(
    sent({}),
    { model: 'gpt-4.1', messages: [{ role: 'user', content: 'Hello' }] },
    'nothing unasked for',
  )
  const open = openaiCompatible.chat!.start(
    chatCall(),
    target('m', { credential: null, baseUrl: 'http://v/v1' }),
  )
  t.equal(requestOf(open).url, 'http://v/v1/chat/completions')
  t.notOk('authorization' in requestOf(open).headers)
})

t.test('sampling, each server in its own words', async (t) => {
  const all = { max_tokens: 5, temperature: 0, top_p: 0.5, stop: ['a', 'b'], seed: 7 }
  const rest = { temperature: 0, top_p: 0.5, stop: ['a', 'b'], seed: 7 }
  const rows: [Provider, JsonObject][] = [
    [openai, { max_completion_tokens: 5, ...rest }],
    [groq, { max_completion_tokens: 5, ...rest }],
    [openaiCompatible, { max_tokens: 5, ...rest }],
  ]
  for (const [provider, expected] of rows) {
    const { model: _model, messages: _messages, ...body } = sent(all, provider)
    t.same(body, expected, provider.kind)
  }
})

t.test('a reasoning model gets no temperature but its own, and the answer says so', async (t) => {
  const given = { temperature: 0.2, top_p: 0.9 }
  const body = await fixture('openai/chat.json')
  for (const model of ['gpt-6-sol', 'gpt-5.6-luna', 'gpt-5', 'o3', 'o4-mini']) {
    t.notMatch(sent(given, openai, target(model)), { temperature: Number })
    t.same(done(t, next(body, given, target(model))).warnings, [
      `temperature: ${model} does not take it; it was left out`,
      `top_p: ${model} does not take it; it was left out`,
    ])
  }
  for (const model of ['gpt-4.1', 'gpt-4o-mini', 'gpt-5-chat-latest', 'gpt-5.2-chat-latest']) {
    t.match(sent(given, openai, target(model)), given, model)
    t.same(done(t, next(body, given, target(model))).warnings, [])
  }
  t.match(sent({ temperature: 1 }, openai, target('gpt-6-sol')), { temperature: 1 })
  t.match(
    sent(given, openaiCompatible, target('gpt-6-sol')),
    given,
    'what another server serves is not known',
  )
})

t.test('messages', async (t) => {
  const picture = { kind: 'base64', media_type: 'image/png', base64: 'aGk=' } as const
  const call = { id: 'call_1', name: 'get_weather', arguments: '{"city":"Bern"}' }
  const wireCall = {
    id: 'call_1',
    type: 'function',
    function: { name: 'get_weather', arguments: '{"city":"Bern"}' },
  }
  const rows: [ChatMessage, JsonObject][] = [
    [
      { role: 'system', parts: [say('Be brief.')] },
      { role: 'system', content: 'Be brief.' },
    ],
    [user(), { role: 'user', content: '' }],
    [
      user(say('a'), say('b')),
      {
        role: 'user',
        content: [
          { type: 'text', text: 'a' },
          { type: 'text', text: 'b' },
        ],
      },
    ],
    [
      user(say('What?'), { type: 'image', source: picture, detail: 'low' }),
      {
        role: 'user',
        content: [
          { type: 'text', text: 'What?' },
          { type: 'image_url', image_url: { url: 'data:image/png;base64,aGk=', detail: 'low' } },
        ],
      },
    ],
    [
      user({ type: 'image', source: { kind: 'url', url: 'https://example.com/a.png' }, detail: null }),
      { role: 'user', content: [{ type: 'image_url', image_url: { url: 'https://example.com/a.png' } }] },
    ],
    [
      user({ type: 'audio', base64: 'UklG', format: 'wav' }),
      { role: 'user', content: [{ type: 'input_audio', input_audio: { data: 'UklG', format: 'wav' } }] },
    ],
    [
      { role: 'assistant', parts: [], tool_calls: [call] },
      { role: 'assistant', content: null, tool_calls: [wireCall] },
    ],
    [
      { role: 'assistant', parts: [say('Let me see.')], tool_calls: [call] },
      { role: 'assistant', content: 'Let me see.', tool_calls: [wireCall] },
    ],
    [
      { role: 'assistant', parts: [say('Hi.')], tool_calls: [] },
      { role: 'assistant', content: 'Hi.' },
    ],
    [
      { role: 'tool', tool_call_id: 'call_1', parts: [say('4 °C')] },
      { role: 'tool', tool_call_id: 'call_1', content: '4 °C' },
    ],
  ]
  for (const [message, expected] of rows) t.same(sent({ messages: [message] }).messages, [expected])
})

t.test('a schema is strict as the caller says, else where it can be', (t) => {
  const closed = (properties: JsonObject, more: JsonObject = {}) => ({
    type: 'object',
    properties,
    required: Object.keys(properties),
    additionalProperties: false,
    ...more,
  })
  const text = { type: 'string' }
  let deep: JsonObject = text
  for (let level = 0; level < 500; level += 1) deep = { type: 'array', items: deep }
  const rows: [schema: JsonObject, strict: boolean][] = [
    [closed({ city: text }), true],
    [closed({ cities: { type: 'array', items: closed({ city: text }) } }), true],
    [closed({ city: { anyOf: [text, { type: 'null' }] } }, { $defs: { place: closed({}) } }), true],
    [closed({ city: text }, { required: [] }), false],
    [closed({ city: text }, { additionalProperties: true }), false],
    [{ type: 'object', properties: { city: text } }, false],
    [closed({ cities: { type: 'array', items: { type: 'object', properties: { a: text } } } }), false],
    [closed({ city: { allOf: [text] } }), false],
    [closed({}, { $defs: { place: { type: 'object', properties: {} } } }), false],
    [closed({ city: 7 }), false],
    [closed({ deep }), false],
  ]
  const strictIn = (call: Partial<ChatCall>) => {
    const { response_format: format } = sent(call) as {
      response_format?: { json_schema: { strict: boolean } }
    }
    return format?.json_schema.strict
  }
  for (const [schema, strict] of rows) {
    const name = JSON.stringify(schema).slice(0, 200)
    t.equal(strictIn({ response_schema: schema }), strict, name)
    for (const asked of [true, false])
      t.equal(strictIn({ response_schema: schema, response_strict: asked }), asked, name)
  }
  t.end()
})

t.test('stop sequences are not sent to models that take none', (t) => {
  const startAt = (model: string) => openai.chat!.start(chatCall({ stop: ['x'] }), target(model))
  for (const model of [
    ...['o3', 'o4-mini', 'o3-2025-04-16', 'gpt-5', 'gpt-5.6-luna', 'gpt-6-luna', 'gpt-6.1-sol'],
  ])
    t.match(
      startAt(model),
      { kind: 'failed', failure: { kind: 'model', rejection: { param: 'stop' } } },
      model,
    )
  for (const model of ['gpt-5-chat-latest', 'gpt-4o']) t.equal(startAt(model).kind, 'send', model)
  t.end()
})

t.test('tools, a schema and speech', async (t) => {
  const wireTool = { type: 'function', function: WEATHER }
  const bare = { name: 'now', description: null, parameters: null }
  const rows: [Partial<ChatCall>, JsonObject][] = [
    [{ tools: [WEATHER] }, { tools: [wireTool] }],
    ...[true, false].map((strict): [Partial<ChatCall>, JsonObject] => [
      { tools: [{ ...WEATHER, strict }] },
      { tools: [{ type: 'function', function: { ...WEATHER, strict } }] },
    ]),
    [{ tools: [bare] }, { tools: [{ type: 'function', function: { name: 'now' } }] }],
    [
      { tools: [WEATHER], tool_choice: 'auto' },
      { tools: [wireTool], tool_choice: 'auto' },
    ],
    [
      { tools: [WEATHER], tool_choice: 'required' },
      { tools: [wireTool], tool_choice: 'required' },
    ],
    [
      { tools: [WEATHER], tool_choice: { name: 'get_weather' } },
      { tools: [wireTool], tool_choice: { type: 'function', function: { name: 'get_weather' } } },
    ],
    [{ tool_choice: 'none' }, {}],
    [
      { response_schema: { title: 'city_v2', type: 'object' } },
      {
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'city_v2', schema: { title: 'city_v2', type: 'object' }, strict: false },
        },
      },
    ],
    // A strict schema would have to rule out other members, and so every member.
    [{ response_schema: { type: 'object' } }, { response_format: { type: 'json_object' } }],
    [{ modalities: ['audio'] }, { modalities: ['text', 'audio'], audio: { voice: 'alloy', format: 'wav' } }],
    [
      { modalities: ['text', 'audio'], audio: { voice: 'nova', format: 'pcm' } },
      { modalities: ['text', 'audio'], audio: { voice: 'nova', format: 'pcm16' } },
    ],
    [{ modalities: ['text'], audio: { voice: 'nova', format: 'mp3' } }, {}],
  ]
  for (const [call, expected] of rows) {
    const { model: _model, messages: _messages, ...body } = sent(call)
    t.same(body, expected, JSON.stringify(call))
  }
  const unsafe = sent({ response_schema: { title: 'a b', type: 'object' } })
  t.match(unsafe, { response_format: { json_schema: { name: 'answer' } } }, 'no name that OpenAI refuses')
})

t.test('what cannot be sent is refused', async (t) => {
  const image = { type: 'image', source: { kind: 'url', url: 'https://e.com/a.png' }, detail: null } as const
  const rows: [Partial<ChatCall>, RegExp][] = [
    [{ stop: ['a', 'b', 'c', 'd', 'e'] }, /^stop:/],
    [{ tool_choice: 'required' }, /^tool_choice:/],
    [{ tool_choice: { name: 'f' } }, /^tool_choice:/],
    [{ modalities: ['audio'], audio: { voice: null, format: 'ulaw' } }, /^audio\.format:/],
    [{ messages: [{ role: 'system', parts: [image] }] }, /^messages:/],
    [{ messages: [{ role: 'tool', tool_call_id: 'c', parts: [image] }] }, /^messages:/],
  ]
  for (const [call, reason] of rows) {
    const step = openai.chat!.start(chatCall(call), target())
    t.match(step, { kind: 'failed', failure: { kind: 'model', status: null, reason } }, JSON.stringify(call))
  }
  const speaking = groq.chat!.start(chatCall({ modalities: ['audio'] }), target('openai/gpt-oss-20b'))
  t.match(speaking, { kind: 'failed', failure: { kind: 'model', reason: /does not speak/ } })
  const many = { stop: ['a', 'b', 'c', 'd', 'e'] }
  t.match(sent(many, openaiCompatible), many, 'another server may take more')
})

t.test('an answer in words', async (t) => {
  t.same(done(t, next(await fixture('openai/chat.json'))), {
    content: 'Hello! How can I assist you today?',
    tool_calls: [],
    finish_reason: 'stop',
    audio: null,
    usage: {
      ...{ input_tokens: 19, output_tokens: 10, cached_input_tokens: 0 },
      ...{ audio_input_tokens: 0, audio_output_tokens: 0, service_tier: 'default' },
    },
    facts: {
      ...{ system_fingerprint: 'fp_6b68a8204b', service_tier: 'default' },
      prompt_tokens_details: { cached_tokens: 0, audio_tokens: 0 },
      completion_tokens_details: {
        ...{ reasoning_tokens: 0, audio_tokens: 0 },
        ...{ accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 },
      },
    },
    warnings: [],
  })
})

t.test('tool calls', async (t) => {
  const result = done(t, next(await fixture('openai/chat.tool_calls.json'), { tools: [WEATHER] }))
  t.same(result.tool_calls, [
    { id: 'call_abc123', name: 'get_weather', arguments: '{"city":"Bern"}' },
    { id: 'call_def456', name: 'get_weather', arguments: '{"city":"Genève"}' },
  ])
  t.match(result, { content: '', finish_reason: 'tool_calls' })
  const forced = completion({ content: null, tool_calls: [{ function: { name: 'f', arguments: { a: 1 } } }] })
  t.match(done(t, next(forced, { tools: [WEATHER], tool_choice: 'required' })), {
    tool_calls: [{ id: /^call_lk[0-9a-f]{16}$/, name: 'f', arguments: '{"a":1}' }],
    finish_reason: 'tool_calls',
  })
})

t.test('a spoken answer', async (t) => {
  const body = await fixture('openai/chat.audio.json')
  t.match(done(t, next(body, { modalities: ['audio'] })), {
    content: 'Yes, golden retrievers are loyal.',
    audio: { base64: 'UklGRgAAAABXQVZF', media_type: 'audio/wav' },
    usage: { input_tokens: 20, output_tokens: 180 },
  })
  const mp3 = { modalities: ['audio'], audio: { voice: null, format: 'mp3' } } as const
  t.match(done(t, next(body, mp3)), { audio: { media_type: 'audio/mpeg' } })
})

t.test('a model that takes no chat without audio speaks, and nobody hears it who did not ask', async (t) => {
  for (const model of ['gpt-audio', 'gpt-audio-mini-2025-12-15', 'gpt-4o-mini-audio-preview']) {
    const body = sent({ audio: { voice: 'nova', format: 'mp3' } }, openai, target(model))
    t.match(body, { modalities: ['text', 'audio'], audio: { voice: 'nova', format: 'wav' } }, model)
    t.match(done(t, next(await fixture('openai/chat.audio.json'), {}, target(model))), {
      content: 'Yes, golden retrievers are loyal.',
      audio: null,
      warnings: [`modalities: ${model} always speaks; its speech was left out, though it is charged`],
    })
  }
  const heard = { messages: [user({ type: 'audio', base64: 'UklG', format: 'mp3' })] } as const
  t.notOk('modalities' in sent(heard, openai, target('gpt-audio')), 'what it hears is audio enough')
  t.notOk('modalities' in sent({}, openaiCompatible, target('gpt-audio')))
})

t.test('endings', async (t) => {
  const rows: [JsonObject, Partial<ChatResult>][] = [
    [completion({ content: 'x' }, 'length'), { content: 'x', finish_reason: 'length' }],
    [completion({ content: '' }, 'content_filter'), { content: '', finish_reason: 'content_filter' }],
    [
      completion({ content: null, refusal: 'I cannot help with that.' }),
      { content: 'I cannot help with that.', finish_reason: 'content_filter' },
    ],
    [completion({ content: 'x' }, 'eos'), { finish_reason: null }],
    [completion({ content: 'x' }, null), { finish_reason: null, usage: null }],
    [completion({ content: [{ type: 'text', text: 'a' }, { text: 'b' }] }), { content: 'ab' }],
  ]
  for (const [body, expected] of rows) t.match(done(t, next(body)), expected, JSON.stringify(body))
})

t.test('what was required and did not come is a failure', async (t) => {
  const schema = { type: 'object' }
  const rows: [JsonObject, Partial<ChatCall>, RegExp][] = [
    [completion({ content: 'Sure!' }), { tools: [WEATHER], tool_choice: 'required' }, /tool call/],
    [completion({ content: 'Sure!' }), { tools: [WEATHER], tool_choice: { name: 'f' } }, /tool call/],
    [completion({ content: 'Sure!' }), { modalities: ['audio'] }, /audio/],
    [completion({ content: 'Sure!' }), { response_schema: schema }, /JSON/],
    [{ choices: [] }, {}, /no chat completion/],
    [{ choices: [{ finish_reason: 'stop' }] }, {}, /no chat completion/],
  ]
  for (const [body, call, reason] of rows) {
    t.match(next(body, call), { kind: 'failed', failure: { kind: 'server', status: 200, reason } })
  }
  const cut = completion({ content: '{"a":' }, 'length')
  t.match(done(t, next(cut, { response_schema: schema })), { content: '{"a":', finish_reason: 'length' })
  const declined = completion({ content: null, refusal: 'No.' })
  t.match(done(t, next(declined, { response_schema: schema })), { content: 'No.' })
  t.match(done(t, next(completion({ content: '{"a":1}' }), { response_schema: schema })), {
    content: '{"a":1}',
  })
})

t.test('failures, with their status or inside a good answer', async (t) => {
  const rows: [unknown, number, JsonObject][] = [
    [
      { error: { message: 'no', type: 'invalid_request_error', param: 'messages' } },
      400,
      { kind: 'caller', status: 400 },
    ],
    [{ error: { message: 'no', code: 'model_not_found' } }, 404, { kind: 'model' }],
    [{ error: { message: 'no', code: 'insufficient_quota' } }, 429, { kind: 'credential' }],
    [{ error: { message: 'Rate limited', code: 429 } }, 200, { kind: 'rate', status: 200 }],
    [{ error: { message: 'no', code: 'content_filter' } }, 200, { kind: 'content', status: 200 }],
    [{ error: { message: 'Provider returned error', code: 502 } }, 200, { kind: 'server', status: 200 }],
    [{ error: 'boom' }, 200, { kind: 'server', providerMessage: 'boom' }],
    ['<html>', 200, { kind: 'server' }],
  ]
  for (const [body, status, failure] of rows) {
    const step = openai.chat!.next(null, reply(body, status), chatCall(), target())
    t.match(step, { kind: 'failed', failure }, JSON.stringify(body))
  }
  for (const error of [null, '', false]) {
    t.match(next({ ...completion({ content: 'x' }), error }), { kind: 'done' }, 'no error')
  }
})

t.test('a seed is taken', async (t) => {
  for (const provider of [openai, groq, openaiCompatible]) {
    t.equal(provider.chat!.takesSeed, true)
    t.equal(provider.complete!.takesSeed, true)
  }
})
