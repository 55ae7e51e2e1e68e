import { createAccounts } from './accounts.ts'
import { createAlerts } from './alerts.ts'
import { createCatalog } from './catalog.ts'
import { createConsole } from './console.ts'
import type { StateDatabase } from './database.ts'
import { createEndUserSpending } from './end-users.ts'
import { createHealth } from './health.ts'
import { createJobs } from './jobs.ts'
import { createKeys } from './keys.ts'
import { createLedger, createSlots } from './ledger.ts'
import { createEvents, createOutbox } from './outbox.ts'
import { createSettings } from './settings.ts'
import type { Operations, SubjectName, Subjects } from './subjects.ts'
import { createTokens } from './tokens.ts'

/** @param now epoch milliseconds */
export function createOperations(db: StateDatabase, now: () => number) {
  const tokens = createTokens(db)
  const slots = createSlots(db)
  const endUsers = createEndUserSpending(db)
  const accounts = createAccounts(db, { tokens, endUsers }, now)
  const events = createEvents(db)
  const jobs = createJobs(db, events, now)
  const catalog = createCatalog(db, now)
  const operations: { [Name in SubjectName]: Operations<Subjects[Name]> } = {
    ledger: createLedger({ slots, reservations: accounts.reservations, tokens, now }),
    accounts: accounts.operations,
    keys: createKeys(db, now),
    settings: createSettings(db, now),
    jobs: jobs.operations,
    jobInputs: jobs.inputs,
    outbox: createOutbox(db, events, now),
    alerts: createAlerts(db, events, now),
    catalog: catalog.operations,
    ...createConsole(db, now),
    health: createHealth(db, now),
  }
  const purges = [slots.purge, tokens.purge, endUsers.purge, jobs.purge, events.purge, catalog.purge]
  return {
    operations,
    now,
    counters: jobs.counters,
    /** Deletes up to `limit` expired rows of each kind. Within a transaction. */
    purge(limit: number): void {
      const nowMs = now()
      for (const purge of purges) purge(nowMs, limit)
    },
  }
}
