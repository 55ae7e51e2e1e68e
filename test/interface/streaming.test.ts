import t from 'tap'
import { eventsOf, readEvents } from '../support/event-source.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { type ModelEntry, type ModelGateway, startModelGateway } from './model-gateway.ts'

const HELLO = [{ role: 'user', content: 'hello' }]
const TOOL = { type: 'function', function: { name: 'look' } }
const CAPABILITIES = ['text', 'completion', 'vision', 'function_calling', 'audio_output']
const FIRST: ModelEntry = { model: 'first', capabilities: CAPABILITIES }
const SECOND: ModelEntry = { model: 'second', capabilities: CAPABILITIES }

const idOf = (response: Response) => response.headers.get('x-lk-request-id')
const ask = (gateway: ModelGateway, fields: object = {}, init: RequestInit = {}) =>
  gateway.post('/v1/chat', { messages: HELLO, stream: true, ...fields }, init)

t.test('a streamed chat: pieces, the whole envelope, the end', async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  const response = await ask(gateway, { seed: 4, unknown: 1 })
  t.equal(response.status, 200)
  t.match(Object.fromEntries(response.headers), {
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-lk-policy-version-id': /^pv_/,
    'x-ratelimit-remaining-requests': /^\d+$/,
  })
  t.equal(response.headers.get('content-length'), null)
  t.same(await eventsOf(response), [
    { type: 'delta', content: 'strea' },
    { type: 'delta', content: 'med ' },
    { type: 'delta', content: 'answer' },
    {
      type: 'done',
      id: idOf(response),
      provider: 'models',
      model: 'first',
      policy_version_id: response.headers.get('x-lk-policy-version-id'),
      lk_requested_purpose: null,
      lk_applied_purpose: null,
      lk_purpose_source: 'none',
      content: 'streamed answer',
      content_blocks: [],
      usage: { input_tokens: 11, output_tokens: 7, total_tokens: 18 },
      cost_usd: null,
      determinism: { seed_honored: true },
      tool_calls: [],
      finish_reason: 'stop',
      warnings: ['unknown: unknown field, ignored', 'cost_usd: the price of this model is not known'],
    },
    '[DONE]',
  ])
  t.match(await gateway.logLine(idOf(response)), {
    status: 200,
    usage: { total_tokens: 18 },
    attempts: [{ model: 'first', status: 200, reason: 'ok' }],
    error: undefined,
  })
  await assertStopsClean(t, gateway)
})

t.test('tool calls, speech, and text that looks like the frame', async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  const part = (index: number, call: object) => ({ tool_calls: [{ index, ...call }] })
  gateway.upstream.behave('first', {
    deltas: [
      part(0, { id: 'call_1', type: 'function', function: { name: 'look', arguments: '' } }),
      part(0, { function: { arguments: '{"at"' } }),
      part(1, { id: 'call_2', type: 'function', function: { name: 'wait', arguments: '{}' } }),
      part(0, { function: { arguments: ':1}' } }),
    ],
    finishReason: 'tool_calls',
  })
  const call = (index: number, id: string | null, name: string | null, json: string) => ({
    type: 'tool_call_delta',
    index,
    id,
    name,
    arguments: json,
  })
  const calls = await eventsOf(await ask(gateway, { tools: [TOOL] }))
  t.same(calls.slice(0, 4), [
    call(0, 'call_1', 'look', ''),
    call(0, null, null, '{"at"'),
    call(1, 'call_2', 'wait', '{}'),
    call(0, null, null, ':1}'),
  ])
  t.match(calls.slice(4), [
    {
      finish_reason: 'tool_calls',
      tool_calls: [
        { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{"at":1}' } },
        { id: 'call_2', type: 'function', function: { name: 'wait', arguments: '{}' } },
      ],
    },
    '[DONE]',
  ])

  const sound = Buffer.from('sound')
  gateway.upstream.behave('first', { deltas: [{ audio: { data: sound.toString('base64') } }] })
  const spoken = await eventsOf(await ask(gateway, { modalities: ['audio'], audio: { format: 'pcm' } }))
  t.match(spoken, [
    { type: 'audio_delta', base64: sound.toString('base64') },
    { type: 'done', content_blocks: [{ type: 'output_audio', base64: sound.toString('base64') }] },
    '[DONE]',
  ])

  const tricky = ['\n\ndata: [DONE]\n\n', '\r\r', '\u2028\u0000', '🐦']
  gateway.upstream.behave('first', { deltas: tricky })
  const framed = await eventsOf(await ask(gateway))
  t.same(
    framed.slice(0, 4),
    tricky.map((content) => ({ type: 'delta', content })),
  )
  t.match(framed.slice(4), [{ type: 'done', content: tricky.join('') }, '[DONE]'])
})

