import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { localCertificate } from './edge.ts'
import { type Exposition, scrape } from './exposition.ts'
import { serveHttp } from './http-server.ts'
import { type Larkway, startLarkway } from './larkway.ts'
import { liveAudio } from './live-audio.ts'
import { LiveClient } from './live-rig.ts'
import { SpeechClient } from './speech-rig.ts'
import { waitUntil } from './wait-until.ts'
import { filledWav } from './wav.ts'

/** A second of audio. */
const AUDIO = { base64: filledWav(32_044, 1).toString('base64') }
const HELLO = [{ role: 'user', content: 'hello' }]

/** A server whose metrics are served. */
export interface MeteredNode extends Larkway {
  readonly metricsPort: number
  /** Headers by the app. */
  readonly authorizations: Readonly<Record<App, string>>
  readonly authorization: string
  scrape(): Promise<Exposition>
  ask(
    method: string,
    path: string,
    body?: unknown,
    more?: Readonly<Record<string, string>>,
  ): Promise<Response>
  /**
   * Calls of several kinds, a failover, a call that no entry answers, jobs that end well and badly, and a webhook that
   * is delivered. Resolves when all of it is over.
   */
  serveTraffic(): Promise<void>
}

/** Seconds of audio of a live session whose first provider dies. */
export const LIVE_SECONDS = 3
/** What another live session has spoken. */
export const SPOKEN = 'lark'
/** How long the provider of the app `slow` takes. */
export const SLOW_MS = 1_500

/** Its apps, by the routes that they have: all entries lead to a sandbox, some of which fail. */
const ENTRIES = {
  // Its transcripts break the rule, and are answered.
  well: [{ accept: { words_per_second: { max: 0.001 }, shadow: true } }],
  failing: [{ provider: 'ill', options: { status: 500 } }, {}],
  hopeless: [{ provider: 'ill', options: { status: 500 } }],
  slow: [{ options: { delay_ms: SLOW_MS } }],
  pooled: [{ provider: 'pooled' }],
  dying: [{ provider: 'ill', options: { close_after_ms: 1_000 } }, {}],
}
type App = keyof typeof ENTRIES

