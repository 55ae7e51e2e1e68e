import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'tap'
import { workspaceAdmin } from '../../src/admin/actor.ts'
import { askUsage } from '../../src/admin/usage.ts'
import { runCommand } from '../../src/cli/commands.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { GatewayError } from '../../src/errors.ts'
import { createFileObjects } from '../../src/storage/folder.ts'
import { decodeAggregate, decodeHead, encodeAggregate } from '../../src/usage/aggregate-file.ts'
import {
  answerFrom,
  GROUPS_MAX,
  TooManyGroups,
  tableFor,
  type UsageQuestion,
} from '../../src/usage/answer.ts'
import { createAnswerThread } from '../../src/usage/answer-thread.ts'
import { csvLine } from '../../src/usage/csv.ts'
import { UsageLake } from '../../src/usage/lake.ts'
import { dateMs, datesBetween, prefixesOf, usagePrefix } from '../../src/usage/names.ts'
import { createUsageReader } from '../../src/usage/reader.ts'
import { TableAnswers } from '../../src/usage/table-answers.ts'
import { merge } from '../../src/usage/tasks.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { Dice } from '../support/dice.ts'
import { randomRecord, rollRecords } from '../support/usage-lake.ts'

const HOUR_MS = 3_600_000
const FROM_MS = Date.parse('2026-11-03T00:00:00Z')

/** Records of two days: 40 hours of calls of two workspaces, and a job that two nodes have ended. */
const CALLS: readonly UsageRecord[] = Array.from({ length: 400 }, (_, at) => {
  const isError = at % 10 === 0
  const isSpeech = at % 3 === 0
  return usageRecord({
    record_id: `use_01k9z0000000000000000000aa_${at}`,
    workspace: at % 4 === 0 ? 'beta' : 'acme',
    app: at % 2 === 0 ? 'notes' : '=cmd|calc',
    end_user: `user-${at % 7}`,
    ended_at: FROM_MS + Math.floor((at * 40 * HOUR_MS) / 400),
    ...(isSpeech ? { operation: 'speech', provider: 'elevenlabs', model: 'flash', characters: at } : {}),
    ...(isSpeech ? { input_tokens: null, output_tokens: null } : {}),
    ...(isError
      ? { outcome: 'error', status: 502, error_code: 'UPSTREAM_ERROR', cost_usd: null }
      : { cost_usd: at }),
    total_ms: 100 + at,
  })
})
const JOB = usageRecord({
  record_id: 'job_1',
  kind: 'job',
  job_id: 'tj_1',
  cost_usd: 7,
  ended_at: FROM_MS + 5,
})
/** As the node has it that ended it first. */
const EARLIER: UsageRecord = { ...JOB, ended_at: FROM_MS + 3 }

const QUESTION: UsageQuestion = {
  fromMs: FROM_MS,
  toMs: FROM_MS + 48 * HOUR_MS,
  step: 'none',
  by: [],
  where: {},
  sort: 'calls',
  offset: 0,
  limit: 10,
}

const ONE_WORKSPACE = {
  providers: { house: { kind: 'sandbox', access: 'platform' } },
  routes: { voice: { workspace: 'acme', entries: [{ provider: 'house', model: 'morse-1' }] } },
  workspaces: { acme: { name: 'Acme GmbH', apps: { web: { route: 'voice' } } } },
}

async function lakeIn(folder: string) {
  const objects = await createFileObjects(folder)
  const lake = new UsageLake(objects)
  const parts = [
    [...CALLS.slice(0, 250), EARLIER],
    [...CALLS.slice(250), JOB],
  ]
  for (const [at, part] of parts.entries())
    for (const { date, file, aggregate } of await rollRecords(part))
      await lake.put(date, `seg_${at}`, { file, aggregate })
  return { objects, lake }
}

