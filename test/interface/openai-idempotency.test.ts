import { randomUUID } from 'node:crypto'
import t, { type Test } from 'tap'
import { multipart } from '../support/bodies.ts'
import { type RouteGateway, startRouteGateway } from '../support/route-gateway.ts'
import { TRANSCRIPT_DELTAS, TRANSCRIPTION_ENTRY } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { filledWav } from '../support/wav.ts'

const TEXT = TRANSCRIPT_DELTAS.join('')
/** Two seconds. */
const WAV = filledWav(44 + 64_000, 1)
const OWN = '/v1/transcription'
const DOOR = '/openai/v1/audio/transcriptions'

async function start(t: Test) {
  const upstream = await startUpstream(t)
  const providers = { ears: { kind: 'openai-compatible', base_url: upstream.url } }
  const gateway = await startRouteGateway(t, { providers, entries: [TRANSCRIPTION_ENTRY] })
  return { upstream, gateway }
}

interface Sent {
  readonly path?: string
  readonly fields?: Readonly<Record<string, string>>
  readonly behind?: boolean
  readonly headers?: Readonly<Record<string, string>>
}

async function send(
  gateway: RouteGateway,
  key: string,
  { path = DOOR, fields = {}, behind = false, ...sent }: Sent,
) {
  const parts = Object.entries({ model: 'whisper-1', ...fields })
    .filter(([name]) => path.startsWith('/openai/') || name !== 'model')
    .map(([name, body]) => ({ name, body }))
  const file = { name: 'file', filename: `${randomUUID()}.wav`, type: 'audio/wav', body: WAV }
  const { contentType, body } = multipart(behind ? [file, ...parts.reverse()] : [...parts, file], {
    boundary: randomUUID(),
  })
  const response = await fetch(gateway.url + path, {
    method: 'POST',
    headers: {
      ...gateway.authorization,
      'content-type': contentType,
      'idempotency-key': key,
      ...sent.headers,
    },
    body: new Uint8Array(body),
  })
  const text = await response.text()
  const isJson = response.headers.get('content-type') === 'application/json'
  const { error } = (isJson ? JSON.parse(text) : {}) as { error?: { code: string } }
  return { status: response.status, headers: response.headers, text, code: error?.code }
}

t.test('a key is executed once, and answered by the same bytes and facts', async (t) => {
  const { upstream, gateway } = await start(t)
  for (const format of ['json', 'verbose_json', 'text', 'srt', 'vtt']) {
    const fields = { response_format: format, language: 'en' }
    const before = upstream.received.length
    const first = await send(gateway, `k-${format}`, { fields })
    t.equal(first.status, 200, format)
    t.equal(first.headers.get('x-lk-idempotent-replay'), null)
    t.match(first.text, TEXT)
    const again = await send(gateway, `"k-${format}"`, { fields, behind: true })
    t.equal(again.text, first.text, `${format}: the same bytes`)
    t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
    for (const name of [
      'content-type',
      'x-lk-provider',
      'x-lk-usage-audio-seconds',
      'x-lk-policy-version-id',
    ]) {
      t.equal(again.headers.get(name), first.headers.get(name), `${format}: ${name}`)
      t.ok(first.headers.get(name), `${format}: ${name} is there`)
    }
    t.not(again.headers.get('x-request-id'), first.headers.get('x-request-id'), 'a request of its own')
    t.equal(again.headers.get('x-request-id'), again.headers.get('x-lk-request-id'))
    t.equal(upstream.received.length, before + 1, `${format}: executed once`)
    const other = await send(gateway, `k-${format}`, { fields: { ...fields, language: 'de' } })
    t.same([other.status, other.code], [409, 'IDEMPOTENCY_KEY_REUSED'], format)
  }
})

t.test('an answer of one door is never replayed at the other', async (t) => {
  const { upstream, gateway } = await start(t)
  const translation = { own: '/v1/translation', door: '/openai/v1/audio/translations' }
  for (const { own, door } of [{ own: OWN, door: DOOR }, translation]) {
    for (const [one, other] of [
      [own, door],
      [door, own],
    ] as const) {
      const key = randomUUID()
      const first = await send(gateway, key, { path: one })
      t.equal(first.status, 200, `${one} first`)
      const crossed = await send(gateway, key, { path: other })
      t.same([crossed.status, crossed.code], [409, 'IDEMPOTENCY_KEY_REUSED'], `then ${other}`)
      t.equal(crossed.headers.get('x-should-retry'), 'false')
      t.equal(
        (await send(gateway, key, { path: one })).text,
        first.text,
        'and the first is replayed as it was',
      )
    }
  }
  t.equal(upstream.received.length, 4)
})

t.test('what names the model changes nothing, and a stream passes the key by', async (t) => {
  const { upstream, gateway } = await start(t)
  const first = await send(gateway, 'k-model', { fields: { model: 'whisper-1', temperature: '0' } })
  const again = await send(gateway, 'k-model', { fields: { model: 'gpt-4o-transcribe' } })
  t.equal(again.text, first.text)
  t.equal(upstream.received.length, 1)
  for (const key of ['k-model', 'k-stream', 'k-stream']) {
    const streamed = await send(gateway, key, { fields: { stream: 'true' }, behind: key === 'k-model' })
    t.equal(streamed.headers.get('x-lk-idempotency'), 'bypassed')
    t.match(streamed.text, /transcript\.text\.done/)
  }
  t.equal(upstream.received.length, 4, 'also by one that is in use')
  for (const key of ['a b', 'ü', '""', 'k'.repeat(257)]) {
    const { text } = await send(gateway, key, {})
    t.match(JSON.parse(text), { error: { code: 'INVALID_REQUEST', param: 'Idempotency-Key' } }, key)
  }
})
