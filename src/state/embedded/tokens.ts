import type { DatabaseSync } from 'node:sqlite'

/**
 * `cancelled`: a call that must not begin any more. `usage`: a batch that was counted. `charged`: a job that was paid
 * for.
 */
type Purpose = 'cancelled' | 'usage' | 'charged'

export interface Tokens {
  remember(workspace: string, token: string, purpose: Purpose, untilMs: number): void
  knows(workspace: string, token: string, purpose: Purpose, nowMs: number): boolean
  /** Forgets up to `limit` of those whose time is over. */
  purge(nowMs: number, limit: number): void
}

/** Tokens of what is done, so that it is not done again. */
export function createTokens(db: DatabaseSync): Tokens {
  const put = db.prepare(
    'INSERT OR REPLACE INTO tokens (workspace, token, purpose, until_ms) VALUES (?, ?, ?, ?)',
  )
  const find = db.prepare(
    'SELECT 1 FROM tokens WHERE workspace = ? AND token = ? AND purpose = ? AND until_ms > ?',
  )
  const purge = db.prepare(
    'DELETE FROM tokens WHERE rowid IN (SELECT rowid FROM tokens WHERE until_ms <= ? LIMIT ?)',
  )
  return {
    remember: (workspace, token, purpose, untilMs) => void put.run(workspace, token, purpose, untilMs),
    knows: (workspace, token, purpose, nowMs) => find.get(workspace, token, purpose, nowMs) !== undefined,
    purge: (nowMs, limit) => void purge.run(nowMs, limit),
  }
}
