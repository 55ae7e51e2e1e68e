import { mkdir, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { basename, dirname, join } from 'node:path'
import { idTimeMs } from '../contracts/ids.ts'
import type { Logger } from '../contracts/log.ts'
import { type Clock, systemClock, type Timer } from '../contracts/time.ts'
import type { ClosedSegment, RollSegment } from '../contracts/usage-segment.ts'
import { type JournalledMoney, journalPath, readJournal } from './money-journal.ts'
import { adoptOpenRows } from './open-rows.ts'
import { SEGMENT_SUFFIX } from './open-segment.ts'

/** Claims a folder for this process as long as that lives. @returns gives it free. @throws when another has it */
export type LockFolder = (folder: string) => Promise<() => Promise<void>>

/** Pauses between tries to hand a segment on: doubles from the first to the last. */
export type RetryMs = readonly [first: number, last: number]

export interface BacklogDependencies {
  /** The segments of this process. */
  readonly folder: string
  /** Null: segments stay. */
  readonly roll: RollSegment | null
  readonly log: Logger
  readonly settle?: ((money: JournalledMoney) => Promise<void>) | undefined
  readonly retryMs: RetryMs
  readonly clock?: Clock
}

/** Failures in a row after which the others proceed without one: a store or a disk may well fail once or twice. */
const SUSPECT_AFTER = 3

/** The outcome of handing a segment on. */
interface Tried {
  readonly became: 'rolled' | 'gone' | 'failed'
  readonly error?: unknown
}

/**
 * Segments that are closed and not handed on yet, in files. One that cannot be handed on holds up the others until it
 * is known to be at fault: once a later one can be handed on, it is set aside and tried again by itself.
 */
export class Backlog {
  readonly #deps: BacklogDependencies
  /** The oldest first, with those that are set aside. */
  readonly #segments: ClosedSegment[] = []
  #rolling: Promise<void> | null = null
  /** Null: segments may be tried. */
  #retry: Timer | null = null
  /** How often in a row none could be handed on. */
  #failed = 0
  /** Segments that could not be handed on while others could. */
  readonly #aside = new Set<ClosedSegment>()
  /** Null: segments that are set aside may be tried. */
  #asideRetry: Timer | null = null
  /** How often in a row some segments that are set aside could not be handed on. */
  #asideFailed = 0
  /** How often the folder of a dead process could not be taken over. */
  readonly #refused = new Map<string, number>()
  #isClosed = false
  /** Bytes of all segments. */
  bytes = 0
  /** Segments that were handed on. */
  rolled = 0
  /** Names of the folders whose segments were all taken over; their reader removes them from here. */
  readonly adopted: string[] = []

  constructor(deps: BacklogDependencies) {
    this.#deps = deps
  }

  get #clock(): Clock {
    return this.#deps.clock ?? systemClock
  }

  /** Epoch milliseconds; null: there is none. */
  get oldestMs(): number | null {
    const [oldest] = this.#segments
    return oldest === undefined ? null : idTimeMs(oldest.id)
  }

  /** Takes a segment. One that is here already is not counted again. */
  add(segment: ClosedSegment): void {
    if (this.#segments.some(({ id }) => id === segment.id)) return
    const at = this.#segments.findIndex(({ id }) => id > segment.id)
    this.#segments.splice(at < 0 ? this.#segments.length : at, 0, segment)
    this.bytes += segment.bytes
    this.#roll()
  }

  /**
   * Takes over the segments of dead processes.
   *
   * @param root has a folder of each process
   */
  async adopt(root: string, lock: LockFolder): Promise<void> {
    for (const name of await readdir(root)) {
      const folder = join(root, name)
      if (folder === this.#deps.folder) continue
      let free: () => Promise<void>
      try {
        free = await lock(folder)
      } catch {
        continue // it is in use, or another process takes it over
      }
      try {
        await this.#adoptFrom(folder).finally(free)
        await rmdir(folder)
        this.adopted.push(name)
        this.#refused.delete(folder)
      } catch (error) {
        this.#noteRefused(folder, error)
      }
    }
  }

  #noteRefused(folder: string, error: unknown): void {
    const times = this.#refused.get(folder) ?? 0
    this.#refused.set(folder, times + 1)
    // The first failure may be another process that came between.
    if (times === 1)
      this.#deps.log.warn(
        { err: error, path: basename(folder) },
        'usage: what a dead process has left cannot be taken over; it is tried again',
      )
  }

  async #adoptFrom(folder: string): Promise<void> {
    // An unread file may tell of sessions that have ended, so it is tried again; but not for ever.
    const isLast = (this.#refused.get(folder) ?? 0) >= SUSPECT_AFTER
    const onUnread = (name: string, error: unknown) => {
      if (!isLast) throw error
      this.#deps.log.error({ err: error, path: name }, 'usage: a file of a dead process cannot be read')
    }
    const journal = await readJournal(folder)
    if (journal !== null) await this.#deps.settle?.(journal)
    // While the segments are there: they tell which of the sessions have ended.
    const costs = this.#deps.settle === undefined ? undefined : journal?.sessions
    const sessions = await adoptOpenRows(folder, this.#deps.folder, onUnread, costs)
    if (sessions !== null) this.add({ ...sessions, bytes: (await stat(sessions.path)).size })
    // Its lines count as long as its segments are beside it.
    for (const path of [journalPath(folder), `${journalPath(folder)}.new`]) await rm(path, { force: true })
    for (const name of await readdir(folder)) {
      if (!name.endsWith(SEGMENT_SUFFIX)) continue
      const path = join(this.#deps.folder, name)
      // Only one process succeeds.
      await rename(join(folder, name), path)
      const { size } = await stat(path)
      if (size === 0) {
        await rm(path)
        continue
      }
      this.#deps.log.info({ path: name }, 'usage: a segment that a dead process has left is taken over')
      this.add({ id: basename(name, SEGMENT_SUFFIX), path, bytes: size })
    }
  }

  /** Tries once more to hand segments on, for at most `graceMs`. The others stay for the next process. */
  async close(graceMs: number): Promise<void> {
    for (const retry of [this.#retry, this.#asideRetry]) retry?.close()
    this.#retry = null
    this.#asideRetry = null
    this.#roll()
    const late = Promise.withResolvers<void>()
    const timer = this.#clock.after(graceMs, late.resolve)
    await Promise.race([this.#rolling, late.promise])
    timer.close()
    this.#isClosed = true
  }

  #roll(): void {
    if (this.#deps.roll === null || this.#rolling !== null || this.#retry !== null || this.#isClosed) return
    this.#rolling = this.#rollAll(this.#deps.roll).finally(() => {
      this.#rolling = null
    })
  }

  async #rollAll(roll: RollSegment): Promise<void> {
    while (!this.#isClosed) {
      const segment = this.#segments.find((one) => !this.#aside.has(one))
      if (segment === undefined) {
        if (this.#aside.size === 0 || this.#asideRetry !== null) return
        await this.#rollAside(roll)
        continue
      }
      const { became, error } = await this.#try(roll, segment)
      if (became === 'failed' && !(await this.#proceedsWithout(segment, roll))) return this.#later(error)
      if (became === 'rolled') this.#noteTaken()
    }
  }

  /**
   * Sets a segment aside if it cannot be handed on while another can.
   *
   * @returns true: the next segment may be tried at once
   */
  async #proceedsWithout(segment: ClosedSegment, roll: RollSegment): Promise<boolean> {
    const others = this.#segments.filter((one) => one !== segment && !this.#aside.has(one))
    // A different one each time: several may be at fault.
    const witness = others[this.#failed % others.length]
    if (witness === undefined || this.#failed < SUSPECT_AFTER || this.#isClosed) return false
    const other = await this.#try(roll, witness)
    if (other.became === 'failed') return false
    if (other.became === 'gone') return true
    this.#noteTaken()
    // The store may have come back in between.
    const again = await this.#try(roll, segment)
    if (again.became === 'failed') this.#setAside(segment, again.error)
    return true
  }

  #noteTaken(): void {
    if (this.#failed > 0) this.#deps.log.info('usage: segments are taken again')
    this.#failed = 0
  }

  async #rollAside(roll: RollSegment): Promise<void> {
    for (const segment of [...this.#aside]) {
      if (this.#isClosed) return
      const { became } = await this.#try(roll, segment)
      if (became === 'failed') continue
      this.#aside.delete(segment)
      if (became === 'rolled')
        this.#deps.log.info({ path: basename(segment.path) }, 'usage: a segment that was set aside is taken')
    }
    if (this.#aside.size === 0) this.#asideFailed = 0
    else this.#laterAside()
  }

  /** Hands a segment on and forgets it; a segment whose file is gone is forgotten too. */
  async #try(roll: RollSegment, segment: ClosedSegment): Promise<Tried> {
    let tried: Tried = { became: 'rolled' }
    try {
      await roll(segment)
      await rm(segment.path, { force: true })
      this.rolled += 1
    } catch (error) {
      if (!(await isFileGone(segment.path))) return { became: 'failed', error }
      tried = { became: 'gone' }
      this.#deps.log.error(
        { err: error, path: basename(segment.path), held_bytes: segment.bytes },
        'usage: a segment was gone before it was handed on; its records are lost',
      )
    }
    this.bytes -= segment.bytes
    this.#segments.splice(this.#segments.indexOf(segment), 1)
    return tried
  }

  #setAside(segment: ClosedSegment, error: unknown): void {
    this.#aside.add(segment)
    this.#deps.log.error(
      { err: error, path: basename(segment.path), held_bytes: segment.bytes },
      'usage: a segment cannot be handed on, while others can; it is set aside and tried again',
    )
    if (this.#asideRetry === null) this.#laterAside()
  }

  #laterAside(): void {
    const again = () => {
      this.#asideRetry = null
      this.#roll()
    }
    this.#asideRetry = this.#clock.after(this.#pauseMs(this.#asideFailed), again).unref()
    this.#asideFailed += 1
  }

  #later(error: unknown): void {
    if (this.#failed === 0)
      this.#deps.log.warn({ err: error }, 'usage: a segment cannot be handed on; it is kept and tried again')
    const again = () => {
      this.#retry = null
      this.#roll()
    }
    this.#retry = this.#clock.after(this.#pauseMs(this.#failed), again).unref()
    this.#failed += 1
  }

  /** @param failed how often in a row it failed before */
  #pauseMs(failed: number): number {
    const [first, last] = this.#deps.retryMs
    return Math.min(last, first * 2 ** failed)
  }
}

/** @returns true: the folder can be read and does not have the file */
async function isFileGone(path: string): Promise<boolean> {
  try {
    return !(await readdir(dirname(path))).includes(basename(path))
  } catch {
    return false
  }
}

/**
 * When the oldest segment below `root`, of any process, was begun; epoch milliseconds.
 *
 * @returns null when there is none
 * @throws Error when there is no such folder
 */
export async function oldestSegmentMs(root: string): Promise<number | null> {
  const names = (await readdir(root, { recursive: true })).filter((name) => name.endsWith(SEGMENT_SUFFIX))
  const times = names.map((name) => idTimeMs(basename(name, SEGMENT_SUFFIX)))
  return times.length === 0 ? null : Math.min(...times)
}

/** Makes the folder of this process below `root`, and locks it. */
export async function ownFolder(
  root: string,
  newName: () => string,
  lock: LockFolder,
): Promise<{ readonly folder: string; readonly free: () => Promise<void> }> {
  await mkdir(root, { recursive: true, mode: 0o700 })
  for (let tries = 1; ; tries += 1) {
    const folder = join(root, newName())
    try {
      return { folder, free: await lock(folder) }
    } catch (error) {
      // A process that takes over leftovers may have come between its making and its lock.
      if (tries === 3) throw error
    }
  }
}
