import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setImmediate as turn } from 'node:timers/promises'
import { test } from 'tap'
import { runCommand } from '../../src/cli/commands.ts'
import { GatewayError } from '../../src/contracts/errors.ts'
import { systemClock } from '../../src/contracts/time.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { type AdminActor, workspaceAdmin } from '../../src/gateway/admin/actor.ts'
import { askUsage } from '../../src/gateway/admin/usage.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import {
  GROUPS_MAX,
  isAboutEndUsers,
  stepMs,
  TooManyGroups,
  USAGE_LATENCIES,
  USAGE_MEASURES,
  type UsageAnswer,
  type UsageDimension,
  type UsageLatency,
  type UsageMeasure,
  type UsageQuestion,
  type UsageSums,
} from '../../src/usage/answer.ts'
import { emptyAnswer } from '../../src/usage/answer-sql.ts'
import { csvLine } from '../../src/usage/csv.ts'
import { FileCache } from '../../src/usage/file-cache.ts'
import { dateMs, datesBetween, prefixesOf, type UsageObject, usagePrefix } from '../../src/usage/names.ts'
import { createUsageReader, type UsageReader } from '../../src/usage/reader.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { Dice } from '../support/dice.ts'
import {
  engine,
  failingObjects,
  lakeOf,
  putRecords,
  randomRecord,
  readerOf,
  storedRecords,
} from '../support/usage-lake.ts'

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
  const lake = lakeOf(objects)
  await putRecords(lake, [...CALLS.slice(0, 250), EARLIER], 'seg_0')
  await putRecords(lake, [...CALLS.slice(250), JOB], 'seg_1')
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
    const lake = lakeOf(objects)
    const nobody = { provider: null, model: null, region: null, operation: 'queue', ended_at: FROM_MS }
    const records = [
      usageRecord({ record_id: 'use_1', ended_at: FROM_MS, cost_usd: 5_000_000 }),
      usageRecord({ ...nobody, record_id: 'qj_1', kind: 'job', outcome: 'canceled', cost_usd: 3_000_000 }),
      usageRecord({ ...nobody, record_id: 'use_2', app: 'refused', outcome: 'error', cost_usd: null }),
      usageRecord({ ...nobody, record_id: 'use_3', app: 'free', outcome: 'ok', cost_usd: 0 }),
    ]
    await putRecords(lake, records, 'seg_1')
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
    t.match(cells[0], { BillingAccountId: 'acme', BillingAccountName: 'Acme GmbH', InvoiceId: '' })
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
    const usage = { reader: readerOf(lake), nowMs: () => FROM_MS, completeUntilMs: async () => FROM_MS }
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

test('a workspace that asks much leaves places for others', async (t) => {
  const held: (() => void)[] = []
  const reader: UsageReader = {
    ask: async (question) => {
      await new Promise<void>((resolve) => held.push(resolve))
      return emptyAnswer(question)
    },
  }
  const usage = { reader, nowMs: Date.now, completeUntilMs: async () => 0 }
  const asked = (actor: AdminActor) => askUsage(actor, new Map(), usage)
  const of = (workspace: string): AdminActor => ({
    role: 'admin',
    workspace,
    author: { via: 'api', keyId: 'key_1', name: 'n' },
  })
  const first = Array.from({ length: 8 }, () => asked(of('acme')))
  await turn()
  await t.rejects(asked(of('acme')), { code: 'RATE_LIMITED', extra: { retryAfterMs: 1_000 } })
  const other = asked(of('beta'))
  const operator = asked({ ...of('acme'), role: 'operator' })
  await turn()
  t.equal(held.length, 10, 'another workspace and the operator are answered meanwhile')
  held.shift()?.()
  await first[0]
  const next = asked(of('acme'))
  await turn()
  t.equal(held.length, 10, 'and the next one once one is answered')
  for (const answer of held) answer()
  await Promise.all([...first, other, operator, next])
})

