import { LOOK } from '../../console/server/page-assets.ts'
import { consoleRoutes, managementOperations } from '../../console/server/table.ts'
import { LOG_READ_MS, type Logger } from '../../contracts/log.ts'
import { within } from '../../contracts/time.ts'
import type { AdminContext } from '../admin/actor.ts'
import type { Dependencies } from '../api/endpoint.ts'
import { createRoutes, RECORDED_PATHS } from '../api/table.ts'
import { doorRefusal } from '../api/unknown-paths.ts'
import { type EdgeOptions, type EdgeServer, startServer } from '../edge/server.ts'
import { warnOfOldParser } from '../edge/uws.ts'
import { createWebhookPoster } from '../outbound/post-webhook.ts'
import { createResults } from '../storage/results.ts'
import { createDiscardingSpool } from '../storage/spool.ts'
import { certificateFiles, openCertificate, type WatchedCertificate } from './certificate.ts'
import { type Environment, readEnvironment } from './config.ts'
import { drain, drained, drainTimes } from './drain.ts'
import { type JobWork, startJobWork } from './job-work.ts'
import { type Node, type NodeOptions, openNode } from './node.ts'
import { serveMetrics } from './serve-metrics.ts'
import type { Closer } from './snapshots.ts'
import { isEmbedded } from './stores.ts'
import { connectionsMax, remarksOn } from './surroundings.ts'
import type { Timing } from './timing.ts'
import { NODE_NAME, type UsageQuestions, usageQuestions } from './usage.ts'

/** Room for what follows the deadline of a call: its answer is kept for replay, and the state records its end. */
const ENDING_MS = 10_000
/** How long live sessions may go on when the node is to stop; what was sent by then is transcribed. */
const LIVE_GRACE_SECONDS = 30
/** How long jobs may go on when the node is to stop; a job that has not ended by then is given back. */
const JOBS_GRACE_MS = 25_000

type Variables = Readonly<Record<string, string | undefined>>

/** A node that runs, in this process; who started it decides which signals stop it and when the process ends. */
export interface RunningNode {
  /** Undefined for a worker. */
  readonly port: number | undefined
  /** Port of HTTPS; undefined: it is not asked for. */
  readonly tlsPort: number | undefined
  readonly sandboxUrl: string | undefined
  /** Tells a newcomer how to make a first call; empty where there is a configuration file. */
  readonly greeting: string
  /** False: its state is in the process that has started it, and gone with that. */
  readonly hasState: boolean
  /** Reads the configuration and the certificate again. */
  reload(): Promise<void>
  /** Takes up nothing new, finishes what is in flight and closes. For `SIGINT`, a person's, it does not listen on. */
  stop(signal: NodeJS.Signals): Promise<void>
  /** Closes at once, whatever is in flight. */
  close(): Promise<void>
}

/**
 * Builds a node out of the environment, wires it, listens and works on jobs. `UWS_ENVIRONMENT` must already be in
 * the environment of the process.
 *
 * @throws Error that says what is wrong with the environment, the configuration or the data folder
 */
export async function openServer(
  env: Variables,
  createLog: (environment: Environment) => Logger,
  options: NodeOptions = {},
): Promise<RunningNode> {
  const environment = readEnvironment(env)
  const log = createLog(environment)
  const closers: Closer[] = []
  const node = await openNode(environment, env, log, closers, options)
  const accepting = { value: true }
  const files = certificateFiles(environment)
  const renewCertificate = () => server.renewCertificate()
  const certificate = files === undefined ? null : await openCertificate(files, node, renewCertificate)
  const questions = usageQuestions(node, node.usage)
  const shared = options.place !== undefined && options.place !== 'alone'
  const server = await listen(node, { shared, certificate, questions }, () => accepting.value)
  closers.push(() => server.close())
  const jobs = environment.LARKWAY_JOBS === 0 ? null : startJobWork(node)
  node.recorder.start(() => server.inFlight + (jobs?.running ?? 0))
  const metricsPort = await serveMetrics({ node, server, jobs, certificate, questions }, closers)

  warnOfOldParser(server.uws, log)
  for (const remark of remarksOn(environment)) log.warn(remark)
  const ports = { port: server.port, tls_port: server.tlsPort, metrics_port: metricsPort }
  const listening = { ...ports, uws: server.uws, node: process.version, ...storesOf(node) }
  const sandboxUrl = await node.catalog.sandboxUrl()
  log.info({ ...listening, jobs: environment.LARKWAY_JOBS, sandbox: sandboxUrl }, 'listening')
  const hasState = !shared || environment.REDIS_URL !== undefined
  return running({ node, closers, server, jobs, certificate, hasState, sandboxUrl }, () => {
    accepting.value = false
  })
}

