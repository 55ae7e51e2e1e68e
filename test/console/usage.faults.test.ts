import t from 'tap'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { startConsoleNode } from '../support/console-node.ts'
import { lakeOf, putRecords } from '../support/usage-lake.ts'
import { putUsage } from './usage-month.ts'

const HOUR_MS = 3_600_000
const END_MS = Math.ceil(Date.now() / HOUR_MS) * HOUR_MS
const HOURS = 93 * 24
const DENSE_MS = END_MS - HOURS * HOUR_MS
const MANY_CALLS = 2
const timeOf = (ms: number) => new Date(ms).toISOString()

const routed = (route: string, model: string | null, at: number, ended_at: number) =>
  usageRecord({ record_id: `use_${route}_${at}`, workspace: 'acme', route, model, ended_at })

/** 60 routes with two calls each, of one hour. */
const MANY = Array.from({ length: 60 * MANY_CALLS }, (_, at) =>
  routed(`many-${at % 60}`, null, at, DENSE_MS + HOUR_MS),
)

/** Puts a call of 46 routes in each of 93 days' hours, and one of 10,003 routes in the first. */
async function putDense(dataFolder: string): Promise<void> {
  const records: UsageRecord[] = []
  for (let hour = 0; hour < HOURS; hour += 1)
    for (let route = 10; route < 56; route += 1)
      records.push(routed(`dense-${route}`, 'dense', hour, DENSE_MS + hour * HOUR_MS))
  for (let at = 0; at < 10_003; at += 1) records.push(routed(`wide-${at}`, 'wide', at, DENSE_MS))
  const objects = await createFileObjects(dataFolder)
  await putRecords(lakeOf(objects), records, 'seg_dense')
  await objects.close()
}

const sumOf = (lines: readonly string[], column: number) =>
  lines.reduce((sum, line) => sum + Number(line.split(',')[column]), 0)

t.test('a file has as many groups as there is room for, and a line for the others', async (t) => {
  const node = await startConsoleNode(t)
  const visitor = await node.signIn(node.keys.admin)
  await putUsage(node.dataFolder, MANY)
  await putDense(node.dataFolder)
  // 46 groups have sums in each of 2,232 hours: 43 and one line for the others are what 100,000 rows have room for.
  const csv = async (query: string) =>
    (await visitor.get(`/usage?by=route&sort=calls&format=csv&${query}`)).text.trim().split('\r\n')
  const [, ...lines] = await csv(`step=hour&model=dense&from=${timeOf(DENSE_MS)}&to=${timeOf(END_MS)}`)
  t.equal(lines.length, 44 * HOURS)
  const own = new Set(lines.slice(0, 43 * HOURS).map((line) => line.split(',').slice(1, 4).join()))
  t.same([...own].sort(), Array.from({ length: 43 }, (_, at) => `dense-${at + 10},1,1`).sort())
  const rest = new Set(lines.slice(43 * HOURS).map((line) => line.split(',').slice(1, 4).join()))
  t.same([...rest], [',3,3'])
  t.equal(sumOf(lines, 3), 46 * HOURS)
  // Groups take no room for hours in which they have no sums.
  const [, ...few] = await csv(`step=hour&model=&from=${timeOf(DENSE_MS)}&to=${timeOf(END_MS)}`)
  t.equal(few.length, MANY.length / MANY_CALLS)
  t.match(few[0], /^[^,]+,many-\d+,1,2,/)
  // Groups beyond the limit of an answer are one line.
  const [, ...wide] = await csv(`model=wide&from=${timeOf(DENSE_MS)}&to=${timeOf(END_MS)}`)
  t.equal(wide.length, 10_000)
  t.match([wide[0], wide.at(-1)], [/^wide-0,1,1,/, /^,4,4,/])
})
