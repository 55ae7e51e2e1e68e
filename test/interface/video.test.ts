import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { startSandbox } from '../../src/sandbox/server.ts'
import { noise } from '../support/bodies.ts'
import { sha256 } from '../support/digests.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { type RouteGateway, secret, startRouteGateway } from '../support/route-gateway.ts'
import { withoutServers } from '../support/servers.ts'
import { sharedS3 } from '../support/shared-s3.ts'
import type { Script } from '../support/upstream/dialect.ts'
import { geminiDialect } from '../support/upstream/gemini.ts'
import { VIDEO } from '../support/upstream/openai-videos.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

type Answer = Record<string, unknown> & {
  content_blocks: { type: string; url?: string; base64?: string; media_type: string }[]
  error?: Record<string, unknown> & { details: Record<string, unknown> }
}

const entry = (model: string, more: object = {}) => ({
  provider: 'films',
  model,
  capabilities: ['video_generation'],
  price: { per_video_second_usd: 0.1 },
  ...more,
})
const FIRST = entry('first')
const SECOND = entry('second')

/** Orders are looked at, and what was made is fetched again, as soon as a test can. */
const TIMING = { calls: { pollMs: 100, resendMs: 50 } }

interface Options {
  readonly config?: Readonly<Record<string, unknown>>
  readonly env?: Readonly<Record<string, string>>
}

async function start(t: Test, entries: readonly Readonly<Record<string, unknown>>[], given: Options = {}) {
  const upstream = await startUpstream(t)
  const providers = {
    films: { kind: 'openai-compatible', base_url: upstream.url, api_key: secret('FILMS_KEY') },
  }
  const env = { FILMS_KEY: 'films-key', ...given.env }
  const gateway = await startRouteGateway(t, { providers, entries, timing: TIMING, ...given, env })
  return { upstream, gateway }
}

const film = (gateway: RouteGateway, fields: object = {}, headers: Record<string, string> = {}) =>
  gateway.post('/v1/video', { prompt: 'a lark', ...fields }, headers)
const answerOf = async (response: Response) => (await response.json()) as Answer

async function keptIn({ dataFolder }: RouteGateway): Promise<string[]> {
  return [...(await readdir(join(dataFolder, 'result'))), ...(await readdir(join(dataFolder, 'tmp')))]
}

t.test(
  'a film of the sandbox: ordered, polled for, fetched, opened by its URL',
  { timeout: 60_000 },
  async (t) => {
    const sandbox = await startSandbox()
    t.teardown(() => sandbox.close())
    const providers = { sandbox: { kind: 'sandbox', base_url: sandbox.url } }
    const entries = [{ provider: 'sandbox', model: 'morse-1', price: { per_video_second_usd: 0.5 } }]
    const gateway = await startRouteGateway(t, { providers, entries, timing: TIMING })
    const response = await film(gateway, { prompt: 'sos', duration_seconds: 8, size: '64x32', seed: 3 })
    t.equal(response.status, 200)
    const answer = await answerOf(response)
    t.match(answer, {
      id: response.headers.get('x-lk-request-id'),
      provider: 'sandbox',
      model: 'morse-1',
      policy_version_id: response.headers.get('x-lk-policy-version-id'),
      content: '',
      content_blocks: [{ type: 'output_video', media_type: 'video/quicktime' }],
      usage: { video_seconds: 8, total_tokens: 0 },
      cost_usd: 4,
      determinism: { seed_honored: false },
      lk_purpose_source: 'none',
      warnings: [],
    })
    t.match(await gateway.logLine(answer.id as string), {
      path: '/v1/video',
      usage: { video_seconds: 8 },
      cost_usd: 4,
      attempts: [{ provider: 'sandbox', status: 200, reason: 'ok' }],
    })

    const { url = '' } = answer.content_blocks[0] ?? {}
    t.match(
      url,
      /^\/results\/[A-Za-z0-9_-]+\.[A-Za-z0-9_-]{43}$/,
      'a path: the node was not told its address',
    )
    const opened = await fetch(gateway.url + url)
    t.equal(opened.status, 200)
    t.equal(opened.headers.get('content-type'), 'video/quicktime')
    const bytes = Buffer.from(await opened.arrayBuffer())
    t.same(
      [bytes.toString('latin1', 4, 12), bytes.includes('moov'), bytes.includes('png ')],
      ['ftypqt  ', true, true],
    )
    const [kept = ''] = await keptIn(gateway)
    await rm(join(gateway.dataFolder, 'result', kept))
    const gone = await fetch(gateway.url + url)
    t.equal(gone.status, 404)
    t.match(await gone.json(), { error: { code: 'NOT_FOUND' } })

    const mute = await answerOf(await film(gateway, { prompt: '%%%' }))
    t.match(mute.error, { code: /^UPSTREAM_/ }, 'what the job itself says is an error')
    await assertStopsClean(t, gateway)
  },
)

