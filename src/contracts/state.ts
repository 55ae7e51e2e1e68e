import type { Alerts } from './alerts.ts'
import type { CatalogStore } from './catalog-store.ts'
import type { ConsoleState } from './console.ts'
import type { JobInputs, Jobs } from './jobs.ts'
import type { Accounts, CallLedger } from './ledger.ts'
import type { Outbox } from './outbox.ts'
import type { Permits } from './permits.ts'
import type { RateLimiter, UnitLimiter } from './rate-limit.ts'
import type { WorkspaceSettings } from './settings.ts'
import type { StoredKeys } from './stored-keys.ts'

/** Why a state that answers takes nothing any more: its disk is full, or cannot be written. */
export type Blocked = 'disk_full' | 'disk_failed'

/** Remembers generations of the state apart from it. Rejects with GatewayError when the store is away. */
export interface GenerationWitness {
  /** The last one that was noted; null: none was. */
  latest(): Promise<string | null>
  note(id: string): Promise<void>
}

/** Tells whether a state that others can empty is the one that was there before. */
export interface StateMemory {
  /** Its content is gone, and no operator has accepted that: no grant and no trial is given. */
  readonly isLost: boolean
  /**
   * Compares the state with what the witness remembers, now and then from now on, and has it remember; resolves after
   * the first time. Never rejects. @param witness null: compares once, with what nodes have said
   */
  watch(witness: GenerationWitness | null): Promise<void>
  /**
   * Continues with the state as it is. @returns the generation that is given up; null: no node misses one
   * @throws  GatewayError DEPENDENCY_UNAVAILABLE
   */
  acceptLoss(): Promise<string | null>
}

/** Learns what other processes change in the state, as it happens. These are hints: any of them may be lost. */
export interface StateHints {
  /** Jobs of this part of the state may be taken up. */
  queued(part: number): void
  /** A job has ended, or was asked to be cancelled. */
  changed(id: string): void
  /** API keys have changed, or what is published in the catalog. */
  settings(): void
}

/** The state contract: one SQLite file, or Redis. One suite runs against both. */
export interface State {
  readonly kind: 'embedded' | 'redis'
  readonly rateLimiter: RateLimiter
  readonly unitLimiter: UnitLimiter
  readonly permits: Permits
  /** Null: it cannot lose what it holds while a process has it. */
  readonly memory: StateMemory | null
  readonly ledger: CallLedger
  readonly accounts: Accounts
  readonly keys: StoredKeys
  readonly settings: WorkspaceSettings
  readonly jobs: Jobs
  /** Null: the audio of a job is an object before the job is submitted. */
  readonly jobInputs: JobInputs | null
  readonly outbox: Outbox
  readonly alerts: Alerts
  readonly catalog: CatalogStore
  readonly console: ConsoleState
  /** Passes hints on from now on, until it is closed; none where one process has the state to itself. */
  listen(hints: StateHints): void
  /** True when the state can be reached, and is not blocked. Never throws. */
  healthy(): Promise<boolean>
  /** Its own clock, epoch milliseconds; null: it has that of this process. Rejects when it does not answer. */
  clockMs(): Promise<number | null>
  /** As the last call, or `healthy`, found it; null also where that is unknown, as of Redis. */
  blocked(): Blocked | null
  close(): Promise<void>
}
