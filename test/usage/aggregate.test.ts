import { crc32, zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import fc from 'fast-check'
import { test } from 'tap'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import {
  AggregateBuilder,
  CALL_DIMENSIONS,
  mergeAggregates,
  USAGE_MEASURES,
  type UsageAggregate,
  type UsageDimension,
  type UsageMeasure,
} from '../../src/usage/aggregate.ts'
import {
  AGGREGATE_HEAD_BYTES,
  AggregateFormatError,
  decodeAggregate,
  decodeHead,
  decodeSection,
  encodeAggregate,
  hasSection,
  SECTION_NAMES,
  type SectionName,
} from '../../src/usage/aggregate-file.ts'
import {
  answerFrom,
  GROUPS_MAX,
  stepMs,
  TooManyGroups,
  tableFor,
  type UsageAnswer,
  type UsageQuestion,
} from '../../src/usage/answer.ts'
import { BUCKETS, bucketOf, middleOf, percentile } from '../../src/usage/histogram.ts'
import { dateOf, HOUR_MS } from '../../src/usage/names.ts'
import { emptyRow } from '../../src/usage/record-row.ts'
import { TableAnswers } from '../../src/usage/table-answers.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { Dice } from '../support/dice.ts'

const FROM_MS = Date.parse('2026-11-02T22:00:00Z')
const HOURS = 30

const word = (...words: string[]) => fc.constantFrom(...words)
const orNull = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: null, freq: 3 })
const amount = (most: number) => orNull(fc.integer({ min: 0, max: most }))

const records = fc.array(
  fc
    .record({
      ended_at: fc.integer({ min: FROM_MS, max: FROM_MS + HOURS * HOUR_MS - 1 }),
      workspace: word('acme', 'beta', '__proto__'),
      app: word('notes', 'phone'),
      key_id: word('key_1', 'key_2', 'key_3'),
      end_user: orNull(fc.oneof(word('ann', 'bob', ''), fc.string({ maxLength: 8 }))),
      purpose: orNull(word('support')),
      operation: orNull(word('chat', 'speech')),
      provider: orNull(word('openai', 'deepgram')),
      model: orNull(word('a', 'b', 'ü')),
      outcome: word('ok', 'error', 'left'),
      status: orNull(fc.constantFrom(200, 429, 502)),
      error_code: orNull(word('RATE_LIMITED', 'UPSTREAM_ERROR')),
      cost_usd: amount(2 ** 44),
      audio_seconds: amount(2 ** 33),
      input_tokens: amount(2 ** 17),
      output_tokens: amount(300),
      images: amount(4),
      estimated: fc.boolean(),
      replayed: fc.boolean(),
      total_ms: fc.integer({ min: 0, max: 2 ** 40 }),
      first_ms: amount(30_000),
    })
    .map(usageRecord),
  { maxLength: 60 },
)

const someOf = <Value>(values: readonly Value[]) => fc.subarray([...values], { maxLength: 3 })

const questions = fc
  .record({
    from: fc.integer({ min: -2, max: HOURS }),
    hours: fc.integer({ min: 1, max: HOURS }),
    step: word('none', 'hour', 'day'),
    by: someOf(CALL_DIMENSIONS),
    ofUsers: fc.boolean(),
    workspace: fc.option(fc.constantFrom<(string | null)[]>(['acme'], ['beta', null], ['nobody']), {
      nil: undefined,
    }),
    model: fc.option(fc.constantFrom<(string | null)[]>([null], ['a', 'ü']), { nil: undefined }),
    sort: fc.constantFrom(...USAGE_MEASURES),
  })
  .map(({ from, hours, step, by, ofUsers, workspace, model, sort }): UsageQuestion => {
    const fromMs = FROM_MS + from * HOUR_MS
    const common = { sort, offset: 0, limit: 10_000 }
    const where = workspace === undefined ? {} : { workspace }
    if (!ofUsers) {
      const filters = model === undefined ? where : { ...where, model }
      const steps = step as UsageQuestion['step']
      return { ...common, fromMs, toMs: fromMs + hours * HOUR_MS, step: steps, by, where: filters }
    }
    const dayMs = Math.floor(fromMs / stepMs('day')) * stepMs('day')
    const toMs = dayMs + (1 + (hours % 2)) * stepMs('day')
    return { ...common, fromMs: dayMs, toMs, step: 'day', by: ['end_user'], where }
  })

