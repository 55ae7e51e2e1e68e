import type { AudioReader } from '../../contracts/audio.ts'
import type { ApiKeys } from '../../contracts/catalog.ts'
import type { NodeSample } from '../../contracts/console.ts'
import type { JobInputs } from '../../contracts/jobs.ts'
import type { Logger } from '../../contracts/log.ts'
import { readSecretKeys } from '../../contracts/secrets.ts'
import type { State } from '../../contracts/state.ts'
import { type Clock, systemClock } from '../../contracts/time.ts'
import { BuiltInSandbox } from '../../sandbox/thread.ts'
import { LedgerRecorder, type UsageLedger } from '../../usage/ledger.ts'
import { ReplicaProbes } from '../call/attempt/replica-probes.ts'
import { Shadows } from '../call/compare/shadow.ts'
import { ShadowReferences } from '../call/compare/shadow-references.ts'
import { ShadowTally } from '../call/compare/shadow-tally.ts'
import { EndUserWatch } from '../call/context/end-user-watch.ts'
import { createEndUserHash } from '../call/context/end-users.ts'
import type { Services } from '../call/context/services.ts'
import { createAccountViews, createSettlements, createUsageBuffer } from '../call/money/accounts.ts'
import { createMoneyLeases } from '../call/money/money-leases.ts'
import { createCircuitBreakers, createLatencyTracker } from '../call/select/health.ts'
import { ReplicaPools } from '../call/select/replicas.ts'
import { createApiKeys, type PolledApiKeys } from '../catalog/api-keys.ts'
import { startInputMoves } from '../jobs/inputs.ts'
import { createJobSignals } from '../jobs/watch.ts'
import { LiveSessions } from '../live/sessions.ts'
import { createAudioCutter } from '../long/cutter.ts'
import { createAudioTranscoder, type TranscoderDependencies } from '../long/transcoder.ts'
import { Uploads } from '../long/uploads.ts'
import { createMediaProbe } from '../media/probe.ts'
import { createMetrics, type Metrics } from '../observe/metrics/metrics.ts'
import { servedRoutes } from '../observe/metrics/node-readings.ts'
import { BatchingRecorder } from '../observe/recorder/recorder.ts'
import { startTracing } from '../observe/tracing/start.ts'
import { createEgressProxy, type EgressProxy } from '../outbound/egress-proxy.ts'
import { createAudioFetcher } from '../outbound/fetch-audio.ts'
import { createSender } from '../outbound/send.ts'
import { createSocketOpener } from '../outbound/web-socket.ts'
import { PROVIDERS } from '../providers/index.ts'
import { createAudioDigester } from '../storage/audio-digest.ts'
import { createAudioReader } from '../storage/audio-reader.ts'
import { createBlocks } from '../storage/blocks.ts'
import { HeldBodies } from '../storage/body-holds.ts'
import { createBudget } from '../storage/budget.ts'
import { lockFolder } from '../storage/folder-lock.ts'
import { createGenerationMarks } from '../storage/generation-marks.ts'
import { createJobObjects } from '../storage/job-objects.ts'
import { createKeptPairs, type KeptPairsOptions } from '../storage/kept-pairs.ts'
import { createSlotResults } from '../storage/kept-texts.ts'
import { createReadAhead } from '../storage/read-ahead.ts'
import { createRemoteAudio } from '../storage/remote-audio.ts'
import { sealObjects } from '../storage/sealed-objects.ts'
import { createSpeechCache, type SpeechCacheOptions } from '../storage/speech-cache.ts'
import { createSpool } from '../storage/spool.ts'
import { FOLDER_UPLOADS_MAX, type SpoolDependencies, UPLOADS_MAX } from '../storage/spool-context.ts'
import { startSweeper } from '../storage/sweep.ts'
import { createWorkers } from '../workers/pool.ts'
import type { Environment } from './config.ts'
import { type Catalog, type Closer, openSnapshots } from './snapshots.ts'
import { isEmbedded, type NodePlace, openState, openStore, type StateOptions, type Store } from './stores.ts'
import type { Timing } from './timing.ts'
import { NODE_NAME, openUsage, openUsageFiles } from './usage.ts'

const MIB = 1024 * 1024

