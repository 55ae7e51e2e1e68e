import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startRouteGateway } from '../support/route-gateway.ts'
import type { Script } from '../support/upstream/dialect.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { VirtualClock } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

// Limits of tokens and of audio seconds a minute: of a key, of a workspace, of a provider's account.

const ANSWER_TOKENS = 40
const CHAT = { messages: [{ role: 'user', content: 'a'.repeat(40) }], max_tokens: 90 }
/** Ten for the text, and as many as the answer may have. */
const FORESEEN = 100
const USAGE = { prompt_tokens: 10, completion_tokens: ANSWER_TOKENS - 10, total_tokens: ANSWER_TOKENS }
const second = makeKey()

interface Limits {
  readonly ofKey?: object
  readonly ofWorkspace?: object
  readonly ofAccount?: object
  readonly ofOther?: object
  readonly script?: Script | (() => Script)
  readonly entries?: readonly object[]
}

async function start(t: Test, given: Limits) {
  const { ofKey, ofWorkspace, ofAccount, ofOther, script, entries = [] } = given
  const clock = new VirtualClock()
  const upstream = await startUpstream(t, {
    script: script ?? { usage: USAGE, message: { content: 'hello' } },
  })
  const provider = { kind: 'openai-compatible', base_url: upstream.url, access: 'byok', workspace: 'acme' }
  const facts = { model: 'm-1', capabilities: ['text', 'audio_input', 'audio_output'] }
  const key = makeKey()
  const keys = [
    { id: 'key_one', app: 'web', sha256: hashKey(key), ...(ofKey && { rate_limit: ofKey }) },
    { id: 'key_two', app: 'web', sha256: hashKey(second) },
  ]
  const gateway = await startRouteGateway(t, {
    providers: {},
    entries: [],
    clock,
    config: {
      providers: {
        one: { ...provider, ...(ofAccount && { rate_limit: ofAccount }) },
        two: { ...provider, ...(ofOther && { rate_limit: ofOther }) },
      },
      routes: { main: { workspace: 'acme', entries: [{ provider: 'one', ...facts }, ...entries] } },
      workspaces: {
        acme: { apps: { web: { route: 'main' } }, keys, ...(ofWorkspace && { rate_limit: ofWorkspace }) },
      },
    },
  })
  const as = (one: string) => ({ authorization: `Bearer ${one}` })
  const post = async (path: string, body: unknown, holder = key, headers = {}) => {
    const response = await gateway.post(path, body, { ...as(holder), ...headers })
    const json = (await response.json()) as Record<string, unknown> & {
      readonly error?: { readonly code: string; readonly details: Record<string, unknown> }
    }
    const told = (name: string) => response.headers.get(`x-ratelimit-${name}`)
    return { status: response.status, json, told, retryAfter: response.headers.get('retry-after') }
  }
  const chat = (holder?: string) => post('/v1/chat', CHAT, holder)
  const hear = (seconds: number, holder?: string) => post('/v1/transcription', form(seconds), holder)
  return { clock, gateway, upstream, post, chat, hear, key }
}

function form(seconds: number): FormData {
  const data = new FormData()
  data.append('file', new Blob([new Uint8Array(filledWav(seconds * 16_000, 0, 8_000))]), 'a.wav')
  return data
}

t.test('tokens of a key: foreseen, then counted', async (t) => {
  const { chat, post, clock, upstream } = await start(t, { ofKey: { tokens_per_minute: 250 } })
  const first = await chat()
  t.equal(first.status, 200)
  t.same(
    ['limit-tokens', 'remaining-tokens', 'reset-tokens'].map(first.told),
    ['250', '150', '24s'],
    'as much as it may come to',
  )
  const next = await chat()
  t.equal(next.told('remaining-tokens'), String(250 - ANSWER_TOKENS - FORESEEN), 'the rest was given back')
  t.equal((await chat()).status, 200)
  t.equal((await chat()).status, 200)
  const refused = await chat()
  t.equal(refused.status, 429)
  t.match(refused.json.error, {
    code: 'RATE_LIMITED',
    details: { rate_limit: 'key', unit: 'tokens', limit_per_minute: 250 },
  })
  t.equal(refused.told('remaining-tokens'), '90')
  t.equal(refused.retryAfter, '3')
  t.equal(upstream.received.length, 4, 'no provider was asked')
  t.equal((await chat(second)).status, 200, 'another key has its own')
  t.equal((await chat(second)).told('limit-tokens'), null, 'and is told of none')
  const speech = await post('/v1/speech', { input: 'hello', response_format: 'wav' })
  t.same([speech.status, speech.told('limit-tokens')], [200, null], 'speech has no tokens')
  await clock.advance(2_400)
  t.equal((await chat()).status, 200, 'what was used is there again')
})

t.test('audio seconds of a workspace, shared by its keys', async (t) => {
  const { hear, clock } = await start(t, { ofWorkspace: { audio_seconds_per_minute: 60 } })
  const first = await hear(40)
  t.equal(first.status, 200)
  t.same([first.told('limit-audio-seconds'), first.told('remaining-audio-seconds')], ['60', '20'])
  const refused = await hear(30, second)
  t.match(refused.json.error, {
    code: 'RATE_LIMITED',
    details: { rate_limit: 'workspace', unit: 'audio_seconds' },
  })
  t.equal(refused.retryAfter, '10')
  t.equal((await hear(20, second)).status, 200)
  await clock.advance(60_000)
  t.equal((await hear(150)).status, 200, 'more than a minute gives is taken from a full bucket')
  t.equal((await hear(1)).retryAfter, '91', 'and owed')
  await clock.advance(91_000)
  t.equal((await hear(1)).status, 200)
})

