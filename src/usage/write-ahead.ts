import { rmdir } from 'node:fs/promises'
import { basename } from 'node:path'
import { newId } from '../contracts/ids.ts'
import type { Logger } from '../contracts/log.ts'
import type { MoneySource } from '../contracts/recorder.ts'
import { type Clock, systemClock, type Timer } from '../contracts/time.ts'
import type { RollSegment, UsageFigures } from '../contracts/usage-segment.ts'
import { Backlog, type LockFolder, ownFolder, type RetryMs } from './backlog.ts'
import type { UsageRow } from './encoder.ts'
import { type JournalledMoney, MoneyJournal } from './money-journal.ts'
import { type OpenRecords, OpenRows } from './open-rows.ts'
import type { KeptPlace, OpenSegment } from './open-segment.ts'
import { OpenSegments } from './open-segments.ts'

export interface WriteAheadTiming {
  /** How long rows are gathered for one write, where the state is told nothing of their money. */
  readonly gatherMs: number
  /** How long rows are added to one segment. */
  readonly segmentMs: number
  /** How long one is kept open for records that are to be written again. */
  readonly keptMs: number
  /** How often the disk is asked to take what was written. */
  readonly syncMs: number
  /** How long nothing is written after the disk took nothing. */
  readonly pauseMs: number
  readonly retryMs: RetryMs
  /** How long segments may be handed on when the node stops. */
  readonly graceMs: number
}

const TIMING: WriteAheadTiming = {
  gatherMs: 100,
  segmentMs: 60_000,
  keptMs: 10_000,
  syncMs: 1_000,
  pauseMs: 1_000,
  retryMs: [1_000, 60_000],
  graceMs: 10_000,
}

/** Rows of one turn are written at once when there are so many bytes of them. */
const WAITING_BYTES = 1024 * 1024

export interface WriteAheadDependencies {
  /** Has a folder for each process; on a disk of this machine. */
  readonly root: string
  readonly lock: LockFolder
  /** Null: segments stay. */
  readonly roll: RollSegment | null
  /** Most bytes of segments that nothing has taken yet: beyond that records are lost. */
  readonly backlogBytes: number
  readonly log: Logger
  /** Settles the money that a dead process held, before its records are taken over; absent: the state does not. */
  readonly settle?: ((money: JournalledMoney) => Promise<void>) | undefined
  readonly timing?: Partial<WriteAheadTiming>
  readonly clock?: Clock
}

/**
 * Writes records of usage, before anything else is done with them, into a segment of this process, where they outlive
 * it. One write takes all that were gathered for a tenth of a second, or since the last `flush`: a write for each turn
 * of the loop, with one or two records, took 2 to 4 µs for each of them, ten times the time of a record. SIGKILL loses
 * little of them beside the calls that it interrupts. Closed segments are handed on.
 */
export class WriteAhead {
  readonly #deps: WriteAheadDependencies
  readonly #clock: Clock
  readonly #folder: string
  readonly #free: () => Promise<void>
  readonly #backlog: Backlog
  readonly #journal: MoneyJournal
  readonly #segments: OpenSegments
  readonly #timers: readonly Timer[]
  /** Fires when gathered records are to be written. One for all: making one takes longer than a record. */
  readonly #gathering: Timer
  #adopting: Promise<void> = Promise.resolve()
  /** Adds the records that wait to be gathered. */
  #gather = () => {}
  /** Null: nothing is open for long. */
  #openRows: OpenRows | null = null
  #isDue = false
  /** When the first record came of those that were not written yet. */
  #dueSinceMs = 0

  private constructor(deps: WriteAheadDependencies, folder: string, free: () => Promise<void>) {
    this.#deps = deps
    this.#folder = folder
    this.#free = free
    const { roll, log, settle, backlogBytes, clock = systemClock } = deps
    const timing = { ...TIMING, ...deps.timing }
    const { gatherMs, segmentMs, syncMs, retryMs } = timing
    this.#clock = clock
    this.#backlog = new Backlog({ folder, roll, log, settle, clock, retryMs })
    this.#segments = new OpenSegments({ ...timing, folder, backlog: this.#backlog, backlogBytes, log, clock })
    this.#journal = new MoneyJournal(folder)
    this.#gathering = clock.after(gatherMs, this.flush)
    const adopt = () => {
      this.#adopting = this.#adopting.then(() => this.#adopt())
    }
    this.#timers = [
      clock.every(segmentMs, adopt).unref(),
      clock.every(Math.min(syncMs, segmentMs), () => this.#tick()).unref(),
    ]
  }

  /** Opens the folder of this process, and takes over what dead ones have left. @throws Error when it cannot be made */
  static async open(deps: WriteAheadDependencies): Promise<WriteAhead> {
    const { folder, free } = await ownFolder(deps.root, () => newId('seg'), deps.lock)
    const opened = new WriteAhead(deps, folder, free)
    await opened.#adopt()
    opened.#tick()
    return opened
  }

  /** @param gather adds the records that `expect` announced; called before anything is written */
  gatherFrom(gather: () => void): void {
    this.#gather = gather
  }

