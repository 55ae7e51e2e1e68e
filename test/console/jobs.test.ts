import t from 'tap'
import { newJobId } from '../../src/contracts/ids.ts'
import type { Job, JobEnding, JobSpec } from '../../src/contracts/jobs.ts'
import { createBudget } from '../../src/gateway/storage/budget.ts'
import { createFileObjects } from '../../src/gateway/storage/folder.ts'
import { createJobObjects } from '../../src/gateway/storage/job-objects.ts'
import type { ConsoleBench, Told } from '../support/console-bench.ts'
import { auditAfter, sameFor, startConsoleBench } from '../support/console-bench.ts'
import { requestRecord } from '../support/console-record.ts'
import { claimingOf, FAILURE, KEEP, SUCCESS, specOf } from '../support/jobs-under-test.ts'

const JOBS = 'workspaces/acme/jobs'
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/

const idsIn = ({ body }: Told) => (body.jobs as { id: string }[]).map(({ id }) => id)
const errorIn = ({ body }: Told) => body.error

/** Short words for what callers and workers do. */
function jobsOf({ state: { jobs } }: ConsoleBench) {
  async function submit(over: Partial<JobSpec> = {}): Promise<string> {
    const spec = specOf(over.workspace ?? 'acme', over)
    await jobs.submit({ spec, slot: null })
    return spec.id
  }
  async function take(id: string): Promise<Job> {
    const [claimed] = await jobs.claim(claimingOf())
    if (claimed?.job.id !== id) throw new Error(`${claimed?.job.id} was waiting, not ${id}`)
    return claimed.job
  }
  async function ended(ending: JobEnding, over: Partial<JobSpec> = {}): Promise<string> {
    const id = await submit(over)
    await jobs.end(id, (await take(id)).fence, ending, KEEP)
    return id
  }
  return { submit, take, ended }
}

let bench: ConsoleBench

t.before(async () => {
  bench = await startConsoleBench(t)
})

t.test('jobs are listed, looked at, cancelled and tried again', async (t) => {
  const { admin, operator, foreign } = bench.visitors
  const { submit, take, ended } = jobsOf(bench)
  const failed = await ended(FAILURE, { app: 'back' })
  const succeeded = await ended(SUCCESS, { kind: 'transcription' })
  const theirs = await ended(FAILURE, { workspace: 'other' })
  const running = await submit({ kind: 'transcription' })
  await take(running)
  const queued = await submit()

  t.same(idsIn(await admin.get(JOBS)).sort(), [failed, succeeded, running, queued].sort())
  t.same(idsIn(await operator.get(`${JOBS}?kind=queue`)).sort(), [failed, queued].sort())
  t.same(idsIn(await admin.get(`${JOBS}?kind=queue&status=failed`)), [failed])
  t.same(idsIn(await admin.get(`${JOBS}?status=processing`)), [running])
  t.equal(idsIn(await admin.get(`${JOBS}?limit=1`)).length, 1)
  t.same(idsIn(await foreign.get('workspaces/other/jobs')), [theirs])
  for (const query of [
    'kind=all',
    'status=done',
    'limit=0',
    'limit=201',
    'limit=x',
    'app=web',
    'limit=1&limit=2',
  ])
    t.equal((await admin.get(`${JOBS}?${query}`)).status, 400, query)

  const record = { workspace: 'acme', jobId: failed, method: 'RUN', path: 'job', status: null }
  await bench.state.console.requests.add('one', [
    requestRecord('acme', { ...record, id: 'req_one', atMs: Date.now() - 2_000, error: 'UPSTREAM_ERROR' }),
    requestRecord('acme', { ...record, id: 'req_one', atMs: Date.now() - 1_000, costUsd: 0.5 }),
    requestRecord('acme', { jobId: failed, id: 'req_look', path: '/v1/queue', atMs: Date.now() }),
    requestRecord('acme', { ...record, id: 'req_two', jobId: succeeded, atMs: Date.now() }),
  ])
  const detail = await admin.get(`${JOBS}/${failed}`)
  t.match(detail.body, {
    id: failed,
    kind: 'queue',
    endpoint: 'chat',
    mode: 'priority',
    app: 'back',
    key_id: 'key_one',
    status: 'failed',
    created_at: TIME,
    started_at: TIME,
    completed_at: TIME,
    expires_at: TIME,
    attempts: 1,
    parts: null,
    error: { code: 'UPSTREAM_ERROR', message: 'all have failed' },
    policy_version_id: 'pv_0123456789abcdef',
    can_retry: true,
    has_result: false,
    request_id: 'req_one',
    history: [
      { at: TIME, status: 'queued', claim: 0 },
      { at: TIME, status: 'processing', claim: 1 },
      { at: TIME, status: 'failed', claim: 1 },
    ],
    runs: [
      { id: 'req_one', cost_usd: 0.5, error: null, attempts: [{ provider: 'one' }, { provider: 'two' }] },
      { id: 'req_one', error: 'UPSTREAM_ERROR' },
    ],
  })
  t.equal((detail.body.runs as unknown[]).length, 2, 'without the requests about it')
  t.match((await admin.get(`${JOBS}/${succeeded}`)).body, { can_retry: false, has_result: true })

  const cancelled = await admin.ask('POST', `${JOBS}/${queued}/cancel`)
  t.match(cancelled.body, { id: queued, status: 'cancelled', completed_at: TIME, runs: [] })
  t.match((await operator.ask('POST', `${JOBS}/${running}/cancel`)).body, {
    status: 'processing',
    cancel_requested: true,
  })
  t.match((await admin.ask('POST', `${JOBS}/${failed}/cancel`)).body, { status: 'failed' }, 'that is over')
  // Its record is kept as long as the configuration says.
  const { expiresAtMs = null, endedAtMs = null } = (await bench.state.jobs.get(queued)) ?? {}
  t.equal((expiresAtMs ?? 0) - (endedAtMs ?? 0), 24 * 3_600_000)

  t.match((await admin.ask('POST', `${JOBS}/${failed}/retry`)).body, { status: 'queued', can_retry: false })
  await take(failed)
  const refused: readonly (readonly [string, RegExp])[] = [
    [failed, /is processing/],
    [queued, /is cancelled/],
    [succeeded, /transcription job/],
  ]
  for (const [id, message] of refused)
    t.match(errorIn(await admin.ask('POST', `${JOBS}/${id}/retry`)), { code: 'INVALID_REQUEST', message })

  const { lines } = (await admin.get('audit')).body
  t.match(lines, [
    { action: 'job.retry', target: `job/${failed}`, by: { key_id: 'key_admin' } },
    { action: 'job.cancel', target: `job/${running}`, by: { key_id: 'key_operator' } },
    { action: 'job.cancel', target: `job/${queued}`, detail: 'it was queued' },
  ])
  t.equal((lines as unknown[]).length, 3)
})

