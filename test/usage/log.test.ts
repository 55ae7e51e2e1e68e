import t, { type Test } from 'tap'
import { Cancellation } from '../../src/contracts/cancellation.ts'
import { GatewayError } from '../../src/contracts/errors.ts'
import { newId } from '../../src/contracts/ids.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import type { LogFound, LogPlace, LogQuestion, LogTest, UsageLog } from '../../src/usage/log.ts'
import { createUsageLog } from '../../src/usage/log.ts'
import { idSpans, logIdOf } from '../../src/usage/log-id.ts'
import { recordJson } from '../../src/usage/log-report.ts'
import { DAY_MS, dateOf } from '../../src/usage/names.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { Dice } from '../support/dice.ts'
import { tempFolder } from '../support/scratch.ts'
import { engine, lakeOf, putRecords, randomRecord } from '../support/usage-lake.ts'

const FROM_MS = Date.parse('2026-11-01')
const DAYS = 12
const TO_MS = FROM_MS + DAYS * DAY_MS
const WAITING = new Cancellation()

const ALL: LogQuestion = {
  fromMs: FROM_MS,
  toMs: TO_MS,
  isNewestFirst: true,
  tests: [],
  id: null,
  after: null,
  limit: 50,
}

/** Records whose moments are often the same; some jobs have two, as when two nodes have ended them. */
function recordsOf(dice: Dice): UsageRecord[] {
  return Array.from({ length: 1_000 }, (_, at) => {
    // Most days have records, and some have many.
    const day = dice.one([0, 1, 1, 1, 2, 4, 5, 6, 9, 10, 10, 11])
    const fromMs = FROM_MS + day * DAY_MS
    const record = randomRecord(dice, `use_${at}`, { fromMs, toMs: TO_MS })
    const endedAt = record.ended_at - (record.ended_at % dice.one([1_000, 3_600_000]))
    const isAgain = at > 0 && dice.chance(0.02)
    return {
      ...record,
      record_id: isAgain ? `use_${at - 1}` : `use_${at}`,
      ended_at: endedAt,
      trace_id: dice.chance(0.5) ? at.toString(16).padStart(32, '0') : null,
      job_id: record.kind === 'job' ? `tj_${at}` : null,
      end_user: dice.chance(0.9) ? record.end_user : 'ü\u{1f600}',
    }
  })
}

/** A store with these records: several files a day, whose times overlap. */
async function lakeWith(t: Test, dice: Dice, records: readonly UsageRecord[]) {
  const objects = await createFileObjects(await tempFolder(t))
  t.teardown(() => objects.close())
  const lake = lakeOf(objects)
  for (const own of Map.groupBy(records, ({ ended_at: ms }) => dateOf(ms)).values())
    for (const [name, part] of Map.groupBy(own, () => `seg_${dice.below(dice.one([2, 12]))}`)) {
      // Records of merged files are nearly in order.
      const ordered = dice.chance(0.5) ? part.toSorted((a, b) => a.ended_at - b.ended_at) : part
      await putRecords(lake, ordered, name)
    }
  return lake
}

/** The same by looking at each record. */
function naive(records: readonly UsageRecord[], question: LogQuestion): UsageRecord[] {
  const { fromMs, toMs, tests, id, isNewestFirst } = question
  const passes = (record: UsageRecord) => (test: LogTest) => {
    const value = record[test.column]
    if ('from' in test) return typeof value === 'number' && value >= test.from && value < test.to
    if ('oneOf' in test) return test.oneOf.includes(value as string | null)
    return value === null || !String(value).startsWith(test.notFrom)
  }
  const found = records
    .filter((record) => record.ended_at >= fromMs && record.ended_at < toMs)
    .filter((record) => tests.every(passes(record)))
    .filter((record) => id === null || id.columns.some((column) => record[column] === id.value))
    .sort((a, b) => b.ended_at - a.ended_at || (a.record_id < b.record_id ? 1 : -1))
  return isNewestFirst ? found : found.reverse()
}

/** Goes from page to page. */
async function readAll(question: LogQuestion, log: UsageLog) {
  const records: UsageRecord[] = []
  let after: LogPlace | null = null
  let pages = 0
  do {
    const found: LogFound = await log.search({ ...question, after }, WAITING)
    records.push(...found.records)
    const isStill = found.next !== null && JSON.stringify(found.next) === JSON.stringify(after)
    if (isStill) throw new Error(`it stays at ${JSON.stringify(after)}`)
    after = found.next
    pages += 1
  } while (after !== null && pages < 5_000)
  return { records, pages }
}

