import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { demoKey, demoSnapshot } from './catalog/demo.ts'
import { createKeyBook } from './catalog/key-book.ts'
import { openCatalog } from './catalog/watch.ts'
import { type Environment, readEnvironment } from './config.ts'
import { createAccountViews } from './gateway/account-views.ts'
import type { Services } from './gateway/gateway.ts'
import { createHealthBook } from './gateway/health.ts'
import { createLatencyBook } from './gateway/latency.ts'
import { createSettlements } from './gateway/settlements.ts'
import { createUsageBook } from './gateway/usage-book.ts'
import { receiveBufferWarning } from './inbound/receive-buffer.ts'
import { type EdgeServer, startServer } from './inbound/server.ts'
import { UWS_ENVIRONMENT } from './inbound/uws.ts'
import { createLogger, type Logger } from './log.ts'
import { createMediaProbe } from './media/probe.ts'
import { createAudioFetcher } from './outbound/fetch-audio.ts'
import { createSender } from './outbound/send.ts'
import { factsOf } from './providers/facts.ts'
import { PROVIDERS } from './providers/index.ts'
import { createRoutes } from './routes/table.ts'
import { startSandboxThread } from './sandbox/thread.ts'
import type { Snapshot } from './schema/catalog.ts'
import type { State } from './schema/state.ts'
import { readSecretKeys } from './secrets.ts'
import { createAudioDigester } from './storage/audio-digest.ts'
import { createAudioReader } from './storage/audio-reader.ts'
import { createBlocks } from './storage/blocks.ts'
import { createBudget } from './storage/budget.ts'
import { createDiscardingSpool } from './storage/discard.ts'
import { lockFolder } from './storage/folder-lock.ts'
import { createRemoteAudio } from './storage/remote-audio.ts'
import { createResults } from './storage/results.ts'
import { createSlotResults } from './storage/slot-results.ts'
import { createSpool } from './storage/spool.ts'
import { FOLDER_UPLOAD_SLOTS, UPLOAD_SLOTS } from './storage/spool-options.ts'
import { startSweeper } from './storage/sweep.ts'
import { isEmbedded, openState, openStore, type Store } from './stores.ts'
import { createWorkers } from './workers/pool.ts'

const DEFAULT_CONFIG = 'larkway.yaml'
const MIB = 1024 * 1024
/** What follows the deadline of a call: its answer is kept for replay, and the state is told of its end. */
const ENDING_MS = 10_000

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
export async function serve(
  env: Readonly<Record<string, string | undefined>>,
  { shared = false }: { readonly shared?: boolean } = {},
): Promise<void> {
  const environment = readEnvironment(env)
  const common = createLogger(environment.LOG_LEVEL)
  // The lines of several processes go into one stream.
  const log = shared ? common.child({ pid: process.pid }) : common
  const closers: Closer[] = []

  if (isEmbedded(environment)) closers.push(await lockFolder(environment.LARKWAY_DATA))
  const state = await openState(environment, log)
  closers.push(() => state.close())
  const catalog = await openSnapshots(environment, env, log, closers)
  const secretKeys = await readSecretKeys(environment.LARKWAY_SECRET_KEYS, environment.LARKWAY_DATA)
  const store = await openSwept(environment, secretKeys, log, catalog, closers)
  const server = await listen(environment, log, { store, state, catalog, secretKeys, shared }, closers)

  warnOfReceiveBuffers(log)
  warnOfLoneNode(environment, log)
  const stores = { state: state.kind, objects: environment.S3_BUCKET === undefined ? 'folder' : 's3' }
  log.info(
    { port: server.port, uws: server.uws, node: process.version, ...stores, sandbox: catalog.sandboxUrl },
    'listening',
  )
  greet(catalog.greeting(server.port), shared)
}

/**
 * Greets the newcomer, or lets the parent of `larkway serve --processes` do it. When that parent dies, even of
 * SIGKILL, the channel to it closes, and this process stops instead of living on with nobody to stop it.
 */
function greet(greeting: string, shared: boolean): void {
  if (!shared) return void process.stdout.write(greeting)
  const stop = () => process.kill(process.pid, 'SIGTERM')
  if (!process.connected) return void stop()
  process.once('disconnect', stop)
  process.send?.({ greeting })
}

