import type { DatabaseSync } from 'node:sqlite'
import type { QueueMode } from '../../contracts/jobs.ts'
import { query } from './database.ts'

/** The mode that is asked first, over and over: 6 : 3 : 1, spread as evenly as that goes. */
const SEQUENCE: readonly QueueMode[] = [
  'priority',
  'standard',
  'priority',
  'priority',
  'standard',
  'priority',
  'bulk',
  'priority',
  'standard',
  'priority',
]

/** The list of a workspace's ready jobs of a mode. */
interface ReadyList {
  readonly workspace: string
  readonly mode: QueueMode
}

/**
 * Says which job is taken next: modes are served in proportion, the workspaces of a mode in turn, the jobs of a
 * workspace in line.
 */
export interface JobRoundRobin {
  /**
   * Number of the job to take; null when there is none. The caller takes it.
   *
   * @param perWorkspace most jobs of a workspace that may be running
   */
  next(perWorkspace: number): number | null
  /** Serves the list in its turn from now on: it holds a job. */
  open(list: ReadyList): void
  /** Serves the workspace again: one of its jobs does not run any more. */
  unthrottle(workspace: string): void
  /** A place in line behind all that were given before. */
  lastPlace(): number
}

export function createJobRoundRobin(db: DatabaseSync): JobRoundRobin {
  const lists = createLists(db)
  const running = query<{ readonly jobs: number }>(
    db,
    `SELECT count(*) AS jobs FROM jobs WHERE workspace = ? AND status = 'processing'`,
  )
  const firstTwo = query<{ readonly number: number }>(
    db,
    'SELECT number FROM jobs WHERE ready = 1 AND workspace = ? AND mode = ? ORDER BY place, number LIMIT 2',
  )
  const step = query<{ readonly step: number }>(db, 'SELECT step FROM job_counters')
  const setStep = db.prepare('UPDATE job_counters SET step = ?')
  const takePlace = query<{ readonly place: number }>(
    db,
    'UPDATE job_counters SET place = place + 1 RETURNING place',
  )

  /** The workspace of the mode whose turn it is, with less than so many running jobs. */
  const workspaceOf = (mode: QueueMode, perWorkspace: number): string | null => {
    for (;;) {
      const workspace = lists.first(mode)
      if (workspace === null || running.get(workspace)!.jobs < perWorkspace) return workspace
      // It costs nothing more from here on until one of its jobs ends.
      lists.throttle(workspace, perWorkspace)
    }
  }

  /** The job of the mode whose turn it is; null when the mode has none. */
  const jobOf = (mode: QueueMode, perWorkspace: number): number | null => {
    for (;;) {
      const workspace = workspaceOf(mode, perWorkspace)
      if (workspace === null) return null
      const [job, another] = firstTwo.all(workspace, mode)
      if (another) lists.pass({ workspace, mode })
      else lists.close({ workspace, mode })
      // A list whose jobs were all cancelled is found to be empty only here.
      if (job) return job.number
    }
  }

  return {
    next(perWorkspace) {
      lists.unthrottleBelow(perWorkspace)
      const from = step.get()!.step
      const empty = new Set<QueueMode>()
      for (let i = from; i < from + SEQUENCE.length; i++) {
        const mode = SEQUENCE[i % SEQUENCE.length]!
        if (empty.has(mode)) continue
        const number = jobOf(mode, perWorkspace)
        if (number !== null) {
          setStep.run((i + 1) % SEQUENCE.length)
          return number
        }
        empty.add(mode)
      }
      return null
    },
    open: lists.open,
    unthrottle: lists.unthrottle,
    lastPlace: () => takePlace.get()!.place,
  }
}

/** The lists that hold ready jobs, those of a mode in the order in which they are served. */
function createLists(db: DatabaseSync) {
  const last =
    '(SELECT coalesce(max(turn), 0) + 1 FROM job_round_robin WHERE mode = :mode AND throttled_at IS NULL)'
  const first = query<{ readonly workspace: string }>(
    db,
    'SELECT workspace FROM job_round_robin WHERE mode = ? AND throttled_at IS NULL ORDER BY turn LIMIT 1',
  )
  const open = db.prepare(`
    INSERT INTO job_round_robin (workspace, mode, turn, throttled_at) VALUES (:workspace, :mode, ${last}, NULL)
    ON CONFLICT DO NOTHING`)
  const pass = db.prepare(`
    UPDATE job_round_robin SET turn = ${last}, throttled_at = NULL WHERE workspace = :workspace AND mode = :mode`)
  const close = db.prepare('DELETE FROM job_round_robin WHERE workspace = :workspace AND mode = :mode')
  const throttle = db.prepare('UPDATE job_round_robin SET throttled_at = ? WHERE workspace = ?')
  const listThrottled = query<ReadyList>(
    db,
    'SELECT workspace, mode FROM job_round_robin WHERE workspace = ? AND throttled_at IS NOT NULL',
  )
  const listThrottledBelow = query<ReadyList>(
    db,
    'SELECT workspace, mode FROM job_round_robin WHERE throttled_at < ?',
  )
  return {
    /** The workspace whose turn it is; null when no workspace has one. */
    first: (mode: QueueMode): string | null => first.get(mode)?.workspace ?? null,
    open: ({ workspace, mode }: ReadyList): void => void open.run({ workspace, mode }),
    /** Puts the list behind all others. */
    pass: ({ workspace, mode }: ReadyList): void => void pass.run({ workspace, mode }),
    close: ({ workspace, mode }: ReadyList): void => void close.run({ workspace, mode }),
    /** Serves the workspace in no mode until it is unthrottled: it has as many running jobs as it may. */
    throttle: (workspace: string, running: number): void => void throttle.run(running, workspace),
    unthrottle(workspace: string): void {
      for (const { mode } of listThrottled.all(workspace)) pass.run({ workspace, mode })
    },
    /** Unthrottles workspaces that may have more running jobs than when they were throttled: a setting was changed. */
    unthrottleBelow(perWorkspace: number): void {
      for (const { workspace, mode } of listThrottledBelow.all(perWorkspace)) pass.run({ workspace, mode })
    },
  }
}
