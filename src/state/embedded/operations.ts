import type { DatabaseSync } from 'node:sqlite'
import { createAccountRows } from './account-rows.ts'
import { createAccounts } from './accounts.ts'
import { createGrants } from './grants.ts'
import { createKeys } from './keys.ts'
import { createLedger } from './ledger.ts'
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
  'ping',
])

/** @param now epoch milliseconds */
export function createOperations(db: DatabaseSync, now: () => number) {
  const tokens = createTokens(db)
  const slots = createSlots(db)
  const rows = createAccountRows(db)
  const grants = createGrants(db)
  const reservations = createReservations(db, rows, grants)
  const ping = db.prepare('SELECT version FROM keys_version')
  return {
    operations: {
      ...createLedger({ slots, reservations, tokens, now }),
      ...createAccounts({ rows, grants, reservations, tokens, now }),
      ...createKeys(db, now),
      ...createSettings(db, now),
      ping: (): boolean => ping.get() !== undefined,
    },
    /** Forgets what is of the past, up to `limit` rows of each kind. Within a transaction. */
    purge(limit: number): void {
      const nowMs = now()
      slots.purge(nowMs, limit)
      tokens.purge(nowMs, limit)
    },
  }
}
