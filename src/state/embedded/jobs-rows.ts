import type { DatabaseSync } from 'node:sqlite'
import type {
  Job,
  JobChange,
  JobError,
  JobFacts,
  JobKind,
  JobProgress,
  JobSpec,
  JobStatus,
  JobSubmission,
  KeptText,
  KnownJob,
  QueueMode,
} from '../../schema/jobs.ts'

/** A row of the table `jobs`, to be changed and saved. */
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
  status: JobStatus
  ready: number
  place: number
  due_at_ms: number | null
  waits_from_ms: number | null
  lease_until_ms: number | null
  claim_token: string | null
  purge_at_ms: number | null
  marked: number
  started_at_ms: number | null
  ended_at_ms: number | null
  expires_at_ms: number | null
  cancel_requested: number
  fence: number
  strays: number
  retries: number
  returns: number
  ending: string | null
  /** JSON, and all that follow. */
  history: string
  error: string | null
  facts: string | null
  progress: string | null
  result: string | null
}

/** Lines of a job's history that are kept, the newest of them. */
const HISTORY_MAX = 64

const NO_PROGRESS: JobProgress = { audio: null, upstream: null }

export interface JobRows {
  /** Also one that is marked. */
  find(id: string): JobRow | undefined
  /** Null: there is none, or its time is over. */
  visible(id: string, nowMs: number): JobRow | null
  at(number: number): JobRow
  /** Writes a new job, which is queued. */
  insert(submission: JobSubmission, place: number, nowMs: number): JobRow
  save(row: JobRow): void
  remove(row: JobRow): void
  /** The least of it that tells which objects it needs. */
  known(row: JobRow): KnownJob
  /** The job as the contract shows it. @throws Error when it cannot be read */
  view(row: JobRow): Job
  /** The same of many; one that cannot be read is left out, and keeps nobody from the others. */
  viewAll(rows: readonly JobRow[]): Job[]
}

export function createJobRows(db: DatabaseSync): JobRows {
  const find = db.prepare('SELECT * FROM jobs WHERE id = ?')
  const at = db.prepare('SELECT * FROM jobs WHERE number = ?')
  const insert = db.prepare(`
    INSERT INTO jobs (
      id, kind, mode, workspace, app, event_id, slot_id, created_at_ms, place, history,
      status, ready, marked, cancel_requested, fence, strays, retries, returns
    ) VALUES (
      :id, :kind, :mode, :workspace, :app, :eventId, :slotId, :nowMs, :place, '[]',
      'queued', 0, 0, 0, 0, 0, 0, 0
    ) RETURNING *`)
  const save = db.prepare(`
    UPDATE jobs SET
      status = :status, ready = :ready, place = :place, due_at_ms = :due_at_ms,
      waits_from_ms = :waits_from_ms,
      lease_until_ms = :lease_until_ms, claim_token = :claim_token,
      purge_at_ms = :purge_at_ms, marked = :marked,
      started_at_ms = :started_at_ms, ended_at_ms = :ended_at_ms, expires_at_ms = :expires_at_ms,
      cancel_requested = :cancel_requested, fence = :fence, strays = :strays, retries = :retries,
      returns = :returns, ending = :ending, history = :history, error = :error, facts = :facts,
      progress = :progress, result = :result
    WHERE number = :number`)
  // Fields of a row that do not change have no place in the statement.
  save.setAllowUnknownNamedParameters(true)
  const remove = db.prepare('DELETE FROM jobs WHERE number = ?')
  const putSpec = db.prepare('INSERT INTO job_specs (number, spec) VALUES (?, ?)')
  const findSpec = db.prepare('SELECT spec FROM job_specs WHERE number = ?')
  const removeSpec = db.prepare('DELETE FROM job_specs WHERE number = ?')

  const specOf = ({ number }: JobRow) => JSON.parse(String(findSpec.get(number)?.spec)) as JobSpec
  const view = (row: JobRow): Job => jobOf(row, specOf(row))

  return {
    find: (id) => find.get(id) as JobRow | undefined,
    visible(id, nowMs) {
      const row = find.get(id) as JobRow | undefined
      return row === undefined || isGone(row, nowMs) ? null : row
    },
    at: (number) => at.get(number) as JobRow,

    insert({ spec, slot }, place, nowMs) {
      const { id, kind, mode, workspace, app, eventId } = spec
      const slotId = slot?.id ?? null
      const row = insert.get({ id, kind, mode, workspace, app, eventId, slotId, place, nowMs }) as JobRow
      putSpec.run(row.number, JSON.stringify(spec))
      return row
    },

    save: (row) => void save.run(row),

    remove({ number }) {
      remove.run(number)
      removeSpec.run(number)
    },

    known: (row) => knownOf(row, specOf),
    view,
    viewAll: (rows) => rows.flatMap((row) => readable(() => view(row)) ?? []),
  }
}

/** Its time is over: nobody sees it any more, whether or not the purge has come to it. */
export function isGone({ marked, expires_at_ms }: JobRow, nowMs: number): boolean {
  return marked === 1 || (expires_at_ms !== null && expires_at_ms <= nowMs)
}

/** Null: what it reads cannot be read. */
export function readable<Value>(read: () => Value): Value | null {
  try {
    return read()
  } catch {
    return null
  }
}

/** Writes the change of its status into the job's history; begins it anew when it cannot be read. */
export function remember(row: JobRow, nowMs: number): void {
  const history = readable(() => JSON.parse(row.history) as JobChange[]) ?? []
  history.push({ atMs: nowMs, status: row.status, fence: row.fence })
  row.history = JSON.stringify(history.slice(-HISTORY_MAX))
}

function knownOf(row: JobRow, specOf: (row: JobRow) => JobSpec): KnownJob {
  const { status, kind, fence } = row
  const mayBeRetried = kind === 'queue' && status === 'failed'
  return {
    ...{ status, kind, fence },
    result: parsed<KeptText>(row.result),
    work: mayBeRetried ? (readable(() => specOf(row).work) ?? null) : null,
  }
}

/** What was left behind by the claims before. */
export function progressOf({ progress }: JobRow): JobProgress {
  return parsed<JobProgress>(progress) ?? NO_PROGRESS
}

function jobOf(row: JobRow, spec: JobSpec): Job {
  return {
    ...spec,
    status: row.status,
    createdAtMs: row.created_at_ms,
    startedAtMs: row.started_at_ms,
    endedAtMs: row.ended_at_ms,
    expiresAtMs: row.expires_at_ms,
    cancelRequested: row.cancel_requested === 1,
    fence: row.fence,
    strays: row.strays,
    retries: row.retries,
    returns: row.returns,
    result: parsed<KeptText>(row.result),
    error: parsed<JobError>(row.error),
    facts: parsed<JobFacts>(row.facts),
    history: JSON.parse(row.history) as JobChange[],
  }
}

function parsed<Value>(text: string | null): Value | null {
  return text === null ? null : (JSON.parse(text) as Value)
}
