import { hostname, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Logger } from '../../contracts/log.ts'
import type { State } from '../../contracts/state.ts'
import type { Clock } from '../../contracts/time.ts'
import type { UsageRetention } from '../../contracts/usage-lake.ts'
import { recordAbandonedJobs } from '../../usage/abandoned-jobs.ts'
import { createUsageEngine, type UsageEngine } from '../../usage/engine.ts'
import { UsageLake } from '../../usage/lake.ts'
import { UsageLedger } from '../../usage/ledger.ts'
import { createUsageLog, type UsageLog } from '../../usage/log.ts'
import { recordLostMoney, settleJournal } from '../../usage/lost-money.ts'
import { UsageProgress } from '../../usage/progress.ts'
import { createUsageReader } from '../../usage/reader.ts'
import { createRecordFiles } from '../../usage/record-files.ts'
import { openUsageStore } from '../../usage/store.ts'
import { WriteAhead } from '../../usage/write-ahead.ts'
import type { UsageAdminContext } from '../admin/usage.ts'
import { CALLS } from '../api/table.ts'
import { readKeys } from '../catalog/known-keys.ts'
import type { Metrics } from '../observe/metrics/metrics.ts'
import { documentedParam } from '../observe/recorder/record.ts'
import { lockRemovable } from '../storage/folder-lock.ts'
import { type Environment, usageFolder } from './config.ts'
import type { Catalog, Closer } from './snapshots.ts'
import type { Store } from './stores.ts'
import type { Timing } from './timing.ts'

const MIB = 1024 * 1024
/** Name of this process, as the console shows it. */
export const NODE_NAME = `${hostname()}:${process.pid}`

/** Nothing is deleted. */
const FOR_GOOD: UsageRetention = { days: Number.POSITIVE_INFINITY, byWorkspace: new Map() }

/**
 * How long records of usage are kept. As long as a part of the catalog is not known, or left out for a mistake, nothing
 * is deleted: it may be what says that a workspace keeps them for longer.
 */
function usageRetention({ current, isWhole, service }: Catalog): UsageRetention {
  const isKnown = isWhole() && service.broken().length === 0
  return (isKnown ? current().usageRetention : null) ?? FOR_GOOD
}

/** The files of usage, and the engine that reads and makes them. */
interface UsageFiles {
  readonly engine: UsageEngine
  readonly lake: UsageLake
}

/** Opens the files of usage. The process of their engine is started when it is needed. */
export function openUsageFiles(
  environment: Environment,
  { NODE_COMPILE_CACHE: codeCache }: Readonly<Record<string, string | undefined>>,
  { objects }: Pick<Store, 'objects'>,
  clock: Clock,
  closers: Closer[],
): UsageFiles {
  const { LARKWAY_DATA } = environment
  // Where the store is a folder, the files of usage are read where they are.
  const file = objects.fileOf('usage/date=2026-01-01/any.parquet')
  const engine = createUsageEngine({
    places: [join(LARKWAY_DATA, 'usage-cache'), tmpdir()],
    folders: [usageFolder(environment), ...(file === null ? [] : [dirname(dirname(file))])],
    codeCache,
    clock,
  })
  closers.push(() => engine.close())
  return { engine, lake: new UsageLake(objects, engine, clock) }
}

interface UsageDependencies {
  readonly environment: Environment
  readonly log: Logger
  readonly timing: Timing
  readonly clock: Clock
  readonly usageFiles: UsageFiles
  readonly state: State
  readonly catalog: Catalog
  readonly metrics: Metrics | null
}

/**
 * Opens the ledger of usage and the files of its records. It is closed after everything that has calls. Null: it is
 * switched off.
 */
export async function openUsage(
  {
    environment,
    log,
    timing,
    clock,
    usageFiles: { engine, lake },
    state,
    catalog,
    metrics,
  }: UsageDependencies,
  closers: Closer[],
) {
  const { LARKWAY_USAGE_BACKLOG_MIB } = environment
  if (!environment.LARKWAY_USAGE) return null
  const files = openUsageStore({
    lake,
    files: createRecordFiles(engine),
    permits: state.permits,
    healthy: () => state.healthy(),
    retention: () => usageRetention(catalog),
    log,
    watch: metrics?.usage,
    clock,
    ...timing.usageFiles,
  })
  closers.push(() => files.close())
  const rows = await WriteAhead.open({
    root: usageFolder(environment),
    lock: lockRemovable,
    roll: files.roll,
    backlogBytes: LARKWAY_USAGE_BACKLOG_MIB * MIB,
    log,
    settle: (journal) => settleJournal(journal, state, clock),
    clock,
    timing: timing.usage ?? {},
  }).catch((cause: Error) => {
    const remedy = 'set it to a folder on a disk of this machine, or LARKWAY_USAGE to false'
    throw new Error(`environment: LARKWAY_USAGE_FOLDER cannot be used: ${cause.message}; ${remedy}`, {
      cause,
    })
  })
  const { usageMarks: marks } = state.console
  const progress = new UsageProgress({ marks, writer: rows, clock, ...timing.usageFiles })
  closers.push(() => progress.close())
  closers.push(() => rows.close())
  await progress.start()
  const ledger = new UsageLedger({
    rows,
    node: NODE_NAME,
    paramOf: ({ extra }) => documentedParam(extra.param),
    calls: CALLS,
    clock,
  })
  const abandoned = recordAbandonedJobs({ jobs: state.jobs, ledger, log, clock, ...timing.usageFiles })
  closers.push(() => abandoned.stop())
  const lost = recordLostMoney({
    ...{ accounts: state.accounts, permits: state.permits, ledger, log, clock },
    workspaces: () => catalog.current().apps.keys(),
    appOf: async (keyId) => {
      const configured = [...catalog.current().keys.values()].find(({ key }) => key.id === keyId)
      return configured?.app.id ?? (await readKeys(state.keys)).byId(keyId)?.app ?? ''
    },
    ...timing.usageFiles,
  })
  closers.push(() => lost.stop())
  return { rows, files, progress, ledger }
}

export interface UsageQuestions extends UsageAdminContext {
  readonly log: UsageLog
}

/** The parts that answer questions about usage: the files of all nodes, whether this one makes some or not. */
export function usageQuestions(
  { usageFiles: { lake, engine }, state, clock }: Pick<UsageDependencies, 'usageFiles' | 'state' | 'clock'>,
  usage: Awaited<ReturnType<typeof openUsage>>,
): UsageQuestions {
  const { usageMarks: marks } = state.console
  const progress = usage?.progress ?? new UsageProgress({ marks, writer: null, clock })
  return {
    reader: createUsageReader({ lake, engine }),
    log: createUsageLog({ lake, engine }),
    nowMs: clock.wallNow,
    completeUntilMs: () => progress.until(),
  }
}
