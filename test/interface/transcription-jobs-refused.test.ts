import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { Entry } from '../../src/contracts/catalog.ts'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import { factsOf } from '../../src/gateway/providers/facts.ts'
import { fixture } from '../gateway/media/fixtures.ts'
import { multipart } from '../support/bodies.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { RawClient } from '../support/raw-client.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { type Answered, type JobsApi, startJobsApi } from './jobs-api.ts'

const PATH = '/v1/transcription/jobs'
/** 18.75 seconds. */
const WAV = filledWav(600_044, 1)
/** MPEG systems, with whole frames of MPEG audio in the first packet. */
const PROGRAM_STREAM = Buffer.concat([
  Buffer.from('000001ba44000400040100000303f8000001c0080080000000', 'hex'),
  fixture('mp3-cbr-bare.mp3'),
])
const BASE64 = WAV.toString('base64')

async function isEmpty({ objects }: JobsApi): Promise<boolean> {
  for await (const _ of objects.list('')) return false
  return true
}

/** Nothing is there but what was before: no job, no object, no memory. */
async function assertNothingLeft(t: Test, api: JobsApi, what: string): Promise<void> {
  const kinds = ['job/', 'spool/', 'result/', 'slot/']
  const left: string[] = []
  const clean = await waitUntil(async () => {
    left.length = 0
    for (const kind of kinds) for await (const { key } of api.objects.list(kind)) left.push(key)
    return left.length === 0 && api.budgetUsed() === 0
  })
  t.ok(clean, `${what}: left are ${left} and ${api.budgetUsed()} bytes`)
  t.equal(await api.jobs.waiting(), 0, what)
}

const json = (value: object) => ({ type: 'application/json', body: Buffer.from(JSON.stringify(value)) })
const form = (fields: Readonly<Record<string, string>>, wav = WAV) => {
  const parts = Object.entries(fields).map(([name, body]) => ({ name, body }))
  const { contentType, body } = multipart([{ name: 'file', body: wav }, ...parts])
  return { type: contentType, body }
}

interface Row {
  readonly status: number
  readonly code: string
  readonly param?: string | null
  readonly reason?: string
  readonly sent: { readonly type: string; readonly body: Buffer }
}

const url = (text: string, more: object = {}) => json({ audio: { url: text }, ...more })

