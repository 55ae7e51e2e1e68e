import type { DatabaseSync } from 'node:sqlite'
import { createAccountRows } from './account-rows.ts'
import { createAccounts } from './accounts.ts'
import { createCatalog } from './catalog.ts'
import { createConsole } from './console.ts'
import { createGrants } from './grants.ts'
import { createJobs } from './jobs.ts'
import { createJobClaims } from './jobs-claims.ts'
import { createJobFigures } from './jobs-figures.ts'
import { createReadyLists } from './jobs-ready.ts'
import { createJobRecords } from './jobs-records.ts'
import { createJobRows } from './jobs-rows.ts'
import { createJobSlots } from './jobs-slots.ts'
import { createJobSteps } from './jobs-steps.ts'
import { createJobTurns } from './jobs-turns.ts'
import { createKeys } from './keys.ts'
import { createLedger } from './ledger.ts'
import { createOutbox } from './outbox.ts'
import { createEventClaims } from './outbox-claims.ts'
import { createEventRows } from './outbox-rows.ts'
import { createEventTurns } from './outbox-turns.ts'
import { createReservationRows } from './reservation-rows.ts'
import { createReservations } from './reservations.ts'
import { createSettings } from './settings.ts'
import { createSlots } from './slots.ts'
import { createTokens } from './tokens.ts'

/** Everything that can be asked of the state. Each is called within a transaction, and throws to have it undone. */
export type Operations = ReturnType<typeof createOperations>['operations']

/** Whoever runs them, and answers when what they did is on the disk. */
export interface Runner {
  /** @throws GatewayError DEPENDENCY_UNAVAILABLE */
  call<Name extends keyof Operations>(
    name: Name,
    ...args: Parameters<Operations[Name]>
  ): Promise<ReturnType<Operations[Name]>>
  close(): Promise<void>
}

/** Operations that only read: they need not wait until another process has written. */
export const READS: ReadonlySet<keyof Operations> = new Set([
  'look',
  'listKeys',
  'keysVersion',
  'audioUrlDomains',
  'webhook',
  'contentShown',
  'findSession',
  'listRequests',
  'getRequest',
  'samplesSince',
  'readKeyUses',
  'getJob',
  'knownJobs',
  'listJobs',
  'waitingJobs',
  'jobFigures',
  'listEvents',
  'catalogVersion',
  'publishedCatalog',
  'catalogRecord',
  'catalogRecords',
  'recordVersion',
  'recordVersions',
  'auditLines',
  'ping',
])

/** @param now epoch milliseconds */
export function createOperations(db: DatabaseSync, now: () => number) {
  const tokens = createTokens(db)
  const slots = createSlots(db)
  const rows = createAccountRows(db)
  const grants = createGrants(db)
  const reservations = createReservations({ rows: createReservationRows(db), accounts: rows, grants, tokens })
  const { operations: jobs, purge: purgeJobs } = createJobOperations(db, now)
  const { operations: catalog, purge: purgeCatalog } = createCatalog(db, now)
  const ping = db.prepare('SELECT version FROM keys_version')
  return {
    operations: {
      ...createLedger({ slots, reservations, tokens, now }),
      ...createAccounts({ rows, grants, reservations, tokens, now }),
      ...createKeys(db, now),
      ...createSettings(db, now),
      ...createConsole(db, now),
      ...jobs,
      ...catalog,
      ping: (): boolean => ping.get() !== undefined,
    },
    /** Forgets what is of the past, up to `limit` rows of each kind. Within a transaction. */
    purge(limit: number): void {
      const nowMs = now()
      slots.purge(nowMs, limit)
      tokens.purge(nowMs, limit)
      purgeJobs(nowMs, limit)
      purgeCatalog(nowMs, limit)
    },
  }
}

function createJobOperations(db: DatabaseSync, now: () => number) {
  const rows = createJobRows(db)
  const slots = createJobSlots(db)
  const jobTurns = createJobTurns(db)
  const ready = createReadyLists(db, jobTurns)
  const turns = createEventTurns(db)
  const events = createEventRows(db, turns)
  const steps = createJobSteps(db, { rows, ready, turns: jobTurns, events })
  return {
    operations: {
      ...createJobs(db, { rows, ready, steps, slots, now }),
      ...createJobClaims(db, { rows, ready, steps, now }),
      ...createJobRecords(db, { rows, ready, steps, slots, now }),
      ...createJobFigures(db, now),
      ...createOutbox(db, { jobs: rows, events, turns, now }),
      ...createEventClaims(db, { events, turns, now }),
    },
    purge(nowMs: number, limit: number): void {
      slots.purge(nowMs, limit)
      events.purge(nowMs, limit)
    },
  }
}
