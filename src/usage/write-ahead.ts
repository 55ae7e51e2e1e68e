import { rm, rmdir } from 'node:fs/promises'
import { basename } from 'node:path'
import type { MoneySource } from '../contracts/recorder.ts'
import type { RollSegment, UsageFigures } from '../contracts/usage-segment.ts'
import { newId } from '../ids.ts'
import type { Logger } from '../log.ts'
import { type Clock, systemClock, type Timer } from '../time.ts'
import { Backlog, type LockFolder, ownFolder, type RetryMs } from './backlog.ts'
import type { UsageRow } from './encoder.ts'
import { type JournalledMoney, MoneyJournal } from './money-journal.ts'
import { type OpenRecords, OpenRows } from './open-rows.ts'
import { type KeptPlace, OpenSegment } from './open-segment.ts'

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

/**
 * A segment of this size is closed: some 45,000 records. To make its files takes two milliseconds besides what each
 * record takes; what is made of it at a time takes 16 MB, and no step keeps calls waiting for long.
 */
const SEGMENT_BYTES = 2 * 1024 * 1024
/**
 * The first segment of a process is closed at this size, and each of the next at twice that of the one before: what
 * makes files of them is not compiled yet, and would hold the loop for 20 ms and more with as many records.
 */
const FIRST_SEGMENT_BYTES = 64 * 1024
/** Rows of one turn are written at once when there are so many bytes of them. */
const WAITING_BYTES = 1024 * 1024

export interface WriteAheadParts {
  /** Has a folder for each process; on a disk of this machine. */
  readonly root: string
  readonly lock: LockFolder
  /** Null: segments stay. */
  readonly roll: RollSegment | null
  /** Most bytes of segments that nobody has taken yet: beyond that records are lost. */
  readonly backlogBytes: number
  readonly log: Logger
  /** Settles the money that a dead process held, before its records are taken over; absent: the state does not. */
  readonly settle?: ((money: JournalledMoney) => Promise<void>) | undefined
  readonly timing?: Partial<WriteAheadTiming>
  readonly clock?: Clock
}

/**
 * Writes records of usage ahead of everything else that becomes of them: into a segment of this process, where they
 * outlive it. One write takes all that were gathered for a tenth of a second, or since the last `flush`: a write for
 * each turn of the loop, with one or two records, took 2 to 4 µs for each of them, ten times what a record takes. What
 * SIGKILL loses of that is little beside the calls that it interrupts. Closed segments are handed on.
 */
export class WriteAhead {
  readonly #parts: WriteAheadParts
  readonly #timing: WriteAheadTiming
  readonly #clock: Clock
  readonly #folder: string
  readonly #free: () => Promise<void>
  readonly #backlog: Backlog
  readonly #journal: MoneyJournal
  /** Null: no record came since the last one. */
  #current: OpenSegment | null = null
  /** Segments that only take records which they have had before. */
  readonly #kept = new Set<OpenSegment>()
  readonly #closing = new Map<OpenSegment, Promise<void>>()
  readonly #timers: readonly Timer[]
  /** Fires when what was gathered is to be written. One for all: making one takes longer than a record. */
  readonly #gathering: Timer
  #adopting: Promise<void> = Promise.resolve()
  /** Has records be added that wait for that. */
  #gather = () => {}
  /** Null: nothing is open for long. */
  #openRows: OpenRows | null = null
  /** A segment of this size is closed. */
  #segmentBytes = FIRST_SEGMENT_BYTES
  #isDue = false
  /** When the first record came of those that were not written yet. */
  #dueSinceMs = 0
  #isFull = false
  #isAway = false
  #pausedUntilMs = 0
  #written = 0
  #lost = 0

