import {
  type Claimed,
  type Claiming,
  JOB_STATUSES,
  type Job,
  type JobEnding,
  type JobFigures,
  type JobKind,
  type JobPageFilter,
  type JobSpec,
  type JobStatus,
  type JobSubmission,
  type ListedJob,
  type QueueMode,
  type Retention,
  type Submitted,
  type WaitingJobs,
} from '../../../contracts/jobs.ts'
import { createPurge, type StateDatabase } from './database.ts'
import { createJobCounters, type JobCounters } from './job-counters.ts'
import { createInputRows, type InputRows, isWaiting } from './job-inputs.ts'
import { createJobRoundRobin, type JobRoundRobin } from './job-round-robin.ts'
import type { JobRow, JobRows, JobSteps, SeenRow } from './job-rows.ts'
import { createRows, createSteps, isRowGone } from './job-rows.ts'
import type { Events } from './outbox.ts'
import type { Operations, Subjects } from './subjects.ts'

/** Jobs that one claim puts back, and makes ready, beyond those that it may take: so that they cannot pile up. */
const MORE_THAN_TAKEN = 100
/** How long whoever moves the audio of a job to its object has, before it is handed out again. */
const MOVE_MS = 60_000
/** How long whoever purges an expired job has, before it is handed out again. */
const PURGE_MS = 5 * 60_000
/** The same for whoever records the usage of an abandoned one. */
const RECORD_MS = 60_000
/** Most jobs in one list: they are held in memory at once, with what they are to do and what came of it. */
const LIST_MAX = 1000
const KINDS: readonly JobKind[] = ['transcription', 'queue']

type JobOperations = Operations<Subjects['jobs']>

interface JobDependencies {
  readonly rows: JobRows
  readonly steps: JobSteps
  readonly slots: JobSlots
  readonly roundRobin: JobRoundRobin
  readonly counters: JobCounters
  readonly inputs: InputRows
  readonly now: () => number
}

/** Jobs in SQLite. A method that finds no job writes nothing. */
export function createJobs(db: StateDatabase, events: Events, now: () => number) {
  const inputs = createInputRows(db)
  const rows = createRows(db, inputs)
  const slots = createSlots(db)
  const counters = createJobCounters(db)
  const roundRobin = createJobRoundRobin(db, counters)
  const steps = createSteps(db, { roundRobin, counters, events, inputs })
  const deps = { rows, steps, slots, roundRobin, counters, inputs, now }
  const operations: JobOperations = {
    ...createCallerMethods(db, deps),
    erase: createErase(db, deps),
    page: createPages(db, rows, now),
    ...createWorkerMethods(db, deps),
    ...createOperatorMethods(db, deps),
    ...createAbandoned(db, rows, now),
    figures: createFigures(db, counters, now),
  }
  return { operations, inputs: createMoving(deps), counters, purge: slots.purge }
}

type JobSlots = ReturnType<typeof createSlots>

/** Idempotency keys of submissions, each kept for a time of its own and as long as the record of its job. */
function createSlots(db: StateDatabase) {
  const find = db.query<{
    readonly fingerprint: string
    readonly jobId: string
  }>(`
    SELECT fingerprint, job_id AS jobId FROM job_slots
    WHERE workspace = ? AND id = ? AND (free_at_ms IS NULL OR free_at_ms > ?)`)
  const put = db.prepare(`
    INSERT OR REPLACE INTO job_slots (workspace, id, fingerprint, job_id, keep_until_ms)
    VALUES (?, ?, ?, ?, ?)`)
  const leave = db.prepare(`
    UPDATE job_slots SET free_at_ms = keep_until_ms WHERE workspace = ? AND id = ? AND job_id = ?`)
  return {
    find: (workspace: string, id: string, nowMs: number) => find.get(workspace, id, nowMs),
    put({ spec, slot }: JobSubmission, nowMs: number): void {
      if (slot) put.run(spec.workspace, slot.id, slot.fingerprint, spec.id, nowMs + slot.keepMs)
    },
    /** Lets the slot live no longer than it must, as the record of its job is gone. */
    leave: ({ workspace, slot_id, id }: Pick<JobRow, 'workspace' | 'slot_id' | 'id'>) =>
      void leave.run(workspace, slot_id, id),
    purge: createPurge(db, 'job_slots', 'free_at_ms'),
  }
}

