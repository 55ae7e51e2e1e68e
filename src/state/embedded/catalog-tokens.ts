import type { DatabaseSync } from 'node:sqlite'

/** How long a change may be sent again. */
const KNOWN_MS = 600_000

type Purpose = 'change' | 'note'

export type CatalogTokens = ReturnType<typeof createCatalogTokens>

/** What was done by its token, so that it is done once, with what it was answered. */
export function createCatalogTokens(db: DatabaseSync) {
  const find = db.prepare(
    'SELECT answer FROM catalog_tokens WHERE purpose = ? AND token = ? AND until_ms > ?',
  )
  const put = db.prepare(
    'INSERT OR REPLACE INTO catalog_tokens (purpose, token, answer, until_ms) VALUES (?, ?, ?, ?)',
  )
  const purge = db.prepare(
    'DELETE FROM catalog_tokens WHERE rowid IN (SELECT rowid FROM catalog_tokens WHERE until_ms <= ? LIMIT ?)',
  )
  return {
    /** Runs `work` unless it was run with this token. @returns what it answered then or now */
    once(purpose: Purpose, token: string, nowMs: number, work: () => string): string {
      const known = find.get(purpose, token, nowMs)
      if (known) return String(known.answer)
      const answer = work()
      put.run(purpose, token, answer, nowMs + KNOWN_MS)
      return answer
    },
    /** Forgets up to `limit` of those whose time is over. */
    purge: (nowMs: number, limit: number) => void purge.run(nowMs, limit),
  }
}
