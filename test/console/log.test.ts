import t, { type Test } from 'tap'
import { firstJobId, newId } from '../../src/contracts/ids.ts'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { Issues, issueLines } from '../../src/gateway/catalog/issues.ts'
import { resolveTraceUrl } from '../../src/gateway/catalog/sign-in.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { usageRecord } from '../support/chat-usage.ts'
import { type ConsoleNode, startConsoleNode, type Told, type Visitor } from '../support/console-node.ts'
import { lakeOf, putRecords } from '../support/usage-lake.ts'

const HOUR_MS = 3_600_000
const NOW_MS = Date.now()
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736'
/** As it was made then. */
const REQUEST = `req_${firstJobId('tj', NOW_MS - 201 * 60_000).slice('tj_'.length)}av6pb3bq4bsmpqqs`

/** A record of a workspace that ended some minutes ago. */
function record(number: number, over: Partial<UsageRecord> = {}): UsageRecord {
  const endedAt = NOW_MS - number * 60_000
  return usageRecord({
    record_id: `use_${String(number).padStart(4, '0')}`,
    request_id: `mine.${number}`,
    app: 'web',
    key_id: 'key_app',
    ended_at: endedAt,
    started_at: endedAt - 500,
    ...over,
  })
}

const FAILED = {
  status: 502,
  outcome: 'error',
  error_code: 'UPSTREAM_ERROR',
  error_param: 'model',
  attempts: 2,
  attempt_reasons: 'ill/a/b=c=the server failed,openai/gpt-4o-mini=it is overloaded',
} as const

const RECORDS: readonly UsageRecord[] = [
  ...Array.from({ length: 120 }, (_, at) => record(at, at % 10 === 0 ? FAILED : {})),
  record(200, { request_id: REQUEST, trace_id: TRACE, total_ms: 9_000, cost_usd: 1_500_000, app: '=1+1' }),
  record(201, { record_id: 'tj_1', job_id: 'tj_1', kind: 'job', status: null, endpoint: 'transcription' }),
  record(202, { key_id: 'pgk_01k9z0000000000000000000ab' }),
  record(60 * 24 * 40),
  ...Array.from({ length: 5 }, (_, at) => record(at, { record_id: `use_other_${at}`, workspace: 'other' })),
]
async function startNode(t: Test): Promise<ConsoleNode> {
  const config = (same: object) => ({
    ...same,
    console: { trace_url: 'https://traces.example.com/trace/{trace_id}?from=larkway' },
  })
  const node = await startConsoleNode(t, { config, env: { LARKWAY_USAGE: 'true' } })
  const objects = await createFileObjects(node.dataFolder)
  await putRecords(lakeOf(objects), RECORDS, 'seg_1')
  return node
}

interface Page {
  readonly records: readonly (Readonly<Record<string, unknown>> & { readonly record_id: string })[]
  readonly next: string | null
  readonly total: number | null
  readonly searched: { readonly from: string; readonly to: string }
}
const pageOf = ({ body }: Told) => body as unknown as Page
const idsIn = (told: Told) => pageOf(told).records.map(({ record_id: id }) => id)
const paramOf = ({ body }: Told) => (body.error as { param?: string } | undefined)?.param

t.test('the log of a node', async (t) => {
  const node = await startNode(t)
  const admin = await node.signIn(node.keys.admin)
  const foreign = await node.signIn(node.keys.foreignAdmin)
  const operator = await node.signIn(node.keys.operator)
  await t.test('lists, filters and pages', (t) => list(t, admin))
  await t.test('lists rows for the page', (t) => rows(t, { admin, foreign }))
  await t.test('finds by an id', (t) => search(t, admin))
  await t.test('shows one with those next to it', (t) => one(t, admin))
  await t.test('tells no one of others', (t) => tenancy(t, { admin, foreign, operator }))
  await t.test('exports', (t) => exports(t, { admin, foreign, operator }))
  await t.test('answers keys, too', async (t) => {
    const ask = async (key: string, path: string) => {
      const answer = await fetch(`${node.url}/v1/admin${path}`, {
        headers: { authorization: `Bearer ${key}` },
      })
      return [answer.status, ((await answer.json()) as Partial<Page>).records?.length]
    }
    t.same(await ask(node.keys.admin, '/log?limit=3'), [200, 3])
    t.same(await ask(node.keys.foreignAdmin, '/log'), [200, 5])
    t.same(await ask(node.keys.foreignAdmin, '/log?workspace=acme'), [404, undefined])
    t.same(await ask(node.keys.app, '/log'), [403, undefined])
    t.same(
      await ask(node.keys.admin, '/log-rows'),
      [404, undefined],
      'what the page shows is not for programs',
    )
  })
})

