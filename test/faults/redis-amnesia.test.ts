import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { keys } from '../../src/gateway/state/redis/key-names.ts'
import { runInProcess } from '../support/cli.ts'
import { startFleet } from '../support/fleet.ts'
import type { Larkway } from '../support/larkway.ts'
import { startRedis } from '../support/redis-server.ts'
import { withoutServers } from '../support/servers.ts'
import { startUpstream } from '../support/upstream/upstream.ts'
import { waitUntil } from '../support/wait-until.ts'
import { answering, startReceiver } from '../support/webhook-receiver.ts'

const TERMS = { credits_usd: 5, grant_id: 'initial' }
const LOST = /Redis has lost what it held/
const ACCEPTED = /the loss of what Redis held is accepted/

const SECRET = `whsec_${Buffer.alloc(32, 9).toString('base64')}`

/** Two nodes that were started at once on an empty Redis. */
async function startRig(t: Test) {
  const server = await startRedis(t)
  const client = new Redis(server.url)
  t.teardown(() => client.disconnect())
  const upstream = await startUpstream(t)
  const receiver = await startReceiver(t, answering(200), { names: null })
  const fleet = await startFleet(t, {
    ...{ nodes: 2, redis: { url: server.url }, s3: 'shared' },
    env: { LARKWAY_METRICS_PORT: '0', ALERTS_SECRET: SECRET },
    timing: { redis: { lookMs: 100 }, alerts: { roundMs: 100 }, deliveries: { pollMs: 100 } },
    config: {
      alerts: {
        webhook: { url: `http://127.0.0.1:${receiver.port}/alerts`, secret: `\${ALERTS_SECRET}` },
        ...{ recover_after_seconds: 1, rules: { amnesia: { state_lost: {} } } },
      },
    },
    providers: { platform: { kind: 'openai-compatible', access: 'platform', base_url: upstream.url } },
    workspaces: {
      acme: {
        entries: [
          {
            provider: 'platform',
            model: 'm',
            capabilities: ['audio_output'],
            price: { per_1k_characters_usd: 0.13 },
          },
        ],
        terms: TERMS,
      },
    },
  })
  const call = async (at: number) => {
    const response = await fetch(`${fleet.node(at).url}/v1/speech`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf('acme'), 'content-type': 'application/json' },
      body: JSON.stringify({ input: 'seven c' }),
    })
    await response.arrayBuffer()
    return response.status
  }
  /** How often the grant was booked since Redis was emptied last. */
  const grants = () => client.hlen(keys.grants('acme'))
  const generation = () => client.hget(keys.generation, 'id')
  const accept = () =>
    runInProcess(['state', 'accept-loss'], { cwd: fleet.folder, env: { REDIS_URL: server.url } })
  const alerts = () => receiver.received.map(({ body }) => (JSON.parse(body) as { type: string }).type)
  /** What a node says in its metrics. */
  const lostAt = async (at: number) => {
    const port = fleet.node(at).log.find(({ msg }) => msg === 'listening')?.metrics_port
    const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
    return /^larkway_state_lost (\d)$/m.exec(text)?.[1]
  }
  return { client, fleet, call, grants, generation, accept, alerts, lostAt }
}

const told = ({ log }: Larkway, words: RegExp) => log.filter(({ msg }) => words.test(String(msg))).length

t.test('a Redis that has lost everything', { skip: withoutServers, timeout: 240_000 }, async (t) => {
  const { client, fleet, call, grants, generation, accept, alerts, lostAt } = await startRig(t)
  const both = (words: RegExp) => [0, 1].map((at) => told(fleet.node(at), words))
  const first = await generation()
  t.match(first, /^gen_/)
  t.same([await call(0), await call(1)], [200, 200], 'the first start books the grant')
  t.equal(await grants(), 1)
  t.same(both(LOST), [0, 0])
  t.match(await accept(), { code: 1, errors: /no loss to accept/ })

  await client.flushall()
  // Before any node has noticed, too.
  await call(0)
  await call(1)
  t.ok(await waitUntil(() => both(LOST).every((lines) => lines === 1)), 'each node says it')
  // What a node has leased before it noticed is handed out for a moment.
  const isRefused = async () => (await call(0)) === 503 && (await call(1)) === 503
  t.ok(await waitUntil(isRefused), 'what was left is not known')
  t.same([await lostAt(0), await lostAt(1)], ['1', '1'])
  t.ok(await waitUntil(() => alerts().includes('alert.opened'), 20_000), 'an alert is sent')

  // One that starts now has it from the store.
  await fleet.restartNode(0, 'SIGKILL')
  t.ok(await waitUntil(() => told(fleet.node(0), LOST) === 1), 'a node that starts says it')
  t.equal(await call(0), 503)
  t.match(await fleet.restartNode(1, 'SIGKILL'), null)
  t.equal(await call(1), 503, 'nor does the last one forget it that remembered')
  t.equal(await generation(), null, 'no node gives it a new one')
  t.equal(await grants(), 0, 'no grant was booked again')

  t.match(await accept(), { code: 0, output: new RegExp(`accepted the loss of ${first}`) })
  const isAccepted = () => both(ACCEPTED).every((lines) => lines === 1)
  t.ok(await waitUntil(isAccepted), 'each node goes on')
  t.same([await call(0), await call(1)], [200, 200])
  t.equal(await grants(), 1, 'and the grant is booked once more')
  t.same([await lostAt(0), await lostAt(1)], ['0', '0'])
  t.ok(await waitUntil(() => alerts().includes('alert.recovered'), 20_000))
  t.match(await accept(), { code: 1 })

  // Another Redis, such as that of another installation.
  await client.hset(keys.generation, { id: 'gen_other', after: 'gen_unknown' })
  t.ok(
    await waitUntil(() => both(LOST).every((lines) => lines === 2)),
    'a node that meets another generation',
  )
})