/**
 * Opens a node that works on jobs and nothing else, beside servers that have the same Redis and the same bucket.
 *
 * @throws Error that says what is wrong with the environment or the configuration
 */
export async function openWorker(
  env: Variables,
  createLog: (environment: Environment) => Logger,
  timing: Timing = {},
): Promise<RunningNode> {
  const environment = readEnvironment(env)
  if (isEmbedded(environment)) {
    throw new Error('a worker needs REDIS_URL and S3_BUCKET: a data folder is for one process alone')
  }
  if (environment.LARKWAY_JOBS === 0) throw new Error('environment: a worker needs LARKWAY_JOBS over 0')
  const log = createLog(environment)
  const closers: Closer[] = []
  const node = await openNode(environment, env, log, closers, { timing })
  const jobs = startJobWork(node)
  node.recorder.start(() => jobs.running)
  const questions = usageQuestions(node, node.usage)
  const none = { server: null, certificate: null }
  const metrics_port = await serveMetrics({ node, ...none, jobs, questions }, closers)
  for (const remark of remarksOn(environment)) log.warn(remark)
  const jobsAtOnce = environment.LARKWAY_JOBS
  log.info({ node: process.version, ...storesOf(node), metrics_port, jobs: jobsAtOnce }, 'working')
  return running({ node, closers, ...none, jobs, hasState: true }, () => {})
}

function storesOf({ state, environment, egress }: Node) {
  const stores = { state: state.kind, objects: environment.S3_BUCKET === undefined ? 'folder' : 's3' }
  return { stores, egress_proxy: egress?.address }
}

/** The stores and services that the commands of the console work on. */
function adminContext({
  environment,
  state,
  clock,
  catalog,
  secretKeys,
  workers,
  ...node
}: Node): AdminContext {
  const webhooks = { secretKeys, insecure: environment.LARKWAY_INSECURE_WEBHOOKS }
  return {
    state,
    catalog: () => catalog.service,
    webhooks,
    sending: {
      signer: workers.signer,
      post: createWebhookPoster({ ...webhooks, egress: node.egress, clock }),
      clock,
    },
    objects: node.jobObjects,
    signals: node.signals,
    refreshKeys: () => node.keys.refresh(),
    nowMs: clock.wallNow,
  }
}

interface ListenOptions {
  readonly shared: boolean
  readonly certificate: WatchedCertificate | null
  readonly questions: UsageQuestions
}

