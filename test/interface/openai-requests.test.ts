import t from 'tap'
import { eventsOf } from '../support/event-source.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { type ModelEntry, startModelGateway } from './model-gateway.ts'
import { doorClient, rejected } from './openai-door.ts'

const ENTRY: ModelEntry = {
  model: 'all',
  capabilities: ['text', 'completion', 'vision', 'function_calling', 'audio_output', 'embeddings', 'image'],
  price: { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1, per_image_usd: 1 },
}
const HELLO = [{ role: 'user', content: 'hello' }]
const CHAT = '/openai/v1/chat/completions'

type Row = readonly [path: string, body: unknown, param: string | RegExp | null, message?: RegExp]

t.test('a body that is not as documented is refused, naming the field of OpenAI', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const chat = (more: object): object => ({ model: 'gpt-4o', messages: HELLO, ...more })
  const format = (value: unknown) => chat({ response_format: value })
  const text = (more: object): object => ({ model: 'x', prompt: 'a', ...more })
  const [completions, embeddings] = ['/openai/v1/completions', '/openai/v1/embeddings']
  const [images, speech] = ['/openai/v1/images/generations', '/openai/v1/audio/speech']
  const rows: Row[] = [
    [CHAT, [], null],
    [CHAT, '{"messages":', null],
    [CHAT, {}, 'messages'],
    [CHAT, chat({ model: 5 }), 'model', /a string/],
    [CHAT, chat({ messages: 'hello' }), 'messages'],
    [CHAT, chat({ messages: [] }), 'messages'],
    [CHAT, chat({ messages: [{ role: 'user' }] }), 'messages[0].content'],
    [CHAT, chat({ messages: [{ role: 'function', name: 'f', content: '' }] }), 'messages[0].role'],
    [CHAT, chat({ messages: [...HELLO, { role: 'assistant', audio: { id: 'a' } }] }), 'messages[1].audio'],
    [CHAT, chat({ messages: [{ role: 'assistant', function_call: {} }] }), 'messages[0].function_call'],
    [CHAT, chat({ n: 0 }), 'n'],
    [CHAT, chat({ n: 129 }), 'n'],
    [CHAT, chat({ n: '1' }), 'n'],
    [CHAT, chat({ logprobs: 'yes' }), 'logprobs'],
    [CHAT, chat({ top_logprobs: 21 }), 'top_logprobs'],
    [CHAT, chat({ logit_bias: { 50256: -101 } }), /^logit_bias/],
    [CHAT, chat({ frequency_penalty: 3 }), 'frequency_penalty'],
    [CHAT, chat({ prompt_cache_options: { prewarm: true } }), 'prompt_cache_options.prewarm'],
    [CHAT, chat({ functions: [] }), 'functions', /must be left out; send tools/],
    [CHAT, chat({ function_call: 'auto' }), 'function_call'],
    [CHAT, chat({ web_search_options: {} }), 'web_search_options'],
    [CHAT, chat({ moderation: { model: 'm' } }), 'moderation'],
    [CHAT, chat({ parallel_tool_calls: 'no' }), 'parallel_tool_calls'],
    [CHAT, chat({ tools: [{ type: 'custom', custom: { name: 'a' } }] }), 'tools[0].type'],
    [CHAT, chat({ tool_choice: { type: 'allowed_tools' } }), 'tool_choice.type'],
    [CHAT, chat({ max_tokens: 1, max_completion_tokens: 2 }), 'max_completion_tokens'],
    [CHAT, chat({ temperature: 'hot' }), 'temperature'],
    [CHAT, chat({ stream: 'yes' }), 'stream'],
    [CHAT, chat({ stream_options: { include_usage: 1 } }), 'stream_options.include_usage'],
    [CHAT, chat({ stream_options: [] }), 'stream_options'],
    [CHAT, chat({ audio: { voice: 7 } }), 'audio.voice'],
    [CHAT, chat({ modalities: ['video'] }), 'modalities[0]'],
    [CHAT, format('json'), 'response_format'],
    [CHAT, format({}), 'response_format.type'],
    [CHAT, format({ type: 'xml' }), 'response_format.type'],
    [CHAT, format({ type: 'json_schema' }), 'response_format.json_schema'],
    [CHAT, format({ type: 'json_schema', json_schema: { name: 'a' } }), 'response_format.json_schema.schema'],
    [CHAT, chat({ purpose: 5 }), 'purpose'],
    [completions, text({ prompt: null }), 'prompt'],
    [completions, text({ prompt: ['a', 'b'] }), 'prompt'],
    [completions, text({ prompt: [1, 2] }), 'prompt'],
    [completions, text({ n: 0 }), 'n'],
    [completions, text({ best_of: 'x' }), 'best_of'],
    [completions, text({ echo: 1 }), 'echo'],
    [completions, text({ suffix: 5 }), 'suffix'],
    [completions, text({ logprobs: 6 }), 'logprobs'],
    [embeddings, { model: 'e' }, 'input'],
    [embeddings, { model: 'e', input: [[1, 2], 'a'] }, /^input/],
    [embeddings, { model: 'e', input: [5, -1] }, /^input/],
    [embeddings, { model: 'e', input: [5, 'a'] }, /^input/],
    [embeddings, { model: 'e', input: [[]] }, /^input/],
    [embeddings, { model: 'e', input: [[1.5]] }, /^input/],
    [embeddings, { model: 'e', input: 'a', encoding_format: 'int8' }, 'encoding_format', /`float`, `base64`/],
    [embeddings, { model: 'e', input: 'a', dimensions: 0 }, 'dimensions'],
    [images, { model: 'i' }, 'prompt'],
    [images, { model: 'i', prompt: 'a', n: 11 }, 'n'],
    [images, { model: 'i', prompt: 'a', response_format: 'hex' }, 'response_format', /b64_json/],
    [images, { model: 'i', prompt: 'a', background: 'blue' }, 'background'],
    [images, { model: 'i', prompt: 'a', stream: 'yes' }, 'stream'],
    [speech, { model: 's', voice: 'alloy' }, 'input'],
    [speech, { model: 's', input: 'a', voice: { name: 'alloy' } }, 'voice.id'],
    [speech, { model: 's', input: 'a', voice: ['alloy'] }, 'voice'],
    [speech, { model: 's', input: 'a', speed: 0 }, 'speed'],
    [speech, { model: 's', input: 'a', stream_format: 'events' }, 'stream_format'],
    [speech, { model: 's', input: 'a', response_format: 5 }, 'response_format'],
  ]
  for (const [path, body, param, message = /./] of rows) {
    const response = await gateway.post(path, body)
    const name = `${path} ${JSON.stringify(body)}`
    t.equal(response.status, 400, name)
    const type = 'request'
    t.match(await response.json(), { error: { code: 'INVALID_REQUEST', type, param, message } }, name)
    t.equal(response.headers.get('x-should-retry'), 'false')
    t.match(response.headers.get('x-request-id'), /^req_/)
  }
  t.equal(gateway.upstream.received.length, 0, 'nothing was passed on')
  for (const path of ['/openai/v1/batches', '/openai/v1', '/openai/v1/files']) {
    t.match(
      await (await gateway.post(path, {})).json(),
      { error: { code: 'NOT_FOUND', type: 'not_found' } },
      path,
    )
  }
  await assertStopsClean(t, gateway)
})

