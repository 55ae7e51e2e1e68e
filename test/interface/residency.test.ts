import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { secret, startRouteGateway } from '../support/route-gateway.ts'
import { DEEPGRAM_KEY, deepgramDialect } from '../support/upstream/deepgram.ts'
import { ELEVENLABS_KEY, elevenlabsDialect } from '../support/upstream/elevenlabs.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'

const WAV = filledWav(32_044, 1)
const MODEL = 'morse-1'

/** A workspace that demands nothing, one that does, and an app of the second with a purpose that demands more. */
async function start(t: Test) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const keys = { free: makeKey(), bound: makeKey() }
  const base_url = `${new URL(sandbox.url).origin}/v1`
  const provider = { kind: 'sandbox', access: 'platform', base_url }
  const price = Object.fromEntries(
    ['hour', '1k_characters', '1m_input_tokens', '1m_output_tokens', 'image', 'video_second'].map((unit) => [
      `per_${unit}_usd`,
      0,
    ]),
  )
  const entries = ['us', 'eu', 'strict'].map((name) => ({ provider: name, model: MODEL, price }))
  const config = {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: {
      us: { ...provider, region: 'us-east-1', retention: { days: 30 } },
      eu: { ...provider, region: 'eu-west-1', retention: { days: 7 }, training: 'never' },
      strict: { ...provider, region: 'eu', retention: 'zero', training: 'never' },
    },
    routes: { free: { workspace: 'free', entries }, bound: { workspace: 'bound', entries } },
    workspaces: {
      free: {
        credits_usd: 1,
        grant_id: 'a',
        apps: { web: { route: 'free' } },
        keys: [{ id: 'key_free', app: 'web', sha256: hashKey(keys.free) }],
      },
      bound: {
        credits_usd: 1,
        grant_id: 'a',
        require: { region: 'eu' },
        purposes: {
          secret: { require: { retention: { days: 1 } } },
          nothing: { require: { retention: 'zero' } },
        },
        apps: { web: { route: 'bound' } },
        keys: [{ id: 'key_bound', app: 'web', sha256: hashKey(keys.bound) }],
      },
    },
  }
  const env = { LARKWAY_MEMORY_MIB: '8' }
  return { gateway: await startGateway(t, { config, key: keys.free, env }), keys }
}

interface Sent {
  readonly path?: string
  readonly key: string
  readonly header?: string
  readonly fields?: Readonly<Record<string, unknown>>
  readonly headers?: Readonly<Record<string, string>>
  /** Audio that is the body, in place of a form or JSON. */
  readonly raw?: Buffer
}

async function ask({ url }: Gateway, { path = '/v1/chat', key, header, fields = {}, raw, ...sent }: Sent) {
  const headers: Record<string, string> = { authorization: `Bearer ${key}`, ...sent.headers }
  if (header !== undefined) headers['x-lk-require'] = header
  const isAudio = /transcription|speech-to-text/.test(path)
  let body: FormData | Uint8Array<ArrayBuffer> | string
  if (raw !== undefined) body = new Uint8Array(raw)
  else if (isAudio) {
    body = new FormData()
    if (path.startsWith('/openai')) body.append('model', 'whisper-1')
    for (const [name, value] of Object.entries(fields)) body.append(name, String(value))
    if (path.startsWith('/elevenlabs')) body.append('model_id', 'scribe_v2')
    body.append('file', new Blob([WAV]), 'a.wav')
  } else {
    headers['content-type'] = 'application/json'
    const text = /speak|text-to/.test(path) ? { text: 'sos' } : { input: 'sos' }
    const own = /spe[ae]/.test(path) ? text : path.includes('queue') ? { mode: 'bulk' } : CHAT
    body = JSON.stringify({ ...own, ...fields })
  }
  const response = await fetch(`${url}${path}`, { method: 'POST', headers, body })
  const facts = response.headers
  const isJson = response.headers.get('content-type')?.includes('json') === true
  const text = (isJson ? await response.json() : {}) as { readonly provider?: string }
  return { ...text, status: response.status, provider: facts.get('x-lk-provider') ?? text.provider } as {
    status: number
    provider: string | null
    err_code?: string
    error?: { code: string; param: string | null; message: string; details: { entries: { left: string }[] } }
  }
}

const CHAT_ALONE = { messages: [{ role: 'user', content: 'sos' }] }
const CHAT = { ...CHAT_ALONE, model: 'any' }

