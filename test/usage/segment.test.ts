import { crc32 } from 'node:zlib'
import fc from 'fast-check'
import t from 'tap'
import { newId } from '../../src/contracts/ids.ts'
import { USAGE_COLUMNS, type UsageColumn, type UsageRecord } from '../../src/contracts/usage-record.ts'
import { SegmentEncoder, type UsageRow } from '../../src/usage/encoder.ts'
import { emptyRow } from '../../src/usage/record-row.ts'
import { Frames, placeId, ROW_COLUMNS, SHAPE_COLUMNS } from '../../src/usage/segment.ts'
import { readSegment } from '../../src/usage/segment-rows.ts'
import { recordsOf, rollSegment } from '../support/usage-lake.ts'
import { segmentRecords } from '../support/usage-records.ts'

const OPENED_MS = 1_780_000_000_000
const words = fc.oneof(fc.constantFrom('a', 'b', 'c'), fc.string({ unit: 'binary', maxLength: 80 }))
const wholes = fc.oneof(
  fc.nat(300),
  fc.maxSafeNat(),
  fc.constantFrom(0, 127, 128, 16_383, 16_384, 2 ** 31 - 1, 2 ** 31, 2 ** 32, Number.MAX_SAFE_INTEGER),
)

function valuesOf({ kind, isNullable }: UsageColumn): fc.Arbitrary<unknown> {
  const values = {
    id: fc.string({ unit: 'binary', minLength: 1, maxLength: 150 }),
    word: words,
    flag: fc.boolean(),
    time: fc.oneof(fc.integer({ min: OPENED_MS - 100, max: OPENED_MS + 100_000 }), fc.nat()),
    seconds: wholes,
    money: wholes,
    milliseconds: wholes,
    count: wholes,
  }[kind]
  return isNullable ? fc.option(values as fc.Arbitrary<unknown>, { freq: 2 }) : values
}

const records = fc.record(
  Object.fromEntries(USAGE_COLUMNS.map((column) => [column.name, valuesOf(column)])),
) as unknown as fc.Arbitrary<UsageRecord>

/** Records as they are written: some without an id of their own, some in the place of an earlier one. */
const steps = fc.array(
  fc.record({
    record: records,
    isNamed: fc.boolean(),
    again: fc.option(fc.nat(1_000), { freq: 4 }),
    isWritten: fc.boolean(),
  }),
  { maxLength: 40 },
)

type Step = typeof steps extends fc.Arbitrary<infer Steps extends readonly unknown[]> ? Steps[number] : never

/** Writes the records. @returns the file, and what is to be read of it */
function written(all: readonly Step[]): { file: Buffer; frames: number[]; expected: UsageRecord[] } {
  const id = newId('seg')
  const encoder = new SegmentEncoder({ id, openedAtMs: OPENED_MS })
  const parts: Buffer[] = []
  const expected: UsageRecord[] = []
  const frames: number[] = []
  for (const { record, isNamed, again, isWritten } of all) {
    const instead = again === null || expected.length === 0 ? undefined : again % expected.length
    const place = encoder.add({ ...record, record_id: isNamed ? record.record_id : '' } as UsageRow, instead)
    expected[place] = { ...record, record_id: isNamed ? record.record_id : placeId(id, place) }
    if (isWritten) parts.push(Buffer.from(encoder.take()))
    frames.push(parts.length)
  }
  parts.push(Buffer.from(encoder.take()))
  return { file: Buffer.concat(parts), frames, expected }
}

t.test('each column is kept once', async (t) => {
  const kept = [...SHAPE_COLUMNS, ...ROW_COLUMNS, 'started_at', 'ended_at'].sort()
  t.same(kept, USAGE_COLUMNS.map(({ name }) => name).sort())
})

t.test('what is written is read', async () => {
  fc.assert(
    fc.property(steps, (all) => {
      const { file, expected } = written(all)
      const segment = readSegment(file)
      t.equal(segment.tornBytes, 0)
      t.same(segmentRecords(segment), expected)
    }),
    { numRuns: 100 },
  )
})

