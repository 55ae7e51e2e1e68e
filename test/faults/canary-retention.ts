import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import { join } from 'node:path'
import {
  CompleteMultipartUploadCommand,
  GetObjectCommand,
  ListMultipartUploadsCommand,
  ListPartsCommand,
  type S3Client,
} from '@aws-sdk/client-s3'
import { WebSocketServer } from 'ws'
import type { Objects } from '../../src/contracts/objects.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { createS3Objects } from '../../src/gateway/storage/s3.ts'
import { listen } from '../support/http-server.ts'
import { secret } from '../support/route-gateway.ts'
import { s3ClientOf } from '../support/s3-server.ts'
import { freePort, type Teardown, tempFolder } from '../support/scratch.ts'
import { wavHead } from '../support/wav.ts'
import { watchProcess } from './canary-process.ts'
import type { CanaryRig, Stores } from './canary-rig.ts'
import { environment, filesBelow, startCollector, startServers } from './canary-rig.ts'
import { CanaryRun, type Kept, keptBy } from './canary-run.ts'
import { type Mood, startSingingUpstream } from './canary-upstream.ts'
import { type Canaries, PIECE, singingWav } from './canary-values.ts'

/** How a workspace's calls say that nothing of them may be kept. The first says nothing: it shows what is found. */
export const DEMANDS = ['nothing', 'header', 'workspace', 'purpose', 'body'] as const
export type Demand = (typeof DEMANDS)[number]

/** How each of a tenant's further providers fails, in the order in which a call meets them. */
export const MOODS: readonly Mood[] = [500, 'html', 'garbage', 'cut', 'policy']
const illName = (demand: Demand, at: number) => `ill-${demand}-${at}`

const ZERO = { retention: 'zero' } as const

/** More than the budget of the node, so that it goes to the store; with a canary in each of its stretches. */
const LARGE_BYTES = 9_000_000
const STRETCH_BYTES = 90_000
/** Smallest budget that a node takes, MiB. */
const MEMORY_MIB = 8

/** A workspace with a provider for files and one for live audio of its own, whose words are canaries that name it. */
export interface Tenant {
  readonly demand: Demand
  readonly run: CanaryRun
  /** What a call says beside its caller. */
  readonly headers: Readonly<Record<string, string>>
  /** The caller whose route has the provider for live audio. */
  readonly liveBearer: string
  /** As `songs.wav`, and too long for the memory of the node. */
  readonly large: Buffer
  /** Audio of a host, and the query of its URL. */
  readonly hosted: Buffer
  readonly audioQuery: string
  setMood(mood: Mood): void
  /** Requests that came to its provider for files. */
  asked(): number
  /** Those that came to each of the providers that fail, which the caller `poor` is routed to. */
  illAsked(): number[]
  /** Its provider for live audio, too, refuses whoever comes. */
  refuseLive(): void
}

export interface RetentionRig extends CanaryRig {
  readonly tenants: readonly Tenant[]
  /** What the callers of each tenant say who they are by. */
  readonly bearers: ReadonlyMap<Demand, string>
}