function createCallerMethods(
  db: StateDatabase,
  { rows, steps, slots, counters, now }: JobDependencies,
): Pick<JobOperations, 'submit' | 'get' | 'cancel' | 'known' | 'waiting'> {
  const waiting = db.query<{ readonly waiting: number }>('SELECT waiting FROM job_counters')
  const requestCancel = db.query<JobRow>('UPDATE jobs SET cancel_requested = 1 WHERE number = ? RETURNING *')

  const viewOf = (id: string): Job | null => {
    const row = rows.visible(id, now())
    return row && rows.view(row)
  }
  const accepted = (id: string, replayed: boolean): Submitted => ({
    ...{ state: 'accepted', replayed, job: viewOf(id), id },
  })
  return {
    submit(submission) {
      const nowMs = now()
      const { spec, slot } = submission
      const before = slot && slots.find(spec.workspace, slot.id, nowMs)
      if (before && before.fingerprint !== slot.fingerprint) return { state: 'reused' }
      // The very submission that made the slot comes again when its answer was lost: that is no replay.
      if (before) return accepted(before.jobId, before.jobId !== spec.id)
      if (!steps.submit(submission, nowMs)) return accepted(spec.id, false)
      slots.put(submission, nowMs)
      return { state: 'new', atMs: nowMs }
    },

    get: viewOf,

    cancel(id, { workspace, app }, keep) {
      const row = rows.visible(id, now())
      if (row?.workspace !== workspace || row.app !== app) return null
      if (row.status === 'queued')
        return rows.view(steps.finish(row, { state: 'cancelled', facts: null }, keep, now()))
      const asks = row.status === 'processing' && row.cancel_requested === 0
      return rows.view(asks ? requestCancel.get(row.number)! : row)
    },

    known: (ids) =>
      new Map(
        ids.flatMap((id) => {
          const row = rows.find(id)
          return row === undefined ? [] : [[id, rows.known(row)] as const]
        }),
      ),

    waiting() {
      counters.save()
      return waiting.get()!.waiting
    },
  }
}

/** Deletes what was sent and heard of a transcription job, at once or with its end. */
function createErase(db: StateDatabase, { rows, steps, now }: JobDependencies) {
  const request = db.query<JobRow>(
    'UPDATE jobs SET erased = ?, cancel_requested = 1 WHERE number = ? RETURNING *',
  )
  const mark = db.query<JobRow>('UPDATE jobs SET erased = ? WHERE number = ? RETURNING *')
  return (spec: JobSpec, keep: Retention): Job | null => {
    const row = rows.visible(spec.id, now())
    const isOwn = row?.workspace === spec.workspace && row.app === spec.app
    if (!isOwn || row.kind !== 'transcription') return null
    const left = JSON.stringify(spec)
    if (row.status === 'processing') return rows.view(request.get(left, row.number)!)
    if (row.status === 'queued') {
      const marked = mark.get(left, row.number)!
      return rows.view(steps.finish(marked, { state: 'cancelled', facts: null }, keep, now()))
    }
    return rows.view(row.erased === null ? steps.erase(row.number, left) : row)
  }
}

/** Jobs that a page of some statuses looks at, whether or not they have one of these. */
const PAGE_SEEN_MAX = 1000

/** Pages of an app's transcription jobs, in the order of an index. */
function createPages(db: StateDatabase, rows: JobRows, now: () => number) {
  const sql = (order: 'ASC' | 'DESC') =>
    `SELECT number, id, status, expires_at_ms FROM jobs
    WHERE kind = 'transcription' AND marked = 0 AND workspace = :workspace AND app = :app
      AND id > :after AND id < :before ORDER BY id ${order} LIMIT :most + 0`
  type Seen = Pick<JobRow, 'number' | 'id' | 'status' | 'expires_at_ms'>
  const byOrder = { newest: db.query<Seen>(sql('DESC')), oldest: db.query<Seen>(sql('ASC')) }
  return ({ owner, statuses, after, before, from, limit }: JobPageFilter) => {
    const nowMs = now()
    const most = statuses === null ? limit : PAGE_SEEN_MAX
    const bounds = { after: after ?? '', before: before ?? AFTER_EVERY_ID }
    const all = byOrder[from].all({ workspace: owner.workspace, app: owner.app, ...bounds, most: most + 1 })
    const jobs: ListedJob[] = []
    let seen = 0
    for (; seen < Math.min(all.length, most) && jobs.length < limit; seen += 1) {
      const { number, status, expires_at_ms } = all[seen]!
      const isOver = expires_at_ms !== null && expires_at_ms <= nowMs
      if (!isOver && (statuses === null || statuses.includes(status))) jobs.push(...rows.listed(number))
    }
    return { jobs, next: seen < all.length ? all[seen - 1]!.id : null }
  }
}

