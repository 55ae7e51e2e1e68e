import type { JobKind, JobStatus, QueueMode } from '../../../contracts/jobs.ts'
import type { StateDatabase } from './database.ts'

/** A kind of jobs of which there are more or fewer. */
interface Tally<Key> {
  readonly key: Key
  more: number
}

type Queue = { readonly kind: JobKind; readonly mode: QueueMode }
type End = { readonly kind: JobKind; readonly status: JobStatus }

/**
 * Counts jobs as they change, since there are too many rows to count on request. The counts of a transaction are
 * gathered here and written once at its end: a group of calls has one row of counters to write instead of one per job.
 */
export interface JobCounters {
  /** @param more 1 for a job that waits from now on, -1 for one that does not any more */
  waiting(job: Queue, more: 1 | -1): void
  ended(job: Pick<End, 'kind'>, status: JobStatus): void
  /** A place in line behind all that were given before. */
  lastPlace(): number
  /** How far the sequence of modes has come. */
  step: number
  /** Writes what was counted. Within the transaction, before its end and before anybody reads the tables. */
  save(): void
  /** Forgets what was counted since: the transaction, or the call, is undone. */
  forget(): void
}

type Row = { readonly place: number; readonly step: number; readonly waiting: number }

export function createJobCounters(db: StateDatabase): JobCounters {
  const read = db.query<Row>('SELECT place, step, waiting FROM job_counters')
  const write = db.prepare('UPDATE job_counters SET place = ?, step = ?, waiting = ?')
  const countQueued = db.prepare(`
    INSERT INTO job_queues (kind, mode, jobs) VALUES (:kind, :mode, :more)
    ON CONFLICT DO UPDATE SET jobs = jobs + :more`)
  const countEnded = db.prepare(`
    INSERT INTO job_ends (kind, status, jobs) VALUES (:kind, :status, :more)
    ON CONFLICT DO UPDATE SET jobs = jobs + :more`)
  const queues = createTallies<Queue>(({ kind, mode }) => `${kind} ${mode}`)
  const ends = createTallies<End>(({ kind, status }) => `${kind} ${status}`)
  /** The row as it will be; null: not read in this transaction. */
  let row: { place: number; step: number; waiting: number } | null = null
  let isChanged = false

  const current = () => {
    row ??= { ...read.get()! }
    return row
  }
  const changed = () => {
    isChanged = true
    return current()
  }
  const forget = () => {
    row = null
    isChanged = false
    queues.clear()
    ends.clear()
  }

  return {
    waiting({ kind, mode }, more) {
      changed().waiting += more
      queues.count({ kind, mode }, more)
    },
    ended: ({ kind }, status) => ends.count({ kind, status }, 1),
    lastPlace() {
      const counters = changed()
      counters.place += 1
      return counters.place
    },
    get step() {
      return current().step
    },
    set step(step) {
      changed().step = step
    },
    save() {
      if (row !== null && isChanged) write.run(row.place, row.step, row.waiting)
      for (const { key, more } of queues.all()) if (more !== 0) countQueued.run({ ...key, more })
      for (const { key, more } of ends.all()) countEnded.run({ ...key, more })
      forget()
    },
    forget,
  }
}

function createTallies<Key>(nameOf: (key: Key) => string) {
  const tallies = new Map<string, Tally<Key>>()
  return {
    count(key: Key, more: number): void {
      const name = nameOf(key)
      const tally = tallies.get(name)
      if (tally === undefined) tallies.set(name, { key, more })
      else tally.more += more
    },
    all: () => tallies.values(),
    clear: () => tallies.clear(),
  }
}