t.test(
  'a schema that no model of the route answers by is refused by the name that OpenAI has for it',
  async (t) => {
    const gateway = await startModelGateway(t, [{ ...ENTRY, limits: { json_schema: false } }])
    const json_schema = { name: 'city', schema: { type: 'object', properties: {} }, strict: true }
    const body = { model: 'gpt-4o', messages: HELLO, response_format: { type: 'json_schema', json_schema } }
    const refused = await gateway.post(CHAT, body)
    t.equal(refused.status, 400)
    t.match(await refused.json(), { error: { code: 'INVALID_REQUEST', param: 'response_format' } })
    const any = await gateway.post(CHAT, { ...body, response_format: { type: 'json_object' } })
    t.not(any.status, 400, 'any object at all is no schema')
    t.equal(gateway.upstream.received.length, 1)
    await assertStopsClean(t, gateway)
  },
)

t.test('what is asked for arrives, and what is ignored is told', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  gateway.upstream.behave('all', { message: { content: '{}' } })
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const asked = (more: object, model = 'gpt-4o') => gateway.post(CHAT, { model, messages: HELLO, ...more })
  const strict = (name: string, given: object) => ({
    response_format: { type: 'json_schema', json_schema: { name, schema: given, strict: true } },
  })
  const loose = (name: string, given: object, asked: object = { strict: false }) => ({
    response_format: { type: 'json_schema', json_schema: { name, schema: given, ...asked } },
  })
  const rows: [sent: object, received: object, warnings: string[]][] = [
    [{ response_format: { type: 'text' } }, {}, []],
    [{ response_format: null, n: null, logprobs: false, stream: false, logit_bias: null }, {}, []],
    [{ response_format: { type: 'json_object' } }, { response_format: { type: 'json_object' } }, []],
    [loose('letters', schema), loose('letters', { title: 'letters', ...schema }), []],
    [loose('letters', schema, {}), loose('letters', { title: 'letters', ...schema }), []],
    [strict('letters', schema), strict('letters', { title: 'letters', ...schema }), []],
    [strict('other', { title: 'own', ...schema }), strict('own', { title: 'own', ...schema }), []],
    [
      { max_completion_tokens: 9, temperature: 0.5, top_p: 0.9, stop: ['x'], seed: 7, n: 1 },
      { max_tokens: 9, temperature: 0.5, top_p: 0.9, stop: ['x'], seed: 7 },
      [],
    ],
    [
      { reasoning_effort: 'low', user: 'u', store: true, provider: 'a', route: 'b', response_schema: schema },
      { reasoning_effort: 'low' },
      ['response_schema: unknown field, ignored', 'store: nothing is stored'],
    ],
  ]
  for (const [sent, received, warnings] of rows) {
    const response = await asked(sent)
    t.equal(response.status, 200, JSON.stringify(sent))
    t.same(JSON.parse(response.headers.get('x-lk-warnings') ?? '[]'), warnings, JSON.stringify(sent))
    const { model, messages, ...body } = gateway.upstream.received.at(-1)?.body ?? {}
    t.same({ model, messages, ...body }, { model: 'all', messages: HELLO, ...received }, JSON.stringify(sent))
  }
  const image = await gateway.post('/openai/v1/images/generations', {
    ...{ prompt: 'a', model: 'gpt-image-2', size: 'auto', quality: 'high', n: 1, moderation: 'low' },
    ...{ background: 'auto', response_format: 'b64_json', output_format: 'png' },
  })
  t.notMatch(image.headers.get('x-lk-warnings'), /moderation/)
  t.same(gateway.upstream.received.at(-1)?.body, {
    ...{
      model: 'all',
      prompt: 'a',
      n: 1,
      quality: 'high',
      output_format: 'png',
      moderation: 'low',
      response_format: 'b64_json',
    },
  })
  const warned = await asked({ stream: true, store: true })
  t.equal(warned.headers.get('x-lk-warnings'), '["store: nothing is stored"]', 'of a stream too')
  t.equal(warned.headers.get('x-lk-provider'), 'models')
  t.equal((await eventsOf(warned)).at(-1), '[DONE]')
  await assertStopsClean(t, gateway)
})

