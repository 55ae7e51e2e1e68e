import t, { type Test } from 'tap'
import { CAPABILITIES } from '../../src/contracts/calls.ts'
import { ERRORS, type ErrorCode } from '../../src/contracts/errors.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { filledWav } from '../support/wav.ts'

// Promises of the service as a whole, statement by statement: each is shown by one call or a few, over the real
// process. Details of an endpoint are in the file of that endpoint.

/** A second of audio. */
const AUDIO = { base64: filledWav(32_044, 1).toString('base64') }
const HELLO = [{ role: 'user', content: 'hello' }]
const TOOL = { type: 'function', function: { name: 'look' } }

const MODEL = 'morse-1'
const entry = (provider: string, more: object = {}) => ({ provider, model: MODEL, ...more })
const without = (missing: string) => ({ capabilities: CAPABILITIES.filter((name) => name !== missing) })
const PRICE = { per_hour_usd: 3.6 }
const FAILS = { options: { status: 500 } }

/** The published route of the app of that name; each has its key. */
const ROUTES = {
  one: [entry('own')],
  two: [entry('platform')],
  unpublished: [entry('own')],
  filtered: [
    entry('own', without('audio_output')),
    entry('own', { plans: ['gold'] }),
    entry('own', { limits: { max_input_characters: 3 } }),
    entry('platform'),
  ],
  cheapest: [
    entry('own', { price: { per_1k_characters_usd: 2 } }),
    entry('platform', { price: { per_1k_characters_usd: 1 }, capabilities: ['audio_output'] }),
  ],
  failing: [entry('own', FAILS), entry('platform')],
  hopeless: [entry('own', FAILS), entry('platform', FAILS)],
  degrading: [entry('own', FAILS), entry('platform', { features: [] })],
  plain: [entry('own', { features: [] })],
  priced: [entry('own', { price: PRICE })],
  platform: [entry('platform', { price: PRICE, capabilities: ['audio_input'] })],
  quick: [entry('own')],
  ...Object.fromEntries(CAPABILITIES.map((name) => [`without ${name}`, [entry('own', without(name))]])),
}

interface Service extends Gateway {
  readonly keys: Readonly<Record<string, string>>
  /** How many calls the provider got since the last time. */
  calls(): Promise<number>
}

async function start(t: Test): Promise<Service> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const { origin } = new URL(sandbox.url)
  const workspace = 'acme'
  const provider = { kind: 'sandbox', base_url: `${origin}/v1` }
  const keys = Object.fromEntries([...Object.keys(ROUTES), 'poor'].map((app) => [app, makeKey()]))
  const nameOf = (app: string) => app.replace(' ', '_')
  const keyOf = (app: string, more: object = {}) => {
    return { id: `key_${nameOf(app)}`, app: nameOf(app), sha256: hashKey(keys[app] ?? ''), ...more }
  }
  const config = {
    limits: { max_audio_bytes: 40_000, max_request_body_bytes: 100_000 },
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    plans: {
      silver: { includes: CAPABILITIES },
      gold: { includes: CAPABILITIES },
      tin: { includes: ['text'] },
    },
    providers: {
      own: { ...provider, access: 'byok', workspace },
      platform: { ...provider, access: 'platform' },
    },
    routes: {
      poor: { workspace: 'poor', entries: [entry('platform')] },
      ...Object.fromEntries(
        Object.entries(ROUTES).map(([app, entries]) => [
          nameOf(app),
          {
            workspace,
            entries,
            published: app !== 'unpublished',
            strategy: app === 'cheapest' ? 'lowest_cost' : 'priority',
          },
        ]),
      ),
    },
    workspaces: {
      acme: {
        name: 'Acme',
        plan: 'silver',
        credits_usd: 1_000,
        grant_id: 'initial',
        purposes: { calls: { description: 'Support calls' } },
        apps: Object.fromEntries(
          Object.keys(ROUTES).map((app) => [nameOf(app), { route: nameOf(app), purposes: { calls: 'two' } }]),
        ),
        keys: Object.keys(ROUTES).map((app) =>
          keyOf(app, app === 'quick' ? { rate_limit: { requests_per_minute: 1, burst: 1 } } : {}),
        ),
      },
      poor: { plan: 'tin', apps: { poor: { route: 'poor' } }, keys: [keyOf('poor')] },
    },
  }
  const larkway = await startGateway(t, { config, key: keys.one ?? '' })
  return {
    ...larkway,
    keys,
    async calls() {
      const { calls } = (await (await fetch(`${origin}/sandbox/calls`)).json()) as { calls: object[] }
      await fetch(`${origin}/sandbox/calls`, { method: 'DELETE' })
      return calls.length
    },
  }
}