/** @param env further variables, `REDIS_URL` and those of a bucket for one */
export async function startMeteredNode(
  t: Test,
  env: Readonly<Record<string, string>> = {},
): Promise<MeteredNode> {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const keys = Object.fromEntries(Object.keys(ENTRIES).map((app) => [app, makeKey()])) as Record<App, string>
  // With a certificate there is a metric of it.
  const { files } = await localCertificate(t)
  const tls = { LARKWAY_TLS_CERT: files.certFile, LARKWAY_TLS_KEY: files.keyFile, LARKWAY_TLS_PORT: '0' }
  const larkway = await startLarkway(t, {
    config: configuration(`${new URL(sandbox.url).origin}/v1`, keys),
    env: {
      LARKWAY_METRICS_PORT: '0',
      LARKWAY_USAGE: 'true',
      LARKWAY_INSECURE_WEBHOOKS: 'true',
      ...tls,
      ...env,
    },
  })
  const metricsPort = Number(larkway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const ask = (method: string, path: string, body?: unknown, more = {}, app: App = 'well') =>
    fetch(larkway.url + path, {
      method,
      headers: { authorization: `Bearer ${keys[app]}`, 'content-type': 'application/json', ...more },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
  return {
    ...larkway,
    metricsPort,
    authorizations: Object.fromEntries(
      Object.entries(keys).map(([app, key]) => [app, `Bearer ${key}`]),
    ) as Record<App, string>,
    authorization: `Bearer ${keys.well}`,
    scrape: () => scrape(metricsPort),
    ask,
    async serveTraffic() {
      const hook = await receiveWebhook(t)
      await expect(200, ask('PUT', '/workspace/acme/stt-webhook', { url: hook.url }))
      await expect(200, ask('GET', '/v1/me'))
      await expect(200, ask('POST', '/v1/speech', { input: 'hello' }))
      await expect(200, ask('POST', '/v1/speech', { input: 'hello' }))
      const heardId = 'heard.1'
      await expect(200, ask('POST', '/v1/transcription', { audio: AUDIO }, { 'x-lk-request-id': heardId }))
      await expect(200, ask('POST', '/v1/chat', { messages: HELLO }))
      await expect(200, ask('POST', '/v1/chat', { messages: HELLO, stream: true }))
      await expect(200, ask('POST', '/v1/image', { prompt: 'a lark' }))
      await expect(200, ask('POST', '/v1/video', { prompt: 'a lark' }))
      await expect(200, ask('POST', '/v1/chat', { messages: HELLO }, {}, 'failing'))
      await expect(502, ask('POST', '/v1/chat', { messages: HELLO }, {}, 'hopeless'))
      await expect(200, ask('POST', '/v1/chat', { messages: HELLO }, {}, 'pooled'))
      await expect(401, ask('GET', '/v1/me', undefined, { authorization: 'Bearer nobody' }))
      await expect(404, ask('GET', '/nowhere'))
      await expect(202, ask('POST', '/v1/transcription/jobs', { audio: AUDIO }))
      await transcribeLive(t, larkway.port, keys.dying)
      await speakLive(t, larkway.port, keys.well)
      const queued = { endpoint: 'chat', mode: 'bulk', payload: { messages: 'none' } }
      await expect(400, ask('POST', '/v1/queue', queued))
      await expect(202, ask('POST', '/v1/queue', { ...queued, payload: { messages: HELLO } }))
      const isOver = async () => {
        const metrics = await scrape(metricsPort)
        const compared = metrics.value('larkway_shadow_calls_total', { outcome: 'ok' }) ?? 0
        return (
          compared > 1 &&
          hook.received() > 0 &&
          metrics.value('larkway_jobs_ended_total', { status: 'succeeded' }) === 2
        )
      }
      if (!(await waitUntil(isOver, 30_000))) throw new Error('the jobs do not end')
      const reference = { id: heardId, text: 'hello lark' }
      const isTaken = async () =>
        (await ask('POST', '/v1/transcription/references', reference)).status === 200
      if (!(await waitUntil(isTaken, 10_000))) throw new Error('no reference is taken')
    },
  }
}

async function transcribeLive(t: Test, port: number, key: string): Promise<void> {
  const { pcm, sampleRate } = liveAudio('lark lark lark')
  const query = `sample_rate=${sampleRate}`
  const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/transcription/stream?${query}`, 'larkway.v1', {
    headers: { authorization: `Bearer ${key}` },
  })
  const caller = new LiveClient(t, socket)
  await caller.message('ready')
  await caller.speak(pcm.subarray(0, LIVE_SECONDS * sampleRate * 2))
  caller.send({ type: 'end' })
  await caller.message('done')
  if (caller.of('switched').length !== 1) throw new Error('the provider was not changed')
}

async function speakLive(t: Test, port: number, key: string): Promise<void> {
  const url = `ws://127.0.0.1:${port}/v1/speech/stream?response_format=wav`
  const socket = new WebSocket(url, 'larkway.v1', { headers: { authorization: `Bearer ${key}` } })
  const caller = new SpeechClient(t, socket)
  await caller.message('ready')
  caller.write(SPOKEN)
  caller.end()
  await caller.message('done')
}

async function expect(status: number, asked: Promise<Response>): Promise<void> {
  const answer = await asked
  const text = await answer.text()
  if (answer.status !== status) throw new Error(`${answer.url}: ${answer.status} ${text.slice(0, 500)}`)
}

async function receiveWebhook(t: Test) {
  let received = 0
  const url = await serveHttp(t, (request, response) => {
    request.resume().on('end', () => {
      received += 1
      response.end()
    })
  })
  return { url, received: () => received }
}

/** Of its two servers one is not there. */
function pooledProvider(baseUrl: string) {
  const base_urls = ['http://127.0.0.1:1/v1', baseUrl]
  return {
    kind: 'openai-compatible',
    access: 'platform',
    base_urls,
    health: { interval_ms: 100 },
    capabilities: ['text'],
  }
}

function configuration(baseUrl: string, keys: Readonly<Record<App, string>>): object {
  const provider = { kind: 'sandbox', access: 'platform', base_url: baseUrl }
  const price = {
    per_hour_usd: 36,
    per_1k_characters_usd: 1,
    per_1m_input_tokens_usd: 10,
    per_1m_output_tokens_usd: 10,
    per_image_usd: 0.04,
    per_video_second_usd: 0.1,
  }
  const apps = Object.keys(ENTRIES) as App[]
  // No provider of a shadow has a `concurrency`.
  const shadow = { entry: { provider: 'ill', model: 'morse-1', price }, share: 1, references: {} }
  return {
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    providers: { sandbox: { ...provider, concurrency: 50 }, ill: provider, pooled: pooledProvider(baseUrl) },
    routes: Object.fromEntries(
      apps.map((app) => [
        app,
        {
          workspace: 'acme',
          ...(app === 'well' ? { shadow, cache: {} } : {}),
          entries: ENTRIES[app].map((entry) => ({ provider: 'sandbox', model: 'morse-1', price, ...entry })),
        },
      ]),
    ),
    workspaces: {
      acme: {
        credits_usd: 100,
        grant_id: 'first',
        apps: Object.fromEntries(apps.map((app) => [app, { route: app }])),
        keys: apps.map((app) => ({
          id: `key_${app}`,
          app,
          sha256: hashKey(keys[app]),
          scopes: ['inference', 'jobs', 'queue', 'admin'],
        })),
      },
    },
  }
}
