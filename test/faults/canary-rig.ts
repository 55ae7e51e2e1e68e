import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { AUTHORITY } from '../support/audio-fetch.ts'
import { serveHttp } from '../support/http-server.ts'
import { testTiming } from '../support/larkway.ts'
import { type RedisOptions, type RedisServer, startRedis } from '../support/redis-server.ts'
import { secret } from '../support/route-gateway.ts'
import { openBucket, type S3Server, startS3 } from '../support/s3-server.ts'
import { freePort, type Teardown, tempFolder } from '../support/scratch.ts'
import { serveTls } from '../support/tls-host.ts'
import { type WatchedProcess, watchProcess } from './canary-process.ts'
import { type SingingUpstream, startSingingUpstream } from './canary-upstream.ts'
import { type Canaries, singingWav } from './canary-values.ts'

/** Where a node keeps its things. */
export type Stores = 'folder' | 'servers'

/** Who asks. */
const CALLERS = ['all', 'little', 'hurried', 'poor'] as const
export type Caller = (typeof CALLERS)[number]

export interface CanaryRig {
  readonly port: number
  /** The server, and a worker where there is one. */
  readonly processes: readonly WatchedProcess[]
  readonly upstream: SingingUpstream
  readonly authorization: Readonly<Record<Caller, string>>
  readonly folder: string
  readonly configFile: string
  /** Null where there are none. */
  readonly redis: RedisServer | null
  readonly redisPassword: string
  readonly s3: S3Server | null
  readonly bucket: string
  /** What the metrics of each process say now. */
  metrics(): Promise<string[]>
  /** Everything that was sent to the receiver of traces. */
  traces(): Buffer
}

/** All that runs, with canaries wherever a secret or a word of a provider can be. */
export async function startCanaryRig(
  t: Teardown,
  canaries: Canaries,
  stores: Stores,
  level: string,
): Promise<CanaryRig> {
  const folder = await tempFolder(t)
  const upstream = await startSingingUpstream(t, ['own', 'shared'], {
    said: canaries.make('what the provider said', 'content'),
    sound: singingWav(canaries.make('sound of the provider', 'content')),
    complaint: canaries.make('complaint of the provider', 'foreign'),
    header: canaries.make('header of the provider', 'foreign'),
  })
  const keys = new Map(
    CALLERS.map((caller) => [caller, canaries.watch(`API key (${caller})`, 'secret', makeKey())]),
  )
  const configFile = join(folder, 'larkway.yaml')
  await writeFile(configFile, JSON.stringify(configuration(upstream, keys)))
  const servers = stores === 'servers' ? await startServers(t, canaries) : null
  const traces = await startCollector(t)
  const metricsPorts = [await freePort(), await freePort()] as const
  const env = {
    ...(await environment(t, canaries, folder)),
    ...servers?.env,
    LARKWAY_CONFIG: configFile,
    LOG_LEVEL: level,
    OTEL_EXPORTER_OTLP_ENDPOINT: traces.url,
    OTEL_EXPORTER_OTLP_HEADERS: `authorization=${canaries.make('header for traces', 'secret')}`,
    OTEL_BSP_SCHEDULE_DELAY: '200',
    LARKWAY_DRAIN_SECONDS: '0',
    LARKWAY_USAGE: 'true',
    // Records of usage are put into the store while there still is one.
    ...testTiming({ usage: { segmentMs: 3_000 } }),
  }
  const serverEnv = {
    ...env,
    LARKWAY_METRICS_PORT: String(metricsPorts[0]),
    ...(servers === null ? {} : { LARKWAY_JOBS: '0' }),
  }
  const server = await watchProcess(t, ['main.ts'], { ...serverEnv, LARKWAY_DATA: join(folder, 'data') })
  const { port } = await server.said('listening')
  const processes = [server]
  if (servers !== null) {
    const workerEnv = {
      LARKWAY_DATA: join(folder, 'data-of-worker'),
      LARKWAY_METRICS_PORT: String(metricsPorts[1]),
    }
    const worker = await watchProcess(t, ['cli.ts', 'worker'], { ...env, ...workerEnv })
    await worker.said('working')
    processes.push(worker)
  }
  const bearers = CALLERS.map((caller) => [caller, `Bearer ${keys.get(caller)}`])
  return {
    port: Number(port),
    processes,
    upstream,
    authorization: Object.fromEntries(bearers) as Record<Caller, string>,
    folder,
    configFile,
    redis: servers?.redis ?? null,
    redisPassword: servers?.password ?? '',
    s3: servers?.s3 ?? null,
    bucket: servers?.bucket ?? '',
    metrics: () =>
      Promise.all(
        processes.map(async (_, index) =>
          (await fetch(`http://127.0.0.1:${metricsPorts[index]}/metrics`)).text(),
        ),
      ),
    traces: traces.received,
  }
}