test('an answer tells of the groups that are named, in their order', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const reader = readerOf(lake)
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

/** The same by looking at each record. */
function naive(records: readonly UsageRecord[], question: UsageQuestion): UsageAnswer {
  const { fromMs, toMs, by, where, step, sort, offset, limit } = question
  const textOf = (record: UsageRecord, name: UsageDimension) =>
    record[name] === null ? null : String(record[name])
  const meant = records
    .filter(({ ended_at: ms }) => ms >= fromMs && ms < toMs)
    .filter((record) =>
      Object.entries(where).every(([name, values]) =>
        values.includes(textOf(record, name as UsageDimension)),
      ),
    )
  const groups = [...Map.groupBy(meant, (record) => JSON.stringify(by.map((name) => textOf(record, name))))]
  const sorted = groups
    .map(([values, own]) => ({ values: JSON.parse(values) as (string | null)[], own }))
    .sort((a, b) => {
      const difference = sumsOf(b.own)[sort] - sumsOf(a.own)[sort]
      const at = a.values.findIndex((value, place) => value !== b.values[place])
      return difference || ((a.values[at] ?? '') < (b.values[at] ?? '') ? -1 : 1)
    })
    .slice(offset, offset + limit)
  const length = step === 'none' ? 0 : stepMs(step)
  const rows = sorted.flatMap(({ values, own }) => {
    const steps = Map.groupBy(own, ({ ended_at: ms }) => (length === 0 ? null : ms - (ms % length)))
    return [...steps]
      .sort(([a], [b]) => Number(a) - Number(b))
      .map(([timeMs, some]) => ({ timeMs, values, ...toldOf(some, question) }))
  })
  return { groups: groups.length, rows, total: toldOf(meant, question) }
}

function sumsOf(records: readonly UsageRecord[]): UsageSums['sums'] {
  const counted: Partial<Record<UsageMeasure, (record: UsageRecord) => boolean>> = {
    calls: () => true,
    errors: ({ outcome }) => outcome === 'error',
    unpriced: ({ outcome, cost_usd, replayed }) => outcome === 'ok' && cost_usd === null && !replayed,
    estimated: ({ estimated }) => estimated,
    replayed: ({ replayed }) => replayed,
  }
  const sums = USAGE_MEASURES.map((name) => {
    const isCounted = counted[name]
    const value = (record: UsageRecord) =>
      isCounted === undefined ? Number(record[name as 'cost_usd'] ?? 0) : Number(isCounted(record))
    return [name, records.reduce((sum, record) => sum + value(record), 0)]
  })
  return Object.fromEntries(sums) as UsageSums['sums']
}

/** Percentiles are of the nearest rank, and told to 3.2 %. */
function toldOf(records: readonly UsageRecord[], question: UsageQuestion): UsageSums {
  const percentilesOf = (name: UsageLatency) => {
    const all = records.flatMap((record) => record[name] ?? []).sort((a, b) => a - b)
    const at = (share: number) => all[Math.max(1, Math.ceil(share * all.length)) - 1]!
    return all.length === 0 ? null : { p50: at(0.5), p95: at(0.95), p99: at(0.99) }
  }
  const isTold = question.sumsOnly !== true && !isAboutEndUsers(question)
  const latencies = isTold
    ? Object.fromEntries(USAGE_LATENCIES.map((name) => [name, percentilesOf(name)]))
    : {}
  return { sums: sumsOf(records), latencies }
}

/** Percentiles of an answer, told as exactly as those of another that they are near enough to. */
function rounded(answer: UsageAnswer, exact: UsageAnswer): UsageAnswer {
  const near = (told: UsageSums, wanted: UsageSums | undefined): UsageSums => {
    const latencies = Object.entries(told.latencies).map(([name, own]) => {
      const other = wanted?.latencies[name as UsageLatency] ?? null
      const isNear =
        own !== null &&
        other !== null &&
        (['p50', 'p95', 'p99'] as const).every(
          (share) => Math.abs(own[share] - other[share]) <= other[share] / 31,
        )
      return [name, isNear ? other : own]
    })
    return { ...told, latencies: Object.fromEntries(latencies) }
  }
  const rows = answer.rows.map((row, at) => ({ ...row, ...near(row, exact.rows[at]) }))
  return { ...answer, rows, total: near(answer.total, exact.total) }
}

const QUESTIONS: readonly Partial<UsageQuestion>[] = [
  {},
  { step: 'day', sumsOnly: true },
  { by: ['outcome'], step: 'hour' },
  { by: ['status', 'outcome'], step: 'hour', where: { workspace: ['ws-1'] } },
  { by: [], where: { provider: ['openai'], kind: ['call', 'job'] }, fromMs: FROM_MS + HOUR_MS },
  { by: ['key_id'], where: { workspace: ['ws-1', 'ws-2'] } },
  { by: ['app', 'model'], step: 'day', sort: 'cost_usd', offset: 3, limit: 4 },
  { by: ['error_code'], where: { outcome: ['error'], region: [null] } },
  { by: ['status'], where: { status: ['502'], region: [null, 'eu'] } },
  { by: ['end_user'], where: { workspace: ['ws-3'] }, sort: 'cost_usd' },
  { by: ['end_user', 'workspace'], step: 'day', where: { end_user: ['user-1-ü', 'user-2-ü'] } },
  { by: ['workspace'], where: { end_user: ['user-1-ü'], workspace: ['nowhere'] } },
  { by: ['model'], where: { workspace: ["'; DROP TABLE told; --"] } },
]

test('answers are those of a look at each record', async (t) => {
  const dice = new Dice(9)
  const records = Array.from({ length: 3_000 }, (_, at) => ({
    ...randomRecord(dice, `use_${at}`, { fromMs: FROM_MS, toMs: FROM_MS + 48 * HOUR_MS }),
    ended_at: FROM_MS + dice.below(48 * HOUR_MS),
    key_id: `key_${dice.below(500)}`,
    total_ms: dice.one([3, 200, 255, 256, 4_000, 70_000, 3_000_000, 200_000_000]) + dice.below(90),
  }))
  await withFolder(async (folder) => {
    const objects = await createFileObjects(folder)
    const lake = lakeOf(objects)
    for (let at = 0; at < 3; at += 1)
      await putRecords(lake, records.slice(at * 1_000, at * 1_000 + 1_000), `seg_${at}`)
    const questions = QUESTIONS.map((some) => ({ ...QUESTION, ...some }))
    const reader = readerOf(lake)
    const answers = await Promise.all(questions.map((question) => reader.ask(question)))
    for (const [at, question] of questions.entries()) {
      const exact = naive(records, question)
      t.same(rounded(answers[at]!, exact), exact, JSON.stringify(QUESTIONS[at]))
    }
    const none = { ...QUESTION, fromMs: FROM_MS - 48 * HOUR_MS, toMs: FROM_MS }
    t.same(await readerOf(lake).ask(none), naive([], none), 'without a file')
    await objects.close()
  })
})

test('a question of too many groups is refused', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const [file] = await lake.files(FROM_MS, FROM_MS + 24 * HOUR_MS)
    const path = join(folder, 'usage', `date=${file!.date}`, 'seg_many.parquet')
    const many = `SELECT * REPLACE ('user-' || range AS end_user) FROM
      (FROM read_parquet('${objects.fileOf(file!.key)}', hive_partitioning = false) LIMIT 1), range(${GROUPS_MAX + 1})`
    await engine.run([
      { sql: `COPY (SELECT * EXCLUDE (range) FROM (${many})) TO '${path}' (FORMAT parquet)` },
    ])
    const asked = readerOf(lake).ask({ ...QUESTION, by: ['end_user'] })
    t.ok((await asked.catch((error: unknown) => error)) instanceof TooManyGroups)
    await objects.close()
  })
})