t.test('what is sent on, and what comes back', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [FIRST], {
    env: { LARKWAY_PUBLIC_URL: 'https://lark.example' },
  })
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
  const answer = await answerOf(
    await film(gateway, { size: '720x1280', model: 'mine', fps: 30 }, { traceparent }),
  )
  t.match(answer, { usage: { video_seconds: 4 }, cost_usd: 0.4, warnings: ['fps: unknown field, ignored'] })
  t.match(answer.content_blocks, [{ url: /^https:\/\/lark\.example\/results\// }])
  t.same(upstream.lines(), ['POST /videos', 'GET /videos/video_0/content?variant=video'])
  t.match(upstream.received[0]?.body, { model: 'first', prompt: 'a lark', size: '720x1280' })
  for (const request of upstream.received)
    t.match(request.headers, { authorization: 'Bearer films-key', traceparent }, request.path)

  const rows: [Script, string][] = [
    [{ contentType: 'video/webm; codecs=vp9' }, 'video/webm'],
    [{ contentType: 'application/octet-stream' }, 'video/mp4'],
    [{ contentType: 'text/html' }, 'video/mp4'],
  ]
  for (const [behaviour, mediaType] of rows) {
    upstream.behave('first', behaviour)
    const { content_blocks: blocks } = await answerOf(await film(gateway))
    t.equal(blocks[0]?.media_type, mediaType)
    const opened = await fetch(gateway.url + new URL(blocks[0]?.url ?? '').pathname)
    t.equal(opened.headers.get('content-type'), mediaType, 'never what could be a page')
    t.equal(sha256(new Uint8Array(await opened.arrayBuffer())), sha256(VIDEO))
  }
  await assertStopsClean(t, gateway)
})

t.test('films that come as URLs or as base64', { timeout: 60_000 }, async (t) => {
  const url = 'https://films.example/lark.mp4?sig=x'
  const runway = await serveHttp(t, (request, response) => {
    request.resume()
    const task = { id: 't1', status: 'SUCCEEDED', output: [url], cost: { credits: 25 } }
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(request.method === 'POST' ? { id: 't1' } : task))
  })
  // Longer than the slices in which a large member goes out.
  const data = noise(200_000).toString('base64')
  const steps = [{ type: 'model_output', content: [{ type: 'video', data, mime_type: 'video/mp4' }] }]
  const interaction = { json: { id: 'v1', status: 'completed', steps } }
  const gemini = await startUpstream(t, { dialect: geminiDialect({ 'POST /interactions': [interaction] }) })
  const providers = {
    runway: { kind: 'runway', base_url: runway, api_key: secret('RUNWAY_KEY') },
    gemini: { kind: 'gemini', base_url: gemini.url, api_key: secret('GEMINI_KEY') },
  }
  const env = { RUNWAY_KEY: 'key', GEMINI_KEY: 'AIza-good' }
  const byUrl = await startRouteGateway(t, {
    providers,
    entries: [{ provider: 'runway', model: 'gen4.5' }],
    env,
    timing: TIMING,
  })
  t.match(await answerOf(await film(byUrl)), {
    content_blocks: [{ type: 'output_video', url, media_type: 'video/mp4' }],
    usage: { video_seconds: null, credits: 25 },
    cost_usd: 0.25,
  })
  const omni = { provider: 'gemini', model: 'gemini-omni-1.1-flash', capabilities: ['video_generation'] }
  const inline = await startRouteGateway(t, { providers, entries: [omni], env, timing: TIMING })
  const { content_blocks: blocks } = await answerOf(await film(inline, { duration_seconds: 5 }))
  t.equal(blocks[0]?.type, 'output_video')
  t.ok(blocks[0]?.base64 === data)
  for (const gateway of [byUrl, inline]) {
    t.same(await keptIn(gateway), [], 'nothing is kept of them')
    await assertStopsClean(t, gateway)
  }
})