t.test('jobs of another workspace are as unknown as those that never were', async (t) => {
  const { admin, operator } = bench.visitors
  const lines = await auditAfter(operator)
  const { ended, submit, take } = jobsOf(bench)
  const theirs = await ended(SUCCESS, { workspace: 'other', kind: 'transcription' })
  const queued = await submit({ workspace: 'other' })
  const ways: readonly (readonly [string, string])[] = [
    ['GET', ''],
    ['GET', '/result'],
    ['POST', '/cancel'],
    ['POST', '/retry'],
  ]
  for (const [method, way] of ways) {
    const unknown = await admin.ask(method, `${JOBS}/${newJobId('tj', 'acme')}${way}`)
    t.match(unknown, {
      status: 404,
      body: { error: { code: 'JOB_NOT_FOUND', message: 'there is no such job' } },
    })
    for (const id of [theirs, queued, 'tj_1', 'x', '%00'])
      for (const visitor of [admin, operator])
        t.equal(
          sameFor(await visitor.ask(method, `${JOBS}/${id}${way}`)),
          sameFor(unknown),
          `${way} of ${id}`,
        )
    const nowhere = await admin.ask(method, `workspaces/nowhere/jobs/${theirs}${way}`)
    t.match(errorIn(nowhere), { code: 'NOT_FOUND', message: 'there is no such workspace' })
    t.equal(sameFor(await admin.ask(method, `workspaces/other/jobs/${theirs}${way}`)), sameFor(nowhere))
  }
  t.match(await bench.state.jobs.get(queued), { status: 'queued', cancelRequested: false })
  t.same(await lines(), [])
  await take(queued)
})

t.test('no one sees a transcript unless the workspace allows it', async (t) => {
  const { admin, operator } = bench.visitors
  const { ended } = jobsOf(bench)
  const words = 'geheim '.repeat(3)
  const result = { text: JSON.stringify({ content: words }) }
  const id = await ended({ ...SUCCESS, result } as JobEnding, { kind: 'transcription' })
  const without = await ended(FAILURE, { kind: 'transcription' })
  for (const visitor of [admin, operator]) {
    const told = await visitor.get(`${JOBS}/${id}/result`)
    t.equal(told.status, 403)
    t.match(errorIn(told), {
      code: 'PERMISSION_DENIED',
      message: /one of its admins, or an operator, can switch/,
    })
    t.notMatch((await visitor.get(`${JOBS}/${id}`)).text, /geheim/)
    t.notMatch((await visitor.get(JOBS)).text, /geheim/)
  }
  await bench.state.settings.putContentShown('acme', true)
  for (const visitor of [admin, operator]) {
    const told = await visitor.get(`${JOBS}/${id}/result`)
    t.equal(told.status, 200)
    t.equal(told.text, result.text)
    t.equal(told.headers.get('cache-control'), 'no-store')
    t.match(await visitor.get(`${JOBS}/${without}/result`), {
      status: 404,
      body: { error: { code: 'NOT_FOUND' } },
    })
  }
  await bench.state.settings.putContentShown('acme', false)
  t.equal((await admin.get(`${JOBS}/${id}/result`)).status, 403)
})

t.test('a long transcript is kept elsewhere, and shown whole', async (t) => {
  const { admin, foreign } = bench.visitors
  const { submit, take } = jobsOf(bench)
  const files = await createFileObjects(bench.larkway.dataFolder)
  const objects = createJobObjects({ objects: files, budget: createBudget(64 * 1024 * 1024) })
  const json = JSON.stringify({ content: 'Grüße '.repeat(300_000) })
  const id = await submit({ kind: 'transcription' })
  const { fence } = await take(id)
  const result = await objects.keepResult(json, { id, workspace: 'acme' }, fence)
  t.ok('object' in result)
  await bench.state.jobs.end(id, fence, { ...SUCCESS, result } as JobEnding, KEEP)
  t.equal((await admin.get(`${JOBS}/${id}/result`)).status, 403)
  await bench.state.settings.putContentShown('acme', true)
  const told = await admin.get(`${JOBS}/${id}/result`)
  t.equal(told.headers.get('content-type'), 'application/json')
  t.ok(told.text === json, `${told.text.length} characters`)
  // A setting of one workspace does not apply to another.
  await bench.state.settings.putContentShown('other', true)
  const elsewhere = await foreign.get(`workspaces/other/jobs/${id}/result`)
  t.match(elsewhere.body, { error: { code: 'JOB_NOT_FOUND' } })
})