t.test('what came to nothing is given back', async (t) => {
  let status = 500
  const { chat, post } = await start(t, {
    ofKey: { tokens_per_minute: 250, audio_seconds_per_minute: 60 },
    ofAccount: { tokens_per_minute: 250 },
    script: () => (status === 200 ? { usage: USAGE, message: { content: 'hello' } } : { status }),
  })
  for (let count = 0; count < 5; count += 1) t.equal((await chat()).json.error?.code, 'UPSTREAM_ERROR')
  status = 200
  t.equal((await chat()).told('remaining-tokens'), '150')
  const idempotent = () => post('/v1/transcription', form(30), undefined, { 'idempotency-key': 'one' })
  const [once, again] = [await idempotent(), await idempotent()]
  t.equal(once.told('remaining-audio-seconds'), '30')
  t.same(
    [once.status, again.status, again.told('remaining-audio-seconds')],
    [200, 200, null],
    'a replay is free',
  )
})

t.test('what a provider may have done is not given back', async (t) => {
  let held = true
  const { gateway, key, chat, upstream } = await start(t, {
    ofKey: { tokens_per_minute: 250 },
    script: () =>
      held ? { before: () => new Promise(() => {}) } : { usage: USAGE, message: { content: 'hello' } },
  })
  const leaving = new AbortController()
  const headers = { authorization: `Bearer ${key}`, 'content-type': 'application/json' }
  const [method, body, signal] = ['POST', JSON.stringify(CHAT), leaving.signal] as const
  const left = fetch(`${gateway.url}/v1/chat`, { method, headers, body, signal })
  await waitUntil(() => upstream.received.length === 1)
  leaving.abort()
  await t.rejects(left)
  held = false
  await waitUntil(() => gateway.log.some(({ msg }) => msg === 'request'))
  t.equal((await chat()).told('remaining-tokens'), String(250 - 2 * FORESEEN))
})

t.test('jobs are counted when they are accepted', async (t) => {
  const { post, hear, gateway, key } = await start(t, { ofKey: { audio_seconds_per_minute: 60 } })
  const accepted = await post('/v1/transcription/jobs', form(40))
  t.equal(accepted.status, 202)
  t.equal(accepted.told('remaining-audio-seconds'), '20')
  t.match((await post('/v1/transcription/jobs', form(40))).json.error, { code: 'RATE_LIMITED' })
  const url = `${gateway.url}/v1/transcription/jobs/${accepted.json.job_id}`
  await waitUntil(async () => {
    const job = (await (await fetch(url, { headers: { authorization: `Bearer ${key}` } })).json()) as {
      status: string
    }
    return job.status === 'succeeded'
  })
  t.equal((await hear(20)).told('remaining-audio-seconds'), '0', 'and not again when they run')
})

t.test('an account that has had its share is passed over, and one alone is waited for', async (t) => {
  const facts = { model: 'm-1', capabilities: ['text', 'audio_input', 'audio_output'] }
  const ofAccount = { tokens_per_minute: 150, audio_seconds_per_minute: 60 }
  const entries = [{ provider: 'two', ...facts }]
  const shared = await start(t, { ofAccount, entries })
  const providers = []
  for (let count = 0; count < 4; count += 1) providers.push((await shared.chat()).json.provider)
  t.same(providers, ['one', 'one', 'two', 'two'], 'an answer gives back what it has not used')
  const both = await start(t, { ofAccount, ofOther: { audio_seconds_per_minute: 30 }, entries })
  for (const seconds of [50, 30]) t.equal((await both.hear(seconds)).status, 200)
  const soonest = await both.hear(30)
  t.equal(soonest.retryAfter, '20', 'the first account that has it, not the last')
  t.match(soonest.json.error, { message: /retry after 20 s$/ })
  const alone = await start(t, { ofAccount })
  t.equal((await alone.hear(50)).status, 200)
  const refused = await alone.hear(30)
  t.match(refused.json.error, { code: 'RATE_LIMITED' })
  t.equal(refused.retryAfter, '20')
  t.equal(alone.upstream.received.length, 1)
  const { json } = await alone.post('/v1/transcription/jobs', form(30))
  const statusOf = async () => {
    const url = `${alone.gateway.url}/v1/transcription/jobs/${json.job_id}`
    const response = await fetch(url, { headers: { authorization: `Bearer ${alone.key}` } })
    return ((await response.json()) as { status: string }).status
  }
  await waitUntil(async () => (await statusOf()) === 'processing')
  await alone.clock.armed(20_000)
  await alone.clock.advance(20_000)
  await waitUntil(async () => (await statusOf()) === 'succeeded')
  t.equal(await statusOf(), 'succeeded', 'a job waits for it')
  const attempts = alone.gateway.log.flatMap((line) =>
    line.job_id === json.job_id ? (line.attempts ?? []) : [],
  )
  const [waited] = attempts as { milliseconds: number }[]
  t.ok(waited !== undefined && waited.milliseconds < 20_000, 'and the wait is no part of the attempt')
})