t.test(
  'under `retention: zero` a film that only our key opens is in the answer',
  { timeout: 60_000 },
  async (t) => {
    const upstream = await startUpstream(t)
    const films = { kind: 'openai-compatible', base_url: upstream.url, api_key: secret('FILMS_KEY') }
    const gateway = await startRouteGateway(t, {
      providers: { films: { ...films, retention: 'zero' } },
      entries: [FIRST],
      env: { FILMS_KEY: 'films-key' },
      timing: TIMING,
    })
    for (const [fields, headers] of [
      [{}, { 'x-lk-require': 'retention=zero' }],
      [{ require: { retention: 'zero' } }, {}],
    ] as const) {
      const { content_blocks: blocks, usage } = await answerOf(await film(gateway, fields, headers))
      t.match(blocks, [{ type: 'output_video', media_type: 'video/mp4', url: undefined }])
      t.equal(sha256(Buffer.from(blocks[0]?.base64 ?? '', 'base64')), sha256(VIDEO))
      t.match(usage, { video_seconds: 4 })
    }
    t.same(await keptIn(gateway), [], 'nothing is kept of it')
    upstream.behave('first', { video: { content: ['empty'] } })
    t.match((await answerOf(await film(gateway, {}, { 'x-lk-require': 'retention=zero' }))).error, {
      code: 'UPSTREAM_OUTCOME_UNKNOWN',
    })
    t.match((await answerOf(await film(gateway))).error, { code: 'UPSTREAM_OUTCOME_UNKNOWN' })
    await assertStopsClean(t, gateway)
  },
)

t.test('what no entry makes is refused by name, and only then', { timeout: 60_000 }, async (t) => {
  const [short, large] = [{ video_seconds: [4, 8] }, { video_seconds: [20], video_sizes: ['1920x1080'] }]
  const entries = [entry('first', { limits: short }), entry('second', { limits: large })]
  const { gateway, upstream } = await start(t, entries)
  const rows: [object, string][] = [
    [{ duration_seconds: 8, size: '64x64' }, 'first'],
    [{ duration_seconds: 20 }, 'second'],
    [{ duration_seconds: 20, size: '1920x1080' }, 'second'],
    [{}, 'first'],
    [{ duration_seconds: null, size: null, seed: null, purpose: null }, 'first'],
  ]
  for (const [fields, model] of rows)
    t.equal((await answerOf(await film(gateway, fields))).model, model, JSON.stringify(fields))
  const orders = upstream.lines().length
  const refused: [object, string][] = [
    [{ duration_seconds: 5 }, 'duration_seconds'],
    [{ duration_seconds: 20, size: '64x64' }, 'duration_seconds'],
    [{ duration_seconds: 0 }, 'duration_seconds'],
    [{ duration_seconds: '8' }, 'duration_seconds'],
    [{ duration_seconds: 3601 }, 'duration_seconds'],
    [{ size: '1080p' }, 'size'],
    [{ size: '0x720' }, 'size'],
    [{ size: '720X1280' }, 'size'],
    [{ seed: 1.5 }, 'seed'],
    [{ prompt: '' }, 'prompt'],
    [{ prompt: undefined }, 'prompt'],
  ]
  for (const [fields, param] of refused) {
    const response = await film(gateway, fields)
    const { error } = await answerOf(response)
    const shown = [response.status, error?.code, error?.param, error?.retryable]
    t.same(shown, [400, 'INVALID_REQUEST', param, false], JSON.stringify(fields))
  }
  t.equal(upstream.lines().length, orders, 'no provider was asked')

  const talking = await start(t, [
    { provider: 'films', model: 'first', capabilities: ['text', 'audio_output'] },
  ])
  const response = await film(talking.gateway)
  t.equal(response.status, 503)
  t.match((await answerOf(response)).error, { code: 'NO_HEALTHY_PROVIDER', retryable: false })
})

