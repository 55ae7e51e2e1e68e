import { crc32 } from 'node:zlib'
import type { UsageColumn } from '../contracts/usage-record.ts'

/*
 * A segment, the write-ahead file of records of usage:
 *
 *   segment  = magic frame*
 *   frame    = length crc payload             both u32, little-endian, of the payload; one frame is one write
 *   payload  = kind item*                     the first frame of a segment is its head, all others have rows
 *   head     = 0 text                         JSON: `SegmentHead`
 *   rows     = 1 (shape | form | row)*
 *   shape    = 0 value*                       the columns of `SHAPE_COLUMNS`; shapes are numbered from 0
 *   form     = 1 number-of-shape mask         of rows of that shape with the columns of `ROW_COLUMNS` in the mask
 *   row      = number-of-form ended took value*
 *
 * Numbers are LEB128 of at most 53 bits; signed ones are folded (0, -1, 1, -2, …). Texts are UTF-8 behind their length.
 * Forms are numbered from 2. A row without a `record_id` of its own is named after the segment and its place in it.
 *
 * The file of a process or a machine that died may end within a frame, or hold anything after its last one: a reader
 * stops before the first frame that is not whole.
 */

export const MAGIC = Buffer.from('LKUSAGE2')
/** Before the payload of a frame. */
export const FRAME_HEAD_BYTES = 8
/** Largest payload. A turn of the loop writes far less. */
export const PAYLOAD_BYTES_MAX = 16 * 1024 * 1024
export const HEAD_FRAME = 0
export const ROWS_FRAME = 1
/** The first number of an item in a frame of rows; from `FIRST_FORM` on it is a row. */
export const SHAPE_ITEM = 0
export const FORM_ITEM = 1
export const FIRST_FORM = 2

export interface SegmentHead {
  /** `seg_` and a ULID. */
  readonly id: string
  /** Epoch milliseconds; the first row counts from it. */
  readonly openedAtMs: number
}

/** Columns that few values come together in. */
export const SHAPE_COLUMNS = [
  'node',
  'kind',
  'workspace',
  'app',
  'key_id',
  'purpose',
  'operation',
  'endpoint',
  'route',
  'policy_version_id',
  'provider',
  'model',
  'region',
  'attempts',
  'attempt_reasons',
  'outcome',
  'status',
  'error_code',
  'error_param',
  'replayed',
  'cache',
  'estimated',
] as const

/** Columns of a row that its mask names where they are not null, by the place of their bit; the texts come first. */
export const ROW_COLUMNS = [
  'record_id',
  'request_id',
  'job_id',
  'session_id',
  'trace_id',
  'end_user',
  'audio_seconds',
  'billable_audio_seconds',
  'video_seconds',
  'input_tokens',
  'output_tokens',
  'characters',
  'images',
  'credits',
  'cost_usd',
  'received_bytes',
  'sent_bytes',
  'total_ms',
  'body_ms',
  'upstream_ms',
  'first_ms',
] as const

/** Row columns before this one are texts. */
export const ROW_TEXTS = ROW_COLUMNS.indexOf('audio_seconds')
/** Bit of the mask: the row takes the place of an earlier one, which its number of rows before this one names. */
export const AGAIN = 2 ** ROW_COLUMNS.length

/** Id of a record without one of its own. */
export function placeId(segment: string, place: number): string {
  return `${placePrefix(segment)}${place}`
}

/** The beginning of those ids. */
export function placePrefix(segment: string): string {
  return `use_${segment.slice(segment.indexOf('_') + 1)}_`
}

/** The payloads of the frames of a segment, up to the first that is not whole. */
export class Frames {
  readonly #bytes: Buffer
  /** Up to where frames were whole. */
  end: number

  constructor(bytes: Buffer) {
    this.#bytes = bytes
    this.end = bytes.subarray(0, MAGIC.length).equals(MAGIC) ? MAGIC.length : 0
  }

  next(): Buffer | null {
    const bytes = this.#bytes
    if (this.end === 0 || this.end + FRAME_HEAD_BYTES > bytes.length) return null
    const length = bytes.readUInt32LE(this.end)
    const from = this.end + FRAME_HEAD_BYTES
    if (length === 0 || length > PAYLOAD_BYTES_MAX || from + length > bytes.length) return null
    const payload = bytes.subarray(from, from + length)
    if (crc32(payload) !== bytes.readUInt32LE(this.end + 4)) return null
    this.end = from + length
    return payload
  }
}

/** Where a payload is not what it claims to be, although its checksum is right. */
export class BadPayload extends Error {
  override readonly name = 'BadPayload'
}

