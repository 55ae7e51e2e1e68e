import type { DatabaseSync } from 'node:sqlite'
import type { QueueMode } from '../../schema/jobs.ts'

/** The list of a workspace's ready jobs of a mode. */
export interface ReadyList {
  readonly workspace: string
  readonly mode: QueueMode
}

/** In which order workspaces are served that have ready jobs of a mode. */
export interface JobTurns {
  /** The workspace whose turn it is; null when none has a turn. */
  first(mode: QueueMode): string | null
  /** The list holds a job now: it is served in its turn. */
  open(list: ReadyList): void
  /** Behind all others, until its next turn. */
  pass(list: ReadyList): void
  /** The list is empty. */
  close(list: ReadyList): void
  /** The workspace has so many running jobs, and may have no more: until it is unparked no mode serves it. */
  park(workspace: string, running: number): void
  unpark(workspace: string): void
  /** Unparks those that may have more running jobs than when they were parked: the setting was changed. */
  unparkBelow(perWorkspace: number): void
}

export function createJobTurns(db: DatabaseSync): JobTurns {
  const last = '(SELECT coalesce(max(turn), 0) + 1 FROM job_turns WHERE mode = :mode AND parked IS NULL)'
  const first = db.prepare(
    'SELECT workspace FROM job_turns WHERE mode = ? AND parked IS NULL ORDER BY turn LIMIT 1',
  )
  const open = db.prepare(`
    INSERT INTO job_turns (workspace, mode, turn, parked) VALUES (:workspace, :mode, ${last}, NULL)
    ON CONFLICT DO NOTHING`)
  const pass = db.prepare(`
    UPDATE job_turns SET turn = ${last}, parked = NULL WHERE workspace = :workspace AND mode = :mode`)
  const close = db.prepare('DELETE FROM job_turns WHERE workspace = ? AND mode = ?')
  const park = db.prepare('UPDATE job_turns SET parked = ? WHERE workspace = ?')
  const listParked = db.prepare(
    'SELECT workspace, mode FROM job_turns WHERE workspace = ? AND parked IS NOT NULL',
  )
  const listParkedBelow = db.prepare('SELECT workspace, mode FROM job_turns WHERE parked < ?')

  const passAll = (rows: readonly Record<string, unknown>[]): void => {
    for (const { workspace, mode } of rows) pass.run({ workspace: String(workspace), mode: String(mode) })
  }
  return {
    first(mode) {
      const row = first.get(mode)
      return row ? String(row.workspace) : null
    },
    open: ({ workspace, mode }) => void open.run({ workspace, mode }),
    pass: ({ workspace, mode }) => void pass.run({ workspace, mode }),
    close: ({ workspace, mode }) => void close.run(workspace, mode),
    park: (workspace, running) => void park.run(running, workspace),
    unpark: (workspace) => passAll(listParked.all(workspace)),
    unparkBelow: (perWorkspace) => passAll(listParkedBelow.all(perWorkspace)),
  }
}
