import { createHmac } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import t, { type Test } from 'tap'
import { DEFAULT_LIMITS } from '../../src/contracts/limits.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { factsOf } from '../../src/gateway/providers/facts.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { programStream } from '../gateway/media/program-stream.ts'
import { startGateway } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { RawClient } from '../support/raw-client.ts'
import { type RouteGateway, secret, startRouteGateway, startRouteProcess } from '../support/route-gateway.ts'
import { ELEVENLABS_KEY, elevenlabsDialect } from '../support/upstream/elevenlabs.ts'
import { TRANSCRIPTION_ENTRY } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { answering, startReceiver } from '../support/webhook-receiver.ts'

/** One second. */
const WAV = filledWav(32_044, 1)
const AUDIO = { base64: WAV.toString('base64') }
const JSON_TYPE = { 'content-type': 'application/json' }

type Fields = Readonly<Record<string, unknown>>
type Answer = Readonly<Record<string, unknown>> & {
  readonly error?: { readonly code: string; readonly param: string | null }
  readonly warnings?: readonly string[]
}

// ---- The list ---------------------------------------------------------------------------------------------------

interface Statement {
  readonly number: number
  readonly text: string
  readonly holders: readonly { readonly file: string; readonly name: string }[]
}

function readStatements(markdown: string): Statement[] {
  const statements: { number: number; text: string; holders: { file: string; name: string }[] }[] = []
  for (const line of markdown.split('\n')) {
    const [, number, text = ''] = /^(\d+)\. (.+)$/.exec(line) ?? []
    if (number !== undefined) statements.push({ number: Number(number), text, holders: [] })
    const [, file = '', name = ''] = /^ +- `([^`]+)`: (.+)$/.exec(line) ?? []
    if (name !== '') statements.at(-1)?.holders.push({ file, name })
  }
  return statements
}

/** Names of the tests in a source, as they are written there: of a template, its text. */
function testNamesIn(source: string): Set<string> {
  const literals = source.matchAll(/\btest\(\s*(?:'((?:[^'\\\n]|\\.)*)'|`((?:[^`\\]|\\.)*)`)/g)
  return new Set([...literals].map(([, quoted, template]) => quoted ?? template ?? ''))
}

t.test('every statement is held by tests that are there', async (t) => {
  const root = new URL('..', import.meta.url)
  const statements = readStatements(await readFile(new URL('statements.md', import.meta.url), 'utf8'))
  t.same(
    statements.map(({ number }) => number),
    Array.from({ length: 277 }, (_, index) => index + 1),
    'numbered without a gap',
  )
  const names = new Map<string, Set<string>>()
  for (const { number, text, holders } of statements) {
    t.ok(holders.length > 0, `${number}. ${text}`)
    for (const { file, name } of holders) {
      const known = names.get(file) ?? testNamesIn(await readFile(new URL(`${file}.test.ts`, root), 'utf8'))
      names.set(file, known)
      t.ok(known.has(name), `${number}. ${file}: ${name}`)
    }
  }
})

// ---- What no other file holds -----------------------------------------------------------------------------------

/** Transcription by ElevenLabs' contract, which keeps words, segments and speakers; the second entry keeps nothing. */
async function startHearing(t: Test, entry: Fields = {}): Promise<RouteGateway> {
  const base_url = (await startUpstream(t, { dialect: elevenlabsDialect() })).url
  return startRouteGateway(t, {
    providers: { eleven: { kind: 'elevenlabs', base_url, api_key: secret('XI_KEY') } },
    entries: [{ provider: 'eleven', model: 'scribe_v2', ...entry }],
    env: { XI_KEY: ELEVENLABS_KEY },
  })
}

const answerOf = async (response: Response) => (await response.json()) as Answer

function formOf(fields: Readonly<Record<string, string>>, wav: Uint8Array = WAV, name = 'a.wav'): FormData {
  const form = new FormData()
  for (const [field, value] of Object.entries(fields)) form.append(field, value)
  form.append('file', new Blob([new Uint8Array(wav)]), name)
  return form
}

