import { randomBytes } from 'node:crypto'
import t from 'tap'
import { assertStopsClean } from '../support/gateway.ts'
import { type ModelEntry, startModelGateway } from './model-gateway.ts'

const HELLO = [{ role: 'user', content: 'hello' }]
const TOOL = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }
const PNG = 'data:image/png;base64,iVBORw0KGgo='
const PICTURE = [
  {
    role: 'user',
    content: [
      { type: 'text', text: 'what is it' },
      { type: 'image_url', image_url: { url: PNG } },
    ],
  },
]

const PRICE = { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 10 }
const TEXT: ModelEntry = { model: 'text', capabilities: ['text', 'completion'], price: PRICE }
const SEEING: ModelEntry = { model: 'seeing', capabilities: ['text', 'vision'] }
const CALLING: ModelEntry = { model: 'calling', capabilities: ['text', 'function_calling'] }
const SPEAKING: ModelEntry = { model: 'speaking', capabilities: ['text', 'audio_output'] }

type Answer = Record<string, unknown> & { error?: Record<string, unknown>; warnings: string[] }
const json = async (response: Response) => (await response.json()) as Answer

t.test('a chat, and what its answer says', async (t) => {
  const gateway = await startModelGateway(t, [TEXT])
  const response = await gateway.post('/v1/chat', { messages: HELLO, max_tokens: 5, seed: 7, model: 'mine' })
  t.equal(response.status, 200)
  t.equal(response.headers.get('content-type'), 'application/json')
  const { id, policy_version_id, ...rest } = await json(response)
  t.equal(id, response.headers.get('x-lk-request-id'))
  t.equal(policy_version_id, response.headers.get('x-lk-policy-version-id'))
  t.same(rest, {
    provider: 'models',
    model: 'text',
    content: 'whole answer',
    content_blocks: [],
    tool_calls: [],
    finish_reason: 'stop',
    usage: { input_tokens: 11, output_tokens: 7, total_tokens: 18 },
    cost_usd: 0.000081,
    determinism: { seed_honored: true },
    lk_requested_purpose: null,
    lk_applied_purpose: null,
    lk_purpose_source: 'none',
    warnings: [],
  })
  t.match(gateway.upstream.received, [
    { path: '/v1/chat/completions', body: { model: 'text', messages: HELLO, max_tokens: 5, seed: 7 } },
  ])
  t.match(await gateway.logLine(String(id)), {
    path: '/v1/chat',
    status: 200,
    workspace: 'acme',
    usage: { total_tokens: 18 },
    attempts: [{ provider: 'models', model: 'text', status: 200 }],
  })
  await assertStopsClean(t, gateway)
})

t.test('what is sent on to the provider', async (t) => {
  const gateway = await startModelGateway(t, [
    { ...TEXT, capabilities: ['text', 'vision', 'function_calling'] },
  ])
  const schema = { type: 'object', properties: { bird: { type: 'string' } } }
  const conversation = [
    { role: 'system', content: 'be brief' },
    ...PICTURE,
    {
      role: 'assistant',
      content: null,
      tool_calls: [{ id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }],
    },
    { role: 'tool', tool_call_id: 'call_1', content: 'a lark' },
  ]
  const sampling = { temperature: 0.5, top_p: 0.9, stop: ['\n', 'end'], seed: 3 }
  const rows: [object, object][] = [
    [{ messages: conversation }, { messages: conversation }],
    [
      { messages: HELLO, ...sampling },
      { messages: HELLO, ...sampling },
    ],
    [{ messages: HELLO, max_completion_tokens: 9 }, { max_tokens: 9 }],
    [{ messages: HELLO, stop: 'end' }, { stop: ['end'] }],
    [
      { messages: HELLO, tools: [TOOL], tool_choice: 'none' },
      { tools: [TOOL], tool_choice: 'none' },
    ],
    [
      { messages: HELLO, tools: [TOOL], tool_choice: { type: 'function', function: { name: 'look' } } },
      { tool_choice: { type: 'function', function: { name: 'look' } } },
    ],
    [
      { messages: HELLO, response_schema: schema },
      { response_format: { type: 'json_schema', json_schema: { schema } } },
    ],
  ]
  const call = { id: 'call_2', type: 'function', function: { name: 'look', arguments: '{"at":1}' } }
  gateway.upstream.behave('text', {
    message: { content: '{"bird":"lark"}', tool_calls: [call] },
    finishReason: 'tool_calls',
  })
  for (const [sent, arrives] of rows) {
    const answer = await json(await gateway.post('/v1/chat', sent))
    t.match(answer, { content: '{"bird":"lark"}', tool_calls: [call], finish_reason: 'tool_calls' })
    t.match(gateway.upstream.received.at(-1)?.body, arrives, JSON.stringify(sent).slice(0, 100))
  }
})