async function withFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'larkway-asking-'))
  try {
    await work(folder)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const sumUp = async (file: Uint8Array<ArrayBuffer>) =>
  (await merge({ inputs: [{ file, aggregate: null }], names: [], expired: [] })).aggregate

async function run(folder: string, args: readonly string[], config?: string) {
  const out = { printed: '', complained: '', code: -1 }
  out.code = await runCommand(['usage', ...args], {
    env: { LARKWAY_DATA: folder, LARKWAY_CONFIG: config },
    print: (text) => {
      out.printed += text
    },
    complain: (sentence) => {
      out.complained += sentence
    },
  })
  return out
}

const TIME = ['--from', '2026-11-03', '--to', '2026-11-05']
const costOf = (records: readonly UsageRecord[]) =>
  records.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0)

test('the command answers as the records are, in every format', async (t) => {
  await withFolder(async (folder) => {
    const { objects } = await lakeIn(folder)
    const answered = await run(folder, [...TIME, '--by', 'workspace', '--where', 'kind=call', '--json'])
    t.equal(answered.code, 0, answered.complained)
    const report = JSON.parse(answered.printed) as {
      data: { workspace: string; calls: number; errors: number; cost_usd: number }[]
      total: { calls: number; total_ms: { p50: number } }
    }
    for (const { workspace, calls, errors, cost_usd } of report.data) {
      const own = CALLS.filter((record) => record.workspace === workspace)
      t.same(
        [calls, errors, Math.round(cost_usd * 1e6)],
        [own.length, own.filter(({ outcome }) => outcome === 'error').length, costOf(own)],
        workspace,
      )
    }
    t.equal(report.total.calls, CALLS.length)
    t.ok(Math.abs(report.total.total_ms.p50 - 300) < 20)

    const table = await run(folder, [...TIME, '--by', 'app,model', '--step', 'day'])
    t.match(table.printed, /time +app +model +calls .*\n2026-11-0[34]T/)
    const csv = await run(folder, [...TIME, '--by', 'app', '--csv'])
    t.match(csv.printed, /^app,calls,errors,.*total_ms_p50,/)
    t.match(csv.printed, /\r\n'=cmd\|calc,/)
    const file = join(folder, 'usage.parquet')
    t.equal((await run(folder, [...TIME, '--by', 'app', '--parquet', '--out', file])).code, 0)
    t.ok((await stat(file)).size > 100)
    const focus = await run(folder, [...TIME, '--focus', '--csv'])
    const charges = focus.printed.trim().split('\r\n')
    const cost = charges.slice(1).reduce((sum, line) => sum + Math.round(Number(line.split(',')[0]) * 1e6), 0)
    // The record of the job counts twice until its files are merged.
    t.equal(cost, costOf([...CALLS, JOB, JOB]))
    t.match(charges[1], /,Usage,,/)
    await objects.close()
  })
})

test('charges of an unknown provider are exported, and what no provider was asked for is not', async (t) => {
  await withFolder(async (folder) => {
    const objects = await createFileObjects(folder)
    const lake = new UsageLake(objects)
    const nobody = { provider: null, model: null, region: null, operation: 'queue', ended_at: FROM_MS }
    const records = [
      usageRecord({ record_id: 'use_1', ended_at: FROM_MS, cost_usd: 5_000_000 }),
      usageRecord({ ...nobody, record_id: 'qj_1', kind: 'job', outcome: 'canceled', cost_usd: 3_000_000 }),
      usageRecord({ ...nobody, record_id: 'use_2', app: 'refused', outcome: 'error', cost_usd: null }),
      usageRecord({ ...nobody, record_id: 'use_3', app: 'free', outcome: 'ok', cost_usd: 0 }),
    ]
    for (const { date, ...file } of await rollRecords(records)) await lake.put(date, 'seg_1', file)
    const config = join(folder, 'larkway.yaml')
    await writeFile(config, JSON.stringify(ONE_WORKSPACE))
    const { printed, complained } = await run(folder, [...TIME, '--focus', '--csv'], config)
    t.equal(complained, '')
    const [head, ...charges] = printed
      .trim()
      .split('\r\n')
      .map((line) => line.split(','))
    const cells = charges.map((cells) => Object.fromEntries(head!.map((name, at) => [name, cells[at]])))
    t.same(
      cells.map(({ BilledCost }) => BilledCost),
      ['5', '3'],
    )
    t.match(cells[0], { BillingAccountId: 'acme', BillingAccountName: 'Acme GmbH' })
    await writeFile(config, 'nonsense: true')
    const nameless = await run(folder, [...TIME, '--focus', '--csv'], config)
    t.match(nameless.printed, /,acme,acme,/, 'a charge has an id in place of a name that is not known')
    t.match(nameless.complained, /names of workspaces are not known/)
    t.match(cells[1], {
      ...{ InvoiceIssuerName: 'unknown', ProviderName: 'unknown', PublisherName: 'unknown' },
      ...{ SkuId: 'unknown/unknown/queue', ServiceName: 'queue', ConsumedUnit: /./ },
      ChargeDescription: 'queue with an unknown model of an unknown provider',
    })
    await objects.close()
  })
})

test('a wrong command line is told in flags', async (t) => {
  await withFolder(async (folder) => {
    for (const [args, sentence] of [
      [['--by', 'modle'], /^--by must be one of/],
      [['--from', '2026-13-01'], /^--from must be a date/],
      [['--from', '2026-02-30'], /^--from must be a date/],
      [['--from', '2026-11-05', '--to', '2026-11-03'], /^--to must be after/],
      [['--where', 'x=1'], /^--where takes/],
      [['--by', 'end_user,app'], /^--where app cannot be combined|^--app cannot|`app`|app cannot be/],
      [['--csv', '--json'], /exclude/],
      [['--parquet'], /--out/],
      [['--focus'], /--csv or --parquet/],
      [['--focus', '--csv', '--where', 'end_user=user-1'], /^--focus excludes --where end_user/],
      [
        ['--focus', '--csv', '--where', 'end_user=', '--where', 'workspace=acme'],
        /excludes --where end_user/,
      ],
      [['--step', 'week'], /^--step must be one of/],
      [['--limit', '0'], /^--limit must be a whole number/],
      [['--from', '2020-01-01', '--to', '2026-01-01'], /^--from must be at most/],
    ] as const) {
      const { code, complained } = await run(folder, args)
      t.equal(code, 2, args.join(' '))
      t.match(complained, sentence)
    }
    t.equal((await run(join(folder, 'nowhere'), [])).code, 1)
  })
})

test('an admin is told of its own workspace alone', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const usage = {
      reader: createUsageReader({ lake, sumUp, answers: new TableAnswers() }),
      nowMs: () => FROM_MS,
      completeUntilMs: async () => FROM_MS,
    }
    const principal = { workspace: { id: 'beta' }, key: { id: 'key_1', name: 'n' } }
    const admin = workspaceAdmin(principal as unknown as Parameters<typeof workspaceAdmin>[0])
    const input = (more: Readonly<Record<string, string[]>>) =>
      new Map(Object.entries({ from: ['2026-11-03'], to: ['2026-11-05'], ...more }))
    for (const more of [{}, { workspace: ['beta'] }, { by: ['workspace,end_user'] }]) {
      const { answer } = await askUsage(admin, input(more), usage)
      t.equal(answer.total.sums.calls, 100)
    }
    for (const named of [['acme'], ['beta', 'acme'], [''], ['*']]) {
      const refused = await askUsage(admin, input({ workspace: named }), usage).catch(
        (error: unknown) => error,
      )
      t.ok(refused instanceof GatewayError && refused.code === 'NOT_FOUND', named.join())
    }
    await objects.close()
  })
})