t.test('an order that may have been taken is not given again', { timeout: 120_000 }, async (t) => {
  const rows: [string, Script][] = [
    ['the connection breaks', { fate: 'cut' }],
    ['no answer comes', { fate: 'hang' }],
    ['something in between has no answer', { status: 502 }],
    ['it is not done in time', { video: { polls: 100 } }],
  ]
  for (const [name, behaviour] of rows) {
    const { gateway, upstream } = await start(t, [FIRST, SECOND], { config: { video_deadline_seconds: 3 } })
    upstream.behave('first', behaviour)
    const response = await film(gateway)
    t.equal(response.status, 504, name)
    t.equal(response.headers.get('x-should-retry'), 'false', name)
    const { error } = await answerOf(response)
    t.match(error, { code: 'UPSTREAM_OUTCOME_UNKNOWN', retryable: false }, name)
    t.match(error?.details, { policy_version_id: /^pv_/, attempts: [{ model: 'first' }] }, name)
    t.equal(upstream.lines().filter((line) => line === 'POST /videos').length, 1, name)
    // The end of the poll is told to the provider; it goes on behind the answer.
    if (name === 'it is not done in time')
      t.ok(await waitUntil(() => upstream.lines().includes('DELETE /videos/video_0')), name)
    await assertStopsClean(t, gateway)
  }
})

t.test('an order that was refused is given to the next', { timeout: 60_000 }, async (t) => {
  const moderated = { code: 'moderation_blocked', message: 'no' }
  for (const behaviour of [{ status: 500 }, { status: 429 }, { status: 404 }, { status: 401 }] as const) {
    const { gateway, upstream } = await start(t, [FIRST, SECOND])
    upstream.behave('first', behaviour)
    t.equal((await answerOf(await film(gateway))).model, 'second', JSON.stringify(behaviour))
    t.equal(upstream.lines().filter((line) => line === 'POST /videos').length, 2)
  }
  const { gateway, upstream } = await start(t, [FIRST, SECOND])
  upstream.behave('first', { video: { polls: 1, failure: { code: 'server_error', message: 'no' } } })
  t.equal((await answerOf(await film(gateway))).model, 'second', 'a job that failed made nothing')
  for (const behaviour of [{ status: 400 }, { video: { failure: moderated } }]) {
    upstream.behave('first', behaviour)
    const response = await film(gateway)
    t.equal(response.status, 422, JSON.stringify(behaviour))
    const text = await response.text()
    t.match(JSON.parse(text), { error: { code: 'UPSTREAM_REJECTED' } })
    t.notMatch(text, /sk-secret/)
  }
  await assertStopsClean(t, gateway)
})

t.test('who leaves while it is made takes the order back', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [FIRST, SECOND])
  upstream.behave('first', { video: { polls: 100 } })
  const body = { headers: { 'content-type': 'application/json' }, body: '{"prompt":"a lark"}' }
  const client = await gateway.send('/v1/video', body)
  t.ok(await waitUntil(() => upstream.lines().includes('GET /videos/video_0')), 'it is polled for')
  client.destroy()
  t.ok(await waitUntil(() => upstream.lines().includes('DELETE /videos/video_0')))
  t.match(upstream.received.at(-1), { method: 'DELETE', headers: { authorization: 'Bearer films-key' } })
  const line = () => gateway.log.find(({ msg, status }) => msg === 'request' && status === 499)
  t.ok(await waitUntil(() => line() !== undefined))
  t.equal(upstream.lines().filter((text) => text === 'POST /videos').length, 1)

  // And while the finished one is fetched: its connection is not kept, and nothing stays in the store.
  for (const content of [
    { video: { bytes: noise(40 * 256 * 1024) }, chunkMs: 100 },
    { video: { content: [500] } },
  ]) {
    upstream.behave('first', content)
    const fetches = () => upstream.received.filter(({ path }) => path.includes('/content'))
    const before = fetches().length
    const leaver = await gateway.send('/v1/video', body)
    t.ok(await waitUntil(() => fetches().length > before))
    leaver.destroy()
    t.ok(await waitUntil(() => fetches().at(-1)?.state !== 'answering'))
    const left = () => gateway.log.filter(({ msg, status }) => msg === 'request' && status === 499)
    t.ok(await waitUntil(async () => left().length > 1 && (await keptIn(gateway)).length === 0))
  }
  await assertStopsClean(t, gateway)
})

