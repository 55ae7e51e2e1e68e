import { crc32 } from 'node:zlib'
import type { UsageRecord } from '../contracts/usage-record.ts'
import {
  AGAIN,
  FIRST_FORM,
  FORM_ITEM,
  FRAME_HEAD_BYTES,
  HEAD_FRAME,
  MAGIC,
  PayloadWriter,
  ROW_COLUMNS,
  ROWS_FRAME,
  type SegmentHead,
  SHAPE_ITEM,
} from './segment.ts'

/** A record as it is written. Its values may change once it is. */
export type UsageRow = { -readonly [Name in keyof UsageRecord]: UsageRecord[Name] } & {
  /** Empty: it is named after its place in the segment. */
  record_id: string
}

/** Largest part of a row that is neither text nor shape: its numbers. */
const ROW_BYTES = 8 * (ROW_COLUMNS.length + 4)
/**
 * Rows that are encoded one after the other: between what calls do otherwise, encoding one takes more than twice as
 * long as in a loop. Nothing is kept of them but what is written: whole rows would be 25 KB, which the caches of a CPU
 * have lost by then.
 */
const GATHERED_ROWS = 64
/** Numbers that are kept of a row, at most. */
const GATHERED_NUMBERS = ROW_COLUMNS.length + 8
/** Shapes of a key that are looked through; one that is met again beyond that is written again. */
const SHAPES_MAX = 32

interface Shape extends Readonly<ShapeValues> {
  readonly number: number
  /** Forms of rows of it by their masks, and the one that was used last; 0: none was. */
  readonly forms: Map<number, number>
  mask: number
  form: number
  /** The one of its key that was used before it. */
  next: Shape | null
}

type ShapeValues = Pick<
  UsageRecord,
  | 'node'
  | 'kind'
  | 'workspace'
  | 'app'
  | 'key_id'
  | 'purpose'
  | 'operation'
  | 'endpoint'
  | 'route'
  | 'policy_version_id'
  | 'provider'
  | 'model'
  | 'region'
  | 'attempts'
  | 'attempt_reasons'
  | 'outcome'
  | 'status'
  | 'error_code'
  | 'error_param'
  | 'replayed'
  | 'cache'
  | 'estimated'
>

/**
 * Encodes the records of one segment, and gathers them for the next write. Of most records no more is written than
 * their numbers and the id of their request: who called for what is a shape, which is written once.
 */
export class SegmentEncoder {
  readonly #writer = new PayloadWriter()
  readonly #gathered = new GatheredRows()
  /** By key, the one that was used last. */
  readonly #shapes = new Map<string, Shape>()
  /** The shape of the last row: mostly that of the next too, which saves a look at the map. */
  #lastShape: Shape | null = null
  #shapeCount = 0
  #formCount = 0
  #endedAtMs: number
  /** Rows that took no other's place. */
  #places = 0
  /** Rows that wait to be written. */
  rows = 0
  /** Where the frame begins that rows are added to. */
  #frame = 0

  constructor(head: SegmentHead) {
    const writer = this.#writer
    this.#endedAtMs = head.openedAtMs
    writer.ensure(MAGIC.length)
    writer.at = MAGIC.copy(writer.bytes)
    this.#beginFrame(writer.at)
    writer.text(JSON.stringify(head))
    this.#sealFrame(HEAD_FRAME)
    this.#beginFrame(writer.at)
  }

  /** Bytes that wait to be written, but for some rows. */
  get bytes(): number {
    return this.rows === 0 ? this.#frame : this.#writer.at
  }

