import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startNginx } from '../support/nginx-server.ts'
import { cpuMsOf } from '../support/process-load.ts'
import { RawClient } from '../support/raw-client.ts'
import { withoutServers } from '../support/servers.ts'
import { startEdgeProduct } from './edge-product.ts'

const REQUESTS = 400
const PER_SECOND = 100
const BESIDE_MS = 3_000
/** CPU of an attacking request against one of the same length that is refused all the same. */
const MOST_RATIO = 3

t.setTimeout(120_000)

/** A request without a key whose long values are one character, and one byte over ASCII that has them looked at. */
function refusedHead(filler: string, [bytes, ...others]: readonly number[]): string {
  const value = (length = 0) => `a${filler.repeat(length)}a`
  const lines = [
    `Authorization: ${value(bytes)}`,
    ...others.map((length) => `X-LK-Purpose: ${value(length)}`),
  ]
  return ['GET /v1/me HTTP/1.1', 'Host: a', ...lines, 'X-E: \xe9', '', ''].join('\r\n')
}

/** @returns the status, which must be one of a refusal */
async function refuse(client: RawClient, head: string): Promise<void> {
  await client.send(head)
  const { status = 0 } = (await client.response({ timeoutMs: 30_000 })) ?? {}
  if (status < 400 || status >= 500) throw new Error(`answered ${status}`)
}

/** CPU of the node for each of many requests, in ms. */
async function cpuFor(pid: number, port: number, head: string): Promise<number> {
  const client = await RawClient.connect(port)
  const before = await cpuMsOf(pid)
  for (let sent = 0; sent < REQUESTS; sent += 1) await refuse(client, head)
  client.destroy()
  return ((await cpuMsOf(pid)) - before) / REQUESTS
}

/** What another tenant waits for its calls until `isOver`, the worst of a hundred, in ms. */
async function p99Of(t: Test, port: number, authorization: string, isOver: () => boolean): Promise<number> {
  const client = await RawClient.connect(port)
  const waited: number[] = []
  const statuses = new Set<number>()
  while (!isOver()) {
    const startedMs = performance.now()
    await client.send(`GET /v1/me HTTP/1.1\r\nHost: a\r\nAuthorization: ${authorization}\r\n\r\n`)
    statuses.add((await client.response({ timeoutMs: 30_000 }))?.status ?? 0)
    waited.push(performance.now() - startedMs)
    await sleep(2)
  }
  client.destroy()
  t.same([...statuses], [200], 'the other tenant is answered')
  return waited.sort((a, b) => a - b)[Math.floor(waited.length * 0.99)] ?? 0
}

async function attack(port: number, head: string): Promise<void> {
  const client = await RawClient.connect(port)
  const startedMs = performance.now()
  for (let sent = 0; sent < (PER_SECOND * BESIDE_MS) / 1_000; sent += 1) {
    await refuse(client, head)
    await sleep(Math.max(0, startedMs + ((sent + 1) * 1_000) / PER_SECOND - performance.now()))
  }
  client.destroy()
}

t.test('blanks inside of values cost a node no more than letters', { skip: withoutServers }, async (t) => {
  const node = await startEdgeProduct(t)
  const nginx = await startNginx(t, [node.port, node.port, node.port])
  const ways = { direct: [node.port, [15_500]], 'behind nginx': [nginx.port, [6_900, 6_900]] } as const
  for (const [way, [port, lengths]] of Object.entries(ways)) {
    await cpuFor(node.pid, port, refusedHead('b', lengths))
    const letters = await cpuFor(node.pid, port, refusedHead('b', lengths))
    const tabs = await cpuFor(node.pid, port, refusedHead('\t', lengths))
    t.ok(
      tabs <= MOST_RATIO * Math.max(letters, 0.1),
      `${way}: ${tabs.toFixed(2)} ms of CPU, letters ${letters.toFixed(2)}`,
    )
    let isOver = false
    const aloneUntilMs = performance.now() + BESIDE_MS
    const alone = await p99Of(t, port, node.authorization, () => performance.now() > aloneUntilMs)
    const attacked = attack(port, refusedHead('\t', lengths)).finally(() => {
      isOver = true
    })
    const beside = await p99Of(t, port, node.authorization, () => isOver)
    await attacked
    t.comment(`${way}: p99 of another tenant ${alone.toFixed(1)} ms alone, ${beside.toFixed(1)} ms beside`)
  }
})