function measured(record: UsageRecord, measure: UsageMeasure): number {
  if (measure === 'calls') return 1
  if (measure === 'errors') return record.outcome === 'error' ? 1 : 0
  if (measure === 'unpriced')
    return record.outcome === 'ok' && !record.replayed && record.cost_usd === null ? 1 : 0
  return Number(record[measure] ?? 0)
}

const sumsOf = (own: readonly UsageRecord[]) =>
  Object.fromEntries(
    USAGE_MEASURES.map((name) => [name, own.reduce((sum, record) => sum + measured(record, name), 0)]),
  )

const textOf = (record: UsageRecord, name: UsageDimension) => {
  const value = record[name]
  return value === null ? null : String(value)
}

/** The answer to a question by looking at each record: rows by their time and values. */
function naive(all: readonly UsageRecord[], question: UsageQuestion) {
  const { fromMs, toMs, step, by, where } = question
  const asked = all.filter(
    (record) =>
      record.ended_at >= fromMs &&
      record.ended_at < toMs &&
      Object.entries(where).every(([name, values]) =>
        values.includes(textOf(record, name as UsageDimension)),
      ),
  )
  const groups = new Map<string, UsageRecord[]>()
  for (const record of asked) {
    const length = step === 'none' ? null : stepMs(step)
    const timeMs = length === null ? null : Math.floor(record.ended_at / length) * length
    const key = JSON.stringify([timeMs, by.map((name) => textOf(record, name))])
    groups.set(key, [...(groups.get(key) ?? []), record])
  }
  return { total: asked, rows: new Map([...groups].sort(([one], [other]) => (one < other ? -1 : 1))) }
}

function isNear(told: number | null | undefined, values: readonly (number | null)[], share: number): boolean {
  const known = values.filter((ms) => ms !== null).sort((a, b) => a - b)
  if (known.length === 0) return told === undefined || told === null
  const exact = Math.min(known[Math.ceil(known.length * share) - 1]!, 2 ** 32)
  return told !== undefined && told !== null && Math.abs(told - exact) <= exact * 0.0626
}

const built = (all: readonly UsageRecord[], step: 'hour' | 'day' = 'hour'): UsageAggregate => {
  const builder = new AggregateBuilder({ step })
  for (const record of all) builder.add(record)
  return builder.finish()
}

const ask = (question: UsageQuestion, parts: readonly UsageAggregate[]): Promise<UsageAnswer> =>
  answerFrom(question, () => parts.map((part) => part[tableFor(question)]))

test('answers from aggregates are those of a look at each record', async () => {
  await fc.assert(
    fc.asyncProperty(records, questions, fc.integer({ min: 1, max: 4 }), async (all, question, parts) => {
      const split = Array.from({ length: parts }, (_, part) => all.filter((_, at) => at % parts === part))
      const files = await Promise.all(split.map(async (own) => encodeAggregate(built(own))))
      const answer = await ask(question, await Promise.all(files.map(decodeAggregate)))
      const expected = naive(all, question)
      const told = new Map(
        answer.rows
          .map((row) => [JSON.stringify([row.timeMs, row.values]), row] as const)
          .sort(([a], [b]) => (a < b ? -1 : 1)),
      )
      const isSame =
        JSON.stringify([...told].map(([key, { sums }]) => [key, sums])) ===
        JSON.stringify([...expected.rows].map(([key, own]) => [key, sumsOf(own)]))
      const isTotal = JSON.stringify(answer.total.sums) === JSON.stringify(sumsOf(expected.total))
      const near = [...expected.rows].every(([key, own]) => {
        const { total_ms, first_ms } = told.get(key)!.latencies
        if (tableFor(question) === 'endUsers') return total_ms === undefined
        return (
          isNear(
            total_ms?.p50,
            own.map((record) => record.total_ms),
            0.5,
          ) &&
          isNear(
            total_ms?.p99,
            own.map((record) => record.total_ms),
            0.99,
          ) &&
          isNear(
            first_ms?.p95,
            own.map((record) => record.first_ms),
            0.95,
          )
        )
      })
      return isSame && isTotal && near
    }),
    { numRuns: 80 },
  )
})

