import t from 'tap'
import type { ChatCall, ChatMessage, ChatResult } from '../../../../src/contracts/chat.ts'
import type { Step } from '../../../../src/contracts/provider.ts'
import type { Failure } from '../../../../src/contracts/upstream.ts'
import { gemini } from '../../../../src/gateway/providers/gemini/provider.ts'
import { chatCall } from '../../../support/call.ts'
import { bytesOf, requestOf } from '../../../support/form-of.ts'
import { fixture, reply } from '../../../support/replies.ts'
import { done } from '../step-result.ts'

const BASE = 'https://generativelanguage.googleapis.com/v1beta'
const TARGET = { model: 'gemini-3.8-flash', baseUrl: BASE, credential: 'AIza-secret', options: {} }
const SKIP = 'skip_thought_signature_validator'

const text = (words: string) => ({ type: 'text', text: words }) as const
const user = (...words: string[]): ChatMessage => ({ role: 'user', parts: words.map(text) })
const system = (words: string): ChatMessage => ({ role: 'system', parts: [text(words)] })
const answered = (id: string, output: string): ChatMessage => ({
  role: 'tool',
  tool_call_id: id,
  parts: [text(output)],
})
const called = (words: string, ...calls: [id: string, name: string, given: string][]): ChatMessage => ({
  role: 'assistant',
  parts: words === '' ? [] : [text(words)],
  tool_calls: calls.map(([id, name, given]) => ({ id, name, arguments: given })),
})

function sent(overrides: Partial<ChatCall>): Record<string, unknown> {
  return JSON.parse(bytesOf(requestOf(gemini.chat!.start(chatCall(overrides), TARGET))).toString())
}

function next(body: unknown, overrides: Partial<ChatCall> = {}, status = 200): Step<ChatResult> {
  return gemini.chat!.next(null, reply(body, status), chatCall(overrides), TARGET)
}

t.test('the request', async (t) => {
  const request = requestOf(gemini.chat!.start(chatCall(), TARGET))
  t.equal(request.method, 'POST')
  t.equal(request.url, `${BASE}/models/gemini-3.8-flash:generateContent`)
  t.same(request.headers, { 'x-goog-api-key': 'AIza-secret', 'content-type': 'application/json' })
  t.same(sent({}), { contents: [{ role: 'user', parts: [{ text: 'Hello' }] }] }, 'nothing but what was asked')
  const streamed = requestOf(gemini.chat!.streamed!.start(chatCall(), TARGET))
  t.equal(streamed.url, `${BASE}/models/gemini-3.8-flash:streamGenerateContent?alt=sse`)
  t.same(bytesOf(streamed), bytesOf(request))
  const odd = gemini.chat!.start(chatCall(), { ...TARGET, model: 'a/b?c', credential: null })
  t.equal(requestOf(odd).url, `${BASE}/models/a%2Fb%3Fc:generateContent`)
  t.notOk('x-goog-api-key' in requestOf(odd).headers)
})

t.test('sampling and the form of the answer', async (t) => {
  const { generationConfig } = sent({
    temperature: 0,
    top_p: 0.5,
    max_tokens: 7,
    stop: ['a', 'b', 'c', 'd', 'e'],
    seed: -3,
    response_schema: { type: 'object', additionalProperties: false },
  })
  t.same(generationConfig, {
    temperature: 0,
    topP: 0.5,
    maxOutputTokens: 7,
    stopSequences: ['a', 'b', 'c', 'd', 'e'],
    seed: -3,
    responseMimeType: 'application/json',
    responseJsonSchema: { type: 'object', additionalProperties: false },
  })
  t.equal(gemini.chat!.takesSeed, true)
  t.equal(gemini.complete!.takesSeed, true)
})