const AFTER_EVERY_ID = '~'

function createWorkerMethods(
  db: StateDatabase,
  { rows, steps, roundRobin, now }: JobDependencies,
): Pick<JobOperations, 'claim' | 'renew' | 'end'> {
  const listStalled = db.query<JobRow>(
    'SELECT * FROM jobs WHERE lease_until_ms <= ? ORDER BY lease_until_ms LIMIT ? + 0',
  )
  const listDue = db.query<{ readonly number: number }>(
    'SELECT number FROM jobs WHERE due_at_ms <= ? ORDER BY due_at_ms LIMIT ? + 0',
  )
  const renew = db.query<{
    readonly cancel_requested: number
  }>(`
    UPDATE jobs SET lease_until_ms = ?, progress = coalesce(?, progress)
    WHERE id = ? AND fence = ? AND status = 'processing' RETURNING cancel_requested`)
  const takeAgain = createTakingAgain(db, rows, steps)

  const takeNew = (claiming: Claiming, token: string | null, nowMs: number): Claimed[] => {
    const { limit, perWorkspace, leaseMs, poison, keep } = claiming
    const claimed: Claimed[] = []
    roundRobin.unthrottleBelow(perWorkspace)
    while (claimed.length < limit) {
      const number = roundRobin.next(perWorkspace)
      if (number === null) break
      const row = steps.take(number, token, nowMs + leaseMs, nowMs)
      const job = rows.claimed(row)
      if (job) claimed.push(job)
      // Taken again and again, it would keep all the others waiting.
      else steps.finish(row, { state: 'failed', error: poison, facts: null }, keep, nowMs)
    }
    return claimed
  }

  return {
    claim(claiming, token = null) {
      const nowMs = now()
      const again = takeAgain(claiming, token, nowMs)
      if (again !== null) return again
      const most = claiming.limit + MORE_THAN_TAKEN
      for (const row of listStalled.all(nowMs, most)) putBack(steps, row, claiming, nowMs)
      for (const { number } of listDue.all(nowMs, most)) steps.wake(number)
      return takeNew(claiming, token, nowMs)
    },

    renew(id, fence, leaseMs, progress) {
      const row = renew.get(now() + leaseMs, progress && JSON.stringify(progress), id, fence)
      return { held: row !== undefined, cancelRequested: row?.cancel_requested === 1 }
    },

    end(id, fence, ending, keep) {
      const nowMs = now()
      const ended = ending.state === 'queued' ? null : steps.finishClaim(id, fence, ending, keep, nowMs)
      if (ended !== null) return { job: rows.view(ended), isNow: true }
      const row = rows.find(id)
      if (row?.fence !== fence || isRowGone(row, nowMs)) return { job: null, isNow: false }
      // The same claim ended it so before, and the answer may have been lost.
      if (row.status !== 'processing')
        return { job: row.ending === ending.state ? rows.view(row) : null, isNow: false }
      return { job: rows.view(endClaim(steps, row, ending, keep, nowMs)), isNow: false }
    },
  }
}

/**
 * Hands out what a claim took whose answer was lost: as many jobs as there are places for by now; the others go back.
 * Null: the claim holds nothing.
 */
function createTakingAgain(db: StateDatabase, rows: JobRows, steps: JobSteps) {
  const listTaken = db.query<JobRow>('SELECT * FROM jobs WHERE claim_token = ? ORDER BY number')
  const lease = db.prepare('UPDATE jobs SET lease_until_ms = ? WHERE number = ?')
  return ({ limit, leaseMs }: Claiming, token: string | null, nowMs: number): Claimed[] | null => {
    const taken = listTaken.all(token)
    if (taken.length === 0) return null
    for (const row of taken.slice(limit)) steps.queue(row, null, nowMs)
    return taken.slice(0, limit).flatMap((row) => {
      lease.run(nowMs + leaseMs, row.number)
      return rows.claimed(row) ?? []
    })
  }
}

