import { promisify } from 'node:util'
import { constants, crc32, zstdCompress, zstdDecompress, zstdDecompressSync } from 'node:zlib'
import {
  type AggregateStep,
  type AggregateTable,
  CALL_DIMENSIONS,
  END_USER_DIMENSIONS,
  HOURS_PER_DAY,
  type LatencyColumn,
  type Numbers,
  narrowed,
  summedTable,
  USAGE_LATENCIES,
  USAGE_MEASURES,
  type UsageAggregate,
  type UsageDimension,
} from './aggregate.ts'
import { BUCKETS } from './histogram.ts'
import { PackedTexts, type TextList } from './texts.ts'

/**
 * The file of an aggregate: a head, and sections of which each is a table, the small ones first. A question is answered
 * from the smallest that has what it names, so that one of a month by model need not read 5,000 keys of each hour. A
 * section is a JSON text, which says what the columns are, and these after another, compressed with Zstandard. The
 * values of a dimension are two of them: how many bytes each has, and all of them in UTF-8. All numbers are
 * little-endian; a column begins at a multiple of 8, so that it need not be copied.
 *
 *     0  "LKUA"     8  CRC-32 of the head from 12 on        16  for each of `SECTION_NAMES`, all 0 where it has none:
 *     4  version   12  the hour behind the last of calls,       bytes, bytes uncompressed, CRC-32 of the latter
 *                      since the epoch
 *
 * A file of version 3 does not count records without an end user in `endUsers`, so that this is made anew of the
 * records where it is asked for. One of version 2 has the values of dimensions in the JSON text, besides, and its
 * columns begin anywhere; one of version 1 has a head of 56 bytes, besides: the first two numbers, and for each of
 * `FIRST_SECTIONS` the same and a 0.
 *
 * What a later version adds, a column or a dimension, is named by the JSON text: an unknown one is left out, and one
 * that is missing is zero or null. The version changes when that is not enough.
 */
const MAGIC = 0x41554b4c
const VERSION = 4
/** Those that have the same head. */
const VERSIONS: readonly number[] = [2, 3, VERSION]

/**
 * `calls` and `endUsers` are the aggregate. The others are sums of calls: by day, and by the dimensions of
 * `SECTION_DIMENSIONS` alone. They are there where they have far fewer rows.
 */
export const SECTION_NAMES = [
  'daysByOutcome',
  'daysByModel',
  'daysByRoute',
  'outcomes',
  'daysByKey',
  'days',
  'calls',
  'endUsers',
] as const
export type SectionName = (typeof SECTION_NAMES)[number]
const FIRST_SECTIONS = ['calls', 'endUsers', 'days'] as const

const OUTCOME_DIMENSIONS = ['workspace', 'kind', 'outcome', 'status', 'error_code'] as const
/** Of calls, the dimensions that each section has. */
export const SECTION_DIMENSIONS: Readonly<
  Record<Exclude<SectionName, 'endUsers'>, readonly UsageDimension[]>
> = {
  daysByOutcome: OUTCOME_DIMENSIONS,
  daysByModel: ['workspace', 'kind', 'provider', 'model', 'region'],
  daysByRoute: CALL_DIMENSIONS.filter((name) => name !== 'app' && name !== 'key_id'),
  outcomes: OUTCOME_DIMENSIONS,
  daysByKey: ['workspace', 'app', 'key_id'],
  days: CALL_DIMENSIONS,
  calls: CALL_DIMENSIONS,
}

const FIRST_HEAD = { bytes: 56, from: 8, sectionBytes: 16, names: FIRST_SECTIONS } as const
const HEAD = { bytes: 112, from: 16, sectionBytes: 12, names: SECTION_NAMES } as const
export const AGGREGATE_HEAD_BYTES = HEAD.bytes
const HEAD_CRC_AT = 8
const END_HOUR_AT = 12

