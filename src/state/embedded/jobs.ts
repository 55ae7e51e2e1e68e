import type { DatabaseSync } from 'node:sqlite'
import type { Job, JobOwner, JobSubmission, KnownJob, Retention, Submitted } from '../../schema/jobs.ts'
import type { ReadyLists } from './jobs-ready.ts'
import type { JobRows } from './jobs-rows.ts'
import type { JobSlots } from './jobs-slots.ts'
import type { JobSteps } from './jobs-steps.ts'

interface JobParts {
  readonly rows: JobRows
  readonly ready: ReadyLists
  readonly steps: JobSteps
  readonly slots: JobSlots
  readonly now: () => number
}

/** The methods of `Jobs` for callers, each within a transaction of its caller. */
export function createJobs(db: DatabaseSync, { rows, ready, steps, slots, now }: JobParts) {
  const waiting = db.prepare('SELECT waiting FROM job_counters')

  const viewOf = (id: string): Job | null => {
    const row = rows.visible(id, now())
    return row && rows.view(row)
  }
  const accepted = (id: string, replayed: boolean): Submitted => ({
    state: 'accepted',
    replayed,
    job: viewOf(id),
    id,
  })

  return {
    submitJob(submission: JobSubmission): Submitted {
      const nowMs = now()
      const { spec, slot } = submission
      const before = slot && slots.find(spec.workspace, slot.id, nowMs)
      if (before && before.fingerprint !== slot.fingerprint) return { state: 'reused' }
      // The very submission that made the slot comes again when its answer was lost: that is no replay.
      if (before) return accepted(before.jobId, before.jobId !== spec.id)
      if (rows.find(spec.id)) return accepted(spec.id, false)
      steps.admit(rows.insert(submission, ready.lastPlace(), nowMs), nowMs)
      if (slot) slots.put(spec.workspace, slot, spec.id, nowMs)
      return accepted(spec.id, false)
    },

    getJob: viewOf,

    cancelJob(id: string, { workspace, app }: JobOwner, keep: Retention): Job | null {
      const row = rows.visible(id, now())
      if (!row || row.workspace !== workspace || row.app !== app) return null
      if (row.status === 'queued') steps.finish(row, { state: 'cancelled', facts: null }, keep, now())
      else if (row.status === 'processing' && row.cancel_requested === 0) {
        row.cancel_requested = 1
        rows.save(row)
      }
      return rows.view(row)
    },

    knownJobs: (ids: readonly string[]): Map<string, KnownJob> =>
      new Map(
        ids.flatMap((id) => {
          const row = rows.find(id)
          return row === undefined ? [] : [[id, rows.known(row)] as const]
        }),
      ),

    waitingJobs: (): number => Number(waiting.get()?.waiting),
  }
}