/** Puts a job back whose claim has ended by its lease alone, or ends it. */
function putBack(steps: JobSteps, row: JobRow, { stalledMax, poison, keep }: Claiming, nowMs: number): void {
  const stalled = row.stalled + 1
  if (row.cancel_requested === 1)
    steps.finish(row, { state: 'cancelled', facts: null }, keep, nowMs, { stalled })
  else if (stalled < stalledMax) steps.queue(row, null, nowMs, { stalled })
  else steps.finish(row, { state: 'failed', error: poison, facts: null }, keep, nowMs, { stalled })
}

/** Ends a job, or puts it back, as its worker asks; cancels it when that was requested and it has not failed. */
function endClaim(
  steps: JobSteps,
  row: JobRow,
  ending: JobEnding,
  keep: Retention,
  nowMs: number,
): JobRow | SeenRow {
  if (row.cancel_requested === 1 && (ending.state === 'queued' || ending.state === 'succeeded')) {
    const facts = ending.state === 'queued' ? null : ending.facts
    return steps.finish(row, { state: 'cancelled', facts }, keep, nowMs, { ending: ending.state })
  }
  if (ending.state !== 'queued') return steps.finish(row, ending, keep, nowMs, { ending: ending.state })
  const { delayMs, counts } = ending
  const counted =
    counts === 'nothing' ? {} : counts === 'retry' ? { retries: 1 as const } : { returns: 1 as const }
  const dueAtMs = delayMs > 0 ? nowMs + delayMs : null
  return steps.queue(row, dueAtMs, nowMs, { stalled: 0, ending: 'queued', ...counted })
}

function createOperatorMethods(
  db: StateDatabase,
  { rows, steps, slots, counters, inputs, now }: JobDependencies,
): Pick<JobOperations, 'takeExpired' | 'forget' | 'list' | 'retry'> {
  const mark = db.query<JobRow>(`
    UPDATE jobs SET marked = 1, purge_at_ms = :againAtMs WHERE number IN (
      SELECT number FROM jobs WHERE purge_at_ms <= :nowMs ORDER BY purge_at_ms LIMIT :limit + 0
    ) RETURNING *`)
  const forget = db.query<Pick<JobRow, 'number' | 'workspace' | 'slot_id' | 'id'>>(
    'DELETE FROM jobs WHERE id = ? AND marked = 1 RETURNING number, workspace, slot_id, id',
  )
  const forgetSpec = db.prepare('DELETE FROM job_specs WHERE number = ?')
  const forgetAbandoned = db.prepare('DELETE FROM abandoned_jobs WHERE number = ?')
  const list = db.query<{
    readonly number: number
  }>(`
    SELECT number FROM jobs WHERE marked = 0 AND kind = :kind AND status = :status
      AND (:workspace IS NULL OR workspace = :workspace) AND (expires_at_ms IS NULL OR expires_at_ms > :nowMs)
    ORDER BY number DESC LIMIT :limit + 0`)
  const renewed = db.query<JobRow>(`
    UPDATE jobs SET place = ?, ended_at_ms = NULL, expires_at_ms = NULL, purge_at_ms = NULL, cancel_requested = 0,
      retries = 0, returns = 0, ending = NULL, error = NULL, facts = NULL
    WHERE number = ? RETURNING *`)

  return {
    takeExpired(limit) {
      const nowMs = now()
      return rows.viewAll(mark.all({ nowMs, limit, againAtMs: nowMs + PURGE_MS }))
    },

    forget(id) {
      const row = forget.get(id)
      if (row === undefined) return
      forgetSpec.run(row.number)
      forgetAbandoned.run(row.number)
      inputs.remove(row.number)
      slots.leave(row)
    },

    list({ workspace, kind, status, limit }) {
      const page = { workspace, nowMs: now(), limit: Math.min(limit, LIST_MAX) }
      // The newest of each kind and status, for which there is an index, and of these the newest.
      const numbers = (kind ? [kind] : KINDS).flatMap((kind) =>
        (status ? [status] : JOB_STATUSES).flatMap((status) =>
          list.all({ ...page, kind, status }).map(({ number }) => number),
        ),
      )
      const newest = numbers.sort((a, b) => b - a).slice(0, page.limit)
      return rows.viewAll(newest.map(rows.at))
    },

    retry(id) {
      const row = rows.visible(id, now())
      if (row?.kind !== 'queue' || row.status !== 'failed') return false
      forgetAbandoned.run(row.number)
      steps.queue(renewed.get(counters.lastPlace(), row.number)!, null, now(), { stalled: 0 })
      return true
    },
  }
}