/** So that sums are exact, and some records are of one hour. */
function summable(record: UsageRecord): UsageRecord {
  const bounded = Object.entries(record).map(([name, value]) => [
    name,
    typeof value === 'number' ? value % (name.endsWith('_at') ? 1e8 : 1e9) : value,
  ])
  const some = Object.fromEntries(bounded) as UsageRecord
  return { ...some, outcome: ['ok', 'error', 'left'][some.attempts % 3]! }
}

t.test('a segment comes to the sums and the files of its records', async (t) => {
  await fc.assert(
    fc.asyncProperty(steps, fc.boolean(), async (all, isOfOneDay) => {
      const given = all.map((step) => {
        const record = summable(step.record)
        const ended_at = isOfOneDay ? 1e8 + (record.ended_at % 1e6) : record.ended_at
        return { ...step, record: { ...record, ended_at, started_at: Math.min(record.started_at, ended_at) } }
      })
      const { file, expected } = written(given)
      const files = await rollSegment(file)
      t.same(
        files.map(({ date }) => date),
        [...new Set(expected.map(dayOf))],
      )
      for (const { date, rows, file: bytes } of files) {
        const records = expected.filter((record) => dayOf(record) === date)
        t.equal(rows, records.length)
        t.same(await recordsOf(bytes), records)
      }
    }),
    { numRuns: 60 },
  )
})

const dayOf = ({ ended_at }: UsageRecord) => new Date(ended_at).toISOString().slice(0, 10)

t.test('of a torn file all is read up to the last whole frame, wherever it was torn', async (t) => {
  const sample = fc.sample(records, { numRuns: 12, seed: 7 })
  const all = sample.map((record, at) => ({ record, isNamed: true, again: null, isWritten: at % 3 === 2 }))
  const { file, expected } = written(all)
  const frames = new Frames(file)
  const ends: number[] = []
  while (frames.next() !== null) ends.push(frames.end)
  t.equal(ends.at(-1), file.length)
  // The first frame is the head; each of the others has three records.
  t.equal(ends.length, 1 + 4)
  for (let length = 0; length < file.length; length += 1) {
    const segment = readSegment(file.subarray(0, length))
    const whole = ends.filter((end) => end <= length)
    const read = segmentRecords(segment)
    if (read.length !== Math.max(0, whole.length - 1) * 3) t.fail(`${read.length} records of ${length} bytes`)
    if (segment.tornBytes !== length - (whole.at(-1) ?? 0)) t.fail(`torn bytes of ${length}`)
    if (read.length > 0) t.same(read.at(-1), expected[read.length - 1])
  }
})

t.test('bytes that are changed, and bytes that are none of ours, never throw', async (t) => {
  fc.assert(
    fc.property(steps, fc.array(fc.tuple(fc.nat(), fc.nat(255)), { maxLength: 8 }), (all, changes) => {
      const { file, expected } = written(all)
      for (const [at, value] of changes) file[at % file.length] = value
      t.ok(segmentRecords(readSegment(file)).length <= expected.length)
    }),
    { numRuns: 60 },
  )
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 2_000 }), (bytes) => {
      const segment = readSegment(bytes)
      t.same([segmentRecords(segment), segment.id, segment.tornBytes], [[], null, bytes.length])
    }),
  )
})

t.test('frames with a right checksum and anything in them never throw', async (t) => {
  const payload = fc.uint8Array({ minLength: 1, maxLength: 300 })
  fc.assert(
    fc.property(fc.array(payload, { maxLength: 5 }), fc.boolean(), (payloads, isRows) => {
      const head = Buffer.from(new SegmentEncoder({ id: newId('seg'), openedAtMs: OPENED_MS }).take())
      const framed = payloads.map((bytes) =>
        frameOf(isRows ? Buffer.from([1, 0, ...bytes]) : Buffer.from(bytes)),
      )
      const segment = readSegment(Buffer.concat([head, ...framed]))
      for (const record of segmentRecords(segment)) t.type(record.request_id, 'string')
      t.ok(segment.tornBytes >= 0)
    }),
    { numRuns: 150 },
  )
})

