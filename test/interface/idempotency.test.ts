import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { multipart } from '../support/bodies.ts'
import { startGateway } from '../support/gateway.ts'
import { keyedUpload } from '../support/keyed-call.ts'
import { RawClient } from '../support/raw-client.ts'
import { type RouteGateway, startRouteGateway } from '../support/route-gateway.ts'
import { TRANSCRIPT_DELTAS, TRANSCRIPTION_ENTRY } from '../support/upstream/openai.ts'
import { startUpstream, type Upstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const TEXT = TRANSCRIPT_DELTAS.join('')
/** Two seconds. */
const WAV = filledWav(44 + 64_000, 1)
const KEY_FAR = makeKey()

interface Rig {
  readonly upstream: Upstream
  readonly gateway: RouteGateway
}

async function start(
  t: Test,
  config: Readonly<Record<string, unknown>> = {},
  entries: readonly (typeof TRANSCRIPTION_ENTRY)[] = [TRANSCRIPTION_ENTRY],
): Promise<Rig> {
  const upstream = await startUpstream(t)
  const providers = { ears: { kind: 'openai-compatible', base_url: upstream.url } }
  const gateway = await startRouteGateway(t, { providers, entries, config })
  return { upstream, gateway }
}

type Fields = Readonly<Record<string, string>>

/** The audio and its fields in any form that a body can have. */
const FORMS = {
  'multipart, fields first': (fields: Fields, wav: Buffer) => form(partsOf(fields), wav, 'before'),
  'multipart, fields behind, in another order': (fields: Fields, wav: Buffer) =>
    form(partsOf(fields).reverse(), wav, 'behind'),
  json: (fields: Fields, wav: Buffer) =>
    json({ ...typed(fields), audio: { base64: wav.toString('base64') } }),
  'json, wrapped text and another name': (fields: Fields, wav: Buffer) => {
    const wrapped = wav.toString('base64').replaceAll(/.{76}/g, '$&\n')
    return json({
      audio: { data: wrapped, filename: 'other.wav', media_type: 'audio/wav' },
      ...typed(fields),
    })
  },
  raw: (fields: Fields, wav: Buffer) => ({
    query: `?${new URLSearchParams(fields)}`,
    headers: { 'content-type': 'audio/wav' },
    body: wav,
  }),
}

/** As JSON has them. */
const typed = ({ stream, ...fields }: Fields) =>
  stream === undefined ? fields : { ...fields, stream: stream === 'true' }

const partsOf = (fields: Fields) => Object.entries(fields).map(([name, body]) => ({ name, body }))

function form(parts: { name: string; body: string }[], wav: Buffer, place: 'before' | 'behind') {
  const file = { name: 'file', filename: `${randomUUID()}.wav`, type: 'audio/wav', body: wav }
  const { contentType, body } = multipart(place === 'before' ? [...parts, file] : [file, ...parts], {
    boundary: randomUUID(),
  })
  return { query: '', headers: { 'content-type': contentType }, body }
}

function json(value: object) {
  return {
    query: '',
    headers: { 'content-type': 'application/json' },
    body: Buffer.from(JSON.stringify(value)),
  }
}

interface Sent {
  readonly form?: keyof typeof FORMS
  readonly fields?: Fields
  readonly wav?: Buffer
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
  /** Without a Content-Length. */
  readonly chunked?: boolean
}

async function send(gateway: RouteGateway, key: string, sent: Sent = {}) {
  const { form = 'multipart, fields first', fields = {}, wav = WAV, path = '/v1/transcription' } = sent
  const { query, headers, body } = FORMS[form](fields, wav)
  const response = await fetch(gateway.url + path + query, {
    method: 'POST',
    headers: { ...gateway.authorization, ...headers, 'idempotency-key': key, ...sent.headers },
    body: sent.chunked === true ? new Blob([new Uint8Array(body)]).stream() : new Uint8Array(body),
    signal: sent.signal ?? null,
    duplex: 'half',
  })
  const text = await response.text()
  const { error } = (response.headers.get('content-type') === 'application/json' ? JSON.parse(text) : {}) as {
    error?: { code: string; retryable: boolean }
  }
  return { status: response.status, headers: response.headers, text, code: error?.code }
}

function assertReplay(t: Test, again: Awaited<ReturnType<typeof send>>, first: typeof again, what: string) {
  t.equal(again.status, first.status, what)
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true', `${what}: says that it is a replay`)
  t.equal(again.text, first.text, `${what}: the same bytes`)
  t.equal(again.headers.get('content-type'), first.headers.get('content-type'))
  t.not(again.headers.get('x-lk-request-id'), first.headers.get('x-lk-request-id'))
}

t.test('a key is executed once, and answered by the same bytes whatever form the request has', async (t) => {
  const { upstream, gateway } = await start(t)
  const fields = { language: 'en', prompt: 'birds' }
  const first = await send(gateway, 'k-forms', { fields })
  t.match(JSON.parse(first.text), { content: TEXT, id: first.headers.get('x-lk-request-id') })
  t.equal(first.headers.get('x-lk-idempotent-replay'), null)
  t.equal(first.headers.get('x-lk-idempotency'), null)
  for (const form of Object.keys(FORMS) as (keyof typeof FORMS)[]) {
    assertReplay(t, await send(gateway, 'k-forms', { form, fields }), first, form)
  }
  assertReplay(t, await send(gateway, '"k-forms"', { fields }), first, 'a quoted key')
  t.equal(upstream.received.length, 1)

  const flipped = Buffer.from(WAV)
  flipped[30_000]! ^= 1
  const other: readonly Sent[] = [
    { fields, wav: flipped },
    { fields, wav: flipped, form: 'json' },
    { fields, wav: WAV.subarray(0, -2) },
    { fields: { ...fields, prompt: 'Birds' } },
    { fields: { language: 'en' } },
    { fields: { ...fields, timestamps: 'word' } },
    { fields: { ...fields, response_format: 'text' } },
    { fields: { ...fields, seed: '1' } },
    { fields, headers: { 'x-lk-purpose': 'calls' } },
  ]
  for (const sent of other) {
    const { status, code, headers } = await send(gateway, 'k-forms', sent)
    t.same([status, code, headers.get('x-should-retry')], [409, 'IDEMPOTENCY_KEY_REUSED', 'false'])
  }
  t.equal(upstream.received.length, 1)
})

t.test(
  'what is replayed is what was sent: text with its facts, large answers, another operation',
  async (t) => {
    const { upstream, gateway } = await start(t)
    const text = await send(gateway, 'k-text', { fields: { response_format: 'text' } })
    const textAgain = await send(gateway, 'k-text', { fields: { response_format: 'text' } })
    assertReplay(t, textAgain, text, 'text')
    t.equal(textAgain.text, TEXT)
    for (const name of [
      'x-lk-provider',
      'x-lk-model',
      'x-lk-usage-audio-seconds',
      'x-lk-policy-version-id',
    ]) {
      t.equal(textAgain.headers.get(name), text.headers.get(name))
      t.ok(text.headers.get(name), name)
    }

    upstream.behave('whisper-1', { deltas: Array.from({ length: 20_000 }, (_, at) => `mot-é${at} `) })
    const large = await send(gateway, 'k-large')
    t.ok(Buffer.byteLength(large.text) > 200_000)
    assertReplay(t, await send(gateway, 'k-large'), large, 'a large answer')
    upstream.behave('whisper-1', {})

    const translated = await send(gateway, 'k-text', { path: '/v1/translation' })
    t.equal(translated.status, 200, 'another operation has keys of its own')
    assertReplay(t, await send(gateway, 'k-text', { path: '/v1/translation' }), translated, 'translation')
    t.equal(upstream.received.length, 3)
  },
)

t.test('while the first is running all others are told to wait', async (t) => {
  const { upstream, gateway } = await start(t)
  const gate = Promise.withResolvers<void>()
  upstream.behave('whisper-1', { before: () => gate.promise })
  const first = send(gateway, 'k-busy')
  t.ok(await waitUntil(() => upstream.received.length === 1))
  const others = await Promise.all(
    (Object.keys(FORMS) as (keyof typeof FORMS)[]).map((form) => send(gateway, 'k-busy', { form })),
  )
  for (const { status, code, headers } of others) {
    t.same([status, code], [409, 'IDEMPOTENCY_REPLAY_IN_PROGRESS'])
    t.same([headers.get('retry-after'), headers.get('x-should-retry')], ['5', 'true'])
  }
  gate.resolve()
  assertReplay(
    t,
    await send(gateway, 'k-busy', {}).then(async (early) => {
      // The answer of the first may be on its way to the state.
      await first
      return early.status === 200 ? early : send(gateway, 'k-busy')
    }),
    await first,
    'afterwards',
  )
  t.equal(upstream.received.length, 1)
})

t.test('a known failure frees the key; an unknown one burns it', async (t) => {
  const { upstream, gateway } = await start(t, { deadline_seconds: 2 })
  upstream.behave('whisper-1', { status: 500 })
  t.match(await send(gateway, 'k-500'), { status: 502, code: 'UPSTREAM_ERROR' })
  upstream.behave('whisper-1', { status: 400 })
  t.match(await send(gateway, 'k-500'), { status: 422, code: 'UPSTREAM_REJECTED' })
  upstream.behave('whisper-1', {})
  t.match(await send(gateway, 'k-500'), { status: 200 })

  upstream.behave('whisper-1', { fate: 'cut' })
  const cut = await send(gateway, 'k-cut')
  t.match(cut, { status: 504, code: 'UPSTREAM_OUTCOME_UNKNOWN' })
  t.equal(cut.headers.get('x-should-retry'), 'false')
  const late = Promise.withResolvers<void>()
  upstream.behave('whisper-1', { before: () => late.promise })
  t.match(await send(gateway, 'k-late'), { status: 504, code: 'UPSTREAM_OUTCOME_UNKNOWN' })
  late.resolve()
  upstream.behave('whisper-1', {})
  const calls = upstream.received.length
  for (const key of ['k-cut', 'k-late']) {
    t.match(await send(gateway, key), { status: 409, code: 'IDEMPOTENT_RESULT_UNAVAILABLE' })
  }
  t.equal(upstream.received.length, calls)
})

t.test(
  'an entry that fails for good makes up for none of unknown outcome; one that answers does',
  async (t) => {
    const entries = [TRANSCRIPTION_ENTRY, { ...TRANSCRIPTION_ENTRY, model: 'second' }]
    const { upstream, gateway } = await start(t, {}, entries)
    upstream.behave('whisper-1', { fate: 'cut' })
    upstream.behave('second', { status: 400 })
    t.match(await send(gateway, 'k-both'), { status: 504, code: 'UPSTREAM_OUTCOME_UNKNOWN' })
    t.match(await send(gateway, 'k-both'), { status: 409, code: 'IDEMPOTENT_RESULT_UNAVAILABLE' })
    upstream.behave('second', {})
    const cured = await send(gateway, 'k-cured')
    t.match(cured, { status: 200 })
    assertReplay(t, await send(gateway, 'k-cured'), cured, 'the answer of the second')
  },
)

t.test('what is refused before a provider is asked leaves the key free', async (t) => {
  const { upstream, gateway } = await start(t, { limits: { max_audio_bytes: 70_000 } })
  const refusals: readonly (readonly [number, Sent])[] = [
    [400, { fields: { language: 'x'.repeat(40) } }],
    [413, { wav: filledWav(80_000, 1) }],
    [415, { wav: Buffer.from('this is no audio') }],
    [422, { fields: { diarization: 'true' } }],
  ]
  for (const [status, sent] of refusals) t.match(await send(gateway, 'k-refused', sent), { status })
  t.match(await send(gateway, 'k-refused'), { status: 200 })
  t.equal(upstream.received.length, 1)
})

t.test('a caller who leaves finds the answer later', async (t) => {
  const { upstream, gateway } = await start(t)
  const gate = Promise.withResolvers<void>()
  upstream.behave('whisper-1', { before: () => gate.promise })
  const leaving = new AbortController()
  const left = send(gateway, 'k-left', { signal: leaving.signal })
  t.ok(await waitUntil(() => upstream.received.length === 1))
  leaving.abort()
  await t.rejects(left)
  await new Promise((resolve) => setTimeout(resolve, 300))
  t.equal(upstream.received[0]?.state, 'answering', 'the provider works on')
  gate.resolve()
  t.ok(await waitUntil(() => gateway.log.some(({ msg }) => msg === 'request went on')))
  const [left499, wentOn] = gateway.log.filter(({ status }) => status === 499)
  t.match(left499, { msg: 'request', estimated: true, attempts: [{ reason: 'not finished' }] })
  t.match(wentOn, { cost_usd: 0.002, attempts: [{ reason: 'ok', status: 200 }], error: 'CLIENT_CLOSED' })
  t.equal(wentOn?.estimated, undefined, 'what it came to in the end is in the log')
  const again = await send(gateway, 'k-left')
  t.match(JSON.parse(again.text), { content: TEXT })
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
  t.equal(upstream.received.length, 1)
})

t.test('a stop waits for it, and the answer survives the restart', async (t) => {
  const { upstream, gateway } = await start(t)
  const gate = Promise.withResolvers<void>()
  upstream.behave('whisper-1', { before: () => gate.promise })
  const leaving = new AbortController()
  const left = send(gateway, 'k-stop', { signal: leaving.signal })
  t.ok(await waitUntil(() => upstream.received.length === 1))
  leaving.abort()
  await t.rejects(left)
  const stopped = gateway.signal('SIGTERM')
  await new Promise((resolve) => setTimeout(resolve, 300))
  gate.resolve()
  t.equal(await stopped, 0)
  const { dataFolder, key } = gateway
  const restarted = await startGateway(t, {
    dataFolder,
    key,
    env: { LARKWAY_CONFIG: `${dataFolder}/larkway.yaml` },
  })
  const again = await send({ ...gateway, ...restarted }, 'k-stop')
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
  t.equal(upstream.received.length, 1)
})

t.test('a stop leaves a call the time for its end', async (t) => {
  const { upstream, gateway } = await start(t, { deadline_seconds: 3, video_deadline_seconds: 3 })
  // Either takes less than the deadline, and both together more.
  upstream.behave('whisper-1', { before: () => sleep(1_800) })
  const { head, body } = keyedUpload('k-late', gateway.authorization.authorization)
  const client = await RawClient.connect(gateway.port)
  await client.send(head, body.subarray(0, 1_000))
  const stopped = gateway.signal('SIGTERM')
  await sleep(2_100)
  await client.send(body.subarray(1_000))
  t.equal((await client.response())?.status, 200)
  t.equal(await stopped, 0)
})

t.test('keys of another app are others', async (t) => {
  const { upstream, gateway } = await start(t, {
    workspaces: {
      acme: {
        apps: { web: { route: 'main' }, far: { route: 'main' } },
        keys: [{ id: 'key_far', app: 'far', sha256: hashKey(KEY_FAR) }],
      },
    },
  })
  const far = { headers: { authorization: `Bearer ${KEY_FAR}` } }
  t.match(await send(gateway, 'k-app', far), { status: 200 })
  t.match(await send(gateway, 'k-app'), { status: 401 }, 'this one has no key here')
  t.equal(upstream.received.length, 1)
})

/** The stream of a request, which tells nothing of a key. */
function assertStream(t: Test, { status, headers, text }: Awaited<ReturnType<typeof send>>, what: string) {
  t.same([status, headers.get('x-lk-idempotency')], [200, 'bypassed'], what)
  t.match(headers.get('content-type'), 'text/event-stream', what)
  t.match(text, /"type":"transcript\.text\.done"/, what)
  t.equal(headers.get('x-lk-idempotent-replay'), null, what)
}

t.test('a stream passes by a key that is running, stored or burned, whatever form it has', async (t) => {
  const entries = [TRANSCRIPTION_ENTRY, { ...TRANSCRIPTION_ENTRY, model: 'second' }]
  const { upstream, gateway } = await start(t, {}, entries)
  const stored = await send(gateway, 'k-stored')
  upstream.behave('whisper-1', { fate: 'cut' })
  upstream.behave('second', { fate: 'cut' })
  t.match(await send(gateway, 'k-burned'), { code: 'UPSTREAM_OUTCOME_UNKNOWN' })
  upstream.behave('whisper-1', {})
  const gate = Promise.withResolvers<void>()
  upstream.behave('whisper-1', { before: () => gate.promise })
  const running = send(gateway, 'k-running')
  const calls = upstream.received.length
  t.ok(await waitUntil(() => upstream.received.length === calls + 1))
  upstream.behave('whisper-1', {})

  const other = filledWav(44 + 64_000, 2)
  const before = upstream.received.length
  let streams = 0
  for (const key of ['k-running', 'k-stored', 'k-burned']) {
    for (const form of Object.keys(FORMS) as (keyof typeof FORMS)[]) {
      for (const [wav, chunked] of [
        [WAV, false],
        [other, true],
      ] as const) {
        const what = `${key}, ${form}${chunked ? ', chunked, other audio' : ''}`
        assertStream(t, await send(gateway, key, { form, wav, chunked, fields: { stream: 'true' } }), what)
        streams += 1
      }
    }
  }
  t.equal(upstream.received.length, before + streams, 'each was executed')

  for (const form of Object.keys(FORMS) as (keyof typeof FORMS)[]) {
    const whole = { form, fields: { stream: 'false' } }
    assertReplay(t, await send(gateway, 'k-stored', whole), stored, `${form}: one that is none is replayed`)
    t.match(await send(gateway, 'k-stored', { ...whole, wav: other }), { code: 'IDEMPOTENCY_KEY_REUSED' })
    t.match(await send(gateway, 'k-running', whole), { code: 'IDEMPOTENCY_REPLAY_IN_PROGRESS' })
    t.match(await send(gateway, 'k-burned', whole), { code: 'IDEMPOTENT_RESULT_UNAVAILABLE' })
  }
  t.equal(upstream.received.length, before + streams)
  gate.resolve()
  t.match(await running, { status: 200 })
})

t.test(
  'what cannot be a stream is refused as without a key, and a late second thought as well',
  async (t) => {
    const { upstream, gateway } = await start(t)
    const streamed = { fields: { stream: 'true' } }
    t.match(await send(gateway, 'k-whole', { path: '/v1/translation' }), { status: 200 })
    const refused = await send(gateway, 'k-whole', { path: '/v1/translation', ...streamed })
    t.match(JSON.parse(refused.text), { error: { code: 'INVALID_REQUEST', param: 'stream' } })
    t.match(await send(gateway, 'k-whole'), { status: 200 })
    const response = await fetch(`${gateway.url}/v1/transcription`, {
      method: 'POST',
      headers: { ...gateway.authorization, 'idempotency-key': 'k-whole', 'content-type': 'application/json' },
      body: `{"stream":false,"audio":"${WAV.toString('base64')}","stream":true}`,
    })
    t.match(await response.json(), { error: { code: 'INVALID_REQUEST', param: 'stream' } })
    t.equal(upstream.received.length, 2)
  },
)

t.test('streams pass a key by, other endpoints ignore it, and malformed ones are refused', async (t) => {
  const { upstream, gateway } = await start(t)
  const streamed = { fields: { stream: 'true' } }
  for (let i = 0; i < 2; i++) {
    const { status, headers } = await send(gateway, 'k-stream', streamed)
    t.same([status, headers.get('x-lk-idempotency')], [200, 'bypassed'])
  }
  t.equal(upstream.received.length, 2)
  const whole = await send(gateway, 'k-stream')
  t.equal(whole.headers.get('x-lk-idempotent-replay'), null)
  t.equal(upstream.received.length, 3)

  const audio = await send(gateway, 'k-audio', { path: '/v1/audio' })
  t.same([audio.status, audio.headers.get('x-lk-idempotency')], [200, 'ignored'])
  const heard = await send(gateway, 'k-audio', { path: '/v1/audio', ...streamed })
  t.same([heard.status, heard.headers.get('x-lk-idempotency')], [200, 'ignored'], 'streamed, too')
  for (const key of ['k'.repeat(257), 'a b', 'k\tz', '""']) {
    const refused = await send(gateway, key)
    t.match(refused, { status: 400, code: 'INVALID_REQUEST' })
    t.match(JSON.parse(refused.text), { error: { param: 'Idempotency-Key' } })
    for (const name of ['x-lk-policy-version-id', 'x-ratelimit-remaining-requests']) {
      t.ok(refused.headers.get(name), `${name}: the caller was admitted first`)
    }
    const headers = { authorization: `Bearer ${KEY_FAR}` }
    t.match(await send(gateway, key, { headers }), { status: 401 }, 'and no one else is told')
  }
  t.match(await send(gateway, 'k'.repeat(256)), { status: 200 })
  const calls = upstream.received.length
  for (const key of ['order-ü', 'order-ä', 'üorder', 'orüder']) {
    const { status, text } = await send(gateway, key)
    t.match([status, JSON.parse(text)], [400, { error: { param: 'Idempotency-Key' } }], key)
  }
  const purpose = await send(gateway, 'k-purpose', { headers: { 'x-lk-purpose': 'supportü' } })
  t.match(JSON.parse(purpose.text), { error: { code: 'INVALID_REQUEST', param: 'X-LK-Purpose' } })
  t.equal(upstream.received.length, calls)
})