async function list(t: Test, admin: Visitor): Promise<void> {
  const own = RECORDS.filter(({ workspace, key_id: key }) => workspace === 'acme' && !key.startsWith('pgk_'))
  const newest = own.toSorted((a, b) => b.ended_at - a.ended_at).map(({ record_id: id }) => id)
  const first = await admin.get('/log')
  t.equal(first.status, 200, first.text)
  t.same(idsIn(first), newest.slice(0, 50))
  const all = [...idsIn(first)]
  for (let next = pageOf(first).next; next !== null; ) {
    const page = await admin.get(`/log?after=${encodeURIComponent(next)}`)
    all.push(...idsIn(page))
    next = pageOf(page).next
  }
  t.same(all, newest, 'page by page')
  const hour = new Date(Math.floor(NOW_MS / HOUR_MS) * HOUR_MS - 30 * 24 * HOUR_MS).toISOString()
  t.equal(pageOf(await admin.get(`/log?from=${hour}`)).total, own.length - 1, 'how many there are')
  t.equal(pageOf(await admin.get(`/log?from=${hour}&status=5xx`)).total, 12)
  t.equal(pageOf(await admin.get(`/log?from=${hour}&min_ms=1`)).total, null)
  for (const [query, count] of [
    ['outcome=error', 12],
    ['status=502', 12],
    ['status=5xx', 12],
    ['status=4xx', 0],
    ['error_code=UPSTREAM_ERROR', 12],
    ['app=%3D1%2B1', 1],
    ['min_ms=9000', 1],
    ['min_cost_usd=1.5', 1],
    ['min_cost_usd=1.500001', 0],
    ['kind=job', 1],
    ['key_id=pgk_01k9z0000000000000000000ab', 1],
    ['error_code=', 111],
    ['model=none', 0],
    ['playground=true&limit=200', 124],
    [`from=${NOW_MS - 5 * 60_000}`, 6],
    [`to=${NOW_MS - 119 * 60_000 + 1}&from=0`, 4],
  ] as const) {
    const told = await admin.get(`/log?limit=200&${query}`.replace('limit=200&playground', 'playground'))
    t.equal(idsIn(told).length, count, query)
  }
  for (const query of [
    'limit=0',
    'limit=201',
    'status=99',
    'min_ms=-1',
    'min_cost_usd=x',
    'after=x',
    'from=soon',
  ])
    t.match(
      await admin.get(`/log?${query}`),
      { status: 400, body: { error: { param: query.split('=')[0] } } },
      query,
    )
  t.equal(paramOf(await admin.get('/log?format=csv&limit=3')), 'limit')
  t.equal(paramOf(await admin.get('/log?nope=1')), 'nope')
}

/** Fields of a record in the page's list. */
const ROW_FIELDS = [
  ...['record_id', 'kind', 'ended_at', 'workspace', 'app', 'key_id', 'key_name', 'endpoint', 'provider'],
  ...['model', 'attempts', 'tries', 'outcome', 'status', 'error_code', 'cache', 'cost_usd', 'total_ms'],
]

async function rows(t: Test, { admin, foreign }: { readonly admin: Visitor; readonly foreign: Visitor }) {
  for (const filter of ['limit=200&from=0', 'outcome=error', 'kind=job', 'end_user=', 'limit=3']) {
    const query = `${filter}&to=${NOW_MS}`
    const [whole, told] = [await admin.get(`/log?${query}`), await admin.get(`/log-rows?${query}`)]
    const { records, ...page } = pageOf(whole)
    const picked = records.map((one) => Object.fromEntries(ROW_FIELDS.map((name) => [name, one[name]])))
    t.ok(picked.length > 0, query)
    t.same(told.body, { ...page, records: picked }, query)
  }
  t.equal(paramOf(await admin.get('/log-rows?format=csv')), 'format')
  t.equal((await foreign.get('/log-rows?workspace=acme')).status, 404)
  t.same(idsIn(await foreign.get('/log-rows')), idsIn(await foreign.get('/log')))
}

async function search(t: Test, admin: Visitor): Promise<void> {
  for (const [id, found] of [
    [REQUEST, 'use_0200'],
    [TRACE, 'use_0200'],
    ['tj_1', 'tj_1'],
    ['mine.7', 'use_0007'],
    ['use_0007', 'use_0007'],
    ['mine.57600', 'use_57600'],
  ] as const) {
    const told = await admin.get(`/log?id=${id}`)
    t.same(idsIn(told), [found], id)
  }
  const nothing = await admin.get(`/log?id=${newId('req')}`)
  t.same([idsIn(nothing), pageOf(nothing).next], [[], null])
  t.ok(Date.parse(pageOf(nothing).searched.from) < NOW_MS, 'and says where it looked')
  const [record] = pageOf(await admin.get(`/log?id=${TRACE}`)).records
  t.match(record, {
    trace_url: `https://traces.example.com/trace/${TRACE}?from=larkway`,
    cost_usd: 1.5,
    key_name: 'app',
    tries: [{ provider: 'openai', model: 'gpt-4o-mini', reason: 'ok' }],
  })
}

