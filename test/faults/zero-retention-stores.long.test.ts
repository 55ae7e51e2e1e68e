import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import t, { type Test } from 'tap'
import { WebSocket } from 'ws'
import { keysOf, sweepOnce } from '../gateway/storage/rig.ts'
import { multipart } from '../support/bodies.ts'
import { RawClient } from '../support/raw-client.ts'
import { withoutServers } from '../support/servers.ts'
import { clockAhead } from '../support/virtual-clock.ts'
import { waitUntil } from '../support/wait-until.ts'
import { tell } from './canary-attacks.ts'
import type { Ask } from './canary-cases.ts'
import {
  DEMANDS,
  keptAnywhere,
  type RetentionRig,
  singersIn,
  startRetentionRig,
  storeOf,
  type Tenant,
  uploadsUnderWay,
} from './canary-retention.ts'
import type { Stores } from './canary-rig.ts'
import { Canaries } from './canary-values.ts'

/** What a caller of the API sends. */
const CALLS = /^POST \/(?:v1|openai|deepgram|elevenlabs|assemblyai)\//
const LOOKS = /^GET \/console\/api\/(?!session)/

/** The same request as its tenant sends it. */
function demanding({ demand, headers, run }: Tenant, ask: Ask): Ask {
  const asked = { ...ask, headers: { ...ask.headers, ...headers, 'x-lk-request-id': idOf(demand) } }
  if (demand !== 'body') return asked
  const { path, body } = ask
  const type = ask.headers?.['content-type'] ?? ''
  if (typeof body === 'string' && type === 'application/json' && body.startsWith('{'))
    return { ...asked, body: `{"require":{"retention":"zero"},${body.slice(1)}` }
  if (type.startsWith('audio/'))
    return { ...asked, path: `${path}${path.includes('?') ? '&' : '?'}require=retention%3Dzero` }
  const audio = { name: 'file', filename: run.songs.filename, type: 'audio/wav', body: run.songs.wav }
  const form = multipart([
    { name: 'require', body: 'retention=zero' },
    { name: 'prompt', body: run.songs.prompt },
    audio,
  ])
  return { ...asked, headers: { ...asked.headers, 'content-type': form.contentType }, body: form.body }
}

/** A text that log, traces and console have whatever is demanded: a search that misses it finds nothing. */
const idOf = (demand: string) => `whose-${demand}`

/** Only Larkway's own paths know the field. */
const isFor = ({ demand }: Tenant, { path }: Ask) => demand !== 'body' || /^\/v1\/(?!queue)/.test(path)

const callsOf = (tenant: Tenant, pattern = CALLS) =>
  tenant.run
    .goods(pattern)
    .filter((ask) => isFor(tenant, ask))
    .map((ask) => demanding(tenant, ask))

/** Audio that the memory of the node cannot hold, in every form in which it can come. */
function largeCallsOf({ run, large, headers, demand }: Tenant): Ask[] {
  // In the body alone it would come too late, which has a test of its own.
  if (demand === 'body') return []
  const path = '/v1/transcription'
  const file = { name: 'file', filename: run.songs.filename, type: 'audio/wav', body: large }
  const form = multipart([{ name: 'prompt', body: run.songs.prompt }, file])
  const json = JSON.stringify({ audio: { base64: large.toString('base64') }, prompt: run.songs.prompt })
  const sends = (type: string, body: Buffer | string, more: object = {}) => ({
    method: 'POST',
    path,
    headers: { ...headers, 'content-type': type, 'x-lk-request-id': idOf(demand), ...more },
    body,
  })
  return [
    sends('audio/wav', large),
    sends('audio/wav', large, { 'transfer-encoding': 'chunked' }),
    sends(form.contentType, form.body),
    sends('application/json', json),
  ]
}

class LiveCaller {
  readonly messages: { readonly type: string; readonly error?: unknown }[] = []
  readonly socket: WebSocket
  readonly closed: Promise<unknown>

  constructor(t: Test, { port }: RetentionRig, { liveBearer, headers, demand }: Tenant, path: string) {
    const required = demand === 'body' ? '&require=retention%3Dzero' : ''
    this.socket = new WebSocket(`ws://127.0.0.1:${port}${path}${required}`, ['larkway.v1'], {
      headers: { ...headers, authorization: liveBearer, 'x-lk-request-id': idOf(demand) },
    })
    this.socket.on('error', () => {})
    this.socket.on('message', (data, isBinary) => {
      if (!isBinary) this.messages.push(JSON.parse(String(data)))
    })
    this.closed = once(this.socket, 'close')
    t.teardown(() => this.socket.terminate())
  }

  async opened(): Promise<this> {
    if (this.socket.readyState !== WebSocket.OPEN) await once(this.socket, 'open')
    return this
  }

  said(type: string): Promise<boolean> {
    return waitUntil(() => this.messages.some((message) => message.type === type), 30_000)
  }
}

