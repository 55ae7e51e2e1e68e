import type { ParsedResponse, ResponseStreamEvent } from 'openai/resources/responses/responses'
import t from 'tap'
import { eventsOf } from '../support/event-source.ts'
import { assertStopsClean, startGateway } from '../support/gateway.ts'
import { type ModelEntry, startModelGateway } from './model-gateway.ts'
import { doorClient, rejected } from './openai-door.ts'

const MORSE = '... --- ...'
const ENTRY: ModelEntry = {
  model: 'all',
  capabilities: ['text', 'vision', 'function_calling', 'audio_input'],
  price: { per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 },
}
const PATH = '/openai/v1/responses'
const ASK = { model: 'gpt-4o', input: 'sos' }
const WEATHER = {
  type: 'function' as const,
  name: 'weather',
  description: 'what the weather is like',
  parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
  strict: false,
}

t.test('responses, by the official client', { timeout: 60_000 }, async (t) => {
  const larkway = await startGateway(t)
  const { openai, headers } = doorClient(larkway)

  const whole = await openai.responses.create({ ...ASK, instructions: 'be short', metadata: { a: 'b' } })
  const id = headers().get('x-request-id') ?? ''
  t.match(whole, {
    id,
    object: 'response',
    status: 'completed',
    model: 'morse-1',
    instructions: 'be short',
    metadata: { a: 'b' },
    store: false,
    error: null,
    incomplete_details: null,
    output: [
      {
        type: 'message',
        role: 'assistant',
        status: 'completed',
        content: [{ type: 'output_text', text: MORSE, annotations: [] }],
      },
    ],
    output_text: MORSE,
    usage: { total_tokens: Number(headers().get('x-lk-usage-total-tokens')) },
  })
  t.ok(Math.abs(whole.created_at - Date.now() / 1000) < 60)

  const seen: ResponseStreamEvent[] = []
  for await (const event of await openai.responses.create({ ...ASK, stream: true })) seen.push(event)
  t.same(
    seen.map(({ sequence_number: number }) => number),
    seen.map((_, index) => index),
  )
  const kinds = seen.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1])
  t.same(kinds, [
    ...['response.created', 'response.in_progress', 'response.output_item.added'],
    ...['response.content_part.added', 'response.output_text.delta', 'response.output_text.done'],
    ...['response.content_part.done', 'response.output_item.done', 'response.completed'],
  ])

  // The client's own reader of streams puts the events together, and fails at what it does not understand.
  const stream = openai.responses.stream(ASK)
  const final: ParsedResponse<null> = await stream.finalResponse()
  t.equal(final.output_text, MORSE)
  t.match(final, { status: 'completed', usage: { output_tokens: 3 } })

  await t.test('tools, called and answered', async (t) => {
    for (const streamed of [false, true]) {
      const ask = {
        model: 'gpt-4o',
        tools: [WEATHER],
        input: [{ role: 'user' as const, content: 'the weather in Oslo' }],
      }
      const first = streamed
        ? await openai.responses.stream(ask).finalResponse()
        : await openai.responses.create(ask)
      const output = first.output.flatMap((item) => {
        if (item.type !== 'function_call') return []
        t.match(item, { name: 'weather', status: 'completed' })
        t.same(JSON.parse(item.arguments), { city: 'the weather in Oslo' })
        return [{ type: 'function_call_output' as const, call_id: item.call_id, output: 'sun' }]
      })
      t.equal(output.length, 1)
      const second = await openai.responses.create({
        ...ask,
        input: [...ask.input, ...first.output, ...output] as never,
      })
      t.equal(second.output_text, '... ..- -.', streamed ? 'streamed' : 'whole')
    }
  })
  await assertStopsClean(t, larkway)
})

