import type { DatabaseSync } from 'node:sqlite'
import type { EventView } from '../../schema/outbox.ts'
import type { JobRows } from './jobs-rows.ts'
import { beginAnew, type EventRow, type EventRows, eventViewOf } from './outbox-rows.ts'
import type { EventTurns } from './outbox-turns.ts'

/** Most events in one list. */
const LIST_MAX = 1000

interface OutboxParts {
  readonly jobs: JobRows
  readonly events: EventRows
  readonly turns: EventTurns
  readonly now: () => number
}

/** The methods of `Outbox` for operators, each within a transaction of its caller. */
export function createOutbox(db: DatabaseSync, { jobs, events, turns, now }: OutboxParts) {
  const list = db.prepare(`
    SELECT * FROM events
    WHERE (:workspace IS NULL OR workspace = :workspace)
      AND (kept_until_ms IS NULL OR kept_until_ms > :nowMs)
    ORDER BY occurred_at_ms DESC, rowid DESC LIMIT :limit`)

  return {
    listEvents(workspace: string | null, limit: number): EventView[] {
      const rows = list.all({ workspace, limit: Math.min(limit, LIST_MAX), nowMs: now() }) as EventRow[]
      return rows.map(eventViewOf)
    },

    redeliverEvent(jobId: string): boolean {
      const nowMs = now()
      const job = jobs.visible(jobId, nowMs)
      if (!job || job.event_id === null) return false
      const { status } = job
      if (status === 'queued' || status === 'processing') return false
      const row = events.find(jobId)
      if (!row) events.announce(job, status, nowMs)
      else {
        // One that is on its way is not sent a second time meanwhile.
        if (row.leased === 1) row.again = 1
        else beginAnew(row, nowMs)
        events.save(row)
        turns.settle(row.workspace, nowMs)
      }
      return true
    },
  }
}
