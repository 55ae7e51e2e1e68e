import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { isDeepStrictEqual } from 'node:util'
import type { StoredKey } from '../../contracts/stored-keys.ts'
import { ownTurn } from '../../contracts/time.ts'
import { TimeSlices } from '../../contracts/time-slices.ts'

/** Memory of a table, KiB. Pages beyond it are in a temporary file, which has no name and ends with the process. */
const CACHE_KIB = 16 * 1024
/** Digits of a digest that are looked up: a number has no more bits. */
const DIGITS = 13
const BUDGETS_PAGE = 1_000

// Rows of keys are appended; only what is looked up is in an order.
const SCHEMA = `
  PRAGMA journal_mode = MEMORY;
  PRAGMA cache_size = -${CACHE_KIB};
  CREATE TABLE keys (row INTEGER PRIMARY KEY, id TEXT UNIQUE, workspace TEXT, budget INTEGER, key TEXT) STRICT;
  CREATE TABLE digests (digest INTEGER, row INTEGER, PRIMARY KEY (digest, row)) STRICT, WITHOUT ROWID;
  CREATE INDEX workspaces ON keys (workspace);
  CREATE INDEX budgets ON keys (workspace, id, budget) WHERE budget > 0;`

/** A cap of a key that calls may come with. */
export type KeyBudget = Pick<StoredKey, 'id' | 'workspace' | 'budgetMicros'>

/**
 * Keys of the state as this process knows them, outside of the heap: a million take as much memory as fifty thousand,
 * and no garbage collection goes through them.
 */
export class KeyTable {
  readonly #db: DatabaseSync
  readonly #statements = new Map<string, StatementSync>()

  /** @param isInMemory no keys go into a temporary file, however many there are */
  constructor(isInMemory = false) {
    // Most processes have no such keys, and need none of it.
    const { DatabaseSync } = process.getBuiltinModule('node:sqlite')
    this.#db = new DatabaseSync(isInMemory ? ':memory:' : '')
    this.#db.exec(SCHEMA)
  }

  close(): void {
    this.#db.close()
  }

  /** Number of all keys. It is counted. */
  get size(): number {
    return Number(this.#run('SELECT count(*) AS total FROM keys').get()?.total)
  }

  /** Number of a workspace's keys. */
  sizeOf(workspace: string): number {
    return Number(this.#run('SELECT count(*) AS total FROM keys WHERE workspace = ?').get(workspace)?.total)
  }

  /** The key with that SHA-256, or with a former one of it; none that is revoked. */
  find(sha256: string): StoredKey | undefined {
    const rows = this.#run('SELECT key FROM digests JOIN keys USING (row) WHERE digest = ?').all(
      digits(sha256),
    )
    return keysOf(rows).find((key) => key.sha256 === sha256 || key.former?.sha256 === sha256)
  }

  byId(id: string): StoredKey | undefined {
    return keysOf(this.#run('SELECT key FROM keys WHERE id = ?').all(id))[0]
  }

  /** Keys of a workspace, in no order. */
  of(workspace: string): StoredKey[] {
    return keysOf(this.#run('SELECT key FROM keys WHERE workspace = ?').all(workspace))
  }

  /** Some of the caps, by workspace and id. @param after the last of those before; null: the first ones */
  async budgets(after: KeyBudget | null): Promise<KeyBudget[]> {
    await ownTurn()
    const { workspace = '', id = '' } = after ?? {}
    return this.#run(`
      SELECT workspace, id, budget AS budgetMicros FROM keys
      WHERE budget > 0 AND (workspace, id) > (?, ?) ORDER BY workspace, id LIMIT ${BUDGETS_PAGE}
    `).all(workspace, id) as unknown as KeyBudget[]
  }

  /**
   * Puts keys in the place of those with their ids, in slices of time.
   *
   * @param replaced takes each that was another
   * @throws ERR_SQLITE_ERROR: the temporary file cannot be made, or not grow, and keys may be missing
   */
  async put(keys: readonly StoredKey[], replaced: (key: StoredKey) => void): Promise<void> {
    const slices = new TimeSlices()
    // A transaction for each statement would take twenty times as long.
    this.#db.exec('BEGIN')
    try {
      for (const [at, key] of keys.entries()) {
        if (at > 0 && slices.isOver) await slices.next()
        this.#put(key, replaced)
      }
    } finally {
      if (this.#db.isTransaction) this.#db.exec('COMMIT')
    }
  }

  /** @returns the key that was there; undefined: none */
  drop(id: string): StoredKey | undefined {
    const found = this.#run('SELECT row, key FROM keys WHERE id = ?').all(id)
    const [key] = keysOf(found)
    if (key === undefined) return undefined
    const { row = null } = found[0]!
    for (const sha256 of digestsOf(key))
      this.#run('DELETE FROM digests WHERE digest = ? AND row = ?').run(digits(sha256), row)
    this.#run('DELETE FROM keys WHERE row = ?').run(row)
    return key
  }

  #put(key: StoredKey, replaced: (key: StoredKey) => void): void {
    const { id, workspace, budgetMicros, revokedAtMs } = key
    const insert = 'INSERT INTO keys (id, workspace, budget, key) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING'
    const budget = revokedAtMs === null ? budgetMicros : null
    const { changes, lastInsertRowid } = this.#run(insert).run(id, workspace, budget, JSON.stringify(key))
    if (changes === 0) {
      const before = this.byId(id)!
      if (isDeepStrictEqual(before, key)) return
      this.drop(id)
      replaced(before)
      this.#put(key, replaced)
      return
    }
    for (const sha256 of digestsOf(key))
      this.#run('INSERT INTO digests VALUES (?, ?)').run(digits(sha256), lastInsertRowid)
  }

  #run(sql: string): StatementSync {
    const statement = this.#statements.get(sql) ?? this.#db.prepare(sql)
    this.#statements.set(sql, statement)
    return statement
  }
}

/** SHA-256 that calls come with for the key. */
function digestsOf({ sha256, former, revokedAtMs }: StoredKey): string[] {
  if (revokedAtMs !== null) return []
  return former === undefined ? [sha256] : [sha256, former.sha256]
}

const digits = (sha256: string) => Number.parseInt(sha256.slice(0, DIGITS), 16)

function keysOf(rows: readonly unknown[]): StoredKey[] {
  return (rows as readonly { readonly key: string }[]).map(({ key }) => JSON.parse(key))
}