t.test('what is asked for arrives at the provider, and what is not passed on is told', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const { upstream } = gateway
  upstream.behave('all', { message: { content: '{}' } })
  const user = (content: unknown) => ({ role: 'user', content })
  const schema = { type: 'object', properties: { a: { type: 'string' } } }
  const { type, ...named } = WEATHER
  const weather = named
  const HELLO = { role: 'user', content: 'hello' }
  const rows: [sent: object, received: object, warnings?: string[]][] = [
    [{ input: 'hello' }, { messages: [HELLO] }],
    [
      { input: [HELLO], store: false, background: false, stream: false, include: null },
      { messages: [HELLO] },
    ],
    [
      { input: 'hello', instructions: 'be short', max_output_tokens: 9, temperature: 0.5, top_p: 0.9 },
      {
        ...{ max_tokens: 9, temperature: 0.5, top_p: 0.9 },
        messages: [{ role: 'system', content: 'be short' }, HELLO],
      },
    ],
    [
      {
        input: [
          { role: 'developer', content: [{ type: 'input_text', text: 'a' }] },
          user([
            { type: 'input_text', text: 'b' },
            { type: 'input_image', image_url: 'https://example.com/a.png', detail: 'low' },
            { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
          ]),
        ],
      },
      {
        messages: [
          { role: 'system', content: 'a' },
          user([
            { type: 'text', text: 'b' },
            { type: 'image_url', image_url: { url: 'https://example.com/a.png', detail: 'low' } },
            { type: 'input_audio', input_audio: { data: 'AAAA', format: 'wav' } },
          ]),
        ],
      },
    ],
    [
      {
        input: [
          HELLO,
          { type: 'reasoning', id: 'rs_1', summary: [] },
          {
            ...{ type: 'message', id: 'msg_1', role: 'assistant', status: 'completed' },
            content: [{ type: 'output_text', text: 'one moment', annotations: [] }],
          },
          { type: 'function_call', call_id: 'c1', name: 'weather', arguments: '{"city":"Oslo"}' },
          {
            type: 'function_call',
            id: 'fc_2',
            call_id: 'c2',
            name: 'weather',
            arguments: '{}',
            status: 'completed',
          },
          { type: 'function_call_output', call_id: 'c1', output: 'sun' },
          { type: 'function_call_output', call_id: 'c2', output: [{ type: 'input_text', text: 'rain' }] },
          { role: 'assistant', content: [{ type: 'refusal', refusal: 'no' }] },
          HELLO,
        ],
        tools: [WEATHER],
        tool_choice: 'auto',
      },
      {
        messages: [
          HELLO,
          {
            role: 'assistant',
            content: 'one moment',
            tool_calls: [
              { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Oslo"}' } },
              { id: 'c2', type: 'function', function: { name: 'weather', arguments: '{}' } },
            ],
          },
          { role: 'tool', tool_call_id: 'c1', content: 'sun' },
          { role: 'tool', tool_call_id: 'c2', content: 'rain' },
          { role: 'assistant', content: 'no' },
          HELLO,
        ],
        tools: [{ type, function: weather }],
        tool_choice: 'auto',
      },
      ['input[].reasoning: not passed on'],
    ],
    [
      { input: 'hello', text: { format: { type: 'json_schema', name: 'letters', schema, strict: true } } },
      {
        messages: [HELLO],
        response_format: {
          type: 'json_schema',
          json_schema: { name: 'letters', schema: { title: 'letters', ...schema }, strict: true },
        },
      },
    ],
    [
      { input: 'hello', text: { format: { type: 'json_object' }, verbosity: 'low' } },
      { messages: [HELLO], response_format: { type: 'json_object' }, verbosity: 'low' },
    ],
    [
      {
        ...{
          input: 'hello',
          reasoning: { effort: 'low' },
          user: 'u',
          service_tier: 'flex',
          truncation: 'auto',
        },
        ...{ safety_identifier: 's', prompt_cache_key: 'k', include: ['reasoning.encrypted_content'] },
        ...{ tools: [{ ...WEATHER, strict: true }], seed: 7 },
      },
      {
        ...{ messages: [HELLO], tools: [{ type, function: { ...weather, strict: true } }] },
        ...{ service_tier: 'flex', prompt_cache_key: 'k', reasoning_effort: 'low' },
      },
      [
        'seed: unknown field, ignored',
        'truncation: the whole conversation is sent',
        'include: there are no such items to add to',
      ],
    ],
    [
      { input: 'hello', top_logprobs: 2, parallel_tool_calls: false },
      { messages: [HELLO], logprobs: true, top_logprobs: 2 },
    ],
    [
      { input: 'hello', top_logprobs: 2, include: ['message.output_text.logprobs'] },
      { messages: [HELLO], logprobs: true, top_logprobs: 2 },
    ],
  ]
  for (const [sent, received, warnings = []] of rows) {
    const name = JSON.stringify(sent)
    const response = await gateway.post(PATH, { model: 'gpt-4o', ...sent })
    t.equal(response.status, 200, name)
    t.same(JSON.parse(response.headers.get('x-lk-warnings') ?? '[]'), warnings, name)
    t.same(upstream.received.at(-1)?.body, { model: 'all', ...received }, name)
  }
  const warned = await gateway.post(PATH, { input: 'hello', stream: true, truncation: 'auto' })
  t.equal(
    warned.headers.get('x-lk-warnings'),
    '["truncation: the whole conversation is sent"]',
    'of a stream too',
  )
  t.match(await warned.text(), /^event: response.created\ndata: \{/)
  await assertStopsClean(t, gateway)
})

t.test('what cannot be had is refused by its name', async (t) => {
  const gateway = await startModelGateway(t, [{ ...ENTRY, limits: { json_schema: false } }])
  const item = (value: object) => ({ input: [value] })
  const user = (part: object) => item({ role: 'user', content: [part] })
  const asked = (more: object) => ({ input: 'hello', ...more })
  const rows: [body: unknown, param: string | null, message?: RegExp][] = [
    [{}, 'input', /must be given/],
    [{ input: '' }, 'input'],
    [{ input: [] }, 'input'],
    [asked({ store: true }), 'store', /must be `false`/],
    [asked({ background: true }), 'background'],
    [asked({ previous_response_id: 'resp_1' }), 'previous_response_id', /whole conversation/],
    [asked({ conversation: 'conv_1' }), 'conversation'],
    [asked({ prompt: { id: 'p' } }), 'prompt'],
    [asked({ context_management: [] }), 'context_management'],
    [asked({ moderation: { model: 'm' } }), 'moderation'],
    [asked({ parallel_tool_calls: 'no' }), 'parallel_tool_calls'],
    [asked({ top_logprobs: 21 }), 'top_logprobs'],
    [asked({ include: 'message.output_text.logprobs' }), 'include'],
    [asked({ reasoning: { effort: 5 } }), 'reasoning.effort'],
    [asked({ prompt_cache_options: { prewarm: true } }), 'prompt_cache_options.prewarm'],
    [asked({ metadata: { a: 1 } }), 'metadata', /at most 16 texts/],
    [asked({ metadata: { a: 'x'.repeat(513) } }), 'metadata'],
    [asked({ max_output_tokens: 0 }), 'max_output_tokens'],
    [asked({ temperature: 3 }), 'temperature'],
    ...['web_search', 'file_search', 'code_interpreter', 'mcp', 'image_generation', 'computer', 'custom'].map(
      (type): [unknown, string, RegExp] => [asked({ tools: [{ type }] }), 'tools[0].type', /`function`/],
    ),
    [asked({ tool_choice: { type: 'mcp', server_label: 'a' } }), 'tool_choice.type'],
    [asked({ tool_choice: { type: 'allowed_tools', mode: 'auto', tools: [] } }), 'tool_choice.type'],
    [asked({ tool_choice: 'required' }), 'tool_choice'],
    [asked({ text: { format: { type: 'grammar' } } }), 'text.format.type'],
    [asked({ text: { format: { type: 'json_schema', name: 'a' } } }), 'text.format.schema'],
    [
      asked({
        text: { format: { type: 'json_schema', name: 'a', schema: { type: 'object', properties: {} } } },
      }),
      'text.format',
    ],
    [item({ type: 'item_reference', id: 'msg_1' }), 'input[0].id', /nothing is stored; send the item itself/],
    [item({ type: 'item_reference' }), 'input[0]'],
    [item({ type: 'web_search_call', id: 'ws_1' }), 'input[0].type', /`message`, `function_call`/],
    [item({ id: 'msg_1' }), 'input[0].role'],
    [item({ role: 'robot', content: 'a' }), 'input[0].role', /`user`, `system`, `developer`, `assistant`/],
    [item({ type: 'function_call', name: 'a', arguments: '' }), 'input[0].call_id'],
    [
      item({ type: 'function_call_output', call_id: 'a', output: [{ type: 'input_image' }] }),
      'input[0].output[0].type',
    ],
    [item({ type: 'reasoning', id: 'rs_1', summary: [] }), 'input', /must hold a message/],
    [user({ type: 'input_file', file_id: 'file_1' }), 'input[0].content[0].type'],
    [
      user({ type: 'input_image', image_url: 'https://a.example', file_id: 'f' }),
      'input[0].content[0].file_id',
    ],
    [user({ type: 'input_image', image_url: 'ftp://a.example' }), 'input[0].content[0].image_url'],
    [user({ type: 'input_image', file_id: 'f' }), 'input[0].content[0].image_url'],
  ]
  for (const [body, param, message = /./] of rows) {
    const response = await gateway.post(PATH, body)
    const name = JSON.stringify(body).slice(0, 200)
    t.equal(response.status, 400, name)
    const error = { code: 'INVALID_REQUEST', type: 'request', param, message }
    t.match(await response.json(), { error }, name)
    t.match(response.headers.get('x-request-id'), /^req_/)
  }
  t.equal(gateway.upstream.received.length, 0, 'nothing was passed on')
  await assertStopsClean(t, gateway)
})

t.test('structured output, and answers that are cut', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const { upstream } = gateway
  const { openai } = doorClient(gateway)
  upstream.behave('all', { message: { content: '{"city":"Oslo"}' }, deltas: ['{"city":', '"Oslo"}'] })
  const schema = { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] }
  const format = { type: 'json_schema' as const, name: 'place', schema, strict: true }
  const parsed = await openai.responses.parse({ ...ASK, text: { format } })
  t.same(parsed.output_parsed, { city: 'Oslo' })
  const streamed = await openai.responses.stream({ ...ASK, text: { format } }).finalResponse()
  t.same(streamed.output_parsed, { city: 'Oslo' })
  t.match(streamed.text, { format })

  for (const [finishReason, reason] of [
    ['length', 'max_output_tokens'],
    ['content_filter', 'content_filter'],
  ] as const) {
    upstream.behave('all', { message: { content: 'half an' }, deltas: ['half ', 'an'], finishReason })
    for (const response of [
      await openai.responses.create(ASK),
      await openai.responses.stream(ASK).finalResponse(),
    ]) {
      t.match(response, {
        status: 'incomplete',
        incomplete_details: { reason },
        output: [{ type: 'message', status: 'incomplete', content: [{ text: 'half an' }] }],
        output_text: 'half an',
      })
    }
  }
  await assertStopsClean(t, gateway)
})

