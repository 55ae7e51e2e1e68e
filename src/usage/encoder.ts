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
  /** By key, the one that was used last. */
  readonly #shapes = new Map<string, Shape>()
  #shapeCount = 0
  #formCount = 0
  #endedAtMs: number
  /** Rows that took no other's place. */
  #places = 0
  #rows = 0
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

  /** Rows that wait to be written. */
  get rows(): number {
    return this.#rows
  }

  /** Bytes that wait to be written. */
  get bytes(): number {
    return this.#rows === 0 ? this.#frame : this.#writer.at
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
    const writer = this.#writer
    writer.ensure(ROW_BYTES)
    writer.number(shape.mask === mask ? shape.form : this.#formOf(shape, mask))
    writer.signed(row.ended_at - this.#endedAtMs)
    writer.signed(row.ended_at - row.started_at)
    this.#endedAtMs = row.ended_at
    if (instead !== undefined) writer.number(this.#places - instead)
    writeTexts(writer, row)
    writer.ensure(ROW_BYTES)
    writeNumbers(writer, row)
    this.#rows += 1
    if (instead !== undefined) return instead
    this.#places += 1
    return this.#places - 1
  }

  /** Everything that waits. It is to be written before anything is added. */
  take(): Buffer {
    const writer = this.#writer
    if (this.#rows > 0) this.#sealFrame(ROWS_FRAME)
    else writer.at = this.#frame
    const taken = writer.bytes.subarray(0, writer.at)
    this.#rows = 0
    this.#beginFrame(0)
    return taken
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
    const first = this.#shapes.get(row.key_id) ?? null
    return first !== null && isShapeOf(first, row) ? first : this.#otherShape(first, row)
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

function writeTexts(writer: PayloadWriter, row: UsageRow): void {
  if (row.record_id !== '') writer.text(row.record_id)
  writer.text(row.request_id)
  if (row.job_id !== null) writer.text(row.job_id)
  if (row.session_id !== null) writer.text(row.session_id)
  if (row.trace_id !== null) writer.text(row.trace_id)
  if (row.end_user !== null) writer.text(row.end_user)
}

function writeNumbers(writer: PayloadWriter, row: UsageRow): void {
  if (row.audio_seconds !== null) writer.number(row.audio_seconds)
  if (row.billable_audio_seconds !== null) writer.number(row.billable_audio_seconds)
  if (row.video_seconds !== null) writer.number(row.video_seconds)
  if (row.input_tokens !== null) writer.number(row.input_tokens)
  if (row.output_tokens !== null) writer.number(row.output_tokens)
  if (row.characters !== null) writer.number(row.characters)
  if (row.images !== null) writer.number(row.images)
  if (row.credits !== null) writer.number(row.credits)
  if (row.cost_usd !== null) writer.number(row.cost_usd)
  writer.number(row.received_bytes)
  writer.number(row.sent_bytes)
  writer.number(row.total_ms)
  if (row.body_ms !== null) writer.number(row.body_ms)
  if (row.upstream_ms !== null) writer.number(row.upstream_ms)
  if (row.first_ms !== null) writer.number(row.first_ms)
}