  private constructor(parts: WriteAheadParts, folder: string, free: () => Promise<void>) {
    this.#parts = parts
    this.#timing = { ...TIMING, ...parts.timing }
    this.#folder = folder
    this.#free = free
    const { roll, log, settle, clock = systemClock } = parts
    this.#clock = clock
    this.#backlog = new Backlog({ folder, roll, log, settle, clock, retryMs: this.#timing.retryMs })
    this.#journal = new MoneyJournal(folder)
    const { gatherMs, segmentMs, syncMs } = this.#timing
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
  static async open(parts: WriteAheadParts): Promise<WriteAhead> {
    const { folder, free } = await ownFolder(parts.root, () => newId('seg'), parts.lock)
    const opened = new WriteAhead(parts, folder, free)
    await opened.#adopt()
    opened.#tick()
    return opened
  }

  /** @param gather adds the records that somebody has announced by `expect`; called before anything is written */
  gatherFrom(gather: () => void): void {
    this.#gather = gather
  }

  /** Somebody has a record, which is to be gathered and written in a while. */
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
    return this.#lost
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
    const isOpen = segment === this.#current || this.#kept.has(segment)
    // A segment that waited too long for it is closed: sums have what was written there, which is all but how the
    // answer went out. Where it costs something else by now there are two records of one id.
    if (isOpen || row.cost_usd !== costMicros) {
      const current = this.#segment()
      if (current !== null) {
        this.#written -= 1
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

  /** Has money be settled that this process holds when it dies. */
  keepMoney(source: MoneySource): void {
    this.#journal.keep(source)
  }

  /** Hands to the kernel what is known of one of those by now. */
  addOpen(row: UsageRow): void {
    this.#openRows?.add(row)
  }

  /** Hands everything to the kernel now. */
  readonly flush = (): void => {
    this.#gather()
    this.#journal.write(this.#encoded())
    this.#flush()
  }

  /** The segment that records wait for, as it will be; null: none do, or the disk takes none. */
  #encoded(): { readonly id: string; readonly bytes: number } | null {
    const current = this.#current
    try {
      return current === null ? null : { id: current.id, bytes: current.encode() }
    } catch {
      return null
    }
  }

  #flush(): void {
    this.#isDue = false
    for (const segment of this.#open) {
      // Behind a write that failed half-way nothing could be read.
      if (!this.#write(segment)) this.#close(segment)
      else if (segment === this.#current && segment.bytes >= this.#segmentBytes) {
        this.#retire(segment)
        this.#segmentBytes = Math.min(2 * this.#segmentBytes, SEGMENT_BYTES)
      }
    }
  }

  figures(): UsageFigures {
    const oldest = this.#oldestMs
    return {
      written: this.#written,
      lost: this.#lost,
      backlogBytes: this.#bytes,
      oldestMs: Number.isFinite(oldest) ? Math.max(0, this.#clock.wallNow() - oldest) : 0,
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
      this.#oldestMs - 1,
      (this.#openRows?.writtenMs ?? this.#clock.wallNow()) - 1,
    )
  }

  /** Whether everything was handed on. */
  get isDone(): boolean {
    this.#gather()
    return this.#oldestMs === Number.POSITIVE_INFINITY
  }

  /** Names of dead processes whose records were all taken over, each once. */
  takeAdopted(): string[] {
    return this.#backlog.adopted.splice(0)
  }

  /** Writes, closes and hands on what there is, which stays for the next process where that takes too long. */
  async close(): Promise<void> {
    for (const timer of this.#timers) timer.close()
    this.flush()
    this.#gathering.close()
    for (const segment of this.#open) this.#close(segment)
    this.#openRows?.close()
    this.#journal.close()
    await Promise.all([...this.#closing.values(), this.#adopting])
    await this.#backlog.close(this.#timing.graceMs)
    await this.#free()
    // What is in it is the next process's.
    await rmdir(this.#folder).catch(() => {})
  }

  get #open(): readonly OpenSegment[] {
    return this.#current === null ? [...this.#kept] : [...this.#kept, this.#current]
  }

  /** When the oldest segment was begun that was not handed on; infinity: there is none. */
  get #oldestMs(): number {
    const begun = this.#unhanded.map(({ openedAtMs }) => openedAtMs)
    return Math.min(this.#backlog.oldestMs ?? Number.POSITIVE_INFINITY, ...begun)
  }

  /** Segments that are not in the backlog yet; what is being closed is one, too. */
  get #unhanded(): readonly OpenSegment[] {
    return [...this.#open, ...this.#closing.keys()]
  }

  get #bytes(): number {
    return this.#unhanded.reduce((sum, { bytes }) => sum + bytes, this.#backlog.bytes)
  }

  /**
   * The segment that a record can be added to, which is counted and will be written.
   *
   * @returns null: it is lost
   */
  #segment(): OpenSegment | null {
    if (this.#isFull || this.#isAway) {
      this.#lost += 1
      return null
    }
    this.#written += 1
    if (!this.#isDue) this.expect()
    else if (this.#current !== null && this.#current.waitingBytes > WAITING_BYTES) {
      this.#flush()
      this.#isDue = true
    }
    this.#current ??= new OpenSegment(this.#folder, this.#dueSinceMs)
    return this.#current
  }

  /** @returns false: the disk does not take it, and nothing may be added to the segment any more */
  #write(segment: OpenSegment): boolean {
    const rows = segment.waitingRows
    if (rows === 0) return true
    try {
      segment.write()
      return true
    } catch (error) {
      this.#written -= rows
      this.#lost += rows
      this.#isAway = true
      this.#pausedUntilMs = this.#clock.now() + this.#timing.pauseMs
      this.#parts.log.error({ err: error, count: rows }, 'usage: records cannot be written, and are lost')
      return false
    }
  }

  #tick(): void {
    const { segmentMs, keptMs } = this.#timing
    const nowMs = this.#clock.wallNow()
    if (this.#isAway && this.#clock.now() >= this.#pausedUntilMs) this.#isAway = false
    this.flush()
    for (const segment of this.#open) {
      const ageMs = nowMs - segment.openedAtMs
      if (segment === this.#current && ageMs >= segmentMs) this.#retire(segment)
      else if (segment !== this.#current && (segment.kept === 0 || ageMs >= segmentMs + keptMs))
        this.#close(segment)
      else void segment.sync()
    }
    if (this.#openRows !== null) {
      // What it leaves out from now on has ended: the record of that is in the kernel.
      this.#openRows.tick(nowMs)
    }
    this.#watchBacklog()
  }

  #watchBacklog(): void {
    const { backlogBytes, log } = this.#parts
    const isFull = this.#bytes >= backlogBytes
    if (isFull && !this.#isFull)
      log.error(
        { held_bytes: this.#bytes },
        'usage: the backlog is full, and records are lost until it is taken',
      )
    if (!isFull && this.#isFull) log.info({ count: this.#lost }, 'usage: records are written again')
    this.#isFull = isFull
  }

  /** Has another segment take the next records. */
  #retire(segment: OpenSegment): void {
    this.#current = null
    if (segment.kept > 0) this.#kept.add(segment)
    else this.#close(segment)
  }

  #close(segment: OpenSegment): void {
    this.#write(segment)
    this.#kept.delete(segment)
    if (segment === this.#current) this.#current = null
    // In their order, however long the disk takes for each.
    const before = [...this.#closing.values()].at(-1)
    const closing = Promise.all([segment.close(), before]).then(() => {
      this.#closing.delete(segment)
      const { id, path, bytes } = segment
      if (bytes > 0) this.#backlog.add({ id, path, bytes })
      // On a full disk it was made, and has nothing: there would be one a second.
      else return rm(path, { force: true }).catch(() => {})
    })
    this.#closing.set(segment, closing)
  }

  async #adopt(): Promise<void> {
    const { root, lock, log } = this.#parts
    try {
      await this.#backlog.adopt(root, lock)
    } catch (error) {
      log.warn({ err: error }, 'usage: the folder of segments cannot be read')
    }
  }
}
