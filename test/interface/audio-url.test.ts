import { createHash } from 'node:crypto'
import t, { type Test } from 'tap'
import { GatewayError } from '../../src/contracts/errors.ts'
import type { Objects } from '../../src/contracts/objects.ts'
import type { FetchAudio, FetchOptions } from '../../src/contracts/remote-audio.ts'
import type { State } from '../../src/contracts/state.ts'
import { createRoutes } from '../../src/gateway/api/table.ts'
import { fetchFrom, URL_OF_AUDIO } from '../support/audio-fetch.ts'
import { openDoors } from '../support/doors-rig.ts'
import { startEdge } from '../support/edge.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { TRANSCRIPT_DELTAS } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const MIB = 1024 * 1024

interface UrlGateway {
  readonly state: State
  readonly objects: Objects
  readonly budgetUsed: () => number
  /** POSTs JSON with the one key there is. */
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>
}

interface UrlGatewayOptions {
  readonly fetchAudio: FetchAudio
  /** `base_url` of an OpenAI-compatible provider. */
  readonly upstream: string
  /** Hosts of the platform's list. */
  readonly domains?: readonly string[]
  readonly maxAudioUrlBytes?: number
  readonly memoryMib?: number
}

/**
 * The whole gateway in this process, so that a test can say where names and addresses lead to: the guard has no
 * switch that lets a running server fetch from this machine.
 */
async function startUrlGateway(t: Test, options: UrlGatewayOptions): Promise<UrlGateway> {
  const { fetchAudio, upstream, domains = [], maxAudioUrlBytes = 25 * MIB, memoryMib = 64 } = options
  const { dependencies, authorization, objects, budgetUsed } = await openDoors(t, {
    fetchAudio,
    memoryMib,
    entries: [entryAt(upstream.replace(/\/v1$/, ''))],
    audioUrlDomains: domains,
    limits: { max_audio_url_bytes: maxAudioUrlBytes },
  })
  const { state } = dependencies.services
  const readiness = {
    accepting: () => true,
    stateHealthy: () => state.healthy(),
    stateBlocked: () => state.blocked(),
  }
  const routes = createRoutes({
    ...dependencies,
    readiness,
    links: null,
    webhooks: { secretKeys: [Buffer.alloc(32, 7)], insecure: false },
  })
  const edge = await startEdge(t, routes)
  return {
    state,
    objects,
    budgetUsed,
    post: (path, body, headers = {}) =>
      fetch(edge.origin + path, {
        method: 'POST',
        headers: { authorization, 'content-type': 'application/json', ...headers },
        body: JSON.stringify(body),
      }),
  }
}

const TEXT = TRANSCRIPT_DELTAS.join('')
/** Two seconds. */
const WAV = filledWav(44 + 64_000, 1)
const URL_OF_WAV = 'https://cdn.example.com/a.wav'
const TRANSCRIPTION = '/v1/transcription'

interface Fetched {
  readonly url: string
  readonly options: FetchOptions
}

/** A gateway whose audio comes from a host of the test; the guard in front of hosts has tests of its own. */
async function start(
  t: Test,
  more: Partial<UrlGatewayOptions> = {},
  answer: Uint8Array | GatewayError = WAV,
) {
  const upstream = await startUpstream(t)
  const fetched: Fetched[] = []
  const fetchAudio: FetchAudio = async (url, options) => {
    fetched.push({ url, options })
    if (answer instanceof GatewayError) throw answer
    return { length: answer.length, mediaType: 'audio/wav', chunks: chunksOf(answer) }
  }
  const gateway = await startUrlGateway(t, { fetchAudio, upstream: upstream.url, ...more })
  return { upstream, fetched, gateway }
}

async function* chunksOf(body: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < body.length; at += 50_000) yield Uint8Array.from(body.subarray(at, at + 50_000))
}

t.test('audio is fetched and heard as if it had been sent, and nothing of it stays', async (t) => {
  for (const memoryMib of [64, 8]) {
    // More than the small budget has for it: it passes through the store.
    const wav = memoryMib === 64 ? WAV : filledWav(12_000_044, 1)
    const { upstream, gateway } = await start(t, { memoryMib }, wav)
    const sha256 = createHash('sha256').update(wav).digest('hex')
    const seconds = (wav.length - 44) / 32_000
    for (const path of [TRANSCRIPTION, '/v1/translation', '/v1/audio']) {
      const response = await gateway.post(path, { audio: { url: URL_OF_WAV }, language: 'en' })
      const body = (await response.json()) as object
      t.equal(response.status, 200, `${path}: ${JSON.stringify(body)}`)
      t.match(body, { content: TEXT, usage: { audio_seconds: seconds } })
    }
    t.same(new Set(upstream.received.map((request) => request.sha256)), new Set([sha256]))
    t.ok(await waitUntil(() => gateway.budgetUsed() === 0), 'no memory is held')
    const left: string[] = []
    t.ok(
      await waitUntil(async () => {
        left.length = 0
        for await (const { key } of gateway.objects.list('spool/')) left.push(key)
        return left.length === 0
      }),
      `objects are left: ${left}`,
    )
  }
})

