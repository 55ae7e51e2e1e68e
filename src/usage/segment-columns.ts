import { readFile } from 'node:fs/promises'
import { USAGE_COLUMNS, type UsageColumn } from '../contracts/usage-record.ts'
import {
  AGAIN,
  BadPayload,
  FIRST_FORM,
  FORM_ITEM,
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
 * The records of a segment by column, each once, without an object or a text for any of them. A record that was written
 * again stands where it was first.
 *
 * A segment may be torn at its end, or be none at all: records are read up to there. Reading never throws for what the
 * bytes are.
 */
export interface SegmentColumns {
  /** Null: not even its head is whole, and it has no records. */
  readonly id: string | null
  /** Bytes behind the last frame that is whole. */
  readonly tornBytes: number
  /** How many records there are; columns have room for more. */
  readonly rows: number
  /** What records of one shape have in common, in the order of `SHAPE_COLUMNS`. */
  readonly shapes: readonly (readonly Value[])[]
  /** For each record the place of its shape. */
  readonly shapeOf: Int32Array
  /** What texts stand in. */
  readonly bytes: Buffer
  /** The first of `ROW_COLUMNS`, in their order; null: no record has one. */
  readonly texts: readonly (SegmentTexts | null)[]
  /** What ids of records without one of their own begin with; their place is behind it. */
  readonly idPrefix: Buffer
  /** The place of each record; null: it is its row. */
  readonly places: Int32Array | null
  /** Null: no record has one. */
  readonly endUsers: SegmentWords | null
  /** `NUMBER_COLUMNS`; NaN is null. Null: no record has one. */
  readonly numbers: readonly (Float64Array | null)[]
}

/** Where the text of each record stands. */
export interface SegmentTexts {
  readonly starts: Int32Array
  /** -1: it has none. */
  readonly lengths: Int32Array
}

/** Texts of few values: each value once, and for each record which of them; -1 is null. */
export interface SegmentWords {
  readonly words: readonly string[]
  readonly indexes: Int32Array
}

/** What `numbers` has, in its order. */
export const NUMBER_COLUMNS = ['started_at', 'ended_at', ...ROW_COLUMNS.slice(ROW_TEXTS)] as const
export const RECORD_ID = ROW_COLUMNS.indexOf('record_id')
const END_USER = ROW_COLUMNS.indexOf('end_user')
const STARTED_AT = 0
const ENDED_AT = 1
/** From the place of a column among `ROW_COLUMNS` to that among `NUMBER_COLUMNS`. */
const NUMBERS_FROM = 2 - ROW_TEXTS
const FIRST_ROOM = 4_096

/** Bits of a mask: of texts, of numbers, and of the columns that no row may lack; `record_id` is made of its place. */
const TEXT_BITS = 2 ** ROW_TEXTS - 1
const NUMBER_BITS = AGAIN - 1 - TEXT_BITS
const columnOf = (name: string) => USAGE_COLUMNS.find((column) => column.name === name) as UsageColumn
const SHAPED = SHAPE_COLUMNS.map(columnOf)
const REQUIRED = ROW_COLUMNS.reduce(
  (bits, name, at) => (at === RECORD_ID || columnOf(name).isNullable ? bits : bits | (1 << at)),
  0,
)

/** Reads a segment from a file, whole. @throws Error when the file cannot be read */
export async function readSegmentFile(path: string): Promise<SegmentColumns> {
  return readSegment(await readFile(path))
}

/** @param bytes stay as they are while columns are used */
export function readSegment(bytes: Uint8Array): SegmentColumns {
  return finished(readingSegment(bytes, new SegmentRoom()))
}

/**
 * Reads a segment, a frame at each step.
 *
 * @param bytes stay as they are while columns are used
 * @param room what columns stand in, until the next segment is read into it
 */
export function readingSegment(bytes: Uint8Array, room: SegmentRoom): Generator<void, SegmentColumns> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  return readingUpTo(buffer, buffer.length, room)
}

/** Takes all steps at once. */
export function finished<Made>(steps: Generator<void, Made>): Made {
  for (;;) {
    const { done, value } = steps.next()
    if (done === true) return value
  }
}

/** Reads the frames that end before `end`. Of one that is not what it claims to be, nothing is taken. */
function* readingUpTo(bytes: Buffer, end: number, room: SegmentRoom): Generator<void, SegmentColumns> {
  const reading = new Reading(bytes, room)
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
    return yield* readingUpTo(bytes, good, room)
  }
  return reading.finish(good)
}

