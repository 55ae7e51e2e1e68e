import { USAGE_COLUMNS, type UsageColumn, type UsageRecord } from '../contracts/usage-record.ts'
import {
  AGAIN,
  BadPayload,
  FIRST_FORM,
  FORM_ITEM,
  Frames,
  fits,
  headIn,
  PayloadReader,
  placeId,
  ROW_COLUMNS,
  ROW_TEXTS,
  ROWS_FRAME,
  SHAPE_COLUMNS,
  shapeIn,
  type Value,
} from './segment.ts'

/**
 * The records of a segment, each once: a record that was written again stands where it was first. A segment may be torn
 * at its end, or be none at all: records are read up to there. Reading never throws for what the bytes are.
 */
export interface Segment {
  /** Null: not even its head is whole, and it has no records. */
  readonly id: string | null
  /** Bytes after the last frame that is whole. */
  readonly tornBytes: number
  readonly rows: readonly SegmentRow[]
  /** All of the segment: values of rows are read out of it. */
  readonly bytes: Buffer
}

/** The place of a record in a segment. */
export interface SegmentRow {
  readonly form: SegmentForm
  /** Epoch milliseconds. */
  readonly startedAtMs: number
  readonly endedAtMs: number
  /** Where the values of its columns begin. */
  readonly at: number
}

/** How some rows are written. */
export interface SegmentForm {
  /** Values that they have in common, in the order of `SHAPE_COLUMNS`; one array for all of them. */
  readonly shape: readonly Value[]
  /** Places among `ROW_COLUMNS` of the values that they have; texts come before numbers. */
  readonly columns: readonly number[]
  readonly isAgain: boolean
}

export const RECORD_ID = ROW_COLUMNS.indexOf('record_id')
const columnOf = (name: string) => USAGE_COLUMNS.find((column) => column.name === name) as UsageColumn
const SHAPED = SHAPE_COLUMNS.map(columnOf)
/** Bits of a mask of the columns that no row may lack; `record_id` is made of its place. */
const REQUIRED = ROW_COLUMNS.reduce(
  (bits, name, at) => (at === RECORD_ID || columnOf(name).isNullable ? bits : bits | (1 << at)),
  0,
)

/** Reads a segment, a frame at each step. */
export function readingSegment(bytes: Uint8Array): Generator<void, Segment> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return readingUpTo(buffer, buffer.length)
}

export function readSegment(bytes: Uint8Array): Segment {
  const steps = readingSegment(bytes)
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Reads the frames that end before `end`. Of one that is not what it claims to be, nothing is taken. */
function* readingUpTo(bytes: Buffer, end: number): Generator<void, Segment> {
  const reading = new Reading()
  const frames = new Frames(bytes.subarray(0, end))
  let good = 0
  try {
    for (let payload = frames.next(); payload !== null; payload = frames.next()) {
      reading.take(payload, frames.end - payload.length)
      good = frames.end
      yield
    }
  } catch (error) {
    if (!(error instanceof BadPayload)) throw error
    return yield* readingUpTo(bytes, good)
  }
  return { id: reading.id, tornBytes: bytes.length - good, rows: reading.rows, bytes }
}

class Reading {
  /** Null until the head was read. */
  id: string | null = null
  readonly rows: SegmentRow[] = []
  readonly #shapes: (readonly Value[])[] = []
  readonly #forms: SegmentForm[] = []
  #endedAtMs = 0

  /** @param from where the payload begins */
  take(payload: Buffer, from: number): void {
    if (this.id === null) {
      const { id, openedAtMs } = headIn(payload)
      this.id = id
      this.#endedAtMs = openedAtMs
      return
    }
    if (payload[0] !== ROWS_FRAME) throw new BadPayload('not a frame of rows')
    const reader = new PayloadReader(payload)
    while (!reader.isOver) {
      const item = reader.number()
      if (item >= FIRST_FORM) this.#addRow(reader, this.#forms[item - FIRST_FORM], from)
      else if (item === FORM_ITEM) this.#addForm(reader)
      else this.#addShape(reader)
    }
  }

  #addShape(reader: PayloadReader): void {
    const shape = shapeIn(reader)
    if (!shape.every((value, at) => fits(value, SHAPED[at]!))) throw new BadPayload('no such shape')
    this.#shapes.push(shape)
  }

  #addForm(reader: PayloadReader): void {
    const shape = this.#shapes[reader.number()]
    const mask = reader.number()
    if (shape === undefined || mask >= 2 * AGAIN || (mask & REQUIRED) !== REQUIRED)
      throw new BadPayload('no such form')
    const columns = Array.from(ROW_COLUMNS.keys()).filter((column) => (mask & (1 << column)) !== 0)
    this.#forms.push({ shape, isAgain: mask >= AGAIN, columns })
  }

  #addRow(reader: PayloadReader, form: SegmentForm | undefined, from: number): void {
    if (form === undefined) throw new BadPayload('no such row')
    const endedAtMs = this.#endedAtMs + reader.signed()
    const startedAtMs = endedAtMs - reader.signed()
    if (!isTime(startedAtMs) || !isTime(endedAtMs)) throw new BadPayload('no such time')
    this.#endedAtMs = endedAtMs
    const { rows } = this
    const place = form.isAgain ? rows.length - reader.number() : rows.length
    if (place < 0 || (form.isAgain && place >= rows.length))
      throw new BadPayload('a row takes the place of none')
    rows[place] = { form, startedAtMs, endedAtMs, at: from + reader.at }
    for (const column of form.columns) {
      const number = reader.number()
      if (column < ROW_TEXTS) reader.skip(number)
    }
  }
}

function isTime(ms: number): boolean {
  return ms >= 0 && ms <= Number.MAX_SAFE_INTEGER
}

const ROW_PLACES = new Map<string, number>(ROW_COLUMNS.map((name, place) => [name, place]))
const SHAPE_PLACES = new Map<string, number>(SHAPE_COLUMNS.map((name, place) => [name, place]))

/** The record at a place among the rows. */
export function recordAt({ id, rows, bytes }: Segment, place: number): UsageRecord {
  const { form, startedAtMs, endedAtMs, at } = rows[place]!
  const reader = new PayloadReader(bytes, at)
  const values = new Map<number, string | number>([[RECORD_ID, placeId(id ?? '', place)]])
  for (const column of form.columns) values.set(column, column < ROW_TEXTS ? reader.text() : reader.number())
  const valueIn = (name: string) => {
    if (name === 'started_at') return startedAtMs
    if (name === 'ended_at') return endedAtMs
    const own = ROW_PLACES.get(name)
    return own === undefined ? form.shape[SHAPE_PLACES.get(name)!] : (values.get(own) ?? null)
  }
  return Object.fromEntries(USAGE_COLUMNS.map(({ name }) => [name, valueIn(name)])) as unknown as UsageRecord
}

/** The id of the record at a place among the rows. */
export function recordIdAt({ id, rows, bytes }: Segment, place: number): string {
  const { form, at } = rows[place]!
  // The first of the columns, where it has one of its own.
  return form.columns[0] === RECORD_ID ? new PayloadReader(bytes, at).text() : placeId(id ?? '', place)
}