async function listen(
  node: Node,
  { shared, certificate, questions: usage }: ListenOptions,
  accepting: () => boolean,
): Promise<EdgeServer> {
  const { environment, log, metrics, state, store, secretKeys, budget, signals, jobObjects, clock } = node
  const { objects, links, folderLinks } = store
  const { LARKWAY_PUBLIC_URL: publicUrl } = environment
  const deps: Dependencies = {
    ...node,
    discard: createDiscardingSpool(),
    results: createResults({ objects, links, budget, clock }),
    jobs: { objects: jobObjects, links, signals },
    ...(publicUrl === undefined ? {} : { publicUrl }),
  }
  const webhooks = { secretKeys, insecure: environment.LARKWAY_INSECURE_WEBHOOKS }
  const consoleContext = {
    deps,
    admin: adminContext(node),
    usage: { ...usage, isRecorded: node.usage !== null },
    catalog: node.catalog.service,
    state: state.console,
    nodeName: NODE_NAME,
    recordedPaths: RECORDED_PATHS,
    clock: deps.services.clock,
  }
  const api = createRoutes({
    ...deps,
    readiness: { accepting, stateHealthy: () => state.healthy(), stateBlocked: () => state.blocked() },
    links: folderLinks === null ? null : { open: (token) => folderLinks.open(token), objects },
    webhooks,
    usage,
    docsLook: LOOK,
    moreOperations: managementOperations(consoleContext),
  })
  const console = consoleRoutes(consoleContext)
  const routes = [...api, ...console]
  const { HOST: host, PORT: port, LARKWAY_TLS_HOST: tlsHost = host, LARKWAY_TLS_PORT: tlsPort } = environment
  const tls = certificate === null ? {} : { tls: { host: tlsHost, port: tlsPort, files: certificate.files } }
  const observe: Pick<EdgeOptions, 'observe'> =
    metrics === null ? {} : { observe: (exchange, refusal) => metrics.requests.begun(exchange, refusal) }
  const { LARKWAY_CHUNKED: chunked, LARKWAY_RECEIVE_BUFFERS: receiveBuffers } = environment
  return startServer({
    routes,
    host,
    port,
    shared,
    chunked,
    receiveBuffers,
    connectionsMax: connectionsMax(),
    ...tls,
    budget,
    log,
    clock,
    shaped: doorRefusal,
    ...observe,
  })
}

interface Stoppable {
  readonly node: Node
  readonly closers: Closer[]
  /** Null for a worker. */
  readonly server: EdgeServer | null
  /** Null without TLS. */
  readonly certificate: WatchedCertificate | null
  /** Null where jobs are left to others. */
  readonly jobs: JobWork | null
  readonly hasState: boolean
  readonly sandboxUrl?: string | undefined
}

function running(stoppable: Stoppable, onStop: () => void): RunningNode {
  const { node, server, jobs, closers, certificate, hasState, sandboxUrl } = stoppable
  return {
    hasState,
    port: server?.port,
    tlsPort: server?.tlsPort,
    sandboxUrl,
    greeting: server === null ? '' : node.catalog.greeting(server.port),
    async reload() {
      await Promise.all([node.catalog.reload(), certificate?.renew()])
    },
    async stop(signal) {
      onStop()
      node.log.info({ signal, in_flight: server?.inFlight, jobs: jobs?.running }, 'stopping')
      // No one waits for their findings.
      const shadows = node.shadows.close()
      const listenMs = signal === 'SIGINT' ? 0 : node.environment.LARKWAY_DRAIN_SECONDS * 1_000
      try {
        await Promise.all([leave(stoppable, listenMs), jobs?.stop(JOBS_GRACE_MS), shadows])
      } finally {
        await closeAll(node, closers)
      }
    },
    async close() {
      onStop()
      await jobs?.stop(0)
      await closeAll(node, closers)
    },
  }
}

/**
 * Resolves when every request is answered, and every call ended that began or went on without its caller; at the
 * latest when none can be under way any more.
 */
async function leave(
  { node: { catalog, services, replicaProbes, live, log, clock, timing }, server }: Stoppable,
  listenMs: number,
): Promise<void> {
  const { deadlineMs, videoDeadlineMs } = catalog.current()
  const answerMs = Math.max(deadlineMs, videoDeadlineMs) + ENDING_MS
  const { settlements, moneyLeases } = services
  live.goAway(LIVE_GRACE_SECONDS)
  replicaProbes.stop()
  const pending = () => settlements.pending || moneyLeases.report()
  if (server === null) await drained(() => pending() === 0, answerMs, clock)
  else await drain(server, pending, { ...drainTimes(listenMs, answerMs), ...timing.drain }, { log, clock })
}

/** The last line of the log says what is still held: memory that is held then was leaked. */
async function closeAll({ log, budget, spool }: Node, closers: Closer[]): Promise<void> {
  for (const close of closers.splice(0).reverse()) {
    try {
      await close()
    } catch (error) {
      log.warn({ err: error }, 'stopping')
    }
  }
  log.info({ held_bytes: budget.used, bodies: { ...spool.stats() } }, 'stopped')
  const read = new Promise<void>((resolve) => log.flush(resolve))
  await within(LOG_READ_MS, read).catch(() => {})
}
