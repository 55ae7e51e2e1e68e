import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import type { ConsoleState, RequestFilter, RequestRecord } from '../../src/contracts/console.ts'
import { JOBS_PATH } from '../../src/gateway/api/native/job-view.ts'
import { startSandbox } from '../../src/sandbox/server.ts'
import { requestFilter } from '../support/console-record.ts'
import { type Fleet, type FleetOptions, keyIdOf, startFleet } from '../support/fleet.ts'
import type { Larkway } from '../support/larkway.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'
import { filledWav } from '../support/wav.ts'

const WAV = filledWav(64_000, 1)

/** Two workspaces: the calls of one fail over, those of the other fail. */
async function startNodes<const Servers extends Pick<FleetOptions, 'nodes' | 'redis'>>(
  t: Test,
  servers: Servers,
) {
  const sandbox = await startSandbox()
  t.teardown(() => sandbox.close())
  const entry = (options: object) => ({ provider: 'sandbox', model: 'morse-1', options })
  return startFleet(t, {
    ...servers,
    providers: { sandbox: { kind: 'sandbox', access: 'platform', base_url: sandbox.url } },
    workspaces: {
      acme: {
        entries: [entry({ status: 503 }), entry({})],
        key: { scopes: ['inference', 'jobs', 'queue', 'admin'] },
      },
      broken: { entries: [entry({ status: 500 })] },
    },
  })
}

/** Asks a node as the caller of a workspace. @returns the status and the id of the request */
function callerOf(fleet: Fleet, node: Larkway, workspace: string) {
  const authorization = fleet.authorizationOf(workspace)
  return async (method: string, path: string, body?: object | Uint8Array, headers: object = {}) => {
    const binary = body instanceof Uint8Array
    const response = await fetch(node.url + path, {
      method,
      headers: { authorization, 'content-type': binary ? 'audio/wav' : 'application/json', ...headers },
      ...(body === undefined ? {} : { body: binary ? Buffer.from(body) : JSON.stringify(body) }),
    })
    const text = await response.text()
    return { status: response.status, id: response.headers.get('x-lk-request-id') ?? '', text }
  }
}

const listed = (state: ConsoleState, workspace: string, over: Partial<RequestFilter> = {}) =>
  state.requests.list(requestFilter(workspace, { limit: 1000, ...over }))

async function recordOf(state: ConsoleState, workspace: string, id: string): Promise<RequestRecord | null> {
  const find = async () => (await state.requests.list(requestFilter(workspace, { requestId: id })))[0] ?? null
  await waitUntil(async () => (await find()) !== null)
  return find()
}