test('however records are split and merged, the file is the same', async () => {
  await fc.assert(
    fc.asyncProperty(records, fc.integer({ min: 1, max: 5 }), word('hour', 'day'), async (all, parts, by) => {
      const step = by as 'hour' | 'day'
      const whole = await encodeAggregate(built(all, step))
      const split = Array.from({ length: parts }, (_, part) => all.filter((_, at) => at % parts === part))
      const read = await Promise.all(
        split.map(async (own) => decodeAggregate(await encodeAggregate(built(own)))),
      )
      const merged = await encodeAggregate(mergeAggregates(read.reverse(), step))
      return merged.equals(whole) && (await encodeAggregate(await decodeAggregate(whole))).equals(whole)
    }),
    { numRuns: 60 },
  )
})

test('sums beyond what is exact leave all others as they are', async (t) => {
  const record = { ...emptyRow('node'), record_id: 'r', ended_at: 1_780_000_000_000 }
  const all = [
    { ...record, workspace: 'wild', input_tokens: Number.MAX_SAFE_INTEGER },
    { ...record, workspace: 'wild', input_tokens: 10, cost_usd: 2 },
    { ...record, workspace: 'other', input_tokens: 7, cost_usd: 5 },
  ]
  const read = await decodeAggregate(await encodeAggregate(built(all)))
  const where = { workspace: ['other'] }
  const question = { fromMs: 0, toMs: 2e12, step: 'none', by: [], where, sort: 'calls', offset: 0, limit: 9 }
  const { total } = await ask(question as unknown as UsageQuestion, [read])
  t.match(total.sums, { calls: 1, input_tokens: 7, cost_usd: 5 })
})

/** Records of 300 keys, of which each calls few models: far fewer rows by day, and without the keys. */
function manyRecords(): UsageRecord[] {
  const dice = new Dice(4)
  return Array.from({ length: 9_000 }, () => {
    const key = dice.below(300)
    const isError = dice.below(10) === 0
    return usageRecord({
      ended_at: FROM_MS + dice.below(HOURS * HOUR_MS),
      workspace: ['acme', 'beta', '__proto__'][key % 3]!,
      app: `app-${key % 21}`,
      key_id: `key_${key}`,
      end_user: dice.one([null, 'ann', 'bob', `user-${dice.below(500)}`]),
      operation: ['chat', 'speech', null][key % 7] ?? null,
      route: ['a', 'b'][key % 2]!,
      provider: ['openai', 'deepgram', null][key % 4] ?? null,
      model: dice.one([null, ['a', 'b', 'ü'][key % 5] ?? null]),
      ...(isError
        ? { outcome: 'error', status: dice.one([429, 502]), error_code: 'X', cost_usd: null }
        : { outcome: 'ok', status: 200, cost_usd: dice.below(2 ** 40) }),
      input_tokens: dice.one([null, dice.below(2 ** 17)]),
      replayed: dice.below(9) === 0,
      total_ms: dice.below(60_000),
      first_ms: dice.one([null, dice.below(5_000)]),
    })
  })
}

interface DayFile {
  readonly date: string
  readonly bytes: Buffer
}

const filesOf = (all: readonly UsageRecord[], withFewSums: boolean): Promise<DayFile[]> =>
  Promise.all(
    [...Map.groupBy(all, ({ ended_at }) => dateOf(ended_at))].sort().map(async ([date, own]) => ({
      date,
      bytes: await encodeAggregate(built(own), { withFewSums }),
    })),
  )

/** @param made what is made of the records of each file, where its own sums do not do */
const answersOf = (
  files: readonly DayFile[],
  answers = new TableAnswers(),
  made: readonly DayFile[] = [],
) => {
  const named = files.map(({ date }) => ({ key: date, date }))
  return (question: UsageQuestion): Promise<UsageAnswer> =>
    answers.answer(question, named, async (place, part) => {
      if (part === 'made') return made[place] === undefined ? null : Uint8Array.from(made[place].bytes)
      return Uint8Array.from(files[place]!.bytes.subarray(part.from, part.to))
    })
}

