import type { Objects } from '../contracts/objects.ts'
import type { UsageWatch } from '../contracts/usage-lake.ts'
import type { RollSegment } from '../contracts/usage-segment.ts'
import { type CompactorOptions, startCompactor } from './compactor.ts'
import { UsageLake } from './lake.ts'
import type { TakeFile } from './rolling.ts'
import { createUsageWorker, type UsageWorker } from './worker.ts'

type UsageStoreOptions = Omit<CompactorOptions, 'lake' | 'worker'> & { readonly objects: Objects }

/** The store that keeps records of usage for years. */
export interface UsageStore {
  readonly lake: UsageLake
  readonly worker: UsageWorker
  /** Puts the records of a closed segment. */
  readonly roll: RollSegment
  /** Ends the compaction, and the thread. */
  close(): Promise<void>
}

/** Opens the files of usage in an object store, and begins to compact them. */
export function openUsageStore({ objects, ...options }: UsageStoreOptions): UsageStore {
  const lake = new UsageLake(objects)
  const worker = createUsageWorker()
  const compactor = startCompactor({ ...options, lake, worker })
  return {
    lake,
    worker,
    roll: createRoller({ lake, watch: options.watch }),
    async close() {
      await compactor.stop()
      await worker.close()
    },
  }
}

interface RollerOptions {
  readonly lake: UsageLake
  readonly watch?: UsageWatch | undefined
  /** Makes the files of a segment. */
  readonly roll?: (path: string, take: TakeFile) => Promise<void>
}

/** Loaded with the first segment: before it there was no call. */
async function rollHere(path: string, take: TakeFile): Promise<void> {
  const { roll } = await import('./rolling.ts')
  await roll(path, take)
}

/**
 * Makes a function that rolls a segment: when its promise resolves, the records are in the store and the segment may
 * go. Rolling it again, after a failure or a crash at any point, puts the same files under the same names.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, Error when the segment cannot be read; it stays
 */
export function createRoller({ lake, watch, roll = rollHere }: RollerOptions): RollSegment {
  return ({ id, path }) =>
    roll(path, async ({ date, rows, file, aggregate }) => {
      await lake.put(date, id, { file, aggregate })
      watch?.rolled(rows, file.length)
    })
}
