import { createPurge, type StateDatabase } from './database.ts'

/**
 * `cancelled`: a call that must not begin any more. `usage`: a batch that was counted. `charged`: a job that was paid
 * for.
 */
type Purpose = 'cancelled' | 'usage' | 'charged'

export interface Tokens {
  remember(workspace: string, token: string, purpose: Purpose, untilMs: number): void
  knows(workspace: string, token: string, purpose: Purpose, nowMs: number): boolean
  /** Deletes up to `limit` of those that need not be known any more. */
  purge(nowMs: number, limit: number): void
}

/** Remembers by their tokens what was done, so that it is not done again. */
export function createTokens(db: StateDatabase): Tokens {
  const put = db.prepare(
    'INSERT OR REPLACE INTO tokens (workspace, token, purpose, until_ms) VALUES (?, ?, ?, ?)',
  )
  const find = db.prepare(
    'SELECT 1 FROM tokens WHERE workspace = ? AND token = ? AND purpose = ? AND until_ms > ?',
  )
  return {
    remember: (workspace, token, purpose, untilMs) => void put.run(workspace, token, purpose, untilMs),
    knows: (workspace, token, purpose, nowMs) => find.get(workspace, token, purpose, nowMs) !== undefined,
    purge: createPurge(db, 'tokens', 'until_ms'),
  }
}