t.test('a film that was made is fetched again and again', { timeout: 120_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [FIRST, SECOND], { env: { LARKWAY_MEMORY_MIB: '16' } })
  const large = noise(23 * 1024 * 1024)
  upstream.behave('first', { video: { content: [500, 'half', 'good'], bytes: large } })
  const { content_blocks: blocks } = await answerOf(await film(gateway))
  const opened = await fetch(gateway.url + blocks[0]?.url)
  t.equal(sha256(new Uint8Array(await opened.arrayBuffer())), sha256(large))
  t.equal((await keptIn(gateway)).length, 1, 'the halves are gone')

  for (const content of [['empty'], ['cut', 'half', 403]] as const) {
    upstream.behave('first', { video: { content } })
    const response = await film(gateway)
    t.equal(response.status, 504, content.join())
    const { error } = await answerOf(response)
    t.match(error, { code: 'UPSTREAM_OUTCOME_UNKNOWN', retryable: false, message: /made/ }, content.join())
    t.match(error?.details, { policy_version_id: /^pv_/ })
    const line = await gateway.logLine(response.headers.get('x-lk-request-id'))
    t.match(
      line,
      { usage: { video_seconds: 4 }, cost_usd: 0.4, error: 'UPSTREAM_OUTCOME_UNKNOWN' },
      'it costs',
    )
  }
  t.equal(upstream.lines().filter((line) => line === 'POST /videos').length, 3, 'no other was ordered')
  t.equal((await keptIn(gateway)).length, 1)
  await assertStopsClean(t, gateway)
})

t.test('a store that fails is not the provider’s fault', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [FIRST])
  upstream.behave('first', { video: { bytes: noise(20 * 1024 * 1024) } })
  await rm(join(gateway.dataFolder, 'tmp'), { recursive: true })
  const response = await film(gateway)
  t.equal(response.status, 503)
  t.match((await answerOf(response)).error, { code: 'DEPENDENCY_UNAVAILABLE' })
  t.ok(
    await waitUntil(() => upstream.received.at(-1)?.state !== 'answering'),
    'its answer is not left hanging',
  )
  await gateway.signal('SIGTERM')
})

t.test('in an S3 store the URL is the store’s own', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const { endpoint, region, bucket, accessKeyId, secretAccessKey } = await sharedS3(t)
  const env = {
    S3_ENDPOINT: endpoint,
    S3_REGION: region,
    S3_BUCKET: bucket,
    S3_ACCESS_KEY_ID: accessKeyId,
    S3_SECRET_ACCESS_KEY: secretAccessKey,
  }
  const { gateway, upstream } = await start(t, [FIRST], { env })
  const large = noise(12 * 1024 * 1024 + 7)
  upstream.behave('first', { video: { bytes: large } })
  const { content_blocks: blocks } = await answerOf(await film(gateway))
  const url = new URL(blocks[0]?.url ?? '')
  t.equal(url.origin, endpoint)
  t.match(url.pathname, /\/result\/acme\/vid_[0-9a-z]+\/0$/)
  t.equal(url.searchParams.get('X-Amz-Expires'), '86400')
  t.notMatch(url.href, secretAccessKey)
  const opened = await fetch(url)
  t.same([opened.status, opened.headers.get('content-type')], [200, 'video/mp4'])
  t.equal(sha256(new Uint8Array(await opened.arrayBuffer())), sha256(large))
  const part = await fetch(url, { headers: { range: 'bytes=5-9' } })
  t.same([part.status, Buffer.from(await part.arrayBuffer())], [206, large.subarray(5, 10)])
  url.searchParams.set('X-Amz-Signature', '0'.repeat(64))
  t.equal((await fetch(url)).status, 403)
  t.equal((await fetch(`${gateway.url}/results/x.y`)).status, 404, 'the node itself serves none')
  await assertStopsClean(t, gateway)
})