/** A session that transcribes what it is sent at once. */
async function listen(t: Test, rig: RetentionRig, tenant: Tenant): Promise<LiveCaller> {
  const caller = new LiveCaller(t, rig, tenant, '/v1/transcription/stream?sample_rate=16000')
  await caller.opened()
  const sound = tenant.run.songs.wav.subarray(44)
  for (let piece = 0; piece < 5; piece += 1) caller.socket.send(sound)
  return caller
}

async function speak(t: Test, rig: RetentionRig, tenant: Tenant): Promise<LiveCaller> {
  const caller = new LiveCaller(t, rig, tenant, '/v1/speech/stream?voice=alloy')
  await caller.opened()
  caller.socket.send(JSON.stringify({ type: 'text', text: `${tenant.run.songs.prompt}. ` }))
  caller.socket.send(JSON.stringify({ type: 'flush' }))
  return caller
}

/** Live sessions to their end: at a provider for live audio, as files when that is gone, and one that speaks. */
async function talk(t: Test, rig: RetentionRig, tenant: Tenant): Promise<void> {
  const { demand } = tenant
  const live = await listen(t, rig, tenant)
  t.ok(await live.said('final'), `${demand}: a provider for live audio is heard`)
  tenant.refuseLive()
  const sound = tenant.run.songs.wav.subarray(44)
  for (let piece = 0; piece < 5; piece += 1) live.socket.send(sound)
  live.socket.send('{"type":"end"}')
  t.ok(await live.said('switched'), `${demand}: files stand in for it`)
  t.ok(await live.said('done'), `${demand}: ${JSON.stringify(live.messages.at(-1))}`)
  const spoken = await speak(t, rig, tenant)
  spoken.socket.send('{"type":"end"}')
  t.ok(await spoken.said('done'), `${demand}: ${JSON.stringify(spoken.messages.at(-1))}`)
  await Promise.all([live.closed, spoken.closed])
}

/** Uploads that stop in the middle, one with its length and one without: whose sender is slow leaves the memory. */
async function stall(
  { port }: RetentionRig,
  { large, headers, demand }: Tenant,
  bearer: string,
): Promise<RawClient[]> {
  if (demand === 'body') return []
  const lines = Object.entries({ authorization: bearer, ...headers }).map(
    ([name, value]) => `${name}: ${value}`,
  )
  const head = ['POST /v1/transcription HTTP/1.1', 'host: a', 'content-type: audio/wav', ...lines]
  const known = await RawClient.connect(port)
  await known.send(
    `${[...head, `content-length: ${large.length}`].join('\r\n')}\r\n\r\n`,
    large.subarray(0, 4_000_000),
  )
  const chunked = await RawClient.connect(port)
  const part = large.subarray(0, 7_000_000)
  await chunked.send(`${[...head, 'transfer-encoding: chunked'].join('\r\n')}\r\n\r\n`)
  await chunked.send(`${part.length.toString(16)}\r\n`, part, '\r\n')
  return [known, chunked]
}

/** What the console says of each workspace, to its own admin. */
async function lookAt({ port }: RetentionRig, { demand, run }: Tenant): Promise<Buffer[]> {
  await run.signIn()
  const looks = run.goods(LOOKS).map((ask) => ({ ...ask, path: ask.path.replaceAll('acme', demand) }))
  const answers: Buffer[] = []
  for (const ask of looks) {
    const told = await tell(port, ask)
    if (told !== null && told.status < 400) answers.push(Buffer.from(told.headers), told.body)
  }
  return answers
}

/** Finds what is kept of those who let it be, and nothing of all others. */
async function judge(
  t: Test,
  canaries: Canaries,
  rig: RetentionRig,
  where: string,
  expected: readonly string[],
  ended = false,
) {
  const singers = singersIn(canaries, await keptAnywhere(rig, ended))
  for (const what of expected) t.ok(singers.nothing.has(what), `${where}: ${what} is there without a demand`)
  for (const demand of DEMANDS.slice(1)) t.same([...singers[demand]], [], `${where}: ${demand}`)
}

/** Nothing of anybody but what is `shown` of whoever demands nothing; who asked is there. */
function judgeOutput(
  t: Test,
  canaries: Canaries,
  where: string,
  pieces: readonly Buffer[],
  shown: readonly string[] = [],
): void {
  const text = Buffer.concat(pieces)
  for (const [demand, found] of Object.entries(singersIn(canaries, pieces))) {
    t.same([...found], demand === 'nothing' ? shown : [], `${where}: ${demand}`)
    t.ok(text.includes(idOf(demand)), `${where}: requests of ${demand} are there`)
  }
}

