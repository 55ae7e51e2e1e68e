import type { Alerts } from './alerts.ts'
import type { CatalogStore } from './catalog-store.ts'
import type { ConsoleState } from './console.ts'
import type { Jobs } from './jobs.ts'
import type { Accounts, CallLedger } from './ledger.ts'
import type { Outbox } from './outbox.ts'
import type { RateLimiter } from './rate-limit.ts'
import type { WorkspaceSettings } from './settings.ts'
import type { Slots } from './slots.ts'
import type { StoredKeys } from './stored-keys.ts'

/** Why a state that answers takes nothing any more: its disk is full, or cannot be written. */
export type Blocked = 'disk_full' | 'disk_failed'

/** The state contract: one SQLite file, or Redis. One suite runs against both. */
export interface State {
  readonly kind: 'embedded' | 'redis'
  readonly rateLimiter: RateLimiter
  readonly slots: Slots
  readonly ledger: CallLedger
  readonly accounts: Accounts
  readonly keys: StoredKeys
  readonly settings: WorkspaceSettings
  readonly jobs: Jobs
  readonly outbox: Outbox
  readonly alerts: Alerts
  readonly catalog: CatalogStore
  readonly console: ConsoleState
  /** True when the state can be reached, and is not blocked. Never throws. */
  healthy(): Promise<boolean>
  /** As the last call, or `healthy`, found it; null also where nobody can tell, as of Redis. */
  blocked(): Blocked | null
  close(): Promise<void>
}
