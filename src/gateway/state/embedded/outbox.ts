import type {
  EventClaiming,
  EventEnding,
  EventView,
  GivenUp,
  Outbox,
  WebhookEvent,
} from '../../../contracts/outbox.ts'
import { createPurge, type StateDatabase } from './database.ts'
import type { Operations } from './subjects.ts'

/** Most events in one list. */
const LIST_MAX = 1000

/** Columns of an event as the contract has it. */
const EVENT = 'id, job_id AS jobId, workspace, status, occurred_at_ms AS occurredAtMs, attempts'

export interface Events {
  /** Writes an event, due at once. */
  announce(event: Omit<WebhookEvent, 'attempts'>, nowMs: number): void
  /** Deletes up to `limit` events that were given up long ago. */
  purge(nowMs: number, limit: number): void
  readonly roundRobin: EventRoundRobin
}

export function createEvents(db: StateDatabase): Events {
  const roundRobin = createEventRoundRobin(db)
  const put = db.prepare(`
    INSERT INTO events (id, job_id, workspace, status, occurred_at_ms, attempts, next_at_ms, leased, again, body)
    VALUES (:id, :jobId, :workspace, :status, :occurredAtMs, 0, :nowMs, 0, 0, :body)`)
  return {
    announce({ id, jobId, workspace, status, occurredAtMs, body = null }, nowMs) {
      put.run({ id, jobId, workspace, status, occurredAtMs, nowMs, body })
      roundRobin.settle(workspace, nowMs)
    },
    purge: createPurge(db, 'events', 'kept_until_ms'),
    roundRobin,
  }
}

export function createOutbox(db: StateDatabase, events: Events, now: () => number): Operations<Outbox> {
  const begin = createBeginning(db)
  const list = db.query<EventView>(`
    SELECT ${EVENT}, next_at_ms AS nextAttemptAtMs, reason FROM events
    WHERE (:workspace IS NULL OR workspace = :workspace) AND (kept_until_ms IS NULL OR kept_until_ms > :nowMs)
    ORDER BY occurred_at_ms DESC, rowid DESC LIMIT :limit + 0`)
  const findEnd = db.query<Omit<WebhookEvent, 'attempts'>>(`
    SELECT event_id AS id, id AS jobId, workspace, status, ended_at_ms AS occurredAtMs FROM jobs
    WHERE id = ? AND event_id IS NOT NULL AND ended_at_ms IS NOT NULL
      AND marked = 0 AND (expires_at_ms IS NULL OR expires_at_ms > ?)`)
  const listGivenUp = db.query<Pick<GivenUp, 'workspace'>>(
    'SELECT workspace FROM events WHERE kept_until_ms > ?',
  )
  // An event that is on its way is not sent a second time meanwhile.
  const repeatLater = db.prepare('UPDATE events SET again = 1 WHERE job_id = ? AND leased = 1')

  return {
    claim: createClaim(db, events.roundRobin, now),
    end: createEnd(db, { roundRobin: events.roundRobin, begin, now }),
    list: (workspace, limit) => list.all({ workspace, limit: Math.min(limit, LIST_MAX), nowMs: now() }),

    redeliver(jobId) {
      const nowMs = now()
      const ended = findEnd.get(jobId, nowMs)
      if (ended === undefined) return false
      if (repeatLater.run(jobId).changes !== 0) return true
      if (begin(jobId, nowMs)) events.roundRobin.settle(ended.workspace, nowMs)
      else events.announce(ended, nowMs)
      return true
    },

    givenUp(keptPastMs) {
      const byWorkspace = Map.groupBy(listGivenUp.all(keptPastMs), ({ workspace }) => workspace)
      return Array.from(byWorkspace, ([workspace, events]) => ({ workspace, events: events.length }))
    },
  }
}