function anyTests(dice: Dice): LogTest[] {
  const choices: LogTest[] = [
    { column: 'workspace', oneOf: [`ws-${dice.below(6)}`] },
    { column: 'app', oneOf: [`app-${dice.below(25)}`] },
    { column: 'key_id', notFrom: 'key_1' },
    { column: 'outcome', oneOf: [dice.one(['ok', 'error', 'left'])] },
    { column: 'error_code', oneOf: [dice.one([null, 'PROVIDER_ERROR', 'NO'])] },
    { column: 'end_user', oneOf: [dice.one([null, 'ü\u{1f600}', 'user-7-ü'])] },
    { column: 'status', from: 500, to: 600 },
    { column: 'total_ms', from: dice.below(6_000), to: Number.POSITIVE_INFINITY },
    { column: 'cost_usd', from: dice.below(25_000), to: Number.POSITIVE_INFINITY },
    { column: 'provider', oneOf: [dice.one(['deepgram', 'openai', 'none'])] },
  ]
  return dice.some(choices, 0.2)
}

t.test('finds what a look at each record finds, page by page, in both orders', async (t: Test) => {
  const dice = new Dice(11)
  const records = recordsOf(dice)
  const lake = await lakeWith(t, dice, records)
  const [log, hasty] = [createUsageLog({ lake, engine }), createUsageLog({ lake, engine, limitMs: 0 })]
  for (let round = 0; round < 10; round++) {
    const [one, other] = [dice.below(DAYS * DAY_MS), dice.below(DAYS * DAY_MS)]
    const isWhole = dice.chance(0.4)
    const question: LogQuestion = {
      fromMs: isWhole ? FROM_MS - 400 * DAY_MS : FROM_MS + Math.min(one, other),
      toMs: isWhole ? TO_MS : FROM_MS + Math.max(one, other) + 1,
      isNewestFirst: dice.chance(0.7),
      tests: anyTests(dice),
      id: null,
      after: null,
      limit: dice.one([13, 50, 500]),
    }
    // One that has no time looks at some days for each page, and comes to the end all the same.
    const found = await readAll(question, round % 4 === 3 ? hasty : log)
    // Records with the same id may be on two pages, or be one.
    const wanted = naive(records, question)
    const ids = (some: readonly UsageRecord[]) => [...new Set(some.map(({ record_id: id }) => id))].sort()
    t.same(ids(found.records), ids(wanted), JSON.stringify(question))
    const order = found.records.map(({ ended_at: ms }) => (question.isNewestFirst ? -ms : ms))
    t.same(
      order,
      order.toSorted((a, b) => a - b),
      'in order',
    )
    const whole = new Map(wanted.map((record) => [`${record.record_id} ${record.ended_at}`, record]))
    const same = found.records.map((record) => whole.get(`${record.record_id} ${record.ended_at}`))
    t.equal(JSON.stringify(found.records), JSON.stringify(same), 'every column')
  }
})

t.test('a page has its records, no more, and says where it ends', async (t: Test) => {
  const records = Array.from({ length: 200 }, (_, at) =>
    usageRecord({ record_id: `use_${String(at).padStart(3, '0')}`, ended_at: FROM_MS + at * 60_000 }),
  )
  const log = createUsageLog({ lake: await lakeWith(t, new Dice(1), records), engine })
  const found = await log.search(ALL, WAITING)
  t.same(
    found.records.map(({ record_id: id }) => id),
    records
      .slice(150)
      .reverse()
      .map(({ record_id: id }) => id),
  )
  t.same(found.next, { endedAtMs: FROM_MS + 150 * 60_000, recordId: 'use_150' })
  t.same(found.searched, { fromMs: FROM_MS + 150 * 60_000, toMs: TO_MS })
  const last = await log.search({ ...ALL, after: { endedAtMs: FROM_MS, recordId: null } }, WAITING)
  t.same([last.records.length, last.next, last.searched.fromMs], [1, null, FROM_MS])
  const nothing = await log.search({ ...ALL, fromMs: TO_MS, toMs: TO_MS }, WAITING)
  t.same([nothing.records, nothing.next], [[], null])
  const some = await log.search({ ...ALL, limit: 3, columns: ['kind', 'total_ms'] }, WAITING)
  t.same(
    some.records,
    records
      .slice(-3)
      .reverse()
      .map(({ record_id, kind, total_ms }) => ({ record_id, kind, total_ms })),
    'with no other columns than were asked for',
  )
})

