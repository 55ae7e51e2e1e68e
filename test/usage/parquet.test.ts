import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import fc from 'fast-check'
import { sbbfInsert } from 'hyparquet/src/bloom.js'
import { xxhash64 } from 'hyparquet/src/xxhash.js'
import t, { type Test } from 'tap'
import { USAGE_COLUMNS, type UsageColumn, type UsageRecord } from '../../src/contracts/usage-record.ts'
import { BloomFilter } from '../../src/usage/bloom.ts'
import { LogFile } from '../../src/usage/log-file.ts'
import { readRows, UsageFile, UsageFileWriter } from '../../src/usage/parquet.ts'
import { UsageRows } from '../../src/usage/rows.ts'
import { merge } from '../../src/usage/tasks.ts'
import { pickFromColumn, unpackColumn, unpackedAt } from '../../src/usage/unpacking.ts'
import { Dice } from '../support/dice.ts'
import { tempFolder } from '../support/scratch.ts'
import { fileOf, fillRows, randomRecord, recordsOf, totalsOf } from '../support/usage-lake.ts'

const DAY_MS = 86_400_000
const FROM_MS = Date.parse('2026-11-22')

/** Values at the edges of what a column can have, more often than others. */
function anyValueOf({ kind, isNullable }: UsageColumn): fc.Arbitrary<unknown> {
  const whole = fc.oneof(fc.nat(), fc.constantFrom(0, 2 ** 32, 2 ** 44, 2 ** 50, Number.MAX_SAFE_INTEGER))
  const text = fc.oneof(fc.constantFrom('', 'a', 'ok'), fc.string({ unit: 'grapheme' }))
  const decimal = fc.oneof(fc.nat(), fc.constantFrom(0, 1, 2 ** 44 + 1, 2 ** 50 - 1))
  const kinds: Readonly<Record<UsageColumn['kind'], fc.Arbitrary<unknown>>> = {
    id: text,
    word: text,
    flag: fc.boolean(),
    time: fc.nat(8.64e15),
    money: decimal,
    seconds: decimal,
    count: whole,
    milliseconds: whole,
  }
  const value = kinds[kind]
  return isNullable ? fc.option(value, { freq: 2 }) : value
}

const anyRecord = fc.record(
  Object.fromEntries(USAGE_COLUMNS.map((column) => [column.name, anyValueOf(column)])),
) as unknown as fc.Arbitrary<UsageRecord>

t.test('records come out as they went in, whatever their values', async (t: Test) => {
  const groups = fc.array(fc.array(anyRecord, { minLength: 1, maxLength: 40 }), { maxLength: 3 })
  await fc.assert(
    fc.asyncProperty(groups, async (groups) => {
      t.same(await recordsOf(fileOf(groups)), groups.flat())
    }),
    { numRuns: 60 },
  )
  const [record] = fc.sample(anyRecord, { numRuns: 1, seed: 1 })
  const many = Array.from({ length: 3_000 }, (_, at) => ({
    ...record!,
    record_id: `use_${at}`,
    app: `a${at}`,
  }))
  t.same(await recordsOf(fileOf([many])), many, 'more words than a dictionary is worth')
  const nothing = { ...record!, workspace: null } as unknown as UsageRecord
  t.throws(() => fileOf([[nothing]]), /workspace has no value/)
})

