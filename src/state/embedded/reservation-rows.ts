import type { DatabaseSync } from 'node:sqlite'

export type Purse = 'trial' | 'credits' | 'none'

export interface ReservationRow {
  readonly token: string
  /** The claim of the job that holds it; 0: a call does. */
  readonly claim: number
  readonly key_id: string
  readonly purse: Purse
  readonly platform_micros: number
  readonly spend_micros: number
  readonly month: string
  readonly lease_until_ms: number
}

export interface ReservationRows {
  find(workspace: string, token: string): ReservationRow | undefined
  put(workspace: string, row: ReservationRow): void
  /** Gives it to another claim; its lease is never cut. */
  pass(workspace: string, token: string, claim: number, leaseUntilMs: number): void
  remove(workspace: string, token: string): void
  /** Up to `limit` of those whose lease is over, the oldest first. */
  listExpired(workspace: string, nowMs: number, limit: number): readonly ReservationRow[]
  /** What those hold whose lease is not over. */
  sumMicros(workspace: string, nowMs: number): number
}

/** Money that is set aside, as it is kept. */
export function createReservationRows(db: DatabaseSync): ReservationRows {
  const find = db.prepare('SELECT * FROM reservations WHERE workspace = ? AND token = ?')
  const put = db.prepare(`
    INSERT INTO reservations
      (workspace, token, claim, key_id, purse, platform_micros, spend_micros, month, lease_until_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const pass = db.prepare(`
    UPDATE reservations SET claim = ?, lease_until_ms = max(lease_until_ms, ?)
    WHERE workspace = ? AND token = ?`)
  const remove = db.prepare('DELETE FROM reservations WHERE workspace = ? AND token = ?')
  const listExpired = db.prepare(`
    SELECT * FROM reservations
    WHERE workspace = ? AND lease_until_ms <= ? ORDER BY lease_until_ms LIMIT ?`)
  const sum = db.prepare(`
    SELECT coalesce(sum(platform_micros), 0) AS micros FROM reservations
    WHERE workspace = ? AND lease_until_ms > ?`)
  return {
    find: (workspace, token) => find.get(workspace, token) as ReservationRow | undefined,
    put(workspace, row) {
      const { token, claim, key_id, purse, platform_micros, spend_micros, month, lease_until_ms } = row
      const amounts = [platform_micros, spend_micros] as const
      put.run(workspace, token, claim, key_id, purse, ...amounts, month, lease_until_ms)
    },
    pass: (workspace, token, claim, leaseUntilMs) => void pass.run(claim, leaseUntilMs, workspace, token),
    remove: (workspace, token) => void remove.run(workspace, token),
    listExpired: (workspace, nowMs, limit) =>
      listExpired.all(workspace, nowMs, limit) as unknown as ReservationRow[],
    sumMicros: (workspace, nowMs) => Number(sum.get(workspace, nowMs)?.micros),
  }
}
