import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { Cancellation } from '../../src/cancellation.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { GatewayError } from '../../src/errors.ts'
import { newId } from '../../src/ids.ts'
import { createFileObjects } from '../../src/storage/folder.ts'
import { UsageLake } from '../../src/usage/lake.ts'
import { type LogPlace, type LogQuestion, searchLog } from '../../src/usage/log.ts'
import { LogFooters, type LogObject, type LogSource } from '../../src/usage/log-file.ts'
import type { LogTest } from '../../src/usage/log-filter.ts'
import { idSpans, logIdOf } from '../../src/usage/log-id.ts'
import { createUsageLog } from '../../src/usage/log-worker.ts'
import { DAY_MS, dateOf, usageKey } from '../../src/usage/names.ts'
import { merge } from '../../src/usage/tasks.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { Dice } from '../support/dice.ts'
import { tempFolder } from '../support/scratch.ts'
import { fileOf, randomRecord, rollRecords } from '../support/usage-lake.ts'

const FROM_MS = Date.parse('2026-11-01')
const HOUR_MS = 3_600_000
/** How far clocks may be apart. */
const SKEW_MS = 600_000
const DAYS = 12
const TO_MS = FROM_MS + DAYS * DAY_MS
const PLENTY = { bytes: 1e9, milliseconds: 60_000 }

const ALL: LogQuestion = {
  fromMs: FROM_MS,
  toMs: TO_MS,
  isNewestFirst: true,
  tests: [],
  id: null,
  after: null,
  limit: 50,
}

/** Files in memory: several a day, of several row groups, whose times overlap. */
class MemoryFiles implements LogSource {
  readonly #files = new Map<string, Uint8Array<ArrayBuffer>>()
  readonly #putMs = new Map<string, number>()
  footers?: LogFooters
  /** Keys of files that were read. */
  readonly opened = new Set<string>()
  reads = 0
  bytesRead = 0

  /** @param putMs on the clock of the store; absent: nobody knows */
  put(date: string, name: string, groups: readonly (readonly UsageRecord[])[], putMs?: number): void {
    this.#files.set(usageKey(date, name), fileOf(groups))
    if (putMs !== undefined) this.#putMs.set(usageKey(date, name), putMs)
  }

  async merged(date: string, name: string, records: readonly UsageRecord[]): Promise<void> {
    const inputs = [{ file: fileOf([records]), aggregate: null }]
    const { file } = await merge({ inputs, names: [], expired: [] })
    this.#files.set(usageKey(date, name), file)
  }

