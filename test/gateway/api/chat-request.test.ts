import t from 'tap'
import { GatewayError } from '../../../src/contracts/errors.ts'
import { jsonRequest } from '../../../src/gateway/api/json-request.ts'
import { ChatBody, readChat } from '../../../src/gateway/api/native/chat-request.ts'

const request = jsonRequest('chat', ChatBody, readChat)
const HELLO = [{ role: 'user', content: 'hello' }]
const PNG = 'data:image/png;base64,iVBORw0KGgo='

const read = (body: unknown) => request.read(body, { headers: {} })

/** The call that a body with these fields becomes. */
const callOf = (fields: object) => read({ messages: HELLO, ...fields }).payload
const messagesOf = (messages: unknown) => read({ messages }).payload.messages

t.test('a chat of one line, and nothing else said', async (t) => {
  t.same(read({ messages: HELLO }), {
    operation: 'chat',
    payload: {
      messages: [{ role: 'user', parts: [{ type: 'text', text: 'hello' }] }],
      max_tokens: null,
      temperature: null,
      top_p: null,
      stop: [],
      seed: null,
      tools: [],
      tool_choice: null,
      modalities: ['text'],
      audio: null,
      response_schema: null,
    },
    selectors: { purpose: null, responseProfile: null },
    warnings: [],
  })
})

t.test('messages of every role, in strings and in parts', async (t) => {
  const text = (text: string) => ({ type: 'text', text })
  const call = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }
  t.same(
    messagesOf([
      { role: 'system', content: 'be brief' },
      { role: 'developer', content: [text('be'), text('kind')] },
      {
        role: 'user',
        content: [
          text('what is it'),
          { type: 'image_url', image_url: { url: PNG, detail: 'low' } },
          { type: 'image_url', image_url: { url: 'https://example.com/a b.jpg' } },
          { type: 'input_audio', input_audio: { data: 'UklGRg==', format: 'wav' } },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [call] },
      { role: 'assistant', tool_calls: [call] },
      { role: 'tool', tool_call_id: 'call_1', content: 'a lark' },
      { role: 'assistant', content: 'a lark' },
    ]),
    [
      { role: 'system', parts: [text('be brief')] },
      { role: 'system', parts: [text('be'), text('kind')] },
      {
        role: 'user',
        parts: [
          text('what is it'),
          {
            type: 'image',
            source: { kind: 'base64', media_type: 'image/png', base64: 'iVBORw0KGgo=' },
            detail: 'low',
          },
          { type: 'image', source: { kind: 'url', url: 'https://example.com/a%20b.jpg' }, detail: null },
          { type: 'audio', base64: 'UklGRg==', format: 'wav' },
        ],
      },
      { role: 'assistant', parts: [], tool_calls: [{ id: 'call_1', name: 'look', arguments: '{"at":1}' }] },
      { role: 'assistant', parts: [], tool_calls: [{ id: 'call_1', name: 'look', arguments: '{"at":1}' }] },
      { role: 'tool', tool_call_id: 'call_1', parts: [text('a lark')] },
      { role: 'assistant', parts: [text('a lark')], tool_calls: [] },
    ],
  )
})

t.test('fields', async (t) => {
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const tool = { type: 'function', function: { name: 'look', description: 'looks', parameters: schema } }
  const bare = { type: 'function', function: { name: 'wait' } }
  const rows: [object, object][] = [
    [{ max_tokens: 5 }, { max_tokens: 5 }],
    [{ max_completion_tokens: 5 }, { max_tokens: 5 }],
    [{ max_completion_tokens: 5, max_tokens: 5 }, { max_tokens: 5 }],
    [
      { temperature: 0, top_p: 1, seed: -3 },
      { temperature: 0, top_p: 1, seed: -3 },
    ],
    [
      { temperature: null, stop: null, tools: null, modalities: null, seed: null },
      { temperature: null, stop: [] },
    ],
    [{ stop: 'end' }, { stop: ['end'] }],
    [{ stop: ['a', 'b'] }, { stop: ['a', 'b'] }],
    [
      { tools: [tool, bare], tool_choice: 'required' },
      {
        tools: [
          { name: 'look', description: 'looks', parameters: schema },
          { name: 'wait', description: null, parameters: null },
        ],
        tool_choice: 'required',
      },
    ],
    [
      { tools: [tool], tool_choice: { type: 'function', function: { name: 'look' } } },
      { tool_choice: { name: 'look' } },
    ],
    [
      { tools: [], tool_choice: 'auto' },
      { tools: [], tool_choice: null },
    ],
    [
      { modalities: ['text', 'audio'], audio: { voice: 'ash', format: 'mp3' } },
      { audio: { voice: 'ash', format: 'mp3' } },
    ],
    [{ modalities: ['audio'] }, { modalities: ['audio'], audio: null }],
    [{ modalities: ['audio'], audio: {} }, { audio: { voice: null, format: null } }],
    [{ response_schema: schema }, { response_schema: schema }],
  ]
  for (const [given, expected] of rows) t.match(callOf(given), expected, JSON.stringify(given))
})