export interface NodeOptions extends Omit<StateOptions, 'timing'> {
  /** Durations that tests change. */
  readonly timing?: Timing
  /** Opens the state; default: the one that the environment names. */
  readonly state?: typeof openState
}

/** The parts of every node: state, store, configuration and the gateway itself. */
export type Node = Awaited<ReturnType<typeof openNode>>

/**
 * Builds the parts of a node from its environment. Adds what must be closed to `closers`, also when a later part
 * cannot be opened.
 *
 * @throws Error that says what is wrong with the environment, the configuration or the data folder
 */
export async function openNode(
  environment: Environment,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
  closers: Closer[],
  { timing = {}, clock = systemClock, place = 'alone', booting, state: open = openState }: NodeOptions,
) {
  const tracing = await startTracing(env, log, clock)
  if (tracing !== null) closers.push(() => tracing.close())
  if (place === 'alone' && isEmbedded(environment)) closers.push(await lockFolder(environment.LARKWAY_DATA))
  const state = await open(environment, log, { timing: timing.redis, clock, place, booting })
  closers.push(() => state.close())
  const secretKeys = await readSecretKeys(environment.LARKWAY_SECRET_KEYS, environment.LARKWAY_DATA)
  const sandbox = new BuiltInSandbox((error) => log.error({ err: error }, 'sandbox'))
  closers.push(() => sandbox.close())
  const sources = { environment, env, log, clock, store: state.catalog, secretKeys, sandbox }
  const catalog = await openSnapshots(sources, closers)
  const metrics = openMetrics(environment, catalog)
  const budget = createBudget(environment.LARKWAY_MEMORY_MIB * MIB, undefined, clock)
  const blocks = createBlocks(budget, { clock })
  closers.push(() => blocks.close())
  const store = await openStore(environment, secretKeys, { blocks, budget }, clock)
  await keepStore(store, state, clock, closers)
  await sweep(store, state, catalog, { log, clock, place }, closers)
  const usageFiles = openUsageFiles(environment, env, store, clock, closers)
  const egress = createEgressProxy(environment, clock)
  const own = { environment, log, timing, clock, egress, usageFiles }
  const usage = await openUsage({ ...own, state, catalog, metrics }, closers)
  const gateway = await openGateway()
  return { ...own, metrics, tracing, state, catalog, secretKeys, store, usage, ...gateway }

  async function openGateway() {
    const memory = { budget, blocks, log, clock }
    const stores = { ...store, inputs: state.jobInputs }
    const { holds, objects, spool, ahead, jobObjects } = openBodies(stores, memory, environment, closers)
    const workers = createWorkers()
    closers.push(() => workers.close())
    const reader = createAudioReader({ objects: ahead, decoder: workers.decoder, memory: { blocks, budget } })
    const keys = await openKeyBook(catalog, state, { log, clock }, closers)
    const signals = openSignals(state, [catalog, keys])
    const probe = createMediaProbe({ reader })
    const { permits } = state
    const comparing = { holds, log, clock, permits, kept: { objects, budget, secretKeys, clock } }
    const { tally, ...compared } = openShadows(comparing, metrics, closers)
    const services = openServices(keys, catalog, state, log, closers, {
      ...{ clock, endUserHash: createEndUserHash(secretKeys) },
      ...openUpstream(reader, { sandbox, egress }, clock, closers),
      ...{ budget, encoders: workers.encoders, audio: reader, audioLinks: store.audioLinks },
      ...openAnswers({ objects, budget, permits, watch: metrics?.calls, clock }, closers),
      ...openLongAudio({ reader, objects: jobObjects, blocks, budget, probe, clock, path: env.PATH }),
      ...{ timing: timing.calls, ...compared },
      ...(metrics === null ? {} : { watch: metrics.calls, cacheWatch: metrics.calls }),
      ...(usage === null ? {} : { usageKeeper: usage.ledger }),
    })
    const live = new LiveSessions(services, environment.LARKWAY_LIVE_MEMORY_MIB * MIB, metrics?.live)
    const recorded = { state, log, clock, timing, live, usage, shadows: () => tally.take() }
    return {
      ...{ budget, spool, workers, services },
      shadows: compared.shadows,
      replicaProbes: openReplicaProbes(services, catalog, log, closers),
      live,
      recorder: openRecorder(services, recorded, closers),
      ...{ keys, probe },
      digester: createAudioDigester({ reader, hasher: workers.hasher, blocks, budget }),
      remoteAudio: createRemoteAudio({ spool, fetchAudio: createAudioFetcher({ egress, clock }) }),
      uploads: new Uploads(objects, secretKeys, clock),
      ...{ readAhead: ahead.begin, jobObjects, signals },
    }
  }
}