t.test('completion and vision stream as well, and what does not stream comes as one piece', async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  const rows: [string, object][] = [
    ['/v1/complete', { prompt: 'once upon', stream: true }],
    ['/v1/vision', { prompt: 'what', images: ['https://example.com/a.png'], stream: true }],
  ]
  for (const [path, body] of rows) {
    const events = await eventsOf(await gateway.post(path, body))
    t.match(events, [
      {},
      {},
      { type: 'delta', content: 'answer' },
      { type: 'done', content: 'streamed answer' },
      '[DONE]',
    ])
    t.match(gateway.upstream.received.at(-1)?.body, { stream: true })
  }

  // OpenAI streams speech as pcm only.
  const audio = { data: Buffer.from('whole').toString('base64'), transcript: 'hello' }
  gateway.upstream.behave('first', { message: { audio } })
  const events = await eventsOf(await ask(gateway, { modalities: ['audio'], audio: { format: 'mp3' } }))
  t.notMatch(gateway.upstream.received.at(-1)?.body, { stream: true })
  t.ok(events.some((event) => typeof event === 'object' && event.base64 === audio.data))
  t.match(events.slice(-2), [{ type: 'done', content: 'hello' }, '[DONE]'])
})

t.test('pieces leave when they come', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  gateway.upstream.behave('first', { chunkMs: 500, deltas: ['a', 'b', 'c', 'd'] })
  const times: number[] = []
  for await (const { atMs } of readEvents((await ask(gateway)).body!)) times.push(atMs)
  t.equal(times.length, 6)
  t.ok(times[3]! - times[0]! > 1_000, `${times.map((ms) => Math.round(ms - times[0]!))}`)
})

t.test('a large answer', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  const piece = 'Grüße 🐦 '.repeat(5_000)
  gateway.upstream.behave('first', { deltas: Array(60).fill(piece) })
  const events = await eventsOf(await ask(gateway))
  t.equal(events.length, 62)
  const done = events[60] as { content: string }
  t.ok(done.content === piece.repeat(60))
  await assertStopsClean(t, gateway)
})

t.test('before the first piece another entry takes over, or the refusal is plain JSON', async (t) => {
  const gateway = await startModelGateway(t, [FIRST, SECOND])
  for (const trouble of [{ status: 500 }, { status: 429 }, { cutAfter: 0 }]) {
    gateway.upstream.behave('first', trouble)
    const response = await ask(gateway)
    const events = await eventsOf(response)
    t.match(events.slice(-2), [{ type: 'done', model: 'second', content: 'streamed answer' }, '[DONE]'])
    t.match((await gateway.logLine(idOf(response))).attempts, [
      { model: 'first' },
      { model: 'second', status: 200 },
    ])
  }
  gateway.upstream.behave('second', { status: 500 })
  const refused = await ask(gateway)
  t.equal(refused.status, 502)
  t.equal(refused.headers.get('content-type'), 'application/json')
  t.match(await refused.json(), { error: { code: 'UPSTREAM_ERROR', retryable: true } })
})

