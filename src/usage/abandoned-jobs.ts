import type { Jobs } from '../contracts/jobs.ts'
import type { Logger } from '../contracts/log.ts'
import { type Rounds, startRounds } from '../contracts/rounds.ts'
import type { Clock } from '../contracts/time.ts'
import type { UsageLedger } from './ledger.ts'

/** Jobs recorded at a time. */
const BATCH = 50
const PAUSE_MS = 10_000

export interface AbandonedTiming {
  /** Pause between two looks for such jobs. */
  readonly abandonedMs: number
}

interface AbandonedDependencies extends Partial<AbandonedTiming> {
  readonly jobs: Pick<Jobs, 'takeAbandoned' | 'recorded'>
  readonly ledger: Pick<UsageLedger, 'abandoned'>
  readonly log: Logger
  readonly clock: Clock
}

/**
 * Records jobs that ended without a worker, because they were cancelled or given up. The state hands each out until it
 * is told that the job was recorded: a crash in between writes its record twice, with the same `record_id`.
 */
export function recordAbandonedJobs({
  jobs,
  ledger,
  log,
  clock,
  abandonedMs = PAUSE_MS,
}: AbandonedDependencies): Rounds {
  async function round(): Promise<boolean> {
    const abandoned = await jobs.takeAbandoned(BATCH)
    // The state hands out again those whose record was lost.
    const kept = abandoned.filter((one) => ledger.abandoned(one))
    await Promise.all(kept.map(({ job }) => jobs.recorded(job.id)))
    return abandoned.length === BATCH
  }

  const onAway = (error: unknown) =>
    log.warn({ err: error }, 'usage: jobs that no worker ran cannot be recorded')
  return startRounds(round, { pauseMs: abandonedMs, clock, onAway })
}
