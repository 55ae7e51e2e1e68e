import type { Logger } from '../log.ts'
import type { Objects } from '../schema/objects.ts'
import type { BlockPool } from './blocks.ts'
import type { WaitingBudget } from './budget.ts'

/** Times of the spool, in milliseconds, and the speeds that belong to them. */
export interface SpoolTiming {
  /** How long a body waits for memory before it goes to the store. */
  readonly memoryWaitMs: number
  /** How long a body that has begun to arrive waits for more memory when it cannot go to the store yet. */
  readonly partMemoryWaitMs: number
  /** How long a body waits for an upload slot. */
  readonly slotWaitMs: number
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
  slotWaitMs: 2_000,
  stallMs: 5_000,
  partMs: 30_000,
  slowWindowMs: 1_000,
  crawlWindowMs: 30_000,
  uploadDeadlineMs: 15 * 60_000,
  tickMs: 250,
})

/** Bodies up to this size stay in memory whatever their speed; an upload would cost more than they hold. */
export const ALWAYS_HELD_BYTES = 64 * 1024
/** An uploading sender below this gives its slot to one that waits for it. */
export const CRAWL_BYTES_PER_SECOND = 8_000
/**
 * Streamed uploads at a time. Nodes times this, and what jobs put beside it, must stay below the slots of the store,
 * which otherwise refuses everybody: 1,024 for a Ceph gateway with its defaults.
 */
export const UPLOAD_SLOTS = 256
/** The same for a folder, where an upload is no more than an open file. */
export const FOLDER_UPLOAD_SLOTS = 1_024
/** When a slow sender that found no slot may come back: the slots go to senders that need as long. */
export const SLOW_RETRY_MS = 30_000

export interface SpoolParts {
  readonly budget: WaitingBudget
  readonly blocks: BlockPool
  readonly objects: Objects
  readonly log?: Logger
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number
  readonly timing?: Partial<SpoolTiming>
  readonly uploadSlots?: number
}

/** What the spool has done since it was made, and does now. */
export interface SpoolStats {
  /** Bodies that arrived whole and stayed in memory. */
  readonly held: number
  /** Bodies that arrived whole and went to the store. */
  readonly stored: number
  /** Held bodies that moved to the store because their sender was slow. */
  readonly demoted: number
  /** Bodies refused for want of memory or slots. */
  readonly refused: number
  /** Bodies that the store failed. */
  readonly failed: number
  /** Bodies that are arriving. */
  readonly arriving: number
  /** Uploads under way. */
  readonly uploading: number
}
