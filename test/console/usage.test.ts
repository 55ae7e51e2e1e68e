import t from 'tap'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'
import { putUsage, usageMonth } from './usage-month.ts'

const RECORDS = usageMonth(Date.now(), { perHour: 1 })
const ACME = RECORDS.filter(({ workspace }) => workspace === 'acme')

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

t.test('an answer says whether it tells of all groups, with as many steps as it has', async (t) => {
  for (const step of ['none', 'hour']) {
    const ask = async (limit: number) => {
      const { body } = await admin.get(`/usage?by=key_id&step=${step}&sort=calls&limit=${limit}`)
      const told = new Set((body.data as { key_id: string }[]).map(({ key_id }) => key_id)).size
      return [body.groups, told, body.truncated]
    }
    t.same(await ask(1), [2, 1, true], step)
    t.same(await ask(2), [2, 2, false], step)
  }
  t.ok(sumsIn(await admin.get('/usage?by=key_id&step=hour&limit=1')).length > 2, 'one group has several rows')
  const { limit } = (await admin.get('/usage?by=key_id&step=hour&limit=10000')).body
  t.ok(Number(limit) > 0 && Number(limit) < 10_000, 'whoever pages is told how many groups a page has')
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
