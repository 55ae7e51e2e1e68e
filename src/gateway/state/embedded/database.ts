import { closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { type Clock, systemClock } from '../../../contracts/time.ts'
import { copyState, removeOldCopies } from './copies.ts'
import { MIGRATIONS, READABLE_SINCE } from './migrations.ts'

/** Longest that a write waits for another process; shorter than callers wait, so that they still learn the reason. */
const BUSY_MS = 8_000
/** How often it looks meanwhile. More often makes processes take turns so often that they write a fifth less. */
const LOOK_MS = 2
/** Longest that a start waits for a process that makes the file, which may take longer than a write. */
const OPEN_MS = 10_000
/** SQLite's code for a file that another process has; the rest of a code only refines it. */
const BUSY = 5
/** Never written. */
const NEVER = new Int32Array(new SharedArrayBuffer(4))
/**
 * Size that the write-ahead log is cut to after a checkpoint: a burst would else leave it large for ever. A checkpoint
 * comes when it is that long: pages that change all the time are copied once for all of it. SQLite's own 4 MiB cost a
 * job 6 % more.
 */
const WAL_BYTES = 16 * 1024 * 1024
const PAGE_BYTES = 4096

interface OpenOptions {
  /** Longest that a write waits for another process. */
  readonly busyMs?: number | undefined
  /** Called with the path of the copy that is made of the file before a migration. */
  readonly onCopied?: (path: string) => void
  readonly clock?: Clock
}

/**
 * Opens the state's file, and makes it when there is none.
 *
 * @param file a path, or `:memory:`
 * @throws Error that says which file it is and what is wrong with it
 */
export function openDatabase(
  file: string,
  { busyMs = BUSY_MS, onCopied = () => {}, clock = systemClock }: OpenOptions = {},
): StateDatabase {
  try {
    if (file !== ':memory:') makeFile(file)
    const db = new StateDatabase(file, { enableForeignKeyConstraints: false })
    try {
      prepare(db, onCopied)
      if (file !== ':memory:') removeOldCopies(file, clock.wallNow())
      db.exec(`PRAGMA busy_timeout = ${busyMs}`)
      return db
    } catch (error) {
      db.close()
      throw error
    }
  } catch (error) {
    throw new Error(`the state in ${file} cannot be opened: ${openReason(error)}`, { cause: error })
  }
}

/** Makes a file that its owner alone reads: it holds transcripts and key hashes. SQLite gives its log the same mode. */
function makeFile(file: string): void {
  mkdirSync(dirname(file), { recursive: true })
  closeSync(openSync(file, 'a', 0o600))
}

/** SQLite overwrites what is deleted, audio and transcripts included: that costs a job nothing that can be measured. */
function prepare(db: DatabaseSync, onCopied: (path: string) => void): void {
  // SQLite itself does not wait for another process that makes the same new file, however long its timeout.
  takeWhenFree(() => db.exec('PRAGMA journal_mode = WAL'), OPEN_MS)
  db.exec(`
    PRAGMA busy_timeout = ${OPEN_MS};
    PRAGMA synchronous = FULL;
    PRAGMA journal_size_limit = ${WAL_BYTES};
    PRAGMA temp_store = MEMORY;
    PRAGMA secure_delete = ON;
    PRAGMA wal_autocheckpoint = ${WAL_BYTES / PAGE_BYTES};
  `)
  if (databaseFormat(db) === MIGRATIONS.length && readableSince(db) === READABLE_SINCE) return
  // Two processes may open a new file at the same moment: the second one waits here, and finds it done.
  db.exec('BEGIN IMMEDIATE')
  try {
    migrate(db, onCopied)
    db.exec('COMMIT')
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    throw error
  }
}

function migrate(db: DatabaseSync, onCopied: (path: string) => void): void {
  const format = databaseFormat(db)
  if (format > MIGRATIONS.length) {
    // The newer version that wrote the file has said whether versions of this one's format can go on with it.
    const since = readableSince(db)
    if (since > 0 && since <= MIGRATIONS.length) return
    throw new Error(
      `a newer version of Larkway wrote it (format ${format}, this one knows up to ${MIGRATIONS.length})`,
    )
  }
  const file = db.location()
  // Another connection: it sees the file as it is without what this one is about to do, and no other can write.
  if (format > 0 && format < MIGRATIONS.length && file !== null) onCopied(copyBefore(file, format))
  for (const step of MIGRATIONS.slice(format)) db.exec(step)
  db.exec(`PRAGMA user_version = ${MIGRATIONS.length}; PRAGMA application_id = ${READABLE_SINCE}`)
}

/** @throws Error that says that there is no way back, and that nothing was changed */
function copyBefore(file: string, format: number): string {
  try {
    return copyState(file, format)
  } catch (error) {
    throw new Error(`it cannot be copied before it is migrated: ${openReason(error)}`, { cause: error })
  }
}

/**
 * The statements that begin a transaction. Before one that writes, it looks often whether another process still writes:
 * SQLite itself looks ever more seldom, ten times a second at last, and beside processes that write without a pause a
 * write of 3 ms waited for 1.8 s, or failed. It throws SQLite's error when another process writes for too long.
 */
export function createBeginnings(db: DatabaseSync): { read(): void; write(): void } {
  const read = db.prepare('BEGIN')
  const write = db.prepare('BEGIN IMMEDIATE')
  // First: some of these are done when they are prepared.
  const busyMs = Number(db.prepare('PRAGMA busy_timeout').get()?.timeout)
  const waitNever = db.prepare('PRAGMA busy_timeout = 0')
  const waitLong = db.prepare(`PRAGMA busy_timeout = ${busyMs}`)
  return {
    read: () => void read.run(),
    write() {
      waitNever.get()
      try {
        takeWhenFree(() => write.run(), busyMs)
      } finally {
        waitLong.get()
      }
    },
  }
}

/** Takes what another process may have, and looks often until it is free. @throws what `take` threw last */
function takeWhenFree(take: () => void, busyMs: number): void {
  const deadlineMs = systemClock.now() + busyMs
  for (;;) {
    try {
      take()
      return
    } catch (error) {
      const { errcode = 0 } = error as { readonly errcode?: number }
      if (errcode % 256 !== BUSY || systemClock.now() > deadlineMs) throw error
      Atomics.wait(NEVER, 0, 0, LOOK_MS)
    }
  }
}

/** A prepared statement whose rows are of a known type. */
interface Query<Row> {
  get(...bound: Bound): Row | undefined
  all(...bound: Bound): Row[]
}

type Bound = readonly SQLInputValue[] | readonly [Record<string, SQLInputValue>]

export class StateDatabase extends DatabaseSync {
  /** Prepares a statement that returns rows. The caller vouches for their type. */
  query<Row>(sql: string): Query<Row> {
    return this.prepare(sql) as unknown as Query<Row>
  }
}

/**
 * Deletes up to `limit` rows of the table whose `column`, a moment in epoch milliseconds, has come.
 *
 * A bound value behind LIMIT has an addition to it wherever a statement runs often: SQLite looks at a bare one while it
 * plans, so that node:sqlite, which clears the bindings before each run, has the statement planned anew every time.
 */
export function createPurge(
  db: DatabaseSync,
  table: string,
  column: string,
): (nowMs: number, limit: number) => void {
  const purge = db.prepare(`
    DELETE FROM ${table} WHERE rowid IN (SELECT rowid FROM ${table} WHERE ${column} <= ? LIMIT ? + 0)`)
  return (nowMs, limit) => void purge.run(nowMs, limit)
}

/** Whether an earlier version has written the file, so that opening it migrates it. Changes nothing. */
export function awaitsMigration(file: string): boolean {
  const db = new DatabaseSync(file, { readOnly: true })
  try {
    return databaseFormat(db) < MIGRATIONS.length
  } finally {
    db.close()
  }
}

const pragma = (db: DatabaseSync, name: string) => Number(db.prepare(`PRAGMA ${name}`).get()?.[name])
/** The oldest format whose versions can go on with the file; 0: none was said. */
const readableSince = (db: DatabaseSync) => pragma(db, 'application_id')
const databaseFormat = (db: DatabaseSync) => pragma(db, 'user_version')

function openReason(error: unknown): string {
  const reason = error instanceof Error ? error.message : String(error)
  return reason === 'file is not a database' ? 'it is not a SQLite database' : reason
}
