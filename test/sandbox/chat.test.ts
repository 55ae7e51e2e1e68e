import t from 'tap'
import { drawMorse } from '../../src/sandbox/picture.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { speak } from '../../src/sandbox/speak.ts'

const sandbox = await startSandbox()
t.teardown(() => sandbox.close())

async function post(path: string, body: object, headers: Record<string, string> = {}) {
  const response = await fetch(`${sandbox.url}${path}`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ model: 'morse-1', ...body }),
  })
  return { status: response.status, type: response.headers.get('content-type'), text: await response.text() }
}

async function ask(content: unknown, more: object = {}) {
  const { text } = await post('/chat/completions', { messages: [{ role: 'user', content }], ...more })
  return JSON.parse(text)
}

t.test('letters become Morse code and Morse code letters', async (t) => {
  t.match(await ask('Hi there'), {
    object: 'chat.completion',
    choices: [{ message: { content: '.... .. / - .... . .-. .' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: 2, completion_tokens: 6, total_tokens: 8 },
  })
  t.equal((await ask('.... .. / - .... . .-. .')).choices[0].message.content, 'hi there')
  t.equal((await ask('ÄÖ')).choices[0].message.content, '...', 'what Morse code lacks is left out')
})

t.test('what is in pictures and recordings is read', async (t) => {
  const picture = drawMorse('sos', 64, 64)?.toString('base64')
  const image = (url: string) => [{ type: 'image_url', image_url: { url } }]
  const seen = await ask(image(`data:image/png;base64,${picture}`))
  t.equal(seen.choices[0].message.content, '... --- ...')
  const other = await ask(image('data:image/jpeg;base64,/9j/4AAQ'))
  t.match(other.choices[0].message.content, /^-\.\.\.\./, 'begins with the number of its bytes')
  const data = speak('sos', 600, 1).toString('base64')
  const heard = await ask([{ type: 'input_audio', input_audio: { data, format: 'wav' } }])
  t.equal(heard.choices[0].message.content, '... --- ...')
})

t.test('several choices, and one call at a time', async (t) => {
  const { choices, usage } = await ask('sos', { n: 3 })
  t.match(
    choices,
    [0, 1, 2].map((index) => ({ index, message: { content: '... --- ...' } })),
  )
  t.equal(usage.completion_tokens, 9, 'of all of them')
  t.match(await post('/chat/completions', { messages: [{ role: 'user', content: 'a' }], n: 0 }), {
    status: 400,
  })
  const { text } = await post('/chat/completions', {
    ...{ messages: [{ role: 'user', content: 'sos' }], n: 2, stream: true },
  })
  const indexes = [...text.matchAll(/"index":(\d),"delta":\{"content":"---/g)].map(([, index]) => index)
  t.same(indexes, ['0', '1'])
  const tools = ['weather', 'time'].map((name) => ({ type: 'function', function: { name } }))
  const called = async (more: object) =>
    (await ask('weather and time', { tools, ...more })).choices[0].message.tool_calls.length
  t.equal(await called({}), 2)
  t.equal(await called({ parallel_tool_calls: false }), 1)
})

t.test('an answer is spoken, and cut at its limit', async (t) => {
  const spoken = await ask('... --- ...', {
    modalities: ['text', 'audio'],
    audio: { voice: 'alloy', format: 'wav' },
  })
  const audio = Buffer.from(spoken.choices[0].message.audio.data, 'base64')
  const form = new FormData()
  form.set('model', 'morse-1')
  form.set('file', new Blob([audio]), 'a.wav')
  const response = await fetch(`${sandbox.url}/audio/transcriptions`, { method: 'POST', body: form })
  t.match(await response.json(), { text: 'sos' })
  const cut = await ask('a long question', { max_completion_tokens: 2 })
  t.match(cut.choices[0], { finish_reason: 'length', message: { content: /^.{8}$/ } })
})

t.test('the answer is in JSON where that is asked for', async (t) => {
  const content = async (format: object) =>
    JSON.parse((await ask('sos', { response_format: format })).choices[0].message.content)
  const said = '... --- ...'
  t.same(await content({ type: 'json_object' }), { answer: said })
  const follows = (schema: object) => content({ type: 'json_schema', json_schema: { name: 'a', schema } })
  const [string, integer] = [{ type: 'string' }, { type: 'integer', minimum: 3 }]
  const node = {
    type: 'object',
    properties: { name: string, next: { anyOf: [{ $ref: '#/$defs/node' }, { type: 'null' }] } },
    required: ['next'],
  }
  for (const [schema, value] of [
    [{}, said],
    [{ type: 'array', items: integer }, [3]],
    [{ type: ['boolean', 'null'] }, true],
    [{ enum: ['b', 'c'] }, 'b'],
    [{ const: 7 }, 7],
    [
      { type: 'object', properties: { a: string, b: integer, c: integer }, required: ['c'] },
      { a: said, c: 3 },
    ],
    [{ type: 'array', items: { type: 'array', items: { $ref: '#' } } }, [[[[]]]]],
  ] as const)
    t.same(await follows(schema), value, JSON.stringify(schema))
  const held = await follows({ $defs: { node }, $ref: '#/$defs/node' })
  t.match(held, { name: said, next: { name: said } }, 'what holds itself ends')
  const names = Array.from({ length: 20 }, (_, at) => `a${at}`)
  const all = (part: object) => ({
    type: 'object',
    properties: Object.fromEntries(names.map((name) => [name, part])),
    required: names,
  })
  const levels = names.map((name, at) => [name, all({ $ref: `#/$defs/a${at + 1}` })])
  for (const schema of [all({ $ref: '#' }), { $defs: Object.fromEntries(levels), $ref: '#/$defs/a0' }]) {
    const response_format = { type: 'json_schema', json_schema: { name: 'a', schema } }
    const messages = [{ role: 'user', content: 'sos' }]
    t.equal(
      (await post('/chat/completions', { messages, response_format })).status,
      400,
      'no end, or one too far',
    )
  }
})

const tool = {
  type: 'function',
  function: {
    name: 'lamp',
    parameters: { type: 'object', properties: { say: { type: 'string' }, n: { type: 'integer' } } },
  },
}

t.test('tools are called when they are named or asked for', async (t) => {
  const rows: readonly [content: string, more: object, called: boolean][] = [
    ['use the lamp', { tools: [tool] }, true],
    ['hello', { tools: [tool] }, false],
    ['hello', { tools: [tool], tool_choice: 'required' }, true],
    ['hello', { tools: [tool], tool_choice: { type: 'function', function: { name: 'lamp' } } }, true],
    ['use the lamp', { tools: [tool], tool_choice: 'none' }, false],
  ]
  for (const [content, more, called] of rows) {
    const { message, finish_reason } = (await ask(content, more)).choices[0]
    t.equal(finish_reason, called ? 'tool_calls' : 'stop', JSON.stringify(more))
    if (!called) continue
    const [call] = message.tool_calls
    t.same(JSON.parse(call.function.arguments), { say: content })
  }
  const messages = [
    { role: 'user', content: 'use the lamp' },
    { role: 'tool', tool_call_id: 'x', content: 'ok' },
  ]
  const answered = JSON.parse((await post('/chat/completions', { messages, tools: [tool] })).text)
  t.equal(answered.choices[0].message.content, '--- -.-')
})

const streamed = async (body: object, headers?: Record<string, string>) => {
  const { text, type } = await post('/chat/completions', { stream: true, ...body }, headers)
  t.equal(type, 'text/event-stream; charset=utf-8')
  return text.split('\n\n').filter((event) => event !== '')
}

t.test('an answer is streamed word by word', async (t) => {
  const messages = [{ role: 'user', content: 'hi you' }]
  const events = await streamed({ messages, stream_options: { include_usage: true } })
  t.equal(events.pop(), 'data: [DONE]')
  const chunks = events.map((event) => JSON.parse(event.slice('data: '.length)))
  t.match(chunks.pop(), { choices: [], usage: { total_tokens: 8 } })
  const content = chunks.map((chunk) => chunk.choices[0].delta.content ?? '').join('')
  t.equal(content, '.... .. / -.-- --- ..-')
  t.equal(chunks.at(-1).choices[0].finish_reason, 'stop')
  const tools = await streamed({ messages, tools: [tool], tool_choice: 'required' })
  t.match(tools.join(), /"tool_calls":\[\{"index":0,"id":"call_/)
})

t.test('a stream is cut on order', async (t) => {
  const messages = [{ role: 'user', content: 'a b c d e f' }]
  await t.rejects(streamed({ messages }, { 'x-sandbox-cut': 'true' }))
})

t.test('completions, embeddings and what is refused', async (t) => {
  const { text } = await post('/completions', { prompt: 'sos' })
  t.match(JSON.parse(text), { object: 'text_completion', choices: [{ text: '... --- ...' }] })
  const body = { prompt: 'sos', stream: true }
  t.notMatch((await post('/completions', body)).text, '"usage"')
  t.match((await post('/completions', { ...body, stream_options: { include_usage: true } })).text, '"usage"')
  const vectors = async (input: unknown, more: object = {}) =>
    JSON.parse((await post('/embeddings', { input, ...more })).text).data.map(
      ({ embedding }: { embedding: unknown }) => embedding,
    )
  const [a, b, c] = await vectors(['the cat sat', 'the cat sits', 'quantum physics'])
  const dot = (x: number[], y: number[]) => x.reduce((sum, value, at) => sum + value * (y[at] ?? 0), 0)
  t.ok(dot(a, b) > 2 * dot(a, c), 'what is alike is close')
  t.ok(Math.abs(dot(a, a) - 1) < 1e-6)
  const [packed] = await vectors('the cat sat', { encoding_format: 'base64', dimensions: 256 })
  const floats = new Float32Array(Uint8Array.from(Buffer.from(packed, 'base64')).buffer)
  t.same([...floats], a)
  const refused: readonly [path: string, body: object][] = [
    ['/chat/completions', { messages: [] }],
    ['/chat/completions', { messages: [{ role: 'user', content: [{ type: 'file' }] }] }],
    ['/completions', {}],
    ['/embeddings', { input: [] }],
    ['/embeddings', { input: 'a', dimensions: 0 }],
    ['/images/generations', { prompt: 'ÄÖ' }],
    ['/images/generations', { prompt: 'a', size: '1x1' }],
    ['/images/generations', { prompt: 'a', output_format: 'webp' }],
    ['/videos', { prompt: 'a', seconds: '5' }],
  ]
  for (const [path, body] of refused)
    t.equal((await post(path, body)).status, 400, `${path} ${JSON.stringify(body)}`)
  t.equal((await post('/embeddings', { model: 'whisper-1', input: 'a' })).status, 404)
})
