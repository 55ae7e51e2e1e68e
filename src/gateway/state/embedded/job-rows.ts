import {
  type Claimed,
  type Job,
  type JobChange,
  type JobEnding,
  type JobError,
  type JobFacts,
  type JobKind,
  type JobProgress,
  type JobSpec,
  type JobStatus,
  type JobSubmission,
  type KnownJob,
  type ListedJob,
  partCount,
  type QueueMode,
  type Retention,
} from '../../../contracts/jobs.ts'
import type { KeptText } from '../../../contracts/objects.ts'
import { newJobOf } from '../new-job.ts'
import type { StateDatabase } from './database.ts'
import type { JobCounters } from './job-counters.ts'
import { type InputRows, isWaiting } from './job-inputs.ts'
import type { JobRoundRobin } from './job-round-robin.ts'
import type { Events } from './outbox.ts'

/** Lines of a job's history that are kept, the newest of them. */
const HISTORY_MAX = 64
const NO_PROGRESS: JobProgress = { audio: null, upstream: null }

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
  /** `ERASED`, or JSON of the specification that is to be left once the job has ended; null: nothing is erased. */
  readonly erased: string | null
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

/** Columns of a job that are shown or decide about its steps, and its specification. */
const SEEN = `number, id, kind, mode, workspace, event_id, status, created_at_ms, started_at_ms, ended_at_ms,
  expires_at_ms, cancel_requested, erased, fence, stalled, retries, returns, result, error, facts, history, progress,
  (SELECT spec FROM job_specs WHERE job_specs.number = jobs.number) AS spec`

/** A row as the steps of a claim return it: what they need less of costs less. */
export type SeenRow = Omit<JobRow, 'app' | 'slot_id' | 'marked' | 'ending'> & { readonly spec: string | null }

export const ERASED = 'done'

export type JobRows = ReturnType<typeof createRows>

export function createRows(db: StateDatabase, inputs: Pick<InputRows, 'of'>) {
  const find = db.query<JobRow>('SELECT * FROM jobs WHERE id = ?')
  const at = db.query<JobRow>('SELECT * FROM jobs WHERE number = ?')
  const listed = db.query<ListedRow>(
    `SELECT status, ended_at_ms, error, erased, spec FROM jobs JOIN job_specs USING (number) WHERE number = ?`,
  )
  const findSpec = db.query<{ readonly spec: string }>('SELECT spec FROM job_specs WHERE number = ?')

  /** @throws Error when it cannot be read */
  const specOf = (row: JobRow | SeenRow) =>
    JSON.parse(('spec' in row ? row.spec : findSpec.get(row.number)?.spec) ?? '') as JobSpec
  /** The job as the contract shows it. @throws Error when it cannot be read */
  const view = (row: JobRow | SeenRow): Job => jobOf(row, specOf(row))
  /** The same of many. A job that cannot be read is left out, so the others can still be seen. */
  const viewAll = (rows: readonly JobRow[]): Job[] => rows.flatMap((row) => readable(() => view(row)) ?? [])

  return {
    /** Finds marked jobs, too. */
    find: (id: string): JobRow | undefined => find.get(id),
    /** Null: there is none, or its time is over. */
    visible(id: string, nowMs: number): JobRow | null {
      const row = find.get(id)
      return row === undefined || isRowGone(row, nowMs) ? null : row
    },
    at: (number: number): JobRow => at.get(number)!,
    view,
    viewAll,
    /** The fields that lists show of a job; none when it cannot be read. */
    listed(number: number): readonly ListedJob[] {
      const row = listed.get(number)
      const found = row && readable(() => listedOf(row))
      return found ? [found] : []
    },
    /** The job with its audio and the progress of the claims before; null when it cannot be read. */
    claimed: (row: JobRow | SeenRow): Claimed | null =>
      readable(() => {
        const progress = parsedValue<JobProgress>(row.progress) ?? NO_PROGRESS
        return { job: view(row), progress, input: inputs.of(row.number) }
      }),
    known(row: JobRow): KnownJob {
      const { status, kind, fence } = row
      const mayBeRetried = kind === 'queue' && status === 'failed'
      const result = parsedValue<KeptText>(row.result)
      return { status, kind, fence, result, work: mayBeRetried ? readable(() => specOf(row).work) : null }
    },
  }
}

