import { createHash } from 'node:crypto'
import { once } from 'node:events'
import t, { type Test } from 'tap'
import { multipart } from '../support/bodies.ts'
import { eventsOf, readEvents } from '../support/event-source.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { type RouteGateway, startRouteGateway } from '../support/route-gateway.ts'
import { TRANSCRIPT_DELTAS } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const TEXT = TRANSCRIPT_DELTAS.join('')
/** Two seconds. */
const WAV = filledWav(44 + 64_000, 1)
/** More than fits beside others in the smallest budget: it goes to the store. */
const LONG_WAV = filledWav(12_000_044, 1)
const PRICE = { per_hour_usd: 3.6 }

const entry = (model: string, features: readonly string[] = [], more: object = {}) => ({
  provider: 'ears',
  model,
  capabilities: ['audio_input'],
  features,
  hints: ['language', 'prompt'],
  price: PRICE,
  ...more,
})
const STREAMING = entry('gpt-4o-transcribe')
const DIARIZING = entry('gpt-4o-transcribe-diarize', ['segment_timestamps', 'diarization'])
const WHISPER = entry('whisper-1', ['word_timestamps', 'segment_timestamps'])

async function start(t: Test, entries: readonly Readonly<Record<string, unknown>>[], memory = '64') {
  const upstream = await startUpstream(t)
  const providers = { ears: { kind: 'openai-compatible', base_url: upstream.url } }
  const gateway = await startRouteGateway(t, { providers, entries, env: { LARKWAY_MEMORY_MIB: memory } })
  return { upstream, gateway }
}

type Kind = 'multipart' | 'multipart, fields behind' | 'json' | 'raw'
const KINDS: readonly Kind[] = ['multipart', 'multipart, fields behind', 'json', 'raw']

/** The same request in any form that a body can have. */
function requestOf(kind: Kind, fields: Readonly<Record<string, string | boolean>>, wav: Buffer) {
  const entries = Object.entries(fields)
  if (kind === 'json') {
    const body = Buffer.from(JSON.stringify({ ...fields, audio: { base64: wav.toString('base64') } }))
    return { query: '', headers: { 'content-type': 'application/json' }, body }
  }
  if (kind === 'raw') {
    const query = new URLSearchParams(
      Object.fromEntries(entries.map(([name, value]) => [name, String(value)])),
    )
    return { query: `?${query}`, headers: { 'content-type': 'audio/wav' }, body: wav }
  }
  const file = { name: 'file', filename: 'a.wav', type: 'audio/wav', body: wav }
  const parts = entries.map(([name, value]) => ({ name, body: String(value) }))
  const { contentType, body } = multipart(kind === 'multipart' ? [...parts, file] : [file, ...parts])
  return { query: '', headers: { 'content-type': contentType }, body }
}

interface Asking {
  readonly kind?: Kind
  readonly wav?: Buffer
  readonly path?: string
  readonly headers?: Readonly<Record<string, string>>
}

function ask(
  gateway: RouteGateway,
  fields: Readonly<Record<string, string | boolean>> = {},
  given: Asking = {},
) {
  const { kind = 'multipart', wav = WAV, path = '/v1/transcription' } = given
  const { query, headers, body } = requestOf(kind, { stream: true, ...fields }, wav)
  return gateway.post(path + query, body, { ...headers, ...given.headers })
}

const idOf = (response: Response) => response.headers.get('x-lk-request-id')
const deltasOf = (pieces: readonly string[]) =>
  pieces.map((delta) => ({ type: 'transcript.text.delta', delta }))

for (const [tier, memory, wav] of [
  ['memory', '64', WAV],
  ['store', '8', LONG_WAV],
] as const) {
  t.test(`pieces, then the whole envelope: ${tier} tier`, { timeout: 120_000 }, async (t) => {
    const { gateway, upstream } = await start(t, [STREAMING], memory)
    const seconds = (wav.length - 44) / 32_000
    const sha256 = createHash('sha256').update(wav).digest('hex')
    for (const kind of KINDS) {
      const response = await ask(gateway, { language: 'en', diarization: false }, { kind, wav })
      t.equal(response.status, 200, kind)
      t.match(Object.fromEntries(response.headers), {
        'content-type': 'text/event-stream',
        'cache-control': 'no-store',
        'x-lk-policy-version-id': /^pv_/,
        'x-ratelimit-remaining-requests': /^\d+$/,
      })
      t.same(await eventsOf(response), [
        ...deltasOf(TRANSCRIPT_DELTAS),
        {
          type: 'transcript.text.done',
          id: idOf(response),
          provider: 'ears',
          model: 'gpt-4o-transcribe',
          policy_version_id: response.headers.get('x-lk-policy-version-id'),
          content: TEXT,
          content_blocks: [],
          usage: { audio_seconds: seconds, billable_audio_seconds: seconds, total_tokens: 0 },
          cost_usd: seconds / 1_000,
          determinism: { seed_honored: false },
          lk_requested_purpose: null,
          lk_applied_purpose: null,
          lk_purpose_source: 'none',
          status: 'succeeded',
          language: null,
          language_confidence: null,
          duration_seconds: seconds,
          segments: [],
          words: [],
          warnings: [],
        },
      ])
      t.match(upstream.received.at(-1), { fields: { stream: 'true', language: 'en' }, sha256 }, kind)
      t.match(await gateway.logLine(idOf(response)), {
        status: 200,
        usage: { audio_seconds: seconds },
        cost_usd: seconds / 1_000,
        attempts: [{ model: 'gpt-4o-transcribe', status: 200, reason: 'ok' }],
        error: undefined,
      })
    }
    await assertStopsClean(t, gateway)
    t.match(gateway.log.at(-1), { bodies: tier === 'memory' ? { stored: 0 } : { held: 0 } })
  })
}

