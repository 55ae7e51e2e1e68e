import type { DatabaseSync } from 'node:sqlite'
import { type createOperations, type Operations, READS } from './operations.ts'

/** One operation that somebody waits for. */
export interface Call {
  readonly id: number
  readonly name: keyof Operations
  readonly args: readonly unknown[]
}

export type Answer =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: Failure }

export interface Failure {
  readonly reason: string
  /** The file could not be written or read; false: the operation itself is at fault. */
  readonly unavailable: boolean
}

export interface Committed {
  readonly answers: readonly Answer[]
  /** Something was flushed to the disk. */
  readonly wrote: boolean
}

/** SQLite's codes for what no disk is to blame for (https://sqlite.org/rescode.html). */
const OUR_FAULT = new Set([
  1 /* ERROR */, 18 /* TOOBIG */, 19 /* CONSTRAINT */, 20 /* MISMATCH */, 21 /* MISUSE */,
])

/** Old rows that each transaction forgets at least; with one for each of its calls they cannot pile up. */
const PURGE_ROWS = 16

/**
 * Runs calls that came together in one transaction: each fails by itself, and all are on the disk by one flush before
 * any of them is answered. When the transaction cannot be written all of them fail, and nothing of them is kept.
 */
export function createCommit(
  db: DatabaseSync,
  { operations, purge }: ReturnType<typeof createOperations>,
): (calls: readonly Call[]) => Committed {
  const mark = db.prepare('SAVEPOINT call')
  const undo = db.prepare('ROLLBACK TO call')
  const unmark = db.prepare('RELEASE call')
  const changes = db.prepare('SELECT total_changes() AS rows')
  const changedRows = () => Number(changes.get()?.rows)

  const run = ({ id, name, args }: Call): Answer => {
    mark.run()
    try {
      const operation = operations[name] as (...args: readonly unknown[]) => unknown
      const value = operation(...args)
      unmark.run()
      return { id, value }
    } catch (error) {
      // Where the disk is full SQLite may have given up the whole transaction: then there is no mark to go back to.
      if (!db.isTransaction) throw error
      undo.run()
      unmark.run()
      return { id, failure: failureOf(error) }
    }
  }

  return (calls) => {
    const writes = calls.some(({ name }) => !READS.has(name))
    const before = changedRows()
    try {
      db.exec(writes ? 'BEGIN IMMEDIATE' : 'BEGIN')
      const answers = calls.map(run)
      if (writes) purge(PURGE_ROWS + 2 * calls.length)
      db.exec('COMMIT')
      return { answers, wrote: changedRows() !== before }
    } catch (error) {
      if (db.isTransaction) db.exec('ROLLBACK')
      const failure = failureOf(error)
      return { answers: calls.map(({ id }) => ({ id, failure })), wrote: false }
    }
  }
}

function failureOf(error: unknown): Failure {
  const { message, errcode } = error as { readonly message?: string; readonly errcode?: number }
  // The low byte is the kind of failure, the rest says more of it.
  const unavailable = errcode !== undefined && !OUR_FAULT.has(errcode & 0xff)
  return { reason: message ?? String(error), unavailable }
}
