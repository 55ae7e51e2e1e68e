import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { foreseenLog, foreseenQuestion, foreseenUsage } from '../../src/console/server/foreseen.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { createFileObjects } from '../../src/storage/folder.ts'
import { UsageLake } from '../../src/usage/lake.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'
import { rollRecords } from '../support/usage-lake.ts'
import { putUsage, usageMonth } from '../support/usage-month.ts'

const RECORDS = usageMonth(Date.now(), { perHour: 1 })
const ACME = RECORDS.filter(({ workspace }) => workspace === 'acme')

const HOUR_MS = 3_600_000
interface Sums {
  readonly calls: number
  readonly errors: number
  readonly cost_usd: number
  readonly [name: string]: unknown
}
const sumsIn = ({ body }: Told) => body.data as readonly Sums[]
const totalIn = ({ body }: Told) => body.total as Sums
const microsOf = (records: readonly UsageRecord[]) =>
  records.reduce((sum, { cost_usd }) => sum + (cost_usd ?? 0), 0)
const codeIn = ({ body }: Told) => body.error as { code: string; param?: string }
/** The part that is the same for two questions of one kind. */
const without = ({ text, headers }: Told) =>
  text.replaceAll(headers.get('x-lk-request-id') ?? '-', 'ID').replaceAll(/"[^"]+T[^"]+Z"/g, '"time"')

const linesOf = ({ text }: Told) => text.trim().split('\r\n')
const sumOf = (lines: readonly string[], column: number) =>
  lines.reduce((sum, line) => sum + Number(line.split(',')[column]), 0)

let node: ConsoleNode
let operator: Visitor
let admin: Visitor

t.before(async () => {
  node = await startConsoleNode(t, { env: { LARKWAY_USAGE: 'true' } })
  await putUsage(node.dataFolder, RECORDS)
  operator = await node.signIn(node.keys.operator)
  admin = await node.signIn(node.keys.admin)
})

t.test('an admin is told of the own workspace, to the micro-dollar', async (t) => {
  const told = await admin.get('/usage?by=app&from=2020-01-01&to=2020-01-02')
  t.match(told, { status: 200, body: { data: [], total: { calls: 0 }, is_recorded: true } })
  const all = await admin.get('/usage?by=app')
  t.equal(totalIn(all).calls, ACME.length)
  t.equal(Math.round(totalIn(all).cost_usd * 1e6), microsOf(ACME))
  for (const { app, calls, errors, cost_usd } of sumsIn(all)) {
    const own = ACME.filter((record) => record.app === app)
    const failed = own.filter(({ outcome }) => outcome === 'error').length
    t.same([calls, errors, Math.round(cost_usd * 1e6)], [own.length, failed, microsOf(own)], String(app))
  }
  t.same(totalIn(await admin.get('/usage?workspace=acme')), totalIn(all))
  t.same(
    sumsIn(await admin.get('/usage?by=workspace')).map(({ workspace }) => workspace),
    ['acme'],
  )
  const days = sumsIn(await admin.get('/usage?step=day&by=provider&provider=openai'))
  t.ok(
    days.length > 10 && days.every(({ provider, time }) => provider === 'openai' && typeof time === 'string'),
  )
})

t.test('a status is a number, as in the log', async (t) => {
  const known = new Set(ACME.map(({ status }) => status))
  const told = sumsIn(await admin.get('/usage?by=status')).map(({ status }) => status)
  t.strictSame(new Set(told), known)
  const [one] = sumsIn(await admin.get('/usage?by=status,app&status=502'))
  t.strictSame(one?.status, 502)
})

