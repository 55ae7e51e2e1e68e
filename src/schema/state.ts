import type { CatalogStore } from './catalog-store.ts'
import type { ConsoleState } from './console.ts'
import type { Jobs } from './jobs.ts'
import type { Accounts, CallLedger } from './ledger.ts'
import type { Outbox } from './outbox.ts'
import type { WorkspaceSettings } from './settings.ts'
import type { StoredKeys } from './stored-keys.ts'

/** The state contract: one SQLite file, or Redis. One suite runs against both. */
export interface State {
  readonly kind: 'embedded' | 'redis'
  readonly rateLimiter: RateLimiter
  readonly ledger: CallLedger
  readonly accounts: Accounts
  readonly keys: StoredKeys
  readonly settings: WorkspaceSettings
  readonly jobs: Jobs
  readonly outbox: Outbox
  readonly catalog: CatalogStore
  readonly console: ConsoleState
  /** True when the state can be reached. Never throws. */
  healthy(): Promise<boolean>
  close(): Promise<void>
}

/** Tokens per minute and how many may be taken at once. */
export interface RateLimit {
  readonly requestsPerMinute: number
  readonly burst: number
}

export interface RateDecision {
  readonly allowed: boolean
  /** The burst: how many requests a rested key may make at once. */
  readonly limit: number
  readonly remaining: number
  /** Milliseconds until the bucket is full again. */
  readonly resetMs: number
  /** Milliseconds until one request is admitted; 0 when allowed. */
  readonly retryAfterMs: number
  /** True when Redis was away and this node decided alone. */
  readonly local: boolean
  /**
   * Whether the slot that was asked about is in use; false when none was, and when that could not be found out. No more
   * than a hint: `CallLedger.begin` decides.
   */
  readonly slotTaken: boolean
}

export interface Take {
  readonly workspace: string
  readonly keyId: string
  readonly limit: RateLimit
  /** Idempotency slot to look at in the same trip; null: none. */
  readonly slotId: string | null
}

/** Token bucket per key (GCRA). Never throws or rejects: without Redis each node limits by itself. */
export interface RateLimiter {
  /** At once where no trip is needed: the node holds a token of this key. */
  take(take: Take): RateDecision | Promise<RateDecision>
  /** For monitoring. */
  figures(): LimiterFigures
}

/**
 * Who decides: the process itself, which nobody shares its keys with; Redis, by a trip; this node by tokens that it has
 * leased there; this node alone, because Redis is away.
 */
export type Limiter = 'process' | 'redis' | 'leases' | 'local'

export interface LimiterFigures {
  /** As of now. */
  readonly mode: Limiter
  /** How many each has made since the start; without those that never make any here. */
  readonly decisions: Readonly<Partial<Record<Limiter, number>>>
}