/** One node whose tenants differ in what they demand. */
export async function startRetentionRig(
  t: Teardown,
  canaries: Canaries,
  stores: Stores,
): Promise<RetentionRig> {
  const folder = await tempFolder(t)
  const made = await Promise.all(DEMANDS.map((demand) => makeTenant(t, canaries, demand)))
  const configFile = join(folder, 'larkway.yaml')
  await writeFile(configFile, JSON.stringify(configuration(made)))
  const servers = stores === 'servers' ? await startServers(t, canaries, { durable: true }) : null
  const collector = await startCollector(t)
  const metricsPort = await freePort()
  const tenants: Tenant[] = []
  /** Audio of a host is somebody's, too: whose it is the query of its URL says. */
  const audioFor = (head: string) => tenants.find((one) => head.includes(one.audioQuery))?.hosted ?? null
  const server = await watchProcess(t, ['main.ts'], {
    ...(await environment(t, canaries, folder, audioFor)),
    ...servers?.env,
    ...Object.fromEntries(made.map(({ demand }) => [`KEY_${demand.toUpperCase()}`, 'any'])),
    LARKWAY_CONFIG: configFile,
    LARKWAY_DATA: join(folder, 'data'),
    LARKWAY_MEMORY_MIB: String(MEMORY_MIB),
    LARKWAY_METRICS_PORT: String(metricsPort),
    LOG_LEVEL: 'trace',
    OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
    OTEL_BSP_SCHEDULE_DELAY: '200',
  })
  const { port } = await server.said('listening')
  const metrics = async () => [await (await fetch(`http://127.0.0.1:${metricsPort}/metrics`)).text()]
  const shared = {
    port: Number(port),
    processes: [server],
    folder,
    configFile,
    redis: servers?.redis ?? null,
    redisPassword: servers?.password ?? '',
    s3: servers?.s3 ?? null,
    bucket: servers?.bucket ?? '',
    metrics,
    traces: collector.received,
  }
  tenants.push(...made.map((one) => tenantOf(one, canaries, shared)))
  const bearers = new Map(made.map((one) => [one.demand, one.authorization.all]))
  const [{ authorization, upstream }] = made as [Made, ...Made[]]
  return { ...shared, authorization, upstream, tenants, bearers }
}

type Made = Awaited<ReturnType<typeof makeTenant>>
type Shared = Omit<CanaryRig, 'authorization' | 'upstream'>

async function makeTenant(t: Teardown, canaries: Canaries, demand: Demand) {
  const make = (name: string) => canaries.make(`${demand}: ${name}`, 'content')
  const said = make('what the provider said')
  const upstream = await startSingingUpstream(t, [demand, ...MOODS.map((_, at) => illName(demand, at))], {
    said,
    sound: singingWav(make('sound of the provider')),
    complaint: make('complaint of the provider'),
    header: make('header of the provider'),
  })
  for (const [at, mood] of MOODS.entries()) upstream.set(illName(demand, at), mood)
  const [key, liveKey, illKey] = [makeKey(), makeKey(), makeKey()]
  const bearer = `Bearer ${key}`
  const authorization = { all: bearer, little: bearer, hurried: bearer, poor: `Bearer ${illKey}` }
  return { demand, upstream, live: await serveSinger(t, said), key, liveKey, illKey, authorization }
}

function tenantOf(
  { demand, upstream, live, liveKey, authorization }: Made,
  canaries: Canaries,
  shared: Shared,
): Tenant {
  const run = new CanaryRun(canaries, { ...shared, upstream, authorization }, `${demand}: `)
  const headers: Record<string, string> =
    demand === 'header'
      ? { 'x-lk-require': 'retention=zero' }
      : demand === 'purpose'
        ? { 'x-lk-purpose': 'sealed' }
        : {}
  // The body's label wins over that of the header.
  if (demand === 'purpose') Object.assign(run.songs, { label: 'sealed' })
  const sound = Buffer.alloc(LARGE_BYTES, randomBytes(1_021))
  const canary = canaries.make(`${demand}: long sound of the caller`, 'content')
  for (let at = 0; at + STRETCH_BYTES <= sound.length; at += STRETCH_BYTES) sound.write(canary, at)
  return {
    demand,
    run,
    headers,
    liveBearer: `Bearer ${liveKey}`,
    large: Buffer.concat([wavHead({ sampleRate: 16_000, dataBytes: sound.length }), sound]),
    hosted: singingWav(canaries.make(`${demand}: audio of a host`, 'content')),
    audioQuery: new URL(run.songs.audioUrl).search,
    setMood: (mood) => upstream.set(demand, mood),
    asked: () => upstream.asked(demand),
    illAsked: () => MOODS.map((_, at) => upstream.asked(illName(demand, at))),
    refuseLive: live.refuse,
  }
}

