import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { scrape } from '../support/exposition.ts'
import { assertStopsClean } from '../support/gateway.ts'
import { startLarkway } from '../support/larkway.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

/** Answers chats and transcriptions after a moment, and says at `/count` how many it has answered. */
const SERVER = `
let count = 0
const json = { 'content-type': 'application/json' }
const chat = { choices: [{ message: { role: 'assistant', content: 'hello' } }] }
const answer = (request, response) => request.resume().on('end', () => {
  if (request.method === 'GET') return response.writeHead(200, json).end(JSON.stringify({ data: [], count }))
  count += 1
  const body = request.url.endsWith('/transcriptions') ? { text: 'hello' } : chat
  setTimeout(() => response.writeHead(200, json).end(JSON.stringify(body)), 10)
})
const server = require('node:http').createServer(answer)
server.listen(Number(process.argv[1]), '127.0.0.1', () => console.log(server.address().port))
`

interface Replica {
  readonly port: number
  child: ChildProcess
}

async function startReplica(t: Test, port = 0): Promise<Replica> {
  const child = spawn(process.execPath, ['-e', SERVER, String(port)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  t.teardown(() => child.kill('SIGKILL'))
  const [line] = (await once(child.stdout, 'data')) as [Buffer]
  return { port: Number(String(line).trim()), child }
}

async function countOf({ port }: Replica): Promise<number> {
  const answer = await fetch(`http://127.0.0.1:${port}/count`)
  return ((await answer.json()) as { count: number }).count
}

t.test('no caller sees that a server of its provider is killed', { timeout: 120_000 }, async (t) => {
  const replicas = await Promise.all([startReplica(t), startReplica(t), startReplica(t)])
  const key = makeKey()
  const larkway = await startLarkway(t, {
    env: { LARKWAY_METRICS_PORT: '0' },
    config: {
      rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
      providers: {
        pooled: {
          ...{ kind: 'openai-compatible', access: 'byok', workspace: 'acme' },
          base_urls: replicas.map(({ port }) => `http://127.0.0.1:${port}/v1`),
          health: { interval_ms: 200, timeout_ms: 5_000, unhealthy_after: 2 },
          capabilities: ['text', 'audio_input'],
        },
      },
      routes: { main: { workspace: 'acme', entries: [{ provider: 'pooled', model: 'any' }] } },
      workspaces: {
        acme: {
          apps: { web: { route: 'main' } },
          keys: [{ id: 'key_web', app: 'web', sha256: hashKey(key) }],
        },
      },
    },
  })
  const metricsPort = Number(larkway.log.find(({ msg }) => msg === 'listening')?.metrics_port)
  const isUp = async (replica: number) =>
    (await scrape(metricsPort)).value('larkway_replica_up', { replica: String(replica) }) === 1
  const headers = { authorization: `Bearer ${key}` }
  const chat = () =>
    fetch(`${larkway.url}/v1/chat`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
    })
  const wav = filledWav(24 * 1024 * 1024, 1)
  const transcribe = () =>
    fetch(`${larkway.url}/v1/transcription`, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'audio/wav' },
      body: wav,
    })
  const refused: string[] = []
  let [isOver, answered] = [false, 0]
  const callOn = async (call: () => Promise<Response>) => {
    while (!isOver) {
      const answer = await call()
      const text = await answer.text()
      if (answer.status === 200) answered += 1
      else refused.push(`${answer.status} ${text.slice(0, 500)}`)
    }
  }
  const isTold = (what: string, of: number) =>
    larkway.log.some(({ msg, replica }) => msg === what && replica === of)
  const callers = Promise.all([...Array.from({ length: 6 }, () => callOn(chat)), callOn(transcribe)])
  t.ok(await waitUntil(async () => Math.min(...(await Promise.all(replicas.map(countOf)))) > 20))

  for (const killed of [0, 1]) {
    const replica = replicas[killed]!
    replica.child.kill('SIGKILL')
    t.ok(await waitUntil(async () => !(await isUp(killed))), 'it gets no more calls')
    const before = answered
    t.ok(await waitUntil(() => answered > before + 50), 'the others have its share')
    t.ok(await waitUntil(() => isTold('a replica is down', killed)), 'its probes fail, too')
    replica.child = (await startReplica(t, replica.port)).child
    t.ok(await waitUntil(() => isUp(killed)), 'it is back')
    t.ok(await waitUntil(async () => (await countOf(replica)) > 20), 'and has its share again')
  }
  isOver = true
  await callers
  t.same(refused, [])
  t.comment(`${answered} calls`)
  const lines = larkway.log.filter(
    ({ msg }) => msg === 'a replica is down' || msg === 'a replica is well again',
  )
  t.match(lines, [{ provider: 'pooled', replica: 0 }, { replica: 0 }, { replica: 1 }, { replica: 1 }])
  t.notMatch(JSON.stringify(larkway.log.filter(({ msg }) => msg === 'request')), String(replicas[0]!.port))
  // Connections of callers and probes are at rest.
  await sleep(300)
  await assertStopsClean(t, larkway)
})