  /** Bytes of all. */
  get size(): number {
    return [...this.#files.values()].reduce((sum, { length }) => sum + length, 0)
  }

  async dates(fromMs: number, toMs: number): Promise<string[]> {
    const dates = [...this.#files.keys()].map((key) => key.slice('usage/date='.length).slice(0, 10))
    return [...new Set(dates)].filter((date) => date >= dateOf(fromMs) && date <= dateOf(toMs - 1))
  }

  async files(date: string) {
    const own = [...this.#files].filter(([key]) => key.startsWith(`usage/date=${date}/`))
    return own.map(([key, { length: bytes }]) => {
      const putMs = this.#putMs.get(key)
      return { key, bytes, ...(putMs === undefined ? {} : { putMs }) }
    })
  }

  async read({ key }: LogObject, from: number, to: number): Promise<ArrayBuffer> {
    this.reads += 1
    this.opened.add(key)
    this.bytesRead += to - from
    return this.#files.get(key)!.slice(from, to).buffer
  }
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

function filesOf(dice: Dice, records: readonly UsageRecord[]): MemoryFiles {
  const files = new MemoryFiles()
  for (const [date, own] of Map.groupBy(records, ({ ended_at: ms }) => dateOf(ms))) {
    // Days that were merged, and those that have more than are opened at a time.
    const parts = dice.one([4, 50])
    for (const [name, part] of Map.groupBy(own, () => `seg_${dice.below(parts)}`)) {
      // Those of merged files are nearly in order.
      const ordered = dice.chance(0.5) ? part.toSorted((a, b) => a.ended_at - b.ended_at) : part
      const groups: UsageRecord[][] = []
      for (let at = 0; at < ordered.length; at += 40) groups.push(ordered.slice(at, at + 40))
      // The clock of the store may be behind those of the nodes.
      const newestMs = Math.max(...part.map(({ ended_at: ms }) => ms))
      const putMs = newestMs - SKEW_MS + dice.below(dice.one([HOUR_MS, DAY_MS]))
      files.put(date, name, groups, dice.chance(0.8) ? putMs : undefined)
    }
  }
  return files
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
async function readAll(question: LogQuestion, source: LogSource, bounds = PLENTY) {
  const records: UsageRecord[] = []
  let after: LogPlace | null = null
  let pages = 0
  do {
    const found: Awaited<ReturnType<typeof searchLog>> = await searchLog(
      { ...question, after },
      source,
      bounds,
    )
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
  const files = filesOf(dice, records)
  for (let round = 0; round < 10; round++) {
    // From then on it is known when the records of files that were opened ended.
    if (round === 5) files.footers = new LogFooters()
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
    const bounds = round % 4 === 3 ? { bytes: 60_000, milliseconds: 60_000 } : PLENTY
    const found = await readAll(question, files, bounds)
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
  const files = new MemoryFiles()
  files.put('2026-11-01', 'one', [records.slice(0, 100), records.slice(100)])
  const found = await searchLog(ALL, files)
  t.same(
    found.records.map(({ record_id: id }) => id),
    records
      .slice(150)
      .reverse()
      .map(({ record_id: id }) => id),
  )
  t.same(found.next, { endedAtMs: FROM_MS + 150 * 60_000, recordId: 'use_150' })
  t.same(found.searched, { fromMs: FROM_MS + 150 * 60_000, toMs: TO_MS })
  const last = await searchLog({ ...ALL, after: { endedAtMs: FROM_MS, recordId: null } }, files)
  t.same([last.records.length, last.next, last.searched.fromMs], [1, null, FROM_MS])
  const nothing = await searchLog({ ...ALL, fromMs: TO_MS, toMs: TO_MS }, files)
  t.same([nothing.records, nothing.next], [[], null])
})

t.test(
  'of the files of a busy day those are opened that were put at the time that is asked for',
  async (t: Test) => {
    const files = new MemoryFiles()
    const minutes = 200
    const record = (minute: number) =>
      usageRecord({
        record_id: `use_${String(minute).padStart(3, '0')}`,
        ended_at: FROM_MS + minute * 60_000,
      })
    for (let minute = 0; minute < minutes; minute += 1)
      files.put('2026-11-01', `seg_${minute}`, [[record(minute)]], FROM_MS + (minute + 1) * 60_000)
    const opened = async (question: LogQuestion, count: number) => {
      files.opened.clear()
      t.equal((await searchLog(question, files)).records.length, count)
      return files.opened.size
    }
    t.ok((await opened({ ...ALL, limit: 10 }, 10)) < 50, 'the newest')
    const fromMs = FROM_MS + (minutes - 30) * 60_000
    t.ok((await opened({ ...ALL, fromMs }, 30)) < 50, 'those of the last half hour')
    const after = { endedAtMs: fromMs, recordId: record(minutes - 30).record_id }
    t.ok((await opened({ ...ALL, isNewestFirst: false, after, limit: 1 }, 1)) < 50, 'the one behind another')
    t.equal(await opened({ ...ALL, limit: 1_000 }, minutes), minutes, 'all')
    const past = { fromMs: FROM_MS + 20 * 60_000, toMs: FROM_MS + 25 * 60_000 }
    t.ok((await opened({ ...ALL, ...past }, 5)) > 100, 'all that were put later')
    files.footers = new LogFooters()
    await searchLog({ ...ALL, limit: 1_000 }, files)
    t.equal(await opened({ ...ALL, ...past }, 5), 0, 'what they have is known from then on')
    // However few of them are kept.
    const { footers } = files
    const timesOf = (key: string) => footers.timesOf(key)
    files.footers = Object.assign(new LogFooters(), { timesOf, putTimes: () => {} })
    t.ok(
      (await opened({ ...ALL, ...past, isNewestFirst: false, limit: 1 }, 1)) <= 16,
      'also the oldest first',
    )
  },
)

t.test('what cannot have a record is not read', async (t: Test) => {
  const dice = new Dice(3)
  const files = new MemoryFiles()
  const [days, size] = [4, 2_500]
  const group = (day: number, over: Partial<UsageRecord>) =>
    Array.from({ length: size }, (_, at) => ({
      ...randomRecord(dice, `use_${day}_${at}`, { fromMs: FROM_MS + day * DAY_MS, toMs: TO_MS }),
      ...over,
    }))
  for (let day = 0; day < days; day += 1)
    files.put(dateOf(FROM_MS + day * DAY_MS), 'one', [
      group(day, { app: 'a', total_ms: 100, cost_usd: 5 }),
      group(day, { app: day === 2 ? 'rare' : 'b', total_ms: day === 2 ? 9_000 : 200 }),
    ])
  const all = { ...ALL, limit: 10_000 }
  const bytesOf = async (tests: LogTest[], count: number) => {
    files.bytesRead = 0
    const { records, bytes } = await searchLog({ ...all, tests }, files)
    t.equal(records.length, count)
    t.equal(bytes, files.bytesRead)
    return bytes
  }
  const whole = await bytesOf([{ column: 'status', from: 0, to: 600 }], days * size)
  const slow: LogTest = { column: 'total_ms', from: 9_000, to: Number.POSITIVE_INFINITY }
  for (const test of [slow, { column: 'app', oneOf: ['rare'] } as LogTest]) {
    const bytes = await bytesOf([test], size)
    // The footers of four days, and one of eight row groups.
    t.ok(bytes < whole / 2, `${bytes} of ${whole}`)
  }
  t.ok((await bytesOf([{ column: 'app', oneOf: ['none'] }], 0)) <= days * 64 * 1024, 'footers alone')
})

t.test('of each record only the columns that are asked for are read', async (t: Test) => {
  const dice = new Dice(8)
  const files = new MemoryFiles()
  const times = { fromMs: FROM_MS, toMs: FROM_MS + DAY_MS }
  const records = Array.from({ length: 30_000 }, (_, at) => randomRecord(dice, `use_${at}`, times))
  files.put('2026-11-01', 'one', [records])
  files.footers = new LogFooters()
  const question = { ...ALL, tests: [{ column: 'workspace', oneOf: ['ws-3'] }] as LogTest[] }
  const { bytes: _, ...whole } = await searchLog(question, files)
  const ask = async <const Name extends keyof UsageRecord>(...columns: Name[]) => {
    const before = files.reads
    const { bytes, ...found } = await searchLog({ ...question, columns }, files)
    const names = ['record_id', ...columns] as const
    const picked = whole.records.map((one) => Object.fromEntries(names.map((name) => [name, one[name]])))
    t.same(found, { ...whole, records: picked }, String(columns))
    return { bytes, reads: files.reads - before }
  }
  await ask()
  const [none, few, near] = [await ask(), await ask('kind', 'total_ms'), await ask('provider', 'model')]
  const all = await searchLog(question, files)
  t.ok(none.bytes < few.bytes && few.bytes < all.bytes / 2, `${none.bytes}, ${few.bytes} of ${all.bytes}`)
  t.same([few.reads - none.reads, near.reads - none.reads], [2, 1], 'what is near is read together')
})

t.test('of merged files little is read for a trace', async (t: Test) => {
  const dice = new Dice(4)
  const files = new MemoryFiles()
  const traceId = (at: number) => `${at}`.padStart(32, 'f')
  for (let day = 0; day < DAYS; day += 1) {
    const fromMs = FROM_MS + day * DAY_MS
    const records = Array.from({ length: 5_000 }, (_, at) => ({
      ...randomRecord(dice, `use_${day}_${at}`, { fromMs, toMs: fromMs + DAY_MS }),
      trace_id: traceId(day * 5_000 + at),
    }))
    await files.merged(dateOf(fromMs), 'one', records)
  }
  files.footers = new LogFooters()
  const find = (at: number) => searchLog({ ...ALL, id: logIdOf(traceId(at)), limit: 10 }, files)
  const first = await find(3)
  t.match(first.records, [{ record_id: 'use_0_3' }])
  // With the footers known: a block of each filter, and the columns of the file that has it.
  const { records, bytes } = await find(7 * 5_000 + 9)
  t.match(records, [{ record_id: 'use_7_9' }])
  t.ok(
    bytes < first.bytes / 2 && bytes < files.size / 8,
    `${bytes} of ${files.size}, at first ${first.bytes}`,
  )
  t.same((await find(DAYS * 5_000)).records, [])
})

t.test('an id is found in whichever column has it, and where it is most likely', async (t: Test) => {
  const dice = new Dice(5)
  const records = recordsOf(dice)
  const files = filesOf(dice, records)
  const find = async (value: string) =>
    (await searchLog({ ...ALL, id: logIdOf(value), limit: 10 }, files)).records
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

t.test('a search of its own thread', async (t: Test) => {
  const objects = await createFileObjects(await tempFolder(t))
  const lake = new UsageLake(objects)
  const dice = new Dice(7)
  const records = Array.from({ length: 2_000 }, (_, at) => ({
    ...randomRecord(dice, `use_${at}`, { fromMs: FROM_MS, toMs: TO_MS }),
    ended_at: FROM_MS + dice.below(3 * DAY_MS),
    app: at === 7 ? '=cmd|calc' : 'web',
  }))
  for (const [place, part] of [records.slice(0, 900), records.slice(900)].entries())
    for (const { date, file, aggregate } of await rollRecords(part))
      await lake.put(date, `seg_${place}`, { file, aggregate })
  const log = createUsageLog(lake)
  t.teardown(async () => {
    await log.close()
    await objects.close()
  })
  const waiting = new Cancellation()
  const year = { ...ALL, fromMs: FROM_MS - 400 * DAY_MS }

  t.test('finds the same as without', async (t: Test) => {
    t.same((await log.search(year, waiting)).records, naive(records, ALL).slice(0, 50), 'for the first time')
    const [one, other] = await Promise.all([
      log.search(year, waiting),
      log.search({ ...year, limit: 3 }, waiting),
    ])
    t.same(one.records, naive(records, ALL).slice(0, 50))
    t.same(other.records, one.records.slice(0, 3))
    for (const fileOf of [() => null, () => '/there/is/no/such/file']) {
      const asking = createUsageLog({
        fileOf,
        day: (date) => lake.day(date),
        listed: () => lake.listed(),
        readPart: (...part) => lake.readPart(...part),
      })
      t.teardown(() => asking.close())
      t.same((await asking.search(year, waiting)).records, one.records, 'what is no file is asked for')
    }
  })

  t.test('who leaves while files are read ends it, too', async (t: Test) => {
    const leaving = new Cancellation()
    const long = createUsageLog(lake)
    t.teardown(() => long.close())
    // Opens the thread.
    await long.search({ ...ALL, limit: 1 }, waiting)
    const asked = long.search(year, leaving)
    const gone = new GatewayError('CLIENT_CLOSED')
    setImmediate(() => leaving.abort(gone))
    t.equal(await asked.catch((error: unknown) => error), gone)
    t.equal((await long.search(ALL, waiting)).records.length, 50)
  })

  t.test('writes them as text', async (t: Test) => {
    const csv = await log.write({ ...year, limit: 5_000 }, 'csv', waiting)
    t.equal(csv.rows, 2_000)
    const text = new TextDecoder().decode(csv.text)
    t.equal(text.split('\r\n').length, 2_001)
    t.match(text, /,'=cmd\|calc,/, 'a formula is a text')
    const json = await log.write({ ...year, limit: 2 }, 'json', waiting)
    const told = JSON.parse(`[${new TextDecoder().decode(json.text)}]`) as Record<string, unknown>[]
    const [first] = naive(records, ALL)
    t.match(told[0], { record_id: first!.record_id, ended_at: new Date(first!.ended_at).toISOString() })
    t.equal(told[0]!.cost_usd, first!.cost_usd === null ? null : first!.cost_usd / 1e6)
  })

  t.test('whoever leaves ends it', async (t: Test) => {
    const slow = createUsageLog({
      day: async (date) => lake.day(date),
      fileOf: () => null,
      listed: () => lake.listed(),
      readPart: async (...part) => {
        await sleep(60_000, undefined, { ref: false })
        return lake.readPart(...part)
      },
    })
    t.teardown(() => slow.close())
    const leaving = Array.from({ length: 4 }, () => new Cancellation())
    const asked = leaving.map((signal) => slow.search(ALL, signal).catch((error: unknown) => error))
    await sleep(300)
    const gone = new GatewayError('CLIENT_CLOSED')
    for (const signal of leaving) signal.abort(gone)
    for (const error of await Promise.all(asked)) t.equal(error, gone)
    await t.rejects(slow.search(ALL, leaving[0]!), { code: 'CLIENT_CLOSED' })
  })

  t.test(
    'a store that fails is told of, a file that was merged away is looked for again',
    async (t: Test) => {
      const away = new GatewayError('DEPENDENCY_UNAVAILABLE')
      const failing = createUsageLog({
        day: (date) => lake.day(date),
        fileOf: () => null,
        listed: () => lake.listed(),
        readPart: () => Promise.reject(away),
      })
      t.teardown(() => failing.close())
      await t.rejects(failing.search(ALL, waiting), { code: 'DEPENDENCY_UNAVAILABLE' })
      let isFirst = true
      const racing = createUsageLog({
        day: (date) => lake.day(date),
        fileOf: () => null,
        listed: () => lake.listed(),
        readPart: (...part) => {
          const cause = Object.assign(new Error('gone'), { code: 'ENOENT' })
          const isGone = isFirst
          isFirst = false
          return isGone
            ? Promise.reject(new GatewayError('DEPENDENCY_UNAVAILABLE', 'gone', { cause }))
            : lake.readPart(...part)
        },
      })
      t.teardown(() => racing.close())
      t.equal((await racing.search(ALL, waiting)).records.length, 50)
    },
  )
})