const ROWS: Readonly<Record<string, Row>> = {
  'a stream': { status: 400, code: 'INVALID_REQUEST', param: 'stream', sent: form({ stream: 'true' }) },
  'a stream of JSON': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: 'stream',
    sent: json({ audio: BASE64, stream: true }),
  },
  'a stream, async': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: 'stream',
    sent: form({ stream: 'true', mode: 'async' }),
  },
  'an unknown mode': { status: 400, code: 'INVALID_REQUEST', param: 'mode', sent: form({ mode: 'slow' }) },
  realtime: { status: 422, code: 'REQUIRED_FEATURE_UNAVAILABLE', sent: form({ mode: 'realtime' }) },
  'realtime by URL': {
    status: 422,
    code: 'REQUIRED_FEATURE_UNAVAILABLE',
    sent: url('https://cdn.example.com/a.wav', { mode: 'realtime' }),
  },
  'a feature that nobody has': {
    status: 422,
    code: 'REQUIRED_FEATURE_UNAVAILABLE',
    sent: form({ diarization: 'true' }),
  },
  'a provider of the caller’s choice': {
    status: 400,
    code: 'ROUTE_CONTROL_NOT_ALLOWED',
    param: 'model',
    sent: form({ model: 'whisper-1' }),
  },
  'the same inside audio': {
    status: 400,
    code: 'ROUTE_CONTROL_NOT_ALLOWED',
    param: 'audio.provider',
    sent: json({ audio: { base64: BASE64, provider: 'openai' } }),
  },
  'a bad field': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: 'language',
    sent: form({ language: 'x'.repeat(40) }),
  },
  'no audio': { status: 400, code: 'INVALID_REQUEST', param: 'audio', sent: json({ language: 'en' }) },
  'two audios': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: 'audio',
    sent: json({ audio: { base64: BASE64, url: 'https://cdn.example.com/a.wav' } }),
  },
  'no JSON': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: null,
    sent: { ...json({}), body: Buffer.from('{') },
  },
  'a type that is not taken': {
    status: 415,
    code: 'UNSUPPORTED_MEDIA_TYPE',
    sent: { type: 'text/plain', body: WAV },
  },
  'what is no audio': {
    status: 415,
    code: 'UNSUPPORTED_AUDIO_FORMAT',
    sent: form({}, Buffer.alloc(50_000, 'no audio ')),
  },
  'a program stream': { status: 415, code: 'UNSUPPORTED_AUDIO_FORMAT', sent: form({}, PROGRAM_STREAM) },
  'audio over its limit': { status: 413, code: 'AUDIO_TOO_LARGE', sent: form({}, filledWav(1_000_001, 1)) },
  'base64 over its limit': {
    status: 413,
    code: 'AUDIO_TOO_LARGE',
    sent: json({ audio: filledWav(1_000_001, 1).toString('base64') }),
  },
  'audio that is too long': {
    status: 413,
    code: 'AUDIO_TOO_LONG',
    sent: form({}, filledWav(900_000, 1, 8_000)),
  },
  'keyterms that nobody takes': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: 'keyterms',
    sent: json({ audio: BASE64, keyterms: ['one', 'two'] }),
  },
  'keyterms that nobody takes, by URL': {
    status: 400,
    code: 'INVALID_REQUEST',
    param: 'keyterms',
    sent: url('https://cdn.example.com/a.wav', { keyterms: ['one', 'two'] }),
  },
  ...Object.fromEntries(
    Object.entries({
      'http://cdn.example.com/a.wav': 'scheme',
      'https://other.example/a.wav': 'host_not_allowed',
      'https://127.0.0.1/a.wav': 'host_not_allowed',
      'https://u:p@cdn.example.com/a.wav': 'credentials_in_url',
      'https://cdn.example.com:8443/a.wav': 'port_not_allowed',
    }).map(([text, reason]): [string, Row] => [
      text,
      { status: 400, code: 'AUDIO_URL_REJECTED', param: 'audio.url', reason, sent: url(text) },
    ]),
  ),
}

/** A route that takes transcriptions of whatever format, but two keyterms and speakers. */
function plainEntry(): Entry {
  const entry = entryAt('http://127.0.0.1:1')
  const { facts } = entry
  const features = facts.features.filter((feature) => feature !== 'diarization')
  return { ...entry, facts: { ...facts, features, limits: { keyterms: { max_items: 1 } } } }
}

for (const [tier, memoryMib] of [
  ['memory', 64],
  ['store', 0.5],
] as const) {
  t.test(`what is refused before the answer leaves nothing behind, ${tier} tier`, async (t) => {
    const api = await startJobsApi(t, {
      memoryMib,
      entries: [plainEntry()],
      domains: ['cdn.example.com'],
      limits: { max_audio_bytes: 1_000_000, max_audio_seconds: 30 },
    })
    t.ok(await isEmpty(api))
    for (const [what, { status, code, param, reason, sent }] of Object.entries(ROWS)) {
      for (const key of [undefined, `k ${what}`.replaceAll(/[^a-z0-9]/g, '-')]) {
        const headers = { 'content-type': sent.type, ...(key && { 'idempotency-key': key }) }
        const answer: Answered = await api.ask('POST', PATH, { headers, body: sent.body })
        t.equal(answer.status, status, `${what}: ${answer.text}`)
        t.equal(answer.error?.code, code, what)
        if (param !== undefined) t.equal(answer.error?.param, param, what)
        if (reason !== undefined) t.match(answer.error?.details, { reason })
        // What a refused body is still charged for, the next one would not get of so small a budget.
        await waitUntil(() => api.budgetUsed() === 0)
      }
    }
    await assertNothingLeft(t, api, tier)
    const fine = await api.ask('POST', PATH, { headers: { 'content-type': 'audio/wav' }, body: WAV })
    t.equal(fine.status, 202, fine.text)
  })
}

