import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { demoKey, demoSnapshot } from './catalog/demo.ts'
import { openCatalog } from './catalog/watch.ts'
import { type Environment, readEnvironment } from './config.ts'
import { createHealthBook } from './gateway/health.ts'
import { createLatencyBook } from './gateway/latency.ts'
import { receiveBufferWarning } from './inbound/receive-buffer.ts'
import { type EdgeServer, startServer } from './inbound/server.ts'
import { UWS_ENVIRONMENT } from './inbound/uws.ts'
import { createLogger, type Logger } from './log.ts'
import { createMediaProbe } from './media/probe.ts'
import { createSender } from './outbound/send.ts'
import { factsOf } from './providers/facts.ts'
import { PROVIDERS } from './providers/index.ts'
import { createRoutes } from './routes/table.ts'
import { startSandboxThread } from './sandbox/thread.ts'
import type { Snapshot } from './schema/catalog.ts'
import type { Links } from './schema/links.ts'
import type { Objects } from './schema/objects.ts'
import type { State } from './schema/state.ts'
import { readSecretKeys } from './secrets.ts'
import { createEmbeddedState } from './state/embedded/state.ts'
import { createAudioReader } from './storage/audio-reader.ts'
import { createBlocks } from './storage/blocks.ts'
import { createBudget } from './storage/budget.ts'
import { createFileObjects } from './storage/files.ts'
import { createFolderLinks, type FolderLinks } from './storage/folder-links.ts'
import { lockFolder } from './storage/folder-lock.ts'
import { createResults } from './storage/results.ts'
import { createSpool } from './storage/spool.ts'
import { FOLDER_UPLOAD_SLOTS, UPLOAD_SLOTS } from './storage/spool-options.ts'
import { startSweeper } from './storage/sweep.ts'
import { createWorkers } from './workers/pool.ts'

const DEFAULT_CONFIG = 'larkway.yaml'
const MIB = 1024 * 1024

/** What has to be undone when the node stops, last opened first. */
type Closer = () => void | Promise<void>

interface Catalog {
  readonly current: () => Snapshot
  readonly reload: () => Promise<void>
  /** What a newcomer is told; empty with a configuration file. */
  readonly greeting: (port: number) => string
  readonly sandboxUrl: string | undefined
}

/**
 * Builds a node out of the environment, wires it and listens. Ends with the process: on SIGTERM or SIGINT it takes no
 * new connections, finishes what is in flight and exits; a second signal ends it at once. SIGHUP reads the
 * configuration again.
 *
 * @throws Error that says what is wrong with the environment, the configuration or the data folder
 */
export async function serve(env: Readonly<Record<string, string | undefined>>): Promise<void> {
  const environment = readEnvironment(env)
  const log = createLogger(environment.LOG_LEVEL)
  const closers: Closer[] = []

  const store = await openStore(environment, log, closers)
  const state = await openState(environment, log, closers)
  const catalog = await openSnapshots(environment, env, log, closers)
  const server = await listen(environment, log, { store, state, catalog }, closers)

  warnOfReceiveBuffers(log)
  const stores = { state: state.kind, objects: environment.S3_BUCKET === undefined ? 'folder' : 's3' }
  log.info(
    { port: server.port, uws: server.uws, node: process.version, ...stores, sandbox: catalog.sandboxUrl },
    'listening',
  )
  process.stdout.write(catalog.greeting(server.port))
}

/** Where bodies and results are, and who opens a result by its URL. */
interface Store {
  readonly objects: Objects
  readonly links: Links
  /** The folder store's own; null where the store opens its URLs itself. */
  readonly folderLinks: FolderLinks | null
}

async function openStore(environment: Environment, log: Logger, closers: Closer[]): Promise<Store> {
  const store = await (environment.S3_BUCKET === undefined
    ? openFolder(environment, closers)
    : openBucket(environment))
  const { objects } = store
  closers.push(() => objects.close())
  const sweeper = await startSweeper({ objects, log, alone: store.folderLinks !== null })
  closers.push(() => sweeper.stop())
  return store
}

