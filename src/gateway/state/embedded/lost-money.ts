import { LOST_AT_ONCE, LOST_KEPT_MS, type LostMoney } from '../../../contracts/ledger.ts'
import type { StateDatabase } from './database.ts'

/** The charge for a node that died. */
export interface LostRow {
  readonly token: string
  readonly recorded: 0 | 1
  /** Whether the records of its node were read. */
  readonly recovered: 0 | 1
  readonly purse: 'trial' | 'credits' | 'none'
  readonly platform_micros: number
  readonly spend_micros: number
  readonly month: string
  readonly key_id: string
  readonly end_user: string | null
  readonly at_ms: number
}

export interface LostRows {
  find(workspace: string, token: string): LostRow | undefined
  put(workspace: string, row: LostRow): void
  remove(workspace: string, token: string): void
  /** Those to be recorded, the oldest first. Forgets what is of no more account. */
  list(workspace: string, nowMs: number): readonly LostMoney[]
  recorded(workspace: string, money: LostMoney): void
}

const IS_DUE = 'recorded = 0 AND (recovered = 1 OR spend_micros > 0)'

export function createLostRows(db: StateDatabase): LostRows {
  const find = db.query<LostRow>('SELECT * FROM lost_money WHERE workspace = ? AND token = ?')
  const put = db.prepare(`
    INSERT OR REPLACE INTO lost_money (workspace, token, recorded, recovered, purse, platform_micros,
      spend_micros, month, key_id, end_user, at_ms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`)
  const remove = db.prepare('DELETE FROM lost_money WHERE workspace = ? AND token = ?')
  const forget = db.prepare(`DELETE FROM lost_money WHERE workspace = ? AND at_ms < ? AND NOT (${IS_DUE})`)
  const list = db.query<LostMoney>(`
    SELECT token, key_id AS keyId, end_user AS endUser, spend_micros AS spendMicros, at_ms AS atMs FROM lost_money
    WHERE workspace = ? AND ${IS_DUE} ORDER BY at_ms LIMIT ${LOST_AT_ONCE}`)
  const note = db.prepare(`
    UPDATE lost_money SET recorded = 1 WHERE workspace = ? AND token = ? AND spend_micros = ?`)
  return {
    find: (workspace, token) => find.get(workspace, token),
    put(workspace, row) {
      const { token, recorded, recovered, purse, month, key_id, end_user, at_ms } = row
      const amounts = [row.platform_micros, row.spend_micros] as const
      put.run(workspace, token, recorded, recovered, purse, ...amounts, month, key_id, end_user, at_ms)
    },
    remove: (workspace, token) => void remove.run(workspace, token),
    list(workspace, nowMs) {
      forget.run(workspace, nowMs - LOST_KEPT_MS)
      return list.all(workspace)
    },
    recorded: (workspace, { token, spendMicros }) => void note.run(workspace, token, spendMicros),
  }
}
