import type { DatabaseSync } from 'node:sqlite'
import type { AccountView } from '../../schema/ledger.ts'
import type { Account } from './account-rows.ts'

export interface Grants {
  /**
   * Adds to the credits of the account, which is not yet saved; a negative amount takes no more than there is.
   *
   * @returns whether it was booked now; false: the id was booked before
   */
  book(account: Account, grant: { readonly id: string; readonly micros: number }, nowMs: number): boolean
  /** Whether anything was ever booked. */
  any(workspace: string): boolean
  /** In the order in which they were booked. */
  list(workspace: string): AccountView['grants']
}

/** What was booked to the credits of workspaces, each under an id of its own. */
export function createGrants(db: DatabaseSync): Grants {
  const put = db.prepare(`
    INSERT INTO grants (workspace, id, micros, booked_at_ms) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`)
  const any = db.prepare('SELECT 1 FROM grants WHERE workspace = ? LIMIT 1')
  const list = db.prepare(
    'SELECT id, micros, booked_at_ms FROM grants WHERE workspace = ? ORDER BY booked_at_ms, id',
  )
  return {
    book(account, { id, micros }, nowMs) {
      const booked = Math.max(micros, -account.creditsMicros)
      if (put.run(account.workspace, id, booked, nowMs).changes === 0) return false
      account.creditsMicros += booked
      return true
    },
    any: (workspace) => any.get(workspace) !== undefined,
    list(workspace) {
      const rows = list.all(workspace) as { id: string; micros: number; booked_at_ms: number }[]
      return rows.map(({ id, micros, booked_at_ms }) => ({ id, micros, bookedAtMs: booked_at_ms }))
    },
  }
}