interface PackedDimension {
  readonly name: string
  readonly width: number
  readonly texts: number
  readonly widths: readonly [lengths: number, bytes: number]
  readonly bytes: number
}

interface Described {
  readonly rows: number
  readonly hours: number
  readonly dimensions: readonly PackedDimension[]
  readonly measures: readonly { readonly width: number }[]
  readonly latencies: readonly {
    readonly counts: number
    readonly widths: readonly [number, number, number]
  }[]
}

/** A section as it was before version 3: values are in its description, and columns begin anywhere. */
function oldSection(section: Buffer): Buffer {
  const raw = zstdDecompressSync(section)
  let at = 4 + raw.readUInt32LE(0)
  const about = JSON.parse(raw.toString('utf8', 4, at)) as Described
  const { rows } = about
  const next = (bytes: number) => {
    const from = Math.ceil(at / 8) * 8
    at = from + bytes
    return raw.subarray(from, at)
  }
  const columns = [next(rows * about.hours)]
  const dimensions = about.dimensions.map(({ name, width, texts, widths, bytes }) => {
    columns.push(next(rows * width))
    const lengths = next(texts * widths[0])
    const packed = next(bytes)
    let start = 0
    const values = Array.from({ length: texts }, (_, text) => {
      const end = start + lengths.readUIntLE(text * widths[0], widths[0])
      const value = packed.toString('utf8', start, end)
      start = end
      return value
    })
    return { name, values, width }
  })
  for (const { width } of about.measures) columns.push(next(rows * width))
  for (const { counts, widths } of about.latencies)
    columns.push(next(rows * widths[0]), next(counts * widths[1]), next(counts * widths[2]))
  const text = Buffer.from(JSON.stringify({ ...about, dimensions }))
  const length = Buffer.alloc(4)
  length.writeUInt32LE(text.length)
  return Buffer.concat([length, text, ...columns])
}

/**
 * A file as version 3 was, whose records without an end user are in no row of `endUsers`; as version 2 was, or version
 * 1: without sums by few dimensions, and with another head.
 */
function inVersion(version: 1 | 2 | 3, { date, bytes }: DayFile): DayFile {
  const { sections } = decodeHead(bytes)
  if (version === 3) {
    const old = Buffer.from(bytes).fill(0, sections.endUsers.start, sections.endUsers.end)
    old.writeUInt32LE(version, 4)
    return { date, bytes: old }
  }
  const [from, size] = version === 1 ? [8, 16] : [16, 12]
  const names = version === 1 ? (['calls', 'endUsers', 'days'] as const) : SECTION_NAMES
  const head = Buffer.alloc(version === 1 ? 56 : AGGREGATE_HEAD_BYTES)
  bytes.copy(head, 0, 0, head.length)
  head.writeUInt32LE(version, 4)
  if (version === 1) head.fill(0, from)
  const made = names.map((name, at) => {
    const { start, end } = sections[name]
    if (start === end) return Buffer.alloc(0)
    const raw = oldSection(bytes.subarray(start, end))
    const section = zstdCompressSync(raw)
    for (const [word, number] of [section.length, raw.length, crc32(raw)].entries())
      head.writeUInt32LE(number, from + at * size + word * 4)
    return section
  })
  if (version === 2) head.writeUInt32LE(crc32(head.subarray(12)), 8)
  return { date, bytes: Buffer.concat([head, ...made]) }
}