test('an answer tells of the groups that are named, in their order', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const reader = createUsageReader({ lake, sumUp, answers: new TableAnswers() })
    const question = { ...QUESTION, by: ['app', 'error_code'], step: 'day' } as const
    const all = await reader.ask(question)
    const [first, last] = [all.rows[0]!.values, all.rows.at(-1)!.values]
    const named = await reader.ask({
      ...question,
      groups: [last, ['notes', 'NO_SUCH_CODE'], ['x', null], first],
    })
    const of = (values: readonly (string | null)[]) =>
      all.rows.filter((row) => row.values.join() === values.join())
    t.same(named.rows, [...of(last), ...of(first)])
    t.same([named.groups, named.total], [all.groups, all.total], 'those that there are not are not counted')
    t.same((await reader.ask({ ...question, groups: [last, first], limit: 1 })).rows, of(last))
    t.same((await reader.ask({ ...QUESTION, groups: [[]] })).rows.length, 1)
    const begun = await reader.ask({ ...question, beginning: 'no' })
    t.same(
      begun.rows,
      all.rows.filter(({ values }) => values[0] === 'notes'),
    )
    t.same([begun.groups, begun.total], [all.groups, all.total])
    await objects.close()
  })
})

test('sums that are missing or damaged are made of the records, and the answer is the same', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const question = { ...QUESTION, by: ['app'] as const }
    const good = await createUsageReader({ lake, sumUp, answers: new TableAnswers() }).ask(question)
    let made = 0
    const counted = (file: Uint8Array<ArrayBuffer>) => {
      made += 1
      return sumUp(file)
    }
    const files = await lake.files(FROM_MS, FROM_MS + 48 * HOUR_MS)
    const [first] = await lake.aggregates(files)
    await objects.remove(first!.key)
    const reader = createUsageReader({ lake, sumUp: counted, answers: new TableAnswers() })
    t.same(await reader.ask(question), good)
    t.equal(made, 1)
    t.same(await reader.ask(question), good)
    t.equal(made, 1, 'what was read is kept')
    t.same(
      await createUsageReader({ lake, sumUp, answers: new TableAnswers(0) }).ask(question),
      good,
      'without any cache',
    )
    await objects.close()
  })
})

