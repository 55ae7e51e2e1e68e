import type { QueueMode } from '../../../contracts/jobs.ts'
import type { StateDatabase } from './database.ts'
import type { JobCounters } from './job-counters.ts'

/** The mode that is asked first, over and over: 6 : 3 : 1, spread as evenly as that goes. */
const SEQUENCE = [
  ...['priority', 'standard', 'priority', 'priority', 'standard', 'priority', 'bulk', 'priority', 'standard'],
  'priority',
] as const satisfies readonly QueueMode[]

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
  /** Serves workspaces again that may have more running jobs than when they had enough: a setting was changed. */
  unthrottleBelow(perWorkspace: number): void
}

export function createJobRoundRobin(db: StateDatabase, counters: JobCounters): JobRoundRobin {
  const lists = createLists(db)
  const firstTwo = db.query<{ readonly number: number }>(
    'SELECT number FROM jobs WHERE ready = 1 AND workspace = ? AND mode = ? ORDER BY place, number LIMIT 2',
  )

  /** The workspace of the mode whose turn it is, with less than so many running jobs. */
  const workspaceOf = (mode: QueueMode, perWorkspace: number): string | null => {
    for (;;) {
      const first = lists.first(mode)
      if (first === undefined) return null
      if (first.running < perWorkspace) return first.workspace
      // It costs nothing more from here on until one of its jobs ends.
      lists.throttle(first.workspace, perWorkspace)
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
      const from = counters.step
      const empty = new Set<QueueMode>()
      for (let i = from; i < from + SEQUENCE.length; i++) {
        const mode = SEQUENCE[i % SEQUENCE.length]!
        if (empty.has(mode)) continue
        const number = jobOf(mode, perWorkspace)
        if (number !== null) {
          counters.step = (i + 1) % SEQUENCE.length
          return number
        }
        empty.add(mode)
      }
      return null
    },
    open: lists.open,
    unthrottle: lists.unthrottle,
    unthrottleBelow: lists.unthrottleBelow,
  }
}

/** The lists that hold ready jobs, those of a mode in the order in which they are served. */
function createLists(db: StateDatabase) {
  const last =
    '(SELECT coalesce(max(turn), 0) + 1 FROM job_round_robin WHERE mode = :mode AND throttled_at IS NULL)'
  const first = db.query<{ readonly workspace: string; readonly running: number }>(`
    SELECT workspace, (
      SELECT count(*) FROM jobs WHERE jobs.workspace = job_round_robin.workspace AND status = 'processing'
    ) AS running
    FROM job_round_robin WHERE mode = ? AND throttled_at IS NULL ORDER BY turn LIMIT 1`)
  const open = db.prepare(`
    INSERT INTO job_round_robin (workspace, mode, turn, throttled_at) VALUES (:workspace, :mode, ${last}, NULL)
    ON CONFLICT DO NOTHING`)
  const pass = db.prepare(`
    UPDATE job_round_robin SET turn = ${last}, throttled_at = NULL WHERE workspace = :workspace AND mode = :mode`)
  const close = db.prepare('DELETE FROM job_round_robin WHERE workspace = :workspace AND mode = :mode')
  const throttle = db.prepare('UPDATE job_round_robin SET throttled_at = ? WHERE workspace = ?')
  const listThrottled = db.query<ReadyList>(
    'SELECT workspace, mode FROM job_round_robin WHERE workspace = ? AND throttled_at IS NOT NULL',
  )
  const listThrottledBelow = db.query<ReadyList>(
    'SELECT workspace, mode FROM job_round_robin WHERE throttled_at < ?',
  )
  return {
    /** The workspace whose turn it is, and how many of its jobs are running; undefined when no workspace has one. */
    first: (mode: QueueMode) => first.get(mode),
    open: ({ workspace, mode }: ReadyList): void => void open.run({ workspace, mode }),
    /** Puts the list behind all others. */
    pass: ({ workspace, mode }: ReadyList): void => void pass.run({ workspace, mode }),
    close: ({ workspace, mode }: ReadyList): void => void close.run({ workspace, mode }),
    /** Serves the workspace in no mode until it is unthrottled: it has as many running jobs as it may. */
    throttle: (workspace: string, running: number): void => void throttle.run(running, workspace),
    unthrottle(workspace: string): void {
      for (const { mode } of listThrottled.all(workspace)) pass.run({ workspace, mode })
    },
    unthrottleBelow(perWorkspace: number): void {
      for (const { workspace, mode } of listThrottledBelow.all(perWorkspace)) pass.run({ workspace, mode })
    },
  }
}