/** Memory of columns: what is new of it the kernel has to clear, which takes as long as reading. */
export class SegmentRoom {
  rows = FIRST_ROOM
  shapeOf = new Int32Array(FIRST_ROOM)
  /** By column; null: none had one yet. */
  readonly texts: (SegmentTexts | null)[] = Array.from({ length: ROW_TEXTS }, () => null)
  readonly numbers: (Float64Array | null)[] = NUMBER_COLUMNS.map(() => null)

  /** Columns of no texts, of as many rows as there is room for. */
  textsOf(column: number): SegmentTexts {
    const { rows } = this
    const kept = this.texts[column]
    const texts = kept ?? { starts: new Int32Array(rows), lengths: new Int32Array(rows) }
    texts.lengths.fill(-1)
    this.texts[column] = texts
    return texts
  }

  numbersOf(column: number): Float64Array {
    const numbers = this.numbers[column] ?? new Float64Array(this.rows)
    this.numbers[column] = numbers
    return numbers.fill(Number.NaN)
  }

  grow(rows: number): void {
    this.rows = rows
    this.shapeOf = grown(this.shapeOf, new Int32Array(rows))
    for (const [at, texts] of this.texts.entries())
      if (texts !== null)
        this.texts[at] = {
          starts: grown(texts.starts, new Int32Array(rows)),
          lengths: grown(texts.lengths, new Int32Array(rows).fill(-1)),
        }
    for (const [at, numbers] of this.numbers.entries())
      if (numbers !== null) this.numbers[at] = grown(numbers, new Float64Array(rows).fill(Number.NaN))
  }
}

/** What rows are read by, and into. */
interface Form {
  readonly shape: number
  readonly isAgain: boolean
  /** Places of the columns that they have, and these; made anew with the room for them. */
  readonly textColumns: readonly number[]
  texts: readonly SegmentTexts[]
  readonly numberColumns: readonly number[]
  numbers: readonly Float64Array[]
}

class Reading {
  readonly #bytes: Buffer
  readonly #room: SegmentRoom
  /** Null until the head was read. */
  #id: string | null = null
  #rows = 0
  readonly #shapes: (readonly Value[])[] = []
  readonly #forms: Form[] = []
  #shapeOf: Int32Array
  #startedAt: Float64Array
  #endedAt: Float64Array
  readonly #texts: (SegmentTexts | null)[] = Array.from({ length: ROW_TEXTS }, () => null)
  readonly #numbers: (Float64Array | null)[] = NUMBER_COLUMNS.map(() => null)
  #endedAtMs = 0

  constructor(bytes: Buffer, room: SegmentRoom) {
    this.#bytes = bytes
    this.#room = room
    this.#shapeOf = room.shapeOf
    this.#startedAt = this.#numbersOf(STARTED_AT)
    this.#endedAt = this.#numbersOf(ENDED_AT)
  }