  /**
   * Adds a record.
   *
   * @param instead place of the record that this one takes the place of; absent: it has a place of its own
   * @returns its place
   */
  add(row: UsageRow, instead?: number): number {
    const shape = this.#shapeOf(row)
    const mask = maskOf(row) + (instead === undefined ? 0 : AGAIN)
    const form = shape.mask === mask ? shape.form : this.#formOf(shape, mask)
    this.#gathered.add(row, form, instead === undefined ? null : this.#places - instead)
    this.rows += 1
    if (this.#gathered.isFull) this.#encode()
    if (instead !== undefined) return instead
    this.#places += 1
    return this.#places - 1
  }

  /** Everything that waits. It is to be written before anything is added. */
  take(): Buffer {
    const writer = this.#writer
    this.#encode()
    if (this.rows > 0) this.#sealFrame(ROWS_FRAME)
    else writer.at = this.#frame
    const taken = writer.bytes.subarray(0, writer.at)
    this.rows = 0
    this.#beginFrame(0)
    return taken
  }

  #encode(): void {
    this.#endedAtMs = this.#gathered.write(this.#writer, this.#endedAtMs)
  }

  /** Leaves room for the head of a frame; what is there stays until the frame is sealed. */
  #beginFrame(from: number): void {
    this.#frame = from
    this.#writer.at = from
    this.#writer.ensure(FRAME_HEAD_BYTES + 1)
    this.#writer.at += FRAME_HEAD_BYTES + 1
  }

  #sealFrame(kind: number): void {
    const { bytes, at } = this.#writer
    const from = this.#frame
    const start = from + FRAME_HEAD_BYTES
    bytes[start] = kind
    bytes.writeUInt32LE(at - start, from)
    bytes.writeUInt32LE(crc32(bytes.subarray(start, at)), from + 4)
  }

  /** The form of rows with the columns of a mask. */
  #formOf(shape: Shape, mask: number): number {
    let form = shape.forms.get(mask)
    if (form === undefined) {
      const writer = this.#writer
      writer.ensure(ROW_BYTES)
      writer.number(FORM_ITEM)
      writer.number(shape.number)
      writer.number(mask)
      form = FIRST_FORM + this.#formCount
      this.#formCount += 1
      shape.forms.set(mask, form)
    }
    shape.mask = mask
    shape.form = form
    return form
  }

  #shapeOf(row: UsageRow): Shape {
    const last = this.#lastShape
    const first = last?.key_id === row.key_id ? last : (this.#shapes.get(row.key_id) ?? null)
    const shape = first !== null && isShapeOf(first, row) ? first : this.#otherShape(first, row)
    this.#lastShape = shape
    return shape
  }

  /** One behind the first of its key, which it takes the place of, or a new one. */
  #otherShape(first: Shape | null, row: UsageRow): Shape {
    let before = first
    for (let count = 1; before !== null && before.next !== null; count += 1) {
      if (isShapeOf(before.next, row)) break
      if (count === SHAPES_MAX) before.next = null
      else before = before.next
    }
    const found = before?.next ?? null
    const shape = found ?? this.#define(row)
    if (before !== null && found !== null) before.next = found.next
    shape.next = first
    this.#shapes.set(row.key_id, shape)
    return shape
  }

  #define(row: UsageRow): Shape {
    const writer = this.#writer
    writer.ensure(ROW_BYTES)
    writer.number(SHAPE_ITEM)
    const values = shapeValues(row)
    for (const value of Object.values(values)) writeValue(writer, value)
    const shape = { ...values, number: this.#shapeCount, forms: new Map(), mask: 0, form: 0, next: null }
    this.#shapeCount += 1
    return shape
  }
}

/** A value of a shape behind a tag: null, false, true, a number or a text. */
function writeValue(writer: PayloadWriter, value: string | number | boolean | null): void {
  writer.ensure(16)
  if (value === null) writer.number(0)
  else if (typeof value === 'boolean') writer.number(value ? 2 : 1)
  else if (typeof value === 'number') {
    writer.number(3)
    writer.number(value)
  } else {
    writer.number(4)
    writer.text(value)
  }
}

