import type { Blocked } from '../../../contracts/state.ts'
import { createBeginnings, type StateDatabase } from './database.ts'
import type { createOperations } from './operations.ts'
import { METHODS, type SubjectName } from './subjects.ts'

/** A method whose caller waits for the answer. */
export interface Call {
  readonly id: number
  readonly subject: SubjectName
  readonly method: string
  readonly args: readonly unknown[]
}

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: Failure }

export interface Failure {
  readonly reason: string
  /** The file could not be written or read; false: the method itself is at fault. */
  readonly unavailable: boolean
  /** The disk is why, and nothing can be written until that is mended. */
  readonly blocked: Blocked | null
}

export interface Committed {
  readonly answers: readonly Answer[]
  /** Whether anything was flushed to the disk. */
  readonly wrote: boolean
}

/** SQLite's codes for faults that no disk is to blame for (https://sqlite.org/rescode.html). */
const OUR_FAULT = new Set([
  1 /* ERROR */, 18 /* TOOBIG */, 19 /* CONSTRAINT */, 20 /* MISMATCH */, 21 /* MISUSE */,
])

/** Codes for faults that the disk is to blame for. */
const BLOCKED: ReadonlyMap<number, Blocked> = new Map([
  [13 /* FULL */, 'disk_full'],
  [8 /* READONLY */, 'disk_failed'],
  [10 /* IOERR */, 'disk_failed'],
  [11 /* CORRUPT */, 'disk_failed'],
])

/** Shortest time between two purges, and the calls after which one comes sooner, so that each stays short. */
const PURGE_MS = 250
const PURGE_CALLS = 64
/** Expired rows that a purge deletes at least; two more for each call since the last, so that they cannot pile up. */
const PURGE_ROWS = 16

/**
 * Runs calls that came together in one transaction. Each fails by itself, and one flush puts all of them on the disk
 * before any is answered. When the transaction cannot be written, all of them fail and nothing of them is kept.
 */
export function createCommit(
  db: StateDatabase,
  { operations, purge, counters, now }: ReturnType<typeof createOperations>,
): (calls: readonly Call[]) => Committed {
  const beginnings = createBeginnings(db)
  const commit = db.prepare('COMMIT')
  const { mark, undo, unmark } = createMarks(db)
  const changedRows = createChangeCount(db)
  const purgeNowAndThen = createPurging(purge, now)

  const run = ({ id, subject, method, args }: Call): Answer => {
    const methods = operations[subject] as Readonly<Record<string, (...args: readonly unknown[]) => unknown>>
    return { id, value: methods[method]!(...args) }
  }

  /** Runs a call so that it undoes nothing but itself when it throws. */
  const runMarked = (call: Call): Answer => {
    mark()
    try {
      const answer = run(call)
      counters.save()
      unmark()
      return answer
    } catch (error) {
      counters.forget()
      // Where the disk is full SQLite may have given up the whole transaction: then there is no mark to go back to.
      if (!db.isTransaction) throw error
      undo()
      return { id: call.id, failure: commitFailure(error) }
    }
  }

  const giveUp = (): void => {
    counters.forget()
    if (db.isTransaction) db.exec('ROLLBACK')
  }

  /**
   * Runs the calls in a transaction, which stays open. Hardly ever does one throw: only then all of them are run again
   * with marks, for which SQLite keeps each page that a call changes a second time (a fifth of the thread's time).
   */
  const runAll = (calls: readonly Call[], begin: () => void): readonly Answer[] => {
    begin()
    try {
      const answers = calls.map(run)
      counters.save()
      return answers
    } catch {
      giveUp()
    }
    begin()
    return calls.map(runMarked)
  }

  return (calls) => {
    const writes = calls.some(isWrite)
    const before = changedRows()
    try {
      const answers = runAll(calls, writes ? beginnings.write : beginnings.read)
      if (writes) purgeNowAndThen(calls.length)
      commit.run()
      return { answers, wrote: changedRows() !== before }
    } catch (error) {
      giveUp()
      const failure = commitFailure(error)
      return { answers: calls.map(({ id }) => ({ id, failure })), wrote: false }
    }
  }
}

/** A mark within the transaction that a call can be undone to. */
function createMarks(db: StateDatabase) {
  const mark = db.prepare('SAVEPOINT call')
  const undo = db.prepare('ROLLBACK TO call')
  const unmark = db.prepare('RELEASE call')
  return {
    mark: () => void mark.run(),
    /** Goes back to the mark, and takes it away. */
    undo() {
      undo.run()
      unmark.run()
    },
    unmark: () => void unmark.run(),
  }
}

/** Rows that this connection has changed. */
function createChangeCount(db: StateDatabase): () => number {
  const changes = db.prepare('SELECT total_changes() AS rows')
  return () => Number(changes.get()?.rows)
}

/** Purges now and then. Readers compare with the time themselves, so that rows of the past may stay a while. */
function createPurging(purge: (limit: number) => void, now: () => number): (calls: number) => void {
  let purgedAtMs = 0
  let callsSince = 0
  return (calls) => {
    callsSince += calls
    const nowMs = now()
    const sinceMs = nowMs - purgedAtMs
    // The clock may have been put back.
    if (sinceMs >= 0 && sinceMs < PURGE_MS && callsSince < PURGE_CALLS) return
    purge(PURGE_ROWS + 2 * callsSince)
    purgedAtMs = nowMs
    callsSince = 0
  }
}

function isWrite({ subject, method }: Call): boolean {
  return (METHODS[subject] as Readonly<Record<string, string>>)[method] === 'write'
}

function commitFailure(error: unknown): Failure {
  const { message, errcode } = error as { readonly message?: string; readonly errcode?: number }
  // The low byte is the kind of failure; the rest only refines it.
  const unavailable = errcode !== undefined && !OUR_FAULT.has(errcode & 0xff)
  const blocked = errcode === undefined ? null : (BLOCKED.get(errcode & 0xff) ?? null)
  return { reason: message ?? String(error), unavailable, blocked }
}