t.test('whom the route, the plan or nobody can serve', async (t) => {
  const deaf = entryAt('http://127.0.0.1:1')
  const api = await startJobsApi(t)
  const { route: served, workspace } = api.dependencies.services.snapshot().keys.values().next().value!
  const speaking = { ...deaf, facts: { ...deaf.facts, capabilities: ['audio_output'] as const } }
  const rows = [
    [503, 'NO_HEALTHY_PROVIDER', { route: { ...served, entries: [speaking] } }],
    [503, 'NO_HEALTHY_PROVIDER', { route: { ...served, published: false } }],
    [
      403,
      'PLAN_NOT_ENTITLED',
      { workspace: { ...workspace, plan: 'free', includes: new Set(['text'] as const) } },
    ],
  ] as const
  for (const [status, code, caller] of rows) {
    const authorization = api.admit(caller)
    for (const sent of [form({}), url('https://cdn.example.com/a.wav')]) {
      const headers = { authorization, 'content-type': sent.type }
      if (sent.type === 'application/json') await allow(api, 'cdn.example.com')
      const answer = await api.ask('POST', PATH, { headers, body: sent.body })
      t.match(answer, { status, error: { code, retryable: false } })
    }
  }
  const overridden = { ...served, version: 'pv_aaaaaaaaaaaaaaaa', entries: [speaking] }
  const authorization = api.admit({ capabilityRoutes: new Map([['audio_input', overridden]]) })
  const refused = await api.ask('POST', PATH, {
    headers: { authorization, 'content-type': 'audio/wav' },
    body: WAV,
  })
  t.match(refused, { status: 503, error: { details: { policy_version_id: 'pv_aaaaaaaaaaaaaaaa' } } })
  t.equal(refused.headers.get('x-lk-policy-version-id'), 'pv_aaaaaaaaaaaaaaaa')
  await assertNothingLeft(t, api, 'all of them')
})

t.test('features that a model keeps one by one only are refused before a job is accepted', async (t) => {
  const morse = { kind: 'sandbox', model: 'morse-1', facts: factsOf('sandbox', 'morse-1')! }
  const api = await startJobsApi(t, { entries: [entryAt('http://127.0.0.1:1', morse)] })
  const asked: Readonly<Record<string, string>>[] = [
    { timestamps: 'word', diarization: 'true' },
    { timestamps: 'both', response_format: 'diarized_json' },
  ]
  for (const fields of asked) {
    for (const path of [PATH, '/v1/transcription']) {
      const { type, body } = form(fields)
      const answer = await api.ask('POST', path, { headers: { 'content-type': type }, body })
      t.match(answer, {
        status: 422,
        error: {
          code: 'REQUIRED_FEATURE_UNAVAILABLE',
          details: { entries: [{ left: 'features', conflict: ['word_timestamps', 'diarization'] }] },
        },
      })
    }
  }
  await assertNothingLeft(t, api, 'all of them')
  const one = form({ diarization: 'true' })
  const taken = await api.ask('POST', PATH, { headers: { 'content-type': one.type }, body: one.body })
  t.equal(taken.status, 202, taken.text)
})

function allow({ dependencies }: JobsApi, domain: string): Promise<void> {
  return dependencies.services.state.settings.putAudioUrlDomains('acme', [domain])
}

t.test('providers that fare badly just now refuse no job', async (t) => {
  const api = await startJobsApi(t)
  const { health, snapshot } = api.dependencies.services
  const [entry] = snapshot().keys.values().next().value!.route.entries
  const nowMs = performance.now()
  const asked = { kind: 'rate', status: 429, reason: 'status 429', providerMessage: null } as const
  for (const retryAfterMs of [600_000, null])
    for (let times = 0; times < 6; times += 1) health.failed(entry!, { ...asked, retryAfterMs }, nowMs)
  t.not(health.view(entry!, nowMs).state, 'closed')
  const { status } = await api.ask('POST', PATH, { headers: { 'content-type': 'audio/wav' }, body: WAV })
  t.equal(status, 202)
})