t.test('an id is found in whichever column has it, and where it is most likely', async (t: Test) => {
  const dice = new Dice(5)
  const records = recordsOf(dice)
  const log = createUsageLog({ lake: await lakeWith(t, dice, records), engine })
  const find = async (value: string) =>
    (await log.search({ ...ALL, id: logIdOf(value), limit: 10 }, WAITING)).records
  for (let round = 0; round < 6; round++) {
    const record = dice.one(records)
    const ids = [record.request_id, record.job_id, record.trace_id, record.record_id]
    for (const id of ids) {
      if (id === null) continue
      const found = await find(id)
      const wanted = naive(records, { ...ALL, id: logIdOf(id) })
      t.same(new Set(found.map((one) => one.record_id)), new Set(wanted.map((one) => one.record_id)), id)
    }
    // A part of an id stands in the bytes of the column, and is none.
    t.same(await find(record.request_id.slice(0, -1)), [])
  }
  const nowMs = Date.now()
  const all = { fromMs: nowMs - 400 * DAY_MS, toMs: nowMs + 60_000 }
  const [soon, late, ...others] = idSpans(newId('req'), all)
  t.same(others, [])
  t.ok(soon !== undefined && soon.fromMs > nowMs - 3_600_000 && soon.toMs === all.toMs)
  t.equal(late, undefined, 'nothing is later than now')
  for (const id of [
    'mine',
    'req_',
    'req_zzzzzzzzzzzzzzzzzzzzzzzzzz',
    'a'.repeat(32),
    'req_00000000000000000000000000',
  ])
    t.same(idSpans(id, all), [all], id)
})

t.test('writes records as text', async (t: Test) => {
  const dice = new Dice(7)
  const records = Array.from({ length: 2_000 }, (_, at) => ({
    ...randomRecord(dice, `use_${at}`, { fromMs: FROM_MS, toMs: TO_MS }),
    ended_at: FROM_MS + dice.below(3 * DAY_MS),
    app: at === 7 ? '=cmd|calc' : 'web',
  }))
  const log = createUsageLog({ lake: await lakeWith(t, dice, records), engine })
  const csv = await log.write({ ...ALL, limit: 5_000 }, 'csv', WAITING)
  t.equal(csv.rows, 2_000)
  t.equal(csv.text.split('\r\n').length, 2_001)
  t.match(csv.text, /,'=cmd\|calc,/, 'a formula is a text')
  const json = await log.write({ ...ALL, limit: 2 }, 'json', WAITING)
  const told = JSON.parse(`[${json.text}]`) as Record<string, unknown>[]
  const [first] = naive(records, ALL)
  t.equal(told.length, 2)
  t.same(told[0], recordJson(first!))
})

t.test('a search that no one waits for ends, and others continue', async (t: Test) => {
  const lake = await lakeWith(t, new Dice(2), [usageRecord({ ended_at: FROM_MS })])
  const log = createUsageLog({ lake, engine })
  const gone = new GatewayError('CLIENT_CLOSED')
  const leaving = Array.from({ length: 4 }, () => new Cancellation())
  const asked = leaving.map((signal) => log.search(ALL, signal).catch((error: unknown) => error))
  for (const signal of leaving) signal.abort(gone)
  for (const error of await Promise.all(asked)) t.equal(error, gone)
  t.equal((await log.search(ALL, WAITING)).records.length, 1)
})

t.test('a store that fails is told of, a file that was merged away is looked for again', async (t: Test) => {
  const lake = await lakeWith(t, new Dice(2), [usageRecord({ ended_at: FROM_MS })])
  const files = lake.files.bind(lake)
  const away = new GatewayError('DEPENDENCY_UNAVAILABLE')
  const failing = createUsageLog({ lake: { files, hold: () => Promise.reject(away) }, engine })
  t.equal(await failing.search(ALL, WAITING).catch((error: unknown) => error), away)
  let isFirst = true
  const racing = createUsageLog({
    engine,
    lake: {
      files,
      hold: async (some) => {
        const { paths, release } = await lake.hold(some)
        const isGone = isFirst
        isFirst = false
        return { paths: isGone ? ['/there/is/no/such/file.parquet'] : paths, release }
      },
    },
  })
  t.equal((await racing.search(ALL, WAITING)).records.length, 1)
})