function configuration(tenants: readonly Made[]): object {
  const promises = { region: 'eu', retention: 'zero', training: 'never' }
  const price = {
    ...{ per_hour_usd: 0.1, per_1k_characters_usd: 0.1, per_image_usd: 0.01, per_video_second_usd: 0.01 },
    ...{ per_1m_input_tokens_usd: 1, per_1m_output_tokens_usd: 1 },
  }
  const capabilities = [
    ...['text', 'completion', 'embeddings', 'image', 'vision', 'audio_input', 'audio_output'],
    ...['video_generation', 'function_calling'],
  ]
  const of = <Value>(make: (one: Made) => Record<string, Value>) => Object.assign({}, ...tenants.map(make))
  return {
    deadline_seconds: 60,
    video_deadline_seconds: 60,
    rate_limit: { requests_per_minute: 1_000_000, burst: 100_000 },
    audio_url_domains: ['good.example'],
    providers: of(({ demand, upstream, live }) => {
      const owned = {
        access: 'byok',
        workspace: demand,
        api_key: secret(`KEY_${demand.toUpperCase()}`),
        ...promises,
      }
      return {
        [demand]: { kind: 'openai-compatible', base_url: upstream.url(demand), ...owned },
        [`live-${demand}`]: { kind: 'deepgram', base_url: live.origin, ...owned },
        ...Object.fromEntries(
          MOODS.map((_, at) => illName(demand, at)).map((name) => [
            name,
            { kind: 'openai-compatible', base_url: upstream.url(name), ...owned },
          ]),
        ),
      }
    }),
    routes: of(({ demand }) => {
      const filesAt = (provider: string) => ({
        provider,
        model: 'singer-1',
        capabilities,
        translates: true,
        price,
      })
      const files = filesAt(demand)
      const entries = [{ provider: `live-${demand}`, model: 'nova-3' }, files]
      return {
        [demand]: { workspace: demand, entries: [files] },
        [`live-${demand}`]: { workspace: demand, entries, live_fallback: 'batch' },
        [`ill-${demand}`]: { workspace: demand, entries: MOODS.map((_, at) => filesAt(illName(demand, at))) },
      }
    }),
    workspaces: of(({ demand, key, liveKey, illKey }) => ({
      [demand]: {
        ...(demand === 'workspace' ? { require: ZERO } : {}),
        ...(demand === 'purpose' ? { purposes: { sealed: { require: ZERO } } } : {}),
        apps: { web: { route: demand }, live: { route: `live-${demand}` }, ill: { route: `ill-${demand}` } },
        keys: [
          {
            id: `key_${demand}`,
            app: 'web',
            sha256: hashKey(key),
            scopes: ['inference', 'jobs', 'queue', 'admin'],
          },
          { id: `key_live_${demand}`, app: 'live', sha256: hashKey(liveKey) },
          { id: `key_ill_${demand}`, app: 'ill', sha256: hashKey(illKey) },
        ],
      },
    })),
  }
}

/** A Deepgram that hears the same in every second of audio, and settles it at once. */
async function serveSinger(t: Teardown, said: string) {
  const server = createServer()
  const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  let refuses = false
  server.on('upgrade', (request, socket, head) => {
    socket.on('error', () => {})
    if (refuses)
      return void socket.end(
        'HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n',
      )
    sockets.handleUpgrade(request, socket, head, (ws) => {
      let heardSeconds = 0
      const tell = (duration: number, more: object = {}) => {
        const words =
          duration === 0
            ? []
            : [{ word: said, start: heardSeconds, end: heardSeconds + duration, confidence: 1 }]
        const alternatives = [{ transcript: duration === 0 ? '' : said, confidence: 1, words }]
        const place = {
          channel_index: [0, 1],
          start: heardSeconds,
          duration,
          is_final: true,
          speech_final: true,
        }
        ws.send(JSON.stringify({ type: 'Results', ...place, channel: { alternatives }, ...more }))
        heardSeconds += duration
      }
      ws.on('error', () => {})
      ws.on('message', (data, isBinary) => {
        if (isBinary) return tell((data as Buffer).length / 32_000)
        const { type } = JSON.parse(String(data)) as { type: string }
        if (type === 'Finalize') tell(0, { from_finalize: true })
        if (type !== 'CloseStream') return
        ws.send(JSON.stringify({ type: 'Metadata', duration: heardSeconds, channels: 1 }))
        ws.close(1000)
      })
    })
  })
  const origin = await listen(t as Parameters<typeof listen>[0], server)
  t.teardown(() => {
    for (const ws of sockets.clients) ws.terminate()
    server.closeAllConnections()
  })
  return {
    origin,
    refuse: () => {
      refuses = true
      for (const ws of sockets.clients) ws.terminate()
    },
  }
}