t.test('mode: async is for transcriptions of their own path, and keys with the scope', async (t) => {
  const api = await startJobsApi(t)
  const { key } = api.dependencies.services.snapshot().keys.values().next().value!
  const sent = form({ mode: 'async' })
  for (const [path, more] of [
    ['/v1/translation', {}],
    ['/v1/audio', {}],
    ['/v1/audio', { task: 'translation' }],
  ] as const) {
    const { type, body } = form({ mode: 'async', ...more })
    const answer = await api.ask('POST', path, { headers: { 'content-type': type }, body })
    t.match(answer, { status: 400, error: { code: 'INVALID_REQUEST', param: 'mode' } }, path)
  }
  const authorization = api.admit({ key: { ...key, id: 'key_sync', scopes: ['inference'] } })
  const headers = { authorization, 'content-type': sent.type }
  const refused = await api.ask('POST', '/v1/transcription', { headers, body: sent.body })
  t.match(refused, { status: 403, error: { code: 'PERMISSION_DENIED', details: { scope: 'jobs' } } })
  const jobsOnly = api.admit({ key: { ...key, id: 'key_jobs', scopes: ['jobs'] } })
  const other = await api.ask('POST', '/v1/transcription', {
    headers: { authorization: jobsOnly, 'content-type': sent.type },
    body: sent.body,
  })
  t.match(other, { status: 403, error: { details: { scope: 'inference' } } })
  await assertNothingLeft(t, api, 'mode: async')
})

t.test('a client that leaves, or breaks off, leaves nothing', async (t) => {
  for (const memoryMib of [64, 2]) {
    const api = await startJobsApi(t, { memoryMib })
    const wav = filledWav(3_000_044, 1)
    for (const sentBytes of [0, 100, 1_500_000, 3_000_043]) {
      const client = await RawClient.connect(api.port)
      await client.send(
        `POST ${PATH} HTTP/1.1\r\nHost: a\r\nAuthorization: ${api.authorization}\r\nIdempotency-Key: k\r\n` +
          `Content-Type: audio/wav\r\nContent-Length: ${wav.length}\r\n\r\n`,
        wav.subarray(0, sentBytes),
      )
      client.destroy()
    }
    await assertNothingLeft(t, api, `${memoryMib} MiB`)
    t.match(await api.jobs.waiting(), 0)
  }
})

t.test('a client that leaves while its audio is being kept leaves nothing', async (t) => {
  let putting = 0
  const slowly = (objects: Objects): Objects => ({
    ...objects,
    async put(...args) {
      putting += 1
      await sleep(400)
      return objects.put(...args)
    },
  })
  for (const headers of [{}, { 'idempotency-key': 'k' }]) {
    const api = await startJobsApi(t, { inFrontOf: slowly })
    const leaving = new AbortController()
    putting = 0
    const asked = { headers: { 'content-type': 'audio/wav', ...headers }, body: WAV, signal: leaving.signal }
    const left = api.ask('POST', PATH, asked).catch(() => 'left')
    t.ok(await waitUntil(() => putting > 0))
    leaving.abort()
    t.equal(await left, 'left')
    await sleep(600)
    await assertNothingLeft(t, api, 'left while it is kept')
  }
})

t.test('without its store nothing is accepted, nor without the list of hosts', async (t) => {
  for (const memoryMib of [64, 2]) {
    const api = await startJobsApi(t, { memoryMib, inFrontOf: withoutUploads })
    for (const [type, wav] of [
      ['audio/wav', WAV],
      ['audio/wav', filledWav(3_000_044, 1)],
    ] as const) {
      const headers = { 'content-type': type, 'idempotency-key': 'k' }
      const answer = await api.ask('POST', PATH, { headers, body: wav })
      t.match(answer, { status: 503, error: { code: 'DEPENDENCY_UNAVAILABLE', retryable: true } })
    }
    await assertNothingLeft(t, api, `${memoryMib} MiB`)
    const { settings } = api.dependencies.services.state
    settings.audioUrlDomains = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
    const remote = await api.submit({ audio: { url: 'https://cdn.example.com/a.wav' } })
    t.match(remote, { status: 503, error: { code: 'DEPENDENCY_UNAVAILABLE' } })
    t.equal(await api.jobs.waiting(), 0)
  }
})

/** A store that takes nothing. */
function withoutUploads(objects: Objects): Objects {
  const away = () => Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE'))
  return { ...objects, put: away, upload: away }
}
