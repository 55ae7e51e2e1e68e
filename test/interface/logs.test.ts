import t, { type Test } from 'tap'
import { RawClient } from '../support/raw-client.ts'
import { type RouteGateway, startRouteGateway } from '../support/route-gateway.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

const entry = (model: string) => ({
  provider: 'texts',
  model,
  capabilities: ['text'],
  price: { per_1m_input_tokens_usd: 1_000, per_1m_output_tokens_usd: 1_000 },
})
const MESSAGES = [{ role: 'user', content: 'good morning' }]

async function start(t: Test) {
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, {
    providers: { texts: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [entry('first'), entry('second')],
  })
  return { upstream, gateway }
}

/** Asks, and gives the line of the request with the bytes that came back. */
async function lineOf(gateway: RouteGateway, body: object, headers: Record<string, string> = {}) {
  const response = await gateway.post('/v1/chat', body, headers)
  const { length: bytes } = Buffer.from(await response.arrayBuffer())
  return { bytes, line: await gateway.logLine(response.headers.get('x-lk-request-id')) }
}

t.test('the line of a call', async (t) => {
  const { upstream, gateway } = await start(t)
  upstream.behave('first', { status: 500 })
  const body = { messages: MESSAGES }
  const { line, bytes } = await lineOf(gateway, body, { 'x-lk-request-id': 'my-own' })
  const { level, time, milliseconds, attempts, upstream_milliseconds: upstreamMs, ...rest } = line
  t.match({ level, time }, { level: 'info', time: /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/ })
  t.match(rest.policy_version_id, /^pv_[0-9a-f]{16}$/)
  t.same(rest, {
    request_id: 'my-own',
    method: 'POST',
    path: '/v1/chat',
    status: 200,
    received_bytes: JSON.stringify(body).length,
    sent_bytes: bytes,
    workspace: 'acme',
    app: 'web',
    key_id: 'key_web',
    route: 'main',
    policy_version_id: rest.policy_version_id,
    usage: { input_tokens: 11, output_tokens: 7, total_tokens: 18 },
    cost_usd: 0.018,
    msg: 'request',
  })
  const tried = attempts as Record<string, unknown>[]
  t.match(tried, [
    { provider: 'texts', model: 'first', status: 500, reason: 'the provider failed' },
    { provider: 'texts', model: 'second', status: 200, reason: 'ok' },
  ])
  for (const attempt of tried)
    t.same(Object.keys(attempt), ['provider', 'model', 'status', 'milliseconds', 'reason'])
  const sum = tried.reduce((ms, attempt) => ms + Number(attempt.milliseconds), 0)
  t.equal(upstreamMs, sum)
  t.ok(Number(milliseconds) + 2 >= sum, 'each is rounded')
})

t.test('a streamed answer has its first byte, too', async (t) => {
  const { upstream, gateway } = await start(t)
  upstream.behave('first', { deltas: ['a', 'b', 'c', 'd'], chunkMs: 150 })
  const { line, bytes } = await lineOf(gateway, { messages: MESSAGES, stream: true })
  const [first, whole] = [Number(line.first_byte_milliseconds), Number(line.milliseconds)]
  t.ok(first >= 140 && first + 300 < whole, `${first} of ${whole} ms`)
  t.equal(line.sent_bytes, bytes)
})

t.test('a purpose that nobody has declared is any text, and not logged', async (t) => {
  const { gateway } = await start(t)
  const { line } = await lineOf(gateway, { messages: MESSAGES, purpose: 'my own words' })
  t.equal(line.purpose_source, 'purpose_unknown')
  t.notMatch(JSON.stringify(line), 'my own words')
})

t.test('requests that no handler gets have their line', async (t) => {
  const { gateway } = await start(t)
  const rows = [
    ['GET', '/v1/nothing', 404, 'NOT_FOUND', undefined],
    ['PATCH', '/v1/chat', 405, 'METHOD_NOT_ALLOWED', undefined],
    ['POST', '/v1/chat', 401, 'UNAUTHENTICATED', '/v1/chat'],
    ['GET', '/results/secret', 404, 'NOT_FOUND', '/results/:token'],
    ['GET', '/docs/secret', 404, 'NOT_FOUND', '/docs/:file'],
  ] as const
  for (const [method, path, status, error, pattern] of rows) {
    const client = await RawClient.connect(gateway.port)
    await client.send(`${method} ${path} HTTP/1.1\r\nHost: a\r\n\r\n`)
    const response = await client.response()
    client.destroy()
    t.equal(response?.status, status)
    const line = await gateway.logLine(response?.headers['x-lk-request-id'])
    t.match(line, { method, status, error, received_bytes: 0, sent_bytes: response?.body.length })
    t.equal(line.path, pattern)
  }
  const client = await RawClient.connect(gateway.port)
  await client.send(
    'POST /v1/chat HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n',
  )
  await client.closes()
  client.destroy()
  const refused = () => gateway.log.some(({ msg, status }) => msg === 'request' && status === 400)
  t.ok(await waitUntil(refused), 'nor is one left out whose end is unknown')
})

t.test('probes have none', async (t) => {
  const { gateway } = await start(t)
  for (const path of ['/healthz', '/readyz']) t.equal((await fetch(gateway.url + path)).status, 200)
  await lineOf(gateway, { messages: MESSAGES })
  t.same(
    gateway.log.filter(({ msg }) => msg === 'request').map(({ path }) => path),
    ['/v1/chat'],
  )
})