/** Rows for each of their sums from which on these are kept, too. */
const SUMS_WORTH = 2
/** Rows of calls from which on sums by few dimensions are worth it: fewer are read in a millisecond. */
const FEW_SUMS_FROM = 1_000
/** Over what any installation has, and no more than a reader can afford. */
const RAW_BYTES_MAX = 256 * 1024 * 1024
const LEVEL = 3
/** What is decompressed at a time: each piece costs a turn of the loop, and most sections are one. */
const CHUNK_BYTES_MIN = 1024
const CHUNK_BYTES_MAX = 4 * 1024 * 1024
/** Up to here it is done at once, in less than a millisecond: a thread for it costs as much, and there are many. */
const AT_ONCE_BYTES = 512 * 1024
const compress = promisify(zstdCompress)
const decompress = promisify(zstdDecompress)
/** Hours since the epoch of the year 10000: a time that dates cannot say. */
const HOURS_MAX = 70_389_528

/** An aggregate that is not one, or of a version that this program does not know. */
export class AggregateFormatError extends Error {}

/** Where a file has its sections, and what they were made of. */
export interface AggregateHead {
  /** The hour behind the last of its calls, since the epoch; null: an old file does not say. */
  readonly endHour: number | null
  /** Whether columns begin at multiples of 8. */
  readonly isAligned: boolean
  /** Whether `endUsers` has the records without one. */
  readonly hasUnnamed: boolean
  /** Of no bytes where it has none. */
  readonly sections: Readonly<Record<SectionName, SectionPlace>>
}

interface SectionPlace {
  /** Bytes `start` to `end` of the file. */
  readonly start: number
  readonly end: number
  readonly rawBytes: number
  readonly crc: number
}

const NOWHERE: SectionPlace = { start: 0, end: 0, rawBytes: 0, crc: 0 }

export interface EncodeOptions {
  /** Whether there are sums by few dimensions, too; what is merged before long needs none. */
  readonly withFewSums?: boolean
}

/** The file of an aggregate; the same aggregate makes the same bytes. */
export async function encodeAggregate(
  aggregate: UsageAggregate,
  { withFewSums = false }: EncodeOptions = {},
): Promise<Buffer> {
  const head = Buffer.alloc(HEAD.bytes)
  head.writeUInt32LE(MAGIC, 0)
  head.writeUInt32LE(VERSION, 4)
  const rowHours = aggregate.step === 'day' ? HOURS_PER_DAY : 1
  head.writeUInt32LE(greatestOf(aggregate.calls.hours) + rowHours, END_HOUR_AT)
  const sections: Buffer[] = []
  const tables = sectionsOf(aggregate, withFewSums)
  for (const [index, name] of SECTION_NAMES.entries()) {
    const table = tables[name]
    if (table === undefined) continue
    const raw = encodeTable(table, name === 'calls' || name === 'outcomes' ? aggregate.step : 'day')
    if (raw.length > RAW_BYTES_MAX) throw new RangeError('an aggregate is too large to be read again')
    const section = await compress(raw, { params: { [constants.ZSTD_c_compressionLevel]: LEVEL } })
    const at = HEAD.from + index * HEAD.sectionBytes
    head.writeUInt32LE(section.length, at)
    head.writeUInt32LE(raw.length, at + 4)
    head.writeUInt32LE(crc32(raw), at + 8)
    sections.push(section)
  }
  head.writeUInt32LE(crc32(head.subarray(END_HOUR_AT)), HEAD_CRC_AT)
  return Buffer.concat([head, ...sections])
}

/** The tables of an aggregate, with sums that are worth it. */
function sectionsOf(
  { step, calls, endUsers }: UsageAggregate,
  withFewSums: boolean,
): { readonly [Name in SectionName]?: AggregateTable } {
  const days = summedTable(calls, CALL_DIMENSIONS, 'day')
  const whole = { calls, endUsers, ...ifWorth({ days }, calls) }
  if (!withFewSums || calls.rows < FEW_SUMS_FROM) return whole
  const sums = (name: keyof typeof SECTION_DIMENSIONS, table: AggregateTable, by: AggregateStep) =>
    summedTable(table, SECTION_DIMENSIONS[name], by)
  const outcomes = sums('outcomes', calls, step)
  const daysByRoute = sums('daysByRoute', days, 'day')
  return {
    ...whole,
    ...ifWorth({ outcomes }, calls),
    ...ifWorth({ daysByOutcome: sums('daysByOutcome', outcomes, 'day') }, outcomes),
    ...ifWorth({ daysByRoute }, days),
    ...ifWorth({ daysByModel: sums('daysByModel', daysByRoute, 'day') }, daysByRoute),
    ...ifWorth({ daysByKey: sums('daysByKey', days, 'day') }, days),
  }
}

