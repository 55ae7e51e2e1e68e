import { createHash } from 'node:crypto'
import t from 'tap'
import { ROUTE_CONTROL } from '../../src/gateway/api/fields.ts'
import { readTranscriptionRequest } from '../../src/gateway/api/native/transcription-request.ts'
import { makeKey } from '../../src/gateway/catalog/key.ts'
import type { Exchange } from '../../src/gateway/edge/exchange.ts'
import { type DemoRoute, startDemoRoute } from '../support/demo-route.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { RawClient } from '../support/raw-client.ts'
import { type Sent, waysIn } from '../support/ways-in.ts'

const TEXT = 'the quick brown fox, 42 times'

interface Transcript {
  readonly content: string
  readonly usage: { readonly audio_seconds: number }
  readonly [field: string]: unknown
}

async function speak(gateway: DemoRoute, input: string): Promise<Buffer> {
  const response = await fetch(`${gateway.url}/v1/speech`, {
    method: 'POST',
    headers: { ...gateway.authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ input }),
  })
  const body = (await response.json()) as {
    content: string
    content_blocks: { base64: string; media_type: string }[]
  }
  if (response.status !== 200) throw new Error(JSON.stringify(body))
  return Buffer.from(body.content_blocks[0]?.base64 ?? '', 'base64')
}

function head(gateway: DemoRoute, { type, query = '' }: Sent, framing: string): string {
  return (
    `POST /v1/transcription${query} HTTP/1.1\r\nHost: a\r\nAuthorization: ${gateway.authorization.authorization}\r\n` +
    `Content-Type: ${type}\r\n${framing}\r\n\r\n`
  )
}

async function send(gateway: DemoRoute, sent: Sent, chunked: boolean) {
  const client = await RawClient.connect(gateway.port)
  const { body } = sent
  if (chunked) {
    const third = Math.ceil(body.length / 3)
    const pieces = [body.subarray(0, third), body.subarray(third, 2 * third), body.subarray(2 * third)]
    const framed = pieces.flatMap((piece) => [`${piece.length.toString(16)}\r\n`, piece, '\r\n'])
    await client.send(head(gateway, sent, 'Transfer-Encoding: chunked'), ...framed, '0\r\n\r\n')
  } else {
    await client.send(head(gateway, sent, `Content-Length: ${body.length}`), body)
  }
  const response = await client.response({ timeoutMs: 30_000 })
  client.destroy()
  return response
}

// More audio than there is memory goes to the store, however it comes.
const LONG_TEXT = Array.from({ length: 40 }, () => TEXT).join('. ')

for (const [tier, memory, text] of [
  ['memory', '64', TEXT],
  ['store', '8', LONG_TEXT],
] as const) {
  t.test(`speak, then transcribe, ${tier} tier`, { timeout: 200_000 }, async (t) => {
    const gateway = await startDemoRoute(t, { env: { LARKWAY_MEMORY_MIB: memory } })
    const wav = await speak(gateway, text)
    const digest = createHash('sha256').update(wav).digest('hex')
    const seconds = (wav.length - 44) / 16_000

    for (const [name, sent] of Object.entries(waysIn(wav))) {
      for (const chunked of [false, true]) {
        await gateway.forget()
        const response = await send(gateway, sent, chunked)
        const label = `${name}, ${chunked ? 'chunked' : 'with a length'}`
        const body = JSON.parse(response?.body.toString() ?? '{}') as Transcript
        t.equal(response?.status, 200, label)
        t.equal(body.content, text, label)
        t.ok(Math.abs(body.usage?.audio_seconds - seconds) < 0.1, `${label}: ${body.usage?.audio_seconds} s`)
        t.match(response?.headers['x-lk-request-id'], /^req_/)
        const calls = (await gateway.calls()).filter(({ path }) => path.endsWith('/transcriptions'))
        t.same(
          calls.map(({ sha256 }) => sha256),
          [digest],
          `${label}: the provider got these very bytes, once`,
        )
      }
    }
    await assertStopsClean(t, gateway)
    const elsewhere = tier === 'memory' ? { stored: 0 } : { held: 0 }
    t.match(gateway.log.at(-1), { bodies: elsewhere }, `every body went to the ${tier}`)
  })
}

