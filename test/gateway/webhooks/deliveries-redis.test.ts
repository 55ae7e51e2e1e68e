import t from 'tap'
import { startRedis } from '../../support/redis-server.ts'
import { openRedisState } from '../../support/redis-state.ts'
import { withoutServers } from '../../support/servers.ts'
import { waitUntil } from '../../support/wait-until.ts'
import { answering, type Behaviour, startReceiver } from '../../support/webhook-receiver.ts'
import { startWebhookRig } from '../../support/webhook-rig.ts'

t.setTimeout(60_000)

t.test(
  'nodes with one Redis share the events, and the places of a workspace',
  { skip: withoutServers },
  async (t) => {
    const EVENTS = 60
    const workspaces = ['one', 'two', 'three', 'four', 'five']
    const open = new Map<string, number>()
    let most = 0
    const behave: Behaviour = (line, delivery) => {
      const { path } = delivery
      const share = (open.get(path) ?? 0) + 1
      open.set(path, share)
      most = Math.max(most, share)
      setTimeout(() => {
        open.set(path, (open.get(path) ?? 1) - 1)
        answering(path === '/gone' ? 410 : 200)(line, delivery)
      }, 30)
    }
    const receiver = await startReceiver(t, behave, { names: null })
    const { url } = await startRedis(t)
    const options = {
      internet: { '127.0.0.1': receiver },
      post: { insecure: true, timing: { totalMs: 10_000, bodyMs: 500 } },
      timing: { pollMs: 300 },
    }
    const nodes = [
      startWebhookRig(t, { ...options, state: await openRedisState(t, url) }),
      startWebhookRig(t, { ...options, state: await openRedisState(t, url) }),
    ] as const
    const [rig, other] = nodes
    // They share the keys of secrets, as nodes do.
    other.secretKeys.splice(0, 1, ...rig.secretKeys)

    const target = `http://127.0.0.1:${receiver.port}`
    await rig.setWebhook('gone', `${target}/gone`)
    const gone = await rig.announce('gone', 'failed')
    await rig.announce('without')
    for (const workspace of workspaces) await rig.setWebhook(workspace, `${target}/${workspace}`)
    const jobs = await Promise.all(
      workspaces.flatMap((workspace) => Array.from({ length: EVENTS }, () => rig.announce(workspace))),
    )
    for (const node of nodes) node.start()
    t.ok(await waitUntil(() => receiver.received.length === EVENTS * workspaces.length + 1, 30_000))
    t.ok(await rig.settled())
    const delivered = receiver.received.map(({ body }) => String(JSON.parse(body).job_id))
    t.same(delivered.sort(), [...jobs, gone].sort(), 'each once')
    t.ok(most <= 16, `${most} at a time`)
    const left = await rig.state.outbox.list(null, 100)
    t.match(left, [{ jobId: gone, attempts: 1, reason: 'status 410', nextAttemptAtMs: null }])
    const ends = nodes.flatMap(({ log }) => log).filter(({ msg }) => msg === 'webhook')
    t.equal(ends.length, EVENTS * workspaces.length + 1, 'whichever node did it')
  },
)

t.test(
  'through kills of Redis every event is delivered, and none is lost',
  { skip: withoutServers },
  async (t) => {
    const EVENTS = 120
    const behave: Behaviour = (line, delivery) => {
      setTimeout(() => answering(200)(line, delivery), 50)
    }
    const receiver = await startReceiver(t, behave, { names: null })
    const redis = await startRedis(t, { durable: true })
    const rig = startWebhookRig(t, {
      internet: { '127.0.0.1': receiver },
      post: { insecure: true, timing: { totalMs: 2_000, bodyMs: 500 } },
      // Half of a lease is enough for a delivery; what a kill leaves behind is handed out again after it.
      timing: { leaseMs: 4_000, pollMs: 100 },
      state: await openRedisState(t, redis.url),
    })
    await rig.setWebhook('acme', `http://127.0.0.1:${receiver.port}/`)
    const jobs: string[] = []
    // A few at a time: each waits for the disk, and none longer than a call of the state may take.
    while (jobs.length < EVENTS)
      jobs.push(...(await Promise.all(Array.from({ length: 10 }, () => rig.announce('acme')))))
    rig.start()
    for (const part of [0.2, 0.5, 0.8]) {
      t.ok(await waitUntil(() => receiver.received.length >= EVENTS * part))
      await redis.restart()
    }
    const arrived = () => new Set(receiver.received.map(({ body }) => String(JSON.parse(body).job_id)))
    t.ok(await waitUntil(() => arrived().size === EVENTS, 40_000))
    t.same([...arrived()].sort(), jobs.sort())
    t.ok(
      await waitUntil(
        async () => (await rig.state.outbox.list(null, 1_000).catch(() => [null])).length === 0,
        20_000,
      ),
    )
    t.comment(`${receiver.received.length} deliveries of ${EVENTS} events`)
  },
)