t.test('several functions in one answer, piece by piece', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  const { openai } = doorClient(gateway)
  const call = (piece: object) => ({ tool_calls: [piece] })
  gateway.upstream.behave('all', {
    finishReason: 'tool_calls',
    deltas: [
      call({ index: 0, id: 'c1', type: 'function', function: { name: 'weather', arguments: '' } }),
      call({ index: 0, function: { arguments: '{"city":' } }),
      'a moment, ',
      call({ index: 0, function: { arguments: '"Oslo"}' } }),
      call({ index: 1, id: 'c2', type: 'function', function: { name: 'time', arguments: '{}' } }),
      'please',
    ],
  })
  const tools = ['weather', 'time'].map((name) => ({ ...WEATHER, name }))
  const choice = { type: 'function' as const, name: 'time' }
  const stream = openai.responses.stream({ ...ASK, tools, tool_choice: choice })
  const done: unknown[] = []
  stream.on('response.function_call_arguments.done', (event) => void done.push(event.arguments))
  t.match((await stream.finalResponse()).output, [
    {
      type: 'function_call',
      call_id: 'c1',
      name: 'weather',
      arguments: '{"city":"Oslo"}',
      status: 'completed',
    },
    { type: 'message', content: [{ type: 'output_text', text: 'a moment, please' }] },
    { type: 'function_call', call_id: 'c2', name: 'time', arguments: '{}', status: 'completed' },
  ])
  t.same(done, ['{"city":"Oslo"}', '{}'])
  t.match(gateway.upstream.received.at(-1)?.body?.tool_choice, {
    type: 'function',
    function: { name: 'time' },
  })
  await assertStopsClean(t, gateway)
})