async function callAll(t: Test, rig: RetentionRig): Promise<void> {
  for (const tenant of rig.tenants) {
    const { demand, run } = tenant
    const told = await run.askAll(callsOf(tenant), 'all', 8)
    const isLarge = demand === 'nothing' || demand === 'header'
    const large = isLarge ? await run.askAll(largeCallsOf(tenant), 'all', 2) : []
    const statuses = told.map((one) => one?.status)
    t.ok(
      statuses.filter((status) => status === 200).length > (demand === 'body' ? 15 : 40),
      `${demand}: ${statuses}`,
    )
    t.ok(
      large.every((one) => one?.status === 200),
      `${demand}: ${large.map((one) => one?.body)}`,
    )
    t.equal(statuses.includes(202), demand === 'nothing', `${demand}: whether jobs are taken`)
    t.equal(statuses.includes(422), true, demand)
  }
}

/** Calls that fail at every provider, each of which says its words in another way. */
async function askTheUnwell(t: Test, tenant: Tenant): Promise<void> {
  await tenant.run.askAll(callsOf(tenant, /^POST \/(?:v1|openai)\//), 'poor', 16)
  t.ok(
    tenant.illAsked().every((times) => times > 0),
    `${tenant.demand}: ${tenant.illAsked()}`,
  )
}

/** What a crash leaves of bodies goes with the next sweep, and audio that was sent ahead of its jobs after its day. */
async function judgeSweep(t: Test, rig: RetentionRig): Promise<void> {
  const objects = await storeOf(rig)
  const sweepIn = async (hours: number) => {
    const clock = clockAhead(hours * 3_600_000)
    await sweepOnce({ objects, log: pino({ level: 'silent' }), alone: true, clock })
    return { uploads: (await keysOf(objects, 'upload/')).length, bodies: await keysOf(objects, 'spool/') }
  }
  const atOnce = await sweepIn(0)
  t.ok(atOnce.uploads > 0, 'uploads outlive the crash')
  t.same(atOnce.bodies, [])
  t.same(await sweepIn(24), atOnce)
  t.equal((await sweepIn(25)).uploads, 0)
}

const SETUPS: readonly Stores[] = ['folder', 'servers']

for (const stores of SETUPS) {
  const skip = stores === 'servers' && withoutServers
  t.test(`nothing is kept under retention: zero: ${stores}`, { skip, timeout: 300_000 }, async (t) => {
    const canaries = new Canaries()
    const rig = await startRetentionRig(t, canaries, stores)
    const [server] = rig.processes
    await callAll(t, rig)
    await Promise.all(rig.tenants.map((tenant) => talk(t, rig, tenant)))
    // A job's audio and prompt, an upload, the answer under an idempotency key, a film behind a URL.
    const kept = ['prompt', 'sound of the caller', 'sound of the provider']
    await judge(t, canaries, rig, 'after the answers', kept)

    await Promise.all(rig.tenants.map((tenant) => askTheUnwell(t, tenant)))

    const before = rig.tenants.map((tenant) => tenant.asked())
    const stalled: RawClient[] = []
    for (const tenant of rig.tenants) {
      tenant.setMood('hang')
      const { demand } = tenant
      const bearer = rig.bearers.get(demand) ?? ''
      stalled.push(...(await stall(rig, tenant, bearer)))
      void tenant.run.askAll(callsOf(tenant), 'all', 200)
      void tenant.run.askAll(largeCallsOf(tenant), 'all', 4)
      await listen(t, rig, tenant)
      await speak(t, rig, tenant)
    }
    const isUnderWay = () => rig.tenants.every((tenant, at) => tenant.asked() > before[at]! + 10)
    t.ok(
      await waitUntil(isUnderWay, 60_000),
      `all are under way: ${rig.tenants.map((tenant, at) => tenant.asked() - before[at]!)}`,
    )
    await sleep(3_000)
    const sounds = [...kept, 'long sound of the caller']
    await judge(t, canaries, rig, 'under way', sounds)
    const looked = (await Promise.all(rig.tenants.map((tenant) => lookAt(rig, tenant)))).flat()
    // The log names the end user of a request, which comes in that field.
    judgeOutput(t, canaries, 'console', looked, ['field of a request'])
    const metrics = await rig.metrics()
    t.same(
      Object.values(singersIn(canaries, metrics)).flatMap((names) => [...names]),
      [],
      'metrics',
    )
    t.ok(metrics.join('').includes('live-workspace'))

    // On a slow machine those that were stalled first have been given up by now, or are about to be.
    const first = new Set(await uploadsUnderWay(rig))
    for (const tenant of rig.tenants)
      stalled.push(...(await stall(rig, tenant, rig.bearers.get(tenant.demand) ?? '')))
    const isSent = async () =>
      stores === 'folder' || (await uploadsUnderWay(rig)).some((id) => !first.has(id))
    t.ok(await waitUntil(isSent, 30_000), 'a part of an upload is in the store')
    server?.signal('SIGKILL')
    await server?.ended
    for (const client of stalled) client.destroy()
    await judge(t, canaries, rig, 'after SIGKILL', sounds, true)
    judgeOutput(t, canaries, 'log', [server?.output() ?? Buffer.alloc(0)])
    judgeOutput(t, canaries, 'traces', [rig.traces()])
    await judgeSweep(t, rig)
  })
}
