import type { DatabaseSync } from 'node:sqlite'
import { JOB_STATUSES, type Job, type JobFilter, type JobKind } from '../../schema/jobs.ts'
import type { ReadyLists } from './jobs-ready.ts'
import type { JobRows } from './jobs-rows.ts'
import type { JobSlots } from './jobs-slots.ts'
import type { JobSteps } from './jobs-steps.ts'

/** How long whoever purges an expired job has, before it is handed out again. */
const PURGE_MS = 5 * 60_000
/** Most jobs in one list: they are held in memory at once, with what they are to do and what came of it. */
const LIST_MAX = 1000
const KINDS: readonly JobKind[] = ['transcription', 'queue']

interface RecordParts {
  readonly rows: JobRows
  readonly ready: ReadyLists
  readonly steps: JobSteps
  readonly slots: JobSlots
  readonly now: () => number
}

/** The methods of `Jobs` for operators and for the purge, each within a transaction of its caller. */
export function createJobRecords(db: DatabaseSync, { rows, ready, steps, slots, now }: RecordParts) {
  const listExpired = db.prepare(
    'SELECT number FROM jobs WHERE purge_at_ms <= ? ORDER BY purge_at_ms LIMIT ?',
  )
  const list = db.prepare(`
    SELECT number FROM jobs WHERE marked = 0 AND kind = :kind AND status = :status
      AND (:workspace IS NULL OR workspace = :workspace)
      AND (expires_at_ms IS NULL OR expires_at_ms > :nowMs)
    ORDER BY number DESC LIMIT :limit`)

  return {
    takeExpiredJobs(limit: number): Job[] {
      const nowMs = now()
      const expired = listExpired.all(nowMs, limit).map(({ number }) => rows.at(Number(number)))
      for (const row of expired) {
        row.marked = 1
        row.purge_at_ms = nowMs + PURGE_MS
        rows.save(row)
      }
      return rows.viewAll(expired)
    },

    forgetJob(id: string): void {
      const row = rows.find(id)
      if (row?.marked !== 1) return
      rows.remove(row)
      slots.leave(row)
    },

    listJobs({ workspace, kind, status, limit }: JobFilter): Job[] {
      const most = Math.min(limit, LIST_MAX)
      // The newest of each kind and status, for which there is an index, and of these the newest.
      const numbers = (kind ? [kind] : KINDS).flatMap((kind) =>
        (status ? [status] : JOB_STATUSES).flatMap((status) =>
          list
            .all({ kind, status, workspace, nowMs: now(), limit: most })
            .map(({ number }) => Number(number)),
        ),
      )
      const newest = numbers.sort((a, b) => b - a).slice(0, most)
      return rows.viewAll(newest.map(rows.at))
    },

    retryJob(id: string): boolean {
      const row = rows.visible(id, now())
      if (row?.kind !== 'queue' || row.status !== 'failed') return false
      row.ended_at_ms = null
      row.expires_at_ms = null
      row.purge_at_ms = null
      row.cancel_requested = 0
      row.strays = 0
      row.retries = 0
      row.returns = 0
      row.ending = null
      row.error = null
      row.facts = null
      row.place = ready.lastPlace()
      steps.requeue(row, now())
      return true
    },
  }
}