t.test('tools', async (t) => {
  const parameters = { type: 'object', properties: { city: { type: 'string' } } }
  const tools = [
    { name: 'get_weather', description: 'of a city', parameters },
    { name: 'get_time', description: null, parameters: null },
  ]
  const functionDeclarations = [
    { name: 'get_weather', description: 'of a city', parametersJsonSchema: parameters },
    { name: 'get_time' },
  ]
  const rows: [ChatCall['tool_choice'], unknown][] = [
    [null, undefined],
    ['auto', { mode: 'AUTO' }],
    ['none', { mode: 'NONE' }],
    ['required', { mode: 'ANY' }],
    [{ name: 'get_time' }, { mode: 'ANY', allowedFunctionNames: ['get_time'] }],
  ]
  for (const [choice, expected] of rows) {
    const body = sent({ tools, tool_choice: choice })
    t.same(body.tools, [{ functionDeclarations }])
    const config = body.toolConfig as { functionCallingConfig?: unknown } | undefined
    t.same(config?.functionCallingConfig, expected, JSON.stringify(choice))
  }
  t.notOk('toolConfig' in sent({ tool_choice: 'none' }), 'without tools there is nothing to configure')
})

t.test('messages', async (t) => {
  const body = sent({
    messages: [
      system('Be brief.'),
      user('What is', ' the weather?'),
      called('Let me see.', ['a1', 'get_weather', '{"city":"Köln"}'], ['a2', 'get_time', '']),
      answered('a2', '12:00'),
      answered('a1', '{"sky":"grey"}'),
      user('', 'And tomorrow?'),
      user('Quick!'),
      called('', ['call_2', 'get_weather', '{}']),
      system('Be kind.'),
      answered('call_2', ''),
    ],
  })
  t.same(body.systemInstruction, { parts: [{ text: 'Be brief.' }, { text: 'Be kind.' }] })
  t.same(body.contents, [
    { role: 'user', parts: [{ text: 'What is' }, { text: ' the weather?' }] },
    {
      role: 'model',
      parts: [
        { text: 'Let me see.' },
        { functionCall: { id: 'a1', name: 'get_weather', args: { city: 'Köln' } }, thoughtSignature: SKIP },
        { functionCall: { id: 'a2', name: 'get_time', args: {} } },
      ],
    },
    {
      role: 'user',
      parts: [
        { functionResponse: { id: 'a2', name: 'get_time', response: { output: '12:00' } } },
        { functionResponse: { id: 'a1', name: 'get_weather', response: { output: '{"sky":"grey"}' } } },
      ],
    },
    { role: 'user', parts: [{ text: 'And tomorrow?' }, { text: 'Quick!' }] },
    { role: 'model', parts: [{ functionCall: { name: 'get_weather', args: {} }, thoughtSignature: SKIP }] },
    { role: 'user', parts: [{ functionResponse: { name: 'get_weather', response: { output: '' } } }] },
  ])
  const repeated = sent({
    messages: [
      called('', ['call_0', 'first', '{}']),
      answered('call_0', '1'),
      called('', ['call_0', 'second', '{}']),
      answered('call_0', '2'),
    ],
  }).contents as { parts: { functionResponse?: { name: string } }[] }[]
  const names = repeated.flatMap(({ parts }) => parts.flatMap((part) => part.functionResponse?.name ?? []))
  t.same(names, ['first', 'second'], 'an id that came twice means the call before')
})

t.test('pictures and audio', async (t) => {
  const image = (url: string, detail: 'low' | 'auto' | null = null) =>
    ({ type: 'image', source: { kind: 'url', url }, detail }) as const
  const inline = { kind: 'base64', media_type: 'image/webp', base64: 'UklGRg==' } as const
  const body = sent({
    messages: [
      {
        role: 'user',
        parts: [
          { type: 'image', source: inline, detail: null },
          image('https://example.com/a.JPG?x=.png'),
          image('https://example.com/photo-12'),
          { type: 'audio', base64: 'SUQz', format: 'mp3' },
          { type: 'audio', base64: 'UklG', format: 'wav' },
        ],
      },
    ],
  })
  t.same(body.contents, [
    {
      role: 'user',
      parts: [
        { inlineData: { mimeType: 'image/webp', data: 'UklGRg==' } },
        { fileData: { mimeType: 'image/jpeg', fileUri: 'https://example.com/a.JPG?x=.png' } },
        { fileData: { fileUri: 'https://example.com/photo-12' } },
        { inlineData: { mimeType: 'audio/mp3', data: 'SUQz' } },
        { inlineData: { mimeType: 'audio/wav', data: 'UklG' } },
      ],
    },
  ])
  const asked = { messages: [{ role: 'user', parts: [image('https://a/b.png', 'low')] }] } as const
  t.match(done(next(await fixture('gemini/chat.json'), asked)).warnings, [/detail/])
  const auto = { messages: [{ role: 'user', parts: [image('https://a/b.png', 'auto')] }] } as const
  t.same(done(next(await fixture('gemini/chat.json'), auto)).warnings, [])
  const strictly = { tools: [{ name: 'now', description: null, parameters: null, strict: true }] }
  t.match(done(next(await fixture('gemini/chat.json'), strictly)).warnings, [/^tools: .* `strict`/])
})

