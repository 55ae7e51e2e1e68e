import { mkdir, readdir, rename, rm, rmdir, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import type { ClosedSegment, RollSegment } from '../contracts/usage-segment.ts'
import { idTimeMs } from '../ids.ts'
import type { Logger } from '../log.ts'
import { adoptOpenRows } from './open-rows.ts'
import { SEGMENT_SUFFIX } from './open-segment.ts'

/** Claims a folder for this process as long as that lives. @returns gives it free. @throws when another has it */
export type LockFolder = (folder: string) => Promise<() => Promise<void>>

/** Pauses between tries to hand a segment on: doubles from the first to the last. */
export type RetryMs = readonly [first: number, last: number]

export interface BacklogParts {
  /** The segments of this process. */
  readonly folder: string
  /** Null: nobody takes segments. They stay. */
  readonly roll: RollSegment | null
  readonly log: Logger
  readonly retryMs: RetryMs
}

/** Segments that are closed and not handed on yet, in files. */
export class Backlog {
  readonly #parts: BacklogParts
  /** The oldest first. */
  readonly #segments: ClosedSegment[] = []
  #rolling: Promise<void> | null = null
  #retry: NodeJS.Timeout | null = null
  #failed = 0
  #isClosed = false
  /** Sum of their sizes. */
  bytes = 0
  /** Segments that were handed on. */
  rolled = 0
  /** Names of the folders whose segments were all taken over, for whoever takes them out of here. */
  readonly adopted: string[] = []

  constructor(parts: BacklogParts) {
    this.#parts = parts
  }

  /** Epoch milliseconds; null: there is none. */
  get oldestMs(): number | null {
    const [oldest] = this.#segments
    return oldest === undefined ? null : idTimeMs(oldest.id)
  }

  add(segment: ClosedSegment): void {
    const at = this.#segments.findIndex(({ id }) => id > segment.id)
    this.#segments.splice(at < 0 ? this.#segments.length : at, 0, segment)
    this.bytes += segment.bytes
    this.#roll()
  }

  /**
   * Takes over the segments that processes have left which do not live any more.
   *
   * @param root has a folder of each process
   */
  async adopt(root: string, lock: LockFolder): Promise<void> {
    for (const name of await readdir(root)) {
      const folder = join(root, name)
      if (folder === this.#parts.folder) continue
      try {
        const free = await lock(folder)
        try {
          await this.#adoptFrom(folder)
        } finally {
          await free()
        }
        await rmdir(folder)
        this.adopted.push(name)
      } catch {
        // It is in use, or somebody else takes it over; what cannot be read now is looked at again.
      }
    }
  }

  async #adoptFrom(folder: string): Promise<void> {
    // As long as the segments are there that tell which of the sessions have ended.
    const sessions = await adoptOpenRows(folder, this.#parts.folder)
    if (sessions !== null) this.add({ ...sessions, bytes: (await stat(sessions.path)).size })
    for (const name of await readdir(folder)) {
      if (!name.endsWith(SEGMENT_SUFFIX)) continue
      const path = join(this.#parts.folder, name)
      // Only one process succeeds with that.
      await rename(join(folder, name), path)
      const { size } = await stat(path)
      this.#parts.log.info({ path: name }, 'usage: a segment that a dead process has left is taken over')
      this.add({ id: basename(name, SEGMENT_SUFFIX), path, bytes: size })
    }
  }

  /** Tries once more to hand on what there is, at most for so long. What is left stays for the next process. */
  async close(graceMs: number): Promise<void> {
    if (this.#retry !== null) clearTimeout(this.#retry)
    this.#retry = null
    this.#roll()
    const timer = { late: null as NodeJS.Timeout | null }
    const late = new Promise<void>((resolve) => {
      timer.late = setTimeout(resolve, graceMs)
    })
    await Promise.race([this.#rolling, late])
    if (timer.late !== null) clearTimeout(timer.late)
    this.#isClosed = true
  }

  #roll(): void {
    if (this.#parts.roll === null || this.#rolling !== null || this.#retry !== null || this.#isClosed) return
    this.#rolling = this.#rollAll(this.#parts.roll).finally(() => {
      this.#rolling = null
    })
  }

  async #rollAll(roll: RollSegment): Promise<void> {
    for (;;) {
      const [segment] = this.#segments
      if (segment === undefined || this.#isClosed) return
      try {
        await roll(segment)
        await rm(segment.path, { force: true })
      } catch (error) {
        return this.#later(error)
      }
      if (this.#failed > 0) this.#parts.log.info('usage: segments are taken again')
      this.#failed = 0
      this.rolled += 1
      this.bytes -= segment.bytes
      this.#segments.splice(this.#segments.indexOf(segment), 1)
    }
  }

  #later(error: unknown): void {
    const { log, retryMs } = this.#parts
    const [first, last] = retryMs
    if (this.#failed === 0)
      log.warn({ err: error }, 'usage: a segment cannot be handed on; it is kept and tried again')
    const pauseMs = Math.min(last, first * 2 ** this.#failed)
    this.#failed += 1
    this.#retry = setTimeout(() => {
      this.#retry = null
      this.#roll()
    }, pauseMs).unref()
  }
}

/**
 * When the oldest of the segments below `root` was begun that are not handed on, whoever has them, epoch milliseconds.
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
  await mkdir(root, { recursive: true })
  for (let tries = 1; ; tries += 1) {
    const folder = join(root, newName())
    try {
      return { folder, free: await lock(folder) }
    } catch (error) {
      // Who looks for leftovers may have come between its making and its lock.
      if (tries === 3) throw error
    }
  }
}
