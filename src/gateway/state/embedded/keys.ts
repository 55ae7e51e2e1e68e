import type { UnitRates } from '../../../contracts/rate-limit.ts'
import type { FormerKey, StoredKey, StoredKeys } from '../../../contracts/stored-keys.ts'
import type { StateDatabase } from './database.ts'
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

/** Keys of a page: some milliseconds of this thread, for which everything else waits. */
const PAGE = 1_000
/** Changes that are told one by one: where there are more, pages do less harm. */
const CHANGES_MAX = 5_000

export function createKeys(db: StateDatabase, now: () => number): Operations<StoredKeys> {
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
  const page = db.prepare(`SELECT * FROM stored_keys WHERE id > ? ORDER BY id LIMIT ${PAGE}`)
  const count = db.prepare('SELECT count(*) AS total FROM stored_keys')
  const since = db.prepare(`SELECT * FROM stored_keys WHERE version > ? LIMIT ${CHANGES_MAX + 1}`)
  const revoke = db.prepare('UPDATE stored_keys SET revoked_at_ms = ? WHERE id = ? AND revoked_at_ms IS NULL')
  const forget = db.prepare('DELETE FROM stored_keys WHERE id = ? AND expires_at_ms <= ?')
  const version = db.prepare('SELECT version FROM keys_version')
  const raise = db.prepare('UPDATE keys_version SET version = version + 1')
  const mark = db.prepare('UPDATE stored_keys SET version = (SELECT version FROM keys_version) WHERE id = ?')
  const readVersion = () => String(version.get()?.version)
  const changed = (id: string, { changes }: { readonly changes: number | bigint }): boolean => {
    if (changes === 0) return false
    raise.run()
    mark.run(id)
    return true
  }

  return {
    create({ workspace, createdAtMs, revokedAtMs, kind, ...key }) {
      const row = { ...keyColumns(key), workspace, createdAtMs, revokedAtMs, kind: kind ?? null }
      changed(key.id, put.run(row))
    },

    replace(key, version) {
      return changed(key.id, replace.run({ ...keyColumns(key), version: Number(version) }))
    },

    revoke(id) {
      changed(id, revoke.run(now(), id))
      return rowsOf(find.all(id))[0] ?? null
    },

    forget: (id) => void forget.run(id, now()),

    list: () => rowsOf(list.all()),

    page(from) {
      const keys = rowsOf(page.all(from ?? ''))
      if (keys.length === PAGE) return { keys, next: keys[PAGE - 1]!.id, total: null }
      return { keys, next: null, total: Number(count.get()?.total) }
    },

    changes(version) {
      // Before the keys: a change in between is then told once more, and never left out.
      const now = readVersion()
      const keys = rowsOf(since.all(Number(version)))
      return keys.length > CHANGES_MAX ? null : { keys, version: now }
    },

    version: readVersion,
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

/** Keys of rows as SQLite gives them. */
function rowsOf(rows: unknown): StoredKey[] {
  // One array for all that are equal goes to the other thread as one.
  const scopes = new Map<string, StoredKey['scopes']>()
  const scopesOf = (json: string) => {
    const some = scopes.get(json) ?? (JSON.parse(json) as StoredKey['scopes'])
    scopes.set(json, some)
    return some
  }
  return (rows as Row[]).map((row) => rowKey(row, scopesOf))
}

function rowKey(row: Row, scopesOf: (json: string) => StoredKey['scopes']): StoredKey {
  const { requests_per_minute: requestsPerMinute, burst, unit_rates: rates } = row
  return {
    id: row.id,
    sha256: row.sha256,
    prefix: row.prefix,
    workspace: row.workspace,
    app: row.app,
    name: row.name,
    scopes: scopesOf(row.scopes),
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