t.test('demands in the header, in the body, of the purpose and of the workspace', async (t) => {
  const { gateway, keys } = await start(t)
  const { free, bound } = keys
  const served: [string, Sent, string][] = [
    ['nothing', { key: free }, 'us'],
    ['of the workspace', { key: bound }, 'eu'],
    ['in the header', { key: free, header: 'region=eu, training=never' }, 'eu'],
    ['in the body as a text', { key: free, fields: { require: 'retention=1' } }, 'strict'],
    ['in the body as an object', { key: free, fields: { require: { region: ['eu', 'ch'] } } }, 'eu'],
    ['in both', { key: free, header: 'region=eu', fields: { require: { retention: 'zero' } } }, 'strict'],
    ['of the purpose', { key: bound, fields: { purpose: 'secret' } }, 'strict'],
    ['null', { key: free, fields: { require: null } }, 'us'],
    ['of a transcription', { key: free, path: '/v1/transcription', fields: { require: 'region=eu' } }, 'eu'],
    ['of speech', { key: bound, path: '/v1/speech', header: 'retention=zero' }, 'strict'],
    ["at OpenAI's path", { key: free, path: '/openai/v1/chat/completions', header: 'region=eu' }, 'eu'],
    [
      "of a transcription at OpenAI's path",
      { key: bound, path: '/openai/v1/audio/transcriptions', header: 'retention=zero' },
      'strict',
    ],
  ]
  for (const [name, sent, provider] of served)
    t.match(await ask(gateway, sent), { status: 200, provider }, name)

  for (const [type, status] of [
    ['audio/wav', 200],
    ['audio/flac', 400],
  ] as const) {
    const headers = { accept: type }
    const spoken = await ask(gateway, { key: free, path: '/v1/speech', header: 'retention=zero', headers })
    t.match(
      spoken,
      { status, ...(status === 200 ? { provider: 'strict' } : {}) },
      `${type} is looked for as ever`,
    )
  }
  const live = await fetch(`${gateway.url}/v1/transcription?mode=realtime`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${free}`,
      'content-type': 'audio/wav',
      'x-lk-require': 'retention=zero',
    },
    body: WAV,
  })
  t.equal(live.status, 200, 'a live session keeps nothing')
  t.match(await live.text(), /"provider":"strict"/)

  const nowhere = await ask(gateway, { key: bound, header: 'region=us' })
  t.match(nowhere, {
    status: 422,
    error: {
      code: 'REQUIRED_FEATURE_UNAVAILABLE',
      message: /: region$/,
      details: { entries: [{ left: 'residency' }, { left: 'residency' }, { left: 'residency' }] },
    },
  })
  const idempotent = { 'idempotency-key': 'once' }
  const kept: [string, Sent, string][] = [
    ['a job', { key: free, path: '/v1/transcription/jobs', header: 'retention=zero' }, 'a job is kept'],
    [
      'a job of a purpose',
      { key: bound, path: '/v1/transcription/jobs', fields: { purpose: 'nothing' } },
      'a job is kept',
    ],
    [
      'mode=async',
      { key: free, path: '/v1/transcription', header: 'retention=0', fields: { mode: 'async' } },
      'a job is',
    ],
    [
      'an order',
      {
        key: free,
        path: '/v1/queue',
        header: 'retention=zero',
        fields: { endpoint: 'chat', payload: CHAT_ALONE },
      },
      'a job is kept',
    ],
    [
      'an idempotency key',
      { key: free, path: '/v1/transcription', header: 'retention=zero', headers: idempotent },
      'the answer under an idempotency key is kept',
    ],
  ]
  for (const [name, sent, why] of kept)
    t.match(
      await ask(gateway, sent),
      { status: 422, error: { code: 'REQUIRED_FEATURE_UNAVAILABLE', message: new RegExp(why) } },
      name,
    )
  const job = await ask(gateway, {
    key: bound,
    path: '/v1/transcription/jobs',
    fields: { purpose: 'secret' },
  })
  t.equal(job.status, 202, 'a day is enough for a job')

  const unread: [string, Sent, string][] = [
    ['a misspelled name', { key: free, header: 'regoin=eu' }, 'X-LK-Require'],
    ['a misspelled value', { key: free, header: 'training=no' }, 'X-LK-Require'],
    ['another type', { key: free, fields: { require: 7 } }, 'require'],
    ['another member', { key: free, fields: { require: { region: 'eu', zone: 'b' } } }, 'require'],
    ['in a form', { key: free, path: '/v1/transcription', fields: { require: 'eu' } }, 'require'],
    ['beyond ASCII', { key: free, header: 'region=eü' }, 'X-LK-Require'],
  ]
  for (const [name, sent, param] of unread)
    t.match(await ask(gateway, sent), { status: 400, error: { code: 'INVALID_REQUEST', param } }, name)
})

t.test("vendors' own words for it are demands at their doors", async (t) => {
  const { gateway, keys } = await start(t)
  const { free, bound } = keys
  const listen = '/deepgram/v1/listen?mip_opt_out'
  const scribe = '/elevenlabs/v1/speech-to-text?enable_logging'
  const voice = '/elevenlabs/v1/text-to-speech/alloy'
  // Goes to the store, which the gateway has to know before it has read any of it.
  const large = filledWav(9 * 1024 * 1024, 1)
  const served: [string, Sent, string][] = [
    ['listen', { key: free, path: `${listen}=true`, raw: WAV }, 'strict'],
    ['listen, large', { key: free, path: `${listen}=true`, raw: large }, 'strict'],
    ['listen, once of two', { key: free, path: `${listen}=false&mip_opt_out=true`, raw: WAV }, 'strict'],
    ['listen, off', { key: free, path: `${listen}=false`, raw: WAV }, 'us'],
    ['speak', { key: free, path: '/deepgram/v1/speak?mip_opt_out=true' }, 'strict'],
    ['speech to text', { key: free, path: `${scribe}=false` }, 'strict'],
    ['the same in the form', { key: free, path: scribe, fields: { enable_logging: 'false' } }, 'strict'],
    ['speech to text, logged', { key: free, path: `${scribe}=true` }, 'us'],
    ['text to speech', { key: free, path: `${voice}?enable_logging=false` }, 'strict'],
    ['beside the header', { key: free, path: `${listen}=true`, raw: WAV, header: 'region=eu' }, 'strict'],
  ]
  for (const [name, sent, provider] of served)
    t.match(await ask(gateway, sent), { status: 200, provider }, name)

  const nowhere: [string, Sent][] = [
    ['listen', { key: bound, path: `${listen}=true`, raw: WAV, header: 'region=us' }],
    ['speak', { key: bound, path: '/deepgram/v1/speak?mip_opt_out=true', header: 'region=us' }],
    ['speech to text', { key: bound, path: `${scribe}=false`, header: 'region=us' }],
    ['text to speech', { key: bound, path: `${voice}?enable_logging=false`, header: 'region=us' }],
    [
      'an idempotency key',
      { key: free, path: `${listen}=true`, raw: WAV, headers: { 'idempotency-key': 'once' } },
    ],
  ]
  const lacking = { status: 422, error: { code: 'REQUIRED_FEATURE_UNAVAILABLE' } }
  for (const [name, sent] of nowhere) t.match(await ask(gateway, sent), lacking, name)
  for (const [path, param] of [
    [`${listen}=perhaps`, 'mip_opt_out'],
    [`${scribe}=perhaps`, 'enable_logging'],
  ] as const)
    t.match(await ask(gateway, { key: free, path, raw: WAV }), { status: 400, error: { param } }, path)
})

t.test('a promise is asked of its provider, on the wire', async (t) => {
  const elevenlabs = await startUpstream(t, { dialect: elevenlabsDialect() })
  const deepgram = await startUpstream(t, { dialect: deepgramDialect() })
  const gateway = await startRouteGateway(t, {
    providers: {
      elevenlabs: {
        ...{ kind: 'elevenlabs', base_url: elevenlabs.url, api_key: secret('XI_KEY') },
        retention: 'zero',
      },
      deepgram: { kind: 'deepgram', base_url: deepgram.url, api_key: secret('DG_KEY'), training: 'never' },
      plain: { kind: 'deepgram', base_url: deepgram.url, api_key: secret('DG_KEY') },
    },
    entries: [
      { provider: 'plain', model: 'nova-3' },
      { provider: 'elevenlabs', model: 'scribe_v2' },
      { provider: 'deepgram', model: 'nova-3' },
      { provider: 'elevenlabs', model: 'eleven_flash_v2_5' },
      { provider: 'deepgram', model: 'aura-2', voices: { 'thalia-en': 'thalia-en' } },
    ],
    env: { XI_KEY: ELEVENLABS_KEY, DG_KEY: DEEPGRAM_KEY },
  })
  const hear = async (demand?: string) => {
    const form = new FormData()
    form.append('file', new Blob([WAV]), 'a.wav')
    const headers = demand === undefined ? {} : { 'x-lk-require': demand }
    t.equal((await gateway.post('/v1/transcription', form, headers)).status, 200, demand ?? 'nothing')
  }
  const speak = async (demand: string, voice: object = {}) => {
    const said = await gateway.post('/v1/speech', { input: 'hello', ...voice }, { 'x-lk-require': demand })
    t.equal(said.status, 200, demand)
  }
  await hear()
  await hear('retention=zero')
  await hear('training=never')
  await speak('retention=zero')
  await speak('training=never', { voice: 'thalia-en' })
  t.same(
    elevenlabs.received.map(({ path }) => path),
    [
      '/v1/speech-to-text?enable_logging=false',
      '/v1/text-to-speech/JBFqnCBsd6RMkjVDRZzb?output_format=mp3_44100_128&enable_logging=false',
    ],
  )
  t.same(
    deepgram.received.map(({ path }) => new URL(path, 'http://any').searchParams.get('mip_opt_out')),
    [null, 'true', 'true'],
  )
})