t.test('who may be asked: the lists of the platform and of the workspace together', async (t) => {
  const { fetched, gateway } = await start(t, { domains: ['cdn.example.com'], maxAudioUrlBytes: 1_000_000 })
  await gateway.state.settings.putAudioUrlDomains('acme', ['*.own.example'])
  await gateway.state.settings.putAudioUrlDomains('other', ['foreign.example'])
  await gateway.post(TRANSCRIPTION, { audio: { url: URL_OF_WAV } })
  t.equal(fetched.length, 1)
  t.equal(fetched[0]?.url, URL_OF_WAV)
  t.same(fetched[0]?.options.domains, ['cdn.example.com', '*.own.example'])
  t.equal(fetched[0]?.options.maxBytes, 1_000_000)
})

t.test('a refusal is told as it is, and no provider is asked', async (t) => {
  const refusal = new GatewayError('AUDIO_URL_REJECTED', undefined, {
    details: { reason: 'address_not_public' },
  })
  const { upstream, gateway } = await start(t, {}, refusal)
  const response = await gateway.post(TRANSCRIPTION, { audio: { url: 'https://intern.example/a.wav' } })
  t.equal(response.status, 400)
  t.match(await response.json(), {
    error: { code: 'AUDIO_URL_REJECTED', retryable: false, details: { reason: 'address_not_public' } },
  })
  t.equal(upstream.received.length, 0)

  const failed = await start(t, {}, new GatewayError('AUDIO_URL_FETCH_FAILED'))
  const answer = await failed.gateway.post(TRANSCRIPTION, { audio: { url: URL_OF_WAV } })
  t.equal(answer.status, 502)
  t.equal(answer.headers.get('x-should-retry'), 'true')
})

t.test('what is wrong with the request is told before any host is asked', async (t) => {
  const { fetched, gateway } = await start(t)
  for (const [param, body] of [
    ['language', { audio: { url: URL_OF_WAV }, language: 7 }],
    ['audio', { audio: { url: URL_OF_WAV, base64: 'UklG' } }],
    ['audio.url', { audio: { url: 7 } }],
  ] as const) {
    const response = await gateway.post(TRANSCRIPTION, body)
    t.equal(response.status, 400)
    t.match(await response.json(), { error: { code: 'INVALID_REQUEST', param } })
  }
  t.equal(fetched.length, 0)
  const noAudio = await start(t, {}, Buffer.from('<html>a page</html>'))
  const response = await noAudio.gateway.post(TRANSCRIPTION, { audio: { url: URL_OF_WAV } })
  t.match(await response.json(), { error: { code: 'UNSUPPORTED_AUDIO_FORMAT' } })
  t.ok(await waitUntil(() => noAudio.gateway.budgetUsed() === 0))
})

t.test('under an idempotency key the URL stands for the audio, and is fetched once', async (t) => {
  const { upstream, fetched, gateway } = await start(t)
  const key = { 'idempotency-key': 'k-url' }
  const first = await gateway.post(TRANSCRIPTION, { audio: { url: URL_OF_WAV } }, key)
  const text = await first.text()
  t.equal(first.status, 200, text)
  const again = await gateway.post(TRANSCRIPTION, { audio: { filename: 'b.wav', url: URL_OF_WAV } }, key)
  t.equal(again.headers.get('x-lk-idempotent-replay'), 'true')
  t.equal(await again.text(), text)
  const other = await gateway.post(TRANSCRIPTION, { audio: { url: `${URL_OF_WAV}?v=2` } }, key)
  t.match(await other.json(), { error: { code: 'IDEMPOTENCY_KEY_REUSED' } })
  const sent = await gateway.post(TRANSCRIPTION, { audio: { base64: WAV.toString('base64') } }, key)
  t.match(await sent.json(), { error: { code: 'IDEMPOTENCY_KEY_REUSED' } }, 'sent audio is another request')
  t.same([fetched.length, upstream.received.length], [1, 1])
})

t.test('a stream holds the audio until its transcript is out', async (t) => {
  const { gateway } = await start(t)
  const response = await gateway.post(TRANSCRIPTION, { audio: { url: URL_OF_WAV }, stream: true })
  t.match(await response.text(), /transcript\.text\.done/)
  t.ok(await waitUntil(() => gateway.budgetUsed() === 0))
})

t.test('through the guard, from a host with a certificate', async (t) => {
  const head = `HTTP/1.1 200 OK\r\nContent-Type: audio/wav\r\nContent-Length: ${WAV.length}\r\n\r\n`
  const { fetchAudio, dialled } = await fetchFrom(t, (socket) => {
    socket.write(head)
    socket.end(WAV)
  })
  const upstream = await startUpstream(t)
  const gateway = await startUrlGateway(t, {
    fetchAudio,
    upstream: upstream.url,
    domains: ['good.example', 'intern.example'],
  })
  const heard = await gateway.post(TRANSCRIPTION, { audio: { url: URL_OF_AUDIO } })
  t.match(await heard.json(), { content: TEXT, usage: { audio_seconds: 2 } })
  t.same(dialled, ['8.8.8.8 443'])
  for (const [url, reason] of [
    ['https://other.example/a.wav', 'host_not_allowed'],
    ['https://127.0.0.1/a.wav', 'host_not_allowed'],
    ['http://good.example/a.wav', 'scheme'],
  ]) {
    const refused = await gateway.post(TRANSCRIPTION, { audio: { url } })
    t.equal(refused.status, 400)
    t.match(await refused.json(), {
      error: { code: 'AUDIO_URL_REJECTED', param: 'audio.url', details: { reason } },
    })
  }
  t.equal(dialled.length, 1)
})
