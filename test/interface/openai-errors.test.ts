import { setTimeout as sleep } from 'node:timers/promises'
import OpenAI from 'openai'
import t, { type Test } from 'tap'
import { ERRORS, type ErrorCode } from '../../src/contracts/errors.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { startModelGateway } from './model-gateway.ts'
import { type DoorClient, doorClient, rejected, wavFile } from './openai-door.ts'

/** One second, in which nothing is said. */
const WAV = filledWav(44 + 32_000, 1)
const HEARD = /^1 seconds of /
const MAX_AUDIO_BYTES = 200_000
const MAX_BODY_BYTES = 400_000
const LONG = process.env.LARKWAY_TEST_LONG === '1'

/** An app for each kind of trouble, with a key of the same name. */
const ROUTES = {
  good: { options: {} },
  failing: { options: { status: 500 } },
  refusing: { options: { status: 400 } },
  cooling: { options: { status: 429, retry_after: 60 } },
  hanging: { options: { hang: true } },
  losing: { options: { hang: true, delay_ms: 0 } },
  writing: { capabilities: ['text'] },
  plain: { features: [] },
} as const

type KeyName = keyof typeof ROUTES | 'brief' | 'jobs' | 'poor' | 'tried' | 'capped' | 'planned'

async function start(t: Test): Promise<{ larkway: Gateway; keys: Record<KeyName, string> }> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const names: KeyName[] = [
    ...(Object.keys(ROUTES) as (keyof typeof ROUTES)[]),
    ...(['brief', 'jobs', 'poor', 'tried', 'capped', 'planned'] as const),
  ]
  const keys = Object.fromEntries(names.map((name) => [name, makeKey()])) as Record<KeyName, string>
  const keyOf = (name: KeyName, app: string, more: object = {}) => {
    return { id: `key_${name}`, app, sha256: hashKey(keys[name]), ...more }
  }
  const price = { per_1k_characters_usd: 1_000, per_hour_usd: 1_000 }
  const dear = { provider: 'dear', model: 'morse-1', capabilities: ['audio_output'] }
  const other = (name: 'poor' | 'tried' | 'planned', more: object) => ({
    apps: { web: { route: `${name}_route` } },
    keys: [keyOf(name, 'web')],
    ...more,
  })
  const config = {
    deadline_seconds: 3, // for one key it ends; a busy machine must not end the others
    limits: {
      max_audio_bytes: MAX_AUDIO_BYTES,
      max_request_body_bytes: MAX_BODY_BYTES,
      max_audio_seconds: 5,
    },
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    plans: { letters: { includes: ['text'] } },
    providers: {
      sandbox: { kind: 'sandbox', access: 'platform', base_url: sandbox.url },
      dear: { kind: 'sandbox', access: 'platform', base_url: sandbox.url, price },
    },
    routes: {
      ...Object.fromEntries(
        Object.entries(ROUTES).map(([name, entry]) => [
          name,
          { workspace: 'acme', entries: [{ provider: 'sandbox', model: 'morse-1', ...entry }] },
        ]),
      ),
      ...Object.fromEntries(
        ['poor', 'tried', 'planned'].map((workspace) => [
          `${workspace}_route`,
          { workspace, entries: [workspace === 'planned' ? { ...dear, provider: 'sandbox' } : dear] },
        ]),
      ),
      dear: { workspace: 'acme', entries: [dear] },
    },
    workspaces: {
      acme: {
        credits_usd: 1_000_000,
        grant_id: 'initial',
        apps: {
          ...Object.fromEntries(Object.keys(ROUTES).map((name) => [name, { route: name }])),
          dear: { route: 'dear' },
        },
        keys: [
          ...(Object.keys(ROUTES) as (keyof typeof ROUTES)[]).map((name) => keyOf(name, name)),
          keyOf('brief', 'good', { rate_limit: { requests_per_minute: 30, burst: 1 } }),
          keyOf('jobs', 'good', { scopes: ['jobs'] }),
          keyOf('capped', 'dear', { budget_usd: { per_month: 0 } }),
        ],
      },
      poor: other('poor', {}),
      tried: other('tried', { trial: { allowance_usd: 0, expires_at: '2099-01-01T00:00:00Z' } }),
      planned: other('planned', { plan: 'letters' }),
    },
  }
  return { larkway: await startGateway(t, { config, key: keys.good }), keys }
}