  /** @param from where the payload begins */
  take(payload: Buffer, from: number): void {
    if (this.#id === null) {
      const { id, openedAtMs } = headIn(payload)
      this.#id = id
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

  finish(end: number): SegmentColumns {
    const endUsers = this.#texts[END_USER] ?? null
    return {
      id: this.#id,
      tornBytes: this.#bytes.length - end,
      rows: this.#rows,
      shapes: this.#shapes,
      shapeOf: this.#shapeOf,
      bytes: this.#bytes,
      texts: this.#texts,
      idPrefix: Buffer.from(this.#id === null ? '' : placePrefix(this.#id)),
      places: null,
      endUsers: endUsers && wordsIn(this.#bytes, endUsers, this.#rows),
      numbers: this.#numbers,
    }
  }

  #addShape(reader: PayloadReader): void {
    const shape = shapeIn(reader)
    if (!shape.every((value, at) => fits(value, SHAPED[at]!))) throw new BadPayload('no such shape')
    this.#shapes.push(shape)
  }

  #addForm(reader: PayloadReader): void {
    const shape = reader.number()
    const mask = reader.number()
    if (shape >= this.#shapes.length || mask >= 2 * AGAIN || (mask & REQUIRED) !== REQUIRED)
      throw new BadPayload('no such form')
    const textColumns = placesIn(mask & TEXT_BITS)
    const numberColumns = placesIn(mask & NUMBER_BITS).map((column) => column + NUMBERS_FROM)
    const isAgain = mask >= AGAIN
    const form: Form = { shape, isAgain, textColumns, texts: [], numberColumns, numbers: [] }
    this.#forms.push(form)
    this.#makeRoom(form)
  }

  #addRow(reader: PayloadReader, form: Form | undefined, from: number): void {
    if (form === undefined) throw new BadPayload('no such row')
    const endedAt = this.#endedAtMs + reader.signed()
    const startedAt = endedAt - reader.signed()
    if (!isTime(startedAt) || !isTime(endedAt)) throw new BadPayload('no such time')
    this.#endedAtMs = endedAt
    const row = form.isAgain ? this.#emptied(this.#rows - reader.number()) : this.#added(from + reader.at)
    this.#shapeOf[row] = form.shape
    this.#startedAt[row] = startedAt
    this.#endedAt[row] = endedAt
    // After room was made: it may be other memory.
    const { texts, numbers } = form
    for (let at = 0; at < texts.length; at += 1) {
      const { starts, lengths } = texts[at]!
      const length = reader.number()
      starts[row] = from + reader.at
      lengths[row] = length
      reader.skip(length)
    }
    for (let at = 0; at < numbers.length; at += 1) numbers[at]![row] = reader.number()
  }

  #makeRoom(form: Form): void {
    form.texts = form.textColumns.map((column) => this.#textsOf(column))
    form.numbers = form.numberColumns.map((column) => this.#numbersOf(column))
  }

  #textsOf(column: number): SegmentTexts {
    let texts = this.#texts[column]
    if (texts === null || texts === undefined) {
      texts = this.#room.textsOf(column)
      this.#texts[column] = texts
    }
    return texts
  }

  #numbersOf(column: number): Float64Array {
    let numbers = this.#numbers[column]
    if (numbers === null || numbers === undefined) {
      numbers = this.#room.numbersOf(column)
      this.#numbers[column] = numbers
    }
    return numbers
  }

  /** A row that takes the place of an earlier one, which is empty then. */
  #emptied(row: number): number {
    if (row < 0 || row >= this.#rows) throw new BadPayload('a row takes the place of none')
    for (const texts of this.#texts) if (texts !== null) texts.lengths[row] = -1
    for (const numbers of this.#numbers) if (numbers !== null) numbers[row] = Number.NaN
    return row
  }

  /** @param bytes that the rows so far took, nearly */
  #added(bytes: number): number {
    if (this.#rows === this.#room.rows) this.#grow(bytes / this.#rows)
    this.#rows += 1
    return this.#rows - 1
  }

  /** Makes room for what is to come, going by the bytes that a row took so far. */
  #grow(bytesPerRow: number): void {
    const room = this.#room
    const expected = Math.ceil((1.02 * this.#bytes.length) / bytesPerRow)
    room.grow(Math.max(room.rows + FIRST_ROOM, Math.min(expected, 64 * room.rows)))
    this.#shapeOf = room.shapeOf
    for (const [at, texts] of this.#texts.entries()) if (texts !== null) this.#texts[at] = room.texts[at]!
    for (const [at, numbers] of this.#numbers.entries())
      if (numbers !== null) this.#numbers[at] = room.numbers[at]!
    this.#startedAt = this.#numbersOf(STARTED_AT)
    this.#endedAt = this.#numbersOf(ENDED_AT)
    for (const form of this.#forms) this.#makeRoom(form)
  }
}

function grown<T extends Int32Array | Float64Array>(values: T, room: T): T {
  room.set(values)
  return room
}

/** The places of the bits that are set. */
function placesIn(bits: number): number[] {
  return Array.from(ROW_COLUMNS.keys()).filter((place) => (bits & (1 << place)) !== 0)
}

function isTime(ms: number): boolean {
  return ms >= 0 && ms <= Number.MAX_SAFE_INTEGER
}

function wordsIn(bytes: Buffer, { starts, lengths }: SegmentTexts, rows: number): SegmentWords {
  const numbers = new Map<string, number>()
  const indexes = new Int32Array(rows).fill(-1)
  for (let row = 0; row < rows; row += 1) {
    const [from, length] = [starts[row]!, lengths[row]!]
    if (length < 0) continue
    const word = bytes.toString('utf8', from, from + length)
    const number = numbers.get(word) ?? numbers.size
    if (number === numbers.size) numbers.set(word, number)
    indexes[row] = number
  }
  return { words: [...numbers.keys()], indexes }
}

/** Some of the records. */
export function pickRows(columns: SegmentColumns, rows: Int32Array): SegmentColumns {
  const { shapeOf, texts, endUsers, numbers, places } = columns
  const picked = (values: Int32Array) => Int32Array.from(rows, (row) => values[row]!)
  return {
    ...columns,
    rows: rows.length,
    shapeOf: picked(shapeOf),
    texts: texts.map((one) => one && { starts: picked(one.starts), lengths: picked(one.lengths) }),
    places: places === null ? rows : picked(places),
    endUsers: endUsers && { ...endUsers, indexes: picked(endUsers.indexes) },
    numbers: numbers.map((values) => values && Float64Array.from(rows, (row) => values[row]!)),
  }
}