async function openSwept(
  environment: Environment,
  secretKeys: readonly Buffer[],
  log: Logger,
  catalog: Catalog,
  closers: Closer[],
): Promise<Store> {
  const store = await openStore(environment, secretKeys)
  const { objects, folderLinks } = store
  closers.push(() => objects.close())
  const slotTtlSeconds = () => catalog.current().limits.sync_idempotency_ttl_seconds
  const sweeper = await startSweeper({ objects, log, alone: folderLinks !== null, slotTtlSeconds })
  closers.push(() => sweeper.stop())
  return store
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
  /** The first signs and seals, all of them verify and open. */
  readonly secretKeys: readonly Buffer[]
  readonly shared: boolean
}

async function listen(
  environment: Environment,
  log: Logger,
  { store, state, catalog, secretKeys, shared }: Opened,
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

  const services = await openServices(catalog, state, log, closers, {
    send: sender.send,
    open: sender.open,
    budget,
    slotResults: createSlotResults({ objects, budget }),
  })
  let accepting = true
  const doors = {
    services,
    spool,
    discard: createDiscardingSpool(),
    probe: createMediaProbe({ reader }),
    digester: createAudioDigester({ reader, hasher: workers.hasher, blocks, budget }),
    remoteAudio: createRemoteAudio({ spool, fetchAudio: createAudioFetcher({}) }),
    results: createResults({ objects, links, budget }),
    log,
  }
  const routes = createRoutes(
    doors,
    { accepting: () => accepting, stateHealthy: () => state.healthy() },
    folderLinks === null ? null : { open: (token) => folderLinks.open(token), objects },
    { secretKeys, insecure: environment.LARKWAY_INSECURE_WEBHOOKS },
  )
  Object.assign(process.env, UWS_ENVIRONMENT)
  const { HOST: host, PORT: port } = environment
  const server = await startServer({ routes, host, port, shared, budget, log })
  closers.push(() => server.close())
  const drain: Drain = {
    server,
    pending: () => services.settlements.pending,
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

/** What the gateway works with, on top of what the store and the network give. */
async function openServices(
  { current: snapshot }: Catalog,
  state: State,
  log: Logger,
  closers: Closer[],
  outside: Pick<Services, 'send' | 'open' | 'budget' | 'slotResults'>,
): Promise<Services> {
  const keys = createKeyBook({ snapshot, keys: state.keys, log })
  closers.push(() => keys.close())
  await keys.ready()
  const settlements = createSettlements(state.ledger, log)
  closers.push(() => settlements.close())
  const usage = createUsageBook(state.accounts, log)
  closers.push(() => usage.close())
  return {
    ...outside,
    snapshot,
    providers: PROVIDERS,
    keys,
    state,
    settlements,
    usage,
    accountViews: createAccountViews(state.accounts),
    random: Math.random,
    latency: createLatencyBook(),
    health: createHealthBook(),
  }
}

interface Drain {
  readonly server: EdgeServer
  /** Calls that begin or go on without their caller, and ends that the state has not taken yet. */
  readonly pending: () => number
  readonly catalog: Catalog
  readonly log: Logger
  readonly closers: Closer[]
  /** What the last line of the log says: memory that is still held then was leaked. */
  readonly counts: () => object
}

function stopOnSignals(drain: Drain, onStop: () => void): void {
  const { server, pending, catalog, log } = drain
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) process.exit(1)
    stopping = true
    onStop()
    log.info({ signal, in_flight: server.inFlight }, 'stopping')
    server.stopListening()
    const { deadlineMs, videoDeadlineMs } = catalog.current()
    const deadlineAtMs = performance.now() + Math.max(deadlineMs, videoDeadlineMs) + ENDING_MS
    const wait = setInterval(() => {
      if (server.inFlight + pending() > 0 && performance.now() < deadlineAtMs) return
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

/** What nodes that share a Redis must share, too, and each would have of its own otherwise. */
function warnOfLoneNode({ REDIS_URL, S3_BUCKET, LARKWAY_SECRET_KEYS }: Environment, log: Logger): void {
  if (REDIS_URL === undefined) return
  if (S3_BUCKET === undefined) {
    log.warn('objects are in the data folder of this node: large answers are replayed by no other node')
  }
  if (LARKWAY_SECRET_KEYS === undefined) {
    log.warn('LARKWAY_SECRET_KEYS is not set: no other node can read the secrets that this one seals')
  }
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
  await serve(process.env, { shared: process.argv.includes('--shared') }).catch((error: unknown) => {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`)
    process.exit(1)
  })
}