t.test('a list of what may be there once is judged by its first items', async (t) => {
  const modalities = Array(100_000).fill('text')
  t.throws(() => read({ messages: HELLO, modalities }), { message: '`modalities` must have at most 2 items' })
})

t.test('what is left out is told, but for what would choose the route', async (t) => {
  const said = (fields: object) => read({ messages: HELLO, ...fields }).warnings
  t.same(
    said({ provider: 1, model: 'm', models: [], route: '', route_id: 1, fallbacks: [], strategy: 's' }),
    [],
  )
  const chosen = { purpose: 'support', response_profile: 'fast', stream: true }
  t.same(said(chosen), [])
  t.same(read({ messages: HELLO, ...chosen }).selectors, {
    purpose: { label: 'support', source: 'body' },
    responseProfile: 'fast',
  })
  t.same(said({ logprobs: true, response_format: { type: 'json_object' } }), [
    'logprobs: unknown field, ignored',
    'response_format: unknown field, ignored',
  ])
  t.match(said({ audio: { voice: 'ash' } }), [/^audio: ignored/])
  const named = read({ messages: [...HELLO, { role: 'user', content: 'hi', name: 'ada' }] })
  t.match(named.payload, { extras: [{ name: 'messages[].name', value: [null, 'ada'], required: false }] })
  const many = said(Object.fromEntries(Array.from({ length: 1000 }, (_, i) => [`${'x'.repeat(100)}${i}`, i])))
  t.equal(many.length, 21)
  t.equal(many[20], '980 further unknown fields, ignored')
  t.ok(many.join('').length < 3_000)
})

