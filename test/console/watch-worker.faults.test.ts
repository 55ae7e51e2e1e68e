import t from 'tap'
import { requestFilter } from '../support/console-record.ts'
import { startFleet } from '../support/fleet.ts'
import { jobTenants, submitJob } from '../support/fleet-jobs.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('a worker tells what it runs', { skip: withoutServers, timeout: 120_000 }, async (t) => {
  const upstream = await startUpstream(t)
  const fleet = await startFleet(t, {
    ...jobTenants({ upstreamUrl: upstream.url, workspaces: 2 }),
    ...{ redis: { durable: true }, s3: 'shared', workers: 1 },
    timing: { recorder: { tickMs: 200, stepMs: 1_000 } },
  })
  const [worker] = fleet.workers
  const { requests, samples } = (await fleet.openState()).console
  const submit = (workspace: string) => submitJob(() => fleet.node().url, fleet.authorizationOf(workspace))
  const runsOf = (workspace: string, jobId: string) =>
    requests.list(requestFilter(workspace, { jobId, path: 'job' }))

  const heard = await submit('ws_0')
  t.ok(await waitUntil(async () => (await runsOf('ws_0', heard)).length === 1, 20_000))
  const [run] = await runsOf('ws_0', heard)
  t.match(run, {
    ...{ method: 'RUN', status: null, error: null, app: 'web', keyId: 'key_ws_0', route: 'ws_0' },
    attempts: [{ provider: 'hears', model: 'whisper-1', status: 200, reason: 'ok' }],
  })
  const [submission] = await requests.list(requestFilter('ws_0', { path: '/v1/transcription/jobs' }))
  t.match(submission, { id: run?.id, status: 202, jobId: heard, attempts: [] })
  t.same(await runsOf('ws_1', heard), [], 'no one else sees it')

  upstream.behave('whisper-1', { status: 400 })
  const refused = await submit('ws_1')
  t.ok(await waitUntil(async () => (await runsOf('ws_1', refused)).length === 1, 20_000))
  const failure = { provider: 'hears', status: 400 }
  t.match(await runsOf('ws_1', refused), [{ error: 'UPSTREAM_REJECTED', attempts: [failure] }])
  t.equal((await requests.list(requestFilter('ws_1', { outcome: 'failed' }))).length, 1)

  const ofWorker = async () => (await samples.since(0)).filter(({ node }) => node.endsWith(`:${worker?.pid}`))
  const asked = async () =>
    (await ofWorker()).flatMap(({ all }) => all.upstream).reduce((sum, { calls }) => sum + calls, 0)
  t.ok(await waitUntil(async () => (await asked()) === 2, 20_000), 'and what it asked of providers')
  t.ok(
    (await ofWorker()).every(({ all }) => all.requests === 0),
    'it answers no requests',
  )
})