/** Opens what makes audio into files that entries take. */
function openLongAudio(deps: TranscoderDependencies) {
  return { cutter: createAudioCutter(deps), transcoder: createAudioTranscoder(deps) }
}

/** Has the store closed with the node, and lets the state look in it whether it is the one that was there before. */
async function keepStore({ objects }: Store, { memory }: State, clock: Clock, closers: Closer[]) {
  closers.push(() => objects.close())
  await memory?.watch(createGenerationMarks(objects, clock))
}

/** Null: they are not asked for. */
function openMetrics({ LARKWAY_METRICS_PORT: port }: Environment, catalog: Catalog): Metrics | null {
  if (port === undefined) return null
  const metrics = createMetrics()
  metrics.tenants.goBy(() => catalog.current().tenantLabels)
  return metrics
}

/** Opens what keeps answers to be given again. */
function openAnswers(options: SpeechCacheOptions, closers: Closer[]) {
  const speechCache = createSpeechCache(options)
  closers.push(async () => speechCache.close())
  return { speechCache, slotResults: createSlotResults(options) }
}

/** Opens what bodies of requests are in. Those in the store are kept as long as they are read. */
function openBodies(
  store: Store & { readonly inputs: JobInputs | null },
  deps: Required<Pick<SpoolDependencies, 'budget' | 'blocks' | 'log' | 'clock'>>,
  environment: Environment,
  closers: Closer[],
) {
  const holds = new HeldBodies()
  const objects = holds.keeping(sealObjects(store.objects))
  const spool = createSpool({ ...deps, objects, holds, uploadsMax: uploadsFor(environment) })
  closers.push(() => spool.close())
  const jobObjects = createJobObjects({ objects, holds, ...deps })
  const { inputs } = store
  if (inputs !== null) closers.push(startInputMoves({ inputs, objects: jobObjects, ...deps }))
  return { holds, objects, spool, ahead: createReadAhead(objects, deps.budget), jobObjects }
}

function openUpstream(
  reader: AudioReader,
  { sandbox, egress }: { readonly sandbox: BuiltInSandbox; readonly egress: EgressProxy | undefined },
  clock: Clock,
  closers: Closer[],
) {
  const { send, open, close } = createSender({ reader, inner: sandbox, egress, clock })
  closers.push(close)
  return { send, open, openSocket: createSocketOpener(sandbox, egress, clock) }
}

/** Opens what tells of changes to jobs, and of changes to keys and the catalog on other nodes. */
function openSignals(state: State, books: readonly Pick<Catalog, 'hinted'>[]) {
  const signals = createJobSignals()
  const settings = () => {
    for (const book of books) book.hinted()
  }
  state.listen({ ...signals, settings })
  return signals
}

/** Opens what asks shadows, and what sums up for the console what they found. */
function openShadows(
  deps: {
    readonly holds: HeldBodies
    readonly log: Logger
    readonly clock: Clock
    readonly permits: State['permits']
    readonly kept: KeptPairsOptions
  },
  metrics: Metrics | null,
  closers: Closer[],
) {
  const { holds, log, clock, permits, kept } = deps
  const tally = new ShadowTally()
  const watches = metrics === null ? [tally] : [tally, metrics.shadows]
  const references = new ShadowReferences({ pairs: createKeptPairs(kept), permits, watches })
  const shadows = new Shadows({ holds, log, clock, watches, references })
  closers.push(() => shadows.close())
  return { shadows, references, tally }
}

function uploadsFor({ S3_BUCKET }: Environment): number {
  return S3_BUCKET === undefined ? FOLDER_UPLOADS_MAX : UPLOADS_MAX
}