test('a thread answers the same, and fails in the same way', async (t) => {
  const answers = createAnswerThread()
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const files = await lake.files(FROM_MS, FROM_MS + 48 * HOUR_MS)
    const [first] = await lake.aggregates(files)
    await objects.remove(first!.key)
    for (const by of [['app', 'model'], ['end_user']] as const) {
      const question = { ...QUESTION, by: [...by], step: 'day' } as const
      const here = await createUsageReader({ lake, sumUp, answers: new TableAnswers() }).ask(question)
      const there = createUsageReader({ lake, sumUp, answers })
      t.same(await Promise.all([there.ask(question), there.ask(question)]), [here, here])
    }
    const question = { ...QUESTION, by: ['model'], step: 'day' } as const
    const chart = { ...question, by: [], fromMs: FROM_MS + 24 * HOUR_MS } as const
    const direct = createUsageReader({ lake, sumUp, answers })
    const both = await Promise.all([direct.ask(question), direct.ask(chart)])
    t.same(await direct.askAll([question, chart]), both)
    const own = {
      files: lake.files.bind(lake),
      aggregates: lake.aggregates.bind(lake),
      read: lake.read.bind(lake),
      readPart: lake.readPart.bind(lake),
    }
    for (const fileOf of [() => null, () => join(folder, 'gone')]) {
      const asking = createAnswerThread()
      const reader = createUsageReader({ lake: { ...own, fileOf }, sumUp, answers: asking })
      t.same(await reader.askAll([question, chart]), both, 'what is no file is asked for')
      await asking.close()
    }
    const failure = new GatewayError('DEPENDENCY_UNAVAILABLE')
    const broken = createUsageReader({
      answers,
      sumUp,
      lake: {
        files: async () => [{ key: 'a', date: '2026-11-03', bytes: 1 }],
        aggregates: async () => [{ key: 'b', bytes: 1 }],
        fileOf: () => null,
        read: () => Promise.reject(failure),
        readPart: () => Promise.reject(failure),
      },
    })
    t.equal(await broken.ask(QUESTION).catch((error: unknown) => error), failure)
    await objects.close()
  })
  const rows = GROUPS_MAX + 1
  const column = {
    values: Array.from({ length: rows }, (_, at) => String(at).padStart(7, '0')),
    indices: Uint32Array.from({ length: rows }, (_, at) => at + 1),
  }
  const table = { rows, hours: new Uint32Array(rows).fill(FROM_MS / HOUR_MS), measures: {}, latencies: {} }
  const sums = await encodeAggregate({
    step: 'hour',
    calls: { ...table, rows: 0, hours: new Uint8Array(0), dimensions: {} },
    endUsers: { ...table, dimensions: { end_user: column } },
  })
  const asked = answers.answerAll(
    [{ ...QUESTION, by: ['end_user'] }],
    [{ key: 'c', date: '2026-11-03' }],
    async () => Uint8Array.from(sums),
  )
  t.ok((await asked.catch((error: unknown) => error)) instanceof TooManyGroups)
  await answers.close()
})

