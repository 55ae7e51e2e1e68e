import { readdir } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { scrape } from '../support/exposition.ts'
import { type Gateway, startGateway } from '../support/gateway.ts'
import { serveHttp } from '../support/http-server.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'
import { shadowedProviders, shadowedRoute } from './shadowed-route.ts'

t.setTimeout(120_000)

/** Several blocks of memory, so that one given away too early would be seen. */
const WAV = filledWav(2_500_044, 5)

/** A provider whose entry answers at once, and whose shadow waits to be told to. */
async function provider(t: Test) {
  const held: ServerResponse[] = []
  const received = { entry: [] as Buffer[], shadow: [] as Buffer[] }
  const origin = await serveHttp(t, async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request.on('error', () => {})) chunks.push(chunk)
    const isShadow = request.url!.startsWith('/shadow')
    received[isShadow ? 'shadow' : 'entry'].push(Buffer.concat(chunks))
    response.setHeader('content-type', 'application/json')
    if (isShadow) held.push(response)
    else response.end(JSON.stringify({ text: 'one two three four' }))
  })
  const answer = () => {
    for (const response of held.splice(0)) response.end(JSON.stringify({ text: 'one two tree four' }))
  }
  return { origin, received, held, answer }
}

async function start(t: Test) {
  const { origin, ...shadow } = await provider(t)
  const key = makeKey()
  const larkway = await startGateway(t, {
    key,
    config: {
      providers: shadowedProviders(origin),
      routes: { voice: shadowedRoute('acme') },
      workspaces: {
        acme: {
          credits_usd: 10,
          grant_id: 'first',
          apps: { web: { route: 'voice' } },
          keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
    env: { LARKWAY_METRICS_PORT: '0', LARKWAY_DRAIN_SECONDS: '0' },
    timing: { drain: { idleMs: 200 } },
  })
  const metricsPort = Number(larkway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const compared = async (outcome: string) =>
    (await scrape(metricsPort)).value('larkway_shadow_calls_total', { outcome }) ?? 0
  return { larkway, compared, ...shadow }
}

function ask({ url, key }: Gateway, method: string, path: string, body?: Buffer, signal?: AbortSignal) {
  return fetch(url + path, {
    method,
    headers: { authorization: `Bearer ${key}`, ...(body ? { 'content-type': 'audio/wav' } : {}) },
    ...(body ? { body: new Uint8Array(body) } : {}),
    ...(signal ? { signal } : {}),
  })
}

const jobObjects = async ({ dataFolder }: Gateway) =>
  (await readdir(dataFolder, { recursive: true, withFileTypes: true })).filter(
    (file) => file.isFile() && /\/job(\/|$)/.test(file.parentPath),
  )

t.test('the answer does not wait, and the shadow hears all of the audio', async (t) => {
  const { larkway, received, held, answer, compared } = await start(t)
  const reply = await ask(larkway, 'POST', '/v1/transcription', WAV)
  t.equal(reply.status, 200)
  t.match(await reply.json(), { content: 'one two three four', provider: 'first', cost_usd: Number })
  await waitUntil(() => held.length === 1)
  // Others fill the memory that is free meanwhile.
  const others = Array.from({ length: 8 }, (_, index) =>
    ask(larkway, 'POST', '/v1/transcription', filledWav(2_500_044, 100 + index)),
  )
  for (const other of others) t.equal((await other).status, 200)
  answer()
  await waitUntil(async () => {
    answer()
    return (await compared('ok')) > 1
  })
  t.ok(received.shadow[0]!.includes(WAV), 'as the entry did')
  t.equal(received.entry.length, 9)
})

t.test('audio of a job stays in the store until the shadow has read it', async (t) => {
  const { larkway, held, answer, compared, received } = await start(t)
  const job = (await (await ask(larkway, 'POST', '/v1/transcription/jobs', WAV)).json()) as { id: string }
  await waitUntil(() => held.length === 1)
  const ended = async () => {
    const shown = await ask(larkway, 'GET', `/v1/transcription/jobs/${job.id}`)
    return ((await shown.json()) as { status: string }).status === 'succeeded'
  }
  await waitUntil(ended)
  await sleep(300)
  t.equal((await jobObjects(larkway)).length, 1, 'while the shadow is asked')
  answer()
  await waitUntil(async () => (await compared('ok')) === 1)
  await waitUntil(async () => (await jobObjects(larkway)).length === 0)
  t.equal((await jobObjects(larkway)).length, 0, 'and no longer')
  t.ok(received.shadow[0]!.includes(WAV))
})

t.test('a node that stops waits for no shadow, and nothing stays held', async (t) => {
  const { larkway, held } = await start(t)
  for (let index = 0; index < 6; index += 1)
    t.equal((await ask(larkway, 'POST', '/v1/transcription', WAV)).status, 200)
  const left = new AbortController()
  const leaving = ask(larkway, 'POST', '/v1/transcription', WAV, left.signal).catch(() => null)
  left.abort()
  await leaving
  await waitUntil(() => held.length > 0)
  const startMs = performance.now()
  t.equal(await larkway.signal('SIGTERM'), 0)
  t.ok(performance.now() - startMs < 15_000, `${performance.now() - startMs} ms`)
  t.match(
    larkway.log.find(({ msg }) => msg === 'stopped'),
    { held_bytes: 0 },
  )
})
