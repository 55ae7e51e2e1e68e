import { USAGE_COLUMNS, type UsageColumn } from '../contracts/usage-record.ts'
import {
  AGAIN,
  BadPayload,
  Frames,
  fits,
  headIn,
  PayloadReader,
  placePrefix,
  ROW_COLUMNS,
  ROW_TEXTS,
  ROWS_FRAME,
  SHAPE_COLUMNS,
  shapeIn,
  type Value,
} from './segment.ts'

/**
 * The records of a segment by column, without an object for any of them: what rolling takes of them, at a fraction of
 * the time. Records that were written again stand where they were first.
 */
export interface SegmentColumns {
  /** How many records there are; columns have room for more. */
  readonly rows: number
  /** What records of one shape have in common, in the order of `SHAPE_COLUMNS`. */
  readonly shapes: readonly (readonly Value[])[]
  /** For each record the place of its shape. */
  readonly shapeOf: Int32Array
  /** The first of `ROW_COLUMNS`, in their order. */
  readonly texts: readonly (readonly (string | null)[])[]
  /** The others of `ROW_COLUMNS` behind `started_at` and `ended_at`; NaN is null. */
  readonly numbers: readonly Float64Array[]
}

/** What `numbers` has, in its order. */
export const NUMBER_COLUMNS = ['started_at', 'ended_at', ...ROW_COLUMNS.slice(ROW_TEXTS)] as const
const STARTED_AT = 0
const ENDED_AT = 1
/** From the place of a column among `ROW_COLUMNS` to that among `NUMBER_COLUMNS`. */
const NUMBERS_FROM = 2 - ROW_TEXTS
const FIRST_ROWS = 4_096

const columnOf = (name: string) => USAGE_COLUMNS.find((column) => column.name === name) as UsageColumn
const SHAPED = SHAPE_COLUMNS.map(columnOf)
/** Bits of the columns that no row may lack; `record_id` is made of its place. */
const REQUIRED = ROW_COLUMNS.reduce(
  (bits, name, at) => (at === 0 || columnOf(name).isNullable ? bits : bits | (1 << at)),
  0,
)

/**
 * Reads a segment by column, up to its last whole frame.
 *
 * @returns null: a frame with a right checksum is not what it claims to be, and `readSegment` tells what is before it
 */
export function segmentColumns(bytes: Uint8Array): SegmentColumns | null {
  const reading = new Reading()
  const frames = new Frames(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))
  try {
    for (let payload = frames.next(); payload !== null; payload = frames.next()) reading.take(payload)
    return reading
  } catch (error) {
    if (!(error instanceof BadPayload)) throw error
    return null
  }
}

class Reading implements SegmentColumns {
  rows = 0
  readonly shapes: (readonly Value[])[] = []
  shapeOf = new Int32Array(FIRST_ROWS)
  readonly texts: (string | null)[][] = Array.from({ length: ROW_TEXTS }, () => [])
  numbers = NUMBER_COLUMNS.map(() => new Float64Array(FIRST_ROWS))
  /** Of the ids of records without one of their own; null until the head was read. */
  #prefix: string | null = null
  #endedAtMs = 0

  take(payload: Buffer): void {
    if (this.#prefix === null) {
      const { id, openedAtMs } = headIn(payload)
      this.#prefix = placePrefix(id)
      this.#endedAtMs = openedAtMs
      return
    }
    if (payload[0] !== ROWS_FRAME) throw new BadPayload('not a frame of rows')
    const reader = new PayloadReader(payload)
    while (!reader.isOver) {
      const number = reader.number()
      if (number === 0) this.#addShape(reader)
      else this.#addRow(reader, number - 1, this.#prefix)
    }
  }

  #addShape(reader: PayloadReader): void {
    const shape = shapeIn(reader)
    if (!shape.every((value, at) => fits(value, SHAPED[at]!))) throw new BadPayload('no such shape')
    this.shapes.push(shape)
  }

  #addRow(reader: PayloadReader, shape: number, prefix: string): void {
    const mask = reader.number()
    if (shape >= this.shapes.length || mask >= 2 * AGAIN || (mask & REQUIRED) !== REQUIRED)
      throw new BadPayload('no such row')
    const endedAt = this.#endedAtMs + reader.signed()
    const startedAt = endedAt - reader.signed()
    if (!(startedAt >= 0 && endedAt >= 0 && startedAt <= Number.MAX_SAFE_INTEGER))
      throw new BadPayload('no such time')
    if (endedAt > Number.MAX_SAFE_INTEGER) throw new BadPayload('no such time')
    this.#endedAtMs = endedAt
    const at = mask >= AGAIN ? this.rows - reader.number() : this.rows
    if (at < 0 || (mask >= AGAIN && at >= this.rows)) throw new BadPayload('a row takes the place of none')
    if (at === this.rows) this.#addPlace()
    const { texts, numbers } = this
    this.shapeOf[at] = shape
    numbers[STARTED_AT]![at] = startedAt
    numbers[ENDED_AT]![at] = endedAt
    for (let column = 0; column < ROW_TEXTS; column += 1)
      texts[column]![at] = (mask & (1 << column)) === 0 ? null : reader.text()
    texts[0]![at] ??= prefix + at
    for (let column = ROW_TEXTS; column < ROW_COLUMNS.length; column += 1)
      numbers[column + NUMBERS_FROM]![at] = (mask & (1 << column)) === 0 ? Number.NaN : reader.number()
  }

  #addPlace(): void {
    this.rows += 1
    if (this.rows <= this.shapeOf.length) return
    const shapeOf = new Int32Array(2 * this.shapeOf.length)
    shapeOf.set(this.shapeOf)
    this.shapeOf = shapeOf
    this.numbers = this.numbers.map((values) => {
      const larger = new Float64Array(2 * values.length)
      larger.set(values)
      return larger
    })
  }
}