/** Audio that waits in records, to be moved to its objects. */
function createMoving({ rows, inputs, now }: JobDependencies): Operations<Subjects['jobInputs']> {
  return {
    hasRoom: inputs.hasRoom,

    take(limit, ageMs) {
      const nowMs = now()
      return inputs.take(limit, nowMs - ageMs, nowMs + MOVE_MS).flatMap(({ number, input }) => {
        const row: JobRow | undefined = rows.at(number)
        if (row !== undefined && isWaiting(row)) return rows.viewAll([row]).map((job) => ({ job, input }))
        // A version that does not know of the audio has ended the job, or deleted it.
        inputs.remove(number)
        return []
      })
    },

    moved(id) {
      const row = rows.find(id)
      if (row === undefined) return false
      // Its worker has the audio out of the record, or out of the object that was there before.
      if (!isWaiting(row)) return row.status === 'processing' && inputs.of(row.number) === undefined
      inputs.remove(row.number)
      return true
    },
  }
}

/** Jobs that no worker has ended, for their usage to be recorded. */
function createAbandoned(
  db: StateDatabase,
  rows: JobRows,
  now: () => number,
): Pick<JobOperations, 'takeAbandoned' | 'recorded'> {
  const take = db.query<{
    readonly number: number
    readonly chargedMicros: number
  }>(`
    UPDATE abandoned_jobs SET next_at_ms = :againAtMs WHERE number IN (
      SELECT number FROM abandoned_jobs WHERE next_at_ms <= :nowMs ORDER BY next_at_ms LIMIT :limit + 0
    ) RETURNING number, charged_micros AS chargedMicros`)
  const recorded = db.prepare(
    'DELETE FROM abandoned_jobs WHERE number = (SELECT number FROM jobs WHERE id = ?)',
  )
  return {
    takeAbandoned(limit) {
      const nowMs = now()
      return take
        .all({ nowMs, limit, againAtMs: nowMs + RECORD_MS })
        .flatMap(({ number, chargedMicros }) =>
          rows.viewAll([rows.at(number)]).map((job) => ({ job, chargedMicros })),
        )
    },
    recorded: (id) => void recorded.run(id),
  }
}

function createFigures(db: StateDatabase, counters: JobCounters, now: () => number): () => JobFigures {
  const queues = db.query<{ readonly mode: QueueMode; readonly jobs: number }>(
    'SELECT mode, jobs FROM job_queues WHERE kind = ? AND jobs > 0',
  )
  const first = db.query<{ readonly ms: number }>(
    'SELECT min(waits_from_ms) AS ms FROM jobs WHERE kind = ? AND mode = ?',
  )
  const later = db.query<{ readonly jobs: number }>(
    'SELECT count(*) AS jobs FROM jobs WHERE kind = ? AND mode = ? AND waits_from_ms > ?',
  )
  const ends = db.query<{ readonly status: JobStatus; readonly jobs: number }>(
    'SELECT status, jobs FROM job_ends WHERE kind = ?',
  )
  const waitingOf = (kind: JobKind, mode: QueueMode, jobs: number): WaitingJobs => {
    const nowMs = now()
    const delayed = later.get(kind, mode, nowMs)!.jobs
    const oldestMs = Math.max(0, nowMs - first.get(kind, mode)!.ms)
    return { kind, mode, ready: jobs - delayed, delayed, oldestMs }
  }
  return () => {
    counters.save()
    return {
      waiting: KINDS.flatMap((kind) => queues.all(kind).map(({ mode, jobs }) => waitingOf(kind, mode, jobs))),
      ended: KINDS.flatMap((kind) => ends.all(kind).map(({ status, jobs }) => ({ kind, status, jobs }))),
    }
  }
}