t.test('a stream that breaks off is an error to the client, in the middle', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  gateway.upstream.behave('all', { deltas: ['one ', 'two ', 'three'], cutAfter: 2 })
  const { openai } = doorClient(gateway)
  const seen: string[] = []
  const read = async () => {
    const messages = [{ role: 'user' as const, content: 'hello' }]
    const stream = await openai.chat.completions.create({ model: 'gpt-4o', messages, stream: true })
    for await (const { choices } of stream) seen.push(choices[0]?.delta.content ?? '')
  }
  t.match(await rejected(read()), { code: 'UPSTREAM_ERROR', type: 'upstream' })
  t.same(seen, ['', 'one ', 'two '])
  const events = await eventsOf(await gateway.post(CHAT, { messages: HELLO, stream: true }))
  t.match(events.at(-1), { error: { code: 'UPSTREAM_ERROR' } }, 'and no [DONE] follows')
  await assertStopsClean(t, gateway)
})

t.test('tool calls, piece by piece', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const call = (piece: object) => ({ tool_calls: [piece] })
  gateway.upstream.behave('all', {
    finishReason: 'tool_calls',
    deltas: [
      call({ index: 0, id: 'call_1', type: 'function', function: { name: 'weather', arguments: '' } }),
      call({ index: 0, function: { arguments: '{"city":' } }),
      call({ index: 0, function: { arguments: '"Oslo"}' } }),
      call({ index: 1, id: 'call_2', type: 'function', function: { name: 'time', arguments: '{}' } }),
    ],
  })
  const { openai } = doorClient(gateway)
  const tools = ['weather', 'time'].map((name) => ({ type: 'function' as const, function: { name } }))
  const messages = [{ role: 'user' as const, content: 'hello' }]
  const stream = openai.chat.completions.stream({ model: 'gpt-4o', messages, tools })
  t.match((await stream.finalChatCompletion()).choices, [
    {
      finish_reason: 'tool_calls',
      message: {
        tool_calls: [
          { id: 'call_1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
          { id: 'call_2', type: 'function', function: { name: 'time', arguments: '{}' } },
        ],
      },
    },
  ])
  await assertStopsClean(t, gateway)
})
