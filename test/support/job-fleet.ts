import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/catalog/key.ts'
import type { State } from '../../src/contracts/state.ts'
import { createRedisState } from '../../src/state/redis/state.ts'
import { openBucket } from './bucket.ts'
import { type Larkway, type LarkwayProcess, startLarkway, startWorker, testTiming } from './larkway.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { type S3Server, startS3 } from './s3-server.ts'
import { filledWav } from './wav.ts'

/**
 * A lease is long enough that none runs out under a worker that lives, on a busy machine, too; what a dead one held is
 * taken over in a third of the time that a deployment waits.
 */
export const FLEET_TIMING = testTiming({
  jobs: { leaseMs: 10_000, renewMs: 2_000 },
  deliveries: { leaseMs: 20_000 },
})

/**
 * For a fleet of one process that is killed several times within seconds: with a shorter lease one job would meet three
 * of the kills, and be given up as one that kills its workers.
 */
export const KILLED_FLEET_TIMING = testTiming({ deliveries: { leaseMs: 20_000 } })

type Variables = Readonly<Record<string, string>>
type Fields = Readonly<Record<string, unknown>>

/** Half a second of silence. */
const AUDIO = filledWav(4_000, 0, 4_000)

export interface FleetOptions {
  /** Base URL of a provider in OpenAI's format. */
  readonly upstreamUrl: string
  readonly workspaces: number
  readonly env?: Variables
  /** Further members of the provider, such as another kind. */
  readonly provider?: Fields
  /** Further members of the one entry of each route, such as a price. */
  readonly entry?: Fields
  /** Further members of each workspace, such as credits. */
  readonly terms?: Fields
  /** Default: one of the fleet's own. */
  readonly s3?: S3Server
}

/** What the jobs of the workspaces of one configuration are asked by. */
export interface JobCustomer {
  readonly workspaces: readonly string[]
  authorizationOf(workspace: string): string
}

/** Workspaces `ws_0`, … with a key each, whose routes all lead to the one provider. */
export function customersOf({
  upstreamUrl,
  workspaces: count,
  provider = {},
  entry = {},
  terms = {},
}: FleetOptions) {
  const names = Array.from({ length: count }, (_, i) => `ws_${i}`)
  const apiKeys = new Map(names.map((name) => [name, makeKey()]))
  const entries = [{ provider: 'hears', model: 'whisper-1', ...entry }]
  const config = {
    rate_limit: { requests_per_minute: 100_000_000, burst: 100_000 },
    providers: {
      hears: {
        kind: 'openai-compatible',
        access: 'platform',
        base_url: upstreamUrl,
        price: { per_hour_usd: 0 },
        ...provider,
      },
    },
    routes: Object.fromEntries(names.map((name) => [name, { workspace: name, entries }])),
    workspaces: Object.fromEntries(
      names.map((name) => {
        const key = { id: `key_${name}`, app: 'web', sha256: hashKey(apiKeys.get(name)!) }
        const keys = [{ ...key, scopes: ['inference', 'jobs', 'queue', 'admin'] }]
        return [name, { apps: { web: { route: name } }, keys, ...terms }]
      }),
    ),
  }
  const customer: JobCustomer = {
    workspaces: names,
    authorizationOf: (workspace) => `Bearer ${apiKeys.get(workspace)}`,
  }
  return { config, customer }
}

export interface JobFleet extends JobCustomer {
  readonly redis: RedisServer
  readonly s3: S3Server
  /** Takes jobs on and works on none. */
  readonly server: Larkway
  readonly state: State
  /** What all processes are given. */
  readonly env: Variables
  startWorker(env?: Variables): Promise<LarkwayProcess>
  /** One more server, which takes jobs on and works on none. */
  startServer(env?: Variables): Promise<Larkway>
}

/** One server that takes jobs on and, as many as are started, workers, with a durable Redis and an S3 server. */
export async function startJobFleet(t: Test, options: FleetOptions): Promise<JobFleet> {
  const [redis, s3] = await Promise.all([startRedis(t, { durable: true }), options.s3 ?? startS3(t)])
  const bucket = await openBucket(t, s3)
  const { config, customer } = customersOf(options)
  const env = {
    REDIS_URL: redis.url,
    ...bucket.env,
    LARKWAY_SECRET_KEYS: Buffer.alloc(32, 7).toString('base64'),
    LARKWAY_INSECURE_WEBHOOKS: 'true',
    LOG_LEVEL: 'warn',
    ...FLEET_TIMING,
    ...options.env,
  }
  // The line that says that it listens is one of level info.
  const logged = { ...env, LOG_LEVEL: 'info' }
  const startServer = (more: Variables = {}) =>
    startLarkway(t, { config, env: { ...logged, LARKWAY_JOBS: '0', ...more } })
  const server = await startServer()
  const state = await createRedisState({ url: redis.url, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  return {
    ...customer,
    redis,
    s3,
    server,
    state,
    env: logged,
    startServer,
    startWorker: (more = {}) => startWorker(t, { config, env: { ...logged, ...more } }),
  }
}

/** What is handed in, and what is to be known of it. */
export interface Submission {
  readonly path: '/v1/transcription/jobs' | '/v1/queue'
  readonly contentType: string
  readonly body: Uint8Array | string
}

/** A transcription job of this wav. */
export function hearing(wav: Buffer = AUDIO): Submission {
  return { path: '/v1/transcription/jobs', contentType: 'audio/wav', body: new Uint8Array(wav) }
}

/** A queue job: a chat of one message. */
export function chatting(content: string, maxTokens: number): Submission {
  const payload = { messages: [{ role: 'user', content }], max_tokens: maxTokens }
  const body = JSON.stringify({ endpoint: 'chat', payload })
  return { path: '/v1/queue', contentType: 'application/json', body }
}

interface Accepted {
  readonly job_id?: string
  readonly job?: { readonly id: string }
  readonly error?: { readonly code: string }
}

/**
 * Hands a job in until the server takes it: asked again with its key, it is the same job.
 *
 * @param onRefused told of each answer that is to be asked again: `503 DEPENDENCY_UNAVAILABLE`
 * @returns its id
 */
export async function submitJob(
  url: () => string,
  authorization: string,
  { path, contentType, body }: Submission = hearing(),
  onRefused: (answer: string) => void = () => {},
): Promise<string> {
  const key = randomUUID()
  const headers = { authorization, 'content-type': contentType, 'idempotency-key': key }
  for (;;) {
    try {
      const response = await fetch(url() + path, {
        method: 'POST',
        headers,
        body: body as NonNullable<RequestInit['body']>,
      })
      const answer = (await response.json()) as Accepted
      const id = answer.job_id ?? answer.job?.id
      if (id !== undefined) return id
      if (response.status < 500) throw new Error(`a job was refused: ${JSON.stringify(answer)}`)
      onRefused(`${response.status} ${answer.error?.code}`)
    } catch (error) {
      // A server that is killed breaks its connections.
      if (!(error instanceof TypeError)) throw error
    }
    await sleep(50)
  }
}

/** Has the end of every job of a workspace told to this address. */
export async function setWebhook(
  serverUrl: string,
  workspace: string,
  authorization: string,
  url: string,
): Promise<void> {
  const response = await fetch(`${serverUrl}/workspace/${workspace}/stt-webhook`, {
    method: 'PUT',
    headers: { authorization, 'content-type': 'application/json' },
    body: JSON.stringify({ url }),
  })
  if (!response.ok) throw new Error(`the webhook of ${workspace} was refused: ${await response.text()}`)
}
