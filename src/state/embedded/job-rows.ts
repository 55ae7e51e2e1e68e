import type { DatabaseSync } from 'node:sqlite'
import type {
  Claimed,
  Job,
  JobChange,
  JobEnding,
  JobError,
  JobFacts,
  JobKind,
  JobProgress,
  JobSpec,
  JobStatus,
  JobSubmission,
  KnownJob,
  QueueMode,
  Retention,
} from '../../contracts/jobs.ts'
import type { KeptText } from '../../contracts/objects.ts'
import { query } from './database.ts'
import type { JobRoundRobin } from './job-round-robin.ts'
import type { Events } from './outbox.ts'

/** Lines of a job's history that are kept, the newest of them. */
const HISTORY_MAX = 64
const NO_PROGRESS: JobProgress = { audio: null, upstream: null }

/** A row of the table `jobs`. */
export type JobRow = {
  readonly number: number
  readonly id: string
  readonly kind: JobKind
  readonly mode: QueueMode
  readonly workspace: string
  readonly app: string
  readonly event_id: string | null
  readonly slot_id: string | null
  readonly created_at_ms: number
  readonly status: JobStatus
  readonly marked: number
  readonly started_at_ms: number | null
  readonly ended_at_ms: number | null
  readonly expires_at_ms: number | null
  readonly cancel_requested: number
  readonly fence: number
  readonly stalled: number
  readonly retries: number
  readonly returns: number
  readonly ending: string | null
  /** JSON, like all that follow. */
  readonly history: string
  readonly error: string | null
  readonly facts: string | null
  readonly progress: string | null
  readonly result: string | null
}

export type JobRows = ReturnType<typeof createRows>

export function createRows(db: DatabaseSync) {
  const find = query<JobRow>(db, 'SELECT * FROM jobs WHERE id = ?')
  const at = query<JobRow>(db, 'SELECT * FROM jobs WHERE number = ?')
  const findSpec = query<{ readonly spec: string }>(db, 'SELECT spec FROM job_specs WHERE number = ?')

  /** @throws Error when it cannot be read */
  const specOf = ({ number }: JobRow) => JSON.parse(String(findSpec.get(number)?.spec)) as JobSpec
  /** The job as the contract shows it. @throws Error when it cannot be read */
  const view = (row: JobRow): Job => jobOf(row, specOf(row))
  /** The same of many. One that cannot be read is left out, and keeps nobody from the others. */
  const viewAll = (rows: readonly JobRow[]): Job[] => rows.flatMap((row) => readable(() => view(row)) ?? [])

  return {
    /** Finds marked jobs, too. */
    find: (id: string): JobRow | undefined => find.get(id),
    /** Null: there is none, or its time is over. */
    visible(id: string, nowMs: number): JobRow | null {
      const row = find.get(id)
      return row === undefined || isGone(row, nowMs) ? null : row
    },
    at: (number: number): JobRow => at.get(number)!,
    view,
    viewAll,
    /** The job with the progress of the claims before; null when it cannot be read. */
    claimed: (row: JobRow): Claimed | null =>
      readable(() => ({ job: view(row), progress: parsed<JobProgress>(row.progress) ?? NO_PROGRESS })),
    known(row: JobRow): KnownJob {
      const { status, kind, fence } = row
      const mayBeRetried = kind === 'queue' && status === 'failed'
      const result = parsed<KeptText>(row.result)
      return { status, kind, fence, result, work: mayBeRetried ? readable(() => specOf(row).work) : null }
    },
  }
}

/** Nobody sees the job any more, whether or not the purge has come to it. */
export function isGone({ marked, expires_at_ms }: JobRow, nowMs: number): boolean {
  return marked === 1 || (expires_at_ms !== null && expires_at_ms <= nowMs)
}

/** Null: `read` threw. */
function readable<Value>(read: () => Value): Value | null {
  try {
    return read() ?? null
  } catch {
    return null
  }
}

function parsed<Value>(text: string | null): Value | null {
  return text === null ? null : (JSON.parse(text) as Value)
}

export function jobOf(row: JobRow, spec: JobSpec): Job {
  return {
    ...spec,
    status: row.status,
    createdAtMs: row.created_at_ms,
    startedAtMs: row.started_at_ms,
    endedAtMs: row.ended_at_ms,
    expiresAtMs: row.expires_at_ms,
    cancelRequested: row.cancel_requested === 1,
    fence: row.fence,
    stalled: row.stalled,
    retries: row.retries,
    returns: row.returns,
    result: parsed<KeptText>(row.result),
    error: parsed<JobError>(row.error),
    facts: parsed<JobFacts>(row.facts),
    history: JSON.parse(row.history) as JobChange[],
  }
}

