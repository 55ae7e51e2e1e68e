import { setTimeout as sleep } from 'node:timers/promises'
import type { Logger } from '../../log.ts'
import type { JobObjects } from '../../schema/job-objects.ts'
import type { Job } from '../../schema/jobs.ts'
import type { State } from '../../schema/state.ts'

/** Jobs that are forgotten at a time. */
const BATCH = 50

export interface PurgeTiming {
  /** Between two looks for jobs whose time is over. */
  readonly pauseMs: number
}

const TIMING: PurgeTiming = { pauseMs: 10_000 }

export interface PurgeParts {
  readonly state: Pick<State, 'jobs'>
  readonly objects: JobObjects
  readonly log: Logger
  readonly timing?: Partial<PurgeTiming>
}

export interface Purge {
  /** Resolves when the round under way is over. */
  stop(): Promise<void>
}

/**
 * Forgets jobs whose time is over: first nobody sees them any more, then their objects go, then their record. What a
 * crash or a store that is away interrupts is handed out again.
 */
export function startPurge({ state: { jobs }, objects, log, timing }: PurgeParts): Purge {
  const { pauseMs } = { ...TIMING, ...timing }
  const stopping = new AbortController()
  const { signal } = stopping
  let away = false

  async function purge(job: Job): Promise<void> {
    try {
      await objects.removeAll(job)
      await jobs.forget(job.id)
    } catch (error) {
      log.warn({ job_id: job.id, err: error }, 'job not purged')
    }
  }

  /** @returns whether more may wait */
  async function round(): Promise<boolean> {
    try {
      const expired = await jobs.takeExpired(BATCH)
      away = false
      await Promise.all(expired.map(purge))
      return expired.length === BATCH
    } catch (error) {
      if (!away) log.warn({ err: error }, 'no jobs are purged: the state is away')
      away = true
      return false
    }
  }

  async function rounds(): Promise<void> {
    while (!signal.aborted) {
      const more = await round()
      if (!more) await sleep(pauseMs, undefined, { signal, ref: false }).catch(() => {})
    }
  }

  const done = rounds()
  return {
    stop() {
      stopping.abort()
      return done
    },
  }
}
