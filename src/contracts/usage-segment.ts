/** A complete file of records of usage. */
export interface ClosedSegment {
  /** Unique over all nodes, and the same when it is handed over again: what is made of it can be named by it. */
  readonly id: string
  readonly path: string
  readonly bytes: number
}

/**
 * Hands the records of a segment on. The segment is deleted once it has resolved; what it rejects with is logged, and
 * the same segment comes again, also after a crash or from another process: it has to be idempotent by the segment's
 * id. One segment is handed over at a time, the oldest first; later ones go on where one is rejected and they are not.
 */
export type RollSegment = (segment: ClosedSegment) => Promise<void>

/** Fates of records, for metrics. */
export interface UsageFigures {
  readonly written: number
  readonly lost: number
  /** Bytes of segments that are not taken yet. */
  readonly backlogBytes: number
  /** Age of the oldest of these. */
  readonly oldestMs: number
  readonly rolled: number
}
