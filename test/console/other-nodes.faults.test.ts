import t from 'tap'
import type { LiveSample } from '../../src/contracts/console.ts'
import { startConsoleBench } from '../support/console-bench.ts'
import { nodeSample } from '../support/console-record.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

t.test('a session of another node is ended by an order to it', { skip: withoutServers }, async (t) => {
  const { state, visitors } = await startConsoleBench(t, { store: 'redis' })
  const { sessionEnds, samples } = state.console
  const sample = (id: string, workspace: string): LiveSample => ({
    ...{ id, workspace, app: 'web', keyId: 'key_x', route: 'acme', entry: null },
    ...{ startedAtMs: Date.now(), audioSeconds: 1.5, switches: 2, costUsd: 0.25 },
  })
  const live = { open: 2, sessions: [sample('live_1', 'acme'), sample('live_2', 'other')] }
  const tell = () => samples.add(nodeSample('x:1', Date.now(), { live }), 3_600_000)
  const { admin } = visitors
  const isListed = async () => ((await admin.get('live')).body.sessions as unknown[]).length === 1
  await tell()
  t.ok(await waitUntil(isListed))
  t.equal(
    (await admin.ask('POST', 'workspaces/acme/live/live_2/end', {})).status,
    404,
    'of another workspace',
  )
  const ended = admin.ask('POST', 'workspaces/acme/live/live_1/end', {})
  // As the node that has it does.
  t.ok(await waitUntil(async () => (await sessionEnds.pending()).includes('live_1')))
  await sessionEnds.withdraw('live_1')
  t.equal((await ended).status, 200)
  await tell()
  t.ok(await waitUntil(isListed))
  const late = await admin.ask('POST', 'workspaces/acme/live/live_1/end', {})
  t.equal(late.status, 404, 'no node has it any more')
  t.same(await sessionEnds.pending(), [])
})

t.test('other nodes follow within 5 s', { skip: withoutServers }, async (t) => {
  const bench = await startConsoleBench(t, { store: 'redis' })
  const { admin } = bench.visitors
  const other = await bench.startAnother()
  t.match((await admin.at(other.url).get('session')).body, { role: 'admin' }, 'a session is one of all nodes')
  const statusThere = async (key: unknown) => {
    const response = await fetch(`${other.url}/v1/me`, { headers: { authorization: `Bearer ${key}` } })
    await response.arrayBuffer()
    return response.status
  }
  const followed = async (key: unknown, status: number) => {
    const beganMs = performance.now()
    const so = await waitUntil(async () => (await statusThere(key)) === status, 10_000)
    const tookMs = Math.round(performance.now() - beganMs)
    t.ok(so && tookMs < 5_000, `${status} after ${tookMs} ms`)
  }
  const { body } = await admin.ask('POST', 'workspaces/acme/keys', {
    name: 'one',
    app: 'web',
    scopes: ['inference', 'admin'],
  })
  await followed(body.key, 200)
  const own = (await bench.signIn(String(body.key))).at(other.url)
  t.equal((await own.get('session')).status, 200)
  await admin.ask('DELETE', `workspaces/acme/keys/${body.id}`)
  await followed(body.key, 401)
  t.equal((await own.get('session')).status, 401, 'and with the key its sessions')
})