t.test('a break behind the first piece is an event, and no end follows', async (t) => {
  const gateway = await startModelGateway(t, [FIRST, SECOND])
  gateway.upstream.behave('first', { cutAfter: 2, chunkMs: 20 })
  const response = await ask(gateway)
  t.equal(response.status, 200)
  const events = await eventsOf(response)
  t.match(events, [
    { type: 'delta', content: 'strea' },
    { type: 'delta', content: 'med ' },
    {
      type: 'error',
      error: { code: 'UPSTREAM_ERROR', category: 'upstream', retryable: true, request_id: idOf(response) },
    },
  ])
  t.equal(events.length, 3)
  t.match(await gateway.logLine(idOf(response)), {
    status: 200,
    error: 'UPSTREAM_ERROR',
    usage: { input_tokens: 2, output_tokens: 1_000 },
    estimated: true,
  })
  t.equal(gateway.upstream.received.length, 1, 'no one else was asked')
  await assertStopsClean(t, gateway)
})

t.test('the deadline holds for streams too', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [FIRST], { config: { deadline_seconds: 2 } })
  gateway.upstream.behave('first', { chunkMs: 600, deltas: Array(50).fill('x') })
  const events = await eventsOf(await ask(gateway))
  t.match(events.at(-1), { type: 'error', error: { code: 'UPSTREAM_TIMEOUT' } })
  t.ok(await waitUntil(() => gateway.upstream.received[0]?.state === 'left'))
})

t.test('a client that leaves ends the call at the provider', { timeout: 60_000 }, async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  gateway.upstream.behave('first', { chunkMs: 100, deltas: Array(500).fill('x') })
  for (const pieces of [0, 1, 3]) {
    const before = gateway.upstream.received.length
    const leaving = new AbortController()
    const asked = ask(
      gateway,
      {},
      { signal: leaving.signal, headers: { 'x-lk-request-id': `leaver-${pieces}` } },
    )
    asked.catch(() => {})
    if (pieces === 0) {
      await waitUntil(() => gateway.upstream.received.length > before)
    } else {
      let seen = 0
      for await (const _ of readEvents((await asked).body!)) if (++seen === pieces) break
    }
    leaving.abort()
    const call = () => gateway.upstream.received[before]
    t.ok(await waitUntil(() => call()?.state === 'left'), `after ${pieces} pieces`)
    t.match(await gateway.logLine(`leaver-${pieces}`), {
      status: pieces === 0 ? 499 : 200,
      error: 'CLIENT_CLOSED',
      usage: { input_tokens: 2, output_tokens: 1_000 },
      estimated: true,
    })
  }
  await assertStopsClean(t, gateway)
})

t.test('a slow reader holds up the provider, not the memory', { timeout: 120_000 }, async (t) => {
  const gateway = await startModelGateway(t, [FIRST])
  const piece = 'x'.repeat(10_000)
  const pieces = 3_000
  gateway.upstream.behave('first', {
    deltas: (function* () {
      for (let i = 0; i < pieces; i++) yield piece
    })(),
  })
  const body = JSON.stringify({ messages: HELLO, stream: true })
  const client = await RawClient.connect(gateway.port)
  client.socket.pause()
  await client.send(
    `POST /v1/chat HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${gateway.key}\r\n` +
      `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
  )
  const written = () => gateway.upstream.received[0]?.written ?? 0
  let last = -1
  const stalled = await waitUntil(async () => {
    await new Promise((resolve) => setTimeout(resolve, 700))
    const moved = written() !== last
    last = written()
    return !moved && last > 0
  }, 30_000)
  t.ok(stalled, 'the provider waits')
  t.ok(last < (pieces * piece.length) / 2, `${last} bytes were written by then`)

  let received = 0
  let tail = ''
  const ended = new Promise<void>((resolve) => {
    client.socket.on('data', (chunk: Buffer) => {
      received += chunk.length
      tail = (tail + chunk.toString('latin1')).slice(-200)
      if (tail.includes('data: [DONE]')) resolve()
    })
  })
  client.socket.resume()
  await ended
  t.ok(received > 2 * pieces * piece.length, 'pieces, and the whole at the end')
  client.destroy()
  await assertStopsClean(t, gateway)
})