/** How a job ends for good: as its worker says, or because too many workers died. */
type JobOutcome =
  | Exclude<JobEnding, { state: 'queued' }>
  | { readonly state: 'failed'; readonly error: JobError; readonly facts: null }

/** Counts that a step changes; absent: they stay. */
interface Counts {
  readonly stalled?: number
  readonly retries?: 1
  readonly returns?: 1
  /** How the worker that held the job ended its claim. */
  readonly ending?: JobEnding['state']
}

/** The steps from one status to another. Each does whatever goes with it, and answers the row after it. */
export interface JobSteps {
  submit(submission: JobSubmission, nowMs: number): JobRow
  /** Puts the job back to its place, or has it wait until it is due. @param dueAtMs null: at once */
  queue(row: JobRow, dueAtMs: number | null, nowMs: number, counts?: Counts): JobRow
  /** Makes a job that waited ready, behind all others. Its status stays as it is. */
  wake(number: number): void
  /** Begins the next claim. @param token what the claim is known by; null: nothing */
  take(row: JobRow, token: string | null, leaseUntilMs: number, nowMs: number): JobRow
  finish(row: JobRow, outcome: JobOutcome, keep: Retention, nowMs: number, counts?: Counts): JobRow
}

/** One more line of the history, which begins anew when it cannot be read. */
const newHistory = (status: string, fence = 'fence') => `
  history = json_insert(
    CASE WHEN NOT json_valid(history) THEN '[]'
      WHEN json_array_length(history) < ${HISTORY_MAX} THEN history
      ELSE json_remove(history, '$[0]') END,
    '$[#]', json_object('atMs', CAST(:nowMs AS INTEGER), 'status', ${status}, 'fence', ${fence}))`
/** The job is not ready, does not wait until it is due, and nobody has it. */
const LEAVE_LISTS =
  'ready = 0, due_at_ms = NULL, waits_from_ms = NULL, lease_until_ms = NULL, claim_token = NULL'

export function createSteps(db: DatabaseSync, roundRobin: JobRoundRobin, events: Events): JobSteps {
  const count = createTallies(db)
  const submit = createSubmit(db)
  const queue = query<JobRow>(
    db,
    `UPDATE jobs SET status = 'queued', ready = :dueAtMs IS NULL, due_at_ms = :dueAtMs,
      waits_from_ms = coalesce(:dueAtMs, :nowMs), lease_until_ms = NULL, claim_token = NULL,
      stalled = :stalled, retries = retries + :retries, returns = returns + :returns,
      ending = coalesce(:ending, ending), ${newHistory("'queued'")}
    WHERE number = :number RETURNING *`,
  )
  const wake = query<JobRow>(
    db,
    'UPDATE jobs SET ready = 1, due_at_ms = NULL, place = ? WHERE number = ? RETURNING *',
  )
  const take = query<JobRow>(
    db,
    `UPDATE jobs SET ${LEAVE_LISTS}, status = 'processing', lease_until_ms = :leaseUntilMs, claim_token = :token,
      fence = fence + 1, ending = NULL, started_at_ms = coalesce(started_at_ms, :nowMs),
      ${newHistory("'processing'", 'fence + 1')}
    WHERE number = :number RETURNING *`,
  )
  const finish = createFinish(db)

  return {
    submit(submission, nowMs) {
      const row = submit(submission, roundRobin.lastPlace(), nowMs)
      count.waiting(row, 1)
      roundRobin.open(row)
      return row
    },

    queue(row, dueAtMs, nowMs, { stalled = row.stalled, retries = 0, returns = 0, ending = null } = {}) {
      const { number, status, workspace } = row
      if (status === 'processing') roundRobin.unthrottle(workspace)
      count.waiting(row, 1)
      if (dueAtMs === null) roundRobin.open(row)
      return queue.get({ number, dueAtMs, nowMs, stalled, retries, returns, ending })!
    },

    wake: (number) => roundRobin.open(wake.get(roundRobin.lastPlace(), number)!),

    take(row, token, leaseUntilMs, nowMs) {
      count.waiting(row, -1)
      return take.get({ number: row.number, token, leaseUntilMs, nowMs })!
    },

    finish(row, outcome, keep, nowMs, counts = {}) {
      if (row.status === 'queued') count.waiting(row, -1)
      if (row.status === 'processing') roundRobin.unthrottle(row.workspace)
      count.ended(row, outcome.state)
      const { event_id: id, id: jobId, workspace } = row
      const ended = finish(row, outcome, { keptMs: keptMs(row, outcome.state, keep), nowMs, counts })
      if (id !== null)
        events.announce({ id, jobId, workspace, status: outcome.state, occurredAtMs: nowMs }, nowMs)
      return ended
    },
  }
}

