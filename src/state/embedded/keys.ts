import type { DatabaseSync } from 'node:sqlite'
import type { StoredKey, StoredKeys } from '../../contracts/stored-keys.ts'
import type { Operations } from './subjects.ts'

type Row = {
  readonly id: string
  readonly sha256: string
  readonly prefix: string
  readonly workspace: string
  readonly app: string
  readonly name: string
  readonly scopes: string
  readonly requests_per_minute: number | null
  readonly burst: number | null
  readonly budget_micros: number | null
  readonly expires_at_ms: number | null
  readonly created_at_ms: number
  readonly revoked_at_ms: number | null
  readonly kind: 'playground' | null
}

export function createKeys(db: DatabaseSync, now: () => number): Operations<StoredKeys> {
  const put = db.prepare(`
    INSERT INTO stored_keys (
      id, sha256, prefix, workspace, app, name, scopes, requests_per_minute, burst, budget_micros,
      expires_at_ms, created_at_ms, revoked_at_ms, kind
    ) VALUES (
      :id, :sha256, :prefix, :workspace, :app, :name, :scopes, :requestsPerMinute, :burst, :budgetMicros,
      :expiresAtMs, :createdAtMs, :revokedAtMs, :kind
    ) ON CONFLICT DO NOTHING`)
  const find = db.prepare('SELECT * FROM stored_keys WHERE id = ?')
  const list = db.prepare('SELECT * FROM stored_keys ORDER BY created_at_ms, id')
  const revoke = db.prepare('UPDATE stored_keys SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL')
  const forget = db.prepare('DELETE FROM stored_keys WHERE id = ? AND expires_at_ms <= ?')
  const version = db.prepare('SELECT version FROM keys_version')
  const raise = db.prepare('UPDATE keys_version SET version = version + 1')

  return {
    create({ rateLimit, scopes, kind, ...rest }) {
      const { requestsPerMinute, burst } = rateLimit ?? { requestsPerMinute: null, burst: null }
      const mark = kind ?? null
      const row = { ...rest, scopes: JSON.stringify(scopes), requestsPerMinute, burst, kind: mark }
      const { changes } = put.run(row)
      if (changes !== 0) raise.run()
    },

    revoke(id) {
      if (revoke.run(now(), id).changes !== 0) raise.run()
      const row = find.get(id) as Row | undefined
      return row ? keyOf(row) : null
    },

    forget: (id) => void forget.run(id, now()),

    list: () => (list.all() as Row[]).map(keyOf),

    version: () => String(version.get()?.version),
  }
}

function keyOf(row: Row): StoredKey {
  const { requests_per_minute: requestsPerMinute, burst } = row
  return {
    id: row.id,
    sha256: row.sha256,
    prefix: row.prefix,
    workspace: row.workspace,
    app: row.app,
    name: row.name,
    scopes: JSON.parse(row.scopes) as StoredKey['scopes'],
    rateLimit: requestsPerMinute === null || burst === null ? null : { requestsPerMinute, burst },
    budgetMicros: row.budget_micros,
    expiresAtMs: row.expires_at_ms,
    createdAtMs: row.created_at_ms,
    revokedAtMs: row.revoked_at_ms,
    ...(row.kind === null ? {} : { kind: row.kind }),
  }
}