type Act = (openai: OpenAI) => Promise<unknown>

const transcribe =
  (fields: Readonly<Record<string, unknown>> = {}, wav: Uint8Array = WAV, key?: string): Act =>
  (openai) =>
    openai.audio.transcriptions.create(
      { file: wavFile(wav), model: 'whisper-1', ...fields },
      key === undefined ? {} : { headers: { 'idempotency-key': key } },
    )
const speak: Act = (openai) => openai.audio.speech.create({ model: 'tts-1', voice: 'alloy', input: 'sos' })
const ask: Act = (openai) =>
  openai.chat.completions.create({ model: 'gpt-4o', messages: [{ role: 'user', content: 'sos' }] })
const postAudioUrl: Act = (openai) =>
  openai.post('/audio/transcriptions', { body: { audio: { url: 'http://a.example.com/a.wav' } } })

interface Row {
  readonly code: ErrorCode
  /** A class of the client's. */
  readonly thrown: { readonly name: string }
  readonly key?: KeyName | 'unknown'
  readonly act: Act
  readonly param?: string
}

const ROWS: readonly Row[] = [
  {
    code: 'INVALID_REQUEST',
    thrown: OpenAI.BadRequestError,
    act: transcribe({ response_format: 'xml' }),
    param: 'response_format',
  },
  {
    code: 'ROUTE_CONTROL_NOT_ALLOWED',
    thrown: OpenAI.BadRequestError,
    act: transcribe({ provider: 'openai' }),
    param: 'provider',
  },
  { code: 'AUDIO_URL_REJECTED', thrown: OpenAI.BadRequestError, act: postAudioUrl },
  { code: 'UNAUTHENTICATED', thrown: OpenAI.AuthenticationError, key: 'unknown', act: ask },
  { code: 'INSUFFICIENT_CREDITS', thrown: OpenAI.APIError, key: 'poor', act: speak },
  { code: 'TRIAL_EXHAUSTED', thrown: OpenAI.APIError, key: 'tried', act: speak },
  { code: 'BUDGET_EXCEEDED', thrown: OpenAI.APIError, key: 'capped', act: speak },
  { code: 'PERMISSION_DENIED', thrown: OpenAI.PermissionDeniedError, key: 'jobs', act: ask },
  { code: 'PLAN_NOT_ENTITLED', thrown: OpenAI.PermissionDeniedError, key: 'planned', act: speak },
  {
    code: 'NOT_FOUND',
    thrown: OpenAI.NotFoundError,
    act: (openai) => openai.models.retrieve('gpt-4o'),
    param: 'model',
  },
  { code: 'METHOD_NOT_ALLOWED', thrown: OpenAI.APIError, act: (openai) => openai.get('/chat/completions') },
  {
    code: 'REQUEST_TOO_LARGE',
    thrown: OpenAI.APIError,
    act: transcribe({}, Buffer.alloc(MAX_BODY_BYTES + 1)),
  },
  {
    code: 'AUDIO_TOO_LARGE',
    thrown: OpenAI.APIError,
    act: transcribe({}, filledWav(MAX_AUDIO_BYTES + 1)),
    param: 'file',
  },
  { code: 'AUDIO_TOO_LONG', thrown: OpenAI.APIError, act: transcribe({}, filledWav(180_000, 1, 8_000)) },
  {
    code: 'UNSUPPORTED_MEDIA_TYPE',
    thrown: OpenAI.APIError,
    act: (openai) => openai.post('/embeddings', { body: 'x', headers: { 'content-type': 'text/plain' } }),
  },
  {
    code: 'UNSUPPORTED_AUDIO_FORMAT',
    thrown: OpenAI.APIError,
    act: transcribe({}, Buffer.from('GIF89a and more')),
    param: 'file',
  },
  {
    code: 'REQUIRED_FEATURE_UNAVAILABLE',
    thrown: OpenAI.UnprocessableEntityError,
    key: 'plain',
    act: transcribe({ response_format: 'diarized_json' }),
  },
  { code: 'UPSTREAM_REJECTED', thrown: OpenAI.UnprocessableEntityError, key: 'refusing', act: ask },
  { code: 'UPSTREAM_ERROR', thrown: OpenAI.InternalServerError, key: 'failing', act: ask },
  { code: 'NO_HEALTHY_PROVIDER', thrown: OpenAI.InternalServerError, key: 'writing', act: speak },
  { code: 'UPSTREAM_TIMEOUT', thrown: OpenAI.InternalServerError, key: 'hanging', act: ask },
  {
    code: 'UPSTREAM_OUTCOME_UNKNOWN',
    thrown: OpenAI.InternalServerError,
    key: 'losing',
    act: transcribe({}, WAV, 'lost'),
  },
]

