import type { DatabaseSync } from 'node:sqlite'
import type { JobSubmission } from '../../schema/jobs.ts'
import type { JobRow } from './jobs-rows.ts'

type Slot = NonNullable<JobSubmission['slot']>

/** What is remembered of a submission with an idempotency key. */
export interface JobSlot {
  readonly fingerprint: string
  readonly jobId: string
}

export interface JobSlots {
  find(workspace: string, id: string, nowMs: number): JobSlot | null
  put(workspace: string, slot: Slot, jobId: string, nowMs: number): void
  /** The record of its job is gone: from now on the slot lives no longer than it must. */
  leave(row: JobRow): void
  /** Forgets up to `limit` slots whose time is over. */
  purge(nowMs: number, limit: number): void
}

/** Idempotency keys of submissions, each kept for a time of its own and as long as the record of its job. */
export function createJobSlots(db: DatabaseSync): JobSlots {
  const find = db.prepare(`
    SELECT fingerprint, job_id AS jobId FROM job_slots
    WHERE workspace = ? AND id = ? AND (free_at_ms IS NULL OR free_at_ms > ?)`)
  const put = db.prepare(`
    INSERT OR REPLACE INTO job_slots (workspace, id, fingerprint, job_id, keep_until_ms)
    VALUES (?, ?, ?, ?, ?)`)
  const leave = db.prepare(`
    UPDATE job_slots SET free_at_ms = keep_until_ms WHERE workspace = ? AND id = ? AND job_id = ?`)
  const purge = db.prepare(`
    DELETE FROM job_slots WHERE rowid IN (SELECT rowid FROM job_slots WHERE free_at_ms <= ? LIMIT ?)`)
  return {
    find: (workspace, id, nowMs) => (find.get(workspace, id, nowMs) as JobSlot | undefined) ?? null,
    put: (workspace, { id, fingerprint, keepMs }, jobId, nowMs) =>
      void put.run(workspace, id, fingerprint, jobId, nowMs + keepMs),
    leave: ({ workspace, slot_id, id }) => void leave.run(workspace, slot_id, id),
    purge: (nowMs, limit) => void purge.run(nowMs, limit),
  }
}