t.test(
  'DuckDB reads the types of the columns, exact sums, and what bounds let it leave out',
  async (t: Test) => {
    const dice = new Dice(7)
    const traffic = { fromMs: FROM_MS, toMs: FROM_MS + DAY_MS }
    const records = Array.from({ length: 20_000 }, (_, at) => randomRecord(dice, `use_x_${at}`, traffic))
    const path = join(await tempFolder(t), 'usage.parquet')
    const bytes = fileOf([records.slice(0, 15_000), records.slice(15_000)])
    await writeFile(path, bytes)
    t.ok(bytes.length < 60 * records.length, `${(bytes.length / records.length).toFixed(1)} bytes a record`)
    const instance = await DuckDBInstance.create()
    const duck = await instance.connect()
    t.teardown(() => {
      duck.closeSync()
      instance.closeSync()
    })
    const ask = async (sql: string) => (await duck.runAndReadAll(sql)).getRowObjectsJson()
    const totals = totalsOf(records)
    t.same(
      await ask(`SELECT count(*)::VARCHAR AS count, count(DISTINCT record_id)::VARCHAR AS ids,
      sum(cost_usd)::VARCHAR AS cost, sum(audio_seconds)::VARCHAR AS seconds FROM '${path}'`),
      [
        {
          count: `${totals.count}`,
          ids: `${totals.count}`,
          cost: (totals.cost / 1e6).toFixed(6),
          seconds: (totals.seconds / 1e3).toFixed(3),
        },
      ],
    )
    const types = await ask(`DESCRIBE SELECT * FROM '${path}'`)
    const expected = {
      id: 'VARCHAR',
      word: 'VARCHAR',
      flag: 'BOOLEAN',
      time: 'TIMESTAMP WITH TIME ZONE',
      count: 'BIGINT',
      milliseconds: 'BIGINT',
      seconds: 'DECIMAL(18,3)',
      money: 'DECIMAL(18,6)',
    }
    t.same(
      types.map(({ column_name: name, column_type: type }) => [name, type]),
      USAGE_COLUMNS.map(({ name, kind }) => [name, expected[kind]]),
    )
    const late = FROM_MS + DAY_MS / 2
    const where = `ended_at >= TIMESTAMPTZ '${new Date(late).toISOString()}' AND end_user LIKE '%-ü'
    AND workspace = 'ws-2' AND cost_usd > 0.01`
    const found = records.filter(
      ({ ended_at, end_user, workspace, cost_usd }) =>
        ended_at >= late && end_user !== null && workspace === 'ws-2' && (cost_usd ?? 0) > 10_000,
    )
    t.ok(found.length > 100)
    t.same(await ask(`SELECT record_id FROM '${path}' WHERE ${where} ORDER BY record_id`), [
      ...found.map(({ record_id }) => ({ record_id })).sort((a, b) => (a.record_id < b.record_id ? -1 : 1)),
    ])
    const [bounds] =
      await ask(`SELECT stats_min_value AS least, stats_max_value AS most, stats_null_count AS nulls
    FROM parquet_metadata('${path}') WHERE path_in_schema = 'cost_usd' AND row_group_id = 0`)
    const costs = records.slice(0, 15_000).flatMap(({ cost_usd }) => (cost_usd === null ? [] : [cost_usd]))
    t.same(bounds, {
      least: (Math.min(...costs) / 1e6).toFixed(6),
      most: (Math.max(...costs) / 1e6).toFixed(6),
      nulls: `${15_000 - costs.length}`,
    })
  },
)

t.test('columns are unpacked as the general reader reads them', async (t: Test) => {
  const dice = new Dice(11)
  const traffic = { fromMs: FROM_MS, toMs: FROM_MS + DAY_MS }
  // End users are words that are written as texts in one of them, and numbers take from no bits to over 32.
  for (const [users, count] of [
    [3_000, 5_000],
    [40, 3_000],
    [1, 1],
  ] as const) {
    const records = Array.from({ length: count }, (_, at) => ({
      ...randomRecord(dice, `use_${at}`, traffic),
      end_user: dice.chance(0.1) ? null : `user-${dice.below(users)}`,
      sent_bytes: dice.below(2 ** dice.below(50)),
      received_bytes: dice.below(2 ** 30),
    }))
    const file = new UsageFile(fileOf([records]))
    const { metadata, bytes: whole } = file
    const slices = {
      byteLength: whole.length,
      slice: (from: number, to?: number) => whole.slice(from, to).buffer,
    }
    const rows = await readRows({ file: slices, metadata, place: 0 })
    let unpacked = 0
    for (const { meta_data: data } of file.groups[0]!.columns) {
      const place = USAGE_COLUMNS.findIndex(({ name }) => name === data!.path_in_schema[0])
      const from = Number(data!.dictionary_page_offset ?? data!.data_page_offset)
      const bytes = Buffer.from(file.bytes.slice(from, from + Number(data!.total_compressed_size)))
      const column = unpackColumn(bytes, data!, count)
      const wanted = Array.from({ length: count }, (_, row) => row).filter(() => dice.chance(0.1))
      const picked = pickFromColumn(bytes, data!, count, wanted)
      const { name, kind } = USAGE_COLUMNS[place]!
      t.equal(picked === null, column === null && kind !== 'flag')
      if (picked === null) continue
      unpacked += 1
      const all = Array.from({ length: count }, (_, row) => rows.columns[place]!.at(row))
      if (column !== null)
        t.same(
          all.map((_, row) => unpackedAt(column, row)),
          all,
          name,
        )
      t.same(
        picked,
        wanted.map((row) => all[row]),
        `some rows of ${name}`,
      )
    }
    t.ok(unpacked > 20, `${unpacked} of ${USAGE_COLUMNS.length}`)
  }
})

t.test('a row group is copied as it is into another file', async (t: Test) => {
  const dice = new Dice(8)
  const traffic = { fromMs: FROM_MS, toMs: FROM_MS + DAY_MS }
  const groups = [0, 1, 2].map((group) =>
    Array.from({ length: 1_000 }, (_, at) => randomRecord(dice, `use_${group}_${at}`, traffic)),
  )
  const [one, two] = [new UsageFile(fileOf(groups.slice(0, 2))), new UsageFile(fileOf(groups.slice(2)))]
  t.ok(one.hasPresentColumns)
  const writer = new UsageFileWriter()
  writer.copy(two, 0)
  writer.copy(one, 1)
  const rows = new UsageRows()
  fillRows(rows, groups[0]!)
  writer.add(rows)
  const path = join(await tempFolder(t), 'copied.parquet')
  const bytes = writer.finish([{ key: 'a', value: 'b' }])
  const whole = [...groups[2]!, ...groups[1]!, ...groups[0]!]
  t.same(await recordsOf(bytes), whole)
  t.equal(new UsageFile(bytes).pair('a'), 'b')
  await writeFile(path, bytes)
  const instance = await DuckDBInstance.create()
  const duck = await instance.connect()
  const sql = `SELECT record_id FROM '${path}' WHERE cost_usd > 0.0195 AND app = 'app-3'`
  const found = (await duck.runAndReadAll(sql)).getRowObjectsJson()
  t.same(
    found.map(({ record_id: id }) => id),
    whole
      .filter(({ cost_usd, app }) => (cost_usd ?? 0) > 19_500 && app === 'app-3')
      .map((one) => one.record_id),
    'its bounds came with it',
  )
  duck.closeSync()
  instance.closeSync()
})