type Body = Readonly<Record<string, unknown>>
type Answer = Record<string, unknown> & {
  error?: Record<string, unknown> & { details: Record<string, unknown> }
}

interface Answered {
  readonly status: number
  readonly headers: Headers
  readonly body: Answer
}

const service = await start(t)

/** @param app whose key is sent */
async function ask(app: string, path: string, body: Body | null, init: RequestInit = {}): Promise<Answered> {
  const response = await fetch(service.url + path, {
    method: body === null ? 'GET' : 'POST',
    ...init,
    headers: {
      authorization: `Bearer ${service.keys[app]}`,
      'content-type': 'application/json',
      ...init.headers,
    },
    ...(body === null ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.status, headers: response.headers, body: (await response.json()) as Answer }
}

const speak = (app: string, more: Body = {}, init: RequestInit = {}) =>
  ask(app, '/v1/speech', { input: 'sos sos', ...more }, init)
const hear = (app: string, more: Body = {}) => ask(app, '/v1/transcription', { audio: AUDIO, ...more })

/** Members of every answer of a provider's work. */
function holdsEnvelope(t: Test, { status, headers, body }: Answered, name: string): void {
  t.equal(status, 200, name)
  t.match(
    body,
    {
      id: headers.get('x-lk-request-id'),
      provider: String,
      model: MODEL,
      policy_version_id: headers.get('x-lk-policy-version-id'),
      content: String,
      content_blocks: Array,
      usage: Object,
      cost_usd: Number,
      determinism: { seed_honored: Boolean },
      lk_requested_purpose: null,
      lk_applied_purpose: null,
      lk_purpose_source: 'none',
      warnings: Array,
    },
    name,
  )
}

t.test('1. a key belongs to one workspace and leads to one published route', async (t) => {
  for (const [app, provider] of Object.entries({ one: 'own', two: 'platform' })) {
    const me = await ask(app, '/v1/me', null)
    t.match(me.body, { app: { id: app }, key: { id: `key_${app}` }, route: { name: app } })
    t.same(me.body.workspace, { id: 'acme', name: 'Acme', plan: 'silver' }, 'and no more of the workspace')
    const { body } = await speak(app)
    t.equal(body.provider, provider, 'the same request, another key')
    t.match(me.body.route, { policy_version_id: body.policy_version_id })
  }
  t.equal((await speak('unpublished')).body.error?.code, 'NO_HEALTHY_PROVIDER')
})

t.test('2. what a caller sends chooses neither provider nor model nor route', async (t) => {
  const chosen = { provider: 'platform', model: 'tts-1', route: 'two', route_id: 'two', models: ['tts-1'] }
  const { body } = await speak('one', chosen)
  t.match(body, { provider: 'own', model: MODEL })
  for (const [name, value] of Object.entries(chosen)) {
    t.match((await hear('one', { [name]: value })).body.error, {
      code: 'ROUTE_CONTROL_NOT_ALLOWED',
      param: name,
    })
  }
})

t.test('3 and 4. each endpoint requires a capability, and content adds others', async (t) => {
  const drawn = await ask('one', '/v1/image', { prompt: 'lark' })
  const [picture = { base64: '' }] = drawn.body.content_blocks as { base64: string }[]
  const url = `data:image/png;base64,${picture.base64}`
  const seen = [{ role: 'user', content: [{ type: 'image_url', image_url: { url } }] }]
  const rows: [path: string, body: Body, capability: string][] = [
    ['/v1/chat', { messages: HELLO }, 'text'],
    ['/v1/chat', { messages: seen }, 'vision'],
    ['/v1/chat', { messages: HELLO, tools: [TOOL] }, 'function_calling'],
    ['/v1/chat', { messages: HELLO, modalities: ['audio'] }, 'audio_output'],
    ['/v1/complete', { prompt: 'hello' }, 'completion'],
    ['/v1/embeddings', { input: 'hello' }, 'embeddings'],
    ['/v1/image', { prompt: 'lark' }, 'image'],
    ['/v1/vision', { messages: seen }, 'vision'],
    ['/v1/transcription', { audio: AUDIO }, 'audio_input'],
    ['/v1/translation', { audio: AUDIO }, 'audio_input'],
    ['/v1/audio', { audio: AUDIO }, 'audio_input'],
    ['/v1/audio', { task: 'speech', input: 'sos' }, 'audio_output'],
    ['/v1/speech', { input: 'sos' }, 'audio_output'],
    ['/v1/video', { prompt: 'e' }, 'video_generation'],
  ]
  for (const [path, body, capability] of rows) {
    holdsEnvelope(t, await ask('one', path, body), path)
    const refused = await ask(`without ${capability}`, path, body)
    t.equal(refused.status, 503, `${path} without ${capability}`)
    t.match(refused.body.error, {
      code: 'NO_HEALTHY_PROVIDER',
      details: { entries: [{ missing: [capability] }] },
    })
  }
})

t.test('5. the way of a request', async (t) => {
  await service.calls()
  const stranger = await speak('one', { input: 5 }, { headers: { authorization: `Bearer ${makeKey()}` } })
  t.equal(stranger.status, 401, 'the key is looked at before the body')

  const named = (purpose: string) => speak('one', { purpose })
  t.match((await named('calls')).body, { provider: 'platform', lk_applied_purpose: 'calls' })
  t.match((await named('cals')).body, { provider: 'own', lk_purpose_source: 'purpose_unknown' })

  const { body } = await speak('filtered')
  t.equal(body.provider, 'platform', 'capability, plan and limits leave one entry')
  t.equal((await speak('cheapest')).body.provider, 'platform', 'in the order of the strategy')
  t.equal(await service.calls(), 4, 'no one else was asked')
})

t.test('6. the next entry is tried, and the client gets one response', async (t) => {
  const answered = await speak('failing')
  holdsEnvelope(t, answered, 'as if nothing had been')
  t.equal(answered.body.provider, 'platform')
  t.equal(await service.calls(), 2)
})

t.test('7. a required feature is kept or the call is refused', async (t) => {
  const features = [
    { diarization: true },
    { timestamps: 'word' },
    { redaction: true },
    { mode: 'realtime' },
    { keyterms: ['lark'] },
  ]
  for (const feature of features) {
    const { status, body } = await hear('plain', feature)
    t.equal(status, 422, JSON.stringify(feature))
    t.equal(body.error?.code, 'REQUIRED_FEATURE_UNAVAILABLE')
  }
  t.equal(await service.calls(), 0, 'before any provider is asked')
  const { body } = await hear('degrading', { diarization: true })
  t.match(body.error?.details.attempts, [{ provider: 'own' }])
  t.equal(await service.calls(), 1, 'an entry that would drop it is no fallback')
})

t.test('8. the cost is an estimate of what the provider charges, without a margin', async (t) => {
  const [own, platform] = [await hear('priced'), await hear('platform')]
  t.match(own.body.usage, { audio_seconds: 1, billable_audio_seconds: 1, total_tokens: 0 })
  t.equal(own.body.cost_usd, PRICE.per_hour_usd / 3600)
  t.equal(platform.body.cost_usd, own.body.cost_usd)
})

t.test('9. nothing of the configuration is reached through /v1', async (t) => {
  for (const path of ['/v1/routes', '/v1/keys', '/v1/providers', '/v1/purposes', '/v1/workspaces']) {
    for (const method of ['GET', 'POST', 'PUT', 'DELETE']) {
      const { status } = await ask('one', path, method === 'GET' ? null : {}, { method })
      t.equal(status, 404, `${method} ${path}`)
    }
  }
  const { status, headers } = await ask('one', '/v1/me', {}, { method: 'PUT' })
  t.equal(status, 405)
  t.equal(headers.get('allow'), 'GET, HEAD')
})

t.test('errors: code, category, and whether to send it again', async (t) => {
  await speak('quick')
  await service.calls()
  const large = 'A'.repeat(60_000)
  const nobody = { headers: { authorization: '' } }
  const rows: [name: string, answered: Answered, code: ErrorCode, param: string | null][] = [
    ['a format', await speak('one', { response_format: 'flac' }), 'INVALID_REQUEST', 'response_format'],
    ['no key', await speak('one', {}, nobody), 'UNAUTHENTICATED', null],
    ['a path', await ask('one', '/v1/nothing', {}), 'NOT_FOUND', null],
    ['a method', await ask('one', '/v1/speech', null), 'METHOD_NOT_ALLOWED', null],
    ['the body', await speak('one', { input: large + large }), 'REQUEST_TOO_LARGE', null],
    ['the audio', await hear('one', { audio: { base64: large } }), 'AUDIO_TOO_LARGE', 'audio'],
    [
      'a provider',
      await hear('one', { audio: { ...AUDIO, provider: 'own' } }),
      'ROUTE_CONTROL_NOT_ALLOWED',
      'audio.provider',
    ],
    [
      'a model',
      await hear('one', { audio: { ...AUDIO, model: MODEL } }),
      'ROUTE_CONTROL_NOT_ALLOWED',
      'audio.model',
    ],
    ['a feature', await hear('plain', { diarization: true }), 'REQUIRED_FEATURE_UNAVAILABLE', null],
    ['the plan', await speak('poor'), 'PLAN_NOT_ENTITLED', null],
    ['no ears', await hear('without audio_input'), 'NO_HEALTHY_PROVIDER', null],
    ['no voice', await speak('without audio_output'), 'NO_HEALTHY_PROVIDER', null],
    [
      'no films',
      await ask('without video_generation', '/v1/video', { prompt: 'e' }),
      'NO_HEALTHY_PROVIDER',
      null,
    ],
    ['too often', await speak('quick'), 'RATE_LIMITED', null],
  ]
  t.equal(await service.calls(), 0, 'none of them reached a provider')
  rows.push(['providers fail', await speak('hopeless'), 'UPSTREAM_ERROR', null])
  t.equal(await service.calls(), 2)

  for (const [name, { status, headers, body }, code, param] of rows) {
    const { category, retryable, status: expected } = ERRORS[code]
    t.equal(status, expected, name)
    t.match(headers.get('content-type'), 'application/json')
    const { message, details, request_id, ...facts } = body.error ?? { details: {} }
    t.same(facts, { code, category, type: category, retryable, param }, name)
    t.match({ message, details, request_id }, { message: /./, details: Object, request_id: /^req_/ })
    t.equal(headers.get('x-lk-request-id'), request_id)
    t.equal(headers.get('x-should-retry'), String(retryable))
    t.equal(headers.has('retry-after'), code === 'RATE_LIMITED', `${name}: Retry-After`)
    const routed = !['UNAUTHENTICATED', 'NOT_FOUND', 'METHOD_NOT_ALLOWED'].includes(code)
    t.equal(headers.has('x-lk-policy-version-id'), routed, `${name}: policy version`)
  }
})
