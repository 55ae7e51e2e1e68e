import type { ServerResponse } from 'node:http'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { type Fleet, startFleet } from '../support/fleet.ts'
import { serveHttp } from '../support/http-server.ts'

const NODES = 3
/** Calls that the account has at once at its provider. */
export const PERMITS = 8
const SERVICE_MS = 200
/** Each has a key and credits; any of them may be the one that floods. */
export const PERMITS_TENANTS = ['one', 'two', 'flood'] as const
type Tenant = (typeof PERMITS_TENANTS)[number]

/** A provider that takes its time, and knows how many calls it has had at once, and in which order they came. */
async function openProvider(t: Test) {
  const open = new Set<ServerResponse>()
  const places = new Map<string, number>()
  let begun = 0
  let most = 0
  const body = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'hello' } }] })
  const origin = await serveHttp(t, (request, response) => {
    open.add(response)
    most = Math.max(most, open.size)
    // Also when its node is killed.
    response.on('close', () => open.delete(response))
    const answer = async () => {
      places.set(JSON.parse(await text(request)).messages[0].content, begun)
      begun += 1
      await sleep(SERVICE_MS)
      open.delete(response)
      response.writeHead(200, { 'content-type': 'application/json' }).end(body)
    }
    // Its node was killed.
    answer().catch(() => response.destroy())
  })
  return {
    origin,
    open: () => open.size,
    /** How many calls have come. */
    begun: () => begun,
    /** How many had come before the one with this text, which is forgotten; undefined: it never came. */
    placeOf: (text: string) => {
      const place = places.get(text)
      places.delete(text)
      return place
    },
    /** The most since this was asked last. */
    most: () => {
      const found = most
      most = open.size
      return found
    },
  }
}

/** Three nodes on one Redis, whose one account of a provider has `PERMITS` permits for all tenants. */
export async function startPermitNodes(t: Test) {
  const provider = await openProvider(t)
  const entries = [{ provider: 'slow', model: 'gpt-4o-mini' }]
  const fleet = await startFleet(t, {
    nodes: NODES,
    redis: {},
    providers: {
      slow: {
        ...{ kind: 'openai-compatible', access: 'platform', base_url: `${provider.origin}/v1` },
        ...{ capabilities: ['text'], price: { per_1m_input_tokens_usd: 0, per_1m_output_tokens_usd: 0 } },
        ...{ concurrency: PERMITS, queue_ms: 30_000 },
      },
    },
    workspaces: Object.fromEntries(
      PERMITS_TENANTS.map((name) => [name, { entries, terms: { credits_usd: 1, grant_id: 'first' } }]),
    ),
  })
  return { provider, fleet }
}

export type PermitNodes = Awaited<ReturnType<typeof startPermitNodes>>

/** Calls of a tenant, one after the other, at every node in turn, until it is told to stop. */
export function callOn({ provider, fleet }: PermitNodes, tenant: Tenant, callers: number) {
  let isOver = false
  const tookMs: number[] = []
  const behind: number[] = []
  const statuses = new Map<number, number>()
  const one = async (caller: number) => {
    for (let turn = caller; !isOver; turn += 1) {
      const text = `${tenant} ${caller} ${turn}`
      const begunBefore = provider.begun()
      const startMs = performance.now()
      const status = await chat(fleet, tenant, turn % NODES, text)
      statuses.set(status, (statuses.get(status) ?? 0) + 1)
      const place = provider.placeOf(text)
      if (status === 200 && place !== undefined) {
        tookMs.push(performance.now() - startMs)
        behind.push(place - begunBefore)
      }
      // Its node is being killed.
      else await sleep(50)
    }
  }
  const over = Promise.all(Array.from({ length: callers }, (_, at) => one(at)))
  /** @returns of its calls, each sorted: how long they took, and how many others the provider got while they waited */
  const stop = async () => {
    isOver = true
    await over
    return { tookMs: ascending(tookMs), behind: ascending(behind), statuses }
  }
  return { stop }
}

function ascending(numbers: number[]): readonly number[] {
  return numbers.sort((a, b) => a - b)
}

/** @returns 0 when there is no answer */
async function chat(fleet: Fleet, tenant: Tenant, at: number, content: string): Promise<number> {
  try {
    const response = await fetch(`${fleet.node(at).url}/v1/chat`, {
      method: 'POST',
      headers: { authorization: fleet.authorizationOf(tenant), 'content-type': 'application/json' },
      body: JSON.stringify({ messages: [{ role: 'user', content }] }),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}