function configuration({ url }: SingingUpstream, keys: ReadonlyMap<Caller, string>): object {
  const price = {
    per_hour_usd: 0.1,
    per_1k_characters_usd: 0.1,
    per_1m_input_tokens_usd: 1,
    per_1m_output_tokens_usd: 1,
    per_image_usd: 0.01,
    per_video_second_usd: 0.01,
  }
  const capabilities = ['text', 'completion', 'embeddings', 'image', 'vision']
  const more = ['audio_input', 'audio_output', 'video_generation', 'function_calling']
  const entry = (provider: string) => ({
    provider,
    model: `${provider}-1`,
    capabilities: [...capabilities, ...more],
    translates: true,
    price,
  })
  const key = (id: Caller, fields: object = {}) => ({
    id: `key_${id}`,
    app: 'web',
    sha256: hashKey(keys.get(id) ?? ''),
    ...fields,
  })
  const kind = 'openai-compatible'
  return {
    deadline_seconds: 2,
    video_deadline_seconds: 2,
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    limits: { max_audio_bytes: 400_000, max_request_body_bytes: 800_000 },
    providers: {
      own: { kind, access: 'byok', workspace: 'acme', base_url: url('own'), api_key: secret('OWN_KEY') },
      shared: { kind, access: 'platform', base_url: url('shared'), api_key: secret('SHARED_KEY') },
    },
    routes: {
      main: { workspace: 'acme', entries: [entry('own'), entry('shared')] },
      paid: { workspace: 'poor', entries: [entry('shared')] },
    },
    workspaces: {
      acme: {
        credits_usd: 1_000,
        grant_id: 'first',
        // Whom calls are for is known by a hash alone, everywhere.
        end_users: { hash: true },
        purposes: { declared: { description: 'a label' } },
        apps: { web: { route: 'main', purposes: { declared: 'main' } } },
        keys: [
          key('all', { scopes: ['inference', 'jobs', 'queue', 'admin'] }),
          key('little', { scopes: ['queue'] }),
          key('hurried', { rate_limit: { requests_per_minute: 1, burst: 1 } }),
        ],
      },
      poor: { apps: { web: { route: 'paid' } }, keys: [key('poor')] },
    },
  }
}

/** Audio of the host for the head of a request; null: that which everybody gets. */
type AudioFor = (head: string) => Buffer | null

/** What a node has to know that is nobody else's to know, and the host that its requests go out to. */
export async function environment(
  t: Teardown,
  canaries: Canaries,
  folder: string,
  audioFor?: AudioFor,
): Promise<Record<string, string>> {
  const secretKey = Buffer.from(canaries.make('LARKWAY_SECRET_KEYS', 'secret').slice(0, 32)).toString(
    'base64',
  )
  const ca = join(folder, 'ca.pem')
  await writeFile(ca, AUTHORITY.cert)
  return {
    PORT: '0',
    OWN_KEY: `sk-${canaries.make('key of the own provider', 'secret')}`,
    SHARED_KEY: `sk-${canaries.make('key of the shared provider', 'secret')}`,
    LARKWAY_SECRET_KEYS: secretKey,
    CANARY_CRASH: canaries.make('what hangs onto a crash', 'secret'),
    CANARY_HOST_PORT: String(await startHost(t, canaries, audioFor)),
    NODE_EXTRA_CA_CERTS: ca,
  }
}

/** A host of audio and of webhooks: what it does is in the path. */
async function startHost(t: Teardown, canaries: Canaries, audioFor?: AudioFor): Promise<number> {
  const names = ['good.example', 'hooks.example', 'gone.example']
  const wav = singingWav(canaries.make('audio of a host', 'content'))
  const said = canaries.make('words of a host', 'foreign')
  const answers: Record<string, string> = {
    moved: `302 Found\r\nLocation: https://good.example/audio?${said}`,
    astray: `302 Found\r\nLocation: https://${said}.example/${said}`,
    lost: `404 ${said}\r\nContent-Type: audio/wav`,
    failed: `500 ${said}`,
    page: `200 OK\r\nContent-Type: text/${said}\r\nContent-Length: 5`,
    endless: '200 OK\r\nContent-Type: audio/wav',
    hook: `200 ${said}`,
    gone: `410 ${said}`,
  }
  const { port } = await serveTls(
    t as Parameters<typeof serveTls>[0],
    AUTHORITY.issue(names),
    (socket, head) => {
      const [, what = ''] = /^[A-Z]+ \/([a-z]+)/.exec(head) ?? []
      const audio = what === 'audio' ? (audioFor?.(head) ?? wav) : null
      const sent = `200 OK\r\nContent-Type: audio/wav\r\nContent-Length: ${audio?.length}`
      const answer = audio === null ? (answers[what] ?? answers.lost) : sent
      socket.write(`HTTP/1.1 ${answer}\r\nX-Said: ${said}\r\nConnection: close\r\n\r\n`)
      socket.end(audio ?? said)
    },
  )
  return port
}

/** Redis with a password, and a bucket. */
export async function startServers(
  t: Teardown,
  canaries: Canaries,
  { durable = false }: Pick<RedisOptions, 'durable'> = {},
) {
  const password = canaries.make('password of Redis', 'secret')
  const [redis, s3] = await Promise.all([
    startRedis(t, { durable, args: ['--requirepass', password] }),
    startS3(t),
  ])
  canaries.watch('secret key of S3', 'secret', s3.secretAccessKey)
  const { env } = await openBucket(t, s3)
  const url = `redis://:${password}@127.0.0.1:${redis.port}`
  return { redis, s3, password, bucket: env.S3_BUCKET ?? '', env: { ...env, REDIS_URL: url } }
}

/** A receiver of traces. */
export async function startCollector(t: Teardown): Promise<{ url: string; received: () => Buffer }> {
  const chunks: Buffer[] = []
  const url = await serveHttp(t as Parameters<typeof serveHttp>[0], (request, response) => {
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => response.setHeader('content-type', 'application/x-protobuf').end())
  })
  return { url, received: () => Buffer.concat(chunks) }
}

/** Names and contents of all files below a folder. */
export async function filesBelow(folder: string): Promise<{ name: string; bytes: Buffer }[]> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true }).catch(() => [])
  const files = entries.filter((entry) => entry.isFile())
  return Promise.all(
    files.map(async ({ parentPath, name }) => {
      const path = join(parentPath, name)
      return { name: path.slice(folder.length), bytes: await readFile(path).catch(() => Buffer.alloc(0)) }
    }),
  )
}