function frameOf(payload: Buffer): Buffer {
  const head = Buffer.alloc(8)
  head.writeUInt32LE(payload.length)
  head.writeUInt32LE(crc32(payload), 4)
  return Buffer.concat([head, payload])
}

t.test('of a key that has many shapes each is found again, or written again', async (t) => {
  const [record] = fc.sample(records, { numRuns: 1, seed: 5 })
  const encoder = new SegmentEncoder({ id: newId('seg'), openedAtMs: OPENED_MS })
  const expected: UsageRecord[] = []
  for (const shapes of [3, 50, 3, 1]) {
    for (let count = 0; count < 200; count += 1)
      expected.push({ ...record!, model: `m${count % shapes}`, key_id: count % 3 === 0 ? 'other' : 'key' })
  }
  for (const one of expected) encoder.add({ ...one })
  const segment = readSegment(Buffer.from(encoder.take()))
  t.same(segmentRecords(segment), expected)
  // More than are looked through are written again each time, 200 of them; of the others each once or twice.
  const { size } = new Set(segment.rows.map(({ form }) => form.shape))
  t.ok(size > 100 && size < 220, `${size} shapes`)
})

t.test('ids that are made of places are read as they were', async (t) => {
  const [record] = fc.sample(records, { numRuns: 1, seed: 3 })
  const id = newId('seg')
  const encoder = new SegmentEncoder({ id, openedAtMs: OPENED_MS })
  const count = 1_234
  // Every third is of the day before: places have gaps then.
  for (let place = 0; place < count; place += 1)
    encoder.add({
      ...record!,
      record_id: '',
      ended_at: OPENED_MS - (place % 3 === 0 ? 86_400_000 : 0),
    } as UsageRow)
  for (const { file: bytes, date } of await rollSegment(Buffer.from(encoder.take()))) {
    const places = Array.from({ length: count }, (_, place) => place)
    const isFirst = date === new Date(OPENED_MS - 86_400_000).toISOString().slice(0, 10)
    const ids = places.filter((place) => (place % 3 === 0) === isFirst).map((place) => placeId(id, place))
    t.same(
      (await recordsOf(bytes)).map((one) => one.record_id),
      ids,
    )
  }
})

t.test('callers that come again take few bytes', async (t) => {
  const [record] = fc.sample(records, { numRuns: 1, seed: 3 })
  const encoder = new SegmentEncoder({ id: newId('seg'), openedAtMs: OPENED_MS })
  const row = { ...record, record_id: '', request_id: newId('req') } as UsageRow
  for (const column of ['job_id', 'session_id', 'trace_id', 'end_user', 'video_seconds', 'images'] as const)
    Object.assign(row, { [column]: null })
  Object.assign(row, { started_at: OPENED_MS, ended_at: OPENED_MS + 300, total_ms: 300, cost_usd: 1_250 })
  encoder.add(row)
  const first = encoder.take().length
  for (let count = 0; count < 100; count += 1) encoder.add(row)
  const more = encoder.take().length
  t.ok(first > more / 100, `${first} bytes, then ${more / 100}`)
  t.ok(more / 100 < 140, `${more / 100} bytes`)
})

t.test('a number that nobody could read is refused', async (t) => {
  for (const cost of [2 ** 53, 1e300, Number.POSITIVE_INFINITY]) {
    const encoder = new SegmentEncoder({ id: newId('seg'), openedAtMs: OPENED_MS })
    encoder.add({ ...emptyRow('node'), cost_usd: cost })
    t.throws(() => encoder.take(), RangeError, `${cost}`)
  }
})
