import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { ConfiguredProvider, Entry, ProbeSettings } from '../../../src/contracts/catalog.ts'
import type { UpstreamProgress } from '../../../src/contracts/jobs.ts'
import { createLogger } from '../../../src/contracts/log.ts'
import { ReplicaProbes } from '../../../src/gateway/call/attempt/replica-probes.ts'
import { Interrupted } from '../../../src/gateway/call/facts/call.ts'
import { ReplicaPools, replicaKey } from '../../../src/gateway/call/select/replicas.ts'
import { audio, options } from '../../support/call.ts'
import { configuredProvider } from '../../support/catalog.ts'
import {
  chatCall,
  entryAt,
  type GatewayRig,
  gatewayRig,
  refusalOf,
  runForJob,
  runStreamed,
  runWhole,
} from '../../support/gateway-rig.ts'
import { listen } from '../../support/http-server.ts'
import { openLive, wordsEntry } from '../../support/live-rig.ts'
import { serveWords, WORD_SECONDS, wordsAudio, wordsText } from '../../support/live-words.ts'
import { memoryAudio } from '../../support/memory-audio.ts'
import { waitUntil } from '../../support/wait-until.ts'

const MIB = 1024 * 1024
const ANSWER = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'hello' } }] })
const TIMES = { intervalMs: 40, timeoutMs: 1_000 }
const PROBE: ProbeSettings = { path: null, ...TIMES, unhealthyAfter: 2, healthyAfter: 1 }

type Answering = (response: ServerResponse, request: IncomingMessage) => void

const answerWell: Answering = (response) =>
  void response.writeHead(200, { 'content-type': 'application/json' }).end(ANSWER)
const answerBadly: Answering = (response) => void response.writeHead(500).end()

/** A server that answers chats and probes, can be ended and started again, and counts what it was asked. */
class ReplicaServer {
  /** How chats, videos and transcriptions are answered, once they are here whole. */
  answer: Answering
  /** Status of every probe. */
  probeStatus = 200
  calls = 0
  readonly probes: { readonly path: string; readonly authorization: string | undefined }[] = []
  #server: Server
  #port = 0

  constructor(answer: Answering = answerWell) {
    this.answer = answer
    this.#server = this.#make()
  }

  get baseUrl(): string {
    return `http://127.0.0.1:${this.#port}/v1`
  }