t.test('what cannot be sent is refused', async (t) => {
  const picture = { type: 'image', source: { kind: 'url', url: 'https://a/b' }, detail: null } as const
  const plain = { ...picture, source: { kind: 'url', url: 'http://a/b.png' } } as const
  const file = 'https://generativelanguage.googleapis.com/v1beta/files/abc-123'
  const dotted = { ...picture, source: { kind: 'url', url: file.replace('.com', '.com.') } } as const
  const foreign = { ...picture, source: { kind: 'url', url: file } } as const
  const nonsense = { ...picture, source: { kind: 'url', url: 'b.png' } } as const
  const rows: [Partial<ChatCall>, RegExp][] = [
    [{ stop: ['1', '2', '3', '4', '5', '6'] }, /^stop/],
    [{ seed: 2 ** 31 }, /^seed/],
    [{ modalities: ['text', 'audio'] }, /^modalities/],
    [{ tool_choice: 'required' }, /^tool_choice/],
    [{ tool_choice: { name: 'x' } }, /^tool_choice/],
    [{ messages: [system('only')] }, /^messages/],
    [{ messages: [user('')] }, /^messages/],
    [{ messages: [{ role: 'system', parts: [picture] }, user('x')] }, /system message/],
    [{ messages: [{ role: 'assistant', parts: [picture], tool_calls: [] }] }, /assistant message/],
    [{ messages: [{ role: 'user', parts: [plain] }] }, /https/],
    [{ messages: [{ role: 'user', parts: [dotted] }] }, /public/],
    [{ messages: [{ role: 'user', parts: [foreign] }] }, /public/],
    [{ messages: [{ role: 'user', parts: [nonsense] }] }, /https/],
    [{ messages: [user('x'), answered('a1', 'y')] }, /must answer an earlier tool call$/],
    [{ messages: [answered('a1', 'y'), called('', ['a1', 'f', '{}'])] }, /must answer an earlier tool call$/],
    [{ messages: [called('', ['a1', 'f', '{"cut'])] }, /arguments/],
    [{ messages: [called('', ['a1', 'f', '[1]'])] }, /arguments/],
  ]
  for (const [overrides, reason] of rows) {
    for (const step of [
      gemini.chat!.start(chatCall(overrides), TARGET),
      gemini.chat!.streamed!.start(chatCall(overrides), TARGET),
    ]) {
      const expected = { kind: 'failed', failure: { kind: 'model', status: null, reason } }
      t.match(step, expected, JSON.stringify(overrides))
    }
  }
})

t.test('the answer', async (t) => {
  t.same(done(next(await fixture('gemini/chat.json'))), {
    content: 'Hello! How can I help?',
    tool_calls: [],
    finish_reason: 'stop',
    audio: null,
    usage: { input_tokens: 4, output_tokens: 51, audio_input_tokens: 0 },
    warnings: [],
  })
  const before = { messages: [user('x'), called('', ['a', 'f', '{}'], ['b', 'f', '{}']), answered('a', '')] }
  t.match(done(next(await fixture('gemini/chat.tools.json'), before)), {
    content: '',
    finish_reason: 'tool_calls',
    tool_calls: [
      { id: '5lz3kq1m', name: 'get_weather', arguments: '{"city":"Köln","days":2}' },
      { id: /^call_lk[0-9a-f]{16}$/, name: 'get_time', arguments: '{}' },
    ],
  })
})