test('answers from sums by few dimensions are those from all rows, and those of each record', async (t) => {
  const all = manyRecords()
  const [few, whole] = [await filesOf(all, true), await filesOf(all, false)]
  for (const name of SECTION_NAMES)
    t.ok(
      few.some(({ bytes }) => hasSection(decodeHead(bytes), name)),
      name,
    )
  const fromFew = answersOf(few)
  const others = [
    answersOf(whole),
    ...([1, 2, 3] as const).map((version) => {
      const old = (version === 1 ? whole : few).map((file) => inVersion(version, file))
      return answersOf(old, new TableAnswers(), whole)
    }),
  ]
  await fc.assert(
    fc.asyncProperty(questions, async (question) => {
      const answer = await fromFew(question)
      for (const other of others)
        if (JSON.stringify(await other(question)) !== JSON.stringify(answer)) return false
      const { rows, total } = naive(all, question)
      const told = new Map(answer.rows.map((row) => [JSON.stringify([row.timeMs, row.values]), row.sums]))
      // Of many groups only some are told, but each as it is.
      const isSame = [...told].every(([key, sums]) => {
        return JSON.stringify(sums) === JSON.stringify(sumsOf(rows.get(key) ?? []))
      })
      return isSame && JSON.stringify(answer.total.sums) === JSON.stringify(sumsOf(total))
    }),
    { numRuns: 150 },
  )
})

test('a question reads no more than the smallest section that has its answer', async (t) => {
  const [, file] = await filesOf(manyRecords(), true)
  const { sections } = decodeHead(file!.bytes)
  const dayMs = Date.parse(file!.date)
  const asked = { sort: 'calls', offset: 0, limit: 100, fromMs: dayMs, toMs: dayMs + 24 * HOUR_MS } as const
  const questions: readonly (readonly [SectionName, Pick<UsageQuestion, 'by' | 'step' | 'where'>])[] = [
    ['daysByOutcome', { by: ['outcome'], step: 'day', where: { kind: ['call'], workspace: ['acme'] } }],
    ['daysByOutcome', { by: [], step: 'none', where: {} }],
    ['outcomes', { by: ['status', 'error_code'], step: 'hour', where: {} }],
    ['daysByModel', { by: ['model'], step: 'day', where: { provider: ['openai'] } }],
    ['daysByRoute', { by: ['route'], step: 'day', where: { status: ['429'] } }],
    ['daysByKey', { by: ['key_id'], step: 'none', where: { app: ['app-3'] } }],
    ['days', { by: ['key_id', 'model'], step: 'day', where: {} }],
    ['calls', { by: ['model'], step: 'hour', where: {} }],
    ['endUsers', { by: ['end_user'], step: 'day', where: {} }],
  ]
  for (const [name, question] of questions) {
    const only = Buffer.from(file!.bytes)
    for (const other of SECTION_NAMES)
      if (other !== name) only.fill(0, sections[other].start, sections[other].end)
    const whole = await answersOf([file!])({ ...asked, ...question })
    const answer = await answersOf([{ ...file!, bytes: only }])({ ...asked, ...question })
    t.same(answer, whole, name)
    t.ok(answer.total.sums.calls > 0, name)
  }
})

test('sums by day are enough of a day that goes on, and not of a part of what there is', async (t) => {
  const dayMs = Math.ceil(FROM_MS / stepMs('day')) * stepMs('day')
  const nowMs = dayMs + 14 * HOUR_MS
  const all = manyRecords().filter(({ ended_at }) => ended_at >= dayMs && ended_at < nowMs)
  const [file] = await filesOf(all, true)
  const { calls, outcomes } = decodeHead(file!.bytes).sections
  const onlyDays = { ...file!, bytes: Buffer.from(file!.bytes) }
  onlyDays.bytes.fill(0, calls.start, calls.end).fill(0, outcomes.start, outcomes.end)
  const question: UsageQuestion = { ...QUESTION, by: [], step: 'day', fromMs: dayMs, toMs: nowMs }
  t.equal((await answersOf([onlyDays])(question)).total.sums.calls, all.length)
  for (const part of [{ toMs: nowMs - HOUR_MS }, { fromMs: dayMs + HOUR_MS }]) {
    const { fromMs, toMs } = { ...question, ...part }
    const own = all.filter(({ ended_at }) => ended_at >= fromMs && ended_at < toMs)
    t.equal((await answersOf([file!])({ ...question, ...part })).total.sums.calls, own.length)
    await t.rejects(answersOf([onlyDays])({ ...question, ...part }))
  }
})

test('a merge leaves out workspaces, and makes no hours of days', async (t) => {
  const both = built([usageRecord(), usageRecord({ workspace: 'beta', end_user: 'ann' })])
  const builder = new AggregateBuilder()
  builder.merge(both, (workspace) => workspace !== 'beta')
  t.ok((await encodeAggregate(builder.finish())).equals(await encodeAggregate(built([usageRecord()]))))
  t.throws(() => new AggregateBuilder().merge(built([], 'day')), RangeError)
})