test('whole days are answered from sums by day, and parts of one by hour', async (t) => {
  const records = Array.from({ length: 600 }, (_, at) =>
    usageRecord({ ended_at: FROM_MS + (at % 24) * HOUR_MS, app: `app-${at % 5}`, total_ms: 10 * at }),
  )
  const [rolled] = await rollRecords(records)
  const { sections: head } = decodeHead(rolled!.aggregate)
  const sizeOf = ({ start, end }: { start: number; end: number }) => end - start
  t.ok(sizeOf(head.days) > 0 && sizeOf(head.days) < sizeOf(head.calls))
  const { calls } = await decodeAggregate(rolled!.aggregate)
  const files = [{ key: 'a', date: rolled!.date }]
  const days = rolled!.aggregate.slice()
  // Only where they are not needed may the sums by hour be damaged.
  days.fill(0, head.calls.start, head.calls.end)
  const answers = new TableAnswers(0)
  const question = { ...QUESTION, by: ['app'], toMs: FROM_MS + 24 * HOUR_MS } as const
  for (const step of ['none', 'day'] as const) {
    const asked = { ...question, step }
    const byHour = await answerFrom(asked, () => [calls])
    t.same(await answers.answer(asked, files, async () => days), byHour)
  }
  for (const some of [{ step: 'hour' }, { toMs: FROM_MS + 12 * HOUR_MS }] as const) {
    const asked = { ...question, ...some }
    const { total } = await answers.answer(asked, files, async () => rolled!.aggregate)
    t.equal(total.sums.calls, (600 * (asked.toMs - FROM_MS)) / (24 * HOUR_MS))
    await t.rejects(answers.answer(asked, files, async () => days))
  }
})