/** Some sums, without those that have hardly fewer rows than what they are of. */
function ifWorth<const Name extends SectionName>(
  sums: Readonly<Record<Name, AggregateTable>>,
  of: AggregateTable,
): { readonly [Known in Name]?: AggregateTable } {
  const worth = Object.entries<AggregateTable>(sums).filter(([, { rows }]) => rows * SUMS_WORTH < of.rows)
  return Object.fromEntries(worth) as { readonly [Known in Name]?: AggregateTable }
}

/**
 * @param file at least the first 112 bytes of a file
 * @throws AggregateFormatError
 */
export function decodeHead(file: Uint8Array): AggregateHead {
  const head = Buffer.from(file.buffer, file.byteOffset, Math.min(file.length, HEAD.bytes))
  if (head.length < FIRST_HEAD.bytes || head.readUInt32LE(0) !== MAGIC)
    throw new AggregateFormatError('this is no aggregate of usage')
  const version = head.readUInt32LE(4)
  if (version === 1)
    return { endHour: null, isAligned: false, hasUnnamed: false, sections: placesIn(head, FIRST_HEAD) }
  if (!VERSIONS.includes(version))
    throw new AggregateFormatError(`version ${version} of an aggregate is not known`)
  if (head.length < HEAD.bytes || head.readUInt32LE(HEAD_CRC_AT) !== crc32(head.subarray(END_HOUR_AT)))
    throw new AggregateFormatError('a head is damaged')
  const endHour = head.readUInt32LE(END_HOUR_AT)
  const hasUnnamed = version === VERSION
  return { endHour, isAligned: version !== 2, hasUnnamed, sections: placesIn(head, HEAD) }
}

function placesIn(head: Buffer, { bytes, from, sectionBytes, names }: typeof HEAD | typeof FIRST_HEAD) {
  let start: number = bytes
  const places = names.map((name, index) => {
    const at = from + index * sectionBytes
    const end = start + head.readUInt32LE(at)
    const place = { start, end, rawBytes: head.readUInt32LE(at + 4), crc: head.readUInt32LE(at + 8) }
    if (place.rawBytes > RAW_BYTES_MAX) throw new AggregateFormatError('a section is too large')
    start = end
    return [name, place] as const
  })
  const none = SECTION_NAMES.map((name) => [name, NOWHERE] as const)
  return Object.fromEntries([...none, ...places]) as Record<SectionName, SectionPlace>
}

/** Whether a file has a section. */
export function hasSection({ sections }: AggregateHead, name: SectionName): boolean {
  return sections[name].start < sections[name].end
}

/** @throws AggregateFormatError */
export async function decodeAggregate(file: Uint8Array): Promise<UsageAggregate> {
  const head = decodeHead(file)
  const [calls, endUsers] = await Promise.all(
    (['calls', 'endUsers'] as const).map((name) =>
      decodeSection(file.subarray(head.sections[name].start, head.sections[name].end), head, name),
    ),
  )
  return { step: calls!.step, calls: calls!.table, endUsers: endUsers!.table }
}

/**
 * One of the tables, of which nothing but its own bytes is needed.
 *
 * @throws AggregateFormatError
 */
export async function decodeSection(
  section: Uint8Array,
  head: AggregateHead,
  name: SectionName,
): Promise<{ readonly step: AggregateStep; readonly table: AggregateTable }> {
  const { start, end, rawBytes, crc } = head.sections[name]
  if (name === 'endUsers' && !head.hasUnnamed)
    throw new AggregateFormatError('records without an end user are not counted')
  if (section.length !== end - start) throw new AggregateFormatError('a section is cut short')
  let raw: Buffer
  try {
    const chunkSize = Math.min(CHUNK_BYTES_MAX, Math.max(CHUNK_BYTES_MIN, rawBytes))
    const options = { maxOutputLength: Math.max(1, rawBytes), chunkSize }
    raw =
      rawBytes <= AT_ONCE_BYTES ? zstdDecompressSync(section, options) : await decompress(section, options)
  } catch (cause) {
    throw new AggregateFormatError('a section cannot be decompressed', { cause })
  }
  if (raw.length !== rawBytes || crc32(raw) !== crc) throw new AggregateFormatError('a section is damaged')
  return decodeTable(raw, head, name === 'endUsers' ? END_USER_DIMENSIONS : CALL_DIMENSIONS)
}