const QUESTION: UsageQuestion = {
  fromMs: Date.parse('2026-11-03T00:00:00Z'),
  toMs: Date.parse('2026-11-04T00:00:00Z'),
  step: 'none',
  by: ['app'],
  where: {},
  sort: 'cost_usd',
  offset: 0,
  limit: 2,
}

test('groups come in the order asked for, and the total has those that are not told', async (t) => {
  const costs = { a: 3, b: 9, c: 1, d: 9 }
  const parts = [built(Object.entries(costs).map(([app, cost_usd]) => usageRecord({ app, cost_usd })))]
  const first = await ask(QUESTION, parts)
  t.same([first.groups, first.total.sums.cost_usd], [4, 22])
  t.same(
    first.rows.map(({ values }) => values),
    [['b'], ['d']],
  )
  const next = await ask({ ...QUESTION, offset: 2 }, parts)
  t.same(
    next.rows.map(({ values, sums }) => [...values, sums.cost_usd]),
    [
      ['a', 3],
      ['c', 1],
    ],
  )
  t.same((await ask(QUESTION, [])).rows, [])
})

test('a question of too many groups is refused before they fill the memory', async (t) => {
  const half = built(
    Array.from({ length: GROUPS_MAX / 2 + 1 }, (_, at) => usageRecord({ end_user: `u${at}` })),
  )
  const other = built(Array.from({ length: GROUPS_MAX / 2 }, (_, at) => usageRecord({ end_user: `v${at}` })))
  const question: UsageQuestion = { ...QUESTION, by: ['end_user'] }
  t.equal((await ask(question, [half])).groups, GROUPS_MAX / 2 + 1)
  const refused = await ask(question, [half, other]).catch((error: unknown) => error)
  t.ok(refused instanceof TooManyGroups)
})

test('a bucket is an eighth wide at most, and they are in order', (t) => {
  let last = -1
  for (const ms of [0, 1, 7, 15, 16, 17, 18, 31, 32, 1000, 60_000, 3_600_000, 2 ** 32 - 1]) {
    const bucket = bucketOf(ms)
    t.ok(bucket >= last && bucket < BUCKETS, String(ms))
    t.ok(Math.abs(middleOf(bucket) - ms) <= ms * 0.0625, `${middleOf(bucket)} stands for ${ms}`)
    last = bucket
  }
  t.equal(bucketOf(2 ** 40), bucketOf(2 ** 32 - 1))
  t.equal(bucketOf(-5), 0)
  t.equal(percentile(new Uint32Array(BUCKETS), 0, 0.5), null)
  t.end()
})

test('what is no aggregate is refused, wherever it is wrong', async (t) => {
  const whole = await encodeAggregate(
    built([usageRecord({ end_user: 'ann' }), usageRecord({ app: 'phone' })]),
  )
  await decodeAggregate(whole)
  t.ok(!hasSection(decodeHead(whole), 'outcomes'), 'of some rows there are no sums')
  const isRefused = (bytes: Uint8Array) =>
    decodeAggregate(bytes).then(
      () => false,
      (error: unknown) => error instanceof AggregateFormatError,
    )
  for (let length = 0; length < whole.length; length += 1)
    if (!(await isRefused(whole.subarray(0, length)))) t.fail(`the first ${length} bytes`)
  for (let at = 0; at < whole.length; at += 1) {
    const damaged = Buffer.from(whole)
    damaged[at]! ^= 0x41
    const read = decodeAggregate(damaged).then(
      async (aggregate) => (await encodeAggregate(aggregate)).equals(whole),
      (error: unknown) => error instanceof AggregateFormatError,
    )
    if (!(await read)) t.fail(`byte ${at}`)
  }
  const head = decodeHead(whole.subarray(0, AGGREGATE_HEAD_BYTES))
  const calls = await decodeSection(
    whole.subarray(head.sections.calls.start, head.sections.calls.end),
    head,
    'calls',
  )
  t.equal(calls.table.rows, 2)
})