async function one(t: Test, admin: Visitor): Promise<void> {
  const told = await admin.get('/log/use_0010')
  t.match(told.body, {
    record: {
      error_param: 'model',
      error_message: 'every eligible provider failed',
      tries: [
        { provider: 'ill', model: 'a/b=c', reason: 'the server failed' },
        { provider: 'openai', model: 'gpt-4o-mini', reason: 'it is overloaded' },
      ],
    },
    newer: 'use_0009',
    older: 'use_0011',
  })
  t.match((await admin.get('/log/use_0010?outcome=error')).body, { newer: 'use_0000', older: 'use_0020' })
  t.match((await admin.get('/log/use_0000?outcome=error')).body, { newer: null, older: 'use_0010' })
  t.match((await admin.get('/log/use_57600')).body, { newer: 'tj_1', older: null })
  t.match((await admin.get('/log/use_0007?id=mine.7')).body, { newer: null, older: null })
  // A link may lead to a record that the range of the list does not have.
  const minutesAgo = (minutes: number) => new Date(NOW_MS - minutes * 60_000).toISOString()
  const outOf = async (id: string, range: string) => (await admin.get(`/log/${id}?${range}`)).body
  t.match(await outOf('use_0100', `from=${minutesAgo(30)}`), { newer: 'use_0099', older: 'use_0101' })
  t.match(await outOf('use_0010', `to=${minutesAgo(30)}`), { newer: 'use_0009', older: 'use_0011' })
  t.equal((await admin.get('/log/use_9999')).status, 404)
}

interface Visitors {
  readonly admin: Visitor
  readonly foreign: Visitor
  readonly operator: Visitor
}

async function tenancy(t: Test, { admin, foreign, operator }: Visitors): Promise<void> {
  t.same(idsIn(await foreign.get('/log')).length, 5)
  const nowhere = await foreign.get('/log?workspace=nowhere')
  const abroad = await foreign.get('/log?workspace=acme')
  t.equal(abroad.status, 404)
  t.same(
    { ...(abroad.body.error as object), request_id: '' },
    { ...(nowhere.body.error as object), request_id: '' },
  )
  for (const id of ['use_0010', REQUEST, TRACE, 'mine.7']) {
    t.same(idsIn(await foreign.get(`/log?id=${id}`)), [], id)
    t.equal((await foreign.get(`/log/${id}`)).status, 404, id)
  }
  t.equal((await admin.get('/log/use_other_1')).status, 404)
  // The cursor is a place in time, and opens nothing.
  t.same(idsIn(await foreign.get(`/log?after=${NOW_MS}.use_zzzz`)).length, 5)
  const all = await operator.get('/log?limit=10')
  t.same(new Set(pageOf(all).records.map(({ workspace }) => workspace)), new Set(['acme', 'other']))
  t.equal(idsIn(await operator.get('/log?workspace=other')).length, 5)
  t.equal((await operator.get('/log/use_other_1?workspace=acme')).status, 404)
  t.equal((await operator.get('/log/use_other_1')).status, 200)
}

async function exports(t: Test, { admin, foreign, operator }: Visitors): Promise<void> {
  const csv = await admin.get('/log?format=csv')
  t.match(csv.headers.get('content-type'), /^text\/csv/)
  t.match(csv.headers.get('content-disposition'), /^attachment; filename="requests-\d{4}-\d\d-\d\d\.csv"$/)
  const lines = csv.text.trim().split('\r\n')
  t.match(lines[0], /^record_id,kind,request_id,/)
  t.equal(lines.length, 1 + 123)
  t.match(csv.text, /,'=1\+1,/, 'a formula is a text')
  t.notMatch(csv.text, /use_other/)
  t.equal((await foreign.get('/log?format=csv')).text.trim().split('\r\n').length, 1 + 5)
  t.equal((await foreign.get('/log?format=csv&workspace=acme')).status, 404)
  const json = JSON.parse((await operator.get('/log?format=json&outcome=error')).text) as Page & {
    truncated: boolean
  }
  t.same([json.records.length, json.truncated], [12, false])
  t.match(json.records[0], { error_code: 'UPSTREAM_ERROR', cost_usd: 0.000011 })
}

t.test('the address of traces is checked', async (t) => {
  const refused = [
    'javascript:alert({trace_id})',
    'https://{trace_id}.example.com/',
    'https://user:secret@traces.example.com/{trace_id}',
    'https://traces.example.com/',
    'data:text/html,{trace_id}',
    '//traces.example.com/{trace_id}',
  ]
  for (const template of refused) {
    const issues = new Issues()
    t.equal(resolveTraceUrl({ trace_url: template } as Parameters<typeof resolveTraceUrl>[0], issues), null)
    t.match(issueLines(issues.found), [/trace_url/], template)
  }
  const config = (same: object) => ({ ...same, console: { trace_url: refused[0] } })
  await t.rejects(startConsoleNode(t, { config }), /trace_url/, 'and no node begins with one')
})
