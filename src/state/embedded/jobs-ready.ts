import type { DatabaseSync } from 'node:sqlite'
import type { QueueMode } from '../../schema/jobs.ts'
import type { JobTurns } from './jobs-turns.ts'

/** Which mode is asked first, over and over: 6 : 3 : 1, spread as evenly as that goes. */
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

/**
 * Jobs that may be taken up. Modes are served in proportion, the workspaces of a mode in turn, the jobs of a workspace
 * in line.
 */
export interface ReadyLists {
  /**
   * Number of the job that is to be taken next, null when there is none. Whoever calls takes it.
   *
   * @param perWorkspace most jobs of a workspace that may be running
   */
  next(perWorkspace: number): number | null
  /** A place behind all that were given before. */
  lastPlace(): number
}

export function createReadyLists(db: DatabaseSync, turns: JobTurns): ReadyLists {
  const running = db.prepare(
    `SELECT count(*) AS jobs FROM jobs WHERE workspace = ? AND status = 'processing'`,
  )
  const firstTwo = db.prepare(`
    SELECT number FROM jobs WHERE ready = 1 AND workspace = ? AND mode = ? ORDER BY place, number LIMIT 2`)
  const step = db.prepare('SELECT step FROM job_counters')
  const setStep = db.prepare('UPDATE job_counters SET step = ?')
  const takePlace = db.prepare('UPDATE job_counters SET place = place + 1 RETURNING place')

  /** The workspace of the mode whose turn it is, with less than so many running jobs. */
  const workspaceOf = (mode: QueueMode, perWorkspace: number): string | null => {
    for (;;) {
      const workspace = turns.first(mode)
      if (workspace === null || Number(running.get(workspace)?.jobs) < perWorkspace) return workspace
      // It costs nothing more from here on until one of its jobs ends.
      turns.park(workspace, perWorkspace)
    }
  }

  /** The job whose turn it is; null when the mode has none. */
  const jobOf = (mode: QueueMode, perWorkspace: number): number | null => {
    for (;;) {
      const workspace = workspaceOf(mode, perWorkspace)
      if (workspace === null) return null
      const [job, another] = firstTwo.all(workspace, mode)
      if (another) turns.pass({ workspace, mode })
      else turns.close({ workspace, mode })
      // A list whose jobs were all cancelled is found to be empty only here.
      if (job) return Number(job.number)
    }
  }

  return {
    next(perWorkspace) {
      turns.unparkBelow(perWorkspace)
      const from = Number(step.get()?.step)
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
    lastPlace: () => Number(takePlace.get()?.place),
  }
}