async function openFolder(environment: Environment, closers: Closer[]): Promise<Store> {
  const { LARKWAY_DATA: folder, LARKWAY_SECRET_KEYS, LARKWAY_PUBLIC_URL: publicUrl } = environment
  const unlock = await lockFolder(folder)
  closers.push(unlock)
  const keys = await readSecretKeys(LARKWAY_SECRET_KEYS, folder)
  const folderLinks = createFolderLinks({ keys, publicUrl })
  return { objects: await createFileObjects(folder), links: folderLinks, folderLinks }
}

/** The SDK is loaded only where it is used: it takes 30 MB of memory, as the client of Redis does. */
async function openBucket(environment: Environment): Promise<Store> {
  const { createS3Objects } = await import('./storage/s3.ts')
  const { createS3Links } = await import('./storage/s3-links.ts')
  const { S3_ENDPOINT, S3_PUBLIC_ENDPOINT, S3_REGION, S3_BUCKET, S3_ACCESS_KEY_ID, S3_SECRET_ACCESS_KEY } =
    environment
  const bucket = {
    endpoint: S3_ENDPOINT as string,
    region: S3_REGION,
    bucket: S3_BUCKET as string,
    accessKeyId: S3_ACCESS_KEY_ID as string,
    secretAccessKey: S3_SECRET_ACCESS_KEY as string,
  }
  const links = createS3Links({ ...bucket, endpoint: S3_PUBLIC_ENDPOINT ?? bucket.endpoint })
  return { objects: createS3Objects(bucket), links, folderLinks: null }
}

async function openState({ REDIS_URL }: Environment, log: Logger, closers: Closer[]): Promise<State> {
  const state = REDIS_URL === undefined ? createEmbeddedState() : await openRedis(REDIS_URL, log)
  closers.push(() => state.close())
  return state
}

async function openRedis(url: string, log: Logger): Promise<State> {
  const { createRedisState } = await import('./state/redis/state.ts')
  return createRedisState({ url, log })
}

async function openSnapshots(
  environment: Environment,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
  closers: Closer[],
): Promise<Catalog> {
  const path = environment.LARKWAY_CONFIG ?? (existsSync(DEFAULT_CONFIG) ? DEFAULT_CONFIG : undefined)
  if (path === undefined) return openDemo(environment, log, closers)
  const source = await openCatalog({ path, kinds: PROVIDERS, factsOf, env })
  closers.push(() => source.close())
  for (const notice of source.good.notices) log.warn({ path, notice }, 'configuration')
  const report = (outcome: Awaited<ReturnType<typeof source.reload>>): void => {
    if ('faults' in outcome)
      log.error({ path, faults: outcome.faults }, 'configuration refused, the old one stays')
    else log.info({ path, changed: outcome.changed }, 'configuration read')
  }
  source.watch(report)
  const reload = async () => report(await source.reload())
  return { current: () => source.current, reload, greeting: () => '', sandboxUrl: undefined }
}

async function openDemo(environment: Environment, log: Logger, closers: Closer[]): Promise<Catalog> {
  const key = await demoKey(environment.LARKWAY_DATA, environment.LARKWAY_DEMO_KEY)
  const sandbox = await startSandboxThread({}, (error) => log.error({ err: error }, 'sandbox'))
  closers.push(() => sandbox.close())
  const snapshot = demoSnapshot({ sandboxUrl: sandbox.url, key, kinds: PROVIDERS, factsOf })
  return {
    current: () => snapshot,
    reload: async () => {},
    greeting: (port) => demoGreeting(port, key),
    sandboxUrl: sandbox.url,
  }
}

interface Opened {
  readonly store: Store
  readonly state: State
  readonly catalog: Catalog
}

