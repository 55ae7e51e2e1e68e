import t from 'tap'
import { RECORDED_PATHS } from '../../src/gateway/api/table.ts'
import { sameFor, startConsoleBench, type Told } from '../support/console-bench.ts'
import { requestRecord } from '../support/console-record.ts'

const REQUESTS = 'workspaces/acme/requests'

const idsIn = ({ body }: Told) => (body.requests as { id: string }[]).map(({ id }) => id)

t.test('requests are filtered, paged and looked at', async (t) => {
  const { visitors, state } = await startConsoleBench(t)
  const { admin, operator, foreign } = visitors
  const nowMs = Date.now()
  const record = (id: string, ageMs: number, over: object = {}) =>
    requestRecord('acme', { id, recordId: id.replace('req', 'rec'), atMs: nowMs - ageMs, ...over })
  await state.console.requests.add('one', [
    record('req_1', 4_000),
    record('req_2', 3_000, { status: 502, error: 'UPSTREAM_ERROR', app: 'back', costUsd: null, usage: null }),
    record('req_3', 2_000, { path: '/v1/speech', keyId: 'key_two', addedMs: null }),
    record('req_4', 1_000, { method: 'RUN', path: 'job', status: null, jobId: 'tj_1', replayed: true }),
    requestRecord('other', { id: 'req_5', atMs: nowMs }),
  ])
  t.same(idsIn(await admin.get(REQUESTS)), ['req_4', 'req_3', 'req_2', 'req_1'])
  t.same(idsIn(await foreign.get('workspaces/other/requests')), ['req_5'])
  const { paths } = (await admin.get('endpoints')).body
  t.same(paths, RECORDED_PATHS, 'of the table of endpoints')
  t.ok(RECORDED_PATHS.includes('/deepgram/v1/listen') && !RECORDED_PATHS.includes('/healthz'))
  const filters: readonly (readonly [string, readonly string[]])[] = [
    ['outcome=ok', ['req_4', 'req_3', 'req_1']],
    ['outcome=failed', ['req_2']],
    ['path=/v1/speech', ['req_3']],
    ['path=job', ['req_4']],
    ['app=back', ['req_2']],
    ['key_id=key_two', ['req_3']],
    ['app=web&key_id=key_one&outcome=ok', ['req_4', 'req_1']],
    ['limit=2', ['req_4', 'req_3']],
    [`before=${nowMs - 2_000}`, ['req_2', 'req_1']],
    [`before=${new Date(nowMs - 2_000).toISOString()}&limit=1`, ['req_2']],
    ['app=nope', []],
    ['request_id=req_3', ['req_3']],
    [`after=${nowMs - 3_000}`, ['req_4', 'req_3']],
  ]
  for (const [query, ids] of filters) t.same(idsIn(await operator.get(`${REQUESTS}?${query}`)), ids, query)
  for (const query of [
    'outcome=good',
    'limit=0',
    'limit=301',
    'after=soon',
    'before=yesterday',
    'before=',
    'job_id=tj_1',
  ])
    t.match(await admin.get(`${REQUESTS}?${query}`), {
      status: 400,
      body: { error: { param: query.split('=')[0] } },
    })

  t.same((await admin.get(`${REQUESTS}/rec_2`)).body, {
    record_id: 'rec_2',
    id: 'req_2',
    at: new Date(nowMs - 3_000).toISOString(),
    app: 'back',
    key_id: 'key_one',
    key_name: null,
    method: 'POST',
    path: '/v1/transcription',
    status: 502,
    error: 'UPSTREAM_ERROR',
    failure: {
      message: 'every eligible provider failed',
      ...{ param: null, rule: null, reason: null, missing: [], limit: null, entries: [], more_entries: 0 },
    },
    milliseconds: 812.25,
    added_milliseconds: 1.5,
    received_bytes: 26_214_400,
    sent_bytes: 412,
    route: 'acme.voice',
    policy_version_id: 'pv_1',
    job_id: null,
    replayed: false,
    cache: null,
    live: null,
    attempts: [
      { provider: 'one', model: 'whisper-1', status: 503, milliseconds: 20, reason: 'it is overloaded' },
      { provider: 'two', model: 'whisper-1', status: 200, milliseconds: 780, reason: 'ok' },
    ],
    usage: null,
    cost_usd: null,
  })
  t.match((await admin.get(`${REQUESTS}/req_4`)).body, { status: null, job_id: 'tj_1', replayed: true })

  const unknown = await admin.get(`${REQUESTS}/req_unknown`)
  t.match(unknown, { status: 404, body: { error: { code: 'NOT_FOUND' } } })
  for (const id of ['req_5', '%00', 'a%2Fb'])
    t.equal(sameFor(await admin.get(`${REQUESTS}/${id}`)), sameFor(unknown), id)
  const nowhere = await admin.get('workspaces/nowhere/requests/req_5')
  t.equal(sameFor(await admin.get('workspaces/other/requests/req_5')), sameFor(nowhere))
  t.equal(sameFor(await admin.get('workspaces/other/requests?limit=x')), sameFor(nowhere), 'before the query')
})