/** In the order of `SHAPE_COLUMNS`. Written out, as what follows, since each call goes through it. */
function shapeValues(row: UsageRow): ShapeValues {
  return {
    node: row.node,
    kind: row.kind,
    workspace: row.workspace,
    app: row.app,
    key_id: row.key_id,
    purpose: row.purpose,
    operation: row.operation,
    endpoint: row.endpoint,
    route: row.route,
    policy_version_id: row.policy_version_id,
    provider: row.provider,
    model: row.model,
    region: row.region,
    attempts: row.attempts,
    attempt_reasons: row.attempt_reasons,
    outcome: row.outcome,
    status: row.status,
    error_code: row.error_code,
    error_param: row.error_param,
    replayed: row.replayed,
    cache: row.cache,
    estimated: row.estimated,
  }
}

function isShapeOf(shape: Shape, row: UsageRow): boolean {
  return (
    shape.key_id === row.key_id &&
    shape.endpoint === row.endpoint &&
    shape.status === row.status &&
    shape.provider === row.provider &&
    shape.model === row.model &&
    shape.attempt_reasons === row.attempt_reasons &&
    shape.policy_version_id === row.policy_version_id &&
    shape.operation === row.operation &&
    shape.outcome === row.outcome &&
    shape.error_code === row.error_code &&
    shape.error_param === row.error_param &&
    shape.purpose === row.purpose &&
    shape.attempts === row.attempts &&
    shape.estimated === row.estimated &&
    shape.replayed === row.replayed &&
    shape.cache === row.cache &&
    shape.kind === row.kind &&
    shape.route === row.route &&
    shape.region === row.region &&
    shape.workspace === row.workspace &&
    shape.app === row.app &&
    shape.node === row.node
  )
}

/** Bits in the order of `ROW_COLUMNS`; a number that is null or absent is not written. */
function maskOf(row: UsageRow): number {
  return (
    (row.record_id === '' ? 0 : 1 << 0) |
    (1 << 1) |
    (row.job_id === null ? 0 : 1 << 2) |
    (row.session_id === null ? 0 : 1 << 3) |
    (row.trace_id === null ? 0 : 1 << 4) |
    (row.end_user === null ? 0 : 1 << 5) |
    (row.audio_seconds === null ? 0 : 1 << 6) |
    (row.billable_audio_seconds === null ? 0 : 1 << 7) |
    (row.video_seconds === null ? 0 : 1 << 8) |
    (row.input_tokens === null ? 0 : 1 << 9) |
    (row.output_tokens === null ? 0 : 1 << 10) |
    (row.characters === null ? 0 : 1 << 11) |
    (row.images === null ? 0 : 1 << 12) |
    (row.credits === null ? 0 : 1 << 13) |
    (row.cost_usd === null ? 0 : 1 << 14) |
    (1 << 15) |
    (1 << 16) |
    (1 << 17) |
    (row.body_ms === null ? 0 : 1 << 18) |
    (row.upstream_ms === null ? 0 : 1 << 19) |
    (row.first_ms === null ? 0 : 1 << 20)
  )
}

/** Rows that wait to be written. */
class GatheredRows {
  /** For each row: how many texts, heads and values it has; then the heads, and the values. */
  readonly #numbers = new Float64Array(GATHERED_ROWS * GATHERED_NUMBERS)
  #end = 0
  readonly #texts: string[] = []
  #textEnd = 0
  /** All texts, one behind the other. */
  #joined = Buffer.alloc(0)
  #rows = 0

  get isFull(): boolean {
    return this.#rows === GATHERED_ROWS
  }