t.test('what is recorded of calls', async (t) => {
  const fleet = await startNodes(t, {})
  const node = fleet.node()
  const { console: state } = await fleet.openState()
  const [acme, broken] = [callerOf(fleet, node, 'acme'), callerOf(fleet, node, 'broken')]

  const startMs = Date.now()
  const me = await acme('GET', '/v1/me')
  const spoken = await acme('POST', '/v1/speech', { input: 'sos' })
  const heard = await acme('POST', '/v1/transcription', WAV, { 'idempotency-key': 'one' })
  const again = await acme('POST', '/v1/transcription', WAV, { 'idempotency-key': 'one' })
  const refused = await acme('POST', '/v1/speech', { input: 5 }, { 'x-lk-request-id': 'my-own-id-1' })
  const failed = await broken('POST', '/v1/speech', { input: 'a private sentence' })
  const stranger = await fetch(`${node.url}/v1/me`, { headers: { authorization: 'Bearer lk_live_none' } })
  t.same(
    [me.status, spoken.status, heard.status, again.status, refused.status, failed.status, stranger.status],
    [200, 200, 200, 200, 400, 502, 401],
  )

  const plain = await recordOf(state, 'acme', me.id)
  t.match(plain, {
    ...{ workspace: 'acme', app: 'web', keyId: keyIdOf('acme'), method: 'GET', path: '/v1/me', status: 200 },
    ...{ error: null, attempts: [], route: 'acme', jobId: null, replayed: false, receivedBytes: 0 },
  })
  t.ok((plain?.atMs ?? 0) >= startMs && (plain?.atMs ?? 0) <= Date.now())
  t.ok((plain?.addedMs ?? -1) >= 0 && (plain?.addedMs ?? 0) <= (plain?.milliseconds ?? 0) + 1)
  t.ok((plain?.sentBytes ?? 0) > 0)

  const attempts = [
    { provider: 'sandbox', model: 'morse-1', status: 503 },
    { provider: 'sandbox', model: 'morse-1', status: 200, reason: 'ok' },
  ]
  t.match(await recordOf(state, 'acme', spoken.id), { status: 200, route: 'acme', attempts, costUsd: 0 })
  t.match(await recordOf(state, 'acme', heard.id), { receivedBytes: WAV.length, replayed: false, attempts })
  t.match(await recordOf(state, 'acme', again.id), { replayed: true, attempts: [] })
  const answer = await recordOf(state, 'acme', refused.id)
  t.match(answer, { id: 'my-own-id-1', status: 400, error: 'INVALID_REQUEST', attempts: [] })
  const trouble = await recordOf(state, 'broken', failed.id)
  t.match(trouble, { status: 502, error: 'UPSTREAM_ERROR', attempts: [{ status: 500 }] })
  t.notOk(JSON.stringify(trouble).includes('private'), 'nothing of what was said')

  await t.test('each workspace its own', async (t) => {
    t.equal((await listed(state, 'acme')).length, 5)
    t.equal((await listed(state, 'broken')).length, 1)
    t.same(await state.requests.list(requestFilter('broken', { requestId: me.id })), [])
  })

  await t.test('a run of a job', async (t) => {
    const submitted = await acme('POST', JOBS_PATH, WAV)
    t.equal(submitted.status, 202, submitted.text)
    const { job_id: jobId } = JSON.parse(submitted.text) as { job_id: string }
    t.ok(await waitUntil(async () => (await listed(state, 'acme', { path: 'job' })).length === 1, 20_000))
    const [run] = await listed(state, 'acme', { jobId, path: 'job' })
    t.match(run, { id: submitted.id, status: null, error: null, route: 'acme', attempts: [{}, {}] })
    t.equal((await listed(state, 'acme', { jobId })).length, 2, 'and its submission')
  })

  await t.test('samples, breakers and the use of keys', async (t) => {
    for (let i = 0; i < 6; i += 1) await broken('POST', '/v1/speech', { input: 'sos' })
    const isOpen = async () =>
      (await state.samples.since(0)).some(({ breakers }) => breakers.some((one) => one.route === 'broken'))
    t.ok(await waitUntil(isOpen, 20_000))
    const asked = () => node.log.filter((line) => line.msg === 'request' && line.key_id !== undefined).length
    const counted = async () => {
      const samples = await state.samples.since(0)
      return samples.reduce((sum, { all }) => sum + all.requests, 0)
    }
    t.ok(await waitUntil(async () => (await counted()) === asked(), 20_000), 'every request with a key')
    const samples = await state.samples.since(0)
    t.equal(new Set(samples.map((sample) => sample.node)).size, 1)
    t.match(samples[0]?.node, new RegExp(`:${node.pid}$`))
    const uses = await state.keyUses.read([keyIdOf('acme'), keyIdOf('broken')])
    t.ok(Math.abs((uses[keyIdOf('broken')] ?? 0) - Date.now()) < 20_000)
    t.equal(Object.keys(uses).length, 2)
  })
})

