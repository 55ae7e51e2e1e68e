import type { DatabaseSync } from 'node:sqlite'
import type { JobEnding, JobError, JobStatus, Retention } from '../../schema/jobs.ts'
import { createJobTallies } from './jobs-figures.ts'
import type { ReadyLists } from './jobs-ready.ts'
import { type JobRow, type JobRows, remember } from './jobs-rows.ts'
import type { JobTurns } from './jobs-turns.ts'
import type { EventRows } from './outbox-rows.ts'

/** How a job ends for good: as its worker says, or because too many of them died. */
type JobOutcome =
  | Exclude<JobEnding, { state: 'queued' }>
  | { readonly state: 'failed'; readonly error: JobError; readonly facts: null }

/** The steps from one status to another: whatever goes with a step is done by it. The row is saved. */
export interface JobSteps {
  /** A new job is ready. */
  admit(row: JobRow, nowMs: number): void
  /** The job is ready again, at the place that it has. */
  requeue(row: JobRow, nowMs: number): void
  /** The job waits until it is due; then `wake` makes it ready, behind all others. */
  delay(row: JobRow, dueAtMs: number, nowMs: number): void
  /** A job that waited is ready. Its status stays as it is. */
  wake(row: JobRow): void
  /** Begins the next claim. @param token what it is known by; null: nothing */
  take(row: JobRow, token: string | null, leaseUntilMs: number, nowMs: number): void
  finish(row: JobRow, outcome: JobOutcome, keep: Retention, nowMs: number): void
}

interface StepParts {
  readonly rows: JobRows
  readonly ready: ReadyLists
  readonly turns: JobTurns
  readonly events: EventRows
}

export function createJobSteps(db: DatabaseSync, { rows, ready, turns, events }: StepParts): JobSteps {
  const tallies = createJobTallies(db)

  /** Out of wherever its status had put it, and into another. */
  const move = (row: JobRow, from: JobStatus | null, to: JobStatus, nowMs: number): void => {
    tallies.waiting(row, Number(to === 'queued') - Number(from === 'queued'))
    if (from === 'processing') turns.unpark(row.workspace)
    row.status = to
    row.waits_from_ms = to === 'queued' ? nowMs : null
    leaveLists(row)
    remember(row, nowMs)
  }

  const makeReady = (row: JobRow): void => {
    row.ready = 1
    rows.save(row)
    turns.open(row)
  }

  return {
    admit(row, nowMs) {
      move(row, null, 'queued', nowMs)
      makeReady(row)
    },

    requeue(row, nowMs) {
      move(row, row.status, 'queued', nowMs)
      makeReady(row)
    },

    delay(row, dueAtMs, nowMs) {
      move(row, row.status, 'queued', nowMs)
      row.due_at_ms = dueAtMs
      row.waits_from_ms = dueAtMs
      rows.save(row)
    },

    wake(row) {
      row.due_at_ms = null
      row.place = ready.lastPlace()
      makeReady(row)
    },

    take(row, token, leaseUntilMs, nowMs) {
      row.fence += 1
      row.ending = null
      row.started_at_ms ??= nowMs
      move(row, row.status, 'processing', nowMs)
      row.lease_until_ms = leaseUntilMs
      row.claim_token = token
      rows.save(row)
    },

    finish(row, outcome, keep, nowMs) {
      move(row, row.status, outcome.state, nowMs)
      tallies.ended(row, outcome.state)
      row.ended_at_ms = nowMs
      row.expires_at_ms = nowMs + keptMs(row, outcome.state, keep)
      row.purge_at_ms = row.expires_at_ms
      row.facts = outcome.facts && JSON.stringify(outcome.facts)
      row.error = outcome.state === 'failed' ? JSON.stringify(outcome.error) : null
      const result = outcome.state === 'succeeded' ? outcome.result : null
      row.result = result && JSON.stringify(result)
      // Nobody takes it over any more.
      row.progress = null
      rows.save(row)
      events.announce(row, outcome.state, nowMs)
    },
  }
}

/** Those of what may be taken, of what waits, and of what is taken. */
function leaveLists(row: JobRow): void {
  row.ready = 0
  row.due_at_ms = null
  row.lease_until_ms = null
  row.claim_token = null
}

function keptMs(row: JobRow, status: JobOutcome['state'], keep: Retention): number {
  if (row.kind === 'transcription') return keep.transcriptionMs
  return status === 'failed' ? keep.deadMs : keep.queueMs
}
