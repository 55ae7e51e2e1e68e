import { createPurge, type StateDatabase } from './database.ts'

/** The spending of end users in a month. Rows are made when something is counted, and purged after the month. */
export interface EndUserSpending {
  /** Micro-USD in the month, reservations included. */
  spentBy(workspace: string, account: string, month: string): number
  /** Counts; a negative amount is taken back. @returns what is spent then */
  spend(workspace: string, account: string, month: string, micros: number, nowMs: number): number
  /** Deletes up to `limit` rows of months that are over. */
  purge(nowMs: number, limit: number): void
}

/** Longer than a month, so that no row goes within its own. */
const KEPT_MS = 32 * 24 * 3_600_000

export function createEndUserSpending(db: StateDatabase): EndUserSpending {
  const find = db.query<{ readonly spent_micros: number }>(
    'SELECT spent_micros FROM end_user_spending WHERE workspace = ? AND account = ? AND month = ?',
  )
  const put = db.prepare(`
    INSERT OR REPLACE INTO end_user_spending (workspace, account, month, spent_micros, expires_at_ms)
    VALUES (?, ?, ?, ?, ?)`)
  const spentBy = (workspace: string, account: string, month: string) =>
    find.get(workspace, account, month)?.spent_micros ?? 0
  return {
    spentBy,
    spend(workspace, account, month, micros, nowMs) {
      const spentMicros = spentBy(workspace, account, month) + micros
      if (micros !== 0) put.run(workspace, account, month, spentMicros, nowMs + KEPT_MS)
      return spentMicros
    },
    purge: createPurge(db, 'end_user_spending', 'expires_at_ms'),
  }
}