/** Reads numbers and texts out of a payload. @throws BadPayload at what cannot be one */
export class PayloadReader {
  readonly #bytes: Buffer
  at: number

  /** @param at where to begin; by default after the kind of a payload */
  constructor(payload: Buffer, at = 1) {
    this.#bytes = payload
    this.at = at
  }

  get isOver(): boolean {
    return this.at >= this.#bytes.length
  }

  /** Whole and safe. Most take one byte or two. */
  number(): number {
    const bytes = this.#bytes
    const { at } = this
    const first = bytes[at]!
    if (first < 0x80) {
      this.at = at + 1
      return first
    }
    const second = bytes[at + 1]!
    if (second < 0x80) {
      this.at = at + 2
      return (first & 0x7f) | (second << 7)
    }
    return this.#longNumber()
  }

  signed(): number {
    const folded = this.number()
    return folded % 2 === 0 ? folded / 2 : -(folded + 1) / 2
  }

  text(): string {
    const length = this.number()
    const from = this.at
    this.skip(length)
    return this.#bytes.toString('utf8', from, this.at)
  }

  /** Leaves out the bytes of a text whose length was read. */
  skip(length: number): void {
    if (length > this.#bytes.length - this.at) throw new BadPayload('a text is cut off')
    this.at += length
  }

  #longNumber(): number {
    let value = 0
    let factor = 1
    for (let count = 0; count < 8; count += 1) {
      const byte = this.#bytes[this.at]
      if (byte === undefined) break
      this.at += 1
      value += (byte & 0x7f) * factor
      if (byte < 0x80) {
        if (value > Number.MAX_SAFE_INTEGER) break
        return value
      }
      factor *= 128
    }
    throw new BadPayload('a number is cut off or too large')
  }
}

/** Writes numbers and texts into a buffer that grows. */
export class PayloadWriter {
  bytes: Buffer
  at: number

  constructor(bytes = 64 * 1024) {
    this.bytes = Buffer.allocUnsafeSlow(bytes)
    this.at = 0
  }

  /** Has room for so many more bytes. */
  ensure(more: number): void {
    if (this.at + more <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.bytes.length, this.at + more))
    this.bytes.copy(larger, 0, 0, this.at)
    this.bytes = larger
  }

  /**
   * @param value whole, not negative and safe; there is room for 8 bytes
   * @throws RangeError when it is larger: no reader could go past it
   */
  number(value: number): void {
    const bytes = this.bytes
    let { at } = this
    let rest = value
    while (rest >= 0x8000_0000) {
      if (rest > Number.MAX_SAFE_INTEGER) throw new RangeError('a number is too large for a segment')
      bytes[at++] = (rest % 128) + 0x80
      rest = Math.floor(rest / 128)
    }
    while (rest >= 0x80) {
      bytes[at++] = (rest & 0x7f) | 0x80
      rest >>>= 7
    }
    bytes[at] = rest
    this.at = at + 1
  }

  /** @param value whole, below 2^52 on either side; there is room for 8 bytes */
  signed(value: number): void {
    this.number(value < 0 ? -2 * value - 1 : 2 * value)
  }

  text(value: string): void {
    const { length } = value
    this.ensure(3 * length + 8)
    this.number(Buffer.byteLength(value))
    this.at += this.bytes.write(value, this.at)
  }

  /** Writes a text from other bytes. */
  textFrom(source: Buffer, from: number, length: number): void {
    this.ensure(length + 8)
    this.number(length)
    const bytes = this.bytes
    const { at } = this
    // For the few bytes of an id, a native call would take longer.
    for (let index = 0; index < length; index += 1) bytes[at + index] = source[from + index]!
    this.at = at + length
  }
}

export type Value = string | number | boolean | null

const SEGMENT_ID = /^seg_[0-9a-z]{26}$/

/** @throws BadPayload */
export function headIn(payload: Buffer): SegmentHead {
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

/** The values of a shape, whatever they are. @throws BadPayload */
export function shapeIn(reader: PayloadReader): Value[] {
  return SHAPE_COLUMNS.map(() => {
    const tag = reader.number()
    if (tag === 0) return null
    if (tag <= 2) return tag === 2
    if (tag === 3) return reader.number()
    if (tag === 4) return reader.text()
    throw new BadPayload('a value of no kind')
  })
}

/** Whether a column can have the value. */
export function fits(value: Value, { kind, isNullable }: UsageColumn): boolean {
  if (value === null) return isNullable
  if (kind === 'id' || kind === 'word') return typeof value === 'string'
  if (kind === 'flag') return typeof value === 'boolean'
  return isWhole(value)
}

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
