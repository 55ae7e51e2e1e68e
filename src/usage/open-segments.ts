import { rm } from 'node:fs/promises'
import type { Logger } from '../contracts/log.ts'
import type { Clock } from '../contracts/time.ts'
import type { Backlog } from './backlog.ts'
import { OpenSegment } from './open-segment.ts'

/**
 * A segment of this size is closed: some 45,000 records. Making its files takes two milliseconds besides the time for
 * each record; a step takes 16 MB, and none keeps calls waiting for long.
 */
const SEGMENT_BYTES = 2 * 1024 * 1024
/**
 * The first segment of a process is closed at this size, and each of the next at twice that of the one before: the code
 * that makes files of them is not compiled yet, and as many records would hold the loop for 20 ms and more.
 */
const FIRST_SEGMENT_BYTES = 64 * 1024

interface OpenSegmentsDependencies {
  readonly folder: string
  readonly backlog: Backlog
  /** Most bytes of segments that nothing has taken yet: beyond that records are lost. */
  readonly backlogBytes: number
  readonly log: Logger
  readonly clock: Clock
  /** How long records are added to one segment. */
  readonly segmentMs: number
  /** How long one is kept open for records that are to be written again. */
  readonly keptMs: number
  /** How long nothing is written after the disk took nothing. */
  readonly pauseMs: number
}

/**
 * Segments of this process that are not in the backlog: one takes the next records, some only take records again, and
 * some are being closed. It counts the records that are written, and those that are lost because the disk did not take
 * them or the backlog was full.
 */
export class OpenSegments {
  readonly #deps: OpenSegmentsDependencies
  /** Takes the next records; null: no record came since the last one. */
  current: OpenSegment | null = null
  /** Segments that only take records which they have had before. */
  readonly #kept = new Set<OpenSegment>()
  readonly #closing = new Map<OpenSegment, Promise<void>>()
  /** A segment of this size is closed. */
  #segmentBytes = FIRST_SEGMENT_BYTES
  #isFull = false
  #isAway = false
  #pausedUntilMs = 0
  /** Records that were written or will be. */
  written = 0
  /** Records that were lost so far. */
  lost = 0

  constructor(deps: OpenSegmentsDependencies) {
    this.#deps = deps
  }

  /** Counts a record. @returns false: it is lost */
  take(): boolean {
    if (this.#isFull || this.#isAway) {
      this.lost += 1
      return false
    }
    this.written += 1
    return true
  }

  /** @param sinceMs when the first record came of those that are not written yet; epoch milliseconds */
  begin(sinceMs: number): OpenSegment {
    this.current = new OpenSegment(this.#deps.folder, sinceMs)
    return this.current
  }

  has(segment: OpenSegment): boolean {
    return segment === this.current || this.#kept.has(segment)
  }

  /** Hands all records to the kernel, and closes the segment that is large enough. */
  flush(): void {
    for (const segment of this.#open) {
      // After a write that failed half-way nothing could be read.
      if (!this.#write(segment)) this.#close(segment)
      else if (segment === this.current && segment.bytes >= this.#segmentBytes) {
        this.#retire(segment)
        this.#segmentBytes = Math.min(2 * this.#segmentBytes, SEGMENT_BYTES)
      }
    }
  }

  /** Closes segments whose time is over, and has the disk take the others. */
  tick(): void {
    const { segmentMs, keptMs, clock } = this.#deps
    const nowMs = clock.wallNow()
    for (const segment of this.#open) {
      const ageMs = nowMs - segment.openedAtMs
      if (segment === this.current && ageMs >= segmentMs) this.#retire(segment)
      else if (segment !== this.current && (segment.kept === 0 || ageMs >= segmentMs + keptMs))
        this.#close(segment)
      else void segment.sync()
    }
  }

  /** Writes again once the disk has had its pause. */
  endPause(): void {
    if (this.#isAway && this.#deps.clock.now() >= this.#pausedUntilMs) this.#isAway = false
  }

  /** Has records be lost while the backlog is full. */
  watchBacklog(): void {
    const { backlogBytes, log } = this.#deps
    const isFull = this.bytes >= backlogBytes
    if (isFull && !this.#isFull)
      log.error(
        { held_bytes: this.bytes },
        'usage: the backlog is full, and records are lost until it is taken',
      )
    if (!isFull && this.#isFull) log.info({ count: this.lost }, 'usage: records are written again')
    this.#isFull = isFull
  }

  /** When the oldest segment was begun that was not handed on; infinity: there is none. */
  get oldestMs(): number {
    const begun = this.#unhanded.map(({ openedAtMs }) => openedAtMs)
    return Math.min(this.#deps.backlog.oldestMs ?? Number.POSITIVE_INFINITY, ...begun)
  }

  /** Bytes of all segments that were not handed on. */
  get bytes(): number {
    return this.#unhanded.reduce((sum, { bytes }) => sum + bytes, this.#deps.backlog.bytes)
  }

  /** Closes all. Resolves when the backlog has them. */
  async close(): Promise<void> {
    for (const segment of this.#open) this.#close(segment)
    await Promise.all(this.#closing.values())
  }

  get #open(): readonly OpenSegment[] {
    return this.current === null ? [...this.#kept] : [...this.#kept, this.current]
  }

  /** Segments that are not in the backlog yet, those that are being closed included. */
  get #unhanded(): readonly OpenSegment[] {
    return [...this.#open, ...this.#closing.keys()]
  }

  /** @returns false: the disk does not take it, and nothing may be added to the segment any more */
  #write(segment: OpenSegment): boolean {
    const rows = segment.waitingRows
    if (rows === 0) return true
    const { clock, pauseMs, log } = this.#deps
    try {
      segment.write()
      return true
    } catch (error) {
      this.written -= rows
      this.lost += rows
      this.#isAway = true
      this.#pausedUntilMs = clock.now() + pauseMs
      log.error({ err: error, count: rows }, 'usage: records cannot be written, and are lost')
      return false
    }
  }

  /** Has another segment take the next records. */
  #retire(segment: OpenSegment): void {
    this.current = null
    if (segment.kept > 0) this.#kept.add(segment)
    else this.#close(segment)
  }

  #close(segment: OpenSegment): void {
    this.#write(segment)
    this.#kept.delete(segment)
    if (segment === this.current) this.current = null
    // In their order, however long the disk takes for each.
    const before = [...this.#closing.values()].at(-1)
    const closing = Promise.all([segment.close(), before]).then(() => {
      this.#closing.delete(segment)
      const { id, path, bytes } = segment
      if (bytes > 0) this.#deps.backlog.add({ id, path, bytes })
      // A full disk has made the file and taken nothing: without this there would be one a second.
      else return rm(path, { force: true }).catch(() => {})
    })
    this.#closing.set(segment, closing)
  }
}