t.test('pieces leave when they come', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [STREAMING])
  const heard = Promise.withResolvers<void>()
  // The second piece is not made before the first has been read.
  upstream.behave('gpt-4o-transcribe', { before: () => heard.promise })
  const response = await ask(gateway)
  const types: unknown[] = []
  for await (const { data } of readEvents(response.body!)) {
    types.push((JSON.parse(data) as { type: unknown }).type)
    if (types.length === 1) t.equal(upstream.received[0]?.state, 'answering')
    heard.resolve()
  }
  const delta = 'transcript.text.delta'
  t.same(types, [delta, delta, delta, 'transcript.text.done'])
})

t.test('a model that does not stream: one piece, and all that it knows', async (t) => {
  const { gateway, upstream } = await start(t, [WHISPER])
  const [first, done, ...more] = await eventsOf(await ask(gateway, { timestamps: 'word' }))
  t.same(first, { type: 'transcript.text.delta', delta: TEXT })
  t.match(done, {
    type: 'transcript.text.done',
    content: TEXT,
    language: 'en',
    words: [{ word: 'the', start: 0, end: 0.2 }],
    segments: [],
  })
  t.equal(more.length, 0)
  t.notHas(upstream.received[0]?.fields, 'stream')
  const timed = await eventsOf(await ask(gateway, { response_format: 'srt' }))
  t.match(
    timed.at(-1),
    { content: /^1\r?\n00:00:00,000 --> 00:00:02,000/ },
    'the rendered text is its content',
  )

  upstream.behave('whisper-1', { deltas: [''] })
  const silent = await eventsOf(await ask(gateway))
  t.match(silent, [{ type: 'transcript.text.done', content: '', warnings: [/^empty_transcript/] }])
  await assertStopsClean(t, gateway)
})

t.test('speakers come with the envelope', async (t) => {
  const { gateway } = await start(t, [STREAMING, DIARIZING])
  const events = await eventsOf(await ask(gateway, { diarization: true }))
  t.match(events, [
    ...deltasOf(TRANSCRIPT_DELTAS),
    {
      model: 'gpt-4o-transcribe-diarize',
      segments: [{ id: 0, start: 0.1, end: 1.9, text: TEXT, speaker: 'speaker_0' }],
    },
  ])
})

t.test('required features fail closed', async (t) => {
  const both = await start(t, [STREAMING, WHISPER])
  const events = await eventsOf(await ask(both.gateway, { timestamps: 'word' }))
  t.match(events.at(-1), { model: 'whisper-1', words: [{ word: 'the' }] }, 'the one that has word times')
  t.match(both.upstream.received, [{ model: 'whisper-1' }], 'and no other was asked')

  const one = await start(t, [STREAMING])
  for (const fields of [
    { timestamps: 'word' },
    { diarization: true },
    { response_format: 'srt' },
    { mode: 'realtime' },
  ]) {
    const response = await ask(one.gateway, fields)
    t.equal(response.status, 422, JSON.stringify(fields))
    t.match(await response.json(), { error: { code: 'REQUIRED_FEATURE_UNAVAILABLE' } })
  }
  // A configuration that promises what the model has not.
  const lying = await start(t, [entry('gpt-4o-transcribe', ['word_timestamps'])])
  t.equal((await ask(lying.gateway, { timestamps: 'word' })).status, 422)
  t.equal(one.upstream.received.length + lying.upstream.received.length, 0)
})

