import type { JobObjects } from '../../contracts/job-objects.ts'
import type { Job, Retention } from '../../contracts/jobs.ts'
import type { Limits } from '../../contracts/limits.ts'
import type { Logger } from '../../contracts/log.ts'
import { type Rounds, startRounds } from '../../contracts/rounds.ts'
import type { State } from '../../contracts/state.ts'
import type { Clock } from '../../contracts/time.ts'

const HOUR_MS = 3_600_000

/** Retention of ended jobs under the limits in force. */
export function retentionOf({ stt_job_result_ttl_seconds: seconds }: Limits): Retention {
  return {
    transcriptionMs: seconds * 1_000,
    // As long as the idempotency key that submitted it is remembered.
    queueMs: 24 * HOUR_MS,
    // Long enough for operators to look through the dead list after a weekend.
    deadMs: 7 * 24 * HOUR_MS,
  }
}

/** Jobs purged at a time. */
const BATCH = 50

export interface PurgeTiming {
  /** Pause between two polls for expired jobs. */
  readonly pauseMs: number
}

const TIMING: PurgeTiming = { pauseMs: 10_000 }

interface PurgeDependencies {
  readonly state: Pick<State, 'jobs'>
  readonly objects: JobObjects
  readonly log: Logger
  readonly clock: Clock
  readonly timing?: Partial<PurgeTiming>
}

/**
 * Purges expired jobs: first they become invisible, then their objects are deleted, then their record. A purge that a
 * crash or an unreachable store interrupts is repeated.
 */
export function startPurge({ state: { jobs }, objects, log, timing, clock }: PurgeDependencies): Rounds {
  const { pauseMs } = { ...TIMING, ...timing }

  async function purge(job: Job): Promise<void> {
    try {
      await objects.removeAll(job)
      await jobs.forget(job.id)
    } catch (error) {
      log.warn({ job_id: job.id, err: error }, 'job not purged')
    }
  }

  async function round(): Promise<boolean> {
    const expired = await jobs.takeExpired(BATCH)
    await Promise.all(expired.map(purge))
    return expired.length === BATCH
  }

  const onAway = (error: unknown) =>
    log.warn({ err: error }, 'jobs cannot be purged: the state is unreachable')
  return startRounds(round, { pauseMs, clock, onAway })
}
