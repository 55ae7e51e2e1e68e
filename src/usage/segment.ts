import { readFile } from 'node:fs/promises'
import { USAGE_COLUMNS, type UsageColumn, type UsageRecord } from '../contracts/usage-record.ts'
import {
  AGAIN,
  BadPayload,
  Frames,
  HEAD_FRAME,
  PayloadReader,
  placeId,
  ROW_COLUMNS,
  ROW_TEXTS,
  ROWS_FRAME,
  type SegmentHead,
  SHAPE_COLUMNS,
} from './format.ts'

/**
 * The records of a segment. It may be torn at its end, or be no segment at all: records are read up to there. Reading
 * never throws for what the bytes are.
 */
export interface Segment {
  /** Null: not even its head is whole, and it has no records. */
  readonly id: string | null
  /** Bytes behind the last frame that is whole. */
  readonly tornBytes: number
  /** In the order in which they were written, each once. Each iteration reads the bytes again. */
  records(): Generator<UsageRecord, void>
}

/** Reads a segment from a file, whole. @throws Error when the file cannot be read */
export async function readSegmentFile(path: string): Promise<Segment> {
  return readSegment(await readFile(path))
}

/** @param bytes stay as they are while it is read */
export function readSegment(bytes: Uint8Array): Segment {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  /** By the place of a record that was written again: its newest row. */
  const newest = new Map<number, number>()
  const scanned = new SegmentScan(buffer)
  for (const { place, row, isAgain } of scanned.rows()) if (isAgain) newest.set(place, row)
  return {
    id: scanned.id,
    tornBytes: buffer.length - scanned.end,
    *records() {
      for (const { record, place, row } of new SegmentScan(buffer.subarray(0, scanned.end)).rows())
        if ((newest.get(place) ?? row) === row) yield record
    },
  }
}

interface ScannedRow {
  readonly record: UsageRecord
  readonly place: number
  /** Counts every row. */
  readonly row: number
  readonly isAgain: boolean
}

type Value = string | number | boolean | null

/** One reading of a segment, from its first byte to the first frame that is not good. */
class SegmentScan {
  readonly #bytes: Buffer
  readonly #shapes: (readonly Value[])[] = []
  #head: SegmentHead | null = null
  #endedAtMs = 0
  #places = 0
  #row = 0
  /** Up to where frames were good. */
  end = 0

  constructor(bytes: Buffer) {
    this.#bytes = bytes
  }

  get id(): string | null {
    return this.#head?.id ?? null
  }

  /** The rows of each frame, once all of it is good. */
  *rows(): Generator<ScannedRow, void> {
    const frames = new Frames(this.#bytes)
    try {
      for (;;) {
        const payload = frames.next()
        if (payload === null) return
        if (this.#head === null) {
          this.#head = headIn(payload)
          this.#endedAtMs = this.#head.openedAtMs
        } else yield* this.#rowsIn(payload)
        this.end = frames.end
      }
    } catch (error) {
      if (!(error instanceof BadPayload)) throw error
    }
  }

  #rowsIn(payload: Buffer): ScannedRow[] {
    const reader = new PayloadReader(payload)
    if (payload[0] !== ROWS_FRAME) throw new BadPayload('not a frame of rows')
    const rows: ScannedRow[] = []
    while (!reader.isOver) {
      const number = reader.number()
      if (number === 0) this.#shapes.push(shapeIn(reader))
      else rows.push(this.#rowIn(reader, number))
    }
    return rows
  }

  #rowIn(reader: PayloadReader, number: number): ScannedRow {
    const shape = this.#shapes[number - 1]
    if (shape === undefined) throw new BadPayload('a row of no shape')
    const mask = reader.number()
    const isAgain = mask >= AGAIN
    if (mask >= 2 * AGAIN) throw new BadPayload('a row of unknown columns')
    this.#endedAtMs += reader.signed()
    const values: Record<string, Value> = { started_at: 0, ended_at: this.#endedAtMs }
    values.started_at = this.#endedAtMs - reader.signed()
    const place = isAgain ? this.#places - reader.number() : this.#places
    if (place < 0) throw new BadPayload('a row takes the place of none')
    if (!isAgain) this.#places += 1
    for (const [at, name] of SHAPE_COLUMNS.entries()) values[name] = shape[at]!
    for (const [at, name] of ROW_COLUMNS.entries()) {
      const isThere = (mask & (1 << at)) !== 0
      values[name] = isThere ? (at < ROW_TEXTS ? reader.text() : reader.number()) : null
    }
    values.record_id ??= placeId(this.#head!.id, place)
    this.#row += 1
    return { record: checked(values), place, row: this.#row - 1, isAgain }
  }
}

const SEGMENT_ID = /^seg_[0-9a-z]{26}$/

function headIn(payload: Buffer): SegmentHead {
  if (payload[0] !== HEAD_FRAME) throw new BadPayload('no head')
  const text = new PayloadReader(payload).text()
  try {
    const { id, openedAtMs } = JSON.parse(text) as Partial<Record<string, unknown>>
    if (typeof id === 'string' && SEGMENT_ID.test(id) && isWhole(openedAtMs)) return { id, openedAtMs }
  } catch {
    // Told below.
  }
  throw new BadPayload('no head')
}

function shapeIn(reader: PayloadReader): Value[] {
  return SHAPE_COLUMNS.map(() => {
    const tag = reader.number()
    if (tag === 0) return null
    if (tag <= 2) return tag === 2
    if (tag === 3) return reader.number()
    if (tag === 4) return reader.text()
    throw new BadPayload('a value of no kind')
  })
}

/** The values in the order of the columns. @throws BadPayload where one is none of its column */
function checked(values: Readonly<Record<string, Value>>): UsageRecord {
  const record: Record<string, Value> = {}
  for (const column of USAGE_COLUMNS) {
    const value = values[column.name]
    if (value === undefined || !fits(value, column)) throw new BadPayload(`no ${column.name}`)
    record[column.name] = value
  }
  return record as unknown as UsageRecord
}

function fits(value: Value, { kind, isNullable }: UsageColumn): boolean {
  if (value === null) return isNullable
  if (kind === 'id' || kind === 'word') return typeof value === 'string'
  if (kind === 'flag') return typeof value === 'boolean'
  return isWhole(value)
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
