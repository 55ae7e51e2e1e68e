import { renameSync, rmSync } from 'node:fs'
import { readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { idTimeMs, newId } from '../contracts/ids.ts'
import { type Clock, nextTurn, systemClock } from '../contracts/time.ts'
import { SegmentEncoder, type UsageRow } from './encoder.ts'
import { OpenSegment, SEGMENT_SUFFIX } from './open-segment.ts'
import { SHAPE_COLUMNS } from './segment.ts'
import { readingSegment, recordAt, recordIdAt, type Segment } from './segment-rows.ts'

/** Name of a segment that is not handed on while its process lives. */
const FILE = 'open-sessions'
const UNFINISHED = '.new'
/** How often it is written anew. */
const WRITE_MS = 2_000

/** Sessions: they last so long that the process may die before they have a record. */
export interface OpenRecords {
  readonly count: number
  /** Hands over the present facts of each; the row is read at once. */
  rows(add: (row: UsageRow) => void): void
}

/**
 * Keeps the facts of open sessions in a file beside the segments: if the process dies, the file becomes a segment of
 * the process that takes over the others. It is written anew every few seconds; facts that must be in the kernel at
 * once are appended, after the earlier ones of the same session.
 */
export class OpenRows {
  readonly #folder: string
  readonly #records: OpenRecords
  readonly #clock: Clock
  /** Null: there is none. */
  #file: OpenSegment | null = null
  /** How many were open when it was written; null: the last append may be cut off. */
  #count: number | null = null

  constructor(folder: string, records: OpenRecords, clock: Clock) {
    this.#folder = folder
    this.#records = records
    this.#clock = clock
  }

  /** The records in the file ended then or later, epoch milliseconds; infinity: there is none. */
  get writtenMs(): number {
    return this.#file?.openedAtMs ?? Number.POSITIVE_INFINITY
  }

  /** Hands the present facts of one of them to the kernel; if the disk refuses, the next tick does. */
  add(row: UsageRow): void {
    const file = this.#file
    if (file === null || this.#count === null) {
      this.tick(this.#clock.wallNow())
      return
    }
    try {
      file.add(row)
      file.write()
    } catch {
      this.#count = null
    }
  }

  /** Writes the file, or removes it, if it is time to. */
  tick(nowMs: number): void {
    const { count } = this.#records
    const before = this.#file
    const isDue = before === null ? count > 0 : count !== this.#count || nowMs - before.openedAtMs >= WRITE_MS
    if (!isDue) return
    try {
      if (count === 0) this.#remove()
      else this.#write(nowMs, count)
    } catch {
      // With the next tick.
    }
  }

  /** Removes the file: all sessions have ended. */
  close(): void {
    try {
      this.#remove()
    } catch {
      // The process that takes the segments over finds the records of these sessions there.
    }
  }

  #write(nowMs: number, count: number): void {
    const file = new OpenSegment(this.#folder, nowMs, FILE + UNFINISHED)
    this.#records.rows((row) => file.add(row))
    try {
      file.write()
      renameSync(file.path, join(this.#folder, FILE))
    } catch (error) {
      file.drop()
      rmSync(file.path, { force: true })
      throw error
    }
    this.#file?.drop()
    this.#file = file
    this.#count = count
  }

  #remove(): void {
    if (this.#file === null) return
    rmSync(join(this.#folder, FILE), { force: true })
    this.#file.drop()
    this.#file = null
  }
}

/** Rows that are read or written in one step. */
const STEP_ROWS = 128
const KIND = SHAPE_COLUMNS.indexOf('kind')

/**
 * Makes a segment of the open sessions of a dead process, without those that it recorded in its last seconds. Calls of
 * this process continue meanwhile: other records than those of sessions are read, but not made.
 *
 * @param costs what each of them came to, micro-USD, as far as the money of the dead process was settled; one that is
 *   not in there came to nothing. Absent: what the file says
 * @param onUnread is told of a file that cannot be read. Unless it throws, a segment is taken to tell of no session
 *   that has ended, and a file of open sessions becomes a segment as it is
 * @returns its id and path; null: there is nothing
 * @throws Error when a file cannot be written
 */
export async function adoptOpenRows(
  from: string,
  to: string,
  onUnread: (name: string, error: unknown) => void,
  costs?: ReadonlyMap<string, number>,
): Promise<{ readonly id: string; readonly path: string } | null> {
  const names = await readdir(from)
  for (const name of names.filter((one) => one.endsWith(UNFINISHED))) await rm(join(from, name))
  if (!names.includes(FILE)) return null
  const open = await read(join(from, FILE)).catch((error: unknown) => {
    onUnread(FILE, error)
    return null
  })
  if (open === null) {
    const id = newId('seg')
    const path = join(to, id + SEGMENT_SUFFIX)
    await rename(join(from, FILE), path)
    return { id, path }
  }
  const { id } = open
  // The last row of each session.
  const left = await inSlices(rowsById(open, () => true))
  for (const name of names.filter((one) => one.endsWith(SEGMENT_SUFFIX))) {
    try {
      const ended = await inSlices(rowsById(await read(join(from, name)), (kind) => kind === 'session'))
      for (const session of ended.keys()) left.delete(session)
    } catch (error) {
      onUnread(name, error)
    }
  }
  const path = id === null || left.size === 0 ? null : join(to, id + SEGMENT_SUFFIX)
  if (id !== null && path !== null) {
    const encoder = new SegmentEncoder({ id, openedAtMs: idTimeMs(id) })
    await inSlices(adding(encoder, open, left, costs))
    await put(path, encoder)
  }
  await rm(join(from, FILE))
  return id === null || path === null ? null : { id, path }
}

async function read(path: string): Promise<Segment> {
  return inSlices(readingSegment(await readFile(path)))
}

/** The place of the last row of each record of some kinds, by its id. */
function* rowsById(
  segment: Segment,
  isWanted: (kind: unknown) => boolean,
): Generator<void, Map<string, number>> {
  const found = new Map<string, number>()
  for (const [place, { form }] of segment.rows.entries()) {
    if (isWanted(form.shape[KIND])) found.set(recordIdAt(segment, place), place)
    if (place % STEP_ROWS === 0) yield
  }
  return found
}

function* adding(
  encoder: SegmentEncoder,
  from: Segment,
  chosen: ReadonlyMap<string, number>,
  costs: ReadonlyMap<string, number> | undefined,
): Generator<void, void> {
  for (const [id, place] of chosen) {
    const record = recordAt(from, place)
    encoder.add(costs === undefined ? record : { ...record, cost_usd: costs.get(id) ?? 0 })
    if (encoder.rows % STEP_ROWS === 0) yield
  }
}

/** Writes a whole file, or none. */
async function put(path: string, encoder: SegmentEncoder): Promise<void> {
  await writeFile(path + UNFINISHED, encoder.take(), { mode: 0o600 })
  await rename(path + UNFINISHED, path)
}

/** How long calls wait for steps, if each is shorter than that. */
const SLICE_MS = 1

/** Takes steps, and lets other work run in between. */
async function inSlices<Made>(steps: Generator<void, Made>): Promise<Made> {
  for (;;) {
    const untilMs = systemClock.now() + SLICE_MS
    do {
      const { done, value } = steps.next()
      if (done === true) return value
    } while (systemClock.now() < untilMs)
    await nextTurn()
  }
}