/** A column: how many numbers, of how many bytes each (8: floating point). */
type Width = 1 | 2 | 4 | 8

function encodeTable(table: AggregateTable, step: AggregateStep): Buffer {
  const columns: Numbers[] = []
  const added = (numbers: Numbers): Width => {
    columns.push(numbers)
    return numbers.BYTES_PER_ELEMENT as Width
  }
  const about = {
    step,
    rows: table.rows,
    hours: added(table.hours),
    dimensions: Object.entries(table.dimensions).map(([name, { values, indices }]) => {
      const { lengths, bytes } = PackedTexts.of(values)
      return {
        name,
        width: added(indices),
        texts: lengths.length,
        widths: [added(narrowed(Uint32Array.from(lengths))), added(bytes)],
        bytes: bytes.length,
      }
    }),
    measures: Object.entries(table.measures).map(([name, numbers]) => ({ name, width: added(numbers) })),
    latencies: Object.entries(table.latencies).map(([name, { ends, buckets, counts }]) => ({
      name,
      counts: counts.length,
      widths: [added(ends), added(buckets), added(counts)],
    })),
  }
  const text = Buffer.from(JSON.stringify(about))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  const parts: Uint8Array[] = [length, text]
  let end = length.length + text.length
  for (const column of columns.map(bytesOf)) {
    const gap = gapAt(end)
    parts.push(NOTHING.subarray(0, gap), column)
    end += gap + column.length
  }
  return Buffer.concat(parts)
}

/** Columns begin at multiples of so many bytes, and nothing is before them up to there. */
const ALIGNMENT = 8
const NOTHING = new Uint8Array(ALIGNMENT)

function gapAt(end: number): number {
  return (ALIGNMENT - (end % ALIGNMENT)) % ALIGNMENT
}

function bytesOf(numbers: Numbers): Uint8Array {
  return new Uint8Array(numbers.buffer, numbers.byteOffset, numbers.byteLength)
}

function decodeTable(
  raw: Buffer,
  { isAligned }: AggregateHead,
  known: readonly UsageDimension[],
): { readonly step: AggregateStep; readonly table: AggregateTable } {
  const textEnd = 4 + (raw.length < 4 ? 0 : raw.readUInt32LE(0))
  if (raw.length < 4 || textEnd > raw.length) throw new AggregateFormatError('a section is cut short')
  const about = objectOf(parsed(raw.toString('utf8', 4, textEnd)))
  const { step } = about
  if (step !== 'hour' && step !== 'day') throw new AggregateFormatError('its step is not known')
  const rows = countOf(about.rows)
  const columns = new ColumnReader(raw, textEnd, isAligned)
  const hours = columns.next(rows, about.hours)
  if (greatestOf(hours) >= HOURS_MAX) throw new AggregateFormatError('a row has no time')
  const dimensions = listOf(about.dimensions).map((given) => {
    const { name, values, width, ...packed } = objectOf(given)
    const indices = columns.next(rows, width)
    const texts = values === undefined ? columns.texts(packed) : textsOf(values)
    if (greatestOf(indices) > texts.length) throw new AggregateFormatError('a dimension has no such value')
    return [name, { values: texts, indices }] as const
  })
  const measures = listOf(about.measures).map((given) => {
    const { name, width } = objectOf(given)
    return [name, columns.next(rows, width)] as const
  })
  const latencies = listOf(about.latencies).map((given) => {
    const { name, counts, widths } = objectOf(given)
    return [name, columns.latency(rows, countOf(counts), listOf(widths))] as const
  })
  columns.end()
  return {
    step,
    table: {
      rows,
      hours,
      dimensions: ofNames(dimensions, known),
      measures: ofNames(measures, USAGE_MEASURES),
      latencies: ofNames(latencies, USAGE_LATENCIES),
    },
  }
}

/** Reads columns one after another, where they stand if they can be read there. */
class ColumnReader {
  readonly #raw: Buffer
  readonly #isAligned: boolean
  #at: number

  constructor(raw: Buffer, at: number, isAligned: boolean) {
    this.#raw = raw
    this.#at = at
    this.#isAligned = isAligned
  }