async function listen(
  environment: Environment,
  log: Logger,
  { store, state, catalog }: Opened,
  closers: Closer[],
): Promise<EdgeServer> {
  const { objects, links, folderLinks } = store
  const budget = createBudget(environment.LARKWAY_MEMORY_MIB * MIB)
  const blocks = createBlocks(budget)
  const uploadSlots = environment.S3_BUCKET === undefined ? FOLDER_UPLOAD_SLOTS : UPLOAD_SLOTS
  const spool = createSpool({ budget, blocks, objects, log, uploadSlots })
  closers.push(() => blocks.close())
  closers.push(() => spool.close())
  const workers = createWorkers()
  closers.push(() => workers.close())
  const reader = createAudioReader({ objects, decoder: workers.decoder, memory: { blocks, budget } })
  const sender = createSender({ reader })
  closers.push(() => sender.close())

  const services = {
    snapshot: catalog.current,
    providers: PROVIDERS,
    state,
    send: sender.send,
    open: sender.open,
    budget,
    random: Math.random,
    latency: createLatencyBook(),
    health: createHealthBook(),
  }
  let accepting = true
  const results = createResults({ objects, links, budget })
  const routes = createRoutes(
    { services, spool, probe: createMediaProbe({ reader }), results, log },
    { accepting: () => accepting, stateHealthy: () => state.healthy() },
    folderLinks === null ? null : { open: (token) => folderLinks.open(token), objects },
  )
  Object.assign(process.env, UWS_ENVIRONMENT)
  const server = await startServer({ routes, host: environment.HOST, port: environment.PORT, budget, log })
  closers.push(() => server.close())
  const drain: Drain = {
    server,
    catalog,
    log,
    closers,
    counts: () => ({ held_bytes: budget.used, bodies: spool.stats() }),
  }
  stopOnSignals(drain, () => {
    accepting = false
  })
  return server
}

interface Drain {
  readonly server: EdgeServer
  readonly catalog: Catalog
  readonly log: Logger
  readonly closers: Closer[]
  /** What the last line of the log says: memory that is still held then was leaked. */
  readonly counts: () => object
}

function stopOnSignals(drain: Drain, onStop: () => void): void {
  const { server, catalog, log } = drain
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) process.exit(1)
    stopping = true
    onStop()
    log.info({ signal, in_flight: server.inFlight }, 'stopping')
    server.stopListening()
    const { deadlineMs, videoDeadlineMs } = catalog.current()
    const deadlineAtMs = performance.now() + Math.max(deadlineMs, videoDeadlineMs)
    const wait = setInterval(() => {
      if (server.inFlight > 0 && performance.now() < deadlineAtMs) return
      clearInterval(wait)
      void closeAll(drain)
    }, 50)
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  process.on('SIGHUP', () => void catalog.reload())
}

async function closeAll({ closers, log, counts }: Drain): Promise<void> {
  for (const close of closers.reverse()) {
    try {
      await close()
    } catch (error) {
      log.warn({ err: error }, 'stopping')
    }
  }
  log.info(counts(), 'stopped')
  process.exit(0)
}

function warnOfReceiveBuffers(log: Logger): void {
  try {
    const warning = receiveBufferWarning(readFileSync('/proc/sys/net/ipv4/tcp_rmem', 'utf8'))
    if (warning !== null) log.warn(warning)
  } catch {
    // Not Linux: there is nothing to look at.
  }
}

function demoGreeting(port: number, key: string): string {
  return `
Larkway serves the demo: workspace "demo", whose route leads to a sandbox that speaks and hears Morse code.

  curl -s http://localhost:${port}/v1/speech -H 'Authorization: Bearer ${key}' \\
    -H 'Content-Type: application/json' -d '{"input":"hello world"}' \\
    | sed 's/.*"base64":"\\([^"]*\\)".*/\\1/' | base64 -d > hello.wav

  curl -s http://localhost:${port}/v1/transcription -H 'Authorization: Bearer ${key}' -F file=@hello.wav

`
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await serve(process.env).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(1)
  })
}
