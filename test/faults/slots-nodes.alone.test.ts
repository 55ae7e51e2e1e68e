import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import t, { type Test } from 'tap'
import { keys } from '../../src/state/redis/key-names.ts'
import { type Fleet, killNowAndThen, startFleet } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'
import { withoutServers } from '../support/servers.ts'
import { waitUntil } from '../support/wait-until.ts'

const NODES = 3
const SLOTS = 8
const SERVICE_MS = 200
/** As `RedisSlots` leases them, and some time for a busy machine. */
const LEASE_MS = 15_000 + 5_000
const KILLS = 4
const TENANTS = ['one', 'two', 'flood'] as const
type Tenant = (typeof TENANTS)[number]

/** A provider that takes its time, and knows how many calls it has had at once. */
async function openProvider(t: Test) {
  const open = new Set<ServerResponse>()
  let most = 0
  const body = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'hello' } }] })
  const origin = await serveHttp(t, (request, response) => {
    open.add(response)
    most = Math.max(most, open.size)
    // Also when its node is killed.
    response.on('close', () => open.delete(response))
    request.resume().on('end', async () => {
      await sleep(SERVICE_MS)
      open.delete(response)
      response.writeHead(200, { 'content-type': 'application/json' }).end(body)
    })
  })
  return {
    origin,
    open: () => open.size,
    /** The most since this was asked last. */
    most: () => {
      const found = most
      most = open.size
      return found
    },
  }
}

async function startNodes(t: Test) {
  const provider = await openProvider(t)
  const entries = [{ provider: 'slow', model: 'gpt-4o-mini' }]
  const fleet = await startFleet(t, {
    nodes: NODES,
    redis: {},
    providers: {
      slow: {
        ...{ kind: 'openai-compatible', access: 'platform', base_url: `${provider.origin}/v1` },
        ...{ capabilities: ['text'], price: { per_1m_input_tokens_usd: 0, per_1m_output_tokens_usd: 0 } },
        ...{ concurrency: SLOTS, queue_ms: 30_000 },
      },
    },
    workspaces: Object.fromEntries(
      TENANTS.map((name) => [name, { entries, terms: { credits_usd: 1, grant_id: 'first' } }]),
    ),
  })
  return { provider, fleet }
}

/** Calls of a tenant, one after the other, at every node in turn, until it is told to stop. */
function callOn(fleet: Fleet, tenant: Tenant, callers: number) {
  let isOver = false
  const tookMs: number[] = []
  const statuses = new Map<number, number>()
  const one = async (first: number) => {
    for (let turn = first; !isOver; turn += 1) {
      const startMs = performance.now()
      const status = await chat(fleet, tenant, turn % NODES)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      if (status === 200) tookMs.push(performance.now() - startMs)
      // Its node is being killed.
      else await sleep(50)
    }
  }
  const over = Promise.all(Array.from({ length: callers }, (_, at) => one(at)))
  const stop = async () => {
    isOver = true
    await over
    return { tookMs: tookMs.sort((a, b) => a - b), statuses }
  }
  return { stop }
}

/** @returns 0 when there is no answer */
async function chat(fleet: Fleet, tenant: Tenant, at: number): Promise<number> {
  try {
    const response = await fetch(`${fleet.node(at).url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf(tenant), 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content: 'hello' }] }),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}

const p99 = (sorted: readonly number[]) => sorted[Math.ceil(sorted.length * 0.99) - 1] ?? Number.NaN

t.test(
  'three nodes share the slots of an account, and one tenant keeps no other one waiting',
  {
    skip: withoutServers,
    timeout: 240_000,
  },
  async (t) => {
    const { provider, fleet } = await startNodes(t)
    const measure = async (seconds: number, flood: number) => {
      const running = [callOn(fleet, 'one', 2), callOn(fleet, 'two', 2), callOn(fleet, 'flood', flood)]
      await sleep(seconds * 1_000)
      const [one, two, flooding] = await Promise.all(running.map(({ stop }) => stop()))
      for (const { statuses } of [one!, two!, flooding!])
        t.same(
          [...statuses.keys()].filter((status) => status !== 200),
          [],
        )
      return [one!.tookMs, two!.tookMs, flooding!.tookMs] as const
    }
    // Connections and code are warm then.
    await measure(2, 0)
    const alone = await measure(10, 0)
    t.ok(provider.most() <= 4)
    const beside = await measure(15, 60)
    t.equal(provider.most(), SLOTS, 'all of them are used, and no more')
    for (const [at, name] of ['one', 'two'].entries()) {
      const [before, after] = [p99(alone[at]!), p99(beside[at]!)]
      const said = `${name}: p99 ${Math.round(before)} ms alone, ${Math.round(after)} ms beside the flood`
      t.ok(after <= 2 * before, `${said}, of ${alone[at]!.length} and ${beside[at]!.length} calls`)
      t.comment(said)
    }
    t.comment(`flood: p99 ${Math.round(p99(beside[2]))} ms of ${beside[2].length} calls`)
  },
)

t.test(
  'kills of nodes lose no slot for longer than its lease, and give out none twice',
  {
    skip: withoutServers,
    timeout: 400_000,
  },
  async (t) => {
    const { provider, fleet } = await startNodes(t)
    const redis = new Redis(fleet.redis.url)
    t.teardown(() => redis.disconnect())
    const held = `${keys.slots}:held:calls:slow`
    const running = TENANTS.map((tenant) => callOn(fleet, tenant, 8))
    await sleep(2_000)
    const killed = await killNowAndThen(fleet, (count) => count < KILLS)
    t.equal(killed, KILLS)
    t.equal(provider.most(), SLOTS, 'all of them were used, and no more')
    // What the last of them held is free again, all of it.
    await sleep(LEASE_MS)
    provider.most()
    const isFull = await waitUntil(() => provider.open() === SLOTS)
    t.ok(isFull, 'all of them are used again')
    const ended = await Promise.all(running.map(({ stop }) => stop()))
    t.equal(provider.most(), SLOTS)
    for (const { tookMs, statuses } of ended) {
      t.ok(tookMs.length > 50, `${tookMs.length} calls`)
      t.same(
        [...statuses.keys()].filter((status) => ![0, 200].includes(status)),
        [],
      )
    }
    t.ok(await waitUntil(async () => (await redis.zcard(held)) === 0), 'nothing is held by anybody')
  },
)
