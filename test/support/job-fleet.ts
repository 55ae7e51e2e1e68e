import { randomUUID } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { pino } from 'pino'
import type { Test } from 'tap'
import { hashKey, makeKey } from '../../src/catalog/key.ts'
import type { State } from '../../src/schema/state.ts'
import { createRedisState } from '../../src/state/redis/state.ts'
import { openBucket } from './bucket.ts'
import { type Larkway, type LarkwayProcess, startLarkway, startWorker } from './larkway.ts'
import { type RedisServer, startRedis } from './redis-server.ts'
import { startS3 } from './s3-server.ts'
import { filledWav } from './wav.ts'

type Variables = Readonly<Record<string, string>>

/** Half a second of silence. */
const AUDIO = filledWav(4_000, 0, 4_000)

export interface FleetOptions {
  /** Base URL of a provider in OpenAI's format. */
  readonly upstreamUrl: string
  readonly workspaces: number
  readonly env?: Variables
}

/** What the jobs of the workspaces of one configuration are asked by. */
export interface JobCustomer {
  readonly workspaces: readonly string[]
  authorizationOf(workspace: string): string
}

/** Workspaces `ws_0`, … with a key each, whose routes all lead to the one provider. */
export function customersOf({ upstreamUrl, workspaces: count }: FleetOptions) {
  const names = Array.from({ length: count }, (_, i) => `ws_${i}`)
  const apiKeys = new Map(names.map((name) => [name, makeKey()]))
  const entries = [{ provider: 'hears', model: 'whisper-1' }]
  const config = {
    rate_limit: { requests_per_minute: 100_000_000, burst: 100_000 },
    providers: {
      hears: {
        kind: 'openai-compatible',
        access: 'platform',
        base_url: upstreamUrl,
        price: { per_hour_usd: 0 },
      },
    },
    routes: Object.fromEntries(names.map((name) => [name, { workspace: name, entries }])),
    workspaces: Object.fromEntries(
      names.map((name) => {
        const key = { id: `key_${name}`, app: 'web', sha256: hashKey(apiKeys.get(name)!) }
        const keys = [{ ...key, scopes: ['inference', 'jobs', 'queue', 'admin'] }]
        return [name, { apps: { web: { route: name } }, keys }]
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
  /** Takes jobs on and works on none. */
  readonly server: Larkway
  readonly state: State
  /** What all processes are given. */
  readonly env: Variables
  startWorker(env?: Variables): Promise<LarkwayProcess>
}

/** One server that takes jobs on and, as many as are started, workers, with a durable Redis and an S3 server. */
export async function startJobFleet(t: Test, options: FleetOptions): Promise<JobFleet> {
  const [redis, bucket] = await Promise.all([
    startRedis(t, { durable: true }),
    startS3(t).then((server) => openBucket(t, server)),
  ])
  const { config, customer } = customersOf(options)
  const env = {
    REDIS_URL: redis.url,
    ...bucket.env,
    LARKWAY_SECRET_KEYS: Buffer.alloc(32, 7).toString('base64'),
    LARKWAY_INSECURE_WEBHOOKS: 'true',
    LOG_LEVEL: 'warn',
    ...options.env,
  }
  // The line that says that it listens is one of level info.
  const logged = { ...env, LOG_LEVEL: 'info' }
  const server = await startLarkway(t, { config, env: { ...logged, LARKWAY_JOBS: '0' } })
  const state = await createRedisState({ url: redis.url, log: pino({ level: 'silent' }) })
  t.teardown(() => state.close())
  return {
    ...customer,
    redis,
    server,
    state,
    env: logged,
    startWorker: (more = {}) => startWorker(t, { config, env: { ...logged, ...more } }),
  }
}

/** Hands a job in until the server takes it: asked again with its key, it is the same job. @returns its id */
export async function submitJob(url: () => string, authorization: string): Promise<string> {
  const key = randomUUID()
  for (;;) {
    try {
      const response = await fetch(`${url()}/v1/transcription/jobs`, {
        method: 'POST',
        headers: { authorization, 'content-type': 'audio/wav', 'idempotency-key': key },
        body: new Uint8Array(AUDIO),
      })
      const body = (await response.json()) as { readonly job_id?: string }
      if (body.job_id !== undefined) return body.job_id
      if (response.status < 500) throw new Error(`a job was refused: ${JSON.stringify(body)}`)
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
