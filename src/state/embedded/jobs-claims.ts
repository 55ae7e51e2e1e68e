import type { DatabaseSync } from 'node:sqlite'
import type { Claimed, Claiming, Job, JobEnding, JobProgress, Renewed, Retention } from '../../schema/jobs.ts'
import type { ReadyLists } from './jobs-ready.ts'
import { type JobRow, type JobRows, progressOf } from './jobs-rows.ts'
import type { JobSteps } from './jobs-steps.ts'

/** Jobs that one claim puts back, and makes ready, beyond those that it may take: so that they cannot pile up. */
const MORE_THAN_TAKEN = 100

const CANCELLED = { state: 'cancelled', facts: null } as const

interface ClaimParts {
  readonly rows: JobRows
  readonly ready: ReadyLists
  readonly steps: JobSteps
  readonly now: () => number
}

/** The methods of `Jobs` for workers, each within a transaction of its caller. One that finds no job writes nothing. */
export function createJobClaims(db: DatabaseSync, { rows, ready, steps, now }: ClaimParts) {
  const listStrays = db.prepare(
    'SELECT number FROM jobs WHERE lease_until_ms <= ? ORDER BY lease_until_ms LIMIT ?',
  )
  const listDue = db.prepare('SELECT number FROM jobs WHERE due_at_ms <= ? ORDER BY due_at_ms LIMIT ?')
  const renew = db.prepare(`
    UPDATE jobs SET lease_until_ms = ? WHERE id = ? AND fence = ? AND status = 'processing'
    RETURNING cancel_requested`)
  const keepProgress = db.prepare('UPDATE jobs SET progress = ? WHERE id = ?')

  const rowsOf = (found: readonly Record<string, unknown>[]): JobRow[] =>
    found.map(({ number }) => rows.at(Number(number)))

  return {
    claimJobs(claiming: Claiming): Claimed[] {
      const nowMs = now()
      const { limit, perWorkspace, leaseMs } = claiming
      const most = limit + MORE_THAN_TAKEN
      for (const row of rowsOf(listStrays.all(nowMs, most))) putBack(steps, row, claiming, nowMs)
      for (const row of rowsOf(listDue.all(nowMs, most))) steps.wake(row)
      const claimed: Claimed[] = []
      while (claimed.length < limit) {
        const number = ready.next(perWorkspace)
        if (number === null) break
        const row = rows.at(number)
        steps.take(row, nowMs + leaseMs, nowMs)
        claimed.push({ job: rows.view(row), progress: progressOf(row) })
      }
      return claimed
    },

    renewJob(id: string, fence: number, leaseMs: number, progress: JobProgress | null): Renewed {
      const row = renew.get(now() + leaseMs, id, fence)
      if (!row) return { held: false, cancelRequested: false }
      if (progress) keepProgress.run(JSON.stringify(progress), id)
      return { held: true, cancelRequested: row.cancel_requested === 1 }
    },

    endJob(id: string, fence: number, ending: JobEnding, keep: Retention): Job | null {
      const row = rows.find(id)
      if (!row || row.marked === 1 || row.fence !== fence) return null
      // Ended so before by the same claim: the answer may have been lost.
      if (row.status !== 'processing') return row.ending === ending.state ? rows.view(row) : null
      const nowMs = now()
      row.ending = ending.state
      if (ending.state === 'queued') giveBack(steps, row, ending, keep, nowMs)
      else steps.finish(row, ending, keep, nowMs)
      return rows.view(row)
    },
  }
}

/** A claim has ended by its lease alone. */
function putBack(steps: JobSteps, row: JobRow, { straysMax, poison, keep }: Claiming, nowMs: number): void {
  row.strays += 1
  if (row.cancel_requested === 1) steps.finish(row, CANCELLED, keep, nowMs)
  else if (row.strays < straysMax) steps.requeue(row, nowMs)
  else steps.finish(row, { state: 'failed', error: poison, facts: null }, keep, nowMs)
}

/** Whoever held it gives it back. */
function giveBack(
  steps: JobSteps,
  row: JobRow,
  { delayMs, counts }: Extract<JobEnding, { state: 'queued' }>,
  keep: Retention,
  nowMs: number,
): void {
  if (row.cancel_requested === 1) {
    steps.finish(row, CANCELLED, keep, nowMs)
    return
  }
  row.strays = 0
  if (counts === 'retry') row.retries += 1
  if (counts === 'return') row.returns += 1
  if (delayMs > 0) steps.delay(row, nowMs + delayMs, nowMs)
  else steps.requeue(row, nowMs)
}