/** Errors that other tests of this file provoke, and those that no caller of this door is answered. */
const ELSEWHERE: readonly ErrorCode[] = [
  'RATE_LIMITED',
  'PROVIDERS_COOLING_DOWN',
  'IDEMPOTENCY_REPLAY_IN_PROGRESS',
  'IDEMPOTENCY_KEY_REUSED',
  'IDEMPOTENT_RESULT_UNAVAILABLE',
  'OVERLOADED',
  'DEPENDENCY_UNAVAILABLE',
  'REQUEST_TIMEOUT',
]
const NEVER: Readonly<Partial<Record<ErrorCode, string>>> = {
  JOB_NOT_FOUND: 'there are no jobs here',
  CONFLICT: 'nothing is edited here',
  PRECONDITION_FAILED: 'there are no resumable uploads here',
  CHECKSUM_MISMATCH: 'nor are there checksums',
  LENGTH_REQUIRED: 'every client of HTTP/1.1 says how long a body is',
  AUDIO_URL_FETCH_FAILED:
    'nothing but a host on the internet fails like that; a retryable 502 as UPSTREAM_ERROR is',
  CLIENT_CLOSED: 'no one is there to be answered',
  INTERNAL: 'nothing provokes it',
}

function assertError(
  t: Test,
  error: InstanceType<typeof OpenAI.APIError>,
  code: ErrorCode,
  client: DoorClient,
) {
  const { status, category } = ERRORS[code]
  t.match(
    { status: error.status, code: error.code, type: error.type },
    { status, code, type: category },
    code,
  )
  // A request to no endpoint has its id in the body alone.
  if (code !== 'METHOD_NOT_ALLOWED') t.equal(error.requestID, idOf(error), 'the id of the request')
  t.equal(client.headers().get('x-should-retry'), String(ERRORS[code].retryable))
  t.equal(error.message, `${status} ${(error.error as { message: string }).message}`)
}

function idOf({ error }: InstanceType<typeof OpenAI.APIError>): string {
  return (error as { request_id: string }).request_id
}