test('files of a bucket are fetched once, as long as there is room for them', async (t) => {
  await withFolder(async (folder) => {
    const { lake, objects } = await lakeIn(folder)
    const { store, failing } = failingObjects(objects)
    const files = await lake.files(FROM_MS, FROM_MS + 48 * HOUR_MS)
    const whole = await readerOf(lake).ask(QUESTION)
    const far = lakeOf(store)
    const askedBy = async (reader: UsageReader) => {
      const before = failing.calls
      t.same(await reader.ask(QUESTION), whole)
      return failing.calls - before
    }
    const first = await askedBy(readerOf(far))
    t.equal(first - (await askedBy(readerOf(far))), files.length)
    const cache = new FileCache(store, () => engine.folder(), systemClock, files[0]!.bytes)
    const fetched = async (some: readonly UsageObject[]) => {
      const before = failing.calls
      const { paths, release } = await cache.hold(some)
      for (const [at, path] of paths.entries()) t.equal((await stat(path)).size, some[at]!.bytes)
      release()
      return failing.calls - before
    }
    t.equal(await fetched(files), files.length, 'a question has all of its files at once')
    t.equal(await fetched(files.slice(-1)), 0, 'the last one was kept')
    t.equal(await fetched(files.slice(0, 1)), 1, 'others have gone')
    failing.isAway = true
    await t.rejects(cache.hold(files), { code: 'DEPENDENCY_UNAVAILABLE' })
    failing.isAway = false
    t.equal(
      await fetched(files.slice(1)),
      files.length - 1,
      'a file that could not be fetched is fetched again',
    )
    await rm(await engine.folder(), { recursive: true })
    t.equal(await fetched(files.slice(-1)), 1, 'as is one that was cleared away')
    await t.rejects(
      cache.hold([{ key: 'usage/huge', bytes: 2 ** 60 }]),
      { code: 'OVERLOADED' },
      'the disk is kept free',
    )
    await objects.close()
  })
})

test('files of earlier versions are read', async (t) => {
  const objects = await createFileObjects(new URL('./older-files', import.meta.url).pathname)
  const lake = lakeOf(objects)
  const day = { fromMs: FROM_MS, toMs: FROM_MS + 48 * HOUR_MS }
  const files = await lake.files(day.fromMs, day.toMs)
  const records = await storedRecords(lake, files)
  t.ok(records.length > 100)
  for (const some of [
    { by: ['app', 'model'], step: 'hour' },
    { by: ['end_user'], sort: 'cost_usd' },
  ] as const) {
    const question = { ...QUESTION, ...some, limit: 1_000 }
    const exact = naive(records, question)
    t.same(rounded(await readerOf(lake).ask(question), exact), exact, String(some.by))
  }
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
      hold: lake.hold.bind(lake),
    }
    const { total } = await createUsageReader({ lake: racing, engine }).ask(question)
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
