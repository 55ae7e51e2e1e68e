import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { type Environment, readEnvironment } from './config.ts'
import { drain, drainTimes, ended } from './drain.ts'
import { receiveBufferWarning } from './inbound/receive-buffer.ts'
import { type EdgeOptions, type EdgeServer, startServer } from './inbound/server.ts'
import { UWS_ENVIRONMENT } from './inbound/uws.ts'
import { type JobWork, startJobWork } from './job-work.ts'
import { createLogger, type Logger, logCrash, messageOf } from './log.ts'
import { createWebhookPoster } from './outbound/post-webhook.ts'
import { openParts, type Parts } from './parts.ts'
import type { Doors } from './routes/endpoint.ts'
import { createRoutes } from './routes/table.ts'
import { serveMetrics } from './serve-metrics.ts'
import type { Closer } from './snapshots.ts'
import { createDiscardingSpool } from './storage/discard.ts'
import { createResults } from './storage/results.ts'
import { isEmbedded } from './stores.ts'

/** What follows the deadline of a call: its answer is kept for replay, and the state is told of its end. */
const ENDING_MS = 10_000
/** How long jobs may go on when the process is to stop; what is not done by then is given back. */
const JOBS_GRACE_MS = 25_000

type Variables = Readonly<Record<string, string | undefined>>

/**
 * Builds a node out of the environment, wires it, listens and works on jobs. Ends with the process: on SIGTERM it takes
 * up no more jobs, tells balancers by `/readyz` and listens on until they have left it, finishes what is in flight and
 * exits; on SIGINT, a person's, it does not listen on. A second signal ends it at once. SIGHUP reads the configuration
 * again.
 *
 * @throws Error that says what is wrong with the environment, the configuration or the data folder
 */
export async function serve(
  env: Variables,
  { shared = false }: { readonly shared?: boolean } = {},
): Promise<void> {
  const environment = readEnvironment(env)
  const common = createLogger(environment.LOG_LEVEL)
  // The lines of several processes go into one stream.
  const log = shared ? common.child({ pid: process.pid }) : common
  logCrash(log)
  const closers: Closer[] = []
  const parts = await openParts(environment, env, log, closers)
  const accepting = { value: true }
  const server = await listen(parts, shared, () => accepting.value)
  closers.push(() => server.close())
  const jobs = environment.LARKWAY_JOBS === 0 ? null : startJobWork(parts)
  parts.recorder.start(() => server.inFlight + (jobs?.running ?? 0))
  stopOnSignals({ parts, closers, server, jobs }, () => {
    accepting.value = false
  })
  const metricsPort = await serveMetrics({ parts, server, jobs }, closers)

  warnOfReceiveBuffers(log)
  warnOfLoneNode(environment, log)
  const { sandboxUrl, greeting } = parts.catalog
  const ports = { port: server.port, metrics_port: metricsPort }
  const listening = { ...ports, uws: server.uws, node: process.version, ...storesOf(parts) }
  log.info({ ...listening, jobs: environment.LARKWAY_JOBS, sandbox: sandboxUrl }, 'listening')
  greet(greeting(server.port), shared)
}

/**
 * Works on jobs and nothing else, beside servers that have the same Redis and the same bucket. Signals as for `serve`.
 *
 * @throws Error that says what is wrong with the environment or the configuration
 */
export async function work(env: Variables): Promise<void> {
  const environment = readEnvironment(env)
  if (isEmbedded(environment)) {
    throw new Error('a worker needs REDIS_URL and S3_BUCKET: a data folder is for one process alone')
  }
  if (environment.LARKWAY_JOBS === 0) throw new Error('environment: a worker needs LARKWAY_JOBS over 0')
  const log = createLogger(environment.LOG_LEVEL)
  logCrash(log)
  const closers: Closer[] = []
  const parts = await openParts(environment, env, log, closers)
  const jobs = startJobWork(parts)
  parts.recorder.start(() => jobs.running)
  stopOnSignals({ parts, closers, server: null, jobs }, () => {})
  const metrics_port = await serveMetrics({ parts, server: null, jobs }, closers)
  warnOfLoneNode(environment, log)
  const jobsAtOnce = environment.LARKWAY_JOBS
  log.info({ node: process.version, ...storesOf(parts), metrics_port, jobs: jobsAtOnce }, 'working')
}

function storesOf({ state, environment }: Parts) {
  return { stores: { state: state.kind, objects: environment.S3_BUCKET === undefined ? 'folder' : 's3' } }
}