t.test('another workspace is one that does not exist', async (t) => {
  const nowhere = await admin.get('/usage?workspace=nowhere')
  t.match(nowhere, { status: 404, body: { error: { code: 'NOT_FOUND' } } })
  t.equal(without(await admin.get('/usage?workspace=other')), without(nowhere))
  t.equal((await admin.get('/usage?workspace=other&format=csv')).status, 404)
  t.equal((await admin.get('/usage?workspace=')).status, 400)
  t.equal((await operator.get('/usage?workspace=nowhere')).status, 404)
  const ask = (key: string) => admin.get(`/usage?key_id=${key}&by=key_id`)
  const foreign = await ask('key_foreignAdmin')
  t.match(foreign.body, { data: [], total: { calls: 0 }, names: {} })
  t.equal(without(foreign), without(await ask('key_unknown')), 'a key of another has no name')
  t.equal(
    without(await admin.get('/usage?key_id=key_foreignAdmin')),
    without(await admin.get('/usage?key_id=x')),
  )
  t.equal((await node.ask('/usage')).status, 401)
})

t.test('an operator is told of all, and ranks workspaces', async (t) => {
  const told = await operator.get('/usage?by=workspace&sort=calls')
  const rows = sumsIn(told).map(({ workspace, calls }) => [workspace, calls])
  t.same(rows, [
    ['acme', ACME.length],
    ['other', RECORDS.length - ACME.length],
  ])
  t.equal(totalIn(told).calls, RECORDS.length)
  t.equal(totalIn(await operator.get('/usage?workspace=acme')).calls, ACME.length)
})

t.test('keys have names', async (t) => {
  const told = await admin.get('/usage?by=key_id')
  t.same(told.body.names, { key_admin: 'admin', key_app: 'app' })
  t.same((await admin.get('/usage?by=model&key_id=key_app')).body.names, { key_app: 'app' })
  t.same((await admin.get('/usage?by=model')).body.names, {})
})

t.test('the same as a file', async (t) => {
  const told = await admin.get('/usage?by=model&step=day&format=csv')
  t.equal(told.headers.get('content-type'), 'text/csv; charset=utf-8')
  t.match(told.headers.get('content-disposition'), /^attachment; filename="usage-[\d-]+-[\d-]+\.csv"$/)
  t.equal(told.headers.get('cache-control'), 'no-store')
  const [head, ...lines] = linesOf(told)
  t.match(head, /^time,model,groups,calls,errors,/)
  t.equal(sumOf(lines, 3), ACME.length)
  const keys = linesOf(await admin.get('/usage?by=app,key_id&format=csv'))
  t.match(keys[0], /^app,key_id,key_name,groups,calls,/)
  t.ok(
    keys.slice(1).every((line) => /^\w+,key_(\w+),\1,1,/.test(line)),
    'keys have their names',
  )
  t.equal(sumOf(keys.slice(1), 4), ACME.length)
  t.equal(linesOf(await admin.get('/usage?format=csv')).length, 2, 'of all groups together')
})