t.test('what a request holds decides which models can serve it', async (t) => {
  const gateway = await startModelGateway(t, [TEXT, SEEING, CALLING, SPEAKING])
  gateway.upstream.behave('calling', { message: { content: 'done' } })
  const audio = { data: Buffer.from('spoken').toString('base64') }
  gateway.upstream.behave('speaking', {
    message: { content: null, audio: { ...audio, transcript: 'hello' } },
  })
  const rows: [string, string, object, string][] = [
    ['text', '/v1/chat', { messages: HELLO }, 'text'],
    ['a picture', '/v1/chat', { messages: PICTURE }, 'seeing'],
    ['a picture in the past', '/v1/chat', { messages: [...PICTURE, ...HELLO] }, 'seeing'],
    ['tools', '/v1/chat', { messages: HELLO, tools: [TOOL] }, 'calling'],
    ['no tools', '/v1/chat', { messages: HELLO, tools: [] }, 'text'],
    ['speech', '/v1/chat', { messages: HELLO, modalities: ['audio'], audio: { format: 'mp3' } }, 'speaking'],
    ['vision', '/v1/vision', { messages: PICTURE }, 'seeing'],
    ['vision in short', '/v1/vision', { prompt: 'what is it', images: [PNG] }, 'seeing'],
    ['completion', '/v1/complete', { prompt: 'once upon' }, 'text'],
  ]
  for (const [name, path, body, model] of rows) {
    const answer = await json(await gateway.post(path, body))
    t.equal(answer.model, model, name)
    if (name !== 'speech') continue
    t.match(answer, {
      content: 'hello',
      content_blocks: [{ type: 'output_audio', base64: audio.data, media_type: 'audio/mpeg' }],
    })
  }

  const textOnly = await startModelGateway(t, [TEXT])
  for (const body of [
    { messages: PICTURE },
    { messages: HELLO, tools: [TOOL] },
    { messages: HELLO, modalities: ['text', 'audio'] },
  ]) {
    const response = await textOnly.post('/v1/chat', body)
    t.equal(response.status, 503)
    t.match((await json(response)).error, { code: 'NO_HEALTHY_PROVIDER', retryable: false })
  }
  t.equal(textOnly.upstream.received.length, 0)
})

t.test('completions', async (t) => {
  const gateway = await startModelGateway(t, [{ ...TEXT, options: { completion_endpoint: true } }])
  gateway.upstream.behave('text', { message: { content: ' a time' }, finishReason: 'length' })
  const body = { prompt: 'once upon', max_tokens: 2, temperature: 0, stop: '.', seed: 1 }
  const answer = await json(await gateway.post('/v1/complete', body))
  t.match(answer, {
    content: ' a time',
    finish_reason: 'length',
    tool_calls: [],
    determinism: { seed_honored: true },
  })
  t.match(gateway.upstream.received, [{ path: '/v1/completions', body: { ...body, stop: ['.'] } }])

  const byChat = await startModelGateway(t, [TEXT])
  t.match(await json(await byChat.post('/v1/complete', { prompt: 'once upon' })), { content: 'whole answer' })
  t.match(byChat.upstream.received, [{ path: '/v1/chat/completions' }])
})

t.test('vision: a picture is not optional', async (t) => {
  const gateway = await startModelGateway(t, [SEEING])
  const inline = { base64: 'iVBORw0KGgo=', media_type: 'image/PNG' }
  const short = { prompt: 'compare', images: ['https://example.com/a.png', PNG, inline] }
  t.equal((await gateway.post('/v1/vision', short)).status, 200)
  t.match(gateway.upstream.received[0]?.body, {
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'compare' },
          { type: 'image_url', image_url: { url: 'https://example.com/a.png' } },
          { type: 'image_url', image_url: { url: PNG } },
          { type: 'image_url', image_url: { url: PNG } },
        ],
      },
    ],
  })
  const refused: [object, string][] = [
    [{}, 'messages'],
    [{ messages: HELLO }, 'messages'],
    [{ prompt: 'what' }, 'images'],
    [{ images: [PNG] }, 'prompt'],
    [{ prompt: 'what', images: [] }, 'images'],
    [{ prompt: 'what', images: PNG }, 'images'],
    [{ prompt: 'what', images: ['x'] }, 'images[0]'],
    [{ prompt: 'what', images: [{ base64: 'AAAA' }] }, 'images[0].media_type'],
    [{ prompt: 'what', images: [{ base64: 'AAAA', media_type: 'text/html' }] }, 'images[0].media_type'],
    [{ messages: PICTURE, prompt: 'what' }, 'prompt'],
    [{ messages: PICTURE, images: [PNG] }, 'images'],
  ]
  for (const [body, param] of refused) {
    const response = await gateway.post('/v1/vision', body)
    t.equal(response.status, 400, JSON.stringify(body).slice(0, 80))
    t.match((await json(response)).error, { code: 'INVALID_REQUEST', param })
  }
})