  /** @param back how many rows ago the one came whose place it takes; null: it has its own */
  add(row: UsageRow, form: number, back: number | null): void {
    const numbers = this.#numbers
    const start = this.#end
    let at = start + 3
    numbers[at++] = form
    numbers[at++] = row.ended_at
    numbers[at++] = row.ended_at - row.started_at
    if (back !== null) numbers[at++] = back
    const valuesFrom = at
    at = gatherNumbers(numbers, at, row)
    const textEnd = gatherTexts(this.#texts, this.#textEnd, row)
    numbers[start] = textEnd - this.#textEnd
    numbers[start + 1] = valuesFrom - start
    numbers[start + 2] = at - start
    this.#end = at
    this.#textEnd = textEnd
    this.#rows += 1
  }

  /**
   * Writes all of them, and has none from then on.
   *
   * @param endedAtMs of the row that was written before the first
   * @returns of the last one
   */
  write(writer: PayloadWriter, endedAtMs: number): number {
    const numbers = this.#numbers
    const isJoined = this.#join()
    let beforeMs = endedAtMs
    let text = 0
    let from = 0
    for (let start = 0; start < this.#end; ) {
      const textEnd = text + numbers[start]!
      const valuesFrom = start + numbers[start + 1]!
      const end = start + numbers[start + 2]!
      writer.ensure(ROW_BYTES)
      writer.number(numbers[start + 3]!)
      const ended = numbers[start + 4]!
      writer.signed(ended - beforeMs)
      writer.signed(numbers[start + 5]!)
      for (let at = start + 6; at < valuesFrom; at += 1) writer.number(numbers[at]!)
      for (; text < textEnd; text += 1) {
        const value = this.#texts[text]!
        if (isJoined) writer.textFrom(this.#joined, from, value.length)
        else writer.text(value)
        from += value.length
      }
      writer.ensure(ROW_BYTES)
      for (let at = valuesFrom; at < end; at += 1) writer.number(numbers[at]!)
      beforeMs = ended
      start = end
    }
    this.#end = 0
    this.#textEnd = 0
    this.#rows = 0
    return beforeMs
  }

  /**
   * Writes all texts at once: one by one they take as long as everything else of a row.
   *
   * @returns whether each stands there in as many bytes as it has characters: they are ASCII, as ids are
   */
  #join(): boolean {
    let all = ''
    for (let at = 0; at < this.#textEnd; at += 1) all += this.#texts[at]!
    if (3 * all.length > this.#joined.length) this.#joined = Buffer.allocUnsafeSlow(6 * all.length)
    return this.#joined.write(all) === all.length
  }
}

/** In the order of `ROW_COLUMNS`. @returns behind the last */
function gatherTexts(texts: string[], from: number, row: UsageRow): number {
  let at = from
  if (row.record_id !== '') texts[at++] = row.record_id
  texts[at++] = row.request_id
  if (row.job_id !== null) texts[at++] = row.job_id
  if (row.session_id !== null) texts[at++] = row.session_id
  if (row.trace_id !== null) texts[at++] = row.trace_id
  if (row.end_user !== null) texts[at++] = row.end_user
  return at
}

/** The same of numbers. */
function gatherNumbers(numbers: Float64Array, from: number, row: UsageRow): number {
  let at = from
  if (row.audio_seconds !== null) numbers[at++] = row.audio_seconds
  if (row.billable_audio_seconds !== null) numbers[at++] = row.billable_audio_seconds
  if (row.video_seconds !== null) numbers[at++] = row.video_seconds
  if (row.input_tokens !== null) numbers[at++] = row.input_tokens
  if (row.output_tokens !== null) numbers[at++] = row.output_tokens
  if (row.characters !== null) numbers[at++] = row.characters
  if (row.images !== null) numbers[at++] = row.images
  if (row.credits !== null) numbers[at++] = row.credits
  if (row.cost_usd !== null) numbers[at++] = row.cost_usd
  numbers[at++] = row.received_bytes
  numbers[at++] = row.sent_bytes
  numbers[at++] = row.total_ms
  if (row.body_ms !== null) numbers[at++] = row.body_ms
  if (row.upstream_ms !== null) numbers[at++] = row.upstream_ms
  if (row.first_ms !== null) numbers[at++] = row.first_ms
  return at
}