t.test('what a view will ask about is known by its address', async (t) => {
  const nowMs = Date.parse('2026-11-22T10:30:00Z')
  const at = (address: string) => {
    const [path = '', query = ''] = address.split('?')
    const foreseen = foreseenQuestion({ path, query }, nowMs)
    if (foreseen === null) return null
    const { fromMs, toMs, step, by, where } = foreseen.question
    const times = [fromMs, toMs].map((ms) => new Date(ms).toISOString().slice(0, 13))
    return [foreseen.workspace, ...times, step, by.join(), where]
  }
  const acme = { workspace: ['acme'] }
  t.same(at('/console/acme/overview?range=7d'), [
    ...['acme', '2026-11-16T00', '2026-11-22T11', 'hour', 'outcome'],
    { kind: ['call'], ...acme },
  ])
  t.match(at('/console/providers/a%20b'), [
    null,
    '2026-10-24T00',
    '2026-11-22T11',
    'day',
    '',
    { provider: ['a b'] },
  ])
  const usage = (address: string) => {
    const [path = '', query = ''] = address.split('?')
    const foreseen = foreseenUsage({ path, query }, nowMs)
    if (foreseen === null) return null
    const fields = foreseen.queries.map((text) => Object.fromEntries(new URLSearchParams(text)))
    const [{ limit: _, step, ...table } = {}, parts, whole] = fields
    t.equal(step, 'none')
    t.match(parts, { by: table.by, from: table.from, to: table.to })
    t.match(whole, { by: undefined, step: parts?.step, sort: table.sort })
    return [foreseen.workspace, parts?.step, table]
  }
  const month = { from: '2026-10-24', to: '2026-11-22T11:00Z', sort: 'cost_usd' }
  t.same(usage('/console/acme/usage'), ['acme', 'day', { ...month, by: 'model', workspace: 'acme' }])
  t.same(usage('/console/usage?range=24h&by=app'), [
    ...[null, 'hour'],
    { ...month, from: '2026-11-21T11:00Z', by: 'app' },
  ])
  t.same(usage('/console/~usage/usage?by=end_user'), [
    ...['usage', 'day'],
    { ...month, by: 'end_user', workspace: 'usage' },
  ])
  t.same(usage('/console/acme/usage?range=7d&provider=a%20b&outcome=~none&by=route&show=errors'), [
    ...['acme', 'day'],
    {
      from: '2026-11-16',
      to: month.to,
      sort: 'errors',
      by: 'route',
      provider: 'a b',
      outcome: '',
      workspace: 'acme',
    },
  ])
  t.same(usage('/console/usage?from=2026-11-03&to=2026-11-04&workspace=beta&end_user=ann'), [
    ...['beta', 'day'],
    {
      from: '2026-11-03',
      to: '2026-11-04',
      sort: 'cost_usd',
      by: 'workspace',
      workspace: 'beta',
      end_user: 'ann',
    },
  ])
  const log = (address: string) => {
    const [path = '', query = ''] = address.split('?')
    const foreseen = foreseenLog({ path, query }, nowMs)
    return (
      foreseen && [
        foreseen.workspace,
        foreseen.record,
        Object.fromEntries(new URLSearchParams(foreseen.query)),
      ]
    )
  }
  const week = { from: '2026-11-15T11:00:00.000Z' }
  t.same(log('/console/acme/requests?tab=log&end_user=ann&status=5xx'), [
    ...['acme', null],
    { workspace: 'acme', ...week, end_user: 'ann', status: '5xx' },
  ])
  t.same(log('/console/requests'), [null, null, week], 'of all workspaces')
  t.same(log('/console/requests?workspace=beta'), ['beta', null, { workspace: 'beta', ...week }])
  t.same(log('/console/acme/requests/log/use_1?tab=log&range=all'), ['acme', 'use_1', { workspace: 'acme' }])
  for (const address of [
    '/acme/requests',
    '/acme/requests/req_1',
    '/acme/requests/log',
    '/acme/usage?tab=log',
  ])
    t.equal(log(`/console${address}`), null, address)
  for (const address of ['', '/acme', '/acme/overview', '/acme/keys', '/usages', '/acme/providers', '/%'])
    t.equal(at(`/console${address}`), null, address)
})

t.test('rows have the figures that were asked for, and the total has all', async (t) => {
  const all = await admin.get('/usage?by=app&sort=calls')
  const some = await admin.get('/usage?by=app&sort=calls&figures=calls,total_ms')
  t.same(
    sumsIn(some),
    sumsIn(all).map(({ app, calls, total_ms }) => ({ app, calls, total_ms })),
  )
  t.same(totalIn(some), totalIn(all))
})

t.test('a long answer is compressed, too', async (t) => {
  const path = '/usage?by=model,outcome&step=hour&workspace=acme'
  const { length } = sumsIn(await operator.get(path))
  t.ok(length > 400, `${length} rows are written in turns`)
  const answer = await fetch(`${node.url}/console/api${path}`, {
    headers: { cookie: operator.cookie, 'accept-encoding': 'gzip' },
  })
  t.equal(answer.headers.get('content-encoding'), 'gzip')
  t.equal(((await answer.json()) as { data: unknown[] }).data.length, length)
})