t.test('the envelope and the formats', async (t) => {
  const gateway = await startDemoRoute(t)
  const wav = await speak(gateway, 'one. two')
  const ask = async (fields: Record<string, string>, path = 'transcription') => {
    const form = new FormData()
    for (const [name, value] of Object.entries(fields)) form.append(name, value)
    form.append('file', new Blob([wav], { type: 'audio/wav' }), 'hello.wav')
    return fetch(`${gateway.url}/v1/${path}`, { method: 'POST', headers: gateway.authorization, body: form })
  }

  const plain = (await (await ask({})).json()) as Transcript
  t.same(Object.keys(plain), [
    ...['id', 'provider', 'model', 'policy_version_id', 'content', 'content_blocks', 'usage', 'cost_usd'],
    ...[
      'determinism',
      'lk_requested_purpose',
      'lk_applied_purpose',
      'lk_purpose_source',
      'status',
      'language',
    ],
    ...['language_confidence', 'duration_seconds', 'segments', 'words', 'warnings'],
  ])
  t.match(plain, {
    provider: 'sandbox',
    model: 'morse-1',
    policy_version_id: /^pv_[0-9a-f]{16}$/,
    status: 'succeeded',
    lk_purpose_source: 'none',
    determinism: { seed_honored: false },
    usage: { total_tokens: 0 },
  })
  t.same([plain.segments, plain.words], [[], []], 'times only when asked for')

  const both = (await (await ask({ timestamps: 'both' })).json()) as {
    words: unknown[]
    segments: unknown[]
    language: unknown
  }
  t.equal(both.words.length, 2)
  t.equal(both.language, 'en', 'the name that the provider gives becomes a code')
  t.ok(both.segments.length > 0)
  const granular = (await (await ask({ 'timestamp_granularities[]': 'word' })).json()) as { words: unknown[] }
  t.equal(granular.words.length, 2)

  const text = await ask({ response_format: 'text' })
  t.match(text.headers.get('content-type'), /^text\/plain/)
  t.match(text.headers.get('x-lk-usage-audio-seconds'), /^\d/)
  t.equal((await text.text()).trim(), 'one. two')
  t.match(await (await ask({ response_format: 'srt' })).text(), /^1\r?\n00:00:0\d,\d{3} --> /)
  const cut = { response_format: 'srt', subtitle_line_length: '10' }
  t.match(await (await ask(cut)).text(), /^1\n.* --> .*\none\.\n\n2\n.* --> .*\ntwo\n$/)
  const refusals: Record<string, Record<string, string>> = {
    subtitle_line_length: { subtitle_line_length: '42' },
    subtitle_lines: { response_format: 'text', subtitle_lines: '2' },
    subtitle_characters_per_second: { response_format: 'vtt', subtitle_characters_per_second: '1' },
  }
  for (const [param, fields] of Object.entries(refusals))
    t.match(await (await ask(fields)).json(), { error: { code: 'INVALID_REQUEST', param } })
  t.match(await (await ask({ response_format: 'vtt' }, 'translation')).text(), /^WEBVTT\n/)
})

t.test('redaction and granularities, in every form that they may have', async (t) => {
  const read = (values: Record<string, string[]>) => {
    const fields = { kind: 'form', values: new Map(Object.entries(values)) } as const
    const { options } = readTranscriptionRequest({ headers: {} } as Exchange, fields, 'transcription')
    return [options.redaction, options.timestamps]
  }
  const json = (value: Record<string, unknown>) =>
    readTranscriptionRequest({ headers: {} } as Exchange, { kind: 'json', value }, 'transcription').options
      .redaction
  t.same(read({}), [[], null])
  t.same(read({ redaction: ['true'] }), [['pii'], null])
  t.same(read({ redaction: ['0'] }), [[], null])
  t.same(read({ redaction: ['pii,pci'] }), [['pii', 'pci'], null])
  t.same(read({ 'timestamp_granularities[]': ['segment'] }), [[], 'segment'])
  t.same(read({ 'timestamp_granularities[]': ['segment', 'word'] }), [[], 'both'])
  t.same(read({ 'timestamp_granularities[]': ['word', 'word'] }), [[], 'word'])
  t.same(read({ timestamps: ['both'], 'timestamp_granularities[]': ['word'] }), [[], 'both'])
  t.throws(() => read({ 'timestamp_granularities[]': ['both'] }), { code: 'INVALID_REQUEST' })
  t.throws(() => read({ redaction: ['names'] }), { code: 'INVALID_REQUEST' })
  t.throws(() => read({ 'audio[provider]': ['x'] }), { code: 'ROUTE_CONTROL_NOT_ALLOWED' })
  t.same(
    [json({ redaction: true }), json({ redaction: false }), json({ redaction: ['phi'] })],
    [['pii'], [], ['phi']],
  )
})

