import { hostname } from 'node:os'
import { createKeyBook, type PolledKeyBook } from './catalog/key-book.ts'
import type { Environment } from './config.ts'
import { createAccountViews } from './gateway/account-views.ts'
import type { Services } from './gateway/gateway.ts'
import { createHealthBook } from './gateway/health.ts'
import { createLatencyBook } from './gateway/latency.ts'
import { createSettlements } from './gateway/settlements.ts'
import { createUsageBook } from './gateway/usage-book.ts'
import type { Logger } from './log.ts'
import { createMediaProbe } from './media/probe.ts'
import { createMetrics } from './metrics/metrics.ts'
import { createAudioFetcher } from './outbound/fetch-audio.ts'
import { createSender } from './outbound/send.ts'
import { PROVIDERS } from './providers/index.ts'
import { BatchingRecorder } from './routes/console/watch/recorder.ts'
import { createJobSignals } from './routes/jobs/signals.ts'
import { BuiltInSandbox } from './sandbox/thread.ts'
import type { KeyBook } from './schema/catalog.ts'
import type { State } from './schema/state.ts'
import { readSecretKeys } from './secrets.ts'
import { type Catalog, type Closer, openSnapshots } from './snapshots.ts'
import { createAudioDigester } from './storage/audio-digest.ts'
import { createAudioReader } from './storage/audio-reader.ts'
import { createBlocks } from './storage/blocks.ts'
import { createBudget } from './storage/budget.ts'
import { lockFolder } from './storage/folder-lock.ts'
import { createJobObjects } from './storage/job-objects.ts'
import { createRemoteAudio } from './storage/remote-audio.ts'
import { createSlotResults } from './storage/slot-results.ts'
import { createSpool } from './storage/spool.ts'
import { FOLDER_UPLOAD_SLOTS, UPLOAD_SLOTS } from './storage/spool-options.ts'
import { startSweeper } from './storage/sweep.ts'
import { isEmbedded, openState, openStore, type Store } from './stores.ts'
import { startTracing } from './tracing/start.ts'
import { createWorkers } from './workers/pool.ts'

const MIB = 1024 * 1024

/** What every node is made of, whichever doors it opens: state, store, configuration and the gateway itself. */
export type Parts = Awaited<ReturnType<typeof openParts>>

/**
 * Builds the parts of a node out of its environment. What has to be undone is left with `closers`, also when a later
 * part cannot be opened.
 *
 * @throws Error that says what is wrong with the environment, the configuration or the data folder
 */
export async function openParts(
  environment: Environment,
  env: Readonly<Record<string, string | undefined>>,
  log: Logger,
  closers: Closer[],
) {
  const metrics = environment.LARKWAY_METRICS_PORT === undefined ? null : createMetrics()
  const tracing = await startTracing(env, log)
  if (tracing !== null) closers.push(() => tracing.close())
  if (isEmbedded(environment)) closers.push(await lockFolder(environment.LARKWAY_DATA))
  const state = await openState(environment, log)
  closers.push(() => state.close())
  const secretKeys = await readSecretKeys(environment.LARKWAY_SECRET_KEYS, environment.LARKWAY_DATA)
  const sandbox = new BuiltInSandbox((error) => log.error({ err: error }, 'sandbox'))
  closers.push(() => sandbox.close())
  const catalog = await openSnapshots(
    { environment, env, log, store: state.catalog, secretKeys, sandbox },
    closers,
  )
  const store = await openStore(environment, secretKeys)
  closers.push(() => store.objects.close())
  await sweep(store, state, catalog, log, closers)
  const gateway = await openGateway()
  return { environment, log, metrics, tracing, state, catalog, secretKeys, store, ...gateway }

  async function openGateway() {
    const { objects } = store
    const budget = createBudget(environment.LARKWAY_MEMORY_MIB * MIB)
    const blocks = createBlocks(budget)
    const uploadSlots = environment.S3_BUCKET === undefined ? FOLDER_UPLOAD_SLOTS : UPLOAD_SLOTS
    const spool = createSpool({ budget, blocks, objects, log, uploadSlots })
    closers.push(() => blocks.close())
    closers.push(() => spool.close())
    const workers = createWorkers()
    closers.push(() => workers.close())
    const reader = createAudioReader({ objects, decoder: workers.decoder, memory: { blocks, budget } })
    const sender = createSender({ reader, inner: sandbox })
    closers.push(() => sender.close())
    const signals = createJobSignals()
    state.jobs.listen(signals)
    const keys = await openKeyBook(catalog, state, log, closers)
    const services = openServices(keys, catalog, state, log, closers, {
      send: sender.send,
      open: sender.open,
      budget,
      slotResults: createSlotResults({ objects, budget }),
      ...(metrics === null ? {} : { watch: metrics.calls }),
    })
    return {
      budget,
      spool,
      workers,
      services,
      recorder: openRecorder(services, state, log, closers),
      /** Has this node know at once which keys the state has now. */
      refreshKeys: () => keys.refresh(),
      probe: createMediaProbe({ reader }),
      digester: createAudioDigester({ reader, hasher: workers.hasher, blocks, budget }),
      remoteAudio: createRemoteAudio({ spool, fetchAudio: createAudioFetcher({}) }),
      jobObjects: createJobObjects({ objects, budget, log }),
      signals,
    }
  }
}

async function sweep(
  { objects, folderLinks }: Store,
  state: State,
  catalog: Catalog,
  log: Logger,
  closers: Closer[],
): Promise<void> {
  const slotTtlSeconds = () => catalog.current().limits.sync_idempotency_ttl_seconds
  const longestCallMs = () => Math.max(catalog.current().deadlineMs, catalog.current().videoDeadlineMs)
  const knownJobs = (ids: readonly string[]) => state.jobs.known(ids)
  const alone = folderLinks !== null
  const sweeper = await startSweeper({ objects, log, alone, slotTtlSeconds, longestCallMs, knownJobs })
  closers.push(() => sweeper.stop())
}

/** What the console shows of this node. It is to be started when the node is whole. */
function openRecorder(
  { snapshot, health, budget }: Services,
  state: State,
  log: Logger,
  closers: Closer[],
): BatchingRecorder {
  const node = { name: `${hostname()}:${process.pid}`, snapshot, health, budget }
  const recorder = new BatchingRecorder({ state: state.console, node, log })
  closers.push(() => recorder.close())
  return recorder
}

async function openKeyBook(
  { current: snapshot, isWhole }: Catalog,
  state: State,
  log: Logger,
  closers: Closer[],
): Promise<PolledKeyBook> {
  const keys = createKeyBook({ snapshot, isWhole, keys: state.keys, log })
  closers.push(() => keys.close())
  await keys.ready()
  return keys
}

/** What the gateway works with, on top of what the store and the network give. */
function openServices(
  keys: KeyBook,
  { current: snapshot }: Catalog,
  state: State,
  log: Logger,
  closers: Closer[],
  outside: Pick<Services, 'send' | 'open' | 'budget' | 'slotResults' | 'watch'>,
): Services {
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