t.test('no endpoint lets its caller choose', async (t) => {
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [TRANSCRIPTION_ENTRY],
  })
  const control = ['provider', 'model', 'models', 'route', 'route_id', 'fallbacks', 'strategy']
  for (const path of ['/v1/transcription', '/v1/translation', '/v1/audio', '/v1/transcription/jobs']) {
    for (const field of control) {
      const response = await gateway.post(path, { audio: AUDIO, [field]: 'other' })
      const { error } = await answerOf(response)
      t.match(
        { status: response.status, ...error },
        { status: 400, code: 'ROUTE_CONTROL_NOT_ALLOWED', param: field },
      )
    }
  }
  t.same(upstream.received, [], 'no provider was asked')
  const others: Readonly<Record<string, Fields>> = {
    '/v1/chat': { messages: [{ role: 'user', content: 'hi' }] },
    '/v1/complete': { prompt: 'hi' },
    '/v1/embeddings': { input: 'hi' },
    '/v1/image': { prompt: 'hi' },
    '/v1/vision': { prompt: 'hi', images: ['https://example.com/a.png'] },
    '/v1/speech': { input: 'hi' },
    '/v1/video': { prompt: 'hi' },
  }
  for (const [path, body] of Object.entries(others)) {
    const [plain, choosing] = await Promise.all([
      gateway.post(path, body).then(answerOf),
      gateway
        .post(path, { ...body, ...Object.fromEntries(control.map((field) => [field, 'other'])) })
        .then(answerOf),
    ])
    t.equal(choosing.error?.code, plain.error?.code, `${path}: as without them`)
  }
})

t.test('every option of a transcription is taken', async (t) => {
  const gateway = await startHearing(t)
  const options: readonly (readonly [field: string, value: unknown])[] = [
    ['language', 'en'],
    ['prompt', 'birds'],
    ['mode', 'batch'],
    ['speaker_count_hint', 2],
    ['custom_vocabulary', ['lark']],
    ['keyterms', ['lark']],
    ['smart_formatting', true],
    ['detect_language', true],
    ['profanity_filter', true],
    ['multichannel', true],
    ['redaction', true],
    ['diarization', true],
    ['timestamps', 'both'],
    ['purpose', 'calls'],
    ['response_profile', 'balanced'],
    ['seed', 7],
  ]
  for (const [field, value] of options) {
    const text = Array.isArray(value) ? value.join(',') : String(value)
    const ways = {
      JSON: await gateway.post('/v1/transcription', { audio: AUDIO, [field]: value }),
      form: await gateway.post('/v1/transcription', formOf({ [field]: text })),
      query: await gateway.post(`/v1/transcription?${field}=${text}`, WAV, { 'content-type': 'audio/wav' }),
    }
    for (const [way, response] of Object.entries(ways)) {
      const body = await answerOf(response)
      t.equal(response.status, 200, `${field}, ${way}: ${JSON.stringify(body.error)}`)
      t.notMatch(body.warnings?.join(), /unknown/, `${field}, ${way}`)
    }
  }
  const unknown = await answerOf(await gateway.post('/v1/transcription', { audio: AUDIO, colour: 'red' }))
  t.match(unknown.warnings?.join(), /colour/, 'an unknown field is named')
  const named = await gateway.post('/v1/transcription', {
    audio: { ...AUDIO, media_type: 'audio/mpeg', filename: 'b.mp3' },
  })
  t.equal(named.status, 200, 'type and name are said, and the bytes decide')
})

