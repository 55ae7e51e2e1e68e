import type { MemoryHolder } from '../../contracts/budget.ts'
import type { Logger } from '../../contracts/log.ts'
import type { BodyWriter } from '../../contracts/spool.ts'
import type { Clock } from '../../contracts/time.ts'
import type { BlockPool } from './blocks.ts'
import type { HeldBodies } from './body-holds.ts'
import type { WaitingBudget } from './budget.ts'
import type { SealedObjects } from './sealed-objects.ts'

/** Times of the spool, in milliseconds, and the speeds that belong to them. */
export interface SpoolTiming {
  /** How long a body waits for memory before it goes to the store. */
  readonly memoryWaitMs: number
  /** How long a body that has begun to arrive waits for more memory when it cannot go to the store yet. */
  readonly partMemoryWaitMs: number
  /** How long a body waits for an upload permit. */
  readonly permitWaitMs: number
  /** How long a store may take nothing while there is something for it. */
  readonly stallMs: number
  /** How long one part of 5 MiB may take. */
  readonly partMs: number
  /** Window over which the speed of a held body's sender is measured; also its grace. */
  readonly slowWindowMs: number
  /** Window over which the speed of an uploading sender is measured. */
  readonly crawlWindowMs: number
  /** How long an upload may take in all. */
  readonly uploadDeadlineMs: number
  /** How often speeds and deadlines are looked at. */
  readonly tickMs: number
}

export const SPOOL_TIMING: SpoolTiming = Object.freeze({
  memoryWaitMs: 500,
  partMemoryWaitMs: 5_000,
  permitWaitMs: 2_000,
  stallMs: 5_000,
  partMs: 30_000,
  slowWindowMs: 1_000,
  crawlWindowMs: 30_000,
  uploadDeadlineMs: 15 * 60_000,
  tickMs: 250,
})

/** Bodies up to this size stay in memory whatever their speed; an upload would cost more than they hold. */
export const ALWAYS_HELD_BYTES = 64 * 1024
/**
 * Streamed uploads at a time. Nodes times this, and the puts of jobs beside it, must stay below what the store takes,
 * which otherwise refuses everyone: 1,024 for a Ceph gateway with its defaults.
 */
export const UPLOADS_MAX = 256
/** The same for a folder, where an upload is no more than an open file. */
export const FOLDER_UPLOADS_MAX = 1_024
/** Pause after which a slow sender without a permit may retry: the permits are held by senders as slow. */
export const SLOW_RETRY_MS = 30_000

export interface SpoolDependencies {
  readonly budget: WaitingBudget
  readonly blocks: BlockPool
  readonly objects: SealedObjects
  readonly log?: Logger
  readonly clock?: Clock
  readonly timing?: Partial<SpoolTiming>
  readonly uploadsMax?: number
  /** Keeps bodies in memory for readers beyond their calls; absent: none are kept. */
  readonly holds?: HeldBodies
}

/** Counters of the spool since it was made, and its present load. */
export interface SpoolStats {
  /** Bodies that arrived whole and stayed in memory. */
  readonly held: number
  /** Bodies that arrived whole and went to the store. */
  readonly stored: number
  /** Held bodies that moved to the store because their sender was slow. */
  readonly demoted: number
  /** Bodies refused for want of memory or permits. */
  readonly refused: number
  /** Bodies that the store failed. */
  readonly failed: number
  readonly arriving: number
  readonly uploading: number
}

/** A body that arrives, to be looked at now and then. */
export interface ArrivingWriter extends BodyWriter, MemoryHolder {
  tick(nowMs: number): void
}

/** Parts that the writers of one spool share. */
export interface BodyContext {
  readonly budget: WaitingBudget
  readonly blocks: BlockPool
  readonly objects: SealedObjects
  /** Upload permits, counted in ones. */
  readonly permits: WaitingBudget
  readonly partMemory: WaitingBudget
  readonly timing: SpoolTiming
  readonly holds: HeldBodies | undefined
  readonly clock: Clock
  count(event: 'held' | 'stored' | 'demoted' | 'refused' | 'failed'): void
  /** Starts the calls of `tick`. */
  enter(writer: ArrivingWriter): void
  leave(writer: ArrivingWriter): void
  /** Deletes an object in the background. */
  remove(key: string): void
}
