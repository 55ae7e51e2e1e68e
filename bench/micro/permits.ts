// Cost of a small chat at a provider with a limit of calls at once, and at one of several servers, against one
// with neither. All in turns in one run: the gateway's own parts, without the door, to a server in another process.
// Counts the CPU of this process alone, so not that of Redis. Justifies that a provider with one address and no limit
// pays for neither, and says what a permit costs with Redis: where many are free, and where calls wait for one.
// Run: node bench/micro/permits.ts [rounds, default 30]
// Status 1 when several servers, or a limit without Redis, cost over a tenth more.

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import type { ConfiguredProvider } from '../../src/contracts/catalog.ts'
import type { Permits } from '../../src/contracts/permits.ts'
import { configuredProvider } from '../../test/support/catalog.ts'
import { chatCall, entryAt, type GatewayRig, gatewayRig, runWhole } from '../../test/support/gateway-rig.ts'
import { startRedis } from '../../test/support/redis-server.ts'
import { openRedisState } from '../../test/support/redis-state.ts'

const rounds = Number(process.argv[2] ?? 30)
/** Not counted: code and connections are warm then. */
const WARM = 5
const CALLS = 400
/** Callers at a time. */
const WIDTH = 8
const MOST = 1.1
const PROBE = { path: null, intervalMs: 5_000, timeoutMs: 2_000, unhealthyAfter: 3, healthyAfter: 1 }

const SERVER = `
const body = JSON.stringify({ choices: [{ message: { role: 'assistant', content: 'hello' } }] })
const head = { 'content-type': 'application/json' }
const answer = (request, response) => request.resume().on('end', () => response.writeHead(200, head).end(body))
require('node:http').createServer(answer).listen(0, '127.0.0.1', function () { console.log(this.address().port) })
`

const ended: (() => unknown)[] = []
const t = { teardown: (end: () => unknown) => void ended.push(end) } as Parameters<typeof gatewayRig>[0]

async function startServer(): Promise<string> {
  const child = spawn(process.execPath, ['-e', SERVER], { stdio: ['ignore', 'pipe', 'inherit'] })
  ended.push(() => child.kill())
  const [port] = (await once(child.stdout, 'data')) as [Buffer]
  return `http://127.0.0.1:${String(port).trim()}`
}

function openRig(origin: string, overrides: Partial<ConfiguredProvider>, permits?: Permits): GatewayRig {
  const owner = { access: 'byok', workspace: 'acme' } as const
  const provider = configuredProvider({ baseUrl: `${origin}/v1`, ...owner, ...overrides })
  const rig = gatewayRig(t, { entries: [entryAt(origin, { provider })] })
  if (permits === undefined) return rig
  return { ...rig, services: { ...rig.services, state: { ...rig.services.state, permits } } }
}

/** @returns µs of CPU per call */
async function measure(rig: GatewayRig): Promise<number> {
  let left = CALLS
  const caller = async () => {
    while (left > 0) {
      left -= 1
      const outcome = await runWhole(rig.services, rig.request('chat', chatCall()))
      outcome.release()
    }
  }
  const before = process.cpuUsage()
  await Promise.all(Array.from({ length: WIDTH }, caller))
  const { user, system } = process.cpuUsage(before)
  return (user + system) / CALLS
}

const median = (values: readonly number[]) =>
  [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN

const origin = await startServer()
const redis = await startRedis(t as Parameters<typeof startRedis>[0])
const { permits } = await openRedisState(t as Parameters<typeof openRedisState>[0], redis.url)
const baseUrls = ['', '/second', '/third'].map((path) => `${origin}${path}/v1`)
const reached = { name: 'reached', concurrency: WIDTH - 2, queueMs: 60_000 }
const rigs = [
  ['neither', openRig(origin, {})],
  ['three servers', openRig(origin, { pool: { baseUrls, probe: PROBE } })],
  ['a limit, embedded', openRig(origin, { concurrency: 1_000 })],
  ['a limit, Redis', openRig(origin, { concurrency: 1_000 }, permits)],
  ['a limit that is reached, Redis', openRig(origin, reached, permits)],
] as const
const costs = new Map<string, number[]>(rigs.map(([name]) => [name, []]))
for (let round = -WARM; round < rounds; round += 1)
  for (let turn = 0; turn < rigs.length; turn += 1) {
    const [name, rig] = rigs[(turn + round + WARM) % rigs.length]!
    const cost = await measure(rig)
    if (round >= 0) costs.get(name)!.push(cost)
  }

const plain = costs.get('neither')!
for (const [name, found] of costs) {
  const more = median(found.map((cost, round) => cost - plain[round]!))
  console.log(`${name.padEnd(32)} ${median(found).toFixed(1)} µs of CPU per call, ${more.toFixed(1)} more`)
  if (!name.endsWith('Redis') && more > median(plain) * (MOST - 1)) process.exitCode = 1
}
for (const end of ended.reverse()) await end()
process.exit()
