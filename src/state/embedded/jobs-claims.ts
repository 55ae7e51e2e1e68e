import type { DatabaseSync } from 'node:sqlite'
import type { Claimed, Claiming, Job, JobEnding, JobProgress, Renewed, Retention } from '../../schema/jobs.ts'
import type { ReadyLists } from './jobs-ready.ts'
import { isGone, type JobRow, type JobRows, progressOf, readable } from './jobs-rows.ts'
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
  const listTaken = db.prepare('SELECT number FROM jobs WHERE claim_token = ? ORDER BY number')
  const listDue = db.prepare('SELECT number FROM jobs WHERE due_at_ms <= ? ORDER BY due_at_ms LIMIT ?')
  const renew = db.prepare(`
    UPDATE jobs SET lease_until_ms = ? WHERE id = ? AND fence = ? AND status = 'processing'
    RETURNING cancel_requested`)
  const keepProgress = db.prepare('UPDATE jobs SET progress = ? WHERE id = ?')

  const rowsOf = (found: readonly Record<string, unknown>[]): JobRow[] =>
    found.map(({ number }) => rows.at(Number(number)))

  const takeNew = (token: string | null, claiming: Claiming, nowMs: number): Claimed[] => {
    const { limit, perWorkspace, leaseMs, poison, keep } = claiming
    const claimed: Claimed[] = []
    while (claimed.length < limit) {
      const number = ready.next(perWorkspace)
      if (number === null) break
      const row = rows.at(number)
      steps.take(row, token, nowMs + leaseMs, nowMs)
      const job = readable(() => claimedOf(rows, row))
      if (job) claimed.push(job)
      // It would keep all the others waiting, if it were to be taken again and again.
      else steps.finish(row, { state: 'failed', error: poison, facts: null }, keep, nowMs)
    }
    return claimed
  }

  return {
    /**
     * @param token what the claim is known by: with the same one it takes nothing new as long as it holds anything, for
     *              then its answer was lost
     */
    claimJobs(claiming: Claiming, token: string | null = null): Claimed[] {
      const nowMs = now()
      const taken = rowsOf(listTaken.all(token))
      if (taken.length > 0) return takeAgain({ rows, steps }, taken, claiming, nowMs)
      const most = claiming.limit + MORE_THAN_TAKEN
      for (const row of rowsOf(listStrays.all(nowMs, most))) putBack(steps, row, claiming, nowMs)
      for (const row of rowsOf(listDue.all(nowMs, most))) steps.wake(row)
      return takeNew(token, claiming, nowMs)
    },

    renewJob(id: string, fence: number, leaseMs: number, progress: JobProgress | null): Renewed {
      const row = renew.get(now() + leaseMs, id, fence)
      if (!row) return { held: false, cancelRequested: false }
      if (progress) keepProgress.run(JSON.stringify(progress), id)
      return { held: true, cancelRequested: row.cancel_requested === 1 }
    },

    endJob(id: string, fence: number, ending: JobEnding, keep: Retention): Job | null {
      const row = rows.find(id)
      if (!row || isGone(row, now()) || row.fence !== fence) return null
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

/** What a claim took whose answer was lost: as many as there are places for by now; the others go back. */
function takeAgain(
  { rows, steps }: Pick<ClaimParts, 'rows' | 'steps'>,
  taken: readonly JobRow[],
  { limit, leaseMs }: Claiming,
  nowMs: number,
): Claimed[] {
  for (const row of taken.slice(limit)) steps.requeue(row, nowMs)
  return taken.slice(0, limit).flatMap((row) => {
    row.lease_until_ms = nowMs + leaseMs
    rows.save(row)
    return readable(() => claimedOf(rows, row)) ?? []
  })
}

/** @throws Error when it cannot be read */
function claimedOf(rows: JobRows, row: JobRow): Claimed {
  return { job: rows.view(row), progress: progressOf(row) }
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
