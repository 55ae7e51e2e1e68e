import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { systemClock } from '../contracts/time.ts'
import { type Environment, usageFolder } from '../gateway/node/config.ts'
import { openObjects } from '../gateway/node/stores.ts'
import { oldestSegmentMs } from '../usage/backlog.ts'
import { createUsageEngine, type UsageEngine } from '../usage/engine.ts'
import { UsageLake } from '../usage/lake.ts'
import { UsageProgress } from '../usage/progress.ts'
import { createUsageReader, type UsageReader } from '../usage/reader.ts'
import { CommandFailure } from './arguments.ts'
import { type CliContext, environmentOf, withState } from './context.ts'

/** Rows are in the memory of a server for some milliseconds. */
const IN_MEMORY_MS = 1_000
/** Memory of DuckDB, so that its process stays within 512 MiB; beyond it DuckDB puts data aside on the disk. */
const MEMORY_MIB = 384
const THREADS = 2

/**
 * Up to when the records of all servers are in the store: as they say it in Redis, or as the segments tell that the one
 * server has not put yet. 0: neither is to be seen from here.
 */
export async function completeUntilMs(environment: Environment): Promise<number> {
  const { REDIS_URL, S3_BUCKET } = environment
  if (REDIS_URL !== undefined)
    return withState(environment, ({ console: { usageMarks: marks } }) =>
      new UsageProgress({ marks, writer: null, clock: systemClock }).until(),
    )
  const nowMs = systemClock.wallNow() - IN_MEMORY_MS
  try {
    return Math.min(nowMs, ((await oldestSegmentMs(usageFolder(environment))) ?? nowMs) - 1)
  } catch {
    // A server with a bucket may be anywhere; one without has its files where these are, and keeps no records.
    return S3_BUCKET === undefined ? nowMs : 0
  }
}

/** Whether records may be kept where this environment says. */
export function hasRecords(environment: Environment): boolean {
  return environment.S3_BUCKET !== undefined || existsSync(usageFolder(environment))
}

/** Files of usage, and what answers from them. */
interface OpenLake {
  readonly lake: UsageLake
  readonly engine: UsageEngine
  readonly reader: UsageReader
}

/** Works on the files of the servers with the same environment. @throws CommandFailure without a data folder */
export async function withLake<Result>(
  context: CliContext,
  work: (lake: OpenLake) => Promise<Result>,
): Promise<Result> {
  const environment = environmentOf(context)
  const { S3_BUCKET, LARKWAY_DATA } = environment
  if (S3_BUCKET === undefined && !existsSync(LARKWAY_DATA))
    throw new CommandFailure(`there is no data folder ${LARKWAY_DATA}: set LARKWAY_DATA to the server's`)
  const objects = await openObjects(environment)
  // A statement of an operator may write files, too, and their machine has both cores for it.
  const engine = createUsageEngine({
    places: [tmpdir()],
    folders: null,
    memoryMib: MEMORY_MIB,
    threads: THREADS,
  })
  try {
    const lake = new UsageLake(objects, engine)
    return await work({ lake, engine, reader: createUsageReader({ lake, engine }) })
  } finally {
    await engine.close()
    await objects.close()
  }
}