async function sweep(
  { objects, folderLinks }: Store,
  state: State,
  catalog: Catalog,
  { log, clock, place }: { readonly log: Logger; readonly clock: Clock; readonly place: NodePlace },
  closers: Closer[],
): Promise<void> {
  const slotTtlSeconds = () => catalog.current().limits.sync_idempotency_ttl_seconds
  const longestCallMs = () => Math.max(catalog.current().deadlineMs, catalog.current().videoDeadlineMs)
  const knownJobs = (ids: readonly string[]) => state.jobs.known(ids)
  const cacheTtlSeconds = () =>
    Math.max(0, ...servedRoutes(catalog.current()).map(({ cache }) => cache?.ttlSeconds ?? 0))
  const alone = folderLinks !== null && place !== 'further'
  const ages = { slotTtlSeconds, cacheTtlSeconds, longestCallMs }
  const sweeper = await startSweeper({ objects, log, clock, alone, ...ages, knownJobs })
  closers.push(() => sweeper.stop())
}

function openReplicaProbes(
  { replicas: pools, providers: protocols, open, random, clock }: Services,
  catalog: Catalog,
  log: Logger,
  closers: Closer[],
): ReplicaProbes {
  const inForce = () => catalog.service.good().providers
  const probes = new ReplicaProbes({ pools, inForce, protocols, open, random, log, clock })
  closers.push(() => probes.stop())
  return probes
}

/** Opens the recorder of this node for the console and the ledger. It must be started once the node is complete. */
function openRecorder(
  { snapshot, health, budget, endUserWatch }: Services,
  deps: {
    readonly state: State
    readonly log: Logger
    readonly clock: Clock
    readonly timing: Timing
    readonly live: LiveSessions
    /** Null: nothing is recorded for good. */
    readonly usage: { readonly ledger: UsageLedger } | null
    readonly shadows: () => NonNullable<NodeSample['shadows']>
  },
  closers: Closer[],
): BatchingRecorder | LedgerRecorder {
  const { state, log, clock, timing, live, usage, shadows } = deps
  const endUsers = () => endUserWatch?.take() ?? []
  const node = { name: NODE_NAME, snapshot, health, budget, live: () => live.samples(), shadows, endUsers }
  const recorder = new BatchingRecorder({
    state: state.console,
    node,
    log,
    clock,
    timing: timing.recorder ?? {},
  })
  closers.push(() => recorder.close())
  if (usage === null) return recorder
  return new LedgerRecorder(recorder, usage.ledger)
}

async function openKeyBook(
  { current: snapshot, isWhole }: Catalog,
  state: State,
  { log, clock }: { readonly log: Logger; readonly clock: Clock },
  closers: Closer[],
): Promise<PolledApiKeys> {
  const keys = createApiKeys({ snapshot, isWhole, keys: state.keys, log, clock })
  closers.push(() => keys.close())
  await keys.ready()
  return keys
}

/** Opens the services of the gateway on top of the store and the network. */
function openServices(
  keys: ApiKeys,
  { current: snapshot }: Catalog,
  state: State,
  log: Logger,
  closers: Closer[],
  outside: Omit<
    Services,
    | 'snapshot'
    | 'providers'
    | 'keys'
    | 'state'
    | 'settlements'
    | 'moneyLeases'
    | 'usage'
    | 'accountViews'
    | 'random'
    | 'latency'
    | 'health'
    | 'replicas'
    | 'endUserWatch'
  >,
): Services {
  const { usageKeeper, clock } = outside
  const settlements = createSettlements(state.ledger, log, clock)
  closers.push(() => settlements.close())
  const usage = createUsageBuffer({ accounts: state.accounts, log, clock, usageKeeper })
  closers.push(() => usage.close())
  const moneyLeases = createMoneyLeases({ ledger: state.ledger, settlements, usage, log, clock, usageKeeper })
  closers.push(() => moneyLeases.close())
  return {
    ...outside,
    snapshot,
    providers: PROVIDERS,
    keys,
    state,
    settlements,
    moneyLeases,
    usage,
    accountViews: createAccountViews(state.accounts, (id) => moneyLeases.giveBack(id), clock),
    random: Math.random,
    latency: createLatencyTracker(),
    health: createCircuitBreakers(),
    replicas: new ReplicaPools(Math.random, clock),
    endUserWatch: new EndUserWatch(snapshot, clock),
  }
}