t.test('each error is the right class, and is tried again as it says', { timeout: 60_000 }, async (t) => {
  const { larkway, keys } = await start(t)
  const named = [...ROWS.map(({ code }) => code), ...ELSEWHERE, ...Object.keys(NEVER)]
  t.same(named.sort(), Object.keys(ERRORS).sort(), 'every error has its place')

  await Promise.all(
    ROWS.map(async ({ code, thrown, key = 'good', act, param }) => {
      const client = doorClient(larkway, { key: key === 'unknown' ? makeKey() : keys[key], maxRetries: 2 })
      const error = await rejected(act(client.openai))
      assertError(t, error, code, client)
      t.equal(error.constructor, thrown, `${code}: ${thrown.name}`)
      if (param !== undefined) t.equal(error.param, param, `${code} names ${param}`)
      t.equal(client.sentMs.length, ERRORS[code].retryable ? 3 : 1, `${code}: requests`)
      const last = idOf(error)
      const seen = () =>
        larkway.log.some(({ request_id: id, error: logged }) => id === last && logged === code)
      t.ok(await waitUntil(seen), `${code}: the last of them came to the server`)
    }),
  )
  const count = (name: KeyName) => larkway.log.filter(({ key_id: id }) => id === `key_${name}`).length
  t.equal(count('failing'), 3, 'the server was asked three times')
  t.equal(count('hanging'), 3)
  t.equal(count('losing'), 1, 'what may have been done is not done again')
  t.equal(count('writing'), 1, 'a 503 that stays is not tried again')

  t.test('idempotency keys', async (t) => {
    const once = doorClient(larkway, { key: keys.good, maxRetries: 2 })
    const first = await transcribe({}, WAV, 'used')(once.openai)
    t.match(first, { text: HEARD })
    assertError(
      t,
      await rejected(transcribe({ prompt: 'x' }, WAV, 'used')(once.openai)),
      'IDEMPOTENCY_KEY_REUSED',
      once,
    )
    t.equal(once.sentMs.length, 2)
    t.same(await transcribe({}, WAV, 'used')(once.openai), first)
    t.equal(once.headers().get('x-lk-idempotent-replay'), 'true')
    const burned = doorClient(larkway, { key: keys.losing, maxRetries: 2 })
    const error = await rejected(transcribe({}, WAV, 'lost')(burned.openai))
    assertError(t, error, 'IDEMPOTENT_RESULT_UNAVAILABLE', burned)
    t.equal(error.constructor, OpenAI.ConflictError)
    t.equal(burned.sentMs.length, 1)
  })

  t.test('a rate limit is waited for as long as it says', async (t) => {
    const patient = doorClient(larkway, { key: keys.brief, maxRetries: 1 })
    await speak(patient.openai)
    await speak(patient.openai)
    t.equal(patient.sentMs.length, 3)
    const [, second = 0, third = 0] = patient.sentMs
    t.ok(third - second >= 1_990, `waited ${Math.round(third - second)} ms of the 2 s that a token takes`)
    const hasty = doorClient(larkway, { key: keys.brief })
    const error = await rejected(speak(hasty.openai))
    assertError(t, error, 'RATE_LIMITED', hasty)
    t.equal(error.constructor, OpenAI.RateLimitError)
    t.match(hasty.headers().get('retry-after'), /^[12]$/)
  })

  t.test('a provider that wants to be left alone says for how long', async (t) => {
    const client = doorClient(larkway, { key: keys.cooling, maxRetries: 0 })
    assertError(t, await rejected(ask(client.openai)), 'UPSTREAM_ERROR', client)
    t.equal(client.headers().get('retry-after'), '60')
    const error = await rejected(ask(client.openai))
    assertError(t, error, 'PROVIDERS_COOLING_DOWN', client)
    t.equal(error.constructor, OpenAI.InternalServerError)
    const seconds = Number(client.headers().get('retry-after'))
    t.ok(seconds > 30 && seconds <= 60, `Retry-After: ${seconds}`)
  })
})