t.test('what makes no question is refused by the name of the parameter', async (t) => {
  for (const [query, param] of [
    ['by=colour', 'by'],
    ['step=week', 'step'],
    ['from=yesterday', 'from'],
    ['limit=0', 'limit'],
    ['format=xml', 'format'],
    ['format=csv&limit=5', 'limit'],
    ['format=csv&offset=5', 'offset'],
    ['format=csv&figures=calls', 'figures'],
    ['figures=calls,app', 'figures'],
    ['colour=red', 'colour'],
    ['by=app&by=model', 'by'],
    ['by=end_user,app', 'app'],
  ] as const) {
    const told = await admin.get(`/usage?${query}`)
    t.match([told.status, codeIn(told)], [400, { code: 'INVALID_REQUEST', param }], query)
  }
  const users = await admin.get('/usage?by=end_user&step=day')
  t.equal(users.status, 200)
  t.ok(sumsIn(users).length > 5)
  const whole = await admin.get('/usage?step=day')
  t.equal(totalIn(users).calls, totalIn(whole).calls, 'calls without an end user are a row')
  const unnamed = ACME.filter(({ end_user }) => end_user === null).length
  t.ok(unnamed > 0)
  t.match(sumsIn(await admin.get('/usage?by=end_user&end_user=')), [{ end_user: null, calls: unnamed }])
  const csv = linesOf(await admin.get('/usage?by=end_user&format=csv'))
  t.equal(sumOf(csv.slice(1), csv[0]!.split(',').indexOf('calls')), ACME.length)
})

t.test('a node without a ledger says so, and tells what others have kept', async (t) => {
  const silent = await startConsoleNode(t)
  const visitor = await silent.signIn(silent.keys.admin)
  t.match((await visitor.get('/usage?by=app')).body, { is_recorded: false, groups: 0 })
  t.match(await visitor.get('/log'), { status: 200, body: { is_recorded: false, records: [], next: null } })
  await putUsage(silent.dataFolder, RECORDS.slice(0, 50))
  const told = await visitor.get('/usage')
  t.match(told.body, { is_recorded: false })
  t.ok(totalIn(told).calls > 0)
})

t.test('what a view asks is begun before it does, and given once', async (t) => {
  const objects = await createFileObjects(node.dataFolder)
  const lake = new UsageLake(objects)
  const ended_at = Date.now() - 24 * HOUR_MS
  let put = 0
  const putOne = async () => {
    put += 1
    const one = usageRecord({ record_id: `use_ahead_${put}`, workspace: 'acme', app: 'ahead', ended_at })
    const [rolled] = await rollRecords([one])
    await lake.put(rolled!.date, `seg_ahead_${put}`, rolled!)
  }
  const view = '?by=app&show=calls'
  const questions = () => {
    const foreseen = foreseenUsage({ path: '/console/acme/usage', query: view.slice(1) }, Date.now())
    return foreseen!.queries.map((query) => `/usage?${query}`)
  }
  const countIn = (told: Told) => sumsIn(told).find(({ app }) => app === 'ahead')?.calls ?? 0
  await putOne()
  /** True if answers know nothing of records put after a visitor had opened the page. */
  const isBegun = async (visitor: Visitor) => {
    const headers = { cookie: visitor.cookie }
    await (await fetch(`${node.url}/console/acme/usage${view}`, { headers })).text()
    await sleep(200)
    const before = put
    await putOne()
    const [table = '', parts = '', whole = ''] = questions()
    const told = await admin.get(table)
    if (countIn(told) !== before) return false
    const rest = await Promise.all([admin.get(parts), admin.get(whole)])
    const calls = rest.map((one) => totalIn(one).calls)
    t.same(calls, [totalIn(told).calls, totalIn(told).calls], 'all of a view are of one listing')
    t.equal(countIn(await admin.get(table)), put, 'the next answer is a new one')
    return true
  }
  let tries = 0
  while (!(await isBegun(admin)) && tries < 50) tries += 1
  t.ok(tries < 50, 'by whoever may see it')
  const foreign = await node.signIn(node.keys.foreignAdmin)
  for (let n = 0; n < 3; n += 1) t.notOk(await isBegun(foreign), 'and by no one else')
  await objects.close()
})