/**
 * Greets the newcomer, or lets the parent of `larkway serve --processes` do it. When that parent dies, even of
 * SIGKILL, the channel to it closes, and this process stops instead of living on with nobody to stop it.
 */
function greet(greeting: string, shared: boolean): void {
  if (!shared) return void process.stdout.write(greeting)
  // Not SIGTERM: what starts the parent again needs the port.
  const stop = () => process.kill(process.pid, 'SIGINT')
  if (!process.connected) return void stop()
  process.once('disconnect', stop)
  process.send?.({ greeting })
}

async function listen(parts: Parts, shared: boolean, accepting: () => boolean): Promise<EdgeServer> {
  const { environment, log, metrics, state, store, secretKeys, budget, signals, jobObjects } = parts
  const { objects, links, folderLinks } = store
  const doors: Doors = {
    ...parts,
    discard: createDiscardingSpool(),
    results: createResults({ objects, links, budget }),
    jobs: { objects: jobObjects, links, signals },
  }
  const webhooks = { secretKeys, insecure: environment.LARKWAY_INSECURE_WEBHOOKS }
  const routes = createRoutes(
    doors,
    { accepting, stateHealthy: () => state.healthy() },
    folderLinks === null ? null : { open: (token) => folderLinks.open(token), objects },
    webhooks,
    {
      doors,
      webhooks,
      catalog: parts.catalog.desk,
      records: state.catalog,
      state: state.console,
      sending: { signer: parts.workers.signer, post: createWebhookPoster(webhooks) },
      refreshKeys: parts.refreshKeys,
      nowMs: Date.now,
    },
  )
  Object.assign(process.env, UWS_ENVIRONMENT)
  const { HOST: host, PORT: port } = environment
  const observe: Pick<EdgeOptions, 'observe'> =
    metrics === null ? {} : { observe: (exchange, refusal) => metrics.requests.begun(exchange, refusal) }
  return startServer({ routes, host, port, shared, budget, log, ...observe })
}

/** A node that runs. */
interface Node {
  readonly parts: Parts
  readonly closers: Closer[]
  /** Null for a worker. */
  readonly server: EdgeServer | null
  /** Null where jobs are left to others. */
  readonly jobs: JobWork | null
}

function stopOnSignals(node: Node, onStop: () => void): void {
  const { parts, server, jobs } = node
  let stopping = false
  const stop = (signal: NodeJS.Signals): void => {
    if (stopping) process.exit(1)
    stopping = true
    onStop()
    parts.log.info({ signal, in_flight: server?.inFlight, jobs: jobs?.running }, 'stopping')
    const listenMs = signal === 'SIGINT' ? 0 : parts.environment.LARKWAY_DRAIN_SECONDS * 1_000
    const left = Promise.all([leave(node, listenMs), jobs?.stop(JOBS_GRACE_MS)])
    void left.finally(() => closeAll(node))
  }
  process.on('SIGTERM', stop)
  process.on('SIGINT', stop)
  process.on('SIGHUP', () => void parts.catalog.reload())
}

/**
 * Resolves when every request is answered, and every call ended that began or went on without its caller; at the
 * latest when none can be under way any more.
 */
async function leave({ parts: { catalog, services, log }, server }: Node, listenMs: number): Promise<void> {
  const { deadlineMs, videoDeadlineMs } = catalog.current()
  const answerMs = Math.max(deadlineMs, videoDeadlineMs) + ENDING_MS
  const pending = () => services.settlements.pending
  if (server === null) await ended(() => pending() === 0, answerMs)
  else await drain(server, pending, drainTimes(listenMs, answerMs), log)
}

/** The last line of the log says what is still held: memory that is held then was leaked. */
async function closeAll({ parts: { log, budget, spool }, closers }: Node): Promise<void> {
  for (const close of closers.reverse()) {
    try {
      await close()
    } catch (error) {
      log.warn({ err: error }, 'stopping')
    }
  }
  log.info({ held_bytes: budget.used, bodies: { ...spool.stats() } }, 'stopped')
  process.exit(0)
}

/** What nodes that share a Redis must share, too, and each would have of its own otherwise. */
function warnOfLoneNode({ REDIS_URL, S3_BUCKET, LARKWAY_SECRET_KEYS }: Environment, log: Logger): void {
  if (REDIS_URL === undefined) return
  if (S3_BUCKET === undefined) {
    log.warn('objects are in the data folder of this node: no other node finds large answers and jobs there')
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

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  await serve(process.env, { shared: process.argv.includes('--shared') }).catch((error: unknown) => {
    process.stderr.write(`${messageOf(error)}\n`)
    process.exit(1)
  })
}