t.test('every format of an answer', async (t) => {
  const gateway = await startHearing(t)
  const ask = (fields: Fields, to = gateway) => to.post('/v1/transcription', { audio: AUDIO, ...fields })
  const parts = async (fields: Fields) => {
    const body = (await answerOf(await ask(fields))) as {
      words: object[]
      segments: Fields[]
      error?: unknown
    }
    if (body.error !== undefined) throw new Error(JSON.stringify(body.error))
    const told = (list: readonly unknown[]) => list.length > 0
    return [
      told(body.words),
      told(body.segments),
      body.segments.some(({ speaker }) => speaker === 'speaker_0'),
    ]
  }
  t.same(await parts({}), [false, false, false])
  t.same(await parts({ response_format: 'json' }), [false, false, false])
  t.same(await parts({ timestamps: 'word' }), [true, false, false])
  t.same(await parts({ timestamps: 'segment' }), [false, true, false])
  t.same(await parts({ timestamps: 'both' }), [true, true, false])
  t.equal((await parts({ response_format: 'verbose_json' }))[1], true)
  t.equal((await parts({ response_format: 'diarized_json' }))[2], true)
  t.equal((await parts({ diarization: true }))[2], true)
  const texts: readonly (readonly [string, RegExp])[] = [
    ['text', /^text\/plain/],
    ['srt', /^application\/x-subrip|^text\//],
    ['vtt', /^text\/vtt/],
  ]
  for (const [response_format, type] of texts) {
    const response = await ask({ response_format })
    t.match(response.headers.get('content-type'), type, response_format)
    t.match(await response.text(), /heard/)
  }
  const plain = await startHearing(t, { features: [] })
  for (const response_format of ['verbose_json', 'diarized_json', 'srt', 'vtt']) {
    const { error } = await answerOf(await ask({ response_format }, plain))
    t.equal(error?.code, 'REQUIRED_FEATURE_UNAVAILABLE', `${response_format} depends on the model`)
  }
})

t.test('every format of an upload', async (t) => {
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [TRANSCRIPTION_ENTRY],
  })
  const files = {
    mp3: 'mp3-cbr-bare.mp3',
    mp4: 'mp4-moov-end.m4a',
    mpeg: 'mp3-layer2.mp3',
    mpga: 'mp3-mpeg2.mp3',
    m4a: 'mp4-moov-first.m4a',
    wav: 'wav-s16-stereo.wav',
    webm: 'webm-opus.webm',
  }
  const read = (file: string) => readFile(new URL(`../fixtures/media/${file}`, import.meta.url))
  const stream = programStream(await read(files.mpeg), { version: 1, packetBytes: 2_000, video: 1 })
  const uploads = Object.entries(files).map(async ([name, file]) => [name, await read(file)] as const)
  for (const [name, bytes] of [...(await Promise.all(uploads)), ['mpeg', stream] as const]) {
    const body = await answerOf(await gateway.post('/v1/transcription', formOf({}, bytes, `a.${name}`)))
    t.match(
      body,
      { status: 'succeeded', usage: { audio_seconds: Number } },
      `${name}: ${JSON.stringify(body.error)}`,
    )
  }
})

t.test('response_profile picks among the entries, at every endpoint that has it', async (t) => {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const provider = { kind: 'sandbox', base_url: sandbox.url, access: 'byok', workspace: 'acme' }
  const profiles = ['fast', 'balanced', 'thinking']
  const providers = Object.fromEntries(profiles.map((name) => [name, provider]))
  const gateway = await startRouteGateway(t, {
    providers,
    entries: profiles.map((profile) => ({ provider: profile, model: 'morse-1', profile })),
  })
  const calls: Readonly<Record<string, Fields>> = {
    '/v1/transcription': { audio: AUDIO },
    '/v1/translation': { audio: AUDIO },
    '/v1/speech': { input: 'e' },
    '/v1/video': { prompt: 'e' },
    '/v1/chat': { messages: [{ role: 'user', content: 'e' }] },
  }
  for (const [path, body] of Object.entries(calls)) {
    for (const response_profile of profiles) {
      const answer = await answerOf(await gateway.post(path, { ...body, response_profile }))
      t.equal(answer.provider, response_profile, `${path}: ${JSON.stringify(answer.error)}`)
    }
    const { error } = await answerOf(await gateway.post(path, { ...body, response_profile: 'slow' }))
    t.match(error, { code: 'INVALID_REQUEST', param: 'response_profile' })
  }
})