  async start(t: Pick<Test, 'teardown'>): Promise<this> {
    if (this.#port === 0) {
      await listen(t, this.#server)
      this.#port = (this.#server.address() as AddressInfo).port
      t.teardown(() => this.end())
      return this
    }
    this.#server = this.#make()
    await new Promise<void>((resolve) => this.#server.listen(this.#port, '127.0.0.1', resolve))
    return this
  }

  /** As the end of its process: nobody listens any more, and what is under way breaks off. */
  end(): void {
    this.#server.close()
    this.#server.closeAllConnections()
  }

  #make(): Server {
    return createServer((request, response) => {
      if (request.method === 'GET' && !request.url!.startsWith('/v1/videos')) {
        this.probes.push({ path: request.url!, authorization: request.headers.authorization })
        response.writeHead(this.probeStatus, { 'content-type': 'application/json' }).end('{"data":[]}')
        return
      }
      this.calls += 1
      request.resume().on('end', () => this.answer(response, request))
    })
  }
}

const startServers = (t: Test, ...answers: (Answering | undefined)[]) =>
  Promise.all(answers.map((answer) => new ReplicaServer(answer).start(t)))

function pooledProvider(
  servers: readonly Pick<ReplicaServer, 'baseUrl'>[],
  { probe, ...overrides }: Partial<ConfiguredProvider> & { readonly probe?: Partial<ProbeSettings> } = {},
): ConfiguredProvider {
  const baseUrls = servers.map(({ baseUrl }) => baseUrl)
  const pool = { baseUrls, probe: { ...PROBE, ...probe } }
  return configuredProvider({ baseUrl: baseUrls[0]!, pool, ...overrides })
}

function pooledEntry(...args: Parameters<typeof pooledProvider>): Entry {
  return entryAt('http://127.0.0.1:1', { provider: pooledProvider(...args) })
}

/** Probes as a node does. */
function startProbes(t: Test, { services }: Pick<GatewayRig, 'services'>, first: ConfiguredProvider) {
  let providers = [first]
  const probes = new ReplicaProbes({
    pools: services.replicas,
    inForce: () => providers,
    protocols: services.providers,
    open: services.open,
    random: Math.random,
    log: createLogger('silent'),
    clock: services.clock,
  })
  t.teardown(() => probes.stop())
  const reload = (...next: ConfiguredProvider[]) => {
    providers = next
  }
  return { probes, reload }
}

const callsOf = (servers: readonly ReplicaServer[]) => servers.map(({ calls }) => calls)

async function chat({ services, request }: GatewayRig) {
  const one = request('chat', chatCall())
  await runWhole(services, one)
  return one.context.routing.attempts
}

t.test('calls go to the replica with the fewest under way, and a slow one gets fewer', async (t) => {
  const held: ServerResponse[] = []
  let answered = 0
  // One of its calls is answered for ten of the others.
  const quick: Answering = (response, request) => {
    answered += 1
    if (answered % 10 === 0 && held.length > 0) answerWell(held.shift()!, request)
    answerWell(response, request)
  }
  const servers = await startServers(t, (response) => void held.push(response), quick, quick)
  const entry = pooledEntry(servers)
  const rig = gatewayRig(t, { entries: [entry] })
  let left = 180
  const caller = async () => {
    for (; left > 0; left -= 1) await chat(rig)
  }
  const callers = Promise.all(Array.from({ length: 9 }, caller))
  t.ok(await waitUntil(() => left <= 0))
  for (const response of held) answerWell(response, null!)
  await callers
  const [slowCalls, ...others] = callsOf(servers)
  for (const calls of others)
    t.ok(slowCalls! * 2 < calls, `${slowCalls} at the slow one, ${calls} at another`)
  const pool = rig.services.replicas.of(entry.provider)
  t.same(
    pool!.replicas.map(({ underWay }) => underWay),
    [0, 0, 0],
    'nothing is under way any more',
  )
})

t.test('no caller sees that a replica dies, and its share comes back with it', async (t) => {
  const later: Answering = (response) => void setTimeout(() => answerWell(response, null!), 15)
  const servers = await startServers(t, later, later, later)
  const entry = pooledEntry(servers)
  const rig = gatewayRig(t, { entries: [entry] })
  startProbes(t, rig, entry.provider)
  let isOver = false
  const broken: unknown[] = []
  const caller = async () => {
    while (!isOver) await chat(rig).catch((error: unknown) => broken.push(error))
  }
  const callers = Promise.all(Array.from({ length: 6 }, caller))
  const [dying, ...others] = servers
  const replica = rig.services.replicas.of(entry.provider)!.replicas[0]!
  t.ok(await waitUntil(() => dying!.calls > 20))
  dying!.end()
  t.ok(await waitUntil(() => replica.isDown), 'its probes fail')
  const [gone, before] = [dying!.calls, others[0]!.calls]
  t.ok(await waitUntil(() => others[0]!.calls > before + 50))
  t.equal(dying!.calls, gone, 'the others have its share')
  await dying!.start(t)
  t.ok(await waitUntil(() => dying!.calls > gone + 20), 'it has its share again')
  isOver = true
  await callers
  t.same(broken, [])
  t.equal(rig.services.health.view(entry, performance.now()).state, 'closed')
})

t.test('a call that fails at one replica is made at another, and its attempts say where', async (t) => {
  const servers = await startServers(t, answerBadly, undefined)
  const entry = pooledEntry(servers, { concurrency: 1, queueMs: 0, credential: 'the key' })
  const rig = gatewayRig(t, { entries: [entry] })
  const seen = new Set<string>()
  for (let turn = 0; turn < 8; turn += 1) {
    const attempts = await chat(rig)
    seen.add(attempts.map(({ replica, status }) => `${replica}:${status}`).join(' '))
    t.notMatch(JSON.stringify(attempts.map(({ reason }) => reason)), '127.0.0.1')
  }
  // A thousand milliseconds pass before it is tried out again.
  t.same([...seen].sort(), ['0:500 1:200', '1:200'])
  t.equal(servers[0]!.calls, 1)
  const { lastFailure } = rig.services.health.condition(entry, performance.now())
  t.equal(lastFailure, null, 'the entry has not failed')
  t.equal(rig.services.state.permits.held('calls:first'), 0)
})

t.test('of many replicas that fail three are asked, and then the entry has failed', async (t) => {
  const servers = await startServers(t, ...Array.from({ length: 5 }, () => answerBadly))
  const entry = pooledEntry(servers)
  const rig = gatewayRig(t, { entries: [entry] })
  const refusal = await refusalOf(chat(rig))
  t.equal(refusal.code, 'UPSTREAM_ERROR')
  t.same(callsOf(servers).toSorted(), [0, 0, 1, 1, 1])
  t.match(rig.services.health.condition(entry, performance.now()).lastFailure, { failure: { status: 500 } })
})

t.test('an entry pauses no longer than until one of its servers may be asked', async (t) => {
  const busy: Answering = (response) => void response.writeHead(429, { 'retry-after': '60' }).end()
  const servers = await startServers(t, busy, busy, busy, undefined)
  const rig = gatewayRig(t, { entries: [pooledEntry(servers)] })
  const refusal = await refusalOf(chat(rig))
  t.same([refusal.code, refusal.extra.retryAfterMs], ['UPSTREAM_ERROR', undefined])
  t.match(await chat(rig), [{ replica: 3, status: 200 }])
  servers[3]!.answer = busy
  t.ok((await refusalOf(chat(rig))).extra.retryAfterMs! > 50_000)
  t.match(await refusalOf(chat(rig)), { code: 'PROVIDERS_COOLING_DOWN' })
  t.same(callsOf(servers), [1, 1, 1, 2])
})

t.test('what another server would answer alike is asked of one', async (t) => {
  for (const status of [400, 401, 404]) {
    const refuse: Answering = (response) => void response.writeHead(status).end('{}')
    const servers = await startServers(t, refuse, refuse)
    const rig = gatewayRig(t, { entries: [pooledEntry(servers)] })
    await refusalOf(chat(rig))
    t.equal(servers[0]!.calls + servers[1]!.calls, 1, `status ${status}`)
  }
})

t.test('a replica that does not answer until the deadline uses up the time of its entry', async (t) => {
  const hang: Answering = () => {}
  const servers = await startServers(t, hang, hang)
  const rig = gatewayRig(t, { entries: [pooledEntry(servers)], deadlineMs: 2_000 })
  const refusal = await refusalOf(chat(rig))
  t.equal(refusal.code, 'UPSTREAM_TIMEOUT')
  t.equal(servers[0]!.calls + servers[1]!.calls, 1)
})

t.test('when all are down the entry fails, and calls are answered again after their probes', async (t) => {
  const servers = await startServers(t, undefined, undefined)
  const entry = pooledEntry(servers)
  const rig = gatewayRig(t, { entries: [entry] })
  startProbes(t, rig, entry.provider)
  const pool = rig.services.replicas.of(entry.provider)!
  for (const server of servers) server.end()
  t.ok(await waitUntil(() => pool.replicas.every(({ isDown }) => isDown)))
  const refusal = await refusalOf(chat(rig))
  t.match(refusal.extra.details?.attempts, [{ status: null }], 'one of them is asked all the same')
  for (const server of servers) await server.start(t)
  t.ok(await waitUntil(() => pool.replicas.every(({ isDown }) => !isDown)))
  t.match(await chat(rig), [{ status: 200 }])
})

t.test('a replica is down after as many probes as it says, and sent no more than a call', async (t) => {
  const servers = await startServers(t, undefined, undefined)
  const [flapping, steady] = servers
  const entry = pooledEntry(servers, {
    probe: { path: '/health', unhealthyAfter: 3, healthyAfter: 2 },
    credential: 'the key',
  })
  const rig = gatewayRig(t, { entries: [entry] })
  const { probes } = startProbes(t, rig, entry.provider)
  const [replica, other] = rig.services.replicas.of(entry.provider)!.replicas
  const after = async (count: number) => {
    const from = flapping!.probes.length
    // The answer to the last of them has been read when the next one comes.
    t.ok(await waitUntil(() => flapping!.probes.length > from + count))
  }
  await after(1)
  t.equal(replica!.trouble, null)
  flapping!.probeStatus = 503
  t.ok(await waitUntil(() => replica!.isDown))
  t.equal(replica!.trouble, 'answers 503')
  const from = callsOf(servers)
  for (let turn = 0; turn < 6; turn += 1) await chat(rig)
  t.same([flapping!.calls - from[0]!, steady!.calls - from[1]!], [0, 6])
  flapping!.probeStatus = 200
  t.ok(await waitUntil(() => !replica!.isDown))
  // Now and then one fails.
  for (let turn = 0; turn < 3; turn += 1) {
    flapping!.probeStatus = 500
    t.ok(await waitUntil(() => replica!.trouble !== null))
    flapping!.probeStatus = 200
    t.ok(await waitUntil(() => replica!.trouble === null))
    t.notOk(replica!.isDown)
  }
  t.notOk(other!.isDown)
  const kinds = new Set(flapping!.probes.map(({ path, authorization }) => `${path} ${authorization}`))
  t.same([...kinds], ['/health Bearer the key'], 'what calls send, to the same server')
  probes.stop()
  await sleep(PROBE.intervalMs)
  const stopped = flapping!.probes.length
  await sleep(PROBE.intervalMs * 5)
  t.equal(flapping!.probes.length, stopped, 'a node that leaves probes no more')
})

t.test('a reload keeps what is known of the servers that stay', async (t) => {
  const held: ServerResponse[] = []
  const hold: Answering = (response) => void held.push(response)
  const servers = await startServers(t, hold, hold, hold)
  const entry = pooledEntry(servers.slice(0, 2))
  const rig = gatewayRig(t, { entries: [entry] })
  const { reload } = startProbes(t, rig, entry.provider)
  const calls = [chat(rig), chat(rig), chat(rig)]
  t.ok(await waitUntil(() => held.length === 3))
  const [first, second] = rig.services.replicas.of(entry.provider)!.replicas
  first!.isDown = true
  const next = pooledProvider([servers[2]!, servers[0]!])
  reload(next)
  t.ok(await waitUntil(() => servers[2]!.probes.length > 0), 'the new one is probed')
  const pool = rig.services.replicas.of(next)!
  t.equal(pool.replicas[1], first)
  t.not(pool.replicas[0], second)
  t.equal(first!.underWay + second!.underWay, 3)
  t.ok(await waitUntil(() => !first!.isDown), 'it is probed on')
  for (const response of held) answerWell(response, null!)
  await Promise.all(calls)
  t.equal(first!.underWay + second!.underWay, 0)
  const before = servers[1]!.probes.length
  await sleep(PROBE.intervalMs * 4)
  t.equal(servers[1]!.probes.length, before, 'the one that has left is not')
})

t.test('a replica whose calls failed is tried out by one call at a time, and later each time', (t) => {
  const pools = new ReplicaPools(() => 0.5)
  const provider = pooledProvider([{ baseUrl: 'http://one/v1' }, { baseUrl: 'http://two/v1' }])
  const pool = pools.of(provider)!
  const [one] = pool.replicas
  const begunMs = performance.now()
  one!.failed(begunMs, begunMs, null)
  t.notOk(one!.isUp(begunMs + 999))
  t.ok(one!.isUp(begunMs + 1_000))
  // What began before says nothing new.
  one!.failed(begunMs - 1, begunMs + 10, null)
  t.equal(one!.ejections, 1)
  for (const [turn, seconds] of [2, 4, 8, 16, 30, 30].entries()) {
    const atMs = begunMs + (turn + 1) * 100_000
    one!.failed(atMs, atMs, null)
    t.notOk(one!.isUp(atMs + seconds * 1_000 - 1))
    t.ok(one!.isUp(atMs + seconds * 1_000))
  }
  const laterMs = begunMs + 10_000_000
  t.ok(one!.isFree(laterMs))
  t.equal(one!.begin(), true)
  t.notOk(one!.isFree(laterMs))
  t.equal(one!.begin(), false)
  one!.answered(laterMs)
  t.ok(one!.isFree(laterMs))
  one!.end(true)
  one!.end(false)
  t.equal(one!.underWay, 0)
  one!.failed(laterMs, laterMs, 90_000)
  t.notOk(one!.isUp(laterMs + 89_999), 'as long as the server asks for')
  t.end()
})

t.test('a transcription of 25 MB goes whole to another replica when one dies while it comes', async (t) => {
  const sound = memoryAudio(Buffer.alloc(25 * MIB, 7), 'identity')
  const got: number[] = []
  const cut = createServer((request) => {
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > 5 * MIB) request.destroy()
    })
    request.on('error', () => {})
  })
  const whole = createServer((request, response) => {
    let bytes = 0
    request.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    request.on('end', () => {
      got.push(bytes - Number(request.headers['content-length']))
      response.writeHead(200, { 'content-type': 'application/json' }).end('{"text":"hello"}')
    })
  })
  const servers = [{ baseUrl: `${await listen(t, cut)}/v1` }, { baseUrl: `${await listen(t, whole)}/v1` }]
  const rig = gatewayRig(t, { entries: [pooledEntry(servers)], reader: sound.reader })
  const request = rig.request('transcription', { audio: audio(sound.audio), options: options() })
  const { result } = await runWhole(rig.services, request)
  t.equal(result.text, 'hello')
  t.same(got, [0], 'every byte of it')
  t.match(request.context.routing.attempts, [
    { replica: 0, failure: { kind: 'ambiguous' } },
    { replica: 1, status: 200 },
  ])
  t.equal(sound.reads.open, 0)
})

