import { open } from 'node:fs/promises'
import { systemClock, type Timer } from '../time.ts'
import { AggregateBuilder, type UsageAggregate } from './aggregate.ts'
import { encodeAggregate } from './aggregate-file.ts'
import { FOOTER_PAIRS } from './lake.ts'
import { DAY_MS, dateOf } from './names.ts'
import { GROUP_ROWS, PageRoom, UsageFileWriter } from './parquet.ts'
import { UsageRows, workspaceRows } from './rows.ts'
import {
  NUMBER_COLUMNS,
  pickRows,
  readingSegment,
  type SegmentColumns,
  SegmentRoom,
} from './segment-columns.ts'
import { inSlices } from './slices.ts'

/*
 * Makes files of segments, on the event loop, between what calls do there: of 45,000 records, which is a segment, the
 * longest step takes 2 to 4 ms, and 10 to 15 with the first segments of a process, which are smaller (two cores of an
 * AMD EPYC). A thread takes 20 MiB and more, and code in it is compiled again with each start: until some 20 segments
 * were rolled a record takes several times as long as from then on.
 */

/**
 * How long memory is kept for the next segment: a busy process has one each minute at least. Given back sooner, that of
 * each segment, some 7 MB, had the collector go through the whole heap.
 */
const KEPT_MS = 70_000
/** Rows for which memory is not kept: no segment of this version has as many. */
const KEPT_ROWS = 100_000

export interface RolledFile {
  /** Day of `ended_at` of its records. */
  readonly date: string
  readonly rows: number
  readonly file: Uint8Array<ArrayBuffer>
  readonly aggregate: Uint8Array<ArrayBuffer>
}

/** Takes a file, whose memory is used again once it has resolved. */
export type TakeFile = (file: RolledFile) => Promise<void>

/**
 * Makes the files of a segment, one for each day.
 *
 * @throws Error when the segment cannot be read, and what `take` throws
 */
export async function roll(path: string, take: TakeFile): Promise<void> {
  const room = borrowRoom()
  try {
    await rollIn(room, await room.read(path), take)
  } finally {
    keep(room)
  }
}

/** The same of a segment in memory. The files are the caller's. */
export async function rollSegment(bytes: Uint8Array): Promise<RolledFile[]> {
  const files: RolledFile[] = []
  await rollIn(new RollRoom(), bytes, async ({ file, ...others }) => {
    files.push({ ...others, file: file.slice() })
  })
  return files
}

async function rollIn(room: RollRoom, bytes: Uint8Array, take: TakeFile): Promise<void> {
  const segment = await inSlices(readingSegment(bytes, room.columns))
  for (const [date, columns] of daysOf(segment)) {
    const { sums, ...file } = await inSlices(fileOf(columns, room))
    await take({ date, ...file, aggregate: Uint8Array.from(await encodeAggregate(sums)) })
  }
}

/**
 * Memory that segments are rolled in, one after the other. Where it was asked for anew, 5 MB a segment, the collector
 * went through the whole heap with every other one.
 */
class RollRoom {
  readonly columns = new SegmentRoom()
  readonly rows = new UsageRows()
  readonly pages = new PageRoom()
  #bytes = Buffer.alloc(0)

  /** The bytes of a file, until the next is read. @throws Error when it cannot be read */
  async read(path: string): Promise<Buffer> {
    const file = await open(path)
    try {
      const { size } = await file.stat()
      if (size > this.#bytes.length) this.#bytes = Buffer.allocUnsafeSlow(size)
      let length = 0
      for (;;) {
        const { bytesRead } = await file.read(this.#bytes, length, size - length, length)
        length += bytesRead
        if (bytesRead === 0 || length === size) return this.#bytes.subarray(0, length)
      }
    } finally {
      await file.close()
    }
  }
}

function borrowRoom(): RollRoom {
  const room = spareRoom ?? new RollRoom()
  spareRoom = null
  return room
}

/** Null: there is none, or it is in use. */
let spareRoom: RollRoom | null = null
let forgetting: Timer | null = null

function keep(room: RollRoom): void {
  if (room.columns.rows > KEPT_ROWS) return
  spareRoom = room
  forgetting?.close()
  forgetting = systemClock
    .after(KEPT_MS, () => {
      spareRoom = null
    })
    .unref()
}

interface MadeFile extends Pick<RolledFile, 'rows' | 'file'> {
  readonly sums: UsageAggregate
}

/** The records of each day. */
function daysOf(segment: SegmentColumns): Map<string, SegmentColumns> {
  const endedAt = segment.numbers[NUMBER_COLUMNS.indexOf('ended_at')]?.subarray(0, segment.rows) ?? []
  const days = new Set<number>()
  let [fromMs, toMs] = [0, 0]
  for (let row = 0; row < endedAt.length; row += 1) {
    const ms = endedAt[row]!
    if (ms >= fromMs && ms < toMs) continue
    fromMs = ms - (ms % DAY_MS)
    toMs = fromMs + DAY_MS
    days.add(fromMs)
  }
  const ofDay = (dayMs: number) => {
    const rows: number[] = []
    for (const [row, ms] of endedAt.entries()) if (ms >= dayMs && ms < dayMs + DAY_MS) rows.push(row)
    return pickRows(segment, Int32Array.from(rows))
  }
  return new Map(Array.from(days, (dayMs) => [dateOf(dayMs), days.size === 1 ? segment : ofDay(dayMs)]))
}

function* fileOf(columns: SegmentColumns, { rows, pages }: RollRoom): Generator<void, MadeFile> {
  const writer = new UsageFileWriter(pages)
  const sums = new AggregateBuilder()
  const workspaces = new Set<string>()
  sums.addSegment(columns)
  yield
  for (let from = 0; from < columns.rows; from += GROUP_ROWS) {
    rows.view(columns, from, Math.min(from + GROUP_ROWS, columns.rows))
    for (const workspace of workspaceRows(rows).words) workspaces.add(workspace)
    yield* writer.adding(rows)
    rows.clear()
  }
  const file = writer.finish(pairsOf([], workspaces))
  yield
  return { rows: writer.rows, file, sums: sums.finish() }
}

/** What a file says of itself. @param inputs names of those that it was merged of */
export function pairsOf(inputs: readonly string[], workspaces: Iterable<string>) {
  return [
    { key: FOOTER_PAIRS.inputs, value: JSON.stringify(inputs) },
    { key: FOOTER_PAIRS.workspaces, value: JSON.stringify([...workspaces].sort()) },
  ]
}