t.test('Bloom filters are those of the format', (t: Test) => {
  fc.assert(
    fc.property(fc.array(fc.uint8Array({ maxLength: 100 }), { maxLength: 200 }), (texts) => {
      const own = new BloomFilter(texts.length)
      const other = new Uint32Array(own.words.length)
      for (const text of texts) {
        // Not at the beginning of its memory.
        own.add(Buffer.concat([Buffer.from('abc'), text, Buffer.from('de')]), 3, 3 + text.length)
        sbbfInsert(other, xxhash64(text))
      }
      return own.words.every((word, at) => word === other[at])
    }),
  )
  t.end()
})

t.test('a merged file says which ids it may have, to us and to others', async (t: Test) => {
  const dice = new Dice(9)
  const traffic = { fromMs: FROM_MS, toMs: FROM_MS + DAY_MS }
  const traceId = (at: number) => at.toString(16).padStart(32, '0')
  const recordAt = (at: number, over: Partial<UsageRecord> = {}): UsageRecord => ({
    ...randomRecord(dice, `use_${String(at).padStart(6, '0')}`, traffic),
    ...{ request_id: `req_${String(at).padStart(6, '0')}`, trace_id: traceId(at), ...over },
  })
  // The first group is copied as it is, the others are gathered; some callers chose ids.
  const many = Array.from({ length: 5_000 }, (_, at) => recordAt(at))
  const few = Array.from({ length: 500 }, (_, at) => recordAt(10_000 + at, { request_id: `mine-${at}` }))
  const untraced = Array.from({ length: 40 }, (_, at) => recordAt(20_000 + at, { trace_id: null }))
  const inputs = [many, few, untraced].map((records) => ({ file: fileOf([records]), aggregate: null }))
  const { file: bytes } = await merge({ inputs, names: [], expired: [] })
  // Merged again, it says the same.
  const again = await merge({ inputs: [{ file: bytes, aggregate: null }], names: [], expired: ['none'] })
  const all = [...many, ...few, ...untraced]
  for (const file of [bytes, again.file]) {
    t.same(await recordsOf(file), all)
    const read = async (_: unknown, from: number, to: number) => file.slice(from, to).buffer
    const opened = await LogFile.open({ key: 'a', bytes: file.length }, { read })
    t.equal(opened.groups.length, 2)
    const may = (group: number, column: 'request_id' | 'trace_id', id: string) =>
      opened.mayHaveId(group, [column], Buffer.from(id))
    for (const [at, { request_id: request, trace_id: trace }] of all.entries()) {
      const group = at < many.length ? 0 : 1
      if (!(await may(group, 'request_id', request))) t.fail(request)
      if (trace !== null && !(await may(group, 'trace_id', trace))) t.fail(trace)
    }
    let taken = 0
    for (let at = 100_000; at < 101_000; at += 1) taken += Number(await may(0, 'trace_id', traceId(at)))
    t.ok(taken < 60, `${taken} of 1,000 that are not there`)
    t.notOk(await may(0, 'request_id', traceId(1)), 'ids of ours have bounds')
    t.notOk(await may(0, 'request_id', 'req_005000'))
    let chosen = 0
    for (let at = 1_000; at < 2_000; at += 1) chosen += Number(await may(1, 'request_id', `mine-${at}`))
    t.ok(chosen < 60, `${chosen} of 1,000 that are not there`)
  }
  const path = join(await tempFolder(t), 'merged.parquet')
  await writeFile(path, bytes)
  const instance = await DuckDBInstance.create()
  const duck = await instance.connect()
  const rowsOf = async (sql: string) => (await duck.runAndReadAll(sql)).getRowObjectsJson()
  const probe = `SELECT bloom_filter_excludes FROM parquet_bloom_probe('${path}', 'trace_id', '${traceId(7)}')`
  t.same(
    (await rowsOf(probe)).map(({ bloom_filter_excludes: excludes }) => excludes),
    [false, true],
  )
  const found = await rowsOf(`SELECT record_id FROM '${path}' WHERE trace_id = '${traceId(10_007)}'`)
  t.same(found, [{ record_id: few[7]!.record_id }])
  duck.closeSync()
  instance.closeSync()
})