/** Who sings in some place: names of canaries by the tenant whose they are. */
export function singersIn(
  canaries: Canaries,
  pieces: Iterable<Buffer | string>,
): Record<Demand, Set<string>> {
  const found = Object.fromEntries(DEMANDS.map((demand) => [demand, new Set<string>()])) as Record<
    Demand,
    Set<string>
  >
  for (const piece of pieces) {
    for (const { name } of canaries.find(piece)) {
      const [whose = '', what = ''] = name.split(': ')
      // A piece of a mark is nobody's: a page of SQLite ends wherever it does. The whole ones beside it are somebody's.
      if (name !== PIECE) found[whose as Demand]?.add(what)
    }
  }
  return found
}

/** All that the node, its Redis and its store have, with the files of both and parts of uploads that nobody ended. */
export async function keptAnywhere(rig: RetentionRig, alsoParts: boolean): Promise<(Buffer | string)[]> {
  if (alsoParts) await endUploads(rig)
  const { names, values, pages }: Kept = await keptBy(rig)
  const ofRedis = rig.redis === null ? [] : (await filesBelow(rig.redis.folder)).map(({ bytes }) => bytes)
  return [...names, ...values, ...pages, ...ofRedis]
}

/** Uploads in parts that are under way at the S3 server, with those parts. */
async function openUploads(client: S3Client, Bucket: string) {
  const { Uploads: uploads = [] } = await client.send(new ListMultipartUploadsCommand({ Bucket }))
  return await Promise.all(
    uploads.map(async ({ Key, UploadId }) => {
      const { Parts: parts = [] } = await client.send(new ListPartsCommand({ Bucket, Key, UploadId }))
      return { Key, UploadId, parts }
    }),
  )
}

/** Ids of those that have a part; none for a folder. */
export async function uploadsUnderWay({ s3, bucket }: RetentionRig): Promise<string[]> {
  if (s3 === null) return []
  const client = s3ClientOf(s3)
  const uploads = await openUploads(client, bucket)
  client.destroy()
  return uploads.filter(({ parts }) => parts.length > 0).map(({ UploadId = '' }) => UploadId)
}

/** Makes objects of what was sent of uploads that nobody goes on with: of its parts alone nobody can be given bytes. */
async function endUploads({ s3, bucket: Bucket }: RetentionRig): Promise<void> {
  if (s3 === null) return
  const client = s3ClientOf(s3)
  for (const { Key, UploadId, parts } of await openUploads(client, Bucket)) {
    if (parts.length === 0) continue
    const Parts = parts.map(({ ETag, PartNumber }) => ({ ETag, PartNumber }))
    await client.send(
      new CompleteMultipartUploadCommand({ Bucket, Key, UploadId, MultipartUpload: { Parts } }),
    )
    await client.send(new GetObjectCommand({ Bucket, Key }))
  }
  client.destroy()
}

/** The object store of a node that is gone. */
export async function storeOf({ folder, s3, bucket }: RetentionRig): Promise<Objects> {
  if (s3 === null) return await createFileObjects(join(folder, 'data'))
  const { endpoint, region, accessKeyId, secretAccessKey } = s3
  return createS3Objects({ endpoint, region, bucket, accessKeyId, secretAccessKey })
}
