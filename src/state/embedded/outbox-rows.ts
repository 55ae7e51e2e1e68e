import type { DatabaseSync } from 'node:sqlite'
import type { EventView, WebhookEvent } from '../../schema/outbox.ts'
import type { JobRow } from './jobs-rows.ts'
import type { EventTurns } from './outbox-turns.ts'

/** A row of the table `events`, to be changed and saved. */
export type EventRow = {
  readonly id: string
  readonly job_id: string
  readonly workspace: string
  readonly status: WebhookEvent['status']
  readonly occurred_at_ms: number
  attempts: number
  next_at_ms: number | null
  leased: number
  again: number
  kept_until_ms: number | null
  reason: string | null
}

export interface EventRows {
  /** Writes the event of a job's end, due now; nothing for a job that sends none. */
  announce(job: JobRow, status: WebhookEvent['status'], nowMs: number): void
  find(jobId: string): EventRow | undefined
  save(row: EventRow): void
  remove(row: EventRow): void
  /** Forgets up to `limit` events that were given up long ago. */
  purge(nowMs: number, limit: number): void
}

export function createEventRows(db: DatabaseSync, turns: EventTurns): EventRows {
  const put = db.prepare(`
    INSERT INTO events (
      id, job_id, workspace, status, occurred_at_ms, attempts, next_at_ms, leased, again
    ) VALUES (:id, :jobId, :workspace, :status, :occurredAtMs, 0, :nowMs, 0, 0)`)
  const find = db.prepare('SELECT * FROM events WHERE job_id = ?')
  const save = db.prepare(`
    UPDATE events SET
      attempts = :attempts, next_at_ms = :next_at_ms, leased = :leased, again = :again,
      kept_until_ms = :kept_until_ms, reason = :reason
    WHERE job_id = :job_id`)
  // Fields of a row that do not change have no place in the statement.
  save.setAllowUnknownNamedParameters(true)
  const purge = db.prepare(`
    DELETE FROM events WHERE rowid IN (SELECT rowid FROM events WHERE kept_until_ms <= ? LIMIT ?)`)
  const remove = db.prepare('DELETE FROM events WHERE job_id = ?')

  return {
    announce({ event_id: id, id: jobId, workspace, ended_at_ms }, status, nowMs) {
      if (id === null) return
      put.run({ id, jobId, workspace, status, occurredAtMs: ended_at_ms, nowMs })
      turns.settle(workspace, nowMs)
    },
    find: (jobId) => find.get(jobId) as EventRow | undefined,
    save: (row) => void save.run(row),
    remove: ({ job_id }) => void remove.run(job_id),
    purge: (nowMs, limit) => void purge.run(nowMs, limit),
  }
}

export function eventOf(row: EventRow): WebhookEvent {
  return {
    id: row.id,
    jobId: row.job_id,
    workspace: row.workspace,
    status: row.status,
    occurredAtMs: row.occurred_at_ms,
    attempts: row.attempts,
  }
}

export function eventViewOf(row: EventRow): EventView {
  return { ...eventOf(row), nextAttemptAtMs: row.next_at_ms, reason: row.reason }
}

/** From its first attempt on, now. */
export function beginAnew(row: EventRow, nowMs: number): void {
  row.attempts = 0
  row.next_at_ms = nowMs
  row.leased = 0
  row.again = 0
  row.kept_until_ms = null
  row.reason = null
}
