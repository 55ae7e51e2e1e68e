import type { Jobs } from '../contracts/jobs.ts'
import type { Logger } from '../contracts/log.ts'
import { type Clock, sleep } from '../contracts/time.ts'
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
}: AbandonedDependencies) {
  const stopping = new AbortController()
  const { signal } = stopping
  let away = false

  /** @returns true when more may be waiting */
  async function round(): Promise<boolean> {
    try {
      const abandoned = await jobs.takeAbandoned(BATCH)
      // The state hands out again those whose record was lost.
      const kept = abandoned.filter((one) => ledger.abandoned(one))
      await Promise.all(kept.map(({ job }) => jobs.recorded(job.id)))
      away = false
      return abandoned.length === BATCH
    } catch (error) {
      if (!away) log.warn({ err: error }, 'usage: jobs that no worker ran cannot be recorded')
      away = true
      return false
    }
  }

  async function rounds(): Promise<void> {
    while (!signal.aborted) {
      const more = await round()
      if (!more) await sleep(clock, abandonedMs, { signal, ref: false }).catch(() => {})
    }
  }

  const done = rounds()
  return {
    /** Resolves when the current round is over. */
    stop(): Promise<void> {
      stopping.abort()
      return done
    },
  }
}