/** Has an event delivered from its first attempt on, now. @returns false when there is none */
function createBeginning(db: StateDatabase): (jobId: string, nowMs: number) => boolean {
  const begin = db.prepare(`
    UPDATE events SET attempts = 0, next_at_ms = ?, leased = 0, again = 0, kept_until_ms = NULL, reason = NULL
    WHERE job_id = ?`)
  return (jobId, nowMs) => begin.run(nowMs, jobId).changes !== 0
}

function createClaim(
  db: StateDatabase,
  roundRobin: EventRoundRobin,
  now: () => number,
): Operations<Outbox>['claim'] {
  const listLeases = db.query<{
    readonly untilMs: number
  }>(`
    SELECT next_at_ms AS untilMs FROM events WHERE leased = 1 AND workspace = ? AND next_at_ms > ?
    ORDER BY next_at_ms LIMIT ? + 0`)
  const takeFirst = db.query<Omit<WebhookEvent, 'body'> & { readonly body: string | null }>(`
    UPDATE events SET attempts = iif(again = 1, 1, attempts + 1), again = 0, leased = 1, next_at_ms = :leaseUntilMs
    WHERE job_id = (
      SELECT job_id FROM events WHERE workspace = :workspace AND next_at_ms <= :nowMs ORDER BY next_at_ms, rowid LIMIT 1
    ) RETURNING ${EVENT}, body`)

  /** Takes the workspace's next event; undefined when it has none that may be sent. */
  const take = (
    { workspace, ailing }: EventTurn,
    { perWorkspace, perAiling, leaseMs }: EventClaiming,
    nowMs: number,
  ): WebhookEvent | undefined => {
    const most = ailing ? Math.min(perAiling, perWorkspace) : perWorkspace
    const leases = listLeases.all(workspace, nowMs, most)
    if (leases.length >= most) {
      roundRobin.rest(workspace, leases[0]?.untilMs ?? nowMs + leaseMs)
      return undefined
    }
    const event = takeFirst.get({ workspace, nowMs, leaseUntilMs: nowMs + leaseMs })
    roundRobin.pass(workspace, nowMs)
    if (event === undefined) return undefined
    const { body, ...rest } = event
    return body === null ? rest : { ...rest, body }
  }

  return (claiming) => {
    const nowMs = now()
    const claimed: WebhookEvent[] = []
    while (claimed.length < claiming.limit) {
      const turn = roundRobin.first(nowMs)
      if (turn === null) break
      const event = take(turn, claiming, nowMs)
      if (event) claimed.push(event)
    }
    return claimed
  }
}

interface EndDependencies {
  readonly roundRobin: EventRoundRobin
  readonly begin: (jobId: string, nowMs: number) => boolean
  readonly now: () => number
}

function createEnd(
  db: StateDatabase,
  { roundRobin, begin, now }: EndDependencies,
): Operations<Outbox>['end'] {
  const find = db.query<{
    readonly workspace: string
    readonly attempts: number
    readonly leased: number
    readonly again: number
    readonly next_at_ms: number | null
  }>('SELECT workspace, attempts, leased, again, next_at_ms FROM events WHERE job_id = ?')
  const release = db.prepare(`
    UPDATE events SET leased = 0, reason = :reason, next_at_ms = :nextAtMs, kept_until_ms = :keptUntilMs
    WHERE job_id = :jobId`)
  const remove = db.prepare('DELETE FROM events WHERE job_id = ?')

  const settle = (jobId: string, ending: EventEnding, nowMs: number): void => {
    if (ending.state === 'delivered' || ending.state === 'dropped') {
      remove.run(jobId)
      return
    }
    const { reason } = ending
    const nextAtMs = ending.state === 'retry' ? nowMs + ending.delayMs : null
    const keptUntilMs = ending.state === 'retry' ? null : nowMs + ending.keepMs
    release.run({ jobId, reason, nextAtMs, keptUntilMs })
  }

  return ({ jobId, attempts }, ending) => {
    const row = find.get(jobId)
    if (row?.attempts !== attempts) return false
    // Its sender ended it so before, and the answer was lost.
    if (row.leased === 0)
      return attempts > 0 && ending.state === (row.next_at_ms === null ? 'given_up' : 'retry')
    const nowMs = now()
    if (row.again === 1) begin(jobId, nowMs)
    else settle(jobId, ending, nowMs)
    roundRobin.note(row.workspace, ending.state === 'retry' || ending.state === 'given_up')
    roundRobin.settle(row.workspace, nowMs)
    return true
  }
}