/** Fields of a hostile or mistaken caller, and the one that the refusal names. */
const REFUSED: [unknown, string | undefined, RegExp?][] = [
  [null, undefined, /not a JSON object/],
  [[], undefined],
  ['hello', undefined],
  [{}, 'messages', /must be given/],
  [{ messages: null }, 'messages', /must be a list/],
  [{ messages: [] }, 'messages', /must not be empty/],
  [{ messages: ['hello'] }, 'messages[0]', /must be an object/],
  [
    { messages: [{ content: 'hello' }] },
    'messages[0].role',
    /one of `system`, `developer`, `user`, `assistant`, `tool`/,
  ],
  [{ messages: [...HELLO, { role: 'robot', content: 'x' }] }, 'messages[1].role'],
  [{ messages: [{ role: 'user' }] }, 'messages[0].content', /must be given/],
  [{ messages: [{ role: 'user', content: 5 }] }, 'messages[0].content', /a string, or a list/],
  [{ messages: [{ role: 'user', content: null }] }, 'messages[0].content'],
  [{ messages: [{ role: 'user', content: [] }] }, 'messages[0].content'],
  [
    { messages: [{ role: 'user', content: [{}] }] },
    'messages[0].content[0].type',
    /`text`, `image_url`, `input_audio`/,
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'text' }] }] },
    'messages[0].content[0].text',
    /must be given/,
  ],
  [
    { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: 'x' }] }] },
    'messages[0].content[0].image_url',
  ],
  [
    { messages: [{ role: 'system', content: [{ type: 'image_url', image_url: { url: PNG } }] }] },
    'messages[0].content[0].type',
  ],
  [{ messages: [{ role: 'tool', content: 'x' }] }, 'messages[0].tool_call_id', /must be given/],
  [
    {
      messages: [{ role: 'assistant', tool_calls: [{ id: 'a', type: 'function', function: { name: 'f' } }] }],
    },
    'messages[0].tool_calls[0].function.arguments',
  ],
  [{ messages: HELLO, temperature: 2.1 }, 'temperature', /must be at most 2/],
  [{ messages: HELLO, temperature: '1' }, 'temperature', /must be a number/],
  [{ messages: HELLO, max_tokens: 0 }, 'max_tokens'],
  [{ messages: HELLO, max_tokens: 1.5 }, 'max_tokens', /must be an integer/],
  [{ messages: HELLO, max_tokens: 1e30 }, 'max_tokens'],
  [{ messages: HELLO, max_tokens: 5, max_completion_tokens: 6 }, 'max_completion_tokens'],
  [{ messages: HELLO, top_p: -0.1 }, 'top_p'],
  [{ messages: HELLO, stop: Array(17).fill('x') }, 'stop'],
  [{ messages: HELLO, stop: [''] }, 'stop[0]'],
  [{ messages: HELLO, seed: 'x' }, 'seed', /must be an integer/],
  [{ messages: HELLO, seed: 1e30 }, 'seed'],
  [{ messages: HELLO, stream: 'yes' }, 'stream', /one of `true`, `false`/],
  [{ messages: HELLO, tools: {} }, 'tools'],
  [{ messages: HELLO, tools: [{ type: 'web_search' }] }, 'tools[0].type', /must be `function`/],
  [{ messages: HELLO, tools: [{ type: 'function', function: { name: '' } }] }, 'tools[0].function.name'],
  [
    { messages: HELLO, tools: [{ type: 'function', function: { name: 'f', parameters: [] } }] },
    'tools[0].function.parameters',
  ],
  [{ messages: HELLO, tool_choice: 'required' }, 'tool_choice'],
  [
    { messages: HELLO, tool_choice: 'sometimes' },
    'tool_choice',
    /one of `auto`, `none`, `required`, or an object/,
  ],
  [
    {
      messages: HELLO,
      tools: [{ type: 'function', function: { name: 'f' } }],
      tool_choice: { type: 'function', function: { name: 'g' } },
    },
    'tool_choice',
  ],
  [{ messages: HELLO, modalities: ['video'] }, 'modalities[0]'],
  [{ messages: HELLO, modalities: [] }, 'modalities'],
  [{ messages: HELLO, modalities: ['text', 'text'] }, 'modalities'],
  [{ messages: HELLO, audio: 'loud' }, 'audio'],
  [{ messages: HELLO, purpose: 5 }, 'purpose'],
  [{ messages: HELLO, response_profile: 'slow' }, 'response_profile'],
  [{ messages: HELLO, response_schema: 'x' }, 'response_schema', /must be an object/],
]

t.test('refused, naming the field', async (t) => {
  for (const [body, param, message = /./] of REFUSED) {
    const name = JSON.stringify(body).slice(0, 120)
    try {
      read(body)
      t.fail(`accepted: ${name}`)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      t.equal(error.code, 'INVALID_REQUEST', name)
      t.equal(error.extra.param, param, name)
      t.match(error.message, message, name)
    }
  }
})

t.test('pictures', async (t) => {
  const image = (url: string) => [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const sourceOf = (url: string) => {
    const [part] = messagesOf(image(url))[0]?.parts ?? []
    return part?.type === 'image' ? part.source : null
  }
  const base64 = (media_type: string) => ({ kind: 'base64', media_type, base64: 'AAAA' })
  t.same(sourceOf('data:image/jpeg;base64,AAAA'), base64('image/jpeg'))
  t.same(sourceOf('DATA:image/PNG;charset=x;BASE64,AAAA'), base64('image/png'))
  t.same(sourceOf('data:image/svg+xml;base64,AAAA'), base64('image/svg+xml'))
  t.same(sourceOf('http://example.com/x'), { kind: 'url', url: 'http://example.com/x' })
  const refused = [
    '',
    'x',
    'file:///etc/passwd',
    'javascript:alert(1)',
    'ftp://example.com/a.png',
    'https://',
    'https://user:secret@example.com/a.png',
    `https://example.com/${'x'.repeat(8_192)}`,
    'data:image/png,AAAA',
    'data:image/png;base64,',
    'data:;base64,AAAA',
    'data:text/html;base64,AAAA',
    'data:image/png\r\nx-evil: 1;base64,AAAA',
    `data:image/png;${'x'.repeat(300)};base64,AAAA`,
  ]
  const param = 'messages[0].content[0].image_url.url'
  for (const url of refused) {
    t.throws(
      () => sourceOf(url),
      { code: 'INVALID_REQUEST', extra: { param } },
      JSON.stringify(url).slice(0, 60),
    )
  }
})