t.test('why it ended', async (t) => {
  const ended = (finishReason: string, said = 'half') => ({
    candidates: [{ content: { parts: said === '' ? [] : [{ text: said }] }, finishReason }],
  })
  const content = ['SAFETY', 'RECITATION', 'PROHIBITED_CONTENT', 'BLOCKLIST', 'SPII']
  t.match(done(next(ended('MAX_TOKENS'))), { content: 'half', finish_reason: 'length', usage: null })
  t.match(done(next(ended('MAX_TOKENS', ''))), { content: '', finish_reason: 'length' })
  t.match(done(next(ended('STOP', ''))), { content: '', finish_reason: 'stop' })
  t.match(done(next(ended('LANGUAGE'))), { content: 'half', finish_reason: null })
  for (const reason of content) {
    t.match(done(next(ended(reason))), { content: 'half', finish_reason: 'content_filter' }, reason)
    const withheld = { kind: 'failed', failure: { kind: 'content', status: 200, providerMessage: reason } }
    t.match(next(ended(reason, '')), withheld, `${reason} without a word`)
  }
  t.match(next({ promptFeedback: { blockReason: 'PROHIBITED_CONTENT' } }), {
    kind: 'failed',
    failure: { kind: 'content', reason: 'the provider blocked the prompt' },
  })
  for (const reason of ['OTHER', 'MALFORMED_FUNCTION_CALL', 'NEWER_THAN_US']) {
    t.match(next(ended(reason, '')), { kind: 'failed', failure: { kind: 'server' } }, reason)
  }
})

t.test('what was required must have come', async (t) => {
  const tools = [{ name: 'f', description: null, parameters: null }]
  const hello = await fixture('gemini/chat.json')
  for (const overrides of [
    { tools, tool_choice: 'required' },
    { tools, tool_choice: { name: 'f' } },
    { response_schema: { type: 'object' } },
  ] as const) {
    const step = next(hello, overrides)
    t.match(step, { kind: 'failed', failure: { kind: 'server' } }, JSON.stringify(overrides))
  }
})

t.test('hostile answers', async (t) => {
  const parts = [null, 7, { text: 5 }, { functionCall: {} }, { functionCall: { name: 'f', args: [1] } }]
  const odd = {
    candidates: [{ content: { parts }, finishReason: 'STOP' }],
    usageMetadata: { promptTokenCount: -1 },
  }
  t.match(done(next(odd)), {
    content: '',
    tool_calls: [{ id: /^call_lk[0-9a-f]{16}$/, name: 'f', arguments: '{}' }],
    usage: { input_tokens: 0, output_tokens: 0 },
  })
  const secret = {
    candidates: [{ finishReason: 'a prose of the provider', content: { parts: [{ text: 'x' }] } }],
  }
  t.match(done(next(secret)), { finish_reason: null })
  const prose = next({ promptFeedback: { blockReason: 'a prose of the provider' } })
  t.match(prose, { kind: 'failed', failure: { kind: 'server', providerMessage: null } })
  for (const body of [
    '',
    '[]',
    '{"candidates"',
    {},
    { candidates: [] },
    { candidates: 'x' },
    { candidates: [{}] },
  ]) {
    t.match(next(body), { kind: 'failed', failure: { kind: 'server', status: 200 } }, JSON.stringify(body))
  }
})

t.test('refusals', async (t) => {
  const rows: [string, number, Partial<Failure>][] = [
    ['error.rate', 429, { kind: 'rate', retryAfterMs: 30_000 }],
    ['error.key', 400, { kind: 'credential' }],
    ['error.model', 404, { kind: 'model' }],
    ['error.argument', 400, { kind: 'caller' }],
  ]
  for (const [name, status, expected] of rows) {
    const body = await fixture(`gemini/${name}.json`)
    t.match(next(body, {}, status), { kind: 'failed', failure: { status, ...expected } }, name)
    t.match(gemini.chat!.streamed!.refused(reply(body, status)), { status, ...expected }, name)
  }
})

t.test('a text completion is a chat of one message', async (t) => {
  const { max_tokens, temperature, top_p, stop, seed } = chatCall({ max_tokens: 3 })
  const call = { prompt: 'Once upon', max_tokens, temperature, top_p, stop, seed }
  t.same(JSON.parse(bytesOf(requestOf(gemini.complete!.start(call, TARGET))).toString()), {
    contents: [{ role: 'user', parts: [{ text: 'Once upon' }] }],
    generationConfig: { maxOutputTokens: 3 },
  })
  const answer = reply(await fixture('gemini/chat.json'))
  t.match(gemini.complete!.next(null, answer, call, TARGET), { result: { content: /^Hello/ } })
})