t.test('what ends before the first piece is a status', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [STREAMING, entry('gpt-4o-mini-transcribe')])
  for (const trouble of [
    { status: 500 },
    { status: 429 },
    { cutAfter: 0 },
    { unfinished: true, deltas: [] },
  ]) {
    const rig = await start(t, [STREAMING, entry('gpt-4o-mini-transcribe')])
    rig.upstream.behave('gpt-4o-transcribe', trouble)
    const events = await eventsOf(await ask(rig.gateway))
    const label = JSON.stringify(trouble)
    t.match(events.at(-1), { type: 'transcript.text.done', model: 'gpt-4o-mini-transcribe' }, label)
    t.equal(new Set(rig.upstream.received.map(({ sha256 }) => sha256)).size, 1, `${label}: the same audio`)
    await assertStopsClean(t, rig.gateway)
  }
  upstream.behave('gpt-4o-transcribe', { status: 500 })
  upstream.behave('gpt-4o-mini-transcribe', { cutAfter: 0 })
  const failed = await ask(gateway)
  t.equal(failed.status, 502)
  t.equal(failed.headers.get('content-type'), 'application/json')
  const text = await failed.text()
  t.match(JSON.parse(text), { error: { code: 'UPSTREAM_ERROR', retryable: true } })
  t.notMatch(text, /sk-secret/)
  upstream.behave('gpt-4o-transcribe', { status: 400 })
  t.equal((await ask(gateway)).status, 422)

  const rows: [string, Asking & { readonly fields?: Record<string, string | boolean> }, number, object][] = [
    ['no key', { headers: { authorization: '' } }, 401, { code: 'UNAUTHENTICATED' }],
    ['a translation', { path: '/v1/translation' }, 400, { code: 'INVALID_REQUEST', param: 'stream' }],
    ['a field', { fields: { speaker_count_hint: '99' } }, 400, { param: 'speaker_count_hint' }],
    ['its type', { fields: { stream: 'yes' } }, 400, { code: 'INVALID_REQUEST', param: 'stream' }],
    ['no audio by its bytes', { wav: Buffer.alloc(500, 'x') }, 415, { code: 'UNSUPPORTED_AUDIO_FORMAT' }],
  ]
  for (const [name, { fields, ...given }, status, error] of rows) {
    const response = await ask(gateway, fields, given)
    t.equal(response.status, status, name)
    t.match(await response.json(), { error }, name)
  }
  const whole = await ask(gateway, { stream: '0' })
  t.equal(whole.headers.get('content-type'), 'application/json', 'not streamed when that is said')
  await assertStopsClean(t, gateway)
})

t.test('what breaks off later is an event', { timeout: 60_000 }, async (t) => {
  const { gateway, upstream } = await start(t, [STREAMING, WHISPER], '8')
  for (const trouble of [{ cutAfter: 1 }, { unfinished: true }]) {
    upstream.behave('gpt-4o-transcribe', trouble)
    const response = await ask(gateway, {}, { wav: LONG_WAV })
    t.equal(response.status, 200)
    const events = await eventsOf(response)
    t.match(events[0], { type: 'transcript.text.delta', delta: TRANSCRIPT_DELTAS[0] })
    const { type, error } = events.at(-1) as { type: string; error: Record<string, unknown> }
    t.equal(type, 'error')
    t.match(error, { code: 'UPSTREAM_ERROR', category: 'upstream', request_id: idOf(response) })
    t.match(await gateway.logLine(idOf(response)), { status: 200, error: 'UPSTREAM_ERROR' })
  }
  t.same(
    upstream.received.map(({ model }) => model),
    ['gpt-4o-transcribe', 'gpt-4o-transcribe'],
    'no other is asked',
  )
  await assertStopsClean(t, gateway)
})

t.test('who leaves takes the call along', { timeout: 60_000 }, async (t) => {
  for (const [memory, wav] of [
    ['64', WAV],
    ['8', LONG_WAV],
  ] as const) {
    const { gateway, upstream } = await start(t, [STREAMING], memory)
    const { headers, body } = requestOf('multipart', { stream: true }, wav)
    // Never comes: the second piece is still being waited for when the caller leaves.
    upstream.behave('gpt-4o-transcribe', { before: () => once(process, 'never') })
    const client = await gateway.send('/v1/transcription', { headers, body })
    t.ok(await client.receives(20_000))
    client.destroy()
    t.ok(await waitUntil(() => upstream.received[0]?.state === 'left'), 'the provider is left')
    const line = () => gateway.log.find(({ msg, error }) => msg === 'request' && error === 'CLIENT_CLOSED')
    t.ok(await waitUntil(() => line() !== undefined))
    t.match(line(), { usage: { audio_seconds: (wav.length - 44) / 32_000 } })

    // And before there is a piece.
    upstream.behave('gpt-4o-transcribe', { deltas: [], before: () => once(process, 'never') })
    const silent = await gateway.send('/v1/transcription', { headers, body })
    t.ok(await waitUntil(() => upstream.received.length === 2))
    silent.destroy()
    t.ok(await waitUntil(() => upstream.received[1]?.state !== 'answering'))
    await assertStopsClean(t, gateway)
  }
})

t.test('a stream cannot be replayed: a key for that is passed by', async (t) => {
  const { gateway, upstream } = await start(t, [STREAMING])
  const headers = { 'idempotency-key': 'the-same' }
  for (const fields of [{}, { language: 'de' }, {}]) {
    const response = await ask(gateway, fields, { headers })
    t.equal(response.status, 200)
    t.equal(response.headers.get('x-lk-idempotency'), 'bypassed')
    await response.text()
  }
  t.equal(upstream.received.length, 3)
  upstream.behave('gpt-4o-transcribe', { status: 500 })
  const failed = await ask(gateway, {}, { headers })
  t.same([failed.status, failed.headers.get('x-lk-idempotency')], [502, 'bypassed'])
  t.equal((await ask(gateway)).headers.get('x-lk-idempotency'), null)
})