  /** Whole numbers from 0 on, below 2^53. */
  next(length: number, width: unknown): Numbers {
    if (width !== 1 && width !== 2 && width !== 4 && width !== 8)
      throw new AggregateFormatError('a column has no such width')
    const from = this.#at + (this.#isAligned ? gapAt(this.#at) : 0)
    const end = from + length * width
    if (end > this.#raw.length) throw new AggregateFormatError('a section is cut short')
    this.#at = end
    const isInPlace = (this.#raw.byteOffset + from) % width === 0
    const bytes = this.#raw.subarray(from, end)
    const { buffer, byteOffset } = isInPlace ? bytes : Uint8Array.from(bytes)
    if (width === 1) return new Uint8Array(buffer, byteOffset, length)
    if (width === 2) return new Uint16Array(buffer, byteOffset, length)
    if (width === 4) return new Uint32Array(buffer, byteOffset, length)
    const numbers = new Float64Array(buffer, byteOffset, length)
    // Sums of what somebody made up may be beyond the safe integers: they are not exact then, but all others are.
    for (let at = 0; at < length; at += 1)
      if (!Number.isInteger(numbers[at]) || numbers[at]! < 0)
        throw new AggregateFormatError('a sum is no whole number')
    return numbers
  }

  texts({ texts, widths, bytes }: Readonly<Record<string, unknown>>): TextList {
    const [lengthWidth, byteWidth] = listOf(widths)
    const lengths = this.next(countOf(texts), lengthWidth)
    const packed = this.next(countOf(bytes), byteWidth)
    if (!(packed instanceof Uint8Array) || sumOf(lengths) !== packed.length)
      throw new AggregateFormatError('the values of a dimension are cut short')
    return new PackedTexts(packed, lengths)
  }

  latency(rows: number, length: number, [ends, bucket, count]: readonly unknown[]): LatencyColumn {
    const column = {
      ends: this.next(rows, ends),
      buckets: this.next(length, bucket),
      counts: this.next(length, count),
    }
    const { buckets, counts } = column
    const rises = isRising(column.ends)
    const isWhole = (rows === 0 ? 0 : column.ends[rows - 1]) === length
    if (!rises || !isWhole || !(buckets instanceof Uint8Array) || greatestOf(buckets) >= BUCKETS)
      throw new AggregateFormatError('a latency is not well formed')
    return { ends: column.ends, buckets, counts }
  }

  end(): void {
    if (this.#at !== this.#raw.length) throw new AggregateFormatError('a section has too many bytes')
  }
}

// Loops over millions of numbers: `every` calls a function for each.

/** 0 of none. */
function greatestOf(numbers: Numbers): number {
  let greatest = 0
  for (let at = 0; at < numbers.length; at += 1) if (numbers[at]! > greatest) greatest = numbers[at]!
  return greatest
}

function sumOf(numbers: Numbers): number {
  let sum = 0
  for (let at = 0; at < numbers.length; at += 1) sum += numbers[at]!
  return sum
}

function isRising(numbers: Numbers): boolean {
  for (let at = 1; at < numbers.length; at += 1) if (numbers[at]! < numbers[at - 1]!) return false
  return true
}

/** The entries whose names this program knows. */
function ofNames<const Name extends string, Value>(
  entries: readonly (readonly [unknown, Value])[],
  names: readonly Name[],
): { readonly [Known in Name]?: Value } {
  const known = entries.filter(([name]) => names.some((other) => other === name))
  return Object.fromEntries(known) as { [Known in Name]?: Value }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (cause) {
    throw new AggregateFormatError('a section has no description', { cause })
  }
}

function objectOf(value: unknown): Readonly<Record<string, unknown>> {
  if (typeof value === 'object' && value !== null) return value as Readonly<Record<string, unknown>>
  throw new AggregateFormatError('a section is not described')
}

function listOf(value: unknown): readonly unknown[] {
  if (Array.isArray(value)) return value
  throw new AggregateFormatError('a section is not described')
}

/** Values of a dimension as version 2 has them. */
function textsOf(value: unknown): readonly string[] {
  const texts = listOf(value)
  if (texts.every((text) => typeof text === 'string')) return texts
  throw new AggregateFormatError('a dimension has no such value')
}

function countOf(value: unknown): number {
  if (typeof value === 'number' && Number.isInteger(value) && value >= 0 && value < 2 ** 32) return value
  throw new AggregateFormatError('a section has no such length')
}