  /** Announces a record, which is gathered and written in a while. */
  expect(): void {
    if (this.#isDue) return
    this.#isDue = true
    this.#dueSinceMs = this.#clock.wallNow()
    this.#gathering.refresh()
  }

  /**
   * Adds a record, which is in the kernel a little later, at the latest with the next `flush`. The row is read at once.
   */
  add(row: UsageRow): void {
    this.#segment()?.add(row)
  }

  /** Records that were lost so far: the disk did not take them, or the backlog was full. */
  get lost(): number {
    return this.#segments.lost
  }

  /**
   * Adds a record that is to be written again, once more is known of it.
   *
   * @returns null: it was lost
   */
  addKept(row: UsageRow): KeptPlace | null {
    const segment = this.#segment()
    if (segment === null) return null
    segment.kept += 1
    return { segment, place: segment.add(row), costMicros: row.cost_usd }
  }

  /**
   * Writes a record again: readers see it once.
   *
   * @param isKept it is to be written yet again
   */
  addAgain(row: UsageRow, kept: KeptPlace, isKept = false): void {
    const { segment, place, costMicros } = kept
    const isOpen = this.#segments.has(segment)
    const isLost = !isOpen && place >= segment.placesWritten
    // A segment that waited too long for it is closed: sums have the record as written there, which lacks only how the
    // answer went out. Where its cost has changed since, there are two records of one id.
    if (isOpen || isLost || row.cost_usd !== costMicros) {
      const current = this.#segment()
      if (current !== null) {
        if (!isLost) this.#segments.written -= 1
        if (isOpen) segment.add(row, place)
        else {
          row.record_id ||= segment.idOf(place)
          current.add(row)
        }
        kept.costMicros = row.cost_usd
      }
    }
    if (!isKept) segment.kept -= 1
  }

  /** Keeps what is known of these, until each adds its record. */
  keepOpen(records: OpenRecords): void {
    this.#openRows = new OpenRows(this.#folder, records, this.#clock)
  }

  /** Journals the money of a source, so that it is settled if this process dies. */
  keepMoney(source: MoneySource): void {
    this.#journal.keep(source)
  }

  /** Hands the present facts of one of those to the kernel. */
  addOpen(row: UsageRow): void {
    this.#openRows?.add(row)
  }

  /** Hands everything to the kernel now. */
  readonly flush = (): void => {
    this.#gather()
    this.#journal.write(this.#encoded())
    this.#isDue = false
    this.#segments.flush()
  }

  /** The segment that records wait for, as it will be; null: none do, or the disk takes none. */
  #encoded(): { readonly id: string; readonly bytes: number } | null {
    const { current } = this.#segments
    try {
      return current === null ? null : { id: current.id, bytes: current.encode() }
    } catch {
      return null
    }
  }

  figures(): UsageFigures {
    const { written, lost, bytes: backlogBytes, oldestMs } = this.#segments
    return {
      written,
      lost,
      backlogBytes,
      oldestMs: Number.isFinite(oldestMs) ? Math.max(0, this.#clock.wallNow() - oldestMs) : 0,
      rolled: this.#backlog.rolled,
    }
  }

  /** Unique to this process. */
  get name(): string {
    return basename(this.#folder)
  }

  /** Everything that ended before was handed on; epoch milliseconds. */
  get doneUntilMs(): number {
    this.#gather()
    // A record may be a moment older than the segment that was made for it. One of an open session is put if we die.
    return Math.min(
      this.#clock.wallNow(),
      this.#segments.oldestMs - 1,
      (this.#openRows?.writtenMs ?? this.#clock.wallNow()) - 1,
    )
  }

  /** True: everything was handed on. */
  get isDone(): boolean {
    this.#gather()
    return this.#segments.oldestMs === Number.POSITIVE_INFINITY
  }

  /** Names of dead processes whose records were all taken over; each is returned once. */
  takeAdopted(): string[] {
    return this.#backlog.adopted.splice(0)
  }

  /** Writes, closes and hands on all records; those that take too long stay for the next process. */
  async close(): Promise<void> {
    for (const timer of this.#timers) timer.close()
    this.flush()
    this.#gathering.close()
    const closing = this.#segments.close()
    this.#openRows?.close()
    this.#journal.close()
    await Promise.all([closing, this.#adopting])
    await this.#backlog.close(this.#deps.timing?.graceMs ?? TIMING.graceMs)
    await this.#free()
    // Files that are left in it are the next process's.
    await rmdir(this.#folder).catch(() => {})
  }

  /**
   * The segment that a record can be added to, which is counted and will be written.
   *
   * @returns null: it is lost
   */
  #segment(): OpenSegment | null {
    const segments = this.#segments
    if (!segments.take()) return null
    if (!this.#isDue) this.expect()
    else if (segments.current !== null && segments.current.waitingBytes > WAITING_BYTES) segments.flush()
    return segments.current ?? segments.begin(this.#dueSinceMs)
  }

  #tick(): void {
    this.#segments.endPause()
    this.flush()
    this.#segments.tick()
    // A session that the file leaves out from now on has ended, and its record is in the kernel.
    this.#openRows?.tick(this.#clock.wallNow())
    this.#segments.watchBacklog()
  }

  async #adopt(): Promise<void> {
    const { root, lock, log } = this.#deps
    try {
      await this.#backlog.adopt(root, lock)
    } catch (error) {
      log.warn({ err: error }, 'usage: the folder of segments cannot be read')
    }
  }
}
