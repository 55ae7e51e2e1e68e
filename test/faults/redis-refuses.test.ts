import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { startFleet } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'
import type { Larkway } from '../support/larkway.ts'
import { startRedis } from '../support/redis-server.ts'
import { startServerLink } from '../support/server-link.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

const PERMITS = 4
const SERVICE_MS = 100
const CALLERS = 10
/** Nothing may fail for so long until an outage counts as over. */
const CALM_MS = 5_000
/** Lines that come once in the calm time at most, however often the cause comes and goes. */
const PAIRS = [
  ['Redis is away', 'Redis is back'],
  [
    'Redis does not answer: this node keeps the rate limits alone',
    'Redis answers again: the nodes share the rate limits',
  ],
  [
    'Redis gives no permits: this node counts permits alone',
    'Redis gives permits again: the nodes share their permits',
  ],
] as const

/** A provider that knows how many calls it has at once. */
async function openProvider(t: Test) {
  const open = new Set<ServerResponse>()
  let [begun, most] = [0, 0]
  const body = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'hello' } }] })
  const origin = await serveHttp(t, async (request, response) => {
    open.add(response)
    begun += 1
    most = Math.max(most, open.size)
    request.resume()
    await sleep(SERVICE_MS)
    open.delete(response)
    response.writeHead(200, { 'content-type': 'application/json' }).end(body)
  })
  return { origin, begun: () => begun, most: () => most, open: () => open.size }
}

/** A node whose line to Redis can be cut, and callers whose calls need permits and nothing else of the state. */
async function startRig(t: Test) {
  const server = await startRedis(t)
  const client = new Redis(server.url)
  t.teardown(() => client.disconnect())
  const link = await startServerLink(t, server.port)
  const provider = await openProvider(t)
  const fleet = await startFleet(t, {
    redis: { url: `redis://${link.host}` },
    env: { LARKWAY_JOBS: '0' },
    providers: {
      slow: {
        ...{
          kind: 'openai-compatible',
          access: 'byok',
          workspace: 'acme',
          base_url: `${provider.origin}/v1`,
        },
        ...{ capabilities: ['text'], price: { per_1m_input_tokens_usd: 0, per_1m_output_tokens_usd: 0 } },
        // Longer than a node takes to notice that Redis does not answer.
        ...{ concurrency: PERMITS, queue_ms: 5_000 },
      },
    },
    workspaces: { acme: { entries: [{ provider: 'slow', model: 'gpt-4o-mini' }] } },
  })
  const statuses = new Map<number, number>()
  let isOver = false
  const caller = async () => {
    while (!isOver) {
      const response = await fetch(`${fleet.node().url}/v1/chat`, {
        method: 'POST',
        headers: { authorization: fleet.authorizationOf('acme'), 'content-type': 'application/json' },
        body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
      })
      await response.arrayBuffer()
      statuses.set(response.status, (statuses.get(response.status) ?? 0) + 1)
    }
  }
  const over = Promise.all(Array.from({ length: CALLERS }, caller))
  const stop = async () => {
    isOver = true
    await over
  }
  /** Waits until so many more calls have come to the provider. */
  const more = async (calls: number) => {
    const before = provider.begun()
    t.ok(await waitUntil(() => provider.begun() >= before + calls, 60_000), `${calls} more calls`)
  }
  return { client, link, provider, node: fleet.node(), more, stop, statuses }
}

const saying = ({ log }: Larkway, words: string) => log.filter(({ msg }) => msg === words).length

t.test('a node whose Redis goes and comes', { skip: withoutServers, timeout: 180_000 }, async (t) => {
  const { client, link, provider, node, more, stop, statuses } = await startRig(t)
  const outages: Readonly<Record<string, (begins: boolean) => Promise<unknown>>> = {
    'is cut off': (begins) => (begins ? link.cut() : link.mend()),
    'is full': (begins) => client.config('SET', 'maxmemory', begins ? '1' : '0'),
    'is a replica': (begins) => (begins ? client.replicaof('127.0.0.1', 1) : client.replicaof('NO', 'ONE')),
    'is slow': async (begins) => {
      link.delayMs = begins ? 600 : 0
    },
  }
  await more(20)
  for (const [name, change] of Object.entries(outages)) {
    const before = PAIRS.map(([away]) => saying(node, away))
    const changedMs = performance.now()
    await change(true)
    const [, , [noPermits]] = PAIRS
    t.ok(
      await waitUntil(() => saying(node, noPermits) > (before[2] ?? 0), 20_000),
      `${name}: it counts alone`,
    )
    await more(60)
    await change(false)
    const beganMs = performance.now()
    await more(PERMITS * 5)
    t.comment(`${name}: ${PERMITS * 5} calls within ${Math.round(performance.now() - beganMs)} ms of its end`)
    const isOver = () => PAIRS.every(([away, back]) => saying(node, away) === saying(node, back))
    t.ok(await waitUntil(isOver, 30_000), `${name}: it is told that it is over`)
    // A machine that is busy for as long as the rate limits wait begins another outage, once the first one is over.
    const most = 1 + Math.floor((performance.now() - changedMs) / CALM_MS)
    const told = PAIRS.map(([away], at) => saying(node, away) - (before[at] ?? 0))
    t.ok(
      told.every((lines) => lines <= most),
      `${name}: at most ${most} of each pair of lines: ${told}`,
    )
  }
  t.equal(provider.most(), PERMITS, 'all were used, and no more at any time')
  await stop()
  t.same([...statuses.keys()], [200], 'and no call was refused')
})
