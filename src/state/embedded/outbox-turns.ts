import type { DatabaseSync } from 'node:sqlite'

/** A workspace of which an event may be due. */
export interface EventTurn {
  readonly workspace: string
  /** Whether its last attempt failed. */
  readonly ailing: boolean
}

/** In which order workspaces are served that have events. */
export interface EventTurns {
  /**
   * Null: no workspace has to be looked at now. Those that are well come first: they are done soon, while many that
   * time out would have all the places to themselves.
   */
  first(nowMs: number): EventTurn | null
  /** After a change of the workspace's events: it is looked at again when the first of them may be taken. */
  settle(workspace: string, nowMs: number): void
  /** As `settle`; when an event is due even now, behind all that are due. */
  pass(workspace: string, nowMs: number): void
  /** Not looked at before then. */
  rest(workspace: string, untilMs: number): void
  /** What came of the workspace's last attempt. */
  note(workspace: string, failed: boolean): void
}

export function createEventTurns(db: DatabaseSync): EventTurns {
  const first = db.prepare(`
    SELECT workspace FROM event_turns WHERE ailing = ? AND wake_at_ms <= ? ORDER BY wake_at_ms, turn LIMIT 1`)
  const find = db.prepare('SELECT wake_at_ms, ailing FROM event_turns WHERE workspace = ?')
  const nextOf = db.prepare(
    'SELECT min(next_at_ms) AS next FROM events WHERE workspace = ? AND next_at_ms IS NOT NULL',
  )
  // Behind those that wake at the same millisecond.
  const wake = db.prepare(`
    INSERT INTO event_turns (workspace, wake_at_ms, turn, ailing) VALUES (
      :workspace, :atMs, (SELECT coalesce(max(turn), 0) + 1 FROM event_turns WHERE wake_at_ms = :atMs), 0
    ) ON CONFLICT DO UPDATE SET wake_at_ms = excluded.wake_at_ms, turn = excluded.turn`)
  const sleep = db.prepare('UPDATE event_turns SET wake_at_ms = NULL WHERE workspace = ?')
  const remove = db.prepare('DELETE FROM event_turns WHERE workspace = ? AND ailing = 0')
  const note = db.prepare('UPDATE event_turns SET ailing = ? WHERE workspace = ?')

  const set = (workspace: string, atMs: number | null): void => {
    if (atMs !== null) wake.run({ workspace, atMs })
    // That its last attempt failed is remembered for its next event.
    else if (remove.run(workspace).changes === 0) sleep.run(workspace)
  }
  const next = (workspace: string): number | null => {
    const row = nextOf.get(workspace) as { next: number | null } | undefined
    return row?.next ?? null
  }

  return {
    first(nowMs) {
      for (const ailing of [false, true]) {
        const row = first.get(Number(ailing), nowMs)
        if (row) return { workspace: String(row.workspace), ailing }
      }
      return null
    },

    settle(workspace, nowMs) {
      const atMs = next(workspace)
      const before = find.get(workspace)?.wake_at_ms
      const waits = typeof before === 'number' && before <= nowMs
      // One that waits for its turn keeps it.
      if (atMs === null || atMs > nowMs) set(workspace, atMs)
      else if (!waits) set(workspace, nowMs)
    },

    pass(workspace, nowMs) {
      const atMs = next(workspace)
      set(workspace, atMs === null ? null : Math.max(atMs, nowMs))
    },

    rest: set,
    note: (workspace, failed) => void note.run(Number(failed), workspace),
  }
}
