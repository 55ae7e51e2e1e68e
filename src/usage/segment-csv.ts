import { readFileSync, writeFileSync } from 'node:fs'
import { DAY_MS, dateOf } from './names.ts'
import { PayloadReader, placePrefix, ROW_COLUMNS, ROW_TEXTS, SHAPE_COLUMNS, type Value } from './segment.ts'
import { RECORD_ID, readSegment, type Segment, type SegmentRow } from './segment-rows.ts'

/*
 * Writes the records of a segment as CSV, which DuckDB reads. Values are copied from bytes to bytes: making texts of
 * them, and joining these, took three times as long. An empty field is null; an empty text stands between quotes.
 */

/** A day on which records of a segment ended. */
export interface SegmentDay {
  readonly date: string
  readonly rows: number
  /** Workspaces that have records, sorted. */
  readonly workspaces: readonly string[]
}

/** Columns of the file, in their order. */
export const CSV_COLUMNS = ['started_at', 'ended_at', ...ROW_COLUMNS, ...SHAPE_COLUMNS] as const

/**
 * Converts a segment.
 *
 * @returns the days of its records; none: it has no record, and no file is written
 * @throws Error when a file cannot be read or written
 */
export function convertSegment(path: string, csv: string): SegmentDay[] {
  const segment = readSegment(readFileSync(path))
  if (segment.rows.length === 0) return []
  const writer = new CsvWriter(4 * segment.bytes.length)
  const shapes = new Map<readonly Value[], Buffer>()
  const prefix = Buffer.from(placePrefix(segment.id ?? ''))
  for (const [place, row] of segment.rows.entries()) {
    const { shape } = row.form
    let line = shapes.get(shape)
    if (line === undefined) {
      line = csvLine(shape)
      shapes.set(shape, line)
    }
    writeRow(writer, segment, row, { prefix, place })
    writer.raw(line)
  }
  writeFileSync(csv, writer.written)
  return daysOf(segment)
}

/** The values of a shape, which end a line. */
function csvLine(shape: readonly Value[]): Buffer {
  const writer = new CsvWriter(1024)
  for (const [at, value] of shape.entries()) {
    if (at > 0) writer.comma()
    writer.value(value)
  }
  writer.endLine()
  return writer.written
}

function writeRow(
  writer: CsvWriter,
  { bytes }: Segment,
  { form, startedAtMs, endedAtMs, at }: SegmentRow,
  { prefix, place }: { readonly prefix: Buffer; readonly place: number },
): void {
  const { columns } = form
  const reader = new PayloadReader(bytes, at)
  writer.number(startedAtMs)
  writer.comma()
  writer.number(endedAtMs)
  writer.comma()
  let next = 0
  for (let column = 0; column < ROW_COLUMNS.length; column += 1) {
    if (columns[next] === column) {
      next += 1
      const number = reader.number()
      if (column < ROW_TEXTS) {
        writer.text(bytes, reader.at, number)
        reader.skip(number)
      } else writer.number(number)
    } else if (column === RECORD_ID) {
      writer.raw(prefix)
      writer.number(place)
    }
    writer.comma()
  }
}

function daysOf({ rows }: Segment): SegmentDay[] {
  const days = new Map<number, { rows: number; readonly shapes: Set<readonly Value[]> }>()
  for (const { endedAtMs, form } of rows) {
    const day = Math.floor(endedAtMs / DAY_MS)
    let known = days.get(day)
    if (known === undefined) {
      known = { rows: 0, shapes: new Set() }
      days.set(day, known)
    }
    known.rows += 1
    known.shapes.add(form.shape)
  }
  const workspace = SHAPE_COLUMNS.indexOf('workspace')
  return [...days].map(([day, { rows, shapes }]) => ({
    date: dateOf(day * DAY_MS),
    rows,
    workspaces: [...new Set([...shapes].map((shape) => String(shape[workspace])))].sort(),
  }))
}

const [QUOTE, COMMA, NEWLINE, RETURN, ZERO] = [0x22, 0x2c, 0x0a, 0x0d, 0x30]
/** Numbers below this are written in one loop of 32-bit arithmetic. */
const HALF = 1_000_000_000
const DIGITS_MAX = 16

class CsvWriter {
  #bytes: Buffer
  #at = 0

  constructor(bytes: number) {
    this.#bytes = Buffer.allocUnsafeSlow(bytes)
  }

  get written(): Buffer {
    return this.#bytes.subarray(0, this.#at)
  }

  raw(bytes: Buffer): void {
    this.#ensure(bytes.length)
    this.#at += bytes.copy(this.#bytes, this.#at)
  }

  comma(): void {
    this.#ensure(1)
    this.#bytes[this.#at++] = COMMA
  }

  endLine(): void {
    this.#ensure(1)
    this.#bytes[this.#at++] = NEWLINE
  }

  value(value: Value): void {
    if (typeof value === 'number') this.number(value)
    else if (typeof value === 'boolean') this.number(value ? 1 : 0)
    else if (value !== null) {
      const text = Buffer.from(value)
      this.text(text, 0, text.length)
    }
  }

  /** @param value whole, and not negative */
  number(value: number): void {
    this.#ensure(DIGITS_MAX)
    if (value < HALF) this.#digits(value, 0)
    else {
      const rest = value % HALF
      this.#digits((value - rest) / HALF, 0)
      this.#digits(rest, 9)
    }
  }

  text(source: Buffer, from: number, length: number): void {
    this.#ensure(2 * length + 2)
    const bytes = this.#bytes
    const begin = this.#at
    let isPlain = length > 0
    for (let at = 0; at < length; at += 1) {
      const byte = source[from + at]!
      if (byte === QUOTE || byte === COMMA || byte === NEWLINE || byte === RETURN) isPlain = false
      bytes[begin + at] = byte
    }
    this.#at = begin + length
    if (!isPlain) this.#quoted(source, from, length, begin)
  }

  #quoted(source: Buffer, from: number, length: number, begin: number): void {
    const bytes = this.#bytes
    let to = begin
    bytes[to++] = QUOTE
    for (let at = from; at < from + length; at += 1) {
      const byte = source[at]!
      if (byte === QUOTE) bytes[to++] = QUOTE
      bytes[to++] = byte
    }
    bytes[to++] = QUOTE
    this.#at = to
  }

  /** @param least digits to write, with zeros in front */
  #digits(value: number, least: number): void {
    const bytes = this.#bytes
    let digits = least
    if (least === 0) {
      digits = 1
      for (let rest = value; rest >= 10; rest = (rest / 10) | 0) digits += 1
    }
    let rest = value
    for (let at = this.#at + digits - 1; at >= this.#at; at -= 1) {
      const tenth = (rest / 10) | 0
      bytes[at] = ZERO + rest - 10 * tenth
      rest = tenth
    }
    this.#at += digits
  }

  #ensure(more: number): void {
    if (this.#at + more <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#bytes.length, this.#at + more))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
  }
}
