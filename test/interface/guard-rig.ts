import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { networkInterfaces } from 'node:os'
import { pino } from 'pino'
import type { Test } from 'tap'
import type { FetchAudio } from '../../src/contracts/remote-audio.ts'
import { seal } from '../../src/contracts/sealing.ts'
import type { PostWebhook } from '../../src/contracts/webhooks.ts'
import type { Dependencies } from '../../src/gateway/api/endpoint.ts'
import { createRoutes } from '../../src/gateway/api/table.ts'
import type { JobTiming } from '../../src/gateway/jobs/claim.ts'
import { startJobRunner } from '../../src/gateway/jobs/runner.ts'
import type { Dial } from '../../src/gateway/outbound/connect-address.ts'
import { createAudioFetcher, type FetchTiming } from '../../src/gateway/outbound/fetch-audio.ts'
import { createWebhookPoster, type PostTiming } from '../../src/gateway/outbound/post-webhook.ts'
import type { ResolveHost } from '../../src/gateway/outbound/public-host.ts'
import { startDeliveries } from '../../src/gateway/webhooks/deliveries.ts'
import { webhookSecretContext } from '../../src/gateway/webhooks/target.ts'
import { createWorkers } from '../../src/gateway/workers/pool.ts'
import { AUTHORITY } from '../support/audio-fetch.ts'
import { principal, route } from '../support/catalog.ts'
import { type DoorsRig, openDoors } from '../support/doors-rig.ts'
import { startEdge } from '../support/edge.ts'
import { entryAt } from '../support/gateway-rig.ts'
import { PUBLIC_ADDRESSES } from '../support/guard-addresses.ts'
import { SOUND } from '../support/guard-answers.ts'
import { PUBLIC } from '../support/guard-dns.ts'
import { HASTE } from '../support/job-rig.ts'
import { type Answering, dialInto, type Internet, serveTls } from '../support/tls-host.ts'
import { TRANSCRIPT_DELTAS } from '../support/upstream/openai.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

const PATIENCE_MS = 30_000
const DAY_MS = 86_400_000
const NAMES = [
  'good.example',
  '*.good.example',
  'other.example',
  '*.wide.example',
  'a.b.wide.example',
  'xn--bcher-kva.example',
  'hooks.example',
]

const loopbacks = Object.values(networkInterfaces()).flatMap((addresses) => addresses ?? [])
export const HAS_IPV6 = loopbacks.some(({ address }) => address === '::1')

export interface GuardRigOptions {
  /** Default: every name is at 8.8.8.8. */
  readonly resolve?: ResolveHost
  /** Default: into the host and the sentinels of the rig. */
  readonly dial?: Dial
  /** Hosts that audio may be fetched from. */
  readonly domains: readonly string[]
  readonly fetchTiming?: Partial<FetchTiming>
  readonly postTiming?: Partial<PostTiming>
  readonly jobTiming?: Partial<JobTiming>
  /** The waits between the attempts of an event; none: one attempt each. */
  readonly pausesMs?: readonly number[]
  readonly places?: number
}

/** A job that has ended, or that was refused. */
export interface Ran {
  /** Null: refused. */
  readonly id: string | null
  /** `heard`; `refused: ` or `failed: ` and the error in a word. */
  readonly word: string
}

/** The three ways by which a URL of a caller becomes a connection, each from its HTTP request on. */
export interface GuardRig {
  /** As the guard dials, unless it was given a dial of its own. */
  readonly dial: Dial
  /** `address port` of every connection that was begun so. */
  readonly dialled: string[]
  /** The listener of those for IPv4. */
  readonly sentinel: { readonly port: number }
  /** Connections that came to listeners in the place of all addresses that are not public. */
  sentinels(): number
  /** What the host at the public addresses answers; audio to GET and 200 to POST unless it is replaced. */
  answer: Answering
  /** Hosts in the place of addresses, in front of those of the rig. */
  readonly places: Internet
  /** Heads of the requests that came to the host. */
  readonly requests: readonly string[]
  /** How often the provider was asked. */
  heard(): number
  /** POST /v1/transcription. @returns `heard`, or the error in a word: `CODE reason status` */
  transcribe(url: string): Promise<string>
  /** POST /v1/transcription/jobs, and GET until the job has ended. */
  run(url: string): Promise<Ran>
  /** PUT of the webhook. @returns its status */
  putWebhook(url: string): Promise<number>
  /** The webhook as the state would keep one that got past PUT. */
  keepWebhook(url: string): Promise<void>
  /** What became of the event of a job: `delivered`, or why it was given up. */
  delivery(job: string): Promise<string>
  /** Runs a job whose audio comes with it. @returns what became of its event */
  deliver(): Promise<string>
}

