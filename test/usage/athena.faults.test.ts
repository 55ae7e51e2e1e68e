import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import t from 'tap'
import { USAGE_COLUMNS, type UsageColumnKind } from '../../src/contracts/usage-record.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { pythonClient } from '../support/python-client.ts'
import { tempFolder } from '../support/scratch.ts'
import { lakeOf, putRecords } from '../support/usage-lake.ts'

const MANUAL = await readFile(new URL('../../docs/usage.md', import.meta.url), 'utf8')
const STATEMENTS = [...MANUAL.matchAll(/```sql athena\n([\s\S]*?)```/g)].map(([, statement]) => statement!)

/** What Athena calls the types of the files. */
const TYPES: Readonly<Record<UsageColumnKind, string>> = {
  id: 'string',
  word: 'string',
  time: 'timestamp',
  seconds: 'decimal(18, 3)',
  money: 'decimal(18, 6)',
  milliseconds: 'bigint',
  count: 'bigint',
  flag: 'boolean',
}

t.test('the table of the manual has the columns of the files', (t) => {
  const [, columns = ''] = /CREATE EXTERNAL TABLE usage \(([\s\S]*?)\n\)/.exec(STATEMENTS[0] ?? '') ?? []
  t.same(
    columns.trim().split(/,\s+(?=\w+ )/),
    USAGE_COLUMNS.map(({ name, kind }) => `${name} ${TYPES[kind]}`),
  )
  t.end()
})

const sqlglot = await pythonClient('sqlglot')

t.test(
  'its statements are read as Athena does, and count each record once',
  { skip: sqlglot.skip },
  async (t) => {
    const folder = await tempFolder(t)
    const file = join(folder, 'statements.json')
    await writeFile(file, JSON.stringify(STATEMENTS))
    const [table, read] = await sqlglot.run('athena-queries.py', [file])
    t.same(table?.columns, [...USAGE_COLUMNS.map(({ name }) => name), 'date'])

    const objects = await createFileObjects(folder)
    const lake = lakeOf(objects)
    const endedAt = Date.parse('2026-11-03T10:00:00Z')
    const first = usageRecord({ record_id: 'job_1', app: 'notes', ended_at: endedAt, cost_usd: 1_000 })
    const again = { ...first, ended_at: endedAt + 1, cost_usd: 2_000_000 }
    const others = [
      usageRecord({ record_id: 'use_1', app: 'notes', ended_at: endedAt, cost_usd: 500_000 }),
      usageRecord({ record_id: 'use_2', app: 'phone', ended_at: endedAt, cost_usd: null }),
      usageRecord({ record_id: 'use_3', app: 'phone', ended_at: endedAt + 30 * 86_400_000, cost_usd: 1 }),
    ]
    for (const [at, part] of [
      [first, others[0]!],
      [again, ...others.slice(1)],
    ].entries())
      await putRecords(lake, part, `seg_${at}`)
    await objects.close()

    const instance = await DuckDBInstance.create()
    const duck = await instance.connect()
    t.teardown(() => {
      duck.closeSync()
      instance.closeSync()
    })
    const files = join(folder, 'usage', '*', '*.parquet')
    await duck.run(`CREATE VIEW usage AS SELECT * FROM read_parquet('${files}', hive_partitioning = true)`)
    const answer = (await duck.runAndReadAll(String(read?.query))).getRowObjectsJson()
    t.same(
      answer.map(({ app, calls, cost_usd: cost }) => [app, calls, cost]).sort(),
      [
        ['notes', '2', '2.500000'],
        ['phone', '1', null],
      ],
      'of November alone',
    )
  },
)