/** A workspace of which an event may be due. */
interface EventTurn {
  readonly workspace: string
  /** Whether its last attempt failed. */
  readonly ailing: boolean
}

/** The order in which workspaces with events are served. */
interface EventRoundRobin {
  /**
   * The workspace to look at now; null: none. Those that are well come first, because they are done soon: many that
   * time out would otherwise take all the places.
   */
  first(nowMs: number): EventTurn | null
  /** After a change of the workspace's events: it is looked at again when the first of them may be sent. */
  settle(workspace: string, nowMs: number): void
  /** As `settle`, but behind all others when an event is due even now. */
  pass(workspace: string, nowMs: number): void
  /** Does not look at the workspace before then. */
  rest(workspace: string, untilMs: number): void
  /** Notes how the workspace's last attempt ended. */
  note(workspace: string, failed: boolean): void
}

function createEventRoundRobin(db: StateDatabase): EventRoundRobin {
  const first = db.query<{ readonly workspace: string }>(`
    SELECT workspace FROM event_round_robin
    WHERE ailing = ? AND wake_at_ms <= ? ORDER BY wake_at_ms, turn LIMIT 1`)
  const find = db.query<{ readonly wake_at_ms: number | null }>(
    'SELECT wake_at_ms FROM event_round_robin WHERE workspace = ?',
  )
  const nextOf = db.query<{ readonly atMs: number | null }>(
    'SELECT min(next_at_ms) AS atMs FROM events WHERE workspace = ? AND next_at_ms IS NOT NULL',
  )
  // Behind those that wake at the same millisecond.
  const wake = db.prepare(`
    INSERT INTO event_round_robin (workspace, wake_at_ms, turn, ailing) VALUES (
      :workspace, :atMs, (SELECT coalesce(max(turn), 0) + 1 FROM event_round_robin WHERE wake_at_ms = :atMs), 0
    ) ON CONFLICT DO UPDATE SET wake_at_ms = excluded.wake_at_ms, turn = excluded.turn`)
  const sleep = db.prepare('UPDATE event_round_robin SET wake_at_ms = NULL WHERE workspace = ?')
  const remove = db.prepare('DELETE FROM event_round_robin WHERE workspace = ? AND ailing = 0')
  const note = db.prepare('UPDATE event_round_robin SET ailing = ? WHERE workspace = ?')

  const set = (workspace: string, atMs: number | null): void => {
    if (atMs !== null) wake.run({ workspace, atMs })
    // That its last attempt failed is remembered for its next event.
    else if (remove.run(workspace).changes === 0) sleep.run(workspace)
  }
  const nextAtMs = (workspace: string): number | null => nextOf.get(workspace)?.atMs ?? null

  return {
    first(nowMs) {
      for (const ailing of [false, true]) {
        const row = first.get(Number(ailing), nowMs)
        if (row) return { workspace: row.workspace, ailing }
      }
      return null
    },

    settle(workspace, nowMs) {
      const atMs = nextAtMs(workspace)
      const before = find.get(workspace)?.wake_at_ms
      const waits = typeof before === 'number' && before <= nowMs
      // A workspace that waits for its turn keeps it.
      if (atMs === null || atMs > nowMs) set(workspace, atMs)
      else if (!waits) set(workspace, nowMs)
    },

    pass(workspace, nowMs) {
      const atMs = nextAtMs(workspace)
      set(workspace, atMs === null ? null : Math.max(atMs, nowMs))
    },

    rest: set,
    note: (workspace, failed) => void note.run(Number(failed), workspace),
  }
}