t.test('a call that is still running is waited for, and its answer taken', { timeout: 60_000 }, async (t) => {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const key = makeKey()
  const config = {
    providers: { sandbox: { kind: 'sandbox', access: 'byok', workspace: 'acme', base_url: sandbox.url } },
    routes: {
      main: {
        workspace: 'acme',
        entries: [{ provider: 'sandbox', model: 'morse-1', options: { delay_ms: 2_000 } }],
      },
    },
    workspaces: {
      acme: { apps: { web: { route: 'main' } }, keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }] },
    },
  }
  const larkway = await startGateway(t, { config, key })
  const first = transcribe({}, WAV, 'slow')(doorClient(larkway).openai)
  await sleep(700)
  const again = doorClient(larkway, { maxRetries: 2 })
  t.same(await transcribe({}, WAV, 'slow')(again.openai), await first)
  t.equal(again.sentMs.length, 2)
  const [refused = 0, answered = 0] = again.sentMs
  t.ok(answered - refused >= 4_990, `waited ${Math.round(answered - refused)} ms of the 5 s that it was told`)
  t.equal(again.headers().get('x-lk-idempotent-replay'), 'true')
  const line = larkway.log.find(({ error }) => error === 'IDEMPOTENCY_REPLAY_IN_PROGRESS')
  t.match(line, { status: 409, path: '/openai/v1/audio/transcriptions' })
})

t.test('a node that is full is tried again when it may have room', { timeout: 60_000 }, async (t) => {
  const entry = { model: 'seeing', capabilities: ['text', 'vision'] }
  const gateway = await startModelGateway(t, [entry], { env: { LARKWAY_MEMORY_MIB: '16' } })
  const url = `data:image/png;base64,${'A'.repeat(4_000_000)}`
  const look: Act = (openai) =>
    openai.chat.completions.create({
      model: 'gpt-4o',
      messages: [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }],
    })
  gateway.upstream.behave('seeing', { waitMs: 8_000 })
  const holding = look(doorClient(gateway).openai)
  t.ok(await waitUntil(() => gateway.upstream.received.length > 0))
  gateway.upstream.behave('seeing', {})
  const client = doorClient(gateway, { maxRetries: 2 })
  t.match(await look(client.openai), { choices: [{ message: { content: 'whole answer' } }] })
  t.equal(client.sentMs.length, 2)
  t.ok(await waitUntil(() => gateway.log.some(({ error }) => error === 'OVERLOADED')))
  await holding
})

t.test('a store that is away is tried again', { skip: withoutServers, timeout: 60_000 }, async (t) => {
  const redis = await startRedis(t, { durable: true })
  const larkway = await startGateway(t, { env: { REDIS_URL: redis.url } })
  t.match(await transcribe({}, WAV, 'before')(doorClient(larkway).openai), { text: HEARD })
  await redis.kill()
  const hasty = doorClient(larkway)
  const error = await rejected(transcribe({}, WAV, 'away')(hasty.openai))
  assertError(t, error, 'DEPENDENCY_UNAVAILABLE', hasty)
  t.equal(error.constructor, OpenAI.InternalServerError)
  const patient = doorClient(larkway, { maxRetries: 5 })
  const answer = transcribe({}, WAV, 'away')(patient.openai)
  await waitUntil(
    () => larkway.log.filter(({ error: logged }) => logged === 'DEPENDENCY_UNAVAILABLE').length > 1,
  )
  await redis.restart()
  t.match(await answer, { text: HEARD })
  t.ok(patient.sentMs.length >= 2)
})

t.test('a body that comes too slowly', { skip: !LONG && 'takes 40 s', timeout: 120_000 }, async (t) => {
  const larkway = await startGateway(t)
  const client = doorClient(larkway, { maxRetries: 2 })
  const trickle = async function* (): AsyncGenerator<Uint8Array> {
    for (let at = 0; at < WAV.length; at += 10) {
      yield WAV.subarray(at, at + 10)
      await sleep(1_000)
    }
  }
  const body = ReadableStream.from(trickle())
  const error = await rejected(
    client.openai.post('/audio/transcriptions', { body, headers: { 'content-type': 'audio/wav' } }),
  )
  assertError(t, error, 'REQUEST_TIMEOUT', client)
  t.equal(client.sentMs.length, 1, 'the client cannot send a stream twice')
})
