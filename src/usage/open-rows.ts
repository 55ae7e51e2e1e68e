import { renameSync, rmSync } from 'node:fs'
import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { UsageRecord } from '../contracts/usage-record.ts'
import { idTimeMs } from '../ids.ts'
import { SegmentEncoder, type UsageRow } from './encoder.ts'
import { OpenSegment, SEGMENT_SUFFIX } from './open-segment.ts'
import { UsageRows } from './rows.ts'
import { readSegmentFile, type SegmentColumns } from './segment-columns.ts'

/** A segment that nobody takes as long as its process lives. */
const FILE = 'open-sessions'
const UNFINISHED = '.new'
/** How often it is written anew. */
const WRITE_MS = 2_000

/** What goes on for so long that its process may die before it has a record. */
export interface OpenRecords {
  readonly count: number
  /** Hands over what is known of each by now; the row is read at once. */
  rows(add: (row: UsageRow) => void): void
}

/**
 * Keeps what is known of open sessions in a file beside the segments: if the process dies it becomes a segment of
 * whoever takes over the others. It is written anew every few seconds; what is to be in the kernel at once is appended,
 * and stands behind what was known of the same session before.
 */
export class OpenRows {
  readonly #folder: string
  readonly #records: OpenRecords
  /** Null: there is none. */
  #file: OpenSegment | null = null
  /** How many were open when it was written; null: what was appended last may be cut off. */
  #count: number | null = null

  constructor(folder: string, records: OpenRecords) {
    this.#folder = folder
    this.#records = records
  }

  /** The records in the file ended then or later, epoch milliseconds; infinity: there is none. */
  get writtenMs(): number {
    return this.#file?.openedAtMs ?? Number.POSITIVE_INFINITY
  }

  /** Hands to the kernel what is known of one of them by now; what it does not take, with the next tick. */
  add(row: UsageRow): void {
    const file = this.#file
    if (file === null || this.#count === null) {
      this.tick(Date.now())
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

  /** Removes the file: what was open has ended. */
  close(): void {
    try {
      this.#remove()
    } catch {
      // Whoever takes the segments over finds the records of these sessions there.
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

/**
 * Makes a segment of what a dead process knew of its open sessions, but for those that it wrote a record of in its last
 * seconds.
 *
 * @returns its id and path; null: there is nothing
 */
export async function adoptOpenRows(
  from: string,
  to: string,
): Promise<{ readonly id: string; readonly path: string } | null> {
  const names = await readdir(from)
  for (const name of names.filter((one) => one.endsWith(UNFINISHED))) await rm(join(from, name))
  if (!names.includes(FILE)) return null
  const open = await readSegmentFile(join(from, FILE))
  const { id } = open
  const ended = new Set<string>()
  for (const name of names.filter((one) => one.endsWith(SEGMENT_SUFFIX)))
    for (const { kind, record_id } of recordsOf(await readSegmentFile(join(from, name))))
      if (kind === 'session') ended.add(record_id)
  // What was known last of each.
  const left = new Map(Array.from(recordsOf(open), (record) => [record.record_id, record]))
  for (const id of ended) left.delete(id)
  const path = id === null || left.size === 0 ? null : join(to, id + SEGMENT_SUFFIX)
  if (id !== null && path !== null) {
    const encoder = new SegmentEncoder({ id, openedAtMs: idTimeMs(id) })
    for (const record of left.values()) encoder.add(record)
    await put(path, encoder)
  }
  await rm(join(from, FILE))
  return id === null || path === null ? null : { id, path }
}

function* recordsOf(segment: SegmentColumns): Generator<UsageRecord, void> {
  const rows = new UsageRows()
  rows.view(segment, 0, segment.rows)
  for (let row = 0; row < rows.length; row += 1) yield rows.record(row)
}

/** There is all of a file, or none. */
async function put(path: string, encoder: SegmentEncoder): Promise<void> {
  await writeFile(path + UNFINISHED, encoder.take(), { mode: 0o600 })
  await rename(path + UNFINISHED, path)
}