t.test('refusals: of the body, of its fields, of the key', async (t) => {
  const gateway = await startModelGateway(t, [TEXT], {
    config: { limits: { max_request_body_bytes: 10_000 } },
  })
  const rows: [string, RequestInit & { path?: string; send?: unknown }, number, object][] = [
    ['no JSON', { send: '{"messages":' }, 400, { code: 'INVALID_REQUEST', param: null }],
    ['a list', { send: [] }, 400, { code: 'INVALID_REQUEST', param: null }],
    ['no field', { send: {} }, 400, { code: 'INVALID_REQUEST', param: 'messages' }],
    ['deep nesting', { send: '['.repeat(200) }, 400, { code: 'INVALID_REQUEST', message: /nested/ }],
    ['no prompt', { path: '/v1/complete', send: { messages: HELLO } }, 400, { param: 'prompt' }],
    [
      'another type',
      { send: 'hello', headers: { 'content-type': 'text/plain' } },
      415,
      { code: 'UNSUPPORTED_MEDIA_TYPE' },
    ],
    [
      'too large',
      { send: { messages: [{ role: 'user', content: 'x'.repeat(10_000) }] } },
      413,
      { code: 'REQUEST_TOO_LARGE' },
    ],
    [
      'no key',
      { send: { messages: HELLO }, headers: { authorization: '' } },
      401,
      { code: 'UNAUTHENTICATED' },
    ],
    ['another method', { method: 'PUT', send: {} }, 405, { code: 'METHOD_NOT_ALLOWED' }],
  ]
  for (const [name, { path = '/v1/chat', send, ...init }, status, error] of rows) {
    const response = await gateway.post(path, send, init)
    t.equal(response.status, status, name)
    t.match((await json(response)).error, error, name)
  }
  t.equal(gateway.upstream.received.length, 0)
  await assertStopsClean(t, gateway)
})

t.test('an admission counts once', async (t) => {
  const config = { rate_limit: { requests_per_minute: 1, burst: 5 } }
  const gateway = await startModelGateway(t, [TEXT], { config })
  const left = async (stream: boolean) => {
    const response = await gateway.post('/v1/chat', { messages: HELLO, stream })
    await response.text()
    return Number(response.headers.get('x-ratelimit-remaining-requests'))
  }
  t.equal(await left(false), 4)
  t.equal(await left(true), 3)
})

t.test('failover, and the caller’s own fault', async (t) => {
  const gateway = await startModelGateway(t, [TEXT, SEEING])
  gateway.upstream.behave('text', { status: 500 })
  t.match(await json(await gateway.post('/v1/chat', { messages: HELLO })), { model: 'seeing' })
  gateway.upstream.behave('text', { status: 400 })
  const response = await gateway.post('/v1/chat', { messages: HELLO })
  t.equal(response.status, 422)
  const text = await response.text()
  t.match(JSON.parse(text), { error: { code: 'UPSTREAM_REJECTED' } })
  t.notMatch(text, /sk-secret/, 'what the provider says stays inside')
})

t.test('a picture of 20 MB, and others meanwhile', { timeout: 120_000 }, async (t) => {
  const gateway = await startModelGateway(t, [SEEING])
  const base64 = randomBytes(15_000_000).toString('base64')
  const url = `data:image/png;base64,${base64}`
  const body = { messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }] }
  const large = gateway.post('/v1/vision', body)
  const small = await gateway.post('/v1/chat', { messages: HELLO })
  t.equal(small.status, 200)
  t.equal((await large).status, 200)
  const arrived = gateway.upstream.received.find(({ body }) => JSON.stringify(body?.messages).length > 1e6)
  const [message] = (arrived?.body?.messages ?? []) as { content: { image_url: { url: string } }[] }[]
  t.ok(message?.content[0]?.image_url.url === url, 'it arrived as it was')
  await assertStopsClean(t, gateway)
})

t.test('large bodies take turns when memory is short', { timeout: 120_000 }, async (t) => {
  const gateway = await startModelGateway(t, [SEEING], { env: { LARKWAY_MEMORY_MIB: '16' } })
  gateway.upstream.behave('seeing', { waitMs: 300 })
  const url = `data:image/png;base64,${'A'.repeat(4_000_000)}`
  const ask = () => gateway.post('/v1/vision', { prompt: 'what', images: [url] })
  const statuses = await Promise.all([ask(), ask(), ask(), ask()].map(async (asked) => (await asked).status))
  t.same(statuses, [200, 200, 200, 200])

  gateway.upstream.behave('seeing', { waitMs: 12_000 })
  const long = ask()
  const waited = await Promise.race([long, ask()])
  t.equal(waited.status, 503)
  t.match((await json(waited)).error, { code: 'OVERLOADED', retryable: true })
  t.equal(
    (await gateway.post('/v1/chat', { messages: 'none' })).status,
    400,
    'small ones are served meanwhile',
  )
  t.equal((await long).status, 200)
  await assertStopsClean(t, gateway)
})