t.test('a stream that breaks off ends there, and tells of its server and not of its entry', async (t) => {
  const breakOff: Answering = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' })
    response.write(`data: ${JSON.stringify({ choices: [{ delta: { content: 'hel' } }] })}\n\n`)
    setTimeout(() => response.destroy(), 20)
  }
  const servers = await startServers(t, breakOff, undefined)
  const entry = pooledEntry(servers)
  const rig = gatewayRig(t, { entries: [entry] })
  const { deltas } = await runStreamed(rig.services, rig.request('chat', chatCall()))
  const read = async () => {
    for await (const _ of deltas);
  }
  await t.rejects(read())
  const [broken] = rig.services.replicas.of(entry.provider)!.replicas
  t.equal(broken!.ejections, 1)
  t.equal(broken!.underWay, 0)
  t.equal(rig.services.health.condition(entry, performance.now()).lastFailure, null)
})

const FILMED = { prompt: 'a lark', duration_seconds: null, size: null, seed: null }
const film = (status: string) =>
  JSON.stringify({ id: 'video_1', object: 'video', model: 'model', seconds: '4', size: '720x1280', status })

t.test('an order is placed once, and followed at the server that took it', async (t) => {
  let looks = 0
  const working: Answering = (response, { method, url }) => {
    if (method === 'GET') looks += 1
    const status = method === 'POST' ? 'queued' : looks < 4 ? 'in_progress' : 'failed'
    t.match(url, /^\/v1\/videos/)
    response.writeHead(200, { 'content-type': 'application/json' }).end(film(status))
  }
  const servers = await startServers(t, working, working, working)
  const entry = pooledEntry(servers)
  const rig = gatewayRig(t, { entries: [entry] })
  const services = { ...rig.services, timing: { pollMs: 10 } }
  const claim = (
    progress: UpstreamProgress | null,
    signal: AbortSignal,
    note: (p: UpstreamProgress | null) => void,
  ) =>
    runForJob(services, rig.request('video', FILMED, signal), {
      ...{ id: 'tj_of_the_test', claim: 1, retries: 0, deadlineMs: 20_000 },
      progress,
      note,
    })
  const leaving = new AbortController()
  let noted: UpstreamProgress | null = null
  await t.rejects(
    claim(null, leaving.signal, (progress) => {
      noted = progress
      leaving.abort(new Interrupted())
    }),
    Interrupted,
  )
  const orderedAt = callsOf(servers).findIndex((calls) => calls > 0)
  t.match(noted, { replica: replicaKey(servers[orderedAt]!.baseUrl) })
  // It is followed there although all others have less to do.
  rig.services.replicas.of(entry.provider)!.replicas[orderedAt]!.underWay += 5
  await refusalOf(claim(noted, new AbortController().signal, () => {}))
  t.ok(looks >= 4)
  t.equal(callsOf(servers).filter((calls) => calls > 0).length, 1, 'the other two know nothing of it')

  // A server that has left the pool takes its orders with it.
  const without = pooledEntry(servers.filter((_, at) => at !== orderedAt))
  const others = gatewayRig(t, { entries: [without] })
  const job = {
    id: 'tj_of_the_test',
    claim: 2,
    retries: 0,
    deadlineMs: 20_000,
    progress: noted,
    note: () => {},
  }
  const refusal = await refusalOf(runForJob(others.services, others.request('video', FILMED), job))
  t.equal(refusal.code, 'UPSTREAM_OUTCOME_UNKNOWN')
})