test('answers from parts of tables are those from the whole', async (t) => {
  const dice = new Dice(9)
  const records = Array.from({ length: 3_000 }, (_, at) => ({
    ...randomRecord(dice, `use_${at}`, { fromMs: FROM_MS, toMs: FROM_MS + 48 * HOUR_MS }),
    key_id: `key_${dice.below(500)}`,
  }))
  const rolled = await rollRecords(records)
  const files = rolled.map(({ date }) => ({ key: date, date }))
  const tables = await Promise.all(rolled.map(({ aggregate }) => decodeAggregate(aggregate)))
  let reads = 0
  const read = async (place: number) => {
    reads += 1
    return rolled[place]!.aggregate
  }
  const questions: Partial<UsageQuestion>[] = [
    { by: ['outcome'], step: 'hour' },
    { by: ['status', 'outcome'], step: 'hour', where: { workspace: ['ws-1'] } },
    { by: [], where: { provider: ['openai'], kind: ['call', 'job'] }, fromMs: FROM_MS + HOUR_MS },
    { by: ['key_id'], where: { workspace: ['ws-1', 'ws-2'] } },
    { by: ['app', 'model'], step: 'day', sort: 'cost_usd', offset: 3, limit: 4 },
    { by: ['error_code'], where: { outcome: ['error'], region: [null] } },
    { by: ['end_user'], where: { workspace: ['ws-3'] }, sort: 'cost_usd' },
    { by: ['end_user', 'workspace'], step: 'day', where: { end_user: ['user-1-ü', 'user-2-ü'] } },
    { by: ['workspace'], where: { end_user: ['user-1-ü'], workspace: ['nowhere'] } },
  ]
  for (const cacheBytes of [undefined, 0]) {
    const answers = new TableAnswers(cacheBytes)
    for (const some of questions) {
      const question = { ...QUESTION, ...some }
      const whole = await answerFrom(question, () => tables.map((table) => table[tableFor(question)]))
      // One of its own step, and one of the same groups by another, as a page asks for a table and for its chart.
      const chart = { ...question, step: question.step === 'day' ? 'none' : 'day', limit: 2 } as const
      const wholeChart = await answerFrom(chart, () => tables.map((table) => table[tableFor(chart)]))
      const asked = Array.from({ length: 2 }, () =>
        [question, chart].map((one) => answers.answer(one, files, read)),
      )
      for (const [answer, ofChart] of await Promise.all(asked.map((two) => Promise.all(two)))) {
        t.same(answer, whole, JSON.stringify(some))
        t.same(ofChart, wholeChart, JSON.stringify(some))
      }
    }
    if (cacheBytes === undefined)
      t.ok(reads <= 3 * files.length, `${reads} reads: each section of a file once, whoever asks for it`)
  }
})

test('tables whose texts were numbered apart answer together', async (t) => {
  // Over 200,000 texts, those of the first file are forgotten before the third is read.
  const users = (from: number, to: number) =>
    Array.from({ length: to - from }, (_, at) => `u${String(from + at).padStart(7, '0')}`)
  const parts = [users(0, 150_000), users(100_000, 250_000), users(140_000, 160_000)]
  const files = parts.map((_, at) => ({ key: `k${at}`, date: '2026-11-03' }))
  const made = await Promise.all(
    parts.map(async (values) => {
      const rows = values.length
      const indices = Uint32Array.from(values, (_, at) => at + 1)
      const endUsers = {
        rows,
        hours: new Uint32Array(rows).fill(FROM_MS / HOUR_MS),
        dimensions: { end_user: { values, indices } },
        measures: { calls: new Uint8Array(rows).fill(1) },
        latencies: {},
      }
      const calls = { ...endUsers, rows: 0, hours: new Uint8Array(0), dimensions: {}, measures: {} }
      return Uint8Array.from(await encodeAggregate({ step: 'hour', calls, endUsers }))
    }),
  )
  const answers = new TableAnswers()
  const asked: UsageQuestion = { ...QUESTION, by: ['end_user'], limit: 10_000 }
  for (let round = 0; round < 2; round += 1) {
    const answer = await answers.answer(asked, files, async (place) => made[place]!)
    t.same([answer.groups, answer.total.sums.calls], [250_000, 320_000])
    t.same(
      answer.rows.map(({ values, sums }) => [values[0], sums.calls]),
      users(140_000, 150_000).map((user) => [user, 3]),
    )
  }
})

test('of files without sums few are in memory', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const [rolled] = await rollRecords([EARLIER])
    for (let at = 0; at < 40; at += 1) await lake.put(rolled!.date, `seg_more_${at}`, rolled!)
    const [fromMs, toMs] = [dateMs(rolled!.date), FROM_MS + 48 * HOUR_MS]
    const question = { ...QUESTION, by: ['model'], fromMs, toMs } as const
    const whole = await createUsageReader({ lake, sumUp, answers: new TableAnswers() }).ask(question)
    for await (const { key } of objects.list('aggregate/')) await objects.remove(key)
    let [reading, most] = [0, 0]
    const sumUpOne = async (file: Uint8Array<ArrayBuffer>) => {
      reading += 1
      most = Math.max(most, reading)
      const sums = await sumUp(file)
      reading -= 1
      return sums
    }
    const reader = createUsageReader({ lake, sumUp: sumUpOne, answers: new TableAnswers() })
    t.same(await Promise.all([reader.ask(question), reader.ask(question)]), [whole, whole])
    t.equal(most, 2)
    await objects.close()
  })
})

