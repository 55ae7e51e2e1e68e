import { readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import t from 'tap'
import type { UsageRecord } from '../../src/contracts/usage-record.ts'
import { ENDPOINTS } from '../../src/gateway/api/table.ts'
import { hashKey, makeKey } from '../../src/gateway/catalog/key.ts'
import { readEnvironment } from '../../src/gateway/node/config.ts'
import { startGateway } from '../support/gateway.ts'
import { startMeteredNode } from '../support/metered-node.ts'
import { tempFolder } from '../support/scratch.ts'
import { costOf, usageRecords } from '../support/usage-records.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

t.test('every call, job and session of a node has one record, and they cost what was charged', async (t) => {
  const node = await startMeteredNode(t, { LARKWAY_USAGE: 'true' })
  await node.serveTraffic()
  const folder = join(node.dataFolder, 'usage-segments')
  const spent = async () => {
    const me = (await (await node.ask('GET', '/v1/me')).json()) as { billing: { spent_usd: number } }
    return Math.round(me.billing.spent_usd * 1e6)
  }
  const isWhole = async () => costOf(await usageRecords(folder)) === (await spent())
  t.ok(await waitUntil(isWhole, 10_000), `${costOf(await usageRecords(folder))} of ${await spent()}`)
  t.equal(await node.signal('SIGKILL'), null)
  const records = await usageRecords(folder)

  t.equal(new Set(records.map(({ record_id }) => record_id)).size, records.length, 'ids')
  t.same(countsOf(records), {
    'call POST /v1/chat ok': 4,
    'call POST /v1/chat error': 1,
    'call POST /v1/image ok': 1,
    'call POST /v1/queue error': 1,
    'call POST /v1/speech ok': 2,
    'call POST /v1/transcription ok': 1,
    'call POST /v1/video ok': 1,
    'job chat ok': 1,
    'job transcription ok': 1,
    'session GET /v1/transcription/stream ok': 1,
    'session GET /v1/speech/stream ok': 1,
  })
  const find = (kind: string, endpoint: string) =>
    records.filter((one) => one.kind === kind && one.endpoint === endpoint)
  const [failed] = records.filter(({ status }) => status === 502)
  t.match(failed, {
    error_code: 'UPSTREAM_ERROR',
    attempts: 1,
    cost_usd: 0,
    route: 'hopeless',
    provider: 'ill',
  })
  const [over] = records.filter(({ route }) => route === 'failing')
  t.match(over, { attempts: 2, provider: 'sandbox', outcome: 'ok', status: 200 })
  t.match(over?.attempt_reasons, /^ill\/morse-1=.+,sandbox\/morse-1=ok$/)
  const speech = find('call', 'POST /v1/speech')
  t.same(speech.map(({ cache, cost_usd }) => [cache, cost_usd]).sort(), [
    ['hit', 0],
    ['miss', 5_000],
  ])
  const [heard] = find('call', 'POST /v1/transcription')
  t.match(heard, { request_id: 'heard.1', operation: 'transcription', workspace: 'acme', key_id: 'key_well' })
  t.ok(
    (heard?.audio_seconds ?? 0) > 500 &&
      (heard?.received_bytes ?? 0) > 32_000 &&
      heard?.body_ms !== undefined,
  )
  const [job] = find('job', 'transcription')
  t.match(job, { status: null, job_id: /^tj_/, request_id: /^req_/ })
  t.equal(job?.record_id, job?.job_id)
  const [live] = find('session', 'GET /v1/transcription/stream')
  t.match(live, { status: 101, session_id: /^live_/, attempts: 2, audio_seconds: 3_000 })
  t.equal(live?.record_id, live?.session_id)
  const refused = find('call', 'POST /v1/queue')
  t.match(refused, [{ error_code: 'INVALID_REQUEST', error_param: /messages/, operation: null, cost_usd: 0 }])

  for (const name of await readdir(folder, { recursive: true })) {
    if (!name.endsWith('.usage')) continue
    const text = await readFile(join(folder, name), 'latin1')
    for (const word of ['hello', 'lark lark', 'a lark', node.authorization])
      t.notOk(text.includes(word), word)
  }
})

function countsOf(records: readonly UsageRecord[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const { kind, endpoint, outcome } of records) {
    const name = `${kind} ${endpoint} ${outcome}`
    counts[name] = (counts[name] ?? 0) + 1
  }
  return counts
}

t.test('each endpoint says whether its requests are calls', async (t) => {
  const none = ENDPOINTS.filter(({ kind, method, scope }) => kind === 'none' && method === 'POST' && scope)
  t.same(
    none.map(({ path }) => path),
    [
      '/v1/transcription/references',
      '/v1/uploads',
      '/v1/uploads/tokens',
      '/v1/uploads/:upload_id',
      '/openai/v1/realtime/client_secrets',
      '/assemblyai/v2/upload',
    ],
  )
  const sockets = ENDPOINTS.filter(({ answers }) => answers.some(({ status }) => status === 101))
  t.same(
    ENDPOINTS.filter(({ kind }) => kind === 'session'),
    sockets,
  )
  t.ok(sockets.length >= 6)
  t.same(
    ENDPOINTS.filter(({ kind, method }) => kind === 'call' && method !== 'POST'),
    [],
  )
})

t.test('records are kept until they are switched off', async (t) => {
  const hasLedger = async (env: Record<string, string>) =>
    (await readdir((await startGateway(t, { env })).dataFolder)).includes('usage-segments')
  t.equal(readEnvironment({}).LARKWAY_USAGE, true)
  t.equal(await hasLedger({ LARKWAY_USAGE: 'true' }), true)
  t.equal(await hasLedger({ LARKWAY_USAGE: 'false' }), false)
})

t.test('a folder that cannot be had is told of, with what to do', async (t) => {
  const folder = await tempFolder(t)
  await writeFile(join(folder, 'file'), '')
  const env = { LARKWAY_USAGE: 'true', LARKWAY_USAGE_FOLDER: join(folder, 'file', 'segments') }
  await t.rejects(startGateway(t, { env }), /LARKWAY_USAGE_FOLDER cannot be used: .*LARKWAY_USAGE to false/)
})

t.test('whom a call was for is kept where it may be', async (t) => {
  const keys = { acme: makeKey(), strict: makeKey(), hashed: makeKey() }
  const zero = { retention: 'zero' }
  const terms = { acme: {}, strict: { require: zero }, hashed: { require: zero, end_users: { hash: true } } }
  const names = ['acme', 'strict', 'hashed'] as const
  const workspaceOf = (name: (typeof names)[number]) => ({
    ...terms[name],
    apps: { web: { route: name } },
    keys: [{ id: `key_${name}`, app: 'web', sha256: hashKey(keys[name]) }],
  })
  const entry = { provider: 'sandbox', model: 'morse-1', ...zero }
  const gateway = await startGateway(t, {
    env: { LARKWAY_USAGE: 'true' },
    config: {
      providers: { sandbox: { kind: 'sandbox', access: 'platform' } },
      routes: Object.fromEntries(names.map((name) => [name, { workspace: name, entries: [entry] }])),
      workspaces: Object.fromEntries(
        names.map((name) => [name, { credits_usd: 1, grant_id: 'first', ...workspaceOf(name) }]),
      ),
    },
  })
  const chat = (name: (typeof names)[number], headers: Record<string, string>, body = '') =>
    fetch(`${gateway.url}/v1/chat`, {
      method: 'POST',
      headers: {
        ...headers,
        authorization: `Bearer ${keys[name]}`,
        'content-type': 'application/json',
        'x-lk-end-user': `user-of-${name}`,
      },
      body: `{${body}"messages":[{"role":"user","content":"hi"}]}`,
    }).then(async (response) => {
      await response.arrayBuffer()
      return response.status
    })
  t.equal(await chat('acme', { 'x-lk-request-id': 'plain' }), 200)
  t.equal(await chat('acme', { 'x-lk-request-id': 'header', 'x-lk-require': 'retention=zero' }), 200)
  const body = '"require":{"retention":"zero"},'
  t.equal(await chat('acme', { 'x-lk-request-id': 'body' }, body), 200)
  t.equal(await chat('acme', { 'x-lk-request-id': 'unread' }, '"temperature":"hot",'), 400)
  t.equal(await chat('strict', { 'x-lk-request-id': 'workspace' }), 200)
  t.equal(await chat('hashed', { 'x-lk-request-id': 'hashed' }), 200)
  const folder = join(gateway.dataFolder, 'usage-segments')
  t.ok(await waitUntil(async () => (await usageRecords(folder)).length === 6, 10_000))
  const users = (await usageRecords(folder)).map((one) => [one.request_id, one.end_user] as const)
  t.match(Object.fromEntries(users), {
    plain: 'user-of-acme',
    header: null,
    body: null,
    unread: null,
    workspace: null,
    hashed: /^eu_/,
  })
})

t.test('the trace that a caller names is kept and found, without tracing', async (t) => {
  const trace = '0af7651916cd43dd8448eb211c80319c'
  const gateway = await startGateway(t, { env: { LARKWAY_USAGE: 'true' } })
  const ask = async (path: string, body: string, traceparent: string) => {
    const response = await fetch(gateway.url + path, {
      method: 'POST',
      headers: { authorization: `Bearer ${gateway.key}`, 'content-type': 'application/json', traceparent },
      body,
    })
    await response.arrayBuffer()
    return response.status
  }
  const traceparent = `00-${trace}-b7ad6b7169203331-01`
  const audio = Buffer.from(filledWav(32_044, 1)).toString('base64')
  t.equal(await ask('/v1/speech', '{"input":"lark"}', traceparent), 200)
  t.equal(await ask('/v1/speech', '{}', traceparent), 400, 'a refused one, too')
  t.equal(await ask('/v1/transcription/jobs', JSON.stringify({ audio }), traceparent), 202)
  for (const none of [`00-${'0'.repeat(32)}-b7ad6b7169203331-01`, `ff-${trace}-b7ad6b7169203331-01`, trace])
    t.equal(await ask('/v1/speech', '{"input":"lark"}', none), 200)
  const folder = join(gateway.dataFolder, 'usage-segments')
  t.ok(await waitUntil(async () => (await usageRecords(folder)).length === 6, 10_000))
  const traces = (await usageRecords(folder)).map((one) => `${one.kind} ${one.status} ${one.trace_id}`)
  const named = ['call 200', 'call 400', 'job null'].map((one) => `${one} ${trace}`)
  t.same(traces.sort(), [...named, ...Array(3).fill('call 200 null')].sort())
  const line = gateway.log.find(({ msg, status }) => msg === 'request' && status === 400)
  t.equal(line?.trace_id, trace, 'the log has it')
})