t.test('an order that may have arrived is placed nowhere else', async (t) => {
  const drop: Answering = (response) => void response.destroy()
  const servers = await startServers(t, drop, drop)
  const rig = gatewayRig(t, { entries: [pooledEntry(servers)] })
  await refusalOf(runWhole(rig.services, rig.request('video', FILMED)))
  t.equal(servers[0]!.calls + servers[1]!.calls, 1)
})

t.test(
  'a live session goes on at another replica when its own dies, and is load while it lasts',
  async (t) => {
    const dying = await serveWords(t, { death: () => ({ how: 'reset', afterSeconds: 1.25 }) })
    const sound = await serveWords(t)
    const servers = [{ baseUrl: dying.origin }, { baseUrl: sound.origin }]
    const provider = pooledProvider(servers, { name: 'pooled', kind: 'words' })
    const rig = await openLive(t, [{ ...wordsEntry('', 'pooled'), provider }])
    const [first, second] = rig.services.replicas.of(provider)!.replicas
    const caller = rig.connect()
    await caller.message('ready')
    t.same([first!.underWay, second!.underWay], [1, 0])
    await caller.speak(wordsAudio(0, 8))
    t.ok(await waitUntil(() => second!.underWay === 1))
    t.equal(first!.underWay, 0)
    caller.send({ type: 'end' })
    await caller.message('done')
    t.equal(caller.text, wordsText(8), 'every word once')
    const [switched, ...more] = caller.of('switched')
    t.same(more, [])
    t.match(switched, { from: { provider: 'pooled' }, to: { provider: 'pooled' }, lost_seconds: 0 })
    t.ok(await waitUntil(() => second!.underWay === 0))
    t.ok(sound.heard[0]! >= 7 * WORD_SECONDS - 1.25)
  },
)