/** Writes a new job, which is ready. */
function createSubmit(db: DatabaseSync) {
  const insert = query<JobRow>(
    db,
    `INSERT INTO jobs (
      id, kind, mode, workspace, app, event_id, slot_id, created_at_ms, place, waits_from_ms,
      status, ready, marked, cancel_requested, fence, stalled, retries, returns, history
    ) VALUES (
      :id, :kind, :mode, :workspace, :app, :eventId, :slotId, :nowMs, :place, :nowMs,
      'queued', 1, 0, 0, 0, 0, 0, 0,
      json_array(json_object('atMs', CAST(:nowMs AS INTEGER), 'status', 'queued', 'fence', 0))
    ) RETURNING *`,
  )
  const putSpec = db.prepare('INSERT INTO job_specs (number, spec) VALUES (?, ?)')
  return ({ spec, slot }: JobSubmission, place: number, nowMs: number): JobRow => {
    const { id, kind, mode, workspace, app, eventId } = spec
    const slotId = slot?.id ?? null
    const row = insert.get({ id, kind, mode, workspace, app, eventId, slotId, place, nowMs })!
    putSpec.run(row.number, JSON.stringify(spec))
    return row
  }
}

/** Writes the end of a job. Nobody takes it over any more, so its progress goes. */
function createFinish(db: DatabaseSync) {
  const finish = query<JobRow>(
    db,
    `UPDATE jobs SET ${LEAVE_LISTS}, status = :status, stalled = :stalled, ending = coalesce(:ending, ending),
      ended_at_ms = :nowMs, expires_at_ms = :expiresAtMs, purge_at_ms = :expiresAtMs,
      facts = :facts, error = :error, result = :result, progress = NULL, ${newHistory(':status')}
    WHERE number = :number RETURNING *`,
  )
  const json = (value: object | null) => value && JSON.stringify(value)
  return (
    { number, stalled }: JobRow,
    outcome: JobOutcome,
    { keptMs, nowMs, counts }: { readonly keptMs: number; readonly nowMs: number; readonly counts: Counts },
  ): JobRow =>
    finish.get({
      number,
      status: outcome.state,
      stalled: counts.stalled ?? stalled,
      ending: counts.ending ?? null,
      nowMs,
      expiresAtMs: nowMs + keptMs,
      facts: json(outcome.facts),
      error: json(outcome.state === 'failed' ? outcome.error : null),
      result: json(outcome.state === 'succeeded' ? outcome.result : null),
    })!
}

function keptMs(row: JobRow, status: JobOutcome['state'], keep: Retention): number {
  if (row.kind === 'transcription') return keep.transcriptionMs
  return status === 'failed' ? keep.deadMs : keep.queueMs
}

/** Counts as it happens, since rows are too many to be counted when somebody asks. */
function createTallies(db: DatabaseSync) {
  const countWaiting = db.prepare('UPDATE job_counters SET waiting = waiting + ?')
  const countQueued = db.prepare(`
    INSERT INTO job_queues (kind, mode, jobs) VALUES (:kind, :mode, :more)
    ON CONFLICT DO UPDATE SET jobs = jobs + :more`)
  const countEnd = db.prepare(`
    INSERT INTO job_ends (kind, status, jobs) VALUES (?, ?, 1) ON CONFLICT DO UPDATE SET jobs = jobs + 1`)
  return {
    /** @param more 1 for a job that waits from now on, -1 for one that does not any more */
    waiting({ kind, mode }: Pick<JobRow, 'kind' | 'mode'>, more: 1 | -1): void {
      countWaiting.run(more)
      countQueued.run({ kind, mode, more })
    },
    ended: ({ kind }: Pick<JobRow, 'kind'>, status: JobStatus): void => void countEnd.run(kind, status),
  }
}