type ListedRow = Pick<JobRow, 'status' | 'ended_at_ms' | 'error' | 'erased'> & { readonly spec: string }

function listedOf({ status, ended_at_ms, error, erased, spec }: ListedRow): ListedJob {
  const { id, work, door } = JSON.parse(spec) as JobSpec
  return {
    ...{ id, status, work, ...(door === undefined ? {} : { door }) },
    ...{ endedAtMs: ended_at_ms, error: parsedValue<JobError>(error), erased: erased !== null },
  }
}

/** No one sees the job any more, whether or not the purge has come to it. */
export function isRowGone({ marked, expires_at_ms }: JobRow, nowMs: number): boolean {
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

function parsedValue<Value>(text: string | null): Value | null {
  return text === null ? null : (JSON.parse(text) as Value)
}

function jobOf(row: JobRow | SeenRow, spec: JobSpec): Job {
  return {
    ...spec,
    status: row.status,
    createdAtMs: row.created_at_ms,
    startedAtMs: row.started_at_ms,
    endedAtMs: row.ended_at_ms,
    expiresAtMs: row.expires_at_ms,
    cancelRequested: row.cancel_requested === 1,
    erased: row.erased !== null,
    fence: row.fence,
    stalled: row.stalled,
    retries: row.retries,
    returns: row.returns,
    result: parsedValue<KeptText>(row.result),
    error: parsedValue<JobError>(row.error),
    facts: parsedValue<JobFacts>(row.facts),
    history: JSON.parse(row.history) as JobChange[],
    ...partCount(parsedValue<JobProgress>(row.progress)),
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
  /** @returns false when there is a job of its id */
  submit(submission: JobSubmission, nowMs: number): boolean
  /** Puts the job back to its place, or has it wait until it is due. @param dueAtMs null: at once */
  queue(row: JobRow, dueAtMs: number | null, nowMs: number, counts?: Counts): JobRow
  /** Makes a job that waited ready, behind all others. Its status stays as it is. */
  wake(number: number): void
  /** Begins the next claim. @param token what the claim is known by; null: nothing */
  take(number: number, token: string | null, leaseUntilMs: number, nowMs: number): SeenRow
  /** Ends a job. @param counts without an `ending` no worker does it, and its usage is not recorded */
  finish(
    row: Pick<JobRow, 'number' | 'status' | 'kind' | 'mode' | 'workspace'>,
    outcome: JobOutcome,
    keep: Retention,
    nowMs: number,
    counts?: Counts,
  ): JobRow | SeenRow
  /** Deletes what was sent and heard of a job that has ended. @param spec JSON of the specification that is left */
  erase(number: number, spec: string): JobRow
  /** Ends a claim for good. @returns null when it is not in force, or a cancellation was requested: nothing is done */
  finishClaim(id: string, fence: number, outcome: JobOutcome, keep: Retention, nowMs: number): SeenRow | null
}

interface StepDependencies {
  readonly roundRobin: JobRoundRobin
  readonly counters: JobCounters
  readonly events: Events
  readonly inputs: InputRows
}

/** One more line of the history, which begins anew when it cannot be read. */
const newHistory = (status: string, fence = 'fence') => `
  history = json_insert(
    CASE WHEN NOT json_valid(history) THEN '[]'
      WHEN json_array_length(history) < ${HISTORY_MAX} THEN history
      ELSE json_remove(history, '$[0]') END,
    '$[#]', json_object('atMs', CAST(:nowMs AS INTEGER), 'status', ${status}, 'fence', ${fence}))`
/** The job is not ready, does not wait until it is due, and has no claim. */
const LEAVE_LISTS =
  'ready = 0, due_at_ms = NULL, waits_from_ms = NULL, lease_until_ms = NULL, claim_token = NULL'

export function createSteps(db: StateDatabase, deps: StepDependencies): JobSteps {
  const { roundRobin, counters, events, inputs } = deps
  const submit = createSubmit(db, inputs)
  const { queue, wake, take } = createMoves(db)
  const { finish, finishClaim } = createFinish(db)
  const abandon = db.prepare(`
    INSERT OR REPLACE INTO abandoned_jobs (number, charged_micros, next_at_ms)
    SELECT number, CASE WHEN json_valid(progress) THEN coalesce(progress ->> '$.chargedMicros', 0) ELSE 0 END, ?
    FROM jobs WHERE number = ?`)
  const erase = createErasure(db)

  /** Does all that goes with the end of a job, once its row says that it has ended. */
  const finished = (row: SeenRow, nowMs: number): void => {
    counters.ended(row, row.status)
    if (!isWaiting(row)) inputs.remove(row.number)
    const { event_id: id, id: jobId, workspace } = row
    const status = row.status as JobOutcome['state']
    if (id !== null) events.announce({ id, jobId, workspace, status, occurredAtMs: nowMs }, nowMs)
  }

  return {
    submit(submission, nowMs) {
      const { spec } = submission
      if (!submit(submission, counters.lastPlace(), nowMs)) return false
      counters.waiting(spec, 1)
      roundRobin.open(spec)
      return true
    },

    queue(row, dueAtMs, nowMs, { stalled = row.stalled, retries = 0, returns = 0, ending = null } = {}) {
      const { number, status, workspace } = row
      if (status === 'processing') roundRobin.unthrottle(workspace)
      counters.waiting(row, 1)
      if (dueAtMs === null) roundRobin.open(row)
      return queue.get({ number, dueAtMs, nowMs, stalled, retries, returns, ending })!
    },

    wake: (number) => roundRobin.open(wake.get(counters.lastPlace(), number)!),

    take(number, token, leaseUntilMs, nowMs) {
      const row = take.get({ number, token, leaseUntilMs, nowMs })!
      counters.waiting(row, -1)
      return row
    },

    finish(row, outcome, keep, nowMs, counts = {}) {
      if (row.status === 'queued') counters.waiting(row, -1)
      if (row.status === 'processing') roundRobin.unthrottle(row.workspace)
      if (counts.ending === undefined) abandon.run(nowMs, row.number)
      const ended = finish(row.number, outcome, { keep, nowMs, counts })
      finished(ended, nowMs)
      return ended.erased === null ? ended : erase(ended.number, ended.erased)
    },

    erase,

    finishClaim(id, fence, outcome, keep, nowMs) {
      const ended = finishClaim({ id, fence }, outcome, { keep, nowMs, counts: { ending: outcome.state } })
      if (ended === undefined) return null
      roundRobin.unthrottle(ended.workspace)
      finished(ended, nowMs)
      return ended
    },
  }
}

/** Writes which list a job is in. */
function createMoves(db: StateDatabase) {
  const queue = db.query<JobRow>(`
    UPDATE jobs SET status = 'queued', ready = :dueAtMs IS NULL, due_at_ms = :dueAtMs,
      waits_from_ms = coalesce(:dueAtMs, :nowMs), lease_until_ms = NULL, claim_token = NULL,
      stalled = :stalled, retries = retries + :retries, returns = returns + :returns,
      ending = coalesce(:ending, ending), ${newHistory("'queued'")}
    WHERE number = :number RETURNING *`)
  const wake = db.query<JobRow>(
    'UPDATE jobs SET ready = 1, due_at_ms = NULL, place = ? WHERE number = ? RETURNING *',
  )
  const take = db.query<SeenRow>(`
    UPDATE jobs SET ${LEAVE_LISTS}, status = 'processing', lease_until_ms = :leaseUntilMs, claim_token = :token,
      fence = fence + 1, ending = NULL, started_at_ms = coalesce(started_at_ms, :nowMs),
      ${newHistory("'processing'", 'fence + 1')}
    WHERE number = :number RETURNING ${SEEN}`)
  return { queue, wake, take }
}

/** Writes a new job, which is ready. @returns false when there is one of its id */
function createSubmit(db: StateDatabase, inputs: Pick<InputRows, 'put'>) {
  const insert = db.query<{ readonly number: number }>(`
    INSERT INTO jobs (
      id, kind, mode, workspace, app, event_id, slot_id, created_at_ms, place, waits_from_ms,
      status, ready, marked, cancel_requested, fence, stalled, retries, returns, history
    ) VALUES (
      :id, :kind, :mode, :workspace, :app, :eventId, :slotId, :nowMs, :place, :nowMs,
      'queued', 1, 0, 0, 0, 0, 0, 0, :history
    ) ON CONFLICT (id) DO NOTHING RETURNING number`)
  const putSpec = db.prepare('INSERT INTO job_specs (number, spec) VALUES (?, ?)')
  return ({ spec, slot, input }: JobSubmission, place: number, nowMs: number): boolean => {
    const { id, kind, mode, workspace, app, eventId } = spec
    const slotId = slot?.id ?? null
    const history = JSON.stringify(newJobOf(spec, nowMs).history)
    const row = insert.get({ id, kind, mode, workspace, app, eventId, slotId, place, nowMs, history })
    if (row === undefined) return false
    putSpec.run(row.number, JSON.stringify(spec))
    if (input !== undefined) inputs.put(row.number, input, nowMs)
    return true
  }
}

function createErasure(db: StateDatabase) {
  const putSpec = db.prepare('UPDATE job_specs SET spec = ? WHERE number = ?')
  const erase = db.query<JobRow>(
    `UPDATE jobs SET erased = '${ERASED}', result = NULL WHERE number = ? RETURNING *`,
  )
  return (number: number, spec: string): JobRow => {
    putSpec.run(spec, number)
    return erase.get(number)!
  }
}

/** Writes the end of a job. No one takes it over any more, so its progress goes. */
function createFinish(db: StateDatabase) {
  const sql = (job: string, seen = SEEN) => `
    UPDATE jobs SET ${LEAVE_LISTS}, status = :status, stalled = coalesce(:stalled, stalled),
      ending = coalesce(:ending, ending), ended_at_ms = :nowMs, expires_at_ms = :nowMs + ${KEPT_MS},
      purge_at_ms = :nowMs + ${KEPT_MS}, facts = :facts, error = :error, result = :result, progress = NULL,
      ${newHistory(':status')}
    WHERE ${job} RETURNING ${seen}`
  const finish = db.query<SeenRow>(sql('number = :number'))
  const finishClaim = db.query<SeenRow>(
    sql(
      `id = :id AND fence = :fence AND status = 'processing' AND cancel_requested = 0`,
      SEEN.replace(' result,', ' NULL AS result,'),
    ),
  )
  const json = (value: object | null) => value && JSON.stringify(value)
  const bound = (outcome: JobOutcome, { keep, nowMs, counts }: FinishTerms) => ({
    status: outcome.state,
    stalled: counts.stalled ?? null,
    ending: counts.ending ?? null,
    nowMs,
    transcriptionMs: keep.transcriptionMs,
    otherMs: outcome.state === 'failed' ? keep.deadMs : keep.queueMs,
    facts: json(outcome.facts),
    error: json(outcome.state === 'failed' ? outcome.error : null),
    result: json(outcome.state === 'succeeded' ? outcome.result : null),
  })
  return {
    finish: (number: number, outcome: JobOutcome, terms: FinishTerms): SeenRow =>
      finish.get({ number, ...bound(outcome, terms) })!,
    /** Undefined: the claim is not in force, or a cancellation was requested. */
    finishClaim: (claim: { id: string; fence: number }, outcome: JobOutcome, terms: FinishTerms) =>
      finishClaim.get({ ...claim, ...bound(outcome, terms) }),
  }
}

interface FinishTerms {
  readonly keep: Retention
  readonly nowMs: number
  readonly counts: Counts
}

/** How long a job is kept after its end. */
const KEPT_MS = `iif(kind = 'transcription', :transcriptionMs, :otherMs)`