/** Audio to whoever fetches, 200 to whoever posts. */
export const good: Answering = (socket, head) =>
  socket.end(head.startsWith('POST ') ? 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n' : SOUND, 'latin1')

/**
 * The endpoints, the runner of jobs and the delivery of webhooks as one node wires them. Of the network below the guard
 * nothing is real: a public address leads to a host of the test, any other one to a sentinel that counts.
 */
export async function startGuardRig(t: Test, options: GuardRigOptions): Promise<GuardRig> {
  const network = await startNetwork(t)
  const { resolve = async () => [PUBLIC], dial = network.dial, domains } = options
  const upstream = await startUpstream(t)
  const way = { resolve, dial, ca: AUTHORITY.cert }
  const fetchAudio = createAudioFetcher({ ...way, timing: options.fetchTiming ?? {} })
  const dependencies = await openAll(t, fetchAudio, new URL(upstream.url).origin, domains)
  const post = createWebhookPoster({ ...way, insecure: false, timing: options.postTiming ?? {} })
  return startNode(t, { dependencies, post, options, network, heard: () => upstream.received.length })
}

type Network = Pick<
  GuardRig,
  'dial' | 'dialled' | 'sentinel' | 'sentinels' | 'answer' | 'places' | 'requests'
>

async function startNetwork(t: Test): Promise<Network> {
  const host = await serveTls(t, AUTHORITY.issue(NAMES), (...asked) => network.answer(...asked))
  const four = await startSentinel(t, '127.0.0.1')
  const six = HAS_IPV6 ? await startSentinel(t, '::1') : null
  const places: Internet = {}
  const isPublic = new Set(PUBLIC_ADDRESSES)
  const sentinelOf = (address: string) => (six !== null && address.includes(':') ? six : four)
  const everywhere = new Proxy(places, {
    get: (_, address: string) => places[address] ?? (isPublic.has(address) ? host : sentinelOf(address)),
  })
  const network: Network = {
    ...dialInto(everywhere),
    sentinel: four,
    sentinels: () => four.made + (six?.made ?? 0),
    answer: good,
    places,
    requests: host.requests,
  }
  return network
}

/** Counts who comes, and shows everybody out at once: whoever waited for an answer would only be found out later. */
async function startSentinel(t: Test, host: string) {
  const sentinel = { made: 0, port: 0, host }
  const server = createServer((socket) => {
    sentinel.made += 1
    socket.on('error', () => {})
    socket.destroy()
  })
  server.listen(0, host)
  await once(server, 'listening')
  t.teardown(() => server.close())
  sentinel.port = (server.address() as AddressInfo).port
  return sentinel
}

/** Doors whose one caller may do everything in its workspace. */
async function openAll(
  t: Test,
  fetchAudio: FetchAudio,
  origin: string,
  domains: readonly string[],
): Promise<DoorsRig> {
  const entries = [entryAt(origin, { model: 'ear' })]
  const key = {
    ...principal().key,
    scopes: ['inference', 'jobs', 'admin'] as const,
    rateLimit: { requestsPerMinute: 1_000_000, burst: 100_000 },
  }
  const caller = principal({ route: route(entries), key })
  const rig = await openDoors(t, { entries, fetchAudio, caller, audioUrlDomains: domains })
  const { services } = rig.dependencies
  const { key: _, ...app } = caller
  const apps = new Map([[app.workspace.id, new Map([[app.app.id, app]])]])
  const snapshot = () => ({ ...services.snapshot(), apps })
  return { ...rig, dependencies: { ...rig.dependencies, services: { ...services, snapshot } } }
}

interface NodeDependencies {
  readonly dependencies: DoorsRig
  readonly post: PostWebhook
  readonly options: GuardRigOptions
  readonly network: Network
  readonly heard: () => number
}

async function startNode(t: Test, parts: NodeDependencies): Promise<GuardRig> {
  const { dependencies, authorization } = parts.dependencies
  const secretKeys = [randomBytes(32)]
  const routes = createRoutes({
    ...dependencies,
    readiness: READY,
    links: null,
    webhooks: { secretKeys, insecure: false },
  })
  const { origin } = await startEdge(t, routes)
  const outcomes = startWork(t, parts, secretKeys)
  const ask = async (method: string, path: string, body?: object) => {
    const response = await fetch(origin + path, {
      method,
      headers: { authorization, 'content-type': 'application/json' },
      ...(body && { body: JSON.stringify(body) }),
    })
    return { status: response.status, body: (await response.json()) as Answer }
  }
  const runWith = async (audio: object): Promise<Ran> => {
    const { status, body } = await ask('POST', JOBS, { audio })
    if (status !== 202) return { id: null, word: `refused: ${wordOf(body.error)}` }
    const job = await endOf(String(body.job_id))
    const isHeard = job.status === 'succeeded' && job.result?.content === TEXT
    return { id: String(body.job_id), word: isHeard ? 'heard' : `${job.status}: ${wordOf(job.error)}` }
  }
  const endOf = async (id: string): Promise<Answer> => {
    for (let looks = 0; looks < 10; looks += 1) {
      const { body } = await ask('GET', `${JOBS}/${id}?wait=10`)
      if (body.completed_at !== null) return body
    }
    throw new Error(`${id} does not end`)
  }
  const delivery = async (job: string): Promise<string> => {
    if (await waitUntil(() => outcomes.has(job), PATIENCE_MS)) return outcomes.get(job)!
    throw new Error(`the event of ${job} waits`)
  }
  return Object.assign(parts.network, {
    heard: parts.heard,
    async transcribe(url: string) {
      const { status, body } = await ask('POST', '/v1/transcription', { audio: { url } })
      return status === 200 && body.content === TEXT ? 'heard' : wordOf(body.error)
    },
    run: (url: string) => runWith({ url }),
    putWebhook: async (url: string) => (await ask('PUT', WEBHOOK, { url })).status,
    async keepWebhook(url: string) {
      const secret = seal(secretKeys, `whsec_${randomBytes(32).toString('base64')}`, SEALED_FOR)
      const webhook = { url, secret, createdAtMs: Date.now() }
      await dependencies.services.state.settings.putWebhook(WORKSPACE, webhook, DAY_MS)
    },
    delivery,
    async deliver() {
      const { id, word } = await runWith({ base64: BODY_BASE64 })
      if (id === null || word !== 'heard') throw new Error(`the job of the event is ${word}`)
      return delivery(id)
    },
  })
}

const JOBS = '/v1/transcription/jobs'
const WORKSPACE = 'acme'
const WEBHOOK = `/workspace/${WORKSPACE}/stt-webhook`
const SEALED_FOR = webhookSecretContext(WORKSPACE)
const TEXT = TRANSCRIPT_DELTAS.join('')
const BODY_BASE64 = Buffer.from(SOUND.slice(SOUND.indexOf('\r\n\r\n') + 4), 'latin1').toString('base64')
const READY = { accepting: () => true, stateHealthy: async () => true, stateBlocked: () => null }

interface Failure {
  readonly code: string
  readonly details?: { readonly reason?: string; readonly status?: number }
}

interface Answer {
  readonly error?: Failure
  readonly content?: string
  readonly job_id?: string
  readonly status?: string
  readonly completed_at?: string | null
  readonly result?: { readonly content: string } | null
}

const wordOf = (error: Failure | undefined) =>
  [error?.code, error?.details?.reason, error?.details?.status].filter((part) => part !== undefined).join(' ')

/** Runs jobs and delivers their events. @returns what became of the events, by their jobs */
function startWork(
  t: Test,
  parts: NodeDependencies,
  secretKeys: readonly Buffer[],
): ReadonlyMap<string, string> {
  const { options, post } = parts
  const { services, probe, remoteAudio, jobs }: Dependencies = parts.dependencies.dependencies
  const { places = 16, jobTiming, pausesMs = [] } = options
  const outcomes = new Map<string, string>()
  const write = (text: string) => {
    const line = JSON.parse(text)
    if (line.msg !== 'webhook' || line.outcome === 'retry') return
    const why = line.reason ?? `status ${line.status}`
    outcomes.set(line.job_id, line.outcome === 'given_up' ? why : line.outcome)
  }
  const log = pino({ base: null }, { write })
  const workers = createWorkers()
  const { signals, objects } = jobs
  const timing = { ...HASTE, ...jobTiming }
  const runner = startJobRunner({
    ...{ services, objects, probe, remoteAudio, signals, log, timing },
    ...{ places, perWorkspace: places, tracing: null },
  })
  const deliveries = startDeliveries({
    ...{ state: services.state, secretKeys, signals, log, signer: workers.signer, post },
    clock: services.clock,
    timing: { pollMs: 25, schedule: { pausesMs, retryAfterMaxMs: 0 } },
  })
  t.teardown(async () => {
    await runner.stop(0)
    await deliveries.stop()
    await workers.close()
  })
  return outcomes
}