t.test('a stream that breaks off, and a client that leaves', async (t) => {
  const gateway = await startModelGateway(t, [ENTRY])
  gateway.upstream.behave('all', { deltas: ['one ', 'two ', 'three'], cutAfter: 2 })
  const { openai, headers } = doorClient(gateway)
  const seen: string[] = []
  const read = async () => {
    for await (const event of await openai.responses.create({ ...ASK, stream: true }))
      if (event.type === 'response.output_text.delta') seen.push(event.delta)
  }
  t.match(await rejected(read()), { code: 'UPSTREAM_ERROR', type: 'upstream' })
  t.same(seen, ['one ', 'two '])
  t.match(await rejected(openai.responses.stream(ASK).finalResponse()), { code: 'UPSTREAM_ERROR' })
  const instructions = 'x'.repeat(100_000)
  const events = await eventsOf(await gateway.post(PATH, { ...ASK, stream: true, instructions }))
  t.match(events.slice(-2), [
    { type: 'error', code: 'UPSTREAM_ERROR', param: null, error: { code: 'UPSTREAM_ERROR' } },
    { type: 'response.failed', response: { status: 'failed', error: { code: 'server_error' } } },
  ])
  for (const event of [events[0], events.at(-1)]) t.match(event, { response: { instructions } })
  t.match(await gateway.logLine(headers().get('x-request-id')), { error: 'UPSTREAM_ERROR' })

  gateway.upstream.behave('all', { deltas: Array.from({ length: 50 }, () => 'on and on '), chunkMs: 100 })
  for await (const event of await openai.responses.create({ ...ASK, stream: true }))
    if (event.type === 'response.output_text.delta') break
  t.match(await gateway.logLine(headers().get('x-request-id')), { error: 'CLIENT_CLOSED' })
  await assertStopsClean(t, gateway)
})
