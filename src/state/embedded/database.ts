import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** How long a write waits for another process that writes; less than the answers have, so that they can say why. */
const BUSY_MS = 1_500
/** What the write-ahead log is cut to after a checkpoint; a burst would else leave it large for ever. */
const WAL_BYTES = 16 * 1024 * 1024

/**
 * What makes each format of the file out of the one before; `user_version` counts them. A step that was released is
 * never changed: files exist that took it.
 */
const MIGRATIONS: readonly string[] = [
  `
  -- A slot is free when there is no row, or its row is of the past. A running one whose lease is over is burned.
  CREATE TABLE slots (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    state TEXT NOT NULL CHECK (state IN ('running', 'stored', 'burned')),
    token TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    result TEXT,
    PRIMARY KEY (workspace, id)
  ) STRICT;
  CREATE INDEX slots_by_expiry ON slots (expires_at_ms);

  -- Tokens that must be remembered: of calls that were cancelled, and of batches of usage that were counted.
  CREATE TABLE tokens (
    workspace TEXT NOT NULL,
    token TEXT NOT NULL,
    purpose TEXT NOT NULL CHECK (purpose IN ('cancelled', 'usage')),
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, token, purpose)
  ) STRICT;
  CREATE INDEX tokens_by_end ON tokens (until_ms);

  CREATE TABLE accounts (
    workspace TEXT PRIMARY KEY,
    credits_micros INTEGER NOT NULL,
    trial_spent_micros INTEGER NOT NULL,
    overage_micros INTEGER NOT NULL,
    expired_count INTEGER NOT NULL,
    expired_micros INTEGER NOT NULL,
    month TEXT NOT NULL,
    spent_micros INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;

  -- What a key has spent in the last month in which it spent anything.
  CREATE TABLE key_spending (
    workspace TEXT NOT NULL,
    key_id TEXT NOT NULL,
    month TEXT NOT NULL,
    spent_micros INTEGER NOT NULL,
    PRIMARY KEY (workspace, key_id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE grants (
    workspace TEXT NOT NULL,
    id TEXT NOT NULL,
    micros INTEGER NOT NULL,
    booked_at_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, id)
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE reservations (
    workspace TEXT NOT NULL,
    token TEXT NOT NULL,
    key_id TEXT NOT NULL,
    purse TEXT NOT NULL CHECK (purse IN ('trial', 'credits', 'none')),
    platform_micros INTEGER NOT NULL,
    spend_micros INTEGER NOT NULL,
    month TEXT NOT NULL,
    lease_until_ms INTEGER NOT NULL,
    PRIMARY KEY (workspace, token)
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX reservations_by_lease ON reservations (workspace, lease_until_ms);

  CREATE TABLE stored_keys (
    id TEXT PRIMARY KEY,
    sha256 TEXT NOT NULL,
    prefix TEXT NOT NULL,
    workspace TEXT NOT NULL,
    app TEXT NOT NULL,
    name TEXT NOT NULL,
    scopes TEXT NOT NULL,
    requests_per_minute REAL,
    burst REAL,
    budget_micros INTEGER,
    expires_at_ms INTEGER,
    created_at_ms INTEGER NOT NULL,
    revoked_at_ms INTEGER
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE keys_version (version INTEGER NOT NULL) STRICT;
  INSERT INTO keys_version VALUES (0);

  CREATE TABLE audio_url_domains (
    workspace TEXT PRIMARY KEY,
    domains TEXT NOT NULL
  ) STRICT, WITHOUT ROWID;

  CREATE TABLE webhooks (
    workspace TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    secret TEXT NOT NULL,
    created_at_ms INTEGER NOT NULL,
    previous_secret TEXT,
    previous_until_ms INTEGER
  ) STRICT, WITHOUT ROWID;
  `,
]

/**
 * Opens the state's file, and makes it when there is none.
 *
 * @param file a path, or `:memory:`
 * @throws Error that says which file it is and what is wrong with it
 */
export function openDatabase(file: string): DatabaseSync {
  try {
    if (file !== ':memory:') makeFile(file)
    const db = new DatabaseSync(file, { enableForeignKeyConstraints: false })
    try {
      prepare(db)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  } catch (error) {
    throw new Error(`the state in ${file} cannot be opened: ${reasonOf(error)}`, { cause: error })
  }
}

/** Readable by nobody else: transcripts stand in it, and hashes of keys. SQLite gives its log the same mode. */
function makeFile(file: string): void {
  mkdirSync(dirname(file), { recursive: true })
  closeSync(openSync(file, 'a', 0o600))
}

function prepare(db: DatabaseSync): void {
  db.exec(`
    PRAGMA busy_timeout = ${BUSY_MS};
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    PRAGMA journal_size_limit = ${WAL_BYTES};
  `)
  if (formatOf(db) === MIGRATIONS.length) return
  // Two processes may open a new file at the same moment: the second one waits here, and finds it done.
  db.exec('BEGIN IMMEDIATE')
  try {
    migrate(db)
    db.exec('COMMIT')
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

function migrate(db: DatabaseSync): void {
  const format = formatOf(db)
  if (format > MIGRATIONS.length)
    throw new Error(
      `a newer version of Larkway wrote it (format ${format}, this one knows up to ${MIGRATIONS.length})`,
    )
  for (const step of MIGRATIONS.slice(format)) db.exec(step)
  db.exec(`PRAGMA user_version = ${MIGRATIONS.length}`)
}

function formatOf(db: DatabaseSync): number {
  return Number(db.prepare('PRAGMA user_version').get()?.user_version)
}

function reasonOf(error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error)
  return reason === 'file is not a database' ? 'it is not a SQLite database' : reason
}