t.test('of a burst all are counted, some are recorded, and failures among them', async (t) => {
  const fleet = await startNodes(t, {})
  const node = fleet.node()
  const { console: state } = await fleet.openState()
  const [acme, broken] = [callerOf(fleet, node, 'acme'), callerOf(fleet, node, 'broken')]
  const startMs = performance.now()
  const refused: string[] = []
  let left = 2_000
  const keepAsking = async () => {
    while (left-- > 0) await acme('GET', '/v1/me')
  }
  const failNowAndThen = async () => {
    while (refused.length < 20) refused.push((await acme('POST', '/v1/speech', {})).id)
  }
  const own = broken('POST', '/v1/speech', { input: 'sos' })
  await Promise.all([...Array.from({ length: 32 }, keepAsking), failNowAndThen()])
  const seconds = (performance.now() - startMs) / 1000
  t.ok(await recordOf(state, 'broken', (await own).id), 'a busy workspace leaves room for others')
  for (const id of refused) t.ok(await recordOf(state, 'acme', id), 'a failure')
  const counted = async () => (await state.samples.since(0)).reduce((sum, { all }) => sum + all.requests, 0)
  t.ok(await waitUntil(async () => (await counted()) === 2_021, 20_000), 'all are counted')
  const plain = await listed(state, 'acme', { outcome: 'ok' })
  t.ok(plain.length <= 50 * (seconds + 2), `${plain.length} of 2,000 in ${seconds.toFixed(1)} s`)
  t.ok(plain.length > 0)
})

t.test('a stop writes what is left, a restart continues with it', async (t) => {
  const fleet = await startNodes(t, {})
  const first = fleet.node()
  const before = await callerOf(fleet, first, 'acme')('GET', '/v1/me')
  t.equal(await first.signal('SIGTERM'), 0)
  const { console: state } = await fleet.openState()
  t.equal(
    (await state.requests.list(requestFilter('acme', { requestId: before.id }))).length,
    1,
    'the last flush',
  )
  // A step may have ended while it was stopped.
  const samples = await state.samples.since(0)
  t.equal(
    samples.reduce((sum, { all }) => sum + all.requests, 0),
    1,
  )
  const busy = samples.flatMap(({ workspaces }) => workspaces)
  t.match(busy, [{ workspace: 'acme', requests: 1 }])
  t.equal(busy.length, 1)
  t.ok((await state.keyUses.read([keyIdOf('acme')]))[keyIdOf('acme')])

  const second = await fleet.startNode()
  const after = await callerOf(fleet, second, 'acme')('GET', '/v1/me')
  t.ok(await recordOf(state, 'acme', after.id))
  t.match(await listed(state, 'acme'), [{ id: after.id }, { id: before.id }])
})

t.test('SIGKILL loses no more than the last second', async (t) => {
  const fleet = await startNodes(t, {})
  const node = fleet.node()
  const ask = callerOf(fleet, node, 'acme')
  const answered: { readonly id: string; readonly atMs: number }[] = []
  while (answered.length < 80) {
    const { id } = await ask('GET', '/v1/me')
    answered.push({ id, atMs: performance.now() })
    await sleep(40)
  }
  const killedMs = performance.now()
  await node.signal('SIGKILL')
  const { console: state } = await fleet.openState()
  const kept = new Set((await listed(state, 'acme')).map(({ id }) => id))
  // A second until it is written, and a second for a machine that others use, too.
  const due = answered.filter(({ atMs }) => atMs < killedMs - 2_000)
  t.ok(due.length > 10, `${due.length} were answered before`)
  t.same(
    due.filter(({ id }) => !kept.has(id)),
    [],
  )
})

t.test('nodes that share a Redis', { skip: withoutServers }, async (t) => {
  const fleet = await startNodes(t, { nodes: 2, redis: {} })
  const { console: state } = await fleet.openState()
  const sent = await Promise.all(
    fleet.nodes.map((node) =>
      Promise.all(Array.from({ length: 30 }, () => callerOf(fleet, node, 'acme')('GET', '/v1/me'))),
    ),
  )
  const ids = sent
    .flat()
    .map(({ id }) => id)
    .sort()
  t.ok(await waitUntil(async () => (await listed(state, 'acme')).length === ids.length))
  t.same((await listed(state, 'acme')).map(({ id }) => id).sort(), ids)
  const nodesIn = async () => {
    const samples = await state.samples.since(0)
    const counted = samples.filter(({ all }) => all.requests > 0)
    return new Set(counted.map(({ node }) => node)).size
  }
  t.ok(await waitUntil(async () => (await nodesIn()) === 2, 20_000), 'both are seen')
  const moments = (await state.samples.since(0)).map(({ atMs }) => atMs)
  t.ok(moments.every((atMs) => atMs % 5_000 === 0))
})
