import { readdir, rename, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { UsageRecord } from '../contracts/usage-record.ts'
import { idTimeMs, newId } from '../ids.ts'
import { SegmentEncoder, type UsageRow } from './encoder.ts'
import { SEGMENT_SUFFIX } from './open-segment.ts'
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
 * Keeps what is known of open sessions in a file beside the segments, written anew every few seconds: if the process
 * dies it becomes a segment of whoever takes over the others.
 */
export class OpenRows {
  readonly #folder: string
  readonly #records: OpenRecords
  #writing: Promise<void> | null = null
  #written: { readonly atMs: number; readonly count: number } | null = null

  constructor(folder: string, records: OpenRecords) {
    this.#folder = folder
    this.#records = records
  }

  /** The records in the file ended then, epoch milliseconds; infinity: there is none. */
  get writtenMs(): number {
    return this.#written?.atMs ?? Number.POSITIVE_INFINITY
  }

  /** Writes the file, or removes it, if it is time to. Never rejects. */
  tick(nowMs: number): void {
    const { count } = this.#records
    const before = this.#written
    const isDue = before === null ? count > 0 : count !== before.count || nowMs - before.atMs >= WRITE_MS
    if (!isDue || this.#writing !== null) return
    this.#writing = (count === 0 ? this.#remove() : this.#write(nowMs, count))
      // It is tried again with the next tick.
      .catch(() => {})
      .finally(() => {
        this.#writing = null
      })
  }

  /** Removes the file: what was open has ended. */
  async close(): Promise<void> {
    await this.#writing
    await this.#remove().catch(() => {})
  }

  async #write(nowMs: number, count: number): Promise<void> {
    const encoder = new SegmentEncoder({ id: newId('seg'), openedAtMs: nowMs })
    this.#records.rows((row) => encoder.add(row))
    await put(join(this.#folder, FILE), encoder)
    this.#written = { atMs: nowMs, count }
  }

  async #remove(): Promise<void> {
    if (this.#written === null) return
    await rm(join(this.#folder, FILE), { force: true })
    this.#written = null
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
  const left = [...recordsOf(open)].filter(({ record_id }) => !ended.has(record_id))
  const path = id === null || left.length === 0 ? null : join(to, id + SEGMENT_SUFFIX)
  if (id !== null && path !== null) {
    const encoder = new SegmentEncoder({ id, openedAtMs: idTimeMs(id) })
    for (const record of left) encoder.add(record)
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
