import type { DatabaseSync } from 'node:sqlite'
import type { UnitRates } from '../../../contracts/rate-limit.ts'
import type { FormerKey, StoredKey, StoredKeys } from '../../../contracts/stored-keys.ts'
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
  readonly former: string | null
  readonly unit_rates: string | null
}

export function createKeys(db: DatabaseSync, now: () => number): Operations<StoredKeys> {
  const put = db.prepare(`
    INSERT INTO stored_keys (
      id, sha256, prefix, workspace, app, name, scopes, requests_per_minute, burst, budget_micros,
      expires_at_ms, created_at_ms, revoked_at_ms, kind, former, unit_rates
    ) VALUES (
      :id, :sha256, :prefix, :workspace, :app, :name, :scopes, :requestsPerMinute, :burst, :budgetMicros,
      :expiresAtMs, :createdAtMs, :revokedAtMs, :kind, :former, :unitRates
    ) ON CONFLICT DO NOTHING`)
  const replace = db.prepare(`
    UPDATE stored_keys SET
      sha256 = :sha256, prefix = :prefix, app = :app, name = :name, scopes = :scopes,
      requests_per_minute = :requestsPerMinute, burst = :burst, budget_micros = :budgetMicros,
      expires_at_ms = :expiresAtMs, former = :former, unit_rates = :unitRates
    WHERE id = :id AND EXISTS (SELECT 1 FROM keys_version WHERE version = :version)`)
  const find = db.prepare('SELECT * FROM stored_keys WHERE id = ?')
  const list = db.prepare('SELECT * FROM stored_keys ORDER BY created_at_ms, id')
  const revoke = db.prepare('UPDATE stored_keys SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL')
  const forget = db.prepare('DELETE FROM stored_keys WHERE id = ? AND expires_at_ms <= ?')
  const version = db.prepare('SELECT version FROM keys_version')
  const raise = db.prepare('UPDATE keys_version SET version = version + 1')

  return {
    create({ workspace, createdAtMs, revokedAtMs, kind, ...key }) {
      const row = { ...keyColumns(key), workspace, createdAtMs, revokedAtMs, kind: kind ?? null }
      if (put.run(row).changes !== 0) raise.run()
    },

    replace(key, version) {
      const isReplaced = replace.run({ ...keyColumns(key), version: Number(version) }).changes !== 0
      if (isReplaced) raise.run()
      return isReplaced
    },

    revoke(id) {
      if (revoke.run(now(), id).changes !== 0) raise.run()
      const row = find.get(id) as Row | undefined
      return row ? rowKey(row) : null
    },

    forget: (id) => void forget.run(id, now()),

    list: () => (list.all() as Row[]).map(rowKey),

    version: () => String(version.get()?.version),
  }
}

/** Columns that can change. */
function keyColumns(key: Omit<StoredKey, 'workspace' | 'createdAtMs' | 'revokedAtMs' | 'kind'>) {
  const { id, sha256, prefix, app, name, scopes, rateLimit, budgetMicros, expiresAtMs, former } = key
  const { requestsPerMinute = null, burst = null, ...rates } = rateLimit ?? {}
  return {
    ...{ id, sha256, prefix, app, name, scopes: JSON.stringify(scopes) },
    ...{ requestsPerMinute, burst, budgetMicros, expiresAtMs },
    former: former === undefined ? null : JSON.stringify(former),
    unitRates: Object.keys(rates).length === 0 ? null : JSON.stringify(rates),
  }
}

function rowKey(row: Row): StoredKey {
  const { requests_per_minute: requestsPerMinute, burst, unit_rates: rates } = row
  return {
    id: row.id,
    sha256: row.sha256,
    prefix: row.prefix,
    workspace: row.workspace,
    app: row.app,
    name: row.name,
    scopes: JSON.parse(row.scopes) as StoredKey['scopes'],
    rateLimit:
      requestsPerMinute === null || burst === null
        ? null
        : { requestsPerMinute, burst, ...(rates === null ? {} : (JSON.parse(rates) as UnitRates)) },
    budgetMicros: row.budget_micros,
    expiresAtMs: row.expires_at_ms,
    createdAtMs: row.created_at_ms,
    revokedAtMs: row.revoked_at_ms,
    ...(row.kind === null ? {} : { kind: row.kind }),
    ...(row.former === null ? {} : { former: JSON.parse(row.former) as FormerKey }),
  }
}