test('months are listed as a whole where many of their days are asked for', async (t) => {
  const dates = datesBetween(Date.parse('2026-10-29'), Date.parse('2026-12-03'))
  t.same(prefixesOf(dates, usagePrefix), [
    ...['29', '30', '31'].map((day) => `usage/date=2026-10-${day}/`),
    'usage/date=2026-11-',
    'usage/date=2026-12-01/',
    'usage/date=2026-12-02/',
  ])
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const days = await Promise.all(
      dates.slice(0, 20).map((date) => lake.files(dateMs(date), dateMs(date) + 24 * HOUR_MS)),
    )
    const files = await lake.files(dateMs(dates[0]!), dateMs(dates[20]!))
    t.ok(files.length > 1)
    t.same(files, days.flat())
    const sums = await Promise.all(files.map(async (file) => (await lake.aggregates([file]))[0]))
    t.same(await lake.aggregates(files), sums)
    await objects.close()
  })
})

test('a file that is merged away while it is read is looked for again', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const question = { ...QUESTION, by: [] as const }
    let listings = 0
    const racing = {
      files: async (fromMs: number, toMs: number) => {
        listings += 1
        const files = await lake.files(fromMs, toMs)
        if (listings === 1) for (const file of files.slice(0, 1)) await lake.remove(file)
        return files
      },
      aggregates: lake.aggregates.bind(lake),
      fileOf: lake.fileOf.bind(lake),
      read: lake.read.bind(lake),
      readPart: lake.readPart.bind(lake),
    }
    const { total } = await createUsageReader({ lake: racing, sumUp, answers: new TableAnswers() }).ask(
      question,
    )
    t.equal(listings, 2)
    t.ok(total.sums.calls < CALLS.length)
    await objects.close()
  })
})

test('queries of the manual are answered from the records, each job once', async (t) => {
  const manual = await readFile(new URL('../../docs/usage.md', import.meta.url), 'utf8')
  const queries = [...manual.matchAll(/```sql duckdb\n([\s\S]*?)```/g)].map(([, query]) => query!)
  t.ok(queries.length >= 3)
  await withFolder(async (folder) => {
    const { objects } = await lakeIn(folder)
    for (const query of queries) {
      const { code, printed, complained } = await run(folder, [...TIME, '--sql', query, '--json'])
      t.equal(code, 0, `${query}\n${complained}`)
      t.ok((JSON.parse(printed) as unknown[]).length > 0, query)
    }
    const counted = 'SELECT count(*) AS n, sum(cost_usd) AS cost FROM usage'
    const { printed } = await run(folder, [...TIME, '--sql', counted, '--json'])
    const cost = (costOf([...CALLS, JOB]) / 1e6).toFixed(6)
    t.same(JSON.parse(printed), [{ n: String(CALLS.length + 1), cost }])
    const ended = `SELECT epoch_ms(ended_at) AS at FROM usage WHERE kind = 'job'`
    const job = await run(folder, [...TIME, '--sql', ended, '--json'])
    t.same(JSON.parse(job.printed), [{ at: String(JOB.ended_at) }], 'as it was ended last')
    const broken = await run(folder, [...TIME, '--sql', 'SELECT * FROM nothing'])
    t.equal(broken.code, 1)
    t.match(broken.complained, /nothing/)
    await objects.close()
  })
})

test('cells of CSV are quoted, and are no formulas', (t) => {
  t.equal(
    csvLine(['a', 1.5, null, 'b,"c"', '=1+1', '-x', '@a', '\tb', 'a\nb', -3]),
    `a,1.5,,"b,""c""",'=1+1,'-x,'@a,'\tb,"a\nb",-3\r\n`,
  )
  t.end()
})