t.test('what is refused, with its code and field', async (t) => {
  const gateway = await startDemoRoute(t, { config: { limits: { max_audio_seconds: 60 } } })
  const wav = await speak(gateway, 'sos')
  const base64 = wav.toString('base64')
  const mistyped = gateway.key.slice(0, -1) + (gateway.key.endsWith('x') ? 'y' : 'x')
  const post = (body: unknown, headers: Record<string, string> = {}, path = '/v1/transcription') =>
    fetch(gateway.url + path, {
      method: 'POST',
      headers: { ...gateway.authorization, 'content-type': 'application/json', ...headers },
      body: typeof body === 'string' ? body : JSON.stringify(body),
    })
  const long = Buffer.alloc(44 + 61 * 16_000)
  wav.copy(long, 0, 0, 44)
  long.writeUInt32LE(long.length - 8, 4)
  long.writeUInt32LE(long.length - 44, 40)

  const rows: [string, Promise<Response>, number, string, string | null][] = [
    ['no key', post({}, { authorization: '' }), 401, 'UNAUTHENTICATED', null],
    ['a mistyped key', post({}, { authorization: `Bearer ${mistyped}` }), 401, 'UNAUTHENTICATED', null],
    ['an unknown key', post({}, { authorization: `Bearer ${makeKey()}` }), 401, 'UNAUTHENTICATED', null],
    ['no audio', post({}), 400, 'INVALID_REQUEST', 'audio'],
    ['two sources', post({ audio: { base64, data: base64 } }), 400, 'INVALID_REQUEST', 'audio'],
    ['broken JSON', post('{"audio":'), 400, 'INVALID_REQUEST', null],
    ['a model', post({ audio: { base64 }, model: 'x' }), 400, 'ROUTE_CONTROL_NOT_ALLOWED', 'model'],
    [
      'a nested provider',
      post({ audio: { base64, provider: 'x' } }),
      400,
      'ROUTE_CONTROL_NOT_ALLOWED',
      'audio.provider',
    ],
    [
      'a format',
      post({ audio: { base64 }, response_format: 'xml' }),
      400,
      'INVALID_REQUEST',
      'response_format',
    ],
    [
      'a boolean as text',
      post({ audio: { base64 }, diarization: 'true' }),
      400,
      'INVALID_REQUEST',
      'diarization',
    ],
    ['an empty term', post({ audio: { base64 }, keyterms: ['a', ' '] }), 400, 'INVALID_REQUEST', 'keyterms'],
    ['a feature', post({ audio: { base64 }, redaction: true }), 422, 'REQUIRED_FEATURE_UNAVAILABLE', null],
    ['realtime', post({ audio: { base64 }, mode: 'realtime' }), 422, 'REQUIRED_FEATURE_UNAVAILABLE', null],
    [
      'no audio by its bytes',
      post({ audio: Buffer.from('x'.repeat(99)).toString('base64') }),
      415,
      'UNSUPPORTED_AUDIO_FORMAT',
      'audio',
    ],
    ['another type', post('x', { 'content-type': 'text/csv' }), 415, 'UNSUPPORTED_MEDIA_TYPE', null],
    ['too long', post({ audio: long.toString('base64') }), 413, 'AUDIO_TOO_LONG', null],
    ['an unknown path', post({}, {}, '/v1/nothing'), 404, 'NOT_FOUND', null],
    ['a wrong method', fetch(`${gateway.url}/v1/speech`), 405, 'METHOD_NOT_ALLOWED', null],
    [
      'speech in flac',
      post({ input: 'sos', response_format: 'flac' }, {}, '/v1/speech'),
      400,
      'INVALID_REQUEST',
      'response_format',
    ],
    ['speech of nothing', post({ input: '' }, {}, '/v1/speech'), 400, 'INVALID_REQUEST', 'input'],
    ['speech without input', post({}, {}, '/v1/speech'), 400, 'INVALID_REQUEST', 'input'],
    ['a speed of 0', post({ input: 'sos', speed: 0 }, {}, '/v1/speech'), 400, 'INVALID_REQUEST', 'speed'],
  ]
  for (const [name, answer, status, code, param] of rows) {
    const response = await answer
    const { error } = (await response.json()) as { error: Record<string, unknown> }
    t.equal(response.status, status, name)
    t.match(error, { code, param, type: error.category, request_id: /^req_/ }, name)
    t.equal(response.headers.get('x-should-retry'), String(error.retryable), name)
    t.equal(response.headers.get('x-lk-request-id'), error.request_id, name)
  }
  const calls = (await gateway.calls()).filter(({ path }) => path.endsWith('/transcriptions'))
  t.same(calls, [], 'no provider was called for any of them')

  const nulls = Object.fromEntries([...ROUTE_CONTROL].map((name) => [name, null]))
  const unsent = await post({ ...nulls, language: null, purpose: null, audio: { base64, ...nulls } })
  const { warnings } = (await unsent.json()) as { warnings?: string[] }
  t.match({ status: unsent.status, warnings }, { status: 200, warnings: [] }, 'null counts as not sent')
})
