import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { multipart } from '../support/bodies.ts'
import { type RouteGateway, startRouteGateway } from '../support/route-gateway.ts'
import { TRANSCRIPT_DELTAS } from '../support/upstream/openai.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'

const PATH = '/v1/transcription/jobs'
const TEXT = TRANSCRIPT_DELTAS.join('')
/** Two seconds. */
const WAV = filledWav(44 + 64_000, 1)
const ENTRY = {
  provider: 'ears',
  model: 'whisper-1',
  capabilities: ['audio_input'],
  features: ['word_timestamps', 'segment_timestamps'],
  hints: ['language', 'prompt'],
  price: { per_hour_usd: 3.6 },
}
const KEY_FAR = makeKey()

interface Rig {
  readonly upstream: Upstream
  readonly gateway: RouteGateway
}

interface JobObject {
  readonly job_id: string
  readonly status: string
  readonly result: { readonly content: string; readonly [field: string]: unknown } | null
  readonly [field: string]: unknown
}

async function start(t: Test, env: Readonly<Record<string, string>> = {}): Promise<Rig> {
  const upstream = await startUpstream(t)
  const providers = { ears: { kind: 'openai-compatible', base_url: upstream.url } }
  const gateway = await startRouteGateway(t, { providers, entries: [ENTRY], env })
  return { upstream, gateway }
}

/** Hands a job in and waits for its end. */
async function runJob(
  { url, authorization }: RouteGateway,
  body: Uint8Array | string,
  headers: Readonly<Record<string, string>>,
  query = '',
) {
  const response = await fetch(url + PATH + query, {
    method: 'POST',
    headers: { ...authorization, ...headers },
    body: typeof body === 'string' ? body : new Uint8Array(body),
  })
  const text = await response.text()
  if (response.status !== 202) throw new Error(text)
  const { poll_url: pollUrl } = JSON.parse(text) as { poll_url: string }
  return { submission: response, ended: await ended(url + pollUrl, authorization) }
}

async function ended(url: string, headers: Readonly<Record<string, string>>): Promise<JobObject> {
  for (let times = 0; times < 20; times += 1) {
    const response = await fetch(`${url}?wait=10`, { headers })
    const job = (await response.json()) as JobObject
    if (response.status !== 200) throw new Error(JSON.stringify(job))
    if (response.headers.get('retry-after') === null) return job
  }
  throw new Error('the job does not end')
}

for (const [tier, memory, wav] of [
  ['memory', '64', WAV],
  ['store', '8', filledWav(44 + 16_000_000, 1)],
] as const) {
  t.test(`a job answers what the synchronous endpoint does: ${tier} tier`, async (t) => {
    const { upstream, gateway } = await start(t, { LARKWAY_MEMORY_MIB: memory })
    const { contentType, body } = multipart([
      { name: 'file', body: wav },
      { name: 'language', body: 'en' },
    ])
    const json = JSON.stringify({ audio: { base64: wav.toString('base64') }, language: 'en' })
    const forms = [
      [body, { 'content-type': contentType }, ''],
      [json, { 'content-type': 'application/json' }, ''],
      [wav, { 'content-type': 'audio/wav' }, '?language=en'],
    ] as const
    const whole = await fetch(`${gateway.url}/v1/transcription?language=en`, {
      method: 'POST',
      headers: { ...gateway.authorization, 'content-type': 'audio/wav' },
      body: new Uint8Array(wav),
    })
    const { id: _, ...expected } = (await whole.json()) as { id: string; content: string }
    t.equal(expected.content, TEXT)
    for (const [sent, headers, query] of forms) {
      const { submission, ended: job } = await runJob(gateway, sent, headers, query)
      t.match(job, { status: 'succeeded', attempts: 1, error: null, lk_purpose_source: 'none' })
      const { id, ...result } = job.result!
      t.same(result, expected, headers['content-type'])
      t.equal(id, submission.headers.get('x-lk-request-id'))
      t.equal(job.policy_version_id, result.policy_version_id)
    }
    const [first] = upstream.received
    t.ok(
      upstream.received.every(({ sha256 }) => sha256 === first?.sha256),
      'the very bytes, every time',
    )
    t.equal(upstream.received.length, 4)
  })
}

t.test('a rendered text stands in the content, and large results are fetched', async (t) => {
  const { upstream, gateway } = await start(t)
  const headers = { 'content-type': 'audio/wav' }
  const srt = await runJob(gateway, WAV, headers, '?response_format=srt')
  t.match(srt.ended.result?.content, /00:00:0\d,\d{3} --> /)
  upstream.behave('whisper-1', { deltas: Array.from({ length: 60_000 }, (_, at) => `mot-é${at} `) })
  const { ended: large } = await runJob(gateway, WAV, headers)
  t.match(large, { status: 'succeeded', result: null })
  const opened = await fetch(gateway.url + String(large.result_url))
  t.equal(opened.status, 200)
  const { content } = (await opened.json()) as { content: string }
  t.match(content, /^mot-é0 mot-é1 .*mot-é59999 ?$/)
})

t.test('what fails says why', async (t) => {
  const { upstream, gateway } = await start(t)
  const headers = { 'content-type': 'audio/wav' }
  upstream.behave('whisper-1', { status: 400 })
  const { ended: refused } = await runJob(gateway, WAV, headers)
  t.match(refused, { status: 'failed', result: null, attempts: 1 })
  t.match(refused.error, { code: 'UPSTREAM_REJECTED', category: 'upstream', retryable: false })
  t.match(refused.error, { details: { reason: 'other' }, message: 'the provider refused this input' })
  t.notMatch(JSON.stringify(refused), /sk-secret/, 'nothing that a provider said')
  t.equal(upstream.received.length, 1)
})

t.test('the purpose that was asked for, and whether it was served', async (t) => {
  const upstream = await startUpstream(t)
  const entries = [{ ...ENTRY, purposes: ['calls'] }]
  const gateway = await startRouteGateway(t, {
    providers: { ears: { kind: 'openai-compatible', base_url: upstream.url } },
    entries,
    config: {
      routes: { main: { workspace: 'acme', entries: [ENTRY] }, calls: { workspace: 'acme', entries } },
      workspaces: {
        acme: {
          purposes: { calls: { description: 'Support calls', enabled: true } },
          apps: { web: { route: 'main', purposes: { calls: 'calls' } } },
          keys: [{ id: 'key_far', app: 'web', sha256: hashKey(KEY_FAR), scopes: ['jobs'] }],
        },
      },
    },
  })
  // A key for jobs and nothing else.
  const far = { ...gateway, authorization: { authorization: `Bearer ${KEY_FAR}` } }
  const outcomes = [
    ['?purpose=calls', {}, 'calls', 'calls', 'body'],
    ['', { 'x-lk-purpose': 'calls' }, 'calls', 'calls', 'header'],
    ['?purpose=cals', {}, 'cals', null, 'purpose_unknown'],
    ['', {}, null, null, 'none'],
  ] as const
  const versions = new Set<unknown>()
  for (const [query, purpose, requested, applied, source] of outcomes) {
    const { ended: job } = await runJob(far, WAV, { 'content-type': 'audio/wav', ...purpose }, query)
    const facts = {
      lk_requested_purpose: requested,
      lk_applied_purpose: applied,
      lk_purpose_source: source,
      policy_version_id: job.policy_version_id,
    }
    t.match(job, { status: 'succeeded', ...facts, result: { content: TEXT, ...facts } })
    versions.add(job.policy_version_id)
  }
  t.equal(versions.size, 2, 'each route has its version')
})
