import type { DatabaseSync } from 'node:sqlite'
import type { EventClaiming, EventEnding, WebhookEvent } from '../../schema/outbox.ts'
import { beginAnew, type EventRow, type EventRows, eventOf } from './outbox-rows.ts'
import type { EventTurn, EventTurns } from './outbox-turns.ts'

interface ClaimParts {
  readonly events: EventRows
  readonly turns: EventTurns
  readonly now: () => number
}

/** The methods of `Outbox` for senders, each within a transaction of its caller. */
export function createEventClaims(db: DatabaseSync, { events, turns, now }: ClaimParts) {
  const listLeases = db.prepare(`
    SELECT next_at_ms FROM events WHERE leased = 1 AND workspace = ? AND next_at_ms > ?
    ORDER BY next_at_ms LIMIT ?`)
  const firstDue = db.prepare(`
    SELECT * FROM events WHERE workspace = ? AND next_at_ms <= ? ORDER BY next_at_ms, rowid LIMIT 1`)

  /** The workspace's next event, taken; null when it has none that may be. */
  const take = (
    { workspace, ailing }: EventTurn,
    claiming: EventClaiming,
    nowMs: number,
  ): EventRow | null => {
    const { perWorkspace, perAiling, leaseMs } = claiming
    const most = ailing ? Math.min(perAiling, perWorkspace) : perWorkspace
    const leases = listLeases.all(workspace, nowMs, most)
    if (leases.length >= most) {
      turns.rest(workspace, Number(leases[0]?.next_at_ms ?? nowMs + leaseMs))
      return null
    }
    const row = firstDue.get(workspace, nowMs) as EventRow | undefined
    if (row) {
      row.attempts = row.again === 1 ? 1 : row.attempts + 1
      row.again = 0
      row.leased = 1
      row.next_at_ms = nowMs + leaseMs
      events.save(row)
    }
    turns.pass(workspace, nowMs)
    return row ?? null
  }

  return {
    claimEvents(claiming: EventClaiming): WebhookEvent[] {
      const nowMs = now()
      const claimed: WebhookEvent[] = []
      while (claimed.length < claiming.limit) {
        const turn = turns.first(nowMs)
        if (!turn) break
        const row = take(turn, claiming, nowMs)
        if (row) claimed.push(eventOf(row))
      }
      return claimed
    },

    endEvent({ jobId, attempts }: Pick<WebhookEvent, 'jobId' | 'attempts'>, ending: EventEnding): boolean {
      const row = events.find(jobId)
      if (row?.attempts !== attempts) return false
      // Ended so before: the answer may have been lost.
      if (row.leased === 0)
        return attempts > 0 && ending.state === (row.next_at_ms === null ? 'given_up' : 'retry')
      const nowMs = now()
      settle(events, row, ending, nowMs)
      turns.note(row.workspace, ending.state === 'retry' || ending.state === 'given_up')
      turns.settle(row.workspace, nowMs)
      return true
    },
  }
}

function settle(events: EventRows, row: EventRow, ending: EventEnding, nowMs: number): void {
  if (row.again === 1) beginAnew(row, nowMs)
  else if (ending.state === 'delivered' || ending.state === 'dropped') {
    events.remove(row)
    return
  } else {
    row.leased = 0
    row.reason = ending.reason
    row.next_at_ms = ending.state === 'retry' ? nowMs + ending.delayMs : null
    row.kept_until_ms = ending.state === 'retry' ? null : nowMs + ending.keepMs
  }
  events.save(row)
}