t.test('translation takes what transcription takes', async (t) => {
  const upstream = await startUpstream(t)
  const key = makeKey()
  const route = (model: string) => ({ workspace: 'acme', entries: [{ ...TRANSCRIPTION_ENTRY, model }] })
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [],
    config: {
      routes: { main: route('assigned'), calls: route('tagged') },
      workspaces: {
        acme: {
          purposes: { calls: {} },
          apps: { web: { route: 'main', purposes: { calls: 'calls' } } },
          keys: [{ id: 'key_calls', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
  })
  const headers = { authorization: `Bearer ${key}` }
  const ask = async (fields: Fields, more: Readonly<Record<string, string>> = {}) =>
    answerOf(await gateway.post('/v1/translation', { audio: AUDIO, ...fields }, { ...headers, ...more }))
  t.match(await ask({}), { model: 'assigned', lk_purpose_source: 'none' })
  t.match(await ask({ purpose: 'calls' }), { model: 'tagged', lk_purpose_source: 'body' })
  t.match(await ask({}, { 'x-lk-purpose': 'calls' }), { model: 'tagged', lk_purpose_source: 'header' })
  t.match(await ask({ response_profile: 'fast' }), { model: 'assigned', warnings: [/response_profile/] })
})

t.test('speech is JSON unless audio is asked for', async (t) => {
  const gateway = await startGateway(t)
  const speak = (accept?: string) =>
    fetch(`${gateway.url}/v1/speech`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, ...JSON_TYPE, ...(accept && { accept }) },
      body: JSON.stringify({ input: 'e' }),
    })
  for (const accept of [undefined, '*/*', 'application/json']) {
    const response = await speak(accept)
    t.equal(response.headers.get('content-type'), 'application/json', `accept: ${accept}`)
    t.match(await response.json(), { content: '', content_blocks: [{ type: 'output_audio' }] })
  }
  t.equal((await speak('audio/wav')).headers.get('content-type'), 'audio/wav')
})

t.test('the indicative prices', async (t) => {
  const rows = {
    eleven_flash_v2_5: { per_1k_characters_usd: 0.05 },
    eleven_multilingual_v2: { per_1k_characters_usd: 0.1 },
    scribe_v2: { per_hour_usd: 0.22 },
  }
  for (const [model, price] of Object.entries(rows))
    t.match(factsOf('elevenlabs', model)?.price, price, model)
})

t.test('the limits, and their defaults', async (t) => {
  const gateway = await startGateway(t)
  const response = await fetch(`${gateway.url}/v1/me`, {
    headers: { authorization: `Bearer ${gateway.key}` },
  })
  const expected = {
    max_request_body_bytes: 52_428_800,
    max_audio_bytes: 26_214_400,
    max_audio_url_bytes: 26_214_400,
    max_audio_seconds: null,
    queue_max_payload_bytes: 2_097_152,
    sync_idempotency_ttl_seconds: 86_400,
    stt_job_result_ttl_seconds: 259_200,
  }
  const { limits } = await answerOf(response)
  t.same(limits, { ...DEFAULT_LIMITS })
  // The others are of live sessions and of resumable uploads.
  const others = ([name]: readonly [string, unknown]) => !/^(live|max_upload)_/.test(name)
  t.same(Object.fromEntries(Object.entries(DEFAULT_LIMITS).filter(others)), expected)
})

interface Paid {
  readonly gateway: RouteGateway
  readonly upstream: Awaited<ReturnType<typeof startUpstream>>
  spent(): Promise<unknown>
}

/** A route to a platform provider, paid for with credits. */
async function startPaid(t: Test, limits: Fields = {}): Promise<Paid> {
  const upstream = await startUpstream(t)
  const key = makeKey()
  const gateway = await startRouteGateway(t, {
    providers: {},
    entries: [],
    config: {
      limits,
      providers: { ears: { kind: 'openai-compatible', access: 'platform', base_url: upstream.url } },
      routes: { main: { workspace: 'acme', entries: [TRANSCRIPTION_ENTRY] } },
      workspaces: {
        acme: {
          credits_usd: 1,
          grant_id: 'initial',
          apps: { web: { route: 'main' } },
          keys: [{ id: 'key_paid', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
  })
  const authorization = `Bearer ${key}`
  return {
    upstream,
    gateway: {
      ...gateway,
      authorization: { authorization },
      post: (path, body, headers = {}) => gateway.post(path, body, { authorization, ...headers }),
    },
    async spent() {
      const me = await fetch(`${gateway.url}/v1/me`, { headers: { authorization } })
      return ((await me.json()) as { billing: { credits_usd: number } }).billing.credits_usd
    },
  }
}

t.test('a replay is not charged', async (t) => {
  const { gateway, upstream, spent } = await startPaid(t)
  const send = () => gateway.post('/v1/transcription', { audio: AUDIO }, { 'idempotency-key': 'k' })
  t.equal((await send()).status, 200)
  t.ok(await waitUntil(async () => (await spent()) === 0.999), 'the first is charged')
  for (let again = 0; again < 3; again += 1) {
    const response = await send()
    t.equal(response.headers.get('x-lk-idempotent-replay'), 'true')
    t.equal(await spent(), 0.999)
  }
  t.equal(upstream.received.length, 1)
})

t.test('what is refused is not billed', async (t) => {
  const { gateway, upstream, spent } = await startPaid(t, { max_audio_bytes: 20_000 })
  const rows: readonly (readonly [number, Fields])[] = [
    [413, { audio: AUDIO }],
    [400, { audio: { base64: filledWav(10_000).toString('base64') }, model: 'x' }],
    [400, {}],
    [415, { audio: { base64: Buffer.from('no audio at all').toString('base64') } }],
  ]
  for (const [status, body] of rows) t.equal((await gateway.post('/v1/transcription', body)).status, status)
  t.equal(await spent(), 1)
  t.same(upstream.received, [])
})

t.test('no request changes the rules of audio by URL', async (t) => {
  const gateway = await startGateway(t)
  const more = { allow: true, allowed_domains: ['127.0.0.1'], max_audio_url_bytes: 9e9, max_redirects: 99 }
  for (const url of ['http://127.0.0.1/a.wav', 'https://127.0.0.1/a.wav', 'https://example.com/a.wav']) {
    const response = await fetch(`${gateway.url}/v1/transcription`, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, ...JSON_TYPE },
      body: JSON.stringify({ audio: { url, ...more }, ...more }),
    })
    t.match(await response.json(), { error: { code: 'AUDIO_URL_REJECTED', param: 'audio.url' } }, url)
  }
})

t.test('a result survives the gateway', async (t) => {
  const upstream = await startUpstream(t)
  const gateway = await startRouteProcess(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [TRANSCRIPTION_ENTRY],
  })
  const submitted = await answerOf(await gateway.post('/v1/transcription/jobs', { audio: AUDIO }))
  const show = async (url: string) =>
    answerOf(await fetch(`${url}${submitted.poll_url}`, { headers: gateway.authorization }))
  t.ok(await waitUntil(async () => (await show(gateway.url)).status === 'succeeded'))
  const before = await show(gateway.url)
  await gateway.signal('SIGKILL')
  const { dataFolder, key } = gateway
  const again = await startGateway(t, {
    dataFolder,
    key,
    env: { LARKWAY_CONFIG: `${dataFolder}/larkway.yaml` },
  })
  t.same(await show(again.url), before)
})

t.test('a queue job has no endpoint of its own', async (t) => {
  const gateway = await startGateway(t)
  const headers = { authorization: `Bearer ${gateway.key}`, ...JSON_TYPE }
  const body = JSON.stringify({ endpoint: 'speech', payload: { input: 'e' } })
  const queued = (await (
    await fetch(`${gateway.url}/v1/queue`, { method: 'POST', headers, body })
  ).json()) as {
    job: { id: string }
  }
  for (const path of ['/v1/queue/', '/v1/queue/jobs/', '/v1/transcription/jobs/', '/v1/jobs/']) {
    t.equal((await fetch(gateway.url + path + queued.job.id, { headers })).status, 404, path)
  }
  t.equal((await fetch(`${gateway.url}/v1/queue`, { headers })).status, 405)
})

t.test('a provider key without the speech permission fails at the first synthesis', async (t) => {
  const base_url = await serveHttp(t, (request, response) => {
    request.resume()
    const isList = request.method === 'GET'
    const detail = {
      status: 'missing_permissions',
      message: 'The API key is missing the permission text_to_speech',
    }
    response.writeHead(isList ? 200 : 401, { 'content-type': 'application/json' })
    response.end(JSON.stringify(isList ? [{ model_id: 'eleven_flash_v2_5' }] : { detail }))
  })
  const gateway = await startRouteGateway(t, {
    providers: { eleven: { kind: 'elevenlabs', base_url: `${base_url}/v1`, api_key: secret('XI_KEY') } },
    entries: [{ provider: 'eleven', model: 'eleven_flash_v2_5' }],
    env: { XI_KEY: ELEVENLABS_KEY },
  })
  t.equal((await fetch(`${gateway.url}/readyz`)).status, 200)
  t.equal((await fetch(`${base_url}/v1/models`)).status, 200, 'its models can be listed')
  const spoken = await gateway.post('/v1/speech', { input: 'hello' })
  const body = await spoken.text()
  t.equal(spoken.status, 502)
  t.match(JSON.parse(body), { error: { code: 'UPSTREAM_ERROR', details: { attempts: [{ status: 401 }] } } })
  t.notMatch(body, /missing the permission/, 'nothing that the provider said')
})

t.test('one event per job, to the configured webhook, and no other', async (t) => {
  const receiver = await startReceiver(t, answering(200), { names: null })
  const gateway = await startGateway(t, { env: { LARKWAY_INSECURE_WEBHOOKS: 'true' } })
  const headers = { authorization: `Bearer ${gateway.key}`, ...JSON_TYPE }
  const send = (path: string, body: Fields, method = 'POST') =>
    fetch(gateway.url + path, { method, headers, body: JSON.stringify(body) })
  const url = `http://127.0.0.1:${receiver.port}/hook`
  const { signing_secret: signingSecret } = (await (
    await send('/workspace/demo/stt-webhook', { url }, 'PUT')
  ).json()) as { signing_secret: string }

  const spoken = (await (await send('/v1/speech', { input: 'a secret word' })).json()) as {
    content_blocks: { base64: string }[]
  }
  const base64 = spoken.content_blocks[0]?.base64 ?? ''
  await send('/v1/transcription', { audio: { base64 } })
  await send('/v1/queue', { endpoint: 'transcription', payload: { audio: { base64 } } })
  const submitted = await answerOf(await send('/v1/transcription/jobs', { audio: { base64 } }))
  t.ok(await waitUntil(() => receiver.received.length > 0, 20_000))
  t.ok(
    await waitUntil(() => gateway.log.filter(({ msg }) => msg === 'job').length === 2, 20_000),
    'both have run',
  )

  const [delivery] = receiver.received
  const event = JSON.parse(delivery?.body ?? '{}') as Record<string, unknown>
  t.same(Object.keys(event).sort(), ['job_id', 'occurred_at', 'status', 'type'])
  t.match(event, { type: 'transcription.job.succeeded', job_id: submitted.job_id, status: 'succeeded' })
  t.notMatch(delivery?.body, /secret/)
  const sent = delivery?.headers['x-lk-webhook-ts']
  t.ok(Math.abs(Number(sent) - Date.now() / 1000) < 60, 'in seconds')
  const signature = createHmac('sha256', signingSecret).update(`${sent}.${delivery?.body}`).digest('hex')
  t.equal(delivery?.headers['x-lk-webhook-signature'], signature)
  await gateway.signal('SIGTERM')
  t.equal(receiver.received.length, 1, 'neither the synchronous call nor the queue sends one')
})

t.test('a rate limit is answered before the body', async (t) => {
  const key = makeKey()
  const upstream = await startUpstream(t)
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: upstream.url } },
    entries: [TRANSCRIPTION_ENTRY],
    config: {
      workspaces: {
        acme: {
          apps: { web: { route: 'main' } },
          keys: [
            {
              id: 'key_slow',
              app: 'web',
              sha256: hashKey(key),
              rate_limit: { requests_per_minute: 1, burst: 1 },
            },
          ],
        },
      },
    },
  })
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'audio/wav' }
  const first = await fetch(`${gateway.url}/v1/transcription`, {
    method: 'POST',
    headers,
    body: new Uint8Array(WAV),
  })
  t.equal(first.status, 200)
  const client = await RawClient.connect(gateway.port)
  t.teardown(() => client.destroy())
  await client.send(
    `POST /v1/transcription HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n` +
      `Content-Type: audio/wav\r\nContent-Length: ${WAV.length}\r\n\r\n`,
  )
  const limited = await client.response({ timeoutMs: 15_000 })
  t.equal(limited?.status, 429, 'not a byte of the body was sent')
  t.match(limited?.headers['retry-after'], /^[1-9]\d*$/)
  t.equal(upstream.received.length, 1)
})

t.test('runtime paths are under /v1, and nowhere else', async (t) => {
  const gateway = await startGateway(t)
  const { paths } = (await (await fetch(`${gateway.url}/openapi.json`)).json()) as {
    paths: Record<string, object>
  }
  const besides = /^\/(?:healthz|readyz|openapi\.json|docs|results|workspace)(?:\/|$)/
  const doors = /^\/(?:openai\/v1|(?:deepgram|elevenlabs)\/v[12]|assemblyai\/v2)\//
  for (const path of Object.keys(paths))
    t.ok(
      [/^\/v1\//, besides, doors].some((known) => known.test(path)),
      path,
    )
  const headers = { authorization: `Bearer ${gateway.key}`, ...JSON_TYPE }
  for (const path of Object.keys(paths).filter((name) => name.startsWith('/v1/') && !name.includes('{'))) {
    for (const prefix of ['', '/v2']) {
      const response = await fetch(gateway.url + prefix + path.slice('/v1'.length), { headers })
      t.equal(response.status, 404, prefix + path.slice('/v1'.length))
    }
  }
})
