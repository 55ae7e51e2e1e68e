import type { UsageWatch } from '../contracts/usage-lake.ts'
import type { RollSegment } from '../contracts/usage-segment.ts'
import { type CompactorOptions, startCompactor } from './compactor.ts'
import type { UsageLake } from './lake.ts'
import type { RecordFiles } from './record-files.ts'

/** The store that keeps records of usage for years. */
export interface UsageStore {
  /** Puts the records of a closed segment. */
  readonly roll: RollSegment
  /** Ends the compaction. */
  close(): Promise<void>
}

/** Begins to compact the files of usage. */
export function openUsageStore(options: CompactorOptions): UsageStore {
  const { lake, files, watch } = options
  const compactor = startCompactor(options)
  return { roll: createRoller({ lake, files, watch }), close: () => compactor.stop() }
}

interface RollerOptions {
  readonly lake: Pick<UsageLake, 'put'>
  readonly files: Pick<RecordFiles, 'roll'>
  readonly watch?: UsageWatch | undefined
}

/**
 * Makes a function that rolls a segment: when its promise resolves, the records are in the store and the segment may
 * go. Rolling it again, after a failure or a crash at any point, puts the same files under the same names.
 *
 * @throws GatewayError DEPENDENCY_UNAVAILABLE when the store fails, Error when the segment cannot be read; it stays
 */
export function createRoller({ lake, files, watch }: RollerOptions): RollSegment {
  return ({ id, path: segment }) =>
    files.roll(segment, async ({ date, rows, path }) => {
      const bytes = await lake.put(date, id, path)
      watch?.rolled(rows, bytes)
    })
}
