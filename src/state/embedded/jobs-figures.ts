import type { DatabaseSync } from 'node:sqlite'
import type { JobFigures, JobKind, JobStatus, QueueMode, WaitingJobs } from '../../schema/jobs.ts'
import type { JobRow } from './jobs-rows.ts'

const KINDS: readonly JobKind[] = ['transcription', 'queue']

/** What is counted as it happens, since rows are too many to be counted when somebody asks. */
export function createJobTallies(db: DatabaseSync) {
  const countWaiting = db.prepare('UPDATE job_counters SET waiting = waiting + ?')
  const countQueued = db.prepare(`
    INSERT INTO job_queues (kind, mode, jobs) VALUES (:kind, :mode, :more)
    ON CONFLICT DO UPDATE SET jobs = jobs + :more`)
  const countEnd = db.prepare(`
    INSERT INTO job_ends (kind, status, jobs) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1`)
  return {
    /** @param more 1 for a job that waits from now on, -1 for one that does not any more; 0: nothing changes */
    waiting({ kind, mode }: Pick<JobRow, 'kind' | 'mode'>, more: number): void {
      if (more === 0) return
      countWaiting.run(more)
      countQueued.run({ kind, mode, more })
    },
    ended({ kind }: Pick<JobRow, 'kind'>, status: JobStatus): void {
      countEnd.run(kind, status)
    },
  }
}

/** The figures of `Jobs`, within a transaction of its caller. */
export function createJobFigures(db: DatabaseSync, now: () => number) {
  const queues = db.prepare('SELECT mode, jobs FROM job_queues WHERE kind = ? AND jobs > 0')
  const first = db.prepare('SELECT min(waits_from_ms) AS ms FROM jobs WHERE kind = ? AND mode = ?')
  const later = db.prepare(
    'SELECT count(*) AS jobs FROM jobs WHERE kind = ? AND mode = ? AND waits_from_ms > ?',
  )
  const ends = db.prepare('SELECT status, jobs FROM job_ends WHERE kind = ?')

  const waitingOf = (kind: JobKind, mode: QueueMode, jobs: number): WaitingJobs => {
    const nowMs = now()
    const delayed = Number(later.get(kind, mode, nowMs)?.jobs)
    const oldestMs = Math.max(0, nowMs - Number(first.get(kind, mode)?.ms))
    return { kind, mode, ready: jobs - delayed, delayed, oldestMs }
  }

  return {
    jobFigures: (): JobFigures => ({
      waiting: KINDS.flatMap((kind) =>
        queues.all(kind).map(({ mode, jobs }) => waitingOf(kind, mode as QueueMode, Number(jobs))),
      ),
      ended: KINDS.flatMap((kind) =>
        ends.all(kind).map(({ status, jobs }) => ({
          kind,
          status: status as JobStatus,
          jobs: Number(jobs),
        })),
      ),
    }),
  }
}
